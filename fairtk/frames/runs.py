"""Runs (frames R and S), checked and sorted as integer codes for all queries at once.

The row order of a frame has no meaning. Rows are ordered by ``rank`` if the frame has it, otherwise
by descending score, with ties by descending docno (trec_eval's rule).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import DuplicateError, InputError
from fairtk.frames.columns import (
    DOCNO,
    PARENT,
    PASSAGE,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
)
from fairtk.frames.encoded import EncodedFrame
from fairtk.frames.ids import Coded, Ids, coded_again, parents_of
from fairtk.frames.schema import (
    RowProblem,
    check_ids,
    check_ids_among,
    check_order,
    check_unique,
    combined,
    repeats,
)

LOST_SAMPLES = (
    "keep its column 'sample' (read TREC files with fairtk.io.read_run, or pass "
    "save_format=fairtk.io.save_format to pt.Experiment)"
)
"""How to fix a run without its column ``sample``."""

DUPLICATE_DOCUMENT = "duplicate document in a ranking"
DUPLICATE_CREDIT = "duplicate credit for a document of a ranking"


class SortedRows(NamedTuple):
    """The rows of a run sorted by query, sample and rank; the attributes of `Run`."""

    order: IntArray
    doc: IntArray
    query: IntArray
    ranking: IntArray
    position: IntArray
    ranking_start: IntArray
    ranking_query: IntArray
    ranking_sample: IntArray
    n_samples: IntArray


class Run(EncodedFrame):
    """A run as integer codes; each column is checked and encoded on first use.

    A "row" is a row of the run sorted by query, sample and rank; a "frame row" is a row of the
    frame. A ranking is one (qid, sample); without ``sample``, each query has one ranking. The rows
    are sorted when one of their arrays, `order` to `n_samples`, is used first.

    Args:
        data: R or S, with ``qid``; sorting requires ``docno`` and ``score``, too. A frame, or
            another form of `fairtk.frames.accepted.as_frame`; not changed.
            `fairtk.io.runs.as_run` also accepts files.
        where: the transformer, measure or file, for messages.
        options: ``either``, ``ids`` and ``is_checked`` of `EncodedFrame`.

    Attributes:
        order: the frame row of each row; shape (n_rows,).
        doc: the index into `docnos` of each row; shape (n_rows,).
        query: the index into `qids` of each row, non-decreasing; shape (n_rows,).
        ranking: the index of the ranking of each row, non-decreasing; shape (n_rows,).
        position: the 0-based rank of each row in its ranking, without gaps; shape (n_rows,).
        ranking_start: the first row of each ranking, then n_rows; shape (n_rankings + 1,).
        ranking_query: the index into `qids` of each ranking, non-decreasing; shape (n_rankings,).
        ranking_sample: the sample number of each ranking; shape (n_rankings,).
        n_samples: the number of rankings of each query; shape (n_queries,).

    Raises:
        ColumnError: a column is missing, or ``sample`` or ``rank`` is not an integer.
        InputError: an id is invalid, a score is not finite, or ranks disagree with scores.
        DuplicateError: a document or a rank occurs twice in a ranking.
    """

    order: IntArray
    doc: IntArray
    query: IntArray
    ranking: IntArray
    position: IntArray
    ranking_start: IntArray
    ranking_query: IntArray
    ranking_sample: IntArray
    n_samples: IntArray

    def __init__(self, data: Any, where: str = "run", **options: Any) -> None:
        super().__init__(data, SCORE, where, [QID], **options)
        self._passages: Coded | None = (options.get("ids") or {}).get(PASSAGE)
        self._among: tuple[Ids | None, IntArray] = None, np.zeros(0, dtype=np.int64)

    def __getattr__(self, name: str) -> Any:
        if name not in SortedRows._fields:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self).update(zip(SortedRows._fields, self._sort(), strict=True))
        return vars(self)[name]

    @property
    def n_rankings(self) -> int:
        """Number of rankings."""
        return len(self.ranking_query)

    @property
    def sampled(self) -> bool:
        """Whether the frame has the column ``sample``."""
        return SAMPLE in self.frame.columns

    def checked(self) -> Run:
        """Return the run after all checks."""
        _ = self.order
        return self

    @property
    def passages(self) -> Coded:
        """The codes of the docnos of frame rows, which are passages in a run of `by_parent`."""
        return self._docs if self._passages is None else self._passages

    @property
    def coded_ids(self) -> dict[str, Coded]:
        """The codes of the id columns that are encoded, by column."""
        passages = {} if self._passages is None else {PASSAGE: self._passages}
        return super().coded_ids | passages

    def indices_in(self, ids: Ids) -> IntArray:
        """Return the index in `ids` of each of `docnos`; -1 if absent.

        If the documents are not encoded yet, the same pass encodes them.
        """
        if self._among[0] is not ids:
            if "_docs" in vars(self):
                self._among = ids, ids.find(self.docnos)
            else:
                self._need(DOCNO)
                coded = check_ids_among(ids, self.frame[DOCNO], DOCNO, self.refuse)
                self._docs, self._among = coded[:2], (ids, coded[2])
        return self._among[1].copy()

    @cached_property
    def scores(self) -> FloatArray:
        """The score of each frame row; shape (n_rows,)."""
        self._need(DOCNO, SCORE)
        values: FloatArray = self._numbers(SCORE)
        return values

    @cached_property
    def samples(self) -> IntArray | None:
        """The sample of each frame row, shape (n_rows,); `None` if the run is not sampled."""
        if not self.sampled:
            return None
        values: IntArray = self._numbers(SAMPLE)
        return values

    @cached_property
    def ranks(self) -> IntArray:
        """The rank of each frame row; shape (n_rows,)."""
        values: IntArray = self._numbers(RANK)
        return values

    @cached_property
    def is_sampled(self) -> bool:
        """Whether a query has several rankings.

        Without the column ``sample``, which TREC files lose, the run is sampled if a query has a
        document or a rank twice.
        """
        if self.samples is not None:
            return _varies(self.frame_query, self.samples)
        return len(self.repeated_rows()) > 0

    def repeated_rows(self) -> IntArray:
        """Return the frame rows that repeat a document of their query or, without any, a rank."""
        columns = [self.passages[0]] if DOCNO in self.frame.columns else []
        if RANK in self.frame.columns:
            columns.append(pd.factorize(self.frame[RANK], use_na_sentinel=False)[0])
        for codes in columns:
            rows = np.flatnonzero(repeats(self.frame_query, codes))
            if len(rows):
                return rows
        return np.zeros(0, dtype=np.int64)

    def documents_of(self, query: int) -> list[str]:
        """Return the distinct docnos of a query."""
        return self.docnos.texts_at(pd.unique(self.frame_doc[self.rows_of(query)]))

    def own_documents(self) -> IntArray:
        """Return the rows whose docno is their qid, so that the query seems to be its own document.

        Numbers and letters may be equal by chance: they count if at least half of the queries
        have their own id at rank 1.
        """
        is_own = self.by_parent().identical_ids()
        if not is_own.any():
            return np.zeros(0, dtype=np.int64)
        rows = np.flatnonzero(is_own[self.order])
        queries = np.unique(self.query[rows])
        first = np.unique(self.query[rows[self.position[rows] == 0]])
        texts = self.qids.texts_at(queries)
        is_plain = all(qid.isdecimal() or len(qid) == 1 for qid in texts)
        if is_plain and 2 * len(first) < len(self.qids):
            return rows[:0]
        return rows

    def docno(self, row: int) -> str:
        """Return the docno of a row."""
        return str(self.docnos[self.doc[row]])

    def describe(self, row: int) -> str:
        """Return ``"qid 'q1', sample 3, docno 'd7'"`` for a row, for messages."""
        ranking = self.ranking[row]
        qid = str(self.qids[self.ranking_query[ranking]])
        sample = f", sample {self.ranking_sample[ranking]}" if self.sampled else ""
        return f"qid {qid!r}{sample}, docno {self.docno(row)!r}"

    # Parts of a run ----------------------------------------------------------------------------

    def take(self, rows: BoolArray) -> Run:
        """Return a subset of the frame rows, sorted again; queries without rows are dropped."""
        ids = {name: coded_again(codes[rows], of) for name, (codes, of) in self.coded_ids.items()}
        is_checked = self.is_checked or "order" in vars(self)
        return Run(self.frame[rows], self.where, ids=ids, is_checked=is_checked)

    def without_identical_ids(self) -> Run:
        """Return the run without documents whose docno is their qid, with new ranks.

        All passages of such a document are left out.
        """
        is_other = ~self.by_parent().identical_ids()
        part = self if is_other.all() else self.take(is_other)
        if part is self or not {RANK, SCORE} <= {*part.frame.columns}:
            return part  # credit has no scores, and gaps in its ranks do not count
        rank = np.empty(len(part), dtype=np.int64)
        rank[part.order] = part.position
        return part.with_column(RANK, rank)

    def ordered_by(self, column: str) -> Run:
        """Return the run with a column as its scores and without ranks."""
        frame = self.frame.drop(columns=[RANK, column], errors="ignore")
        frame = frame.assign(**{SCORE: self.frame[column]})
        return Run(frame, self.where, ids=self.coded_ids)

    def with_column(self, column: str, values: Any) -> Run:
        """Return the run with another column, whose rule holds; without it for `None`."""
        frame = self.frame.drop(columns=column, errors="ignore")
        if values is not None:
            frame = frame.assign(**{column: np.asarray(values)})
        return Run(frame, self.where, ids=self.coded_ids, is_checked=self.is_checked)

    def restricted(self, rows: BoolArray) -> Run:
        """Return a subset of the rows with their ranks; empty queries and rankings stay."""
        part = Run(self.frame, self.where, ids=self.coded_ids, is_checked=True)
        ranking = self.ranking[rows]
        restricted = SortedRows(
            order=self.order[rows],
            doc=self.doc[rows],
            query=self.query[rows],
            ranking=ranking,
            position=self.position[rows],
            ranking_start=np.searchsorted(ranking, np.arange(self.n_rankings + 1)),
            ranking_query=self.ranking_query,
            ranking_sample=self.ranking_sample,
            n_samples=self.n_samples,
        )
        vars(part).update(zip(SortedRows._fields, restricted, strict=True))
        return part

    # Passages ----------------------------------------------------------------------------------

    def with_parents(self, separator: str | None) -> Run:
        """Return the run with the column ``parent``: each docno up to the last separator.

        A docno without the separator is its own parent.

        Args:
            separator: e.g. ``"%p"``, as in PyTerrier; `None` to return the run unchanged.

        Raises:
            InputError: the run has the column already.
            ParameterError: the separator is not text, or is empty.
        """
        if separator is None:
            return self
        checks.text("parent", separator, self.where)
        if PARENT in self.frame.columns:
            raise InputError(
                f"{self.where}: the run has the column {PARENT!r} already; drop it, or do not set "
                f"`parent={separator!r}`"
            )
        if DOCNO not in self.frame.columns:
            return self
        return self.with_column(PARENT, parents_of(self.docnos, separator)[self.frame_doc])

    @cached_property
    def _parents(self) -> Coded:
        """The parents of frame rows, checked."""
        codes, parents = check_ids(self.frame[PARENT], PARENT, self.refuse)
        doc, docnos = self._docs
        first = np.zeros(docnos.size, dtype=np.int64)
        first[doc[::-1]] = np.arange(len(doc))[::-1]  # the last assignment to an index wins
        wrong = np.flatnonzero(codes != codes[first[doc]])
        if len(wrong):
            row = int(wrong[0])
            other = int(first[doc[row]])
            message = (
                f"docno {docnos[doc[row]]!r} must have one parent, got {parents[codes[other]]!r} "
                f"in row {other} (qid {str(self.qids[self.frame_query[other]])!r}) and "
                f"{parents[codes[row]]!r} in row {row}"
            )
            self.refuse(RowProblem(wrong, message, remedy=f"fix the column {PARENT!r}"))
        return codes, parents

    def by_parent(self) -> Run:
        """Return the run with the documents of its passages as docnos, and its order.

        Each row is still a passage, so a ranking may have a document several times. The docnos of
        passages are in the column ``passage``. A run without the column ``parent`` is returned
        unchanged.

        Raises:
            InputError: a parent is missing or invalid, or a docno has two.
        """
        if not {DOCNO, PARENT} <= {*self.frame.columns}:
            return self
        if SCORE in self.frame.columns:
            self.checked()  # errors name passages
        columns = {PASSAGE: self.frame[DOCNO], DOCNO: self.frame[PARENT]}
        codes, parents = self._parents
        run = Run(
            self.frame.drop(columns=PARENT).assign(**columns),
            self.where,
            ids={**self.coded_ids, DOCNO: (codes, parents), PASSAGE: self._docs},
            is_checked=self.is_checked or "order" in vars(self),
        )
        if "order" in vars(self):
            rows = SortedRows(*(getattr(self, name) for name in SortedRows._fields))
            vars(run).update(rows._replace(doc=codes[self.order])._asdict())
        return run

    def first_passages(self) -> Run:
        """Return the run of `by_parent` with each document once per ranking, at its first rank."""
        run = self.by_parent()
        if run._passages is None:
            return run
        is_repeated = repeats(run.ranking, run.doc)
        if not is_repeated.any():
            return run
        rows = np.zeros(len(run), dtype=bool)
        rows[run.order[~is_repeated]] = True
        return run.take(rows)

    # Sorting -----------------------------------------------------------------------------------

    def _sort(self) -> SortedRows:
        self._need(DOCNO, SCORE)
        sample = self.samples
        rank, score = self.ranks if RANK in self.frame.columns else None, self.scores
        query, (doc, docnos) = self.frame_query, self.passages
        key = query if sample is None else combined(query, sample)
        order = _sorted_order(key, rank, score, docnos, doc)
        if order is None:
            order = np.arange(len(key), dtype=np.int64)
        else:
            key, query, doc, score = key[order], query[order], doc[order], score[order]
            sample = None if sample is None else sample[order]
            rank = None if rank is None else rank[order]
        fresh = np.ones(len(key), dtype=bool)
        fresh[1:] = key[1:] != key[:-1]
        start = np.append(np.flatnonzero(fresh), len(key)).astype(np.int64)
        first = start[:-1]
        ranking = np.cumsum(fresh) - 1
        if not self.is_checked:
            self._check_rankings(ranking, doc, rank, score, order)
        return SortedRows(
            order=order,
            doc=doc if self._passages is None else self.frame_doc[order],
            query=query,
            ranking=ranking,
            position=np.arange(len(key), dtype=np.int64) - first[ranking],
            ranking_start=start,
            ranking_query=query[first],
            ranking_sample=np.zeros_like(first) if sample is None else sample[first],
            n_samples=np.bincount(query[first], minlength=len(self.qids)),
        )

    def _check_rankings(
        self,
        ranking: IntArray,
        doc: IntArray,
        rank: IntArray | None,
        score: FloatArray,
        order: IntArray,
    ) -> None:
        """Refuse a document or rank that occurs twice, and ranks that disagree with scores."""
        if_sampled = "" if self.sampled else f"if the run is sampled, {LOST_SAMPLES}; else "
        remedy = f"{if_sampled}keep the better one, e.g. with drop_duplicates"
        check_unique(ranking, doc, DUPLICATE_DOCUMENT, self.refuse, remedy, order)
        if rank is None:
            return
        repeated = np.flatnonzero((ranking[1:] == ranking[:-1]) & (rank[1:] == rank[:-1])) + 1
        if len(repeated):
            message = f"duplicate rank {rank[repeated[0]]} in a ranking"
            remedy = f"{if_sampled}recompute them with pt.model.add_ranks"
            self.refuse(RowProblem(order[repeated], message, DuplicateError, remedy=remedy))
        remedy = "recompute ranks or scores (pt.model.add_ranks)"
        check_order(ranking, rank, score, order, self.refuse, remedy)


def single_precision(scores: FloatArray) -> Any:
    """Return scores as trec_eval reads them; infinite if they are too large."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32)


def _varies(query: IntArray, value: IntArray) -> bool:
    """Return whether any query has two different values."""
    first = np.zeros(int(query.max(initial=-1)) + 1, dtype=np.int64)
    first[query[::-1]] = value[::-1]  # the last assignment to an index wins
    return bool((first[query] != value).any())


def _sorted_order(
    key: IntArray,
    rank: IntArray | None,
    score: Any,
    documents: Ids,
    doc: IntArray,
) -> IntArray | None:
    """Return the order of the rows; `None` if they are sorted already."""
    within = rank if rank is not None else -score
    step = key[1:] - key[:-1]
    if bool(((step > 0) | ((step == 0) & (within[1:] > within[:-1]))).all()):
        return None
    if rank is not None:
        return np.lexsort((within, key))
    return order_by((within, key), lambda rows: (doc[rows], documents.text))


def order_by(
    keys: tuple[Any, ...],
    named: Callable[[IntArray], tuple[Any, Any]],
    descending: bool = True,
) -> IntArray:
    """Return the order of rows by keys, with ties broken by name.

    Args:
        keys: as for `numpy.lexsort`: the last one is the primary key.
        named: returns the names of some rows, as indices into distinct names, and these names.
        descending: whether ties are broken by descending name (trec_eval's rule).
    """
    order: IntArray = np.lexsort(keys)
    tied = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys])
    if not tied.any():
        return order
    # Only tied rows are compared by name: sorting strings is slow.
    involved = np.append(tied, False) | np.append(False, tied)
    rows = order[involved]
    group = np.cumsum(np.append(True, ~tied))[involved]
    name, names = named(rows)
    code, used = pd.factorize(name)
    by_name = np.empty(len(used), dtype=np.int64)
    by_name[np.argsort(np.asarray(names[used], dtype=str), kind="stable")] = np.arange(len(used))
    tie_order = -by_name[code] if descending else by_name[code]
    order[involved] = rows[np.lexsort((tie_order, group))]
    return order
