"""Credit from citations in an answer: which documents its sentences point to, and how often."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fairtk.frames import FloatArray

WEIGHTS = ("count", "words", "position")
"""What a sentence counts: 1; its words; its words, less the later it comes."""

_GROUP = re.compile(r"\[+\s*(\d+(?:\s*[,;–-]\s*\d+)*)\s*\]+")
"""A citation: ``[3]``, ``[1, 2]``, ``[1-3]``, ``[[3]]``, digits of any script."""
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)")
_END = re.compile(
    r"""[.!?…]+["'”’»)]*(?:\s*\[[\d\s,;–\-\[\]]+\])*(?=\s|$)"""  # citations may follow the stop
    r"""|[。！？]+["'”’」』)]*(?:\s*\[[\d\s,;–\-\[\]]+\])*"""
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_LONGEST_RANGE = 1000


class Sentence(NamedTuple):
    """A sentence of an answer."""

    cited: frozenset[int]  # places in the prompt, from 1, each once
    words: int  # words of more than two letters, citations apart


@lru_cache(maxsize=1 << 14)
def sentences_of(answer: str) -> tuple[Sentence, ...]:
    """Return the sentences of an answer with what they cite; an empty answer has none.

    A sentence ends with its stop, the quotation marks or brackets that close there, and the
    citations that follow directly.
    """
    ends = [match.end() for match in _END.finditer(answer)]
    if not ends or answer[ends[-1] :].strip():
        ends.append(len(answer))
    texts = [answer[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return tuple(_sentence(text) for text in texts if text.strip())


def _sentence(text: str) -> Sentence:
    places: set[int] = set()
    for group in _GROUP.finditer(text):
        rest = group.group(1)
        for first, last in _RANGE.findall(rest):
            low, high = int(first), int(last)
            # a range that falls or goes on for ever names its ends alone
            whole = low <= high < low + _LONGEST_RANGE
            places.update(range(low, high + 1) if whole else (low, high))
        places.update(int(number) for number in re.findall(r"\d+", _RANGE.sub(" ", rest)))
    return Sentence(frozenset(places), len(_WORD.findall(_GROUP.sub(" ", text))))


def citation_credit(answer: str, n: int, weight: str = "count") -> tuple[FloatArray, int]:
    """Return the credit of each document of a prompt from the citations in its answer.

    With C_i the documents that sentence i cites and L_i its words of more than two letters, a
    document gets sum_i 1[d in C_i] / |C_i|, times L_i for ``"words"``, and times L_i exp(-i / (S -
    1)) for ``"position"``, i from 0 to S - 1 (one sentence: factor 1): Aggarwal et al. 2024, "GEO:
    Generative Engine Optimization", arXiv 2311.09735. Its code gives every document 1/n where
    nothing is cited; here that is undefined.

    Args:
        answer: the text, with citations such as ``[2]``: the place in the prompt, from 1.
        n: how many documents the prompt has; other numbers are no citations, and are counted.
        weight: one of `WEIGHTS`.

    Returns:
        The credit of each document, shape (n,), >= 0, or NaN for all if nothing is cited; and how
        many numbers were cited that no document has.
    """
    sentences = sentences_of(answer)
    credit, beyond = np.zeros(n), 0
    for number, sentence in enumerate(sentences):
        places = [place - 1 for place in sentence.cited if 1 <= place <= n]
        beyond += len(sentence.cited) - len(places)
        if not places:
            continue
        worth = 1.0 if weight == "count" else float(sentence.words)
        if weight == "position" and len(sentences) > 1:
            worth *= math.exp(-number / (len(sentences) - 1))
        credit[places] += worth / len(places)
    return (credit if credit.any() else np.full(n, np.nan)), beyond
