"""Runs: the one place where frames R and S are checked and sorted, as integer codes.

All arithmetic of fairtk works on these arrays, for all queries at once. Row order of the frame
never carries meaning: rows are ordered by ``rank`` where the frame has it, otherwise by score with
ties broken by docno, descending (trec_eval's rule).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    IntArray,
    ObjectArray,
    as_numbers,
    from_ir_measures,
    require,
    rows_by_code,
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


LOST_SAMPLES = (
    "keep its column 'sample', which TREC files lose when PyTerrier or ir_measures reads them: "
    "read them with fairtk.io.read_run, give pt.Experiment save_format=fairtk.io.save_format, or "
    "use fairtk.Experiment"
)
"""What to do about a run whose rankings of a query cannot be told apart any more."""


_SHORT = 40  # ranks up to which comparing rows finds a document twice faster than hashing them


@dataclass(frozen=True)
class Rankings:
    """The rows of a run, sorted by query, sample and rank.

    "Row" below means a sorted row; ``order`` leads back to the frame. A ranking is one
    (qid, sample); a run without ``sample`` has one ranking per query.
    """

    qids: ObjectArray  # the queries, in order of first appearance; shape (n_queries,)
    documents: Ids  # the distinct documents
    order: IntArray  # row number in the frame of each row; shape (n_rows,)
    doc: IntArray  # index into `documents` of each row; shape (n_rows,)
    query: IntArray  # index into `qids` of each row, non-decreasing; shape (n_rows,)
    ranking: IntArray  # index of the ranking of each row, non-decreasing; shape (n_rows,)
    position: IntArray  # 0-based rank inside the ranking of each row, without gaps; shape (n_rows,)
    ranking_start: IntArray  # first row of each, and n_rows at the end; shape (n_rankings + 1,)
    ranking_query: IntArray  # index into `qids` of each, non-decreasing; shape (n_rankings,)
    ranking_sample: IntArray  # sample number of each ranking; shape (n_rankings,)
    n_samples: IntArray  # number of rankings of each query; shape (n_queries,)
    sampled: bool  # whether the frame has the column ``sample``
    place: IntArray | None = None  # of `documents` among those known, -1 for another

    @property
    def docnos(self) -> ObjectArray:
        """The distinct documents as text; shape (n_documents,)."""
        return self.documents.text

    def docno(self, row: int) -> str:
        """Return the document of a row."""
        return str(self.docnos[self.doc[row]])

    @property
    def n_rankings(self) -> int:
        """Number of rankings."""
        return len(self.ranking_query)


def encode_run(
    frame: pd.DataFrame, where: str, *, scored: bool = True, use_rank: bool = True
) -> Rankings:
    """Validate a run and return it as integer codes.

    Args:
        frame: R or S: ``qid``, ``docno``, and ``score`` or ``rank`` (or both); ``sample`` if the
            run is sampled. The frame is not changed.
        where: the transformer or measure that asks, for messages.
        scored: whether the column ``score`` must be there.
        use_rank: whether the column ``rank`` decides the order, where the frame has it.

    Raises:
        ColumnError: a column is missing, ``sample`` or ``rank`` is not an integer.
        InputError: a score is NaN or infinite, or ranks and scores contradict each other.
        DuplicateError: a document occurs twice in one ranking, or a rank does.
    """
    return rankings_of(Run(frame, where), scored=scored, use_rank=use_rank)


def rankings_of(
    run: Run, known: Ids | None = None, *, scored: bool = True, use_rank: bool = True
) -> Rankings:
    """Return the same for a run whose queries are encoded; `known`: see `Rankings.place`."""
    frame, where, query, qids = run.frame, run.where, run.query, run.qids
    ranked = use_rank and RANK in frame.columns
    needed = [QID, DOCNO, *([SCORE] if scored or not ranked else [])]
    if not set(needed) <= set(frame.columns):
        require(frame, needed, where)
    sample, rank = run.samples, run.ranks if ranked else None
    score = run.scores if SCORE in frame.columns else None
    place = None if known is None else run.encode_documents(known)
    doc, documents = run.documents

    key = query if sample is None else query * (int(sample.max(initial=0)) + 1) + sample
    order = _sorted_order(key, rank, score, documents, doc)
    if order is None:
        order = np.arange(len(frame), dtype=np.int64)
    else:
        key, query, doc = key[order], query[order], doc[order]
        sample = None if sample is None else sample[order]
        rank = None if rank is None else rank[order]
        score = None if score is None else score[order]

    fresh = np.ones(len(key), dtype=bool)
    fresh[1:] = key[1:] != key[:-1]
    start = np.append(np.flatnonzero(fresh), len(key)).astype(np.int64)
    ranking = np.cumsum(fresh) - 1
    first = start[:-1]
    result = Rankings(
        qids=qids,
        documents=documents,
        order=order,
        doc=doc,
        query=query,
        ranking=ranking,
        position=np.arange(len(key), dtype=np.int64) - first[ranking],
        ranking_start=start,
        ranking_query=query[first],
        ranking_sample=np.zeros(len(first), dtype=np.int64) if sample is None else sample[first],
        n_samples=np.bincount(query[first], minlength=len(qids)),
        sampled=sample is not None,
        place=place,
    )
    _check_duplicates(result, where)
    _check_order(result, rank, score, where)
    return result


def describe(rankings: Rankings, row: int) -> str:
    """Return ``"qid 'q1', sample 3, docno 'd7'"`` for a sorted row, for messages."""
    ranking = rankings.ranking[row]
    qid = rankings.qids[rankings.ranking_query[ranking]]
    sample = f", sample {rankings.ranking_sample[ranking]}" if rankings.sampled else ""
    return f"qid {str(qid)!r}{sample}, docno {rankings.docno(row)!r}"


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


def _check_order(rankings: Rankings, rank: Any, score: FloatArray | None, where: str) -> None:
    if rank is None:
        return
    same = rankings.position[1:] > 0
    twice = same & (rank[1:] == rank[:-1])
    if twice.any():
        row = int(np.flatnonzero(twice)[0]) + 1
        raise DuplicateError(
            f"{where}: rank {rank[row]} occurs twice ({describe(rankings, row)}); ranks must "
            f"differ within a ranking: {_lost(rankings)}recompute them with pt.model.add_ranks"
        )
    if score is None:
        return
    rising = same & (score[1:] > score[:-1])
    if rising.any():
        row = int(np.flatnonzero(rising)[0]) + 1
        raise InputError(
            f"{where}: ranks disagree with scores at {describe(rankings, row)}: rank {rank[row]} "
            f"has score {score[row] + 0.0:g}, above the {score[row - 1] + 0.0:g} of rank "
            f"{rank[row - 1]}; "
            "recompute one from the other (pt.model.add_ranks)"
        )


def _check_duplicates(rankings: Rankings, where: str) -> None:
    doc, position = rankings.doc, rankings.position
    longest = int(position.max(initial=0)) + 1
    twice = np.zeros(len(doc), dtype=bool)
    if longest <= _SHORT:
        small = doc.astype(np.int32)
        for step in range(1, longest):
            again = np.flatnonzero(small[step:] == small[:-step]) + step
            twice[again[position[again] >= step]] = True  # in the same ranking, that is
    else:
        both = rankings.ranking * max(1, rankings.documents.size) + doc
        twice = pd.Series(both).duplicated().to_numpy()
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        raise DuplicateError(
            f"{where}: a document occurs twice in one ranking ({describe(rankings, row)}; "
            f"{such_rows(int(twice.sum()))}); {_lost(rankings)}keep the better one, e.g. with "
            "drop_duplicates"
        )


def _lost(rankings: Rankings) -> str:
    return "" if rankings.sampled else f"if the run is sampled, {LOST_SAMPLES}; else "
