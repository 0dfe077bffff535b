"""Rankings that are cut off: measures of exposure look more even of them, and do not compare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fairtk.frames import IntArray, Qrels
from fairtk.measures.base import FairMeasure, Judged

MEASURES = ("EE_D", "EE_R", "EE_L", "AWRF")
"""The measures whose values of a truncated ranking look better, or worse, than of a whole one."""

Truncated = dict[str, dict[str, dict[str, int]]]
"""By measure, system and qid: the length of the query's shortest ranking."""


class Truncation:
    """Finds rankings with fewer than min(k, n) documents, over all runs of one call.

    n is the number of documents that the user gives to the measure, else the number of distinct
    documents of the query in the labels and in all runs.

    Args:
        measures: any measures. Those without a cutoff, and all others than `MEASURES`, report
            nothing.
        qrels: the labels.
    """

    def __init__(self, measures: Iterable[Any], qrels: Qrels) -> None:
        self.measures = list(dict.fromkeys(m for measure in measures for m in _parts(measure)))
        self.qrels = qrels
        self._shortest: dict[str, IntArray] = {}  # by system: of each query, -1 without a ranking
        self._most = np.zeros(len(qrels.qids), dtype=np.int64)  # documents of a query in a run
        self._documents: dict[int, set[Any]] = {}  # of queries without a ranking of k documents

    def add(self, judged: Judged, system: str) -> None:
        """Take a run into account."""
        run, cutoffs = judged.run, [measure["cutoff"] for measure in self.measures]
        if not cutoffs or judged.exact is not None:
            return
        query, length = judged.ranking_query, np.diff(run.ranking_start)
        shortest = np.full(len(self._most), np.iinfo(np.int64).max)
        np.minimum.at(shortest, query, length)
        shortest[~judged.present] = -1
        self._shortest[system] = shortest
        np.maximum.at(self._most, query, length)
        few = np.flatnonzero(judged.present & (self._most < max(cutoffs)))
        if len(few):
            self._collect(judged, few)

    def _collect(self, judged: Judged, few: IntArray) -> None:
        """Keep the documents of queries whose rankings are all short."""
        run = judged.run
        width = max(1, len(run.docnos))
        of_row = judged.query_of_run[run.query]
        rows = np.isin(of_row, few)
        query, doc = np.divmod(np.unique(of_row[rows] * width + run.doc[rows]), width)
        start = np.searchsorted(query, few)
        for q, docs in zip(few.tolist(), np.split(run.docnos[doc], start[1:]), strict=True):
            self._documents.setdefault(q, set()).update(docs.tolist())

    def found(self) -> Truncated:
        """Return the truncated rankings by measure, system and query."""
        result: Truncated = {}
        for measure in self.measures:
            n = self._n(measure)
            for system, shortest in self._shortest.items():
                limit = np.minimum(measure["cutoff"], n)
                short = np.flatnonzero((shortest >= 0) & (shortest < limit))
                if len(short):
                    lengths = zip(self.qrels.qids[short], shortest[short], strict=True)
                    of_system = {str(qid): int(length) for qid, length in lengths}
                    result.setdefault(repr(measure), {})[system] = of_system
        return result

    def _n(self, measure: FairMeasure) -> IntArray:
        """Return the number n of documents of each query, exact where it is below the cutoff."""
        rule = measure.settings.get("n")
        if isinstance(rule, int):
            return np.full(len(self._most), rule, dtype=np.int64)
        if isinstance(rule, str) and rule in self.qrels.frame.columns:
            n = np.zeros(len(self._most))
            n[self.qrels.query] = self.qrels.frame[rule].to_numpy(dtype=np.float64, na_value=0.0)
            return n.astype(np.int64)
        labeled = np.bincount(self.qrels.query, minlength=len(self._most))
        documents_of = np.maximum(labeled, self._most).astype(np.int64)
        for query, documents in self._documents.items():
            if documents_of[query] < measure["cutoff"]:
                labels = self.qrels.docnos[self.qrels.doc[self.qrels.rows_of(query)]]
                documents_of[query] = len(documents.union(labels.tolist()))
        return documents_of


def _parts(measure: Any) -> Iterable[FairMeasure]:
    """Yield the parts of a measure that look different of truncated rankings."""
    if not isinstance(measure, FairMeasure):
        return
    reads_ranks = measure.settings.get("of", "exposure") == "exposure"
    if measure.NAME in MEASURES and measure.settings.get("cutoff") is not None and reads_ranks:
        yield measure
    for part in measure.parts:
        yield from _parts(part)


def truncation_texts(found: Truncated, n_systems: int) -> list[str]:
    """Return one message per measure, with the number of queries of each system.

    Args:
        found: of `Truncation.found`.
        n_systems: the number of systems of the call.
    """
    texts = []
    for measure, systems in found.items():
        cutoff = measure.rpartition("@")[2]
        counts = ", ".join(
            " of ".join(filter(None, [_queries(len(qids)), name])) for name, qids in systems.items()
        )
        text = (
            f"{measure}: rankings have fewer than min({cutoff}, n) documents for {counts}. "
            "Exposure over fewer documents looks different, as a rule more even: retrieve deeper, "
            "or use a smaller cutoff"
        )
        lengths = list(systems.values())
        if len(lengths) < n_systems or any(length != lengths[0] for length in lengths):
            text += ". The systems differ in this, so their values do not compare"
        texts.append(text)
    return texts


def _queries(n: int) -> str:
    return "1 query" if n == 1 else f"{n} queries"
