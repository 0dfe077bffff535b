"""FAIR-QR: `FairQR` and `QueryRefiner`, the loop that they share, and its trace."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairtk.fair_qr.asking import Refined, as_refinement_prompt, refine
    from fairtk.fair_qr.choosing import under_represented
    from fairtk.fair_qr.loop import Loop
    from fairtk.fair_qr.parsing import AnswerError, changes, parse_keywords, same_words
    from fairtk.fair_qr.progress import Progress
    from fairtk.fair_qr.query_refiner import QueryRefiner
    from fairtk.fair_qr.shares import RelevanceMeter, ShareMeter
    from fairtk.fair_qr.transformer import FairQR

_MODULES = {
    "AnswerError": "parsing",
    "FairQR": "transformer",
    "Loop": "loop",
    "Progress": "progress",
    "QueryRefiner": "query_refiner",
    "Refined": "asking",
    "RelevanceMeter": "shares",
    "ShareMeter": "shares",
    "as_refinement_prompt": "asking",
    "changes": "parsing",
    "parse_keywords": "parsing",
    "refine": "asking",
    "same_words": "parsing",
    "under_represented": "choosing",
}

__all__ = [
    "AnswerError",
    "FairQR",
    "Loop",
    "Progress",
    "QueryRefiner",
    "Refined",
    "RelevanceMeter",
    "ShareMeter",
    "as_refinement_prompt",
    "changes",
    "parse_keywords",
    "refine",
    "same_words",
    "under_represented",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
