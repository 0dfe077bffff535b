"""Measures of ir_measures over all sampled rankings at once, as array operations.

They agree with trec_eval's values of each ranking (pytrec_eval, MS MARCO's script for ``RR@k``,
cwl_eval for RBP), for rankings in the order of their ranks: a document without a label, or with a
negative one, has no gain, and a query without relevant documents has the value 0. A measure that
is not here, or has a parameter that is not, goes to its provider. A new kernel is one function and
one line in `KERNELS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from ir_measures.providers.base import NOT_PROVIDED

from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.measures.evidence import Evidence


@dataclass(frozen=True)
class LabeledRankings:
    """All rankings of a run beside their labels."""

    label: FloatArray  # of each sorted row of the run, 0 without label; shape (n_rows,)
    position: IntArray  # 0-based rank of each row inside its ranking; shape (n_rows,)
    start: IntArray  # first row of each ranking, and n_rows at the end; shape (n_rankings + 1,)
    query: IntArray  # query of each ranking; shape (n_rankings,)
    judged_query: IntArray  # query of each label; shape (n_labels,)
    judged_label: FloatArray  # the labels; shape (n_labels,)
    n_queries: int  # number of queries

    @classmethod
    def of(cls, evidence: Evidence) -> LabeledRankings:
        """Return the rankings of a run and the labels of its queries."""
        ranked, pairs = evidence.rankings, evidence.pairs
        judged = evidence.qrels
        return cls(
            label=np.nan_to_num(pairs.label)[pairs.of_row],
            position=ranked.position,
            start=ranked.ranking_start,
            query=evidence.query_of_run[ranked.ranking_query],
            judged_query=judged.query,
            judged_label=judged.labels,
            n_queries=len(evidence.qids),
        )

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Query, label and 0-based place of each positive label, the best first."""
        useful = self.judged_label > 0
        query, label = self.judged_query[useful], self.judged_label[useful]
        order = np.lexsort((-label, query))
        query, label = query[order], label[order]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        return query, label, place

    def total(self, value: npt.NDArray[Any]) -> FloatArray:
        """Return the sum of the rows of each ranking; shape (n_rankings,)."""
        # no ranking is empty, so each segment starts where the one before it ends
        return np.asarray(np.add.reduceat(value.astype(np.float64), self.start[:-1]))

    def hits(self, rel: int, cutoff: int | None) -> BoolArray:
        """Return which rows are relevant and not cut off; shape (n_rows,)."""
        hit: BoolArray = self.label >= rel
        return hit if cutoff is None else np.logical_and(hit, self.position < cutoff)

    def relevant(self, rel: int) -> FloatArray:
        """Return the number of relevant labels of each ranking's query; shape (n_rankings,)."""
        known = self.judged_query[self.judged_label >= rel]
        count: FloatArray = np.bincount(known, minlength=self.n_queries).astype(np.float64)
        return count[self.query]


def _share(part: FloatArray, whole: npt.NDArray[Any]) -> FloatArray:
    return np.asarray(np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0))


def _dcg(gain: FloatArray, position: IntArray) -> FloatArray:
    return np.asarray(gain / np.log2(np.arange(position.max(initial=0) + 1) + 2.0)[position])


def ndcg(rankings: LabeledRankings, cutoff: int | None) -> FloatArray:
    """Return nDCG with gains as labeled and log2 discounts, of each ranking."""
    gain = np.maximum(rankings.label, 0.0)
    if cutoff is not None:
        gain = gain * (rankings.position < cutoff)
    return _by_ideal(rankings.total(_dcg(gain, rankings.position)), rankings, cutoff)


def exact_ndcg(rankings: LabeledRankings, cutoff: int | None, exposure: FloatArray) -> FloatArray:
    """Return the expectation of nDCG, which is linear in exposure under `DCG`; (n_rankings,).

    Rankings are those of a frame X, one per query.
    """
    gain = np.maximum(rankings.label, 0.0)
    return _by_ideal(rankings.total(gain * exposure), rankings, cutoff)


def _by_ideal(gain: FloatArray, rankings: LabeledRankings, cutoff: int | None) -> FloatArray:
    query, label, place = rankings.ideal
    best = _dcg(label, place)
    if cutoff is not None:
        best = best * (place < cutoff)
    ideal = np.bincount(query, weights=best, minlength=rankings.n_queries)
    return _share(gain, ideal[rankings.query])


def precision(rankings: LabeledRankings, rel: int, cutoff: int) -> FloatArray:
    """Return the relevant share of the first ``cutoff`` ranks, also of shorter rankings."""
    return rankings.total(rankings.hits(rel, cutoff)) / cutoff


def recall(rankings: LabeledRankings, rel: int, cutoff: int) -> FloatArray:
    """Return the share of the relevant documents that are in the first ``cutoff`` ranks."""
    return _share(rankings.total(rankings.hits(rel, cutoff)), rankings.relevant(rel))


def average_precision(rankings: LabeledRankings, rel: int, cutoff: int | None) -> FloatArray:
    """Return the sum of precision at each relevant rank, by the number of relevant documents."""
    hit = rankings.hits(rel, cutoff)
    before = np.concatenate([[0], np.cumsum(hit)])
    found = before[1:] - np.repeat(before[rankings.start[:-1]], np.diff(rankings.start))
    return _share(rankings.total(hit * found / (rankings.position + 1.0)), rankings.relevant(rel))


def reciprocal_rank(rankings: LabeledRankings, rel: int, cutoff: int | None) -> FloatArray:
    """Return 1 / rank of the first relevant document; 0 if there is none."""
    value = rankings.hits(rel, cutoff) / (rankings.position + 1.0)
    return np.asarray(np.maximum.reduceat(value, rankings.start[:-1]))


def success(rankings: LabeledRankings, rel: int, cutoff: int) -> FloatArray:
    """Return 1 if a relevant document is in the first ``cutoff`` ranks, else 0."""
    return (rankings.total(rankings.hits(rel, cutoff)) > 0).astype(np.float64)


def rank_biased_precision(rankings: LabeledRankings, rel: int, p: float) -> FloatArray:
    """Return the sum of (1 - p) p^rank over relevant ranks."""
    weight = (1 - p) * p ** rankings.position.astype(np.float64)
    return rankings.total(rankings.hits(rel, None) * weight)


Kernel = Callable[..., FloatArray]

# name -> the kernel, and the parameters of the measure that it takes, in the measure's own words
KERNELS: dict[str, tuple[Kernel, tuple[str, ...]]] = {
    "AP": (average_precision, ("rel", "cutoff")),
    "P": (precision, ("rel", "cutoff")),
    "R": (recall, ("rel", "cutoff")),
    "RBP": (rank_biased_precision, ("rel", "p")),
    "RR": (reciprocal_rank, ("rel", "cutoff")),
    "Success": (success, ("rel", "cutoff")),
    "nDCG": (ndcg, ("cutoff",)),
}


def kernel_of(measure: Any) -> Callable[[LabeledRankings], FloatArray] | None:
    """Return what computes a measure for each ranking, or None if its provider must."""
    theirs = type(measure).__module__.startswith("ir_measures.measures")
    if not theirs or measure.NAME not in KERNELS:
        return None
    kernel, names = KERNELS[measure.NAME]
    for name, param in measure.SUPPORTED_PARAMS.items():
        value = measure[name]
        if name not in names:
            if value != param.default:
                return None
        elif value is NOT_PROVIDED:
            if param.required or name != "cutoff":
                return None
        elif not param.validate(value) or (name != "p" and value < 1):
            return None
    given = {name: measure[name] for name in names}
    if given.get("cutoff") is NOT_PROVIDED:
        given["cutoff"] = None
    return partial(kernel, **given)
