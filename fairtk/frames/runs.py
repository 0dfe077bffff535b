"""Runs: the one place where frames R and S are checked and sorted, as integer codes.

All arithmetic of fairtk works on these arrays, for all queries at once. Row order of the frame
never carries meaning: rows are ordered by ``rank`` where the frame has it, otherwise by score with
ties broken by docno, descending (trec_eval's rule).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError, DuplicateError, InputError, such_rows
from fairtk.frames.columns import (
    DOCNO,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    ObjectArray,
    as_numbers,
    coded_among,
    coded_frame,
    coded_ids,
    require,
    rows_by_code,
    with_text,
)

LOST_SAMPLES = (
    "keep its column 'sample', which TREC files lose when PyTerrier or ir_measures reads them: "
    "read them with fairtk.io.read_run, give pt.Experiment save_format=fairtk.io.save_format, or "
    "use fairtk.Experiment"
)
"""What to do about a run whose rankings of a query cannot be told apart any more."""

_SHORT = 40  # ranks up to which comparing rows finds a document twice faster than hashing them

_OF_ROWS = ("order", "doc", "query", "ranking", "position")
_OF_RANKINGS = ("ranking_start", "ranking_query", "ranking_sample", "n_samples")


class Run:
    """A run as integer codes; what is asked for is checked and made then, and only then.

    "Row" below means a row sorted by query, sample and rank; "frame row" one of the frame, in its
    order. A ranking is one (qid, sample); a run without ``sample`` has one ranking per query.

    Args:
        frame: R or S: ``qid``; for what is sorted ``docno`` and ``score`` too, with ``rank`` and
            ``sample`` if the run has them. The frame is not changed.
        where: the transformer, measure or file that asks, for messages.
        either: whether the frame may have ir_measures' names.

    Raises:
        ColumnError: a column is missing, ``sample`` or ``rank`` is not an integer.
        InputError: an id is none, a score is NaN or infinite, or ranks and scores contradict.
        DuplicateError: a document occurs twice in one ranking, or a rank does.
    """

    frame: pd.DataFrame
    qids: ObjectArray  # the queries, in order of first appearance; shape (n_queries,)
    queries: Ids  # the same, for look-ups
    frame_query: IntArray  # index into `qids` of each frame row; shape (n_rows,)

    documents: Ids  # the distinct documents
    frame_doc: IntArray  # index into `documents` of each frame row; shape (n_rows,)

    order: IntArray  # frame row of each row; shape (n_rows,)
    doc: IntArray  # index into `documents` of each row; shape (n_rows,)
    query: IntArray  # index into `qids` of each row, non-decreasing; shape (n_rows,)
    ranking: IntArray  # index of the ranking of each row, non-decreasing; shape (n_rows,)
    position: IntArray  # 0-based rank inside the ranking of each row, without gaps; shape (n_rows,)
    ranking_start: IntArray  # first row of each, and n_rows at the end; shape (n_rankings + 1,)
    ranking_query: IntArray  # index into `qids` of each, non-decreasing; shape (n_rankings,)
    ranking_sample: IntArray  # sample number of each ranking; shape (n_rankings,)
    n_samples: IntArray  # number of rankings of each query; shape (n_queries,)

    _among: tuple[Ids | None, IntArray] = None, np.zeros(0, dtype=np.int64)  # see `places`

    def __init__(self, frame: pd.DataFrame, where: str, *, either: bool = False) -> None:
        self.frame, coded = coded_frame(frame, where, [QID], [QID], either)
        self.where = where
        self.frame_query, self.queries = coded[QID]
        self.qids = self.queries.text

    def __len__(self) -> int:
        return len(self.frame_query)

    def __getattr__(self, name: str) -> Any:
        if name in ("documents", "frame_doc"):
            self._need(DOCNO)
            self.frame_doc, self.documents = coded_ids(self.frame[DOCNO], DOCNO, self.where)
        elif name in _OF_ROWS or name in _OF_RANKINGS:
            self._sort()
        else:
            raise AttributeError(f"Run has no attribute {name!r}")
        return getattr(self, name)

    def _need(self, *columns: str) -> None:
        if not {*columns} <= {*self.frame.columns}:
            require(self.frame, [QID, DOCNO, *columns[1:]], self.where)

    def _knows(self, name: str) -> bool:
        """Return whether something has been made."""
        return name in vars(self)

    @property
    def docnos(self) -> ObjectArray:
        """The distinct documents as text; shape (n_documents,)."""
        return self.documents.text

    @property
    def n_rankings(self) -> int:
        """Number of rankings."""
        return len(self.ranking_query)

    @property
    def sampled(self) -> bool:
        """Whether the frame has the column ``sample``."""
        return SAMPLE in self.frame.columns

    def checked(self) -> Run:
        """Return the run; whatever is wrong with it is raised now."""
        _ = self.order
        return self

    def places(self, ids: Ids) -> IntArray:
        """Return the place of each of `documents` among others; -1 for none of them.

        What is not encoded yet is looked up first, which saves half of the time.
        """
        if self._among[0] is not ids:
            if self._knows("documents"):
                self._among = ids, ids.find(self.documents)
            else:
                self._need(DOCNO)
                coded = coded_among(ids, self.frame[DOCNO], DOCNO, self.where)
                self.frame_doc, self.documents, place = coded
                self._among = ids, place
        return self._among[1].copy()

    @cached_property
    def scores(self) -> FloatArray:
        """The score of each frame row; shape (n_rows,)."""
        self._need(DOCNO, SCORE)
        score = as_numbers(self.frame[SCORE])
        bad = np.flatnonzero(~np.isfinite(score))
        if len(bad):
            row = self.frame.iloc[int(bad[0])]
            if not np.isnan(score[bad[0]]) or pd.isna(row[SCORE]):
                raise InputError(
                    f"{self.where}: the score of {self._at(int(bad[0]))} is "
                    f"{score[bad[0]]} ({such_rows(len(bad))}); scores must be finite: "
                    "drop these rows or mend the retriever"
                )
            raise ColumnError(
                f"{self.where}: scores must be numbers; found {row[SCORE]!r} for "
                f"{self._at(int(bad[0]))} ({such_rows(len(bad))})"
            )
        return score

    @property
    def samples(self) -> IntArray | None:
        """The sample number of each frame row, shape (n_rows,); None without the column."""
        frame, where = self.frame, self.where
        if SAMPLE not in frame.columns:
            return None
        column = frame[SAMPLE]
        missing = column.isna().to_numpy()
        if missing.any() and not missing.all():
            raise InputError(
                f"{where}: sampled and deterministic rows are mixed: {SAMPLE!r} is missing for "
                f"{self._at(int(np.flatnonzero(missing)[0]))} and {int(missing.sum()) - 1} "
                "other rows; take the two runs one by one"
            )
        values = column.infer_objects().to_numpy()
        if values.dtype.kind not in "iu" and len(values):
            raise ColumnError(
                f"{where}: {SAMPLE!r} must be an integer from 0; found {values.dtype} "
                f"({column.iloc[0]!r}); convert it with .astype(int)"
            )
        result: IntArray = values.astype(np.int64)
        if len(result) and result.min() < 0:
            raise ColumnError(
                f"{where}: {SAMPLE!r} must be an integer from 0; found {result.min()}"
            )
        return result

    @property
    def ranks(self) -> IntArray:
        """The rank of each frame row; shape (n_rows,)."""
        frame, where = self.frame, self.where
        column = frame[RANK]
        if column.dtype.kind == "i" and column.dtype.itemsize <= 8 and not column.hasnans:
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
                if (change & (self.frame_query[1:] == self.frame_query[:-1])).any():
                    return True
            return _varies(self.frame_query, pd.factorize(sample)[0])
        if DOCNO in frame.columns and _repeats(self.frame_query, self.frame_doc):
            return True
        return RANK in frame.columns and _repeats(self.frame_query, pd.factorize(frame[RANK])[0])

    def documents_of(self, query: int) -> list[str]:
        """Return the documents of a query's rows, as text; their ids are not checked."""
        order, start = self._rows_by_query
        return self.documents.some(
            pd.unique(self.frame_doc[order[start[query] : start[query + 1]]])
        )

    @cached_property
    def _rows_by_query(self) -> tuple[IntArray, list[int]]:
        return rows_by_code(self.frame_query, len(self.qids))

    def with_text_ids(self) -> pd.DataFrame:
        """Return the frame, its ids as text."""
        ids = {QID: (self.frame_query, self.queries)}
        if DOCNO in self.frame.columns:
            ids[DOCNO] = self.frame_doc, self.documents
        return with_text(self.frame, ids)

    def docno(self, row: int) -> str:
        """Return the document of a row."""
        return str(self.docnos[self.doc[row]])

    def describe(self, row: int) -> str:
        """Return ``"qid 'q1', sample 3, docno 'd7'"`` for a row, for messages."""
        ranking = self.ranking[row]
        qid = str(self.qids[self.ranking_query[ranking]])
        sample = f", sample {self.ranking_sample[ranking]}" if self.sampled else ""
        return f"qid {qid!r}{sample}, docno {self.docno(row)!r}"

    def _at(self, row: int) -> str:
        """Return ``"qid 'q1', docno 'd7'"`` for a frame row, for messages."""
        docno = f", docno {str(self.frame[DOCNO].iloc[row])!r}" if DOCNO in self.frame else ""
        return f"qid {self.qids[self.frame_query[row]]!r}{docno}"

    # Parts of a run ----------------------------------------------------------------------------

    def take(self, rows: BoolArray) -> Run:
        """Return some frame rows, to be sorted anew; queries without one are gone."""
        part = self._of_frame(self.frame[rows])
        part.frame_query, part.queries = _coded_again(self.frame_query[rows], self.queries)
        part.qids = part.queries.text
        if self._knows("documents"):
            part.frame_doc, part.documents = _coded_again(self.frame_doc[rows], self.documents)
        return part

    def ordered_by(self, column: str) -> Run:
        """Return the same rows with a column made their scores, and without ranks."""
        frame = self.frame.drop(columns=[RANK, column], errors="ignore")
        part = self._of_frame(frame.assign(**{SCORE: self.frame[column]}))
        part.frame_query, part.queries, part.qids = self.frame_query, self.queries, self.qids
        if self._knows("documents"):
            part.frame_doc, part.documents = self.frame_doc, self.documents
        return part

    def _of_frame(self, frame: pd.DataFrame) -> Run:
        part = Run.__new__(Run)
        part.frame, part.where = frame, self.where
        return part

    def restricted(self, rows: BoolArray) -> Run:
        """Return some rows with the ranks that they have; queries and rankings stay, if empty."""
        part = copy(self.checked())
        for name in _OF_ROWS:
            setattr(part, name, getattr(self, name)[rows])
        part.ranking_start = np.searchsorted(part.ranking, np.arange(self.n_rankings + 1))
        return part

    # Sorting -----------------------------------------------------------------------------------

    def _sort(self) -> None:
        """Make the arrays of rows and rankings; raise what is wrong with them."""
        self._need(DOCNO, SCORE)
        frame, sample = self.frame, self.samples
        rank, score = self.ranks if RANK in frame.columns else None, self.scores
        query, doc = self.frame_query, self.frame_doc
        key = query if sample is None else _ranking_key(query, sample)
        order = _sorted_order(key, rank, score, self.documents, doc)
        if order is None:
            order = np.arange(len(frame), dtype=np.int64)
        else:
            key, query, doc, score = key[order], query[order], doc[order], score[order]
            sample = None if sample is None else sample[order]
            rank = None if rank is None else rank[order]
        fresh = np.ones(len(key), dtype=bool)
        fresh[1:] = key[1:] != key[:-1]
        start = np.append(np.flatnonzero(fresh), len(key)).astype(np.int64)
        first = start[:-1]
        self.order, self.doc, self.query = order, doc, query
        self.ranking = np.cumsum(fresh) - 1
        self.position = np.arange(len(key), dtype=np.int64) - first[self.ranking]
        self.ranking_start, self.ranking_query = start, query[first]
        none = np.zeros(len(first), dtype=np.int64)
        self.ranking_sample = none if sample is None else sample[first]
        self.n_samples = np.bincount(self.ranking_query, minlength=len(self.qids))
        try:
            self._refuse_duplicates()
            if rank is not None:
                self._refuse_contradictions(rank, score)
        except InputError:
            for name in (*_OF_ROWS, *_OF_RANKINGS):
                delattr(self, name)  # what is wrong is wrong for whoever asks next, too
            raise

    def _refuse_contradictions(self, rank: IntArray, score: FloatArray) -> None:
        where, same = self.where, self.position[1:] > 0
        twice = same & (rank[1:] == rank[:-1])
        if twice.any():
            row = int(np.flatnonzero(twice)[0]) + 1
            raise DuplicateError(
                f"{where}: rank {rank[row]} occurs twice ({self.describe(row)}); ranks must "
                f"differ within a ranking: {self._lost()}recompute them with pt.model.add_ranks"
            )
        rising = same & (score[1:] > score[:-1])
        if rising.any():
            row = int(np.flatnonzero(rising)[0]) + 1
            raise InputError(
                f"{where}: ranks disagree with scores at {self.describe(row)}: rank {rank[row]} "
                f"has score {score[row] + 0.0:g}, above the {score[row - 1] + 0.0:g} of rank "
                f"{rank[row - 1]}; "
                "recompute one from the other (pt.model.add_ranks)"
            )

    def _refuse_duplicates(self) -> None:
        doc, position = self.doc, self.position
        longest = int(position.max(initial=0)) + 1
        twice = np.zeros(len(doc), dtype=bool)
        if longest <= _SHORT:
            small = doc.astype(np.int32)
            for step in range(1, longest):
                again = np.flatnonzero(small[step:] == small[:-step]) + step
                twice[again[position[again] >= step]] = True  # in the same ranking, that is
        else:
            both = self.ranking * max(1, self.documents.size) + doc
            twice = pd.Series(both).duplicated().to_numpy()
        if twice.any():
            row = int(np.flatnonzero(twice)[0])
            raise DuplicateError(
                f"{self.where}: a document occurs twice in one ranking ({self.describe(row)}; "
                f"{such_rows(int(twice.sum()))}); {self._lost()}keep the better one, e.g. with "
                "drop_duplicates"
            )

    def _lost(self) -> str:
        return "" if self.sampled else f"if the run is sampled, {LOST_SAMPLES}; else "


def _coded_again(codes: IntArray, ids: Ids) -> tuple[IntArray, Ids]:
    """Return the codes of what is left, and the ids that are left."""
    again, seen = pd.factorize(codes)
    return again.astype(np.int64, copy=False), Ids(ids.text[seen])


def _ranking_key(query: IntArray, sample: IntArray) -> IntArray:
    """Return a number for each row that orders rankings by query and sample."""
    n_queries, width = int(query.max(initial=0)) + 1, int(sample.max(initial=0)) + 1
    if n_queries * width >= 2**62:  # numbers that leave much out
        distinct, sample = np.unique(sample, return_inverse=True)
        width = len(distinct)
    return query * width + sample


def _varies(query: IntArray, value: IntArray) -> bool:
    """Return whether a query has two values."""
    first = np.zeros(int(query.max(initial=-1)) + 1, dtype=np.int64)
    first[query[::-1]] = value[::-1]  # the last of equal places stays
    return bool((first[query] != value).any())


def _repeats(query: IntArray, value: IntArray) -> bool:
    """Return whether a query has a value twice."""
    key = query * (int(value.max(initial=-1)) + 2) + value
    return bool(pd.Series(key).duplicated().any())


def _sorted_order(
    key: IntArray,
    rank: IntArray | None,
    score: Any,
    documents: Ids,
    doc: IntArray,
) -> IntArray | None:
    """Return the sorting permutation, by score without ranks; None if rows are in order already."""
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

    Keys are as for `numpy.lexsort`: the last one counts first. `named` gives the names of some
    rows, as indices into names, and the names; descending is trec_eval's rule.
    """
    order: IntArray = np.lexsort(keys)
    tied = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys])
    if not tied.any():
        return order
    # names are compared only where they are tied: sorting strings is slow
    involved = np.append(tied, False) | np.append(False, tied)
    rows = order[involved]
    group = np.cumsum(np.append(True, ~tied))[involved]
    name, names = named(rows)
    code, used = pd.factorize(name)
    by_name = np.empty(len(used), dtype=np.int64)
    by_name[np.argsort(np.asarray(names[used], dtype=str), kind="stable")] = np.arange(len(used))
    place = -by_name[code] if descending else by_name[code]
    order[involved] = rows[np.lexsort((place, group))]
    return order
