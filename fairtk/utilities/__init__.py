"""String utilities: how good a generated answer is, given the gold answers.

`get` returns one by name; a plugin adds more with the hook ``fairtk_utilities``. A utility is
called with two parallel sequences and returns one number per pair:

    >>> get("rougeL")(["the cat sat"], ["a cat sat"])
    [0.6666666616666668]
"""

from __future__ import annotations

from fairtk.utilities.base import EMPTY, Utility, answer_text
from fairtk.utilities.lookup import get

__all__ = ["EMPTY", "Utility", "answer_text", "get"]
