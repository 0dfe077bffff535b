"""The parts of query refinement that know nothing of frames and retrievers."""

from __future__ import annotations

from fairtk.query_refinement.asking import Refined, as_refinement_prompt, refine
from fairtk.query_refinement.parsing import AnswerError, changes, parse_keywords, same_words

__all__ = [
    "AnswerError",
    "Refined",
    "as_refinement_prompt",
    "changes",
    "parse_keywords",
    "refine",
    "same_words",
]
