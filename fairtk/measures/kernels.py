"""Measures of ir_measures as array operations on all rankings at once, for `E`.

Values agree with ir_measures' providers (pytrec_eval, MS MARCO's script for ``RR@k``, cwl_eval for
RBP), for rankings in the order of their ranks. Documents with a negative label or no label have no
gain, and a query without relevant documents gets 0. Providers compute all other measures. A kernel
is one function and one line in `KERNELS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from ir_measures.providers.base import NOT_PROVIDED

from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.measures.labeled_run import LabeledRun


def _total(judged: LabeledRun, value: npt.NDArray[Any]) -> FloatArray:
    """Return the sum of the rows of each ranking; shape (n_rankings,)."""
    # no ranking is empty, so each segment starts where the previous one ends
    start = judged.run.ranking_start[:-1]
    return np.asarray(np.add.reduceat(value.astype(np.float64), start))


def _hits(judged: LabeledRun, rel: int, cutoff: int | None) -> BoolArray:
    """Return which rows are relevant and above the cutoff; shape (n_rows,)."""
    hit: BoolArray = judged.row_label >= rel
    return hit if cutoff is None else np.logical_and(hit, judged.run.position < cutoff)


def _relevant(judged: LabeledRun, rel: int) -> FloatArray:
    """Return the number of relevant labels of each ranking's query; shape (n_rankings,)."""
    qrels = judged.qrels
    relevant = qrels.query[qrels.labels >= rel]
    count: FloatArray = np.bincount(relevant, minlength=len(judged.qids)).astype(np.float64)
    return count[judged.ranking_query]


def _share(part: FloatArray, whole: npt.NDArray[Any]) -> FloatArray:
    return np.asarray(np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0))


def _dcg(gain: FloatArray, position: IntArray) -> FloatArray:
    return np.asarray(gain / np.log2(np.arange(position.max(initial=0) + 1) + 2.0)[position])


def ndcg(judged: LabeledRun, cutoff: int | None) -> FloatArray:
    """Return the nDCG of each ranking, with labels as gains and log2 discounts."""
    gain = np.maximum(judged.row_label, 0.0)
    if cutoff is not None:
        gain = gain * (judged.run.position < cutoff)
    return _by_ideal(_total(judged, _dcg(gain, judged.run.position)), judged, cutoff)


def exact_ndcg(judged: LabeledRun, cutoff: int | None, exposure: FloatArray) -> FloatArray:
    """Return the expected nDCG from exposure under `DCG`, in which it is linear; (n_rankings,)."""
    gain = np.maximum(judged.row_label, 0.0)
    return _by_ideal(_total(judged, gain * exposure), judged, cutoff)


def _by_ideal(gain: FloatArray, judged: LabeledRun, cutoff: int | None) -> FloatArray:
    query, label, index = judged.qrels.ideal
    best = _dcg(label, index)
    if cutoff is not None:
        best = best * (index < cutoff)
    ideal = np.bincount(query, weights=best, minlength=len(judged.qids))
    return _share(gain, ideal[judged.ranking_query])


def precision(judged: LabeledRun, rel: int, cutoff: int) -> FloatArray:
    """Return the share of the first ``cutoff`` ranks that have a relevant document."""
    return _total(judged, _hits(judged, rel, cutoff)) / cutoff


def recall(judged: LabeledRun, rel: int, cutoff: int) -> FloatArray:
    """Return the share of relevant documents that are in the first ``cutoff`` ranks."""
    return _share(_total(judged, _hits(judged, rel, cutoff)), _relevant(judged, rel))


def average_precision(judged: LabeledRun, rel: int, cutoff: int | None) -> FloatArray:
    """Return the precision at relevant ranks, summed, per relevant document."""
    hit = _hits(judged, rel, cutoff)
    before = np.concatenate([[0], np.cumsum(hit)])
    start = judged.run.ranking_start
    so_far = before[1:] - np.repeat(before[start[:-1]], np.diff(start))
    precise = hit * so_far / (judged.run.position + 1.0)
    return _share(_total(judged, precise), _relevant(judged, rel))


def reciprocal_rank(judged: LabeledRun, rel: int, cutoff: int | None) -> FloatArray:
    """Return 1 / rank of the first relevant document; 0 if no document is relevant."""
    value = _hits(judged, rel, cutoff) / (judged.run.position + 1.0)
    return np.asarray(np.maximum.reduceat(value, judged.run.ranking_start[:-1]))


def success(judged: LabeledRun, rel: int, cutoff: int) -> FloatArray:
    """Return 1 if a relevant document is in the first ``cutoff`` ranks, else 0."""
    return (_total(judged, _hits(judged, rel, cutoff)) > 0).astype(np.float64)


def rank_biased_precision(judged: LabeledRun, rel: int, p: float) -> FloatArray:
    """Return the sum of (1 - p) p^rank over relevant ranks, from 0."""
    weight = (1 - p) * p ** judged.run.position.astype(np.float64)
    return _total(judged, _hits(judged, rel, None) * weight)


Kernel = Callable[..., FloatArray]

# name -> the kernel, and the parameters of the measure that it takes
KERNELS: dict[str, tuple[Kernel, tuple[str, ...]]] = {
    "AP": (average_precision, ("rel", "cutoff")),
    "P": (precision, ("rel", "cutoff")),
    "R": (recall, ("rel", "cutoff")),
    "RBP": (rank_biased_precision, ("rel", "p")),
    "RR": (reciprocal_rank, ("rel", "cutoff")),
    "Success": (success, ("rel", "cutoff")),
    "nDCG": (ndcg, ("cutoff",)),
}


def kernel_of(measure: Any) -> Callable[[LabeledRun], FloatArray] | None:
    """Return the kernel of a measure; `None` if its provider must compute it."""
    theirs = type(measure).__module__.startswith("ir_measures.measures")
    if not theirs or measure.NAME not in KERNELS:
        return None
    kernel, names = KERNELS[measure.NAME]
    for name, param in measure.SUPPORTED_PARAMS.items():
        if name not in names and measure[name] != param.default:
            return None
        if name in names and measure[name] is NOT_PROVIDED and (param.required or name != "cutoff"):
            return None
    settings = {name: measure[name] for name in names}
    if settings.get("cutoff") is NOT_PROVIDED:
        settings["cutoff"] = None
    return partial(kernel, **settings)
