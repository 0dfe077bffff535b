"""PyTerrier transformers: samplers, scorers, candidates and generators, imported on first use.

For those who write one: `FairTransformer`, the base, and checks of settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily

if TYPE_CHECKING:
    from fairtk.transformers.base import FairTransformer as FairTransformer
    from fairtk.transformers.bm25 import BM25Scorer as BM25Scorer
    from fairtk.transformers.candidates import Candidates as Candidates
    from fairtk.transformers.each_document import EachDocument as EachDocument
    from fairtk.transformers.exposures import FixedExposure as FixedExposure
    from fairtk.transformers.exposures import OracleExposure as OracleExposure
    from fairtk.transformers.exposures import PlackettLuceExposure as PlackettLuceExposure
    from fairtk.transformers.flan_t5 import FlanT5 as FlanT5
    from fairtk.transformers.generator import Generator as Generator
    from fairtk.transformers.neural import ContrieverScorer as ContrieverScorer
    from fairtk.transformers.neural import NeuralScorer as NeuralScorer
    from fairtk.transformers.neural import SpladeScorer as SpladeScorer
    from fairtk.transformers.oracle import OracleSampler as OracleSampler
    from fairtk.transformers.per_sample import PerSample as PerSample
    from fairtk.transformers.sampler import FairSampler as FairSampler
    from fairtk.transformers.scorer import Scorer as Scorer
    from fairtk.transformers.settings import depth as depth
    from fairtk.transformers.settings import whole as whole

__getattr__, __dir__, __all__ = lazily(__name__)
