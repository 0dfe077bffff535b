"""Qrels, checked and encoded once for any number of runs.

If qrels and run have different ids for the same documents, such as ``12`` and ``q1/12``, relevance
measures are about 0, as for a bad system. `warn_of_unmatched` reports such ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import UnmatchedWarning, warn
from fairtk.frames.columns import (
    DOCNO,
    LABEL,
    QID,
    BoolArray,
    FloatArray,
    IntArray,
)
from fairtk.frames.derived import Deriving
from fairtk.frames.encoded import EncodedFrame
from fairtk.frames.ids import Coded, Ids, coded_again
from fairtk.frames.schema import check_unique
from fairtk.frames.spellings import respelled, spelling_text
from fairtk.wording import apart, format_list

if TYPE_CHECKING:
    from fairtk.frames.runs import Run


DUPLICATE_LABEL = "duplicate label for a document"


class Qrels(EncodedFrame, Deriving):
    """The labels of all queries, checked and encoded.

    Args:
        data: the labels: a frame, or another form of `fairtk.frames.accepted.as_frame`; not
            changed. `fairtk.io.qrels.as_qrels` also accepts files and the ids of datasets.
        where: the caller, for messages.
        needs: columns required now, besides ``qid``; others are required on first use.
        options: ``either``, ``ids`` and ``is_checked`` of `EncodedFrame`.

    Raises:
        ColumnError: a column is missing or duplicate, or a label is not a number.
        InputError: an id is invalid, or a label is not finite.
        DuplicateError: a query has two labels for a document.
    """

    def __init__(
        self, data: Any, where: str = "qrels", needs: Iterable[str] = (), **options: Any
    ) -> None:
        where = where if "qrels" in where else f"{where} (qrels)"
        needs = dict.fromkeys((QID, *checks.listed("needs", needs)))
        super().__init__(data, LABEL, where, needs, **options)
        if self.is_checked:
            return
        if DOCNO in self.frame.columns:
            remedy = "keep one label per document"
            check_unique(self.query, self.doc, DUPLICATE_LABEL, self.refuse, remedy)
        if LABEL in self.frame.columns:
            _ = self.labels

    @classmethod
    def without_labels(cls, qids: Sequence[str], where: str) -> Qrels:
        """Return qrels with these distinct queries and no labels."""
        none = np.zeros(0, dtype=np.int64)
        queries, documents = Ids(np.array(qids, dtype=object)), Ids(np.array([], dtype=object))
        empty = pd.DataFrame({QID: [], DOCNO: [], LABEL: []})
        return cls(empty, where, ids={QID: (none, queries), DOCNO: (none, documents)})

    @property
    def query(self) -> IntArray:
        """Index into `qids` of each label; shape (n_labels,)."""
        return self.frame_query

    @property
    def doc(self) -> IntArray:
        """Index into `docnos` of each label; shape (n_labels,)."""
        return self.frame_doc

    @cached_property
    def labels(self) -> FloatArray:
        """The labels; shape (n_labels,)."""
        self._need(LABEL)
        values: FloatArray = self._numbers(LABEL)
        return values

    @cached_property
    def pairs(self) -> pd.Index:
        """The query and document of each label as one number, for lookups."""
        return pd.Index(self.query * max(1, self.docnos.size) + self.doc)

    @cached_property
    def _one_label(self) -> tuple[IntArray, IntArray, BoolArray]:
        """Per document: the row of one label, its query, and whether there are more labels."""
        none = self.docnos.size
        row, owner = np.full((2, none + 1), -2)
        row[self.doc], owner[self.doc] = np.arange(len(self.query)), self.query
        return row, owner, np.bincount(self.doc, minlength=none + 1) > 1

    def label_rows(self, query: IntArray, doc: IntArray) -> IntArray:
        """Return the row of the label of each (query, document); -1 without a label.

        Both are indices, into `qids` and `docnos`, or -1 if unknown; shape (n,).
        """
        row, owner, several = self._one_label
        index = np.where(owner[doc] == query, row[doc], -1)
        if several.any():  # most documents have a single label
            rest = np.flatnonzero(several[doc] & (index < 0) & (query >= 0))
            pair = query[rest] * self.docnos.size + doc[rest]
            index[rest] = self.pairs.get_indexer(pair)
        return index

    def by_query(self, labels: IntArray) -> dict[str, dict[str, int]]:
        """Return `labels` as a dict of dicts; queries without labels are left out."""
        order, start = self._rows_by_query
        docnos, values = self.docnos[self.doc[order]].tolist(), labels[order].tolist()
        return {
            qid: dict(zip(docnos[a:b], values[a:b], strict=True))
            for qid, a, b in zip(self.qids, start[:-1], start[1:], strict=True)
            if a < b
        }

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Query, label and 0-based ideal rank of each positive label."""
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
        """Return whether a query has a label for any of these documents."""
        names = {*docnos}
        docs = self.doc[self.rows_of(query)]
        for at in range(0, len(docs), _PIECE):
            if not names.isdisjoint(self.docnos.texts_at(docs[at : at + _PIECE])):
                return True
        return False

    def plain(self) -> pd.DataFrame:
        """Return ``qid``, ``docno`` and ``label`` with ids as text, sorted by ids."""
        columns = {QID: self.qids[self.query], DOCNO: self.docnos[self.doc], LABEL: self.labels}
        return pd.DataFrame(columns).sort_values([QID, DOCNO], ignore_index=True)

    def take(self, rows: BoolArray | IntArray) -> Qrels:
        """Return a subset of the labels; queries stay, even without labels."""
        ids = {name: (codes[rows], of) for name, (codes, of) in self.coded_ids.items()}
        return self._part(rows, ids)

    def of_queries(self, start: int, stop: int) -> Qrels:
        """Return the labels of some queries, by their positions in `qids`."""
        order, first = self._rows_by_query
        rows = np.sort(order[first[start] : first[stop]])
        ids = {QID: (self.query[rows] - start, self.qids.take(np.arange(start, stop)))}
        if DOCNO in self.frame.columns:
            ids[DOCNO] = coded_again(self.doc[rows], self.docnos)
        return self._part(rows, ids)

    def _part(self, rows: BoolArray | IntArray, ids: Mapping[str, Coded]) -> Qrels:
        part = Qrels(self.frame.iloc[rows], self.where, ids=ids, is_checked=True)
        if LABEL in self.frame.columns:
            part.labels = self.labels[rows]
        return part

    def labels_of(self, run: Run) -> FloatArray:
        """Return the label of each sorted row of a run; shape (n_rows,), NaN without a label.

        Passages have the labels of their documents (`Run.by_parent`).
        """
        run = run.by_parent()
        query = self.qids.find(run.qids)[run.query]
        doc = run.indices_in(self.docnos)[run.doc]
        labels: FloatArray = np.append(self.labels, np.nan)[self.label_rows(query, doc)]
        return labels  # index -1, no label, is the NaN at the end


_PIECE = 4096
"""Number of labels to compare at a time; the first ones usually suffice."""

SHARE = 0.9
"""If at least this share of queries has no judged document, ids probably do not match."""


def mostly_judged(labels: Mapping[str, Mapping[str, float]], run: Mapping[str, Any]) -> bool:
    """Return whether the ids of labels and run seem to match.

    This is so if the run has a judged document for more than a tenth of the queries with useful
    documents.
    """
    useful = [qid for qid in run if run[qid] and max(labels.get(qid, {}).values(), default=0) > 0]
    strange = sum(labels[qid].keys().isdisjoint(run[qid]) for qid in useful)
    return strange < SHARE * len(useful)


def no_common_query(what: str, qids: Iterable[Any], labeled: Iterable[Any]) -> str:
    """Return the message that a run, or other data with queries, and qrels do not fit together."""
    given, known = [*map(str, qids)], [*map(str, labeled)]
    spelling = spelling_text(*respelled([("", q) for q in given], [("", q) for q in known]), what)
    return (
        f"no query in common with the qrels ({what}: {format_list(given, 3)}; qrels: "
        f"{format_list(known, 3)}{spelling})"
    )


def warn_of_unmatched(
    qrels: Qrels, queries: Ids, documents: Callable[[int], Any] | None, where: str
) -> None:
    """Warn if the ids of labels and run do not seem to match.

    They do not match if they have no query in common, or if the run has no judged document for at
    least 90% of the queries with useful documents.

    Args:
        qrels: the labels.
        queries: the queries of the run.
        documents: returns the documents of a query by its index; `None` to check queries only.
        where: the caller, for messages.
    """
    index = qrels.qids.find(queries)
    if len(qrels) and queries.size and (index < 0).all():
        warn(
            f"{where}: {no_common_query('run', queries.text, qrels.qids)}; all {len(qrels.qids)} "
            "queries of the qrels count as missing",
            UnmatchedWarning,
        )
    if documents is None or not {DOCNO, LABEL} <= {*qrels.frame.columns}:
        return
    useful = qrels.useful
    counted = [(i, q) for i, q in enumerate(index.tolist()) if q >= 0 and useful[q]]
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
    mine, other = apart(str(next(iter(documents(i)))), str(qrels.docnos[qrels.doc[label]]))
    warn(
        f"{where}: no retrieved document is judged for {len(strange)} of {len(counted)} queries "
        f"(qid {qrels.qids[q]!r}: docno {mine} in the run, {other} in the qrels); check that both "
        "use the same docnos",
        UnmatchedWarning,
    )
