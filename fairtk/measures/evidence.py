"""One run beside the labels as arrays, encoded once and shared by all measures of a call."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.columns import DOCNO, QID, RANK, SAMPLE
from fairtk.frames.matching import warn_of_other_qids, warn_of_strangers
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import Rankings, rankings_of
from fairtk.frames.runs import Run


class Evidence:
    """One run beside the labels.

    Args:
        qrels: the labels.
        run: the run in PyTerrier's names; queries without labels are ignored, as ir_measures
            does.
        where: the measures, for messages.
    """

    def __init__(self, qrels: Qrels, run: pd.DataFrame, where: str) -> None:
        whole = Run(run, f"{where} (run)")
        self.qrels = qrels
        self.where = where
        self.qids = qrels.qids
        self.index = qrels.query_index
        warn_of_other_qids(qrels, whole, where)
        known = self.index.get_indexer(whole.qids)
        self._run = whole if (known >= 0).all() else whole.kept(known[whole.query] >= 0)
        self.frame = self._run.frame
        self.present: BoolArray = np.zeros(len(self.qids), dtype=bool)
        self.present[known[known >= 0]] = True
        self.cache: dict[Any, Any] = {}
        self._whole = True

    @cached_property
    def rankings(self) -> Rankings:
        """The run, validated and sorted."""
        return rankings_of(self._run)

    @property
    def is_sampled(self) -> bool:
        """Whether a query has several rankings; see `fairtk.frames.is_sampled`."""
        return self._run.is_sampled

    def restricted(self, labels: BoolArray, rows: BoolArray | None = None) -> Evidence:
        """Return the evidence of some documents alone; the ranks they had are kept.

        Args:
            labels: which rows of the qrels stay; shape (n_labels,).
            rows: which sorted rows of the run stay; shape (n_rows,). None: all.
        """
        part = copy(self)
        part.qrels, part.cache, part._whole = self.qrels.kept(labels), {}, False
        part.__dict__.pop("pairs", None)
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
        pairs = Pairs(self)
        if self._whole:
            ranked, judged = self.rankings, pairs.of_row < len(self.qrels)
            query, docno = self.query_of_run[ranked.query], ranked.docnos[ranked.doc]
            warn_of_strangers(self.qrels, query, docno, judged, self.where)
        return pairs

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
        for name, ids in ((QID, ranked.qids[ranked.query]), (DOCNO, ranked.docnos[ranked.doc])):
            if isinstance(frame[name].dtype, pd.CategoricalDtype):  # not what authors expect
                frame[name] = ids
        keep = np.ones(len(frame), bool) if cutoff is None else ranked.position < cutoff
        query = self.query_of_run[ranked.query][keep]
        frame = frame[keep].reset_index(drop=True)
        runs = {int(q): rows for q, rows in _row_groups(query)}
        labels = dict(_row_groups(self.qrels.query))
        nothing = np.zeros(0, dtype=np.int64)
        for index in range(len(self.qids)):
            run = frame.iloc[runs[index]] if index in runs else None
            yield index, self.qrels.frame.iloc[labels.get(index, nothing)], run


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
        qrels, rankings = evidence.qrels, evidence.rankings
        known = qrels.doc_index.get_indexer(rankings.docnos)
        run_query = evidence.query_of_run[rankings.query]
        of_row = qrels.place(run_query, known[rankings.doc])
        other = known < 0  # documents without any label
        known[other] = len(qrels.docnos) + np.arange(int(other.sum()))
        fresh = of_row < 0
        width = len(qrels.docnos) + int(other.sum())
        codes, distinct = pd.factorize((run_query * width + known[rankings.doc])[fresh])
        of_row[fresh] = len(qrels) + codes
        self.query: IntArray = np.concatenate([qrels.query, distinct // max(1, width)])
        self.doc: IntArray = np.concatenate([qrels.doc, distinct % max(1, width)])
        self.docnos = np.concatenate([qrels.docnos, rankings.docnos[other]])
        self.label: FloatArray = np.concatenate([qrels.labels, np.full(len(distinct), np.nan)])
        self.of_row: IntArray = of_row

    def __len__(self) -> int:
        return len(self.query)


def _row_groups(codes: IntArray) -> Iterator[tuple[int, IntArray]]:
    order = np.argsort(codes, kind="stable")
    values, start = np.unique(codes[order], return_index=True)
    for value, rows in zip(values, np.split(order, start[1:]), strict=False):
        yield int(value), rows
