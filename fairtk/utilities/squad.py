"""Exact match and token F1 of question answering."""

from __future__ import annotations

import re
import string
from collections import Counter

from fairtk.utilities.base import EMPTY, Utility

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Return the text in lower case without punctuation, articles and superfluous spaces.

    Source: Rajpurkar et al. 2016 (SQuAD), evaluation script. An answer without content
    (``"<empty>"``) becomes the empty string rather than the word "empty".
    """
    if text == EMPTY:
        return ""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


class ExactMatch(Utility):
    """1 if answer and gold answer are the same after `normalized`, else 0; higher is better."""

    name = "em"

    def score(self, prediction: str, gold: str) -> float:
        """Return 1.0 or 0.0."""
        return float(normalized(prediction) == normalized(gold))


class TokenF1(Utility):
    """F1 of the words (with their counts) that answer and gold answer share; higher is better.

    Range [0, 1]. Two texts of which nothing is left after `normalized` score 1, one such text
    against another scores 0 (SQuAD 2.0's rule).
    """

    name = "f1"

    def score(self, prediction: str, gold: str) -> float:
        """Return the F1."""
        guessed, right = normalized(prediction).split(), normalized(gold).split()
        if not guessed or not right:
            return float(guessed == right)
        common = (Counter(guessed) & Counter(right)).total()
        return 2.0 * common / (len(guessed) + len(right))
