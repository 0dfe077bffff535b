"""The frame C, the credit of documents: checks, shares per ranking, and means per query."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, InputError
from fairtk.frames import (
    CREDIT,
    DOCNO,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    Run,
    require_columns,
)
from fairtk.frames.columns import PASSAGE
from fairtk.frames.runs import DUPLICATE_CREDIT
from fairtk.frames.schema import check_numbers, check_unique, combined
from fairtk.measures import LabeledRun
from fairtk.remarks import NEGATIVE_CREDIT, UNDEFINED_CREDIT
from fairtk.wording import such


class Credit:
    """The checked credit of a frame C as arrays.

    Args:
        run: the frame: ``qid``, ``docno``, ``credit``, and ``sample`` if a query has several
            rankings.

    Raises:
        ColumnError: a column is missing, or a value is not a number.
        InputError: a value is infinite (NaN is undefined credit).
        DuplicateError: duplicate document in a ranking.
    """

    ranking: IntArray  # index of the ranking of each frame row; shape (n_rows,)
    ranking_query: IntArray  # index into the run's `qids` of each ranking; shape (n_rankings,)
    credit: FloatArray  # credit of each frame row; shape (n_rows,)

    def __init__(self, run: Run) -> None:
        self.run = run
        if len(run):  # PyTerrier's inspection passes an empty frame with other columns
            require_columns(run.frame, [QID, DOCNO, CREDIT], run.where)
        column = run.frame.get(CREDIT, pd.Series(dtype=np.float64))
        self.credit = check_numbers(column, CREDIT, run.refuse)
        sample = run.samples
        sample = np.zeros(len(run), dtype=np.int64) if sample is None else sample
        self.ranking = pd.factorize(combined(run.frame_query, sample))[0]
        first = np.unique(self.ranking, return_index=True)[1]
        self.ranking_query = run.frame_query[first]
        check_unique(self.ranking, run.passages[0], DUPLICATE_CREDIT, run.refuse)
        self.credit = self.by_document(self.credit)

    @property
    def positions(self) -> IntArray:
        """The position of each frame row in its ranking, from 0, by rank or score.

        Raises:
            ColumnError: the frame has neither ``rank`` nor ``score``.
            DuplicateError: duplicate rank in a ranking.
            InputError: ranks and scores disagree.
        """
        run, columns = self.run, self.run.frame.columns
        position = np.empty(len(run), dtype=np.int64)
        if SCORE in columns:
            position[run.order] = run.position
            return position
        if len(run):
            require_columns(run.frame, [QID, DOCNO, CREDIT, RANK], run.where)
        rank = run.ranks if RANK in columns else position
        is_duplicate = pd.DataFrame({"ranking": self.ranking, RANK: rank}).duplicated().to_numpy()
        if is_duplicate.any():
            row = int(np.flatnonzero(is_duplicate)[0])
            raise DuplicateError(
                f"{run.where}: duplicate rank {rank[row]} in a ranking of qid "
                f"{str(run.qids[run.frame_query[row]])!r}"
            )
        order = np.lexsort((rank, self.ranking))  # gaps in ranks do not count
        start = np.searchsorted(self.ranking[order], self.ranking[order])
        position[order] = np.arange(len(rank)) - start
        return position

    def describe(self, row: int) -> str:
        """Return the ids of a frame row for messages: ``"qid 'q1', sample 3, docno 'd7'"``."""
        values = self.run.frame.iloc[row]
        sample = f", sample {values[SAMPLE]}" if SAMPLE in self.run.frame.columns else ""
        return f"qid {str(values[QID])!r}{sample}, docno {str(values[DOCNO])!r}"

    def by_document(self, weight: FloatArray) -> FloatArray:
        """Return weights of frame rows with those of a document's passages in its first row."""
        if PASSAGE not in self.run.frame.columns:
            return weight
        code, distinct = pd.factorize(combined(self.ranking, self.run.frame_doc))
        first = np.unique(code, return_index=True)[1]
        result = np.zeros(len(weight))
        result[first] = np.bincount(code, weights=weight, minlength=len(distinct))
        return result

    def sums(self, weight: FloatArray) -> FloatArray:
        """Return the sum of weights of frame rows over each ranking; shape (n_rankings,)."""
        n = len(self.ranking_query)
        return np.bincount(self.ranking, weights=weight, minlength=n).astype(np.float64)


class CreditShares(Credit):
    """The credit a_d / sum(a) of documents in each ranking.

    Values below 0 count as 0. Rankings with undefined credit (NaN, or a sum of 0) are left out if
    other rankings of their query have defined credit. `counts` has the numbers of both.

    Args:
        judged: the frame C and the labels.
        share: whether credit is divided by its sum; if not, a sum of 0 is defined.
        negative: ``"zero"`` to count values below 0 as 0; ``"refuse"`` for an error.

    Raises:
        InputError: a value is below 0 with ``negative="refuse"``; see also `Credit`.
    """

    value: FloatArray  # a_d / sum(a), or a_d, of each frame row; shape (n_rows,)
    defined: BoolArray  # whether the credit of each ranking is defined; shape (n_rankings,)
    query: IntArray  # index into the labels' `qids` of each ranking; shape (n_rankings,)
    n_rankings: IntArray  # number of rankings per query of the labels; shape (n_queries,)
    n_defined: IntArray  # number of rankings with defined credit; shape (n_queries,)
    undefined: BoolArray  # whether a query of the frame has none of these; shape (n_queries,)
    counts: dict[str, IntArray]  # see `Scores`

    def __init__(self, judged: LabeledRun, share: bool, negative: str) -> None:
        super().__init__(judged.run)
        below = self.credit < 0
        if below.any() and negative == "refuse":
            row = int(np.flatnonzero(below)[0])
            raise InputError(
                f"{self.run.where}: credit must be at least 0 with negative='refuse', got "
                f"{self.credit[row]:g} for {self.describe(row)} ({such(int(below.sum()))})"
            )
        self.value = np.where(below, 0.0, self.credit)
        sums = self.sums(self.value)  # NaN if a value is NaN
        self.defined = sums > 0 if share else ~np.isnan(sums)
        if share:
            self.value = self.value / np.where(self.defined, sums, 1.0)[self.ranking]
        n_queries = len(judged.qids)
        self.query = judged.query_of_run[self.ranking_query]
        self.n_rankings = np.bincount(self.query, minlength=n_queries)
        self.n_defined = np.bincount(self.query[self.defined], minlength=n_queries)
        self.undefined = judged.present & (self.n_defined == 0)
        left_out = ~self.defined & (self.n_defined > 0)[self.query]
        below_zero = self.query[self.ranking[below]]
        self.counts = {
            NEGATIVE_CREDIT: np.bincount(below_zero, minlength=n_queries),
            UNDEFINED_CREDIT: np.bincount(self.query[left_out], minlength=n_queries),
        }

    @cached_property
    def means(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The mean credit of documents over the rankings of a query with defined credit.

        Indices into the run's `qids` and `docnos`, and the mean; each has shape (n_pairs,).
        """
        run, rows = self.run, self.defined[self.ranking]
        width = max(1, run.docnos.size)
        code, pairs = pd.factorize(run.frame_query[rows] * width + run.frame_doc[rows])
        query, doc = np.divmod(np.asarray(pairs, dtype=np.int64), width)
        summed = np.bincount(code, weights=self.value[rows], minlength=len(query))
        n_defined = np.bincount(self.ranking_query[self.defined], minlength=len(run.qids))
        return query, doc, summed / n_defined[query]

    def square(self) -> FloatArray:
        """Return the squared norm of each defined ranking; shape (n_defined,)."""
        rows = self.defined[self.ranking]
        return self.sums(np.where(rows, self.value**2, 0.0))[self.defined]


def credit_shares(judged: LabeledRun, share: bool, negative: str) -> CreditShares:
    """Return the credit shares of a run's documents, computed once per run."""
    return judged.derived(CreditShares, share, negative)


def expected_credit(
    judged: LabeledRun, share: bool = True, negative: str = "zero"
) -> tuple[LabeledRun, CreditShares]:
    """Return a run with expected credit as scores, and the credit shares."""
    return judged.derived(_expected_run, share, negative), credit_shares(judged, share, negative)


def _expected_run(judged: LabeledRun, share: bool, negative: str) -> LabeledRun:
    run, (query, doc, mean) = judged.run, credit_shares(judged, share, negative).means
    frame = pd.DataFrame({QID: run.qids[query], DOCNO: run.docnos[doc], SCORE: mean})
    return LabeledRun(judged.qrels, Run(frame, run.where), judged.where)
