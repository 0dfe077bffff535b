"""Fair-ranking baselines as PyTerrier transformers, for fairtk.

Installing the distribution is all that is needed: ``fairtk qr`` then compares FAIR-QR with them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fairtk import hookimpl
from fairtk.plugins.registry import StudySystemSpec, TransformerSpec

if TYPE_CHECKING:
    from fairtk_baselines.deltr import DELTR
    from fairtk_baselines.dlf import DLF
    from fairtk_baselines.fa_star_ir import FAStarIR
    from fairtk_baselines.features import Features
    from fairtk_baselines.mmr import MMR
    from fairtk_baselines.vector_search import VectorSearch

_MODULES = {
    "DELTR": "deltr",
    "DLF": "dlf",
    "FAStarIR": "fa_star_ir",
    "Features": "features",
    "MMR": "mmr",
    "VectorSearch": "vector_search",
}

__all__ = ["DELTR", "DLF", "FAStarIR", "Features", "MMR", "VectorSearch"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def fairtk_transformers() -> list[TransformerSpec]:
    """Return the transformers of this plugin."""
    summaries = {
        "DELTR": ("learning to rank with a term for exposure (DELTR)", "R", "R"),
        "DLF": ("relevance and fairness models, blended (DLF)", "R", "R"),
        "FAStarIR": ("FA*IR: enough protected documents in every prefix", "R", "R"),
        "Features": ("features for learning to rank", "R", "R"),
        "MMR": ("maximal marginal relevance", "R", "R"),
        "VectorSearch": ("nearest documents by any bi-encoder", "Q", "R"),
    }
    return [
        TransformerSpec(name, f"{__name__}.{_MODULES[name]}:{name}", *summary)
        for name, summary in summaries.items()
    ]


@hookimpl
def fairtk_study_systems() -> list[StudySystemSpec]:
    """Return the systems that ``fairtk qr`` compares FAIR-QR with."""
    spec = StudySystemSpec
    return [
        spec("vector-search", f"{__name__}.study.vector_search:build", "nearest vectors"),
        spec("dlf", f"{__name__}.study.dlf:build", "BM25, then DLF", trained=True),
        spec("deltr", f"{__name__}.study.deltr:build", "BM25, then DELTR", trained=True),
        spec("fa*ir", f"{__name__}.study.fa_star_ir:build", "BM25, then FA*IR"),
        spec("mmr", f"{__name__}.study.mmr:build", "BM25, then MMR"),
    ]
