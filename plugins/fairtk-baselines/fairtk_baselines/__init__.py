"""Fair-ranking baselines as PyTerrier transformers, for fairtk.

After installation, ``fairtk qr`` compares FAIR-QR with them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fairtk import hookimpl
from fairtk.plugins import StudySystemSpec, TransformerSpec

if TYPE_CHECKING:
    from fairtk_baselines.deltr import DELTR
    from fairtk_baselines.deterministic_sorting import (
        DetCons,
        DetConstSort,
        DetGreedy,
        DetRelaxed,
    )
    from fairtk_baselines.dlf import DLF
    from fairtk_baselines.epsilon_greedy import EpsilonGreedy
    from fairtk_baselines.fa_star_ir import FAStarIR
    from fairtk_baselines.features import Features
    from fairtk_baselines.mmr import MMR
    from fairtk_baselines.vector_search import VectorSearch

_TRANSFORMERS = {
    "DELTR": ("deltr", "learning to rank with a term for exposure (DELTR)", "R", "R"),
    "DLF": ("dlf", "relevance and fairness models, blended (DLF)", "R", "R"),
    "DetCons": ("deterministic_sorting", "shares in every prefix, conservative", "R", "R"),
    "DetConstSort": ("deterministic_sorting", "interval-constrained sorting", "R", "R"),
    "DetGreedy": ("deterministic_sorting", "shares in every prefix, by score", "R", "R"),
    "DetRelaxed": ("deterministic_sorting", "shares in every prefix, relaxed", "R", "R"),
    "EpsilonGreedy": ("epsilon_greedy", "random swaps with documents below", "R", "R"),
    "FAStarIR": ("fa_star_ir", "FA*IR: enough protected documents in every prefix", "R", "R"),
    "Features": ("features", "features for learning to rank", "R", "R"),
    "MMR": ("mmr", "maximal marginal relevance", "R", "R"),
    "VectorSearch": ("vector_search", "nearest documents by any bi-encoder", "Q", "R"),
}
_SOURCES = {
    "DELTR": "zehlike2020reducing cao2007learning",
    "DLF": "chen2023learn taylor2008softrank loshchilov2019decoupled",
    "DetCons": "geyik2019fairness",
    "DetConstSort": "geyik2019fairness",
    "DetGreedy": "geyik2019fairness",
    "DetRelaxed": "geyik2019fairness",
    "EpsilonGreedy": "feng2022has",
    "FAStarIR": "zehlike2017fair zehlike2022fair levin1981representation",
    "MMR": "CarbonellGoldstein1998",
    "VectorSearch": "DeerwesterEtAl1990 HalkoEtAl2011",
}
"""Keys of ``references.bib``, by transformer."""

_GRIDS: dict[str, Any] = {  # the values for tuning, the default first
    "dlf": {"weight": (0.5, 0.0, 0.25, 0.75, 1.0)},
    "deltr": {"gamma": (1.0, 0.0, 0.1, 0.3, 3.0, 10.0)},
    "fa*ir": (  # p is the study's target, or a number
        {"alpha": (0.1, 0.01, 0.05, 0.15, 0.3)},
        {"p": (0.2, 0.4, 0.6, 0.8), "alpha": (0.1, 0.01, 0.05, 0.15, 0.3)},
    ),
    "mmr": {"lambda": tuple(n / 10 for n in (5, 1, 2, 3, 4, 6, 7, 8, 9, 10))},
}

__all__ = [
    "DELTR",
    "DLF",
    "DetCons",
    "DetConstSort",
    "DetGreedy",
    "DetRelaxed",
    "EpsilonGreedy",
    "FAStarIR",
    "Features",
    "MMR",
    "VectorSearch",
]


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
    systems = [
        ("vector-search", "build_vector_search", "nearest vectors", False, "VectorSearch"),
        ("dlf", "build_dlf", "BM25, then DLF", True, "DLF"),
        ("deltr", "build_deltr", "BM25, then DELTR", True, "DELTR"),
        ("fa*ir", "build_fa_star_ir", "BM25, then FA*IR", False, "FAStarIR"),
        ("mmr", "build_mmr", "BM25, then MMR", False, "MMR"),
    ]
    return [
        StudySystemSpec(
            *(name, f"{__name__}.study:{build}", about, trained),
            citation=_SOURCES.get(source),
            grid=_GRIDS.get(name, ()),
        )
        for name, build, about, trained, source in systems
    ]
