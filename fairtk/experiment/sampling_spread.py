"""How much sampled values vary with the samples.

EE_R, EU and E(m) are means over samples. EE_D and EE_L are means over pairs of samples, up to what
their estimator adds: a U-statistic with the kernel h(x, y) = <x, y>, for EE_L less <x, t> + <y, t>
with the target t. Its variance with N samples is 2 (2 (N - 2) a + b) / (N (N - 1)), with a the
variance of E[h | x] and b that of h (Hoeffding 1948); a mean with variance v has a = v / 4 and
b = v / 2. Both are estimated without bias from sums over two, three and four different samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import (
    BoolArray,
    FloatArray,
    IntArray,
)
from fairtk.groups.distances import SparseRows
from fairtk.measures import LabeledRun
from fairtk.measures.ee import ExpectedExposure
from fairtk.measures.eu import ExpectedUtility
from fairtk.measures.expectation import Expectation, values_of_samples

_BLOCK = 1 << 22
"""Pairs of samples that are in memory at a time."""

_ALIKE = 1e-9
"""Errors of so small a part of a step are those of samples that do not differ, but for rounding."""


@dataclass(frozen=True)
class SampleSpread:
    """What makes up the sampling variance of a measure's values; arrays of shape (n_queries,).

    NaN where it is not known: fewer than two samples, four for EE_D and EE_L. 0 for a query that
    the run lacks: its value is no estimate.
    """

    n: IntArray  # number of samples
    one: FloatArray  # the variance a of what one sample says, see the module
    two: FloatArray  # the variance b of what a pair of samples says
    bias: FloatArray  # what the estimator adds in expectation
    # by how much the value would change if one sample in n + 1 differed from the others by all that
    # values can; NaN where they have no bounds
    step: FloatArray

    def variance(self, n: Any = None) -> FloatArray:
        """Return the variance of the values with n samples, by default with those there are.

        It is an unbiased estimate, which can be below 0 by chance. NaN for one sample of a mean
        over pairs.
        """
        size = np.asarray(self.n if n is None else n, dtype=np.float64)
        many = np.maximum(size, 2)
        several = 2 * (2 * (many - 2) * self.one + self.two) / (many * (many - 1))
        return np.where(size == 1, _of_one(self.one, self.two), several)

    def error(self) -> FloatArray:
        """Return the standard errors of the values, `step` where no two samples differ.

        That N samples are alike does not say that all are: what one in N + 1 has may be unseen.
        """
        return np.where(self.alike(), self.step, self._error())

    def alike(self) -> BoolArray:
        """Return which queries have several samples, of which no two differ."""
        return np.asarray((self.n > 1) & (self._error() <= _ALIKE * self.step))

    def _error(self) -> FloatArray:
        one, two = np.maximum(self.one, 0.0), np.maximum(self.two, 0.0)
        return np.sqrt(replace(self, one=one, two=two).variance())


@dataclass(frozen=True)
class SharedSpread:
    """What makes up the covariance of two runs' values by sampling; arrays of shape (n_queries,).

    Samples of one number are paired, as runs of one seed share their random numbers sample by
    sample. Where runs share none, the estimate is 0 on average.
    """

    first: IntArray  # number of samples of the one run
    second: IntArray  # of the other
    both: IntArray  # of sample numbers that both have
    one: FloatArray  # the covariance of what one sample says in either, see the module
    two: FloatArray  # that of what a pair of samples says

    def covariance(self, n: int | None = None) -> FloatArray:
        """Return the covariance of the values, with n samples of both: all numbers in common.

        It is an unbiased estimate; 0 where there is no number in common, NaN where it is not known:
        fewer than two in common, four for EE_D and EE_L.
        """
        first, second, both = (
            np.asarray(size if n is None else n, dtype=np.float64)
            for size in (self.first, self.second, self.both)
        )
        pairs = np.maximum(first * (first - 1) * second * (second - 1) / 4, 1)
        chains = both * ((first - 1) * (second - 1) - (both - 1))
        shared = (chains * self.one + both * (both - 1) / 2 * self.two) / pairs
        alone = np.maximum(first, second) == 1
        shared = np.where(alone, _of_one(self.one, self.two), shared)
        return np.where(self.both == 0, 0.0, shared)


def _of_one(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the (co)variance of values of a single sample; NaN for means over pairs."""
    return np.where(two == 2 * one, 2 * two, np.nan)  # of a mean a = v / 4 and b = v / 2, exactly


def spread_over_samples(measure: Any, judged: LabeledRun) -> SampleSpread:
    """Return the spread of a measure's values over sets of samples.

    Samples are taken to be independent; stratified ones vary less. The measure is one of expected
    exposure, EU or E(...).
    """
    query, n_queries = judged.ranking_query, len(judged.qids)
    if not judged.run.sampled:
        what = "exact exposure" if judged.exact is not None else "no column 'sample'"
        raise InputError(f"{judged.where}: the run has {what}: nothing varies by sampling")
    n = np.bincount(query, minlength=n_queries)
    if not _is_of_pairs(measure):
        value, reach = _values(measure, judged)
        mean = sum_by_index(query, value, n_queries) / np.maximum(n, 1)
        square = sum_by_index(query, (value - mean[query]) ** 2, n_queries)
        variance = np.where(n == 1, np.nan, square / np.maximum(n - 1, 1))
        return SampleSpread(n, variance / 4, variance / 2, np.zeros(n_queries), reach / (n + 1))
    kernel_of, scale = _kernels(measure, judged), measure.scales(judged)
    one, two = np.zeros((2, n_queries))
    for number, own in _by_query(query):
        kernel = kernel_of(np.arange(own.start, own.stop))
        one[number], two[number] = _moments(kernel, kernel)
    bias = np.zeros(n_queries)
    if measure["estimator"] == "plain":
        bias = measure.sampling_bias(judged)
    step = 2 * measure.widths(judged) * scale / (n + 1)
    return SampleSpread(n, one * scale**2, two * scale**2, bias, step)


def shared_over_samples(measure: Any, first: LabeledRun, second: LabeledRun) -> SharedSpread:
    """Return how the values of two runs, judged by the same labels, vary together by sampling.

    The samples of one number are taken to be drawn from a joint distribution, independently of all
    others. The covariance of two U-statistics is Hoeffding's (1948), with a the covariance of
    E[h | x] and E[k | y] and b that of h and k, for kernels h and k and a joint sample (x, y).
    """
    runs, n_queries = (first, second), len(first.qids)
    n, m = (np.bincount(judged.ranking_query, minlength=n_queries) for judged in runs)
    numbers = np.unique(np.concatenate([judged.run.ranking_sample for judged in runs]))
    cells = [
        judged.ranking_query * len(numbers) + np.searchsorted(numbers, judged.run.ranking_sample)
        for judged in runs
    ]
    cell, *places = np.intersect1d(cells[0], cells[1], assume_unique=True, return_indices=True)
    query = cell // max(len(numbers), 1)
    both = np.bincount(query, minlength=n_queries)
    if _is_of_pairs(measure):
        kernels_of = [_kernels(measure, judged) for judged in runs]
        one, two = np.zeros((2, n_queries))
        for number, own in _by_query(query):
            kernels = [of(place[own]) for of, place in zip(kernels_of, places, strict=True)]
            one[number], two[number] = _moments(*kernels)
        scale = measure.scales(first) * measure.scales(second)
        return SharedSpread(n, m, both, one * scale, two * scale)
    apart = []
    for judged, place in zip(runs, places, strict=True):
        value = _values(measure, judged)[0][place]
        apart.append(value - (sum_by_index(query, value, n_queries) / np.maximum(both, 1))[query])
    product = sum_by_index(query, apart[0] * apart[1], n_queries)
    covariance = np.where(both == 1, np.nan, product / np.maximum(both - 1, 1))
    return SharedSpread(n, m, both, covariance / 4, covariance / 2)


def _is_of_pairs(measure: Any) -> bool:
    return isinstance(measure, ExpectedExposure) and measure.PART != "relevance"


def _values(measure: Any, judged: LabeledRun) -> tuple[FloatArray, FloatArray]:
    """Return what each ranking says, and by how much a query's can differ (NaN: no bounds)."""
    reach = np.ones(len(judged.qids))
    if isinstance(measure, ExpectedExposure):
        exposure, scale = measure.exposure_by_ranking(judged), measure.scales(judged)
        value = exposure.per_row(exposure.weight * measure.targets(judged)[exposure.level])
        return value * scale[judged.ranking_query], measure.widths(judged) * scale
    if isinstance(measure, ExpectedUtility):
        query, value = measure.of_answers(judged)
        width = measure.bounds[1] - measure.bounds[0]
        reach = reach * (width if np.isfinite(width) else np.nan)
        return value[np.argsort(query, kind="stable")], reach
    if isinstance(measure, Expectation):
        return values_of_samples(measure.inner, judged)[1], reach
    raise ParameterError(
        f"{measure!r} is no mean over samples or pairs of samples, so that how it varies is "
        "not known; known are EE_D, EE_R, EE_L, EU and E(...)"
    )


def _kernels(measure: Any, judged: LabeledRun) -> Callable[[IntArray], _Kernel]:
    """Return what gives the kernel over some samples of a query, in their order."""
    exposure: SparseRows = measure.exposure_by_ranking(judged)
    towards = np.zeros(exposure.n_rows)
    if measure.PART == "loss":
        targets = measure.targets(judged)
        towards = exposure.per_row(exposure.weight * targets[exposure.level])

    def kernel(rows: IntArray) -> _Kernel:
        own = exposure.matrix[rows]
        dense = own[:, np.unique(own.indices)].toarray()  # the columns that have weight in them
        return _Kernel(np.asarray(dense), towards[rows])

    return kernel


class _Kernel:
    """What each pair of a query's samples says, less the mean of that: h(x, y) in the module.

    Args:
        vectors: exposure of documents or groups in each sample; shape (n, n_columns).
        towards: its inner product with the target; shape (n,).
    """

    def __init__(self, vectors: FloatArray, towards: FloatArray) -> None:
        self.vectors, self.towards, self.n = vectors, towards, len(vectors)
        inner = vectors @ vectors.sum(axis=0) - (vectors**2).sum(axis=1)  # with all others
        pairs = self.n * (self.n - 1)
        self.mean = (float(inner.sum()) / pairs if pairs else math.nan) - 2 * float(towards.mean())
        self.sums = inner - towards.sum() - (self.n - 2) * towards - (self.n - 1) * self.mean

    def block(self, own: slice) -> FloatArray:
        """Return some rows of the table of all pairs, 0 for a sample with itself."""
        block = self.vectors[own] @ self.vectors.T - self.towards[own, None] - self.towards
        block = np.asarray(block - self.mean)
        block[np.arange(len(block)), np.arange(self.n)[own]] = 0.0
        return block


def _moments(first: _Kernel, second: _Kernel) -> tuple[float, float]:
    """Return a and b of two kernels over the same samples; their variances for one kernel."""
    n = first.n
    if n < 4:
        return math.nan, math.nan
    squares = 0.0
    step = max(1, _BLOCK // n)
    for start in range(0, n, step):
        own = slice(start, start + step)
        block = first.block(own)
        squares += float((block * (block if second is first else second.block(own))).sum())
    pairs, triples = n * (n - 1), n * (n - 1) * (n - 2)
    chains = float(first.sums @ second.sums) - squares
    apart = -(4 * chains + 2 * squares) / (triples * (n - 3))  # of four different samples
    return chains / triples - apart, squares / pairs - apart


def _by_query(query: IntArray) -> Iterator[tuple[int, slice]]:
    start = np.flatnonzero(np.diff(query, prepend=-1))
    for first, last in pairwise([*start.tolist(), len(query)]):
        yield int(query[first]), slice(first, last)
