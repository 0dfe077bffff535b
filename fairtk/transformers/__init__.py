"""PyTerrier transformers: samplers, scorers, candidates and generators, imported on first use.

For those who write one: `FairTransformer`, the base, and checks of settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily

if TYPE_CHECKING:
    from fairtk.transformers.base import FairTransformer
    from fairtk.transformers.bm25 import BM25Scorer
    from fairtk.transformers.candidates import Candidates
    from fairtk.transformers.each_document import EachDocument
    from fairtk.transformers.exposures import FixedExposure, OracleExposure, PlackettLuceExposure
    from fairtk.transformers.flan_t5 import FlanT5
    from fairtk.transformers.generator import Generator
    from fairtk.transformers.neural import ContrieverScorer, NeuralScorer, SpladeScorer
    from fairtk.transformers.oracle import OracleSampler
    from fairtk.transformers.per_sample import PerSample
    from fairtk.transformers.sampler import FairSampler
    from fairtk.transformers.scorer import Scorer
    from fairtk.transformers.settings import depth, whole

__all__ = [
    "BM25Scorer",
    "Candidates",
    "ContrieverScorer",
    "EachDocument",
    "FairSampler",
    "FairTransformer",
    "FixedExposure",
    "FlanT5",
    "Generator",
    "NeuralScorer",
    "OracleExposure",
    "OracleSampler",
    "PerSample",
    "PlackettLuceExposure",
    "Scorer",
    "SpladeScorer",
    "depth",
    "whole",
]

__getattr__ = lazily(
    __name__,
    {
        "base": ("FairTransformer",),
        "bm25": ("BM25Scorer",),
        "candidates": ("Candidates",),
        "each_document": ("EachDocument",),
        "exposures": ("FixedExposure", "OracleExposure", "PlackettLuceExposure"),
        "flan_t5": ("FlanT5",),
        "generator": ("Generator",),
        "neural": ("ContrieverScorer", "NeuralScorer", "SpladeScorer"),
        "oracle": ("OracleSampler",),
        "per_sample": ("PerSample",),
        "sampler": ("FairSampler",),
        "scorer": ("Scorer",),
        "settings": ("depth", "whole"),
    },
)
