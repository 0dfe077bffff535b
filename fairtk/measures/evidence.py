"""Labels and run as arrays, encoded once and shared by all measures of one evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import DuplicateError, InputError, such_rows
from fairtk.frames.columns import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE, require
from fairtk.frames.rankings import FloatArray, IntArray, Rankings, distinct_strings, encode_run

QUERY_ID, DOC_ID, RELEVANCE = "query_id", "doc_id", "relevance"
_FROM_IR_MEASURES = {QUERY_ID: QID, DOC_ID: DOCNO, RELEVANCE: LABEL}
TO_IR_MEASURES = {ours: theirs for theirs, ours in _FROM_IR_MEASURES.items()}


def from_ir_measures(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with PyTerrier's column names; the only place that knows both."""
    return frame.rename(columns=_FROM_IR_MEASURES)


class Judgments:
    """The labels of all queries, encoded once for any number of runs.

    Args:
        frame: qrels in PyTerrier's names; ``docno`` and ``label`` are read only when a measure
            needs them.
        where: the measures, for messages.
        qids: the queries, some of which may have no label left; None: those of the frame.
    """

    def __init__(
        self, frame: pd.DataFrame, where: str, qids: npt.NDArray[np.object_] | None = None
    ) -> None:
        require(frame, [QID], f"{where} (qrels)")
        self.frame = frame
        self.where = where
        self.seen_n: dict[str, IntArray] = {}
        codes, values = pd.factorize(frame[QID])
        _refuse_missing(codes, QID, where)
        self.query: IntArray = codes.astype(np.int64, copy=False)
        self.qids: npt.NDArray[np.object_] = distinct_strings(values, QID, f"{where} (qrels)")
        if qids is not None:
            place = pd.Index(qids, dtype=object).get_indexer(self.qids)
            self.query, self.qids = np.asarray(place, dtype=np.int64)[codes], qids

    @cached_property
    def documents(self) -> tuple[IntArray, pd.Index]:
        """Document index of each label, and the documents."""
        require(self.frame, [QID, DOCNO, LABEL], f"{self.where} (qrels)")
        codes, values = pd.factorize(self.frame[DOCNO])
        _refuse_missing(codes, DOCNO, self.where)
        both = self.query * max(1, len(values)) + codes
        twice = pd.Series(both).duplicated().to_numpy()
        if twice.any():
            row = self.frame.iloc[int(np.flatnonzero(twice)[0])]
            raise DuplicateError(
                f"{self.where}: the qrels label docno {str(row[DOCNO])!r} twice for qid "
                f"{str(row[QID])!r} ({such_rows(int(twice.sum()))}); keep one label per document"
            )
        return codes.astype(np.int64, copy=False), pd.Index(
            distinct_strings(values, DOCNO, f"{self.where} (qrels)"), dtype=object
        )

    @cached_property
    def labels(self) -> FloatArray:
        """The labels as numbers; shape (n_labels,)."""
        try:
            label: FloatArray = self.frame[LABEL].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise InputError(
                f"{self.where}: labels must be numbers; found {self.frame[LABEL].dtype}"
            ) from None
        if not np.isfinite(label).all():
            row = self.frame.iloc[int(np.flatnonzero(~np.isfinite(label))[0])]
            raise InputError(
                f"{self.where}: the label of qid {str(row[QID])!r}, docno {str(row[DOCNO])!r} "
                f"is {row[LABEL]}; drop the row or give it a number"
            )
        return label

    @cached_property
    def fingerprint(self) -> str:
        """A digest of queries, documents and labels."""
        codes, documents = self.documents
        state = hashlib.blake2b("\0".join(self.qids).encode(), digest_size=16)
        state.update("\0".join(documents).encode())
        state.update(self.query.tobytes() + codes.tobytes() + self.labels.tobytes())
        return state.hexdigest()


class Evidence:
    """One run beside the labels.

    Args:
        judgments: the labels.
        run: the run in PyTerrier's names; queries without labels are ignored, as ir_measures
            does.
        where: the measures, for messages.
    """

    def __init__(self, judgments: Judgments, run: pd.DataFrame, where: str) -> None:
        require(run, [QID], f"{where} (run)")
        self.judgments = judgments
        self.where = where
        self.qids = judgments.qids
        self.index = pd.Index(judgments.qids, dtype=object)
        codes, values = pd.factorize(run[QID])
        known = self.index.get_indexer(distinct_strings(values, QID, f"{where} (run)"))
        if len(run) and (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            raise InputError(f"{where}: {QID} is missing (NaN) in row {row} of the run")
        self.frame = run if (known >= 0).all() else run[known[codes] >= 0]
        self.present: npt.NDArray[np.bool_] = np.zeros(len(self.qids), dtype=bool)
        self.present[known[known >= 0]] = True
        self.cache: dict[Any, Any] = {}

    @cached_property
    def rankings(self) -> Rankings:
        """The run, validated and sorted."""
        return encode_run(self.frame, self.where)

    def restricted(
        self, labels: npt.NDArray[np.bool_], rows: npt.NDArray[np.bool_] | None = None
    ) -> Evidence:
        """Return the evidence of some documents alone; the ranks they had are kept.

        Args:
            labels: which rows of the qrels stay; shape (n_labels,).
            rows: which sorted rows of the run stay; shape (n_rows,). None: all.
        """
        judgments = Judgments(self.judgments.frame[labels], self.where, self.qids)
        part = Evidence(judgments, self.frame, self.where)
        ranked = self.rankings
        if rows is not None:
            ranking = ranked.ranking[rows]
            ranked = replace(
                ranked,
                order=ranked.order[rows],
                doc=ranked.doc[rows],
                ranking=ranking,
                position=ranked.position[rows],
                ranking_start=np.searchsorted(ranking, np.arange(ranked.n_rankings + 1)),
            )
        part.__dict__["rankings"] = ranked  # in place of what cached_property would compute
        return part

    @cached_property
    def query_of_run(self) -> IntArray:
        """For each query of the rankings, its index among the labels' queries."""
        return np.asarray(self.index.get_indexer(self.rankings.qids), dtype=np.int64)

    @cached_property
    def pairs(self) -> Pairs:
        """All (query, document) pairs that are labeled or retrieved."""
        return Pairs(self)

    def by_query(
        self, cutoff: int | None
    ) -> Iterator[tuple[int, pd.DataFrame, pd.DataFrame | None]]:
        """Yield the index, the labels and the rankings of each query; None: no rankings.

        Args:
            cutoff: ranks from here on are left out, within each sample; None: nothing is.
        """
        ranked = self.rankings
        frame = self.frame.iloc[ranked.order].copy()
        frame[SAMPLE] = ranked.ranking_sample[ranked.ranking]
        frame[RANK] = ranked.position
        keep = np.ones(len(frame), bool) if cutoff is None else ranked.position < cutoff
        query = self.query_of_run[ranked.query][keep]
        frame = frame[keep].reset_index(drop=True)
        runs = {int(q): rows for q, rows in _row_groups(query)}
        if DOCNO in self.judgments.frame.columns:
            _ = self.judgments.documents  # refuses a document that is labeled twice
        labels = dict(_row_groups(self.judgments.query))
        nothing = np.zeros(0, dtype=np.int64)
        for index in range(len(self.qids)):
            run = frame.iloc[runs[index]] if index in runs else None
            yield index, self.judgments.frame.iloc[labels.get(index, nothing)], run


class Pairs:
    """The distinct (query, document) pairs of labels and run; labels come first.

    Attributes:
        query: query index of each pair; shape (n_pairs,).
        doc: index into `docnos` of each pair; shape (n_pairs,).
        docnos: the documents that are labeled or retrieved.
        label: label of each pair, NaN for an unjudged one; shape (n_pairs,).
        of_row: pair index of each sorted row of the run; shape (n_rows,).
    """

    def __init__(self, evidence: Evidence) -> None:
        judgments, rankings = evidence.judgments, evidence.rankings
        judged_doc, documents = judgments.documents
        known = documents.get_indexer(rankings.docnos)
        fresh = known < 0
        known[fresh] = len(documents) + np.arange(int(fresh.sum()))
        width = len(documents) + int(fresh.sum())
        run_query = evidence.query_of_run[rankings.query]
        key = np.concatenate(
            [judgments.query * width + judged_doc, run_query * width + known[rankings.doc]]
        )
        codes, distinct = pd.factorize(key)  # labels are distinct, so their codes are 0, 1, 2, ...
        n_labels = len(judgments.query)
        self.query: IntArray = np.asarray(distinct // max(1, width), dtype=np.int64)
        self.doc: IntArray = np.asarray(distinct % max(1, width), dtype=np.int64)
        self.docnos = np.concatenate([documents.to_numpy(), rankings.docnos[fresh]])
        self.label: FloatArray = np.full(len(distinct), np.nan)
        self.label[:n_labels] = judgments.labels
        self.of_row: IntArray = codes[n_labels:].astype(np.int64, copy=False)

    def __len__(self) -> int:
        return len(self.query)


def _refuse_missing(codes: npt.NDArray[np.int64], column: str, where: str) -> None:
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where}: {column} is missing (NaN) in row {row} of the qrels")


def _row_groups(codes: IntArray) -> Iterator[tuple[int, IntArray]]:
    order = np.argsort(codes, kind="stable")
    values, start = np.unique(codes[order], return_index=True)
    for value, rows in zip(values, np.split(order, start[1:]), strict=False):
        yield int(value), rows


def plain_run(evidence: Evidence, columns: list[str]) -> pd.DataFrame:
    """Return the sorted run with scores that repeat its order, for evaluators that sort by score.

    Args:
        evidence: the run.
        columns: further columns to keep.
    """
    ranked = evidence.rankings
    extra = [c for c in columns if c in evidence.frame.columns and c not in (SCORE, RANK, SAMPLE)]
    frame = evidence.frame[list(dict.fromkeys([QID, DOCNO, *extra]))].iloc[ranked.order]
    return frame.assign(**{SCORE: -ranked.position.astype(float), RANK: ranked.position})
