"""The parts of query refinement that know nothing of PyTerrier: asking, parsing, the loop."""

from __future__ import annotations

from fairtk.query_refinement.asking import Refined, as_refinement_prompt, refine
from fairtk.query_refinement.choosing import under_represented
from fairtk.query_refinement.loop import Loop
from fairtk.query_refinement.parsing import AnswerError, changes, parse_keywords, same_words
from fairtk.query_refinement.progress import Progress
from fairtk.query_refinement.shares import RelevanceMeter, ShareMeter

__all__ = [
    "AnswerError",
    "Loop",
    "Progress",
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
