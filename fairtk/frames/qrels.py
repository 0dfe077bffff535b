"""Qrels: the one place where labels are checked, encoded once for any number of runs."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, InputError, such_rows
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import DOCNO, LABEL, QID, require
from fairtk.frames.ids import encode_ids
from fairtk.frames.numbers import as_numbers

if TYPE_CHECKING:
    from fairtk.frames.rankings import Rankings

LIMIT = float(2**53)
"""Labels are below it: from here on, whole numbers that differ become one."""


class Qrels:
    """The labels of all queries, checked and encoded.

    Every measure, target, sampler and plugin that reads qrels makes one of these, so that all
    refuse the same: a missing or impossible id, a document that is labeled twice for a query, and a
    label that is no finite number. What columns the frame has is checked; which ones it must have
    is up to who reads them.

    Args:
        frame: qrels in PyTerrier's names: ``qid`` and mostly ``docno`` and ``label``; not changed.
        where: the transformer or measures that ask, for messages.

    Attributes:
        frame: the frame.
        qids: the queries as text, in order of first appearance; shape (n_queries,).
        query: index into `qids` of each label; shape (n_labels,).
        cache: for measures, what they have made of the labels for any run.

    Raises:
        ColumnError: a column is missing (``docno`` and ``label``: when they are read), or its name
            stands twice.
        InputError: an id or label is none.
        DuplicateError: a query has two labels for a document.
    """

    def __init__(self, frame: pd.DataFrame, where: str) -> None:
        self.where = where
        self._place = f"{where} (qrels)"
        require(frame, [QID], self._place)
        self.frame = frame
        self.cache: dict[Any, Any] = {}
        self.query: IntArray
        self.qids: ObjectArray
        self.query, self.qids = encode_ids(frame[QID], QID, self._place)
        if DOCNO in frame.columns:
            self._refuse_twice()
        if LABEL in frame.columns:
            _ = self.labels

    def __len__(self) -> int:
        return len(self.query)

    @cached_property
    def _documents(self) -> tuple[IntArray, ObjectArray]:
        self._need(DOCNO)
        return encode_ids(self.frame[DOCNO], DOCNO, self._place)

    @property
    def doc(self) -> IntArray:
        """Index into `docnos` of each label; shape (n_labels,)."""
        return self._documents[0]

    @property
    def docnos(self) -> ObjectArray:
        """The documents as text, in order of first appearance; shape (n_documents,)."""
        return self._documents[1]

    @cached_property
    def query_index(self) -> pd.Index:
        """`qids` for look-ups."""
        return pd.Index(self.qids, dtype=object)

    @cached_property
    def doc_index(self) -> pd.Index:
        """`docnos` for look-ups."""
        return pd.Index(self.docnos, dtype=object)

    @cached_property
    def pairs(self) -> pd.Index:
        """The (query, document) of each label as one number, for look-ups."""
        return pd.Index(self.query * max(1, len(self.docnos)) + self.doc)

    def place(self, query: IntArray, doc: IntArray) -> IntArray:
        """Return the row of the label of each query and document; -1 without label.

        Args:
            query: indices into `qids`, -1 for another query; shape (n,).
            doc: indices into `docnos`, -1 for another document; shape (n,).
        """
        pair = np.where((query >= 0) & (doc >= 0), query * max(1, len(self.docnos)) + doc, -1)
        return np.asarray(self.pairs.get_indexer(pair), dtype=np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of queries, documents and labels."""
        state = hashlib.blake2b("\0".join(self.qids).encode(), digest_size=16)
        state.update("\0".join(self.docnos).encode())
        state.update(self.query.tobytes() + self.doc.tobytes() + self.labels.tobytes())
        return state.hexdigest()

    def by_query(self, labels: IntArray) -> dict[str, dict[str, int]]:
        """Return labels by query and document, of the queries that have any.

        Args:
            labels: the labels, or what stands for them; shape (n_labels,).
        """
        order = np.argsort(self.query, kind="stable")
        start = np.searchsorted(self.query[order], np.arange(len(self.qids) + 1)).tolist()
        docnos, values = self.docnos[self.doc[order]].tolist(), labels[order].tolist()
        return {
            qid: dict(zip(docnos[a:b], values[a:b], strict=True))
            for qid, a, b in zip(self.qids, start[:-1], start[1:], strict=True)
            if a < b
        }

    def plain(self) -> pd.DataFrame:
        """Return the labels as a frame in one form: ids as text, sorted, no other columns."""
        columns = {QID: self.qids[self.query], DOCNO: self.docnos[self.doc], LABEL: self.labels}
        return pd.DataFrame(columns).sort_values([QID, DOCNO], ignore_index=True)

    def kept(self, rows: BoolArray) -> Qrels:
        """Return some of the labels; all queries stay, with a label left or without.

        Args:
            rows: which labels stay; shape (n_labels,).
        """
        part = object.__new__(Qrels)
        part.__dict__.update(self.__dict__)
        for made in ("fingerprint", "pairs"):
            part.__dict__.pop(made, None)
        part.frame, part.query, part.cache = self.frame[rows], self.query[rows], {}
        if DOCNO in self.frame.columns:
            part._documents = self.doc[rows], self.docnos
        if LABEL in self.frame.columns:
            part.labels = self.labels[rows]
        return part

    def labels_of(self, rankings: Rankings) -> FloatArray:
        """Return the label of each sorted row of a run; shape (n_rows,), NaN without label."""
        query = self.query_index.get_indexer(rankings.qids)[rankings.query]
        doc = self.doc_index.get_indexer(rankings.docnos)[rankings.doc]
        found: FloatArray = np.append(self.labels, np.nan)[self.place(query, doc)]
        return found  # -1, not found, is the last

    def _need(self, column: str) -> None:
        if column not in self.frame.columns:
            require(self.frame, [QID, DOCNO, LABEL], self._place)

    def _refuse_twice(self) -> None:
        if not self.pairs.is_unique:
            twice = self.pairs.duplicated()
            row = int(np.flatnonzero(twice)[0])
            raise DuplicateError(
                f"{self.where}: the qrels label docno {self.docnos[self.doc[row]]!r} twice for "
                f"qid {self.qids[self.query[row]]!r} ({such_rows(int(twice.sum()))}); keep one "
                "label per document"
            )

    @cached_property
    def labels(self) -> FloatArray:
        """The labels; shape (n_labels,)."""
        self._need(LABEL)
        labels = as_numbers(self.frame[LABEL])
        strange = np.flatnonzero(~(np.abs(labels) < LIMIT))
        if len(strange):
            row = int(strange[0])
            value = self.frame[LABEL].iloc[row]
            value = value.item() if isinstance(value, np.generic) else value
            where = f"qid {self.qids[self.query[row]]!r}"
            if DOCNO in self.frame.columns:
                where += f", docno {self.docnos[self.doc[row]]!r}"
            raise InputError(
                f"{self.where}: the label of {where} is {value!r} "
                f"({such_rows(len(strange))}); labels must be finite numbers below 2^53: "
                "leave documents without a label out"
            )
        return labels
