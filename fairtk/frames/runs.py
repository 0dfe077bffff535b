"""Runs with checked ids, row by row as they came; `Rankings` are their sorted form."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError, InputError, such_rows
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray, ObjectArray, rows_by_code
from fairtk.frames.columns import (
    DOCNO,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    as_numbers,
    from_ir_measures,
    require,
)
from fairtk.frames.ids import Ids, coded_among, coded_ids, with_text


class Run:
    """A run whose ids are checked and encoded; its rows stay as they are.

    The frame has PyTerrier's names, or with `either` ir_measures' as well: ``qid`` at least.

    Attributes:
        frame: the frame.
        qids: the queries as text, in order of first appearance; shape (n_queries,).
        queries: the same, for look-ups.
        query: index into `qids` of each row; shape (n_rows,).
    """

    def __init__(self, frame: pd.DataFrame, where: str, *, either: bool = False) -> None:
        self.where = where
        self.frame = frame = from_ir_measures(frame, where) if either else frame
        require(frame, [QID], where)
        self.query: IntArray
        self.qids: ObjectArray
        self.query, self.queries = coded_ids(frame[QID], QID, where)
        self.qids = self.queries.text

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def documents(self) -> tuple[IntArray, Ids]:
        """Index into the documents of each row, and the documents."""
        if DOCNO not in self.frame.columns:
            require(self.frame, [QID, DOCNO], self.where)
        return coded_ids(self.frame[DOCNO], DOCNO, self.where)

    @cached_property
    def scores(self) -> FloatArray:
        """The score of each row; shape (n_rows,)."""
        if SCORE not in self.frame.columns:
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

    @property
    def samples(self) -> IntArray | None:
        """The sample number of each row, shape (n_rows,); None without the column."""
        frame, where = self.frame, self.where
        if SAMPLE not in frame.columns:
            return None
        column = frame[SAMPLE]
        missing = column.isna().to_numpy()
        if missing.any() and not missing.all():
            raise InputError(
                f"{where}: sampled and deterministic rows are mixed: {SAMPLE!r} is missing for "
                f"{self.describe(int(np.flatnonzero(missing)[0]))} and {int(missing.sum()) - 1} "
                "other rows; take the two runs one by one"
            )
        values = column.to_numpy()
        if values.dtype == object and all(isinstance(v, int | np.integer) for v in values):
            huge = [v for v in values if abs(int(v)) >= 2**62]
            if huge:
                bits = int(huge[0]).bit_length()
                raise ColumnError(
                    f"{where}: {SAMPLE!r} must be below 2^62; found one of {bits} bits"
                )
            values = values.astype(np.int64)
        if not np.issubdtype(values.dtype, np.integer) and len(values):
            raise ColumnError(
                f"{where}: {SAMPLE!r} must be an integer from 0; found {values.dtype} "
                f"({values[0]!r}); convert it with .astype(int)"
            )
        result: IntArray = values.astype(np.int64)
        if len(result) and result.min() < 0:
            raise ColumnError(
                f"{where}: {SAMPLE!r} must be an integer from 0; found {result.min()}"
            )
        return result

    @property
    def ranks(self) -> IntArray:
        """The rank of each row; shape (n_rows,)."""
        frame, where = self.frame, self.where
        column = frame[RANK]
        if column.dtype.kind in "iu" and column.dtype.itemsize <= 8:
            whole: IntArray = column.to_numpy(dtype=np.int64)
            return whole
        rank = as_numbers(column)
        wrong = ~(np.abs(rank) < 2.0**53) | (rank != np.floor(rank))
        if wrong.any():
            row = frame.iloc[int(np.flatnonzero(wrong)[0])]
            value = row[RANK].item() if isinstance(row[RANK], np.generic) else row[RANK]
            raise ColumnError(
                f"{where}: {RANK!r} must be an integer; found {value!r} for qid "
                f"{str(row[QID])!r}, docno {str(row[DOCNO])!r}"
            )
        return rank.astype(np.int64)

    @cached_property
    def is_sampled(self) -> bool:
        """Whether the run holds several rankings of a query.

        It does if a query has two values of ``sample``. Without that column (a TREC file lost it)
        it does if a document or a rank occurs twice in a query.
        """
        frame = self.frame
        if SAMPLE in frame.columns:
            sample = frame[SAMPLE].to_numpy()
            if sample.dtype.kind in "iu":  # samples of a query mostly stand one below the other
                change = sample[1:] != sample[:-1]
                if (change & (self.query[1:] == self.query[:-1])).any():
                    return True
            return _varies(self.query, pd.factorize(sample)[0])
        if DOCNO in frame.columns and _repeats(self.query, self.documents[0]):
            return True
        return RANK in frame.columns and _repeats(self.query, pd.factorize(frame[RANK])[0])

    def documents_of(self, query: int) -> ObjectArray:
        """Return the documents of a query's rows."""
        order, start = self._rows_by_query
        doc, documents = self.documents
        return documents.text[doc[order[start[query] : start[query + 1]]]]

    @cached_property
    def _rows_by_query(self) -> tuple[IntArray, list[int]]:
        return rows_by_code(self.query, len(self.qids))

    def with_text_ids(self) -> pd.DataFrame:
        """Return the frame, its ids as text."""
        ids = {QID: (self.query, self.queries)}
        if DOCNO in self.frame.columns:
            ids[DOCNO] = self.documents
        return with_text(self.frame, ids)

    def encode_documents(self, known: Ids) -> IntArray:
        """Return the place of each of `documents` among known ids; -1 for none of them.

        What is not encoded yet is looked up first, which saves half of the time.
        """
        if "documents" in self.__dict__:
            return known.find(self.documents[1])
        *found, place = coded_among(known, self.frame[DOCNO], DOCNO, self.where)
        self.__dict__["documents"] = tuple(found)  # in place of what cached_property would do
        return place

    def kept(self, rows: BoolArray) -> Run:
        """Return some of the rows; queries without one are gone."""
        part = object.__new__(Run)
        part.where, part.frame = self.where, self.frame[rows]
        codes, seen = pd.factorize(self.query[rows])
        part.query, part.qids = codes.astype(np.int64, copy=False), self.qids[seen]
        part.queries = Ids(part.qids)
        if "documents" in self.__dict__:
            codes, seen = pd.factorize(self.documents[0][rows])
            part.__dict__["documents"] = codes.astype(np.int64), Ids(self.documents[1].text[seen])
        return part

    def describe(self, row: int) -> str:
        """Return ``"qid 'q1', docno 'd7'"`` for a row, for messages."""
        docno = f", docno {str(self.frame[DOCNO].iloc[row])!r}" if DOCNO in self.frame else ""
        return f"qid {self.qids[self.query[row]]!r}{docno}"


def _varies(query: IntArray, value: IntArray) -> bool:
    """Return whether a query has two values."""
    first = np.zeros(int(query.max(initial=-1)) + 1, dtype=np.int64)
    first[query[::-1]] = value[::-1]  # the last of equal places stays
    return bool((first[query] != value).any())


def _repeats(query: IntArray, value: IntArray) -> bool:
    """Return whether a query has a value twice."""
    key = query * (int(value.max(initial=-1)) + 2) + value
    return bool(pd.Series(key).duplicated().any())
