"""Runs with checked ids, row by row as they came; `Rankings` are their sorted form."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError, InputError, such_rows
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import DOCNO, QID, RANK, SAMPLE, SCORE, from_ir_measures, require
from fairtk.frames.ids import encode_ids
from fairtk.frames.numbers import as_numbers


class Run:
    """A run whose ids are checked and encoded; its rows stay as they are.

    Args:
        frame: R or S in PyTerrier's names, ``qid`` at least; not changed.
        where: the transformer or measures that ask, for messages.

    Attributes:
        frame: the frame.
        qids: the queries as text, in order of first appearance; shape (n_queries,).
        query: index into `qids` of each row; shape (n_rows,).

    Raises:
        ColumnError: a column is missing (``docno`` and ``score``: when they are read), or its name
            stands twice.
        InputError: an id is none, or a score is no finite number (when it is read).
    """

    def __init__(self, frame: pd.DataFrame, where: str) -> None:
        self.where = where
        require(frame, [QID], where)
        self.frame = frame
        self.query: IntArray
        self.qids: ObjectArray
        self.query, self.qids = encode_ids(frame[QID], QID, where)

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def documents(self) -> tuple[IntArray, ObjectArray]:
        """Index into the documents of each row, and the documents as text."""
        require(self.frame, [QID, DOCNO], self.where)
        return encode_ids(self.frame[DOCNO], DOCNO, self.where)

    @cached_property
    def scores(self) -> FloatArray:
        """The score of each row; shape (n_rows,)."""
        require(self.frame, [QID, DOCNO, SCORE], self.where)
        score = as_numbers(self.frame[SCORE])
        bad = np.flatnonzero(~np.isfinite(score))
        if len(bad):
            row = self.frame.iloc[int(bad[0])]
            if not np.isnan(score[bad[0]]) or pd.isna(row[SCORE]):
                raise InputError(
                    f"{self.where}: the score of {self.describe(int(bad[0]))} is "
                    f"{score[bad[0]]} ({such_rows(len(bad))}); scores must be finite: "
                    "drop these rows or mend the retriever"
                )
            raise ColumnError(
                f"{self.where}: scores must be numbers; found {row[SCORE]!r} for "
                f"{self.describe(int(bad[0]))} ({such_rows(len(bad))})"
            )
        return score

    @cached_property
    def is_sampled(self) -> bool:
        """Whether the run holds several rankings of a query; see `is_sampled`."""
        frame = self.frame
        if SAMPLE in frame.columns:
            return _varies(self.query, pd.factorize(frame[SAMPLE])[0])
        if DOCNO in frame.columns and _repeats(self.query, self.documents[0]):
            return True
        return RANK in frame.columns and _repeats(self.query, pd.factorize(frame[RANK])[0])

    def kept(self, rows: BoolArray) -> Run:
        """Return some of the rows; queries without one are gone.

        Args:
            rows: which rows stay; shape (n_rows,).
        """
        part = object.__new__(Run)
        part.where, part.frame = self.where, self.frame[rows]
        codes, seen = pd.factorize(self.query[rows])
        part.query, part.qids = codes.astype(np.int64, copy=False), self.qids[seen]
        if "documents" in self.__dict__:
            codes, seen = pd.factorize(self.documents[0][rows])
            part.__dict__["documents"] = codes.astype(np.int64), self.documents[1][seen]
        return part

    def describe(self, row: int) -> str:
        """Return ``"qid 'q1', docno 'd7'"`` for a row, for messages."""
        docno = f", docno {str(self.frame[DOCNO].iloc[row])!r}" if DOCNO in self.frame else ""
        return f"qid {self.qids[self.query[row]]!r}{docno}"


def is_sampled(frame: pd.DataFrame, where: str = "run") -> bool:
    """Return whether a run holds several rankings of a query.

    It does if a query has two values of ``sample``. Without that column (a TREC file lost it) it
    does if a document or a rank occurs twice in a query.

    Args:
        frame: a run in PyTerrier's or ir_measures' names; not changed.
        where: who asks, for messages.

    Raises:
        ColumnError: the frame has no ``qid``, or columns of one name.
        InputError: an id is none.
    """
    named = from_ir_measures(frame, where)
    require(named, [QID], where)
    if SAMPLE in named.columns:
        sample, qid = named[SAMPLE].to_numpy(), named[QID]
        if sample.dtype.kind in "iu":
            change = np.flatnonzero(sample[1:] != sample[:-1])
            if not len(change):
                return False
            first = int(change[0])  # samples of a query mostly stand one below the other
            if qid.iloc[first] == qid.iloc[first + 1]:
                return True
    return Run(named, where).is_sampled


def _varies(query: IntArray, value: IntArray) -> bool:
    """Return whether a query has two values."""
    first = np.zeros(int(query.max(initial=-1)) + 1, dtype=np.int64)
    first[query[::-1]] = value[::-1]  # the last of equal places stays
    return bool((first[query] != value).any())


def _repeats(query: IntArray, value: IntArray) -> bool:
    """Return whether a query has a value twice."""
    key = query * (int(value.max(initial=-1)) + 2) + value
    return bool(pd.Series(key).duplicated().any())
