"""PyTerrier transformers: samplers, scorers, candidates and generators, imported on first use.

For those who write one: `FairTransformer`, the base, and checks of settings.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_MODULES = {
    "BM25Scorer": "bm25",
    "Candidates": "candidates",
    "ContrieverScorer": "neural",
    "FairSampler": "sampler",
    "EachDocument": "each_document",
    "FairTransformer": "base",
    "FixedExposure": "exposures",
    "FlanT5": "flan_t5",
    "Generator": "generator",
    "NeuralScorer": "neural",
    "OracleExposure": "exposures",
    "OracleSampler": "oracle",
    "PerSample": "per_sample",
    "PlackettLuceExposure": "exposures",
    "Scorer": "scorer",
    "SpladeScorer": "neural",
    "depth": "settings",
    "whole": "settings",
}

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


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
