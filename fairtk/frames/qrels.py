"""Qrels, checked and encoded once for any number of runs.

Labels for ``12`` and a ranking of ``q1/12`` give numbers that look like those of a bad system: no
error follows from them, and every measure of relevance is about 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.errors import UnmatchedWarning, warn
from fairtk.frames.columns import (
    DOCNO,
    LABEL,
    QID,
    BoolArray,
    FloatArray,
    IntArray,
)
from fairtk.frames.encoded import EncodedFrame
from fairtk.frames.ids import Ids
from fairtk.frames.schema import check_numbers, check_unique

if TYPE_CHECKING:
    from fairtk.frames.runs import Run


TWICE = "a document is labeled twice"


class Qrels(EncodedFrame):
    """The labels of all queries, checked and encoded.

    What columns the frame has is checked by the rules of `fairtk.frames.schema`; which columns it
    must have (`needs`) depends on the caller, and other columns are required when they are read.
    With `either` the frame may have the names of ir_measures.

    Attributes:
        frame: the frame; not changed.
        queries: the queries, in order of first appearance; as text they are `qids`.
        cache: for measures, what they have made of the labels for any run.

    Raises:
        ColumnError: a column is missing or occurs twice, or a label is not a number.
        InputError: an id is invalid, or a label is not finite.
        DuplicateError: a query has two labels for a document.
    """

    def __init__(
        self, frame: Any, where: str, needs: Iterable[str] = (), *, either: bool = False
    ) -> None:
        place = where if "qrels" in where else f"{where} (qrels)"
        super().__init__(frame, LABEL, place, dict.fromkeys((QID, *needs)), either)
        self.cache: dict[Any, Any] = {}
        if DOCNO in self.frame.columns:
            remedy = "keep one label per document"
            check_unique(self.query, self.doc, TWICE, self.refuse, remedy)
        if LABEL in self.frame.columns:
            _ = self.labels

    @classmethod
    def without_labels(cls, qids: Sequence[str], where: str) -> Qrels:
        """Return labels of no document for some queries, which are distinct texts."""
        qrels = cls([], where)
        qrels.queries = Ids(np.array(qids, dtype=object))
        return qrels

    @property
    def query(self) -> IntArray:
        """Index into `qids` of each label; shape (n_labels,)."""
        return self.frame_query

    @property
    def doc(self) -> IntArray:
        """Index into `documents` of each label; shape (n_labels,)."""
        return self.frame_doc

    @cached_property
    def labels(self) -> FloatArray:
        """The labels; shape (n_labels,)."""
        self._need(LABEL)
        values: FloatArray = check_numbers(self.frame[LABEL], LABEL, self.refuse)
        return values

    @cached_property
    def pairs(self) -> pd.Index:
        """The (query, document) of each label as one number, for look-ups."""
        return pd.Index(self.query * max(1, self.documents.size) + self.doc)

    @cached_property
    def _one_label(self) -> tuple[IntArray, IntArray, BoolArray]:
        """For each document, and for none: one of its labels, its query, whether it has others."""
        none = self.documents.size
        row, owner = np.full((2, none + 1), -2)
        row[self.doc], owner[self.doc] = np.arange(len(self.query)), self.query
        return row, owner, np.bincount(self.doc, minlength=none + 1) > 1

    def place(self, query: IntArray, doc: IntArray) -> IntArray:
        """Return the row of the label of each query and document; -1 without label.

        Both are indices, into `qids` and `docnos`, -1 for another one; shape (n,).
        """
        row, owner, several = self._one_label
        place = np.where(owner[doc] == query, row[doc], -1)
        if several.any():  # most documents have one label, and that was it
            rest = np.flatnonzero(several[doc] & (place < 0) & (query >= 0))
            pair = query[rest] * self.documents.size + doc[rest]
            place[rest] = self.pairs.get_indexer(pair)
        return place

    def by_query(self, labels: IntArray) -> dict[str, dict[str, int]]:
        """Return labels, or what stands for them, by query and document; none is left empty."""
        order, start = self._rows_by_query
        docnos, values = self.docnos[self.doc[order]].tolist(), labels[order].tolist()
        return {
            qid: dict(zip(docnos[a:b], values[a:b], strict=True))
            for qid, a, b in zip(self.qids, start[:-1], start[1:], strict=True)
            if a < b
        }

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Query, label and 0-based place of each positive label, the best of a query first."""
        useful = self.labels > 0
        query, label = self.query[useful], self.labels[useful]
        order = np.lexsort((-label, query))
        query, label = query[order], label[order]
        return query, label, np.arange(len(query)) - np.searchsorted(query, query)

    @cached_property
    def useful(self) -> BoolArray:
        """Whether a query has a useful document; shape (n_queries,)."""
        useful = np.zeros(len(self.qids), dtype=bool)
        useful[self.query[self.labels > 0]] = True
        return useful

    def judge_any(self, query: int, docnos: Any) -> bool:
        """Return whether a query has a label for one of some documents, by their names."""
        names = {*docnos}
        docs = self.doc[self.rows_of(query)]
        for at in range(0, len(docs), _PIECE):
            if not names.isdisjoint(self.documents.some(docs[at : at + _PIECE])):
                return True
        return False

    def plain(self) -> pd.DataFrame:
        """Return the labels as a frame in one form: ids as text, sorted, no other columns."""
        columns = {QID: self.qids[self.query], DOCNO: self.docnos[self.doc], LABEL: self.labels}
        return pd.DataFrame(columns).sort_values([QID, DOCNO], ignore_index=True)

    def take(self, rows: BoolArray) -> Qrels:
        """Return some of the labels; all queries stay, with a label left or without."""
        part = Qrels.__new__(Qrels)
        part.where, part.cache, part.queries = self.where, {}, self.queries
        part.frame, part.frame_query = self.frame[rows], self.query[rows]
        if DOCNO in self.frame.columns:
            part._docs = self.doc[rows], self.documents
        if LABEL in self.frame.columns:
            part.labels = self.labels[rows]
        return part

    def labels_of(self, run: Run) -> FloatArray:
        """Return the label of each sorted row of a run; shape (n_rows,), NaN without label."""
        query = self.queries.find(run.queries)[run.query]
        doc = run.places(self.documents)[run.doc]
        labels: FloatArray = np.append(self.labels, np.nan)[self.place(query, doc)]
        return labels  # the place -1, of no label, is the last


_PIECE = 4096
"""Of a query's labels so many are looked at together: of many, the first tell enough."""

SHARE = 0.9
"""From this share of queries on, documents that nobody judged are no accident."""


def mostly_judged(labels: Mapping[str, Mapping[str, float]], run: Mapping[str, Any]) -> bool:
    """Return whether, at a glance, ids of labels and run match: nothing is to be warned of.

    Of the queries that have useful documents, more than a tenth have a judged one in the run.
    """
    useful = [qid for qid in run if run[qid] and max(labels.get(qid, {}).values(), default=0) > 0]
    strange = sum(labels[qid].keys().isdisjoint(run[qid]) for qid in useful)
    return strange < SHARE * len(useful)


def warn_of_unmatched(
    qrels: Qrels, queries: Ids, documents: Callable[[int], Any] | None, where: str
) -> None:
    """Warn if labels and run do not seem to name queries, or documents, alike.

    They do not if they have no query in common, or if nearly all queries that have useful documents
    have no judged one in the run. `documents` gives those of a query by its place, None: they do
    not matter. Queries are looked at until too few are left for the warning: mostly a tenth of
    them.
    """
    place = qrels.queries.find(queries)
    if len(qrels) and queries.size and (place < 0).all():
        warn(
            f"{where}: none of the {queries.size} queries of the run is among the "
            f"{len(qrels.qids)} of the qrels, so all count as missing; the run has qid "
            f"{queries.text[0]!r}, the qrels have qid {qrels.qids[0]!r}",
            UnmatchedWarning,
        )
    if documents is None or not {DOCNO, LABEL} <= {*qrels.frame.columns}:
        return
    useful = qrels.useful
    counted = [(i, q) for i, q in enumerate(place.tolist()) if q >= 0 and useful[q]]
    strange: list[tuple[int, int]] = []
    matched = 0
    for i, q in counted:
        if not qrels.judge_any(q, documents(i)):
            strange.append((i, q))
            continue
        matched += 1
        if len(counted) - matched < SHARE * len(counted):
            return
    if not strange:
        return
    i, q = strange[0]
    rows = qrels.rows_of(q)
    label = rows[qrels.labels[rows] > 0][0]
    warn(
        f"{where}: no judged document is in the rankings of {len(strange)} of the {len(counted)} "
        "queries that have useful documents and results; do qrels and run name documents alike? "
        f"For qid {qrels.qids[q]!r} the qrels have docno {qrels.docnos[qrels.doc[label]]!r}, the "
        f"run has docno {next(iter(documents(i)))!r}",
        UnmatchedWarning,
    )
