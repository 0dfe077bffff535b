"""fairtk: who gets seen, by people or by a language model, and what that costs or gains.

Importing fairtk loads the plugins, makes their measures known to ir_measures and their data sets
to ir_datasets. Transformers and everything heavy are imported on first use; by the command line,
everything is.
"""

from __future__ import annotations

from fairtk.starting import interrupts

interrupts.end_at_once()  # before all that takes time

from typing import TYPE_CHECKING  # noqa: E402

from fairtk.starting import notices  # noqa: E402
from fairtk.starting.doors import lazily  # noqa: E402

__version__ = "0.2.0"

notices.prepare()

if TYPE_CHECKING:
    from fairtk import certainty as certainty
    from fairtk import datasets as datasets
    from fairtk import demo as demo
    from fairtk import documentation as documentation
    from fairtk import errors as errors
    from fairtk import evaluation as evaluation
    from fairtk import experiment as experiment
    from fairtk import exposure as exposure
    from fairtk import fair_qr as fair_qr
    from fairtk import groups as groups
    from fairtk import io as io
    from fairtk import llm as llm
    from fairtk import measures as measures
    from fairtk import plugins as plugins
    from fairtk import prompts as prompts
    from fairtk import statistics as statistics
    from fairtk import studies as studies
    from fairtk import testing as testing
    from fairtk import utilities as utilities
    from fairtk.certainty import off_policy_utility as off_policy_utility
    from fairtk.certainty import precision as precision
    from fairtk.conformity import conformance as conformance
    from fairtk.datasets.answers import join_answers as join_answers
    from fairtk.diagnosis import doctor as doctor
    from fairtk.documentation import cite as cite
    from fairtk.evaluation import compare as compare
    from fairtk.evaluation import evaluate as evaluate
    from fairtk.experiment import Experiment as Experiment
    from fairtk.experiment import Results as Results
    from fairtk.experiment import identified as identified
    from fairtk.experiment import tune as tune
    from fairtk.explanation import explain as explain
    from fairtk.fair_qr import FairQR as FairQR
    from fairtk.fair_qr import QueryRefiner as QueryRefiner
    from fairtk.groups import Groups as Groups
    from fairtk.groups import Target as Target
    from fairtk.groups.coverage import coverage as coverage
    from fairtk.groups.registered import register_groups as register_groups
    from fairtk.groups.registered import register_target as register_target
    from fairtk.measures import AWRF as AWRF
    from fairtk.measures import EE_D as EE_D
    from fairtk.measures import EE_L as EE_L
    from fairtk.measures import EE_R as EE_R
    from fairtk.measures import EU as EU
    from fairtk.measures import ByGroup as ByGroup
    from fairtk.measures import E as E
    from fairtk.measures import FairMeasure as FairMeasure
    from fairtk.measures import drop_undefined as drop_undefined
    from fairtk.measures import nDCG_AWRF as nDCG_AWRF
    from fairtk.measures import nDCG_TREC as nDCG_TREC
    from fairtk.plugins import hookimpl as hookimpl
    from fairtk.robustness import frontier as frontier
    from fairtk.robustness import sensitivity as sensitivity
    from fairtk.transformers import BM25Scorer as BM25Scorer
    from fairtk.transformers import Candidates as Candidates
    from fairtk.transformers import ContrieverScorer as ContrieverScorer
    from fairtk.transformers import EachDocument as EachDocument
    from fairtk.transformers import FairSampler as FairSampler
    from fairtk.transformers import FixedExposure as FixedExposure
    from fairtk.transformers import FlanT5 as FlanT5
    from fairtk.transformers import Generator as Generator
    from fairtk.transformers import OracleExposure as OracleExposure
    from fairtk.transformers import OracleSampler as OracleSampler
    from fairtk.transformers import PerSample as PerSample
    from fairtk.transformers import PlackettLuceExposure as PlackettLuceExposure
    from fairtk.transformers import SpladeScorer as SpladeScorer

__getattr__, __dir__, __all__ = lazily(__name__)

if not interrupts.is_command_line():  # which does it when a command runs, not for its help
    from fairtk.builtin import connect

    connect()
