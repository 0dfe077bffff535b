"""Fair-ranking baselines as PyTerrier transformers, for fairtk.

Installing the distribution is all that is needed: ``fairtk qr`` then compares FAIR-QR with them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fairtk import hookimpl
from fairtk.plugins import StudySystemSpec, TransformerSpec

if TYPE_CHECKING:
    from fairtk_baselines.deltr import DELTR
    from fairtk_baselines.dlf import DLF
    from fairtk_baselines.fa_star_ir import FAStarIR
    from fairtk_baselines.features import Features
    from fairtk_baselines.mmr import MMR
    from fairtk_baselines.vector_search import VectorSearch

_TRANSFORMERS = {
    "DELTR": ("deltr", "learning to rank with a term for exposure (DELTR)", "R", "R"),
    "DLF": ("dlf", "relevance and fairness models, blended (DLF)", "R", "R"),
    "FAStarIR": ("fa_star_ir", "FA*IR: enough protected documents in every prefix", "R", "R"),
    "Features": ("features", "features for learning to rank", "R", "R"),
    "MMR": ("mmr", "maximal marginal relevance", "R", "R"),
    "VectorSearch": ("vector_search", "nearest documents by any bi-encoder", "Q", "R"),
}
_SOURCES = {
    "DELTR": "zehlike2020reducing",
    "DLF": "chen2023learn",
    "FAStarIR": "zehlike2017fair zehlike2022fair",
    "MMR": "CarbonellGoldstein1998",
}
"""Keys of ``references.bib``, by transformer."""

__all__ = ["DELTR", "DLF", "FAStarIR", "Features", "MMR", "VectorSearch"]


def __getattr__(name: str) -> Any:
    if name in _TRANSFORMERS:
        return getattr(importlib.import_module(f"{__name__}.{_TRANSFORMERS[name][0]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def fairtk_transformers() -> list[TransformerSpec]:
    """Return the transformers of this plugin."""
    return [
        TransformerSpec(
            name, f"{__name__}.{module}:{name}", about, takes, gives, citation=_SOURCES.get(name)
        )
        for name, (module, about, takes, gives) in _TRANSFORMERS.items()
    ]


@hookimpl
def fairtk_study_systems() -> list[StudySystemSpec]:
    """Return the systems that ``fairtk qr`` compares FAIR-QR with."""
    spec, study = StudySystemSpec, f"{__name__}.study"
    return [
        spec("vector-search", f"{study}:build_vector_search", "nearest vectors"),
        spec("dlf", f"{study}:build_dlf", "BM25, then DLF", trained=True, citation=_SOURCES["DLF"]),
        spec(
            "deltr",
            f"{study}:build_deltr",
            "BM25, then DELTR",
            trained=True,
            citation=_SOURCES["DELTR"],
        ),
        spec(
            "fa*ir", f"{study}:build_fa_star_ir", "BM25, then FA*IR", citation=_SOURCES["FAStarIR"]
        ),
        spec("mmr", f"{study}:build_mmr", "BM25, then MMR", citation=_SOURCES["MMR"]),
    ]
