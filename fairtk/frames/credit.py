"""Credit: the frame C, which says how much of an answer rests on each document of its ranking."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError, DuplicateError, InputError, such_rows
from fairtk.frames.columns import (
    CREDIT,
    DOCNO,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    SUBSET,
    BoolArray,
    FloatArray,
    IntArray,
    require,
)
from fairtk.frames.runs import Run
from fairtk.frames.schema import check_numbers, check_unique

TWICE = "a document has credit twice in one ranking"


class ExpectedCredit(NamedTuple):
    """The mean credit of documents over the rankings of a query whose credit is defined.

    Queries that have no such ranking are not among the rows, which have shape (n_rows,).
    """

    query: IntArray  # index into the run's `qids`
    doc: IntArray  # index into the run's `docnos`
    credit: FloatArray
    square: FloatArray  # the squared norm of the credit of each defined ranking; (n_defined,)
    ranking_query: IntArray  # the query of each defined ranking; (n_defined,)
    n_rankings: IntArray  # of each query, defined or not; shape (n_queries,)
    undefined: BoolArray  # queries without a ranking whose credit is defined; shape (n_queries,)
    n_undefined: int  # rankings of other queries whose credit is undefined
    n_negative: int  # values below 0 that were counted as 0


class Credit:
    """The credit of a frame C as arrays, checked.

    Args:
        run: the frame: ``qid``, ``docno``, ``credit``, and ``sample`` if there are several rankings
            of a query.

    Raises:
        ColumnError: a column is missing, or a value is no number.
        InputError: a value is infinite; NaN is undefined credit.
        DuplicateError: a document has credit twice in one ranking.
    """

    ranking: IntArray  # index of the ranking of each frame row; shape (n_rows,)
    ranking_query: IntArray  # index into the run's `qids` of each ranking; shape (n_rankings,)
    credit: FloatArray  # of each frame row; shape (n_rows,)

    def __init__(self, run: Run) -> None:
        self.run = run
        if len(run):  # PyTerrier's frame of no rows has the columns of a run
            require(run.frame, [QID, DOCNO, CREDIT], run.where)
        column = run.frame.get(CREDIT, pd.Series(dtype=np.float64))
        self.credit = check_numbers(column, CREDIT, run.refuse)
        sample = run.samples
        sample = np.zeros(len(run), dtype=np.int64) if sample is None else sample
        width = int(sample.max(initial=0)) + 1
        keys = run.frame_query * width + sample
        step = np.diff(keys, prepend=keys[:1] - 1)
        if bool((step >= 0).all()) and len(keys):
            self.ranking, keys = np.cumsum(step > 0) - 1, keys[step > 0]
        else:
            self.ranking, keys = pd.factorize(keys)
        self.ranking_query = np.asarray(keys, dtype=np.int64) // width
        check_unique(self.ranking, run.frame_doc, TWICE, run.refuse)

    @property
    def positions(self) -> IntArray:
        """The place of each frame row in its ranking, from 0: ranks, or scores, order.

        Raises:
            ColumnError: the frame has neither ``rank`` nor ``score``.
            DuplicateError: a rank stands twice in a ranking.
            InputError: ranks and scores disagree.
        """
        run, columns = self.run, self.run.frame.columns
        position = np.empty(len(run), dtype=np.int64)
        if SCORE in columns:
            position[run.order] = run.position
            return position
        if len(run):
            require(run.frame, [QID, DOCNO, CREDIT, RANK], run.where)
        rank = run.ranks if RANK in columns else position
        twice = pd.DataFrame({"ranking": self.ranking, RANK: rank}).duplicated().to_numpy()
        if twice.any():
            row = int(np.flatnonzero(twice)[0])
            raise DuplicateError(
                f"{run.where}: rank {rank[row]} stands twice in a ranking of qid "
                f"{str(run.qids[run.frame_query[row]])!r}"
            )
        order = np.lexsort((rank, self.ranking))  # ranks order, as everywhere: gaps do not count
        start = np.searchsorted(self.ranking[order], self.ranking[order])
        position[order] = np.arange(len(rank)) - start
        return position

    def _place(self, row: int) -> str:
        values = self.run.frame.iloc[row]
        sample = f", sample {values[SAMPLE]}" if SAMPLE in self.run.frame.columns else ""
        return f"qid {str(values[QID])!r}{sample}, docno {str(values[DOCNO])!r}"

    def shares(self, share: bool, negative: str) -> tuple[FloatArray, BoolArray, int]:
        """Return a_d / sum(a) of each frame row, or a_d itself, and the defined rankings.

        Args:
            share: whether each ranking's credit is divided by its sum; a ranking whose sum is 0 is
                undefined then.
            negative: ``"zero"``: values below 0 count as 0; ``"refuse"``: they are an error.

        Returns:
            The credit, shape (n_rows,); whether that of a ranking is defined, shape (n_rankings,);
            the number of values below 0.

        Raises:
            InputError: a value is below 0, and that is refused.
        """
        run, value = self.run, self.credit
        below = value < 0
        if below.any() and negative == "refuse":
            row = int(np.flatnonzero(below)[0])
            raise InputError(
                f"{run.where}: credit below 0 is refused (negative='refuse'); found {value[row]:g} "
                f"for {self._place(row)} ({such_rows(int(below.sum()))})"
            )
        value = np.where(below, 0.0, value)
        total = self.sums(value)  # NaN where one is
        defined = total > 0 if share else ~np.isnan(total)
        if share:
            value = value / np.where(defined, total, 1.0)[self.ranking]
        return value, defined, int(below.sum())

    def sums(self, weight: FloatArray) -> FloatArray:
        """Return the sum of a weight of frame rows over each ranking; shape (n_rankings,)."""
        n = len(self.ranking_query)
        return np.bincount(self.ranking, weights=weight, minlength=n).astype(np.float64)

    def expected(self, share: bool, negative: str) -> ExpectedCredit:
        """Return alpha_d, the mean of a_d / sum(a), or of a_d, over a query's defined rankings.

        Args:
            share: see `shares`.
            negative: see `shares`.

        Raises:
            InputError: a value is below 0, and that is refused.
        """
        run = self.run
        value, defined, n_negative = self.shares(share, negative)
        n_queries, width = len(run.qids), max(1, run.documents.size)
        count = np.bincount(self.ranking_query[defined], minlength=n_queries)
        rows = defined[self.ranking]
        code, pairs = pd.factorize(run.frame_query[rows] * width + run.frame_doc[rows])
        query, doc = np.divmod(np.asarray(pairs, dtype=np.int64), width)
        summed = np.bincount(code, weights=value[rows], minlength=len(query))
        return ExpectedCredit(
            query,
            doc,
            summed / count[query],
            self.sums(np.where(rows, value**2, 0.0))[defined],
            self.ranking_query[defined],
            np.bincount(self.ranking_query, minlength=n_queries),
            count == 0,
            int((~defined & (count > 0)[self.ranking_query]).sum()),
            n_negative,
        )


def refuse_subsets(frame: pd.DataFrame, where: str) -> None:
    """Raise a `ColumnError` if a frame has subsets of rankings."""
    if SUBSET in frame.columns:
        raise ColumnError(
            f"{where} takes rankings; found subsets of rankings (column {SUBSET!r}): make credit "
            "of their answers with fairtk.credit.from_answers, or put Subsets last but the "
            "generator"
        )
