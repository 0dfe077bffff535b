"""String utilities: how good a generated answer is, given the gold answers."""

from __future__ import annotations

from fairtk.measures.utilities import EMPTY, Utility, answer_text, get

__all__ = ["EMPTY", "Utility", "answer_text", "get"]
