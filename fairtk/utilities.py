"""String utilities: how good a generated answer is, given the gold answers."""

from __future__ import annotations

from fairtk.measures.utilities import Utility, get

__all__ = ["Utility", "get"]
