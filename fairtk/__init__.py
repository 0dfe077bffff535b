"""fairtk: who gets seen, by people or by a language model, and what that costs or gains.

Importing fairtk loads the plugins, makes their measures known to ir_measures and their data sets
to ir_datasets. Transformers and everything heavy are imported on first use; by the command line,
everything is.
"""

from __future__ import annotations

from fairtk.starting import interrupts

interrupts.end_at_once()  # before all that takes time

import importlib  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

__version__ = "0.2.0"

_LAZY = {
    **dict.fromkeys(("AWRF", "ByGroup", "E", "EE_D", "EE_L", "EE_R", "EU"), "fairtk.measures"),
    **dict.fromkeys(("FairMeasure", "drop_undefined"), "fairtk.measures"),
    **dict.fromkeys(("nDCG_AWRF", "nDCG_TREC"), "fairtk.measures"),
    "hookimpl": "fairtk.plugins",
    "BM25Scorer": "fairtk.transformers",
    "EachDocument": "fairtk.transformers",
    "Candidates": "fairtk.transformers",
    "ContrieverScorer": "fairtk.transformers",
    "Experiment": "fairtk.experiment",
    "FairQR": "fairtk.fair_qr",
    "FairSampler": "fairtk.transformers",
    "FixedExposure": "fairtk.transformers",
    "FlanT5": "fairtk.transformers",
    "Generator": "fairtk.transformers",
    "Groups": "fairtk.groups",
    "Target": "fairtk.groups",
    "register_groups": "fairtk.groups.registered",
    "register_target": "fairtk.groups.registered",
    "OracleExposure": "fairtk.transformers",
    "OracleSampler": "fairtk.transformers",
    "PerSample": "fairtk.transformers",
    "PlackettLuceExposure": "fairtk.transformers",
    "QueryRefiner": "fairtk.fair_qr",
    "Results": "fairtk.experiment",
    "SpladeScorer": "fairtk.transformers",
    "cite": "fairtk.documentation",
    "compare": "fairtk.evaluation",
    "coverage": "fairtk.groups.coverage",
    "conformance": "fairtk.conformity",
    "doctor": "fairtk.diagnosis",
    "evaluate": "fairtk.evaluation",
    "frontier": "fairtk.robustness",
    "sensitivity": "fairtk.robustness",
    "explain": "fairtk.explanation",
    "identified": "fairtk.experiment",
    "join_answers": "fairtk.datasets.answers",
    "tune": "fairtk.experiment",
    "off_policy_utility": "fairtk.certainty",
    "precision": "fairtk.certainty",
}
_MODULES = (
    "certainty",
    "datasets",
    "demo",
    "documentation",
    "errors",
    "experiment",
    "evaluation",
    "exposure",
    "fair_qr",
    "groups",
    "io",
    "llm",
    "measures",
    "plugins",
    "prompts",
    "statistics",
    "studies",
    "testing",
    "utilities",
)

from fairtk.starting import notices  # noqa: E402

notices.prepare()

if TYPE_CHECKING:
    from fairtk.certainty import off_policy_utility, precision
    from fairtk.conformity import conformance
    from fairtk.datasets.answers import join_answers
    from fairtk.diagnosis import doctor
    from fairtk.documentation import cite
    from fairtk.evaluation import compare, evaluate
    from fairtk.experiment import Experiment, Results, identified, tune
    from fairtk.explanation import explain
    from fairtk.fair_qr import FairQR, QueryRefiner
    from fairtk.groups import Groups, Target
    from fairtk.groups.coverage import coverage
    from fairtk.groups.registered import register_groups, register_target
    from fairtk.measures import (
        AWRF,
        EE_D,
        EE_L,
        EE_R,
        EU,
        ByGroup,
        E,
        FairMeasure,
        drop_undefined,
        nDCG_AWRF,
        nDCG_TREC,
    )
    from fairtk.plugins import hookimpl
    from fairtk.robustness import frontier, sensitivity
    from fairtk.transformers import (
        BM25Scorer,
        Candidates,
        ContrieverScorer,
        EachDocument,
        FairSampler,
        FixedExposure,
        FlanT5,
        Generator,
        OracleExposure,
        OracleSampler,
        PerSample,
        PlackettLuceExposure,
        SpladeScorer,
    )

__all__ = [
    "AWRF",
    "BM25Scorer",
    "ByGroup",
    "Candidates",
    "ContrieverScorer",
    "E",
    "EachDocument",
    "EE_D",
    "EE_L",
    "EE_R",
    "EU",
    "Experiment",
    "FairMeasure",
    "FairQR",
    "FairSampler",
    "FixedExposure",
    "FlanT5",
    "Generator",
    "OracleExposure",
    "OracleSampler",
    "PerSample",
    "PlackettLuceExposure",
    "QueryRefiner",
    "Results",
    "SpladeScorer",
    "cite",
    "compare",
    "coverage",
    "conformance",
    "frontier",
    "sensitivity",
    "doctor",
    "drop_undefined",
    "evaluate",
    "explain",
    "identified",
    "Groups",
    "Target",
    "register_groups",
    "register_target",
    "hookimpl",
    "join_answers",
    "nDCG_AWRF",
    "nDCG_TREC",
    "off_policy_utility",
    "precision",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"fairtk.{name}")
    raise AttributeError(f"module 'fairtk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


if not interrupts.is_command_line():  # which does it when a command runs, not for its help
    from fairtk.builtin import connect

    connect()
