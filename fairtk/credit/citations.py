"""Credit from the citations in answers."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.credit.subsets import one_per_ranking
from fairtk.frames import (
    CREDIT,
    DOCNO,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    Run,
)
from fairtk.frames.answers import flattened
from fairtk.frames.columns import PARENT, refuse_subsets
from fairtk.remarks import INVALID_CITATIONS, UNCITED
from fairtk.stage_context import remark
from fairtk.transformers import FairTransformer

WEIGHTS = ("count", "words", "position")
"""The weight of a sentence: 1, its words, or its words with a discount for its position."""

_GROUP = re.compile(r"\[+\s*(\d+(?:(?:\s*[,;–-]\s*|[\s,;]*\[\s*)\d+)*)\s*\]+")
"""A citation: ``[3]``, ``[1, 2]``, ``[1-3]``, ``[[3]]``, ``[1 [2]]``, with digits of any script."""
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)")
_END = re.compile(
    r"""[.!?…]+["'”’»)]*(?:\s*\[[\d\s,;–\-\[\]]+\])*(?=\s|$)"""  # with citations after the stop
    r"""|[。！？]+["'”’」』)]*(?:\s*\[[\d\s,;–\-\[\]]+\])*"""
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_LONGEST_RANGE = 1000


class Sentence(NamedTuple):
    """A sentence of an answer."""

    cited: frozenset[int]  # positions in the prompt, from 1
    words: int  # number of words of more than two letters, without citations


@lru_cache(maxsize=1 << 14)
def split_sentences(answer: str) -> tuple[Sentence, ...]:
    """Return the sentences of an answer with their citations.

    A sentence includes its full stop, closing quotation marks or brackets, and the citations that
    follow directly.
    """
    ends = [match.end() for match in _END.finditer(answer)]
    if not ends or answer[ends[-1] :].strip():
        ends.append(len(answer))
    texts = [answer[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return tuple(_sentence(text) for text in texts if text.strip())


def _sentence(text: str) -> Sentence:
    positions: set[int] = set()
    for group in _GROUP.finditer(text):
        rest = group.group(1)
        for first, last in _RANGE.findall(rest):
            low, high = int(first), int(last)
            # only the ends of a descending or very long range count
            is_range = low <= high < low + _LONGEST_RANGE
            positions.update(range(low, high + 1) if is_range else (low, high))
        positions.update(int(number) for number in re.findall(r"\d+", _RANGE.sub(" ", rest)))
    return Sentence(frozenset(positions), len(_WORD.findall(_GROUP.sub(" ", text))))


def citation_credit(answer: str, n: int, weight: str = "count") -> tuple[FloatArray, int]:
    """Return the credit of each document of a prompt from the citations in its answer.

    Document d gets the sum of w_i / |C_i| over the sentences i that cite it, where C_i are the
    documents that sentence i cites. The weight w_i is 1 for ``"count"``, the number L_i of words of
    more than two letters for ``"words"``, and L_i exp(-i / (S - 1)) for ``"position"``, with i from
    0 to S - 1 (L_i for a single sentence). Without citations, the published code gives every
    document 1/n; here the credit is undefined.

    Args:
        answer: the text, with citations such as ``[2]``, a position in the prompt, from 1.
        n: the number of documents in the prompt.
        weight: one of `WEIGHTS`.

    Returns:
        The credit of each document, shape (n,), >= 0, or NaN for all if there are no citations, or
        only in sentences of weight 0; and the number of citations beyond n.

    References:
        Aggarwal et al. 2024, "GEO: Generative Engine Optimization", arXiv 2311.09735.
    """
    sentences = split_sentences(answer)
    credit, n_invalid = np.zeros(n), 0
    for number, sentence in enumerate(sentences):
        indices = [position - 1 for position in sentence.cited if 1 <= position <= n]
        n_invalid += len(sentence.cited) - len(indices)
        if not indices:
            continue
        sentence_weight = 1.0 if weight == "count" else float(sentence.words)
        if weight == "position" and len(sentences) > 1:
            sentence_weight *= math.exp(-number / (len(sentences) - 1))
        credit[indices] += sentence_weight / len(indices)
    return (credit if credit.any() else np.full(n, np.nan)), n_invalid


def _mean(parts: list[FloatArray]) -> FloatArray:
    """Return the mean credit over the answers with citations; NaN without any."""
    cited = [part for part in parts if not np.isnan(part).any()]
    return np.mean(cited, axis=0) if cited else parts[0]


class Citations(FairTransformer):
    """Answers -> C: the credit of each document from the citations in the answer.

    ``[n]`` cites the document at position n of the prompt, from 1. ``[1, 2]``, ``[1-3]`` and digits
    of any script are supported. The documents that a sentence cites share its weight: 1
    (``"count"``), the number of its words of more than two letters (``"words"``), or this number
    times exp(-i / (S - 1)) for sentence i of S (``"position"``; Aggarwal et al. 2024, GEO, arXiv
    2311.09735). A citation shows what the model wrote, not what it used.

    ==========  =====================================================================
    input       answers: ``qid``, ``docno``, ``score``, ``qanswer``; ``sample`` if sampled
    output      C: ``qid``, ``sample``, ``docno``, ``rank``, ``credit``, a row for each document
                of a prompt, by query, sample and rank; NaN if the answer has no citations. With
                several answers, the mean over those with citations
    ==========  =====================================================================

    Args:
        weight: ``"count"``, ``"words"`` or ``"position"``.
        cutoff: the cutoff of the generator; `None` for all documents of a ranking.

    Raises:
        ParameterError: a setting is out of its range.
    """

    identity_name = "fairtk.Citations"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = ("weight", "cutoff")

    def __init__(self, weight: str = "count", cutoff: int | None = None) -> None:
        super().__init__()
        self.weight = checks.choice("weight", weight, WEIGHTS, "Citations")
        self.cutoff = checks.cutoff(cutoff, "Citations")

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the credit.

        Remarks report answers without citations, and citations beyond the prompt.

        Raises:
            ColumnError: a column is missing, or the frame has subsets of rankings.
            InputError: an answer is missing, or a ranking has two (names the qid).
        """
        self.check_inputs(inp, [QID, DOCNO, SCORE, QANSWER])
        refuse_subsets(inp, "Citations")
        run = Run(inp, "Citations").checked()
        code, texts = one_per_ranking(run, QANSWER)
        start = run.ranking_start[:-1]
        length = np.diff(run.ranking_start)
        n = length if self.cutoff is None else np.minimum(length, self.cutoff)
        # equal answers to lists of equal length are parsed once
        pair, which = np.unique(np.stack([code[start], n]), axis=1, return_inverse=True)
        credit, n_invalid = [], []
        for answer, size in pair.T.tolist():
            _, several = flattened([texts[answer]])
            parts = [citation_credit(str(text), size, self.weight) for text in several]
            credit.append(_mean([shares for shares, _ in parts]))
            n_invalid.append(sum(count for _, count in parts))
        without = np.array([np.isnan(c).any() for c in credit], dtype=bool)[which]
        self._remark(UNCITED, run, without)
        invalid = np.array(n_invalid, dtype=np.int64)[which] > 0
        self._remark(INVALID_CITATIONS, run, invalid)
        rows = np.flatnonzero(run.position < n[run.ranking])
        ranking = run.ranking[rows]
        begin = np.cumsum([0, *map(len, credit)])[:-1]
        values = np.concatenate([np.zeros(0), *credit])
        frame = pd.DataFrame(
            {
                QID: run.qids[run.query[rows]],
                SAMPLE: run.ranking_sample[ranking],
                DOCNO: run.docnos[run.doc[rows]],
                RANK: run.position[rows],
                CREDIT: values[begin[which[ranking]] + run.position[rows]]
                if len(rows)
                else values[:0],
            }
        )
        if PARENT in inp.columns:
            frame[PARENT] = inp[PARENT].to_numpy()[run.order[rows]]
        return frame

    def _remark(self, kind: str, run: Run, rankings: BoolArray) -> None:
        answers = np.bincount(run.ranking_query[rankings], minlength=len(run.qids))
        remark(kind, "Citations", answers, run.qids, stacklevel=4)
