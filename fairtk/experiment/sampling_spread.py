"""The sampling variance of measures.

EE_R, EU and E(m) are means over samples. EE_D and EE_L are, up to bias, means over pairs of
samples: U-statistics with the kernel h(x, y) = <x, y>, for EE_L minus <x, t> + <y, t> with the
target t. Their variance with N samples is 2 (2 (N - 2) a + b) / (N (N - 1)), where a is the
variance of E[h | x] and b the variance of h (Hoeffding 1948). A mean with variance v has a = v / 4
and b = v / 2. Unbiased estimates of both are sums over two, three and four different samples.

With several answers per prompt, the variance of EU over samples is that of rankings alone; the
answers' part is separate, see `fairtk.experiment.answer_spread`. With one answer, it includes what
different prompts' answers vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.experiment.answer_spread import AnswerSpread, reads_answers, spread_over_answers
from fairtk.exposure import sum_by_index
from fairtk.frames import (
    BoolArray,
    FloatArray,
    IntArray,
)
from fairtk.groups.rows import SparseRows
from fairtk.measures import LabeledRun
from fairtk.measures.ee import ExposureOfDocuments
from fairtk.measures.eu import ExpectedUtility
from fairtk.measures.expectation import Expectation, values_of_samples
from fairtk.measures.group_ee import GroupEE_D

_BLOCK = 1 << 22
"""The maximum number of pairs of samples in memory."""

_ALIKE = 1e-9
"""Samples with smaller errors, relative to a step, are equal up to rounding."""


@dataclass(frozen=True)
class SampleSpread:
    """The components of the sampling variance of a measure, arrays of shape (n_queries,).

    They are NaN for fewer than two samples (four for EE_D and EE_L), and 0 for a query missing from
    the run.
    """

    n: IntArray  # number of samples
    one: FloatArray  # the variance a of one sample, see the module
    two: FloatArray  # the variance b of a pair of samples
    bias: FloatArray  # the expected bias of the estimator
    # the change of the value if one sample in n + 1 differed by the full range; NaN if unbounded
    step: FloatArray
    answers: AnswerSpread | None = None  # `None` for measures that do not read answers

    def variance(self, n: Any = None) -> FloatArray:
        """Return the variance of the values with n samples, by default the actual number.

        It is an unbiased estimate, which may be negative. It is NaN for one sample of a mean over
        pairs.
        """
        size = np.asarray(self.n if n is None else n, dtype=np.float64)
        number = np.maximum(size, 2)
        of_many = 2 * (2 * (number - 2) * self.one + self.two) / (number * (number - 1))
        return np.where(size == 1, _variance_of_one_sample(self.one, self.two), of_many)

    def error(self) -> FloatArray:
        """Return the standard errors of the values over samples and, if known, over answers.

        They are `step` if all samples are equal.

        If N samples are equal, the next one may still differ.
        """
        return np.where(self.alike(), self.step, self._error())

    def alike(self) -> BoolArray:
        """Return whether each query has several samples that are all equal."""
        return np.asarray((self.n > 1) & (self._error() <= _ALIKE * self.step))

    def _error(self) -> FloatArray:
        one, two = np.maximum(self.one, 0.0), np.maximum(self.two, 0.0)
        return np.sqrt(replace(self, one=one, two=two).variance() + self.of_answers())

    def of_answers(self) -> FloatArray:
        """Return the answers' part of the variance, 0 if unknown."""
        if self.answers is None:
            return np.zeros(len(self.n))
        return np.nan_to_num(self.answers.part())


@dataclass(frozen=True)
class SharedSpread:
    """The components of the sampling covariance of two runs, arrays of shape (n_queries,).

    Samples with the same number are paired, because runs with the same seed share random numbers.
    For independent runs the estimate is 0 on average.
    """

    first: IntArray  # number of samples of the first run
    second: IntArray  # number of samples of the second run
    both: IntArray  # number of common sample numbers
    one: FloatArray  # the covariance of one sample, see the module
    two: FloatArray  # the covariance of a pair of samples

    def covariance(self, n: int | None = None) -> FloatArray:
        """Return the covariance of the values with n common samples, by default the actual ones.

        It is an unbiased estimate: 0 without common samples, and NaN for fewer than two (four for
        EE_D and EE_L).
        """
        first, second, both = (
            np.asarray(size if n is None else n, dtype=np.float64)
            for size in (self.first, self.second, self.both)
        )
        pairs = np.maximum(first * (first - 1) * second * (second - 1) / 4, 1)
        chains = both * ((first - 1) * (second - 1) - (both - 1))
        shared = (chains * self.one + both * (both - 1) / 2 * self.two) / pairs
        alone = np.maximum(first, second) == 1
        shared = np.where(alone, _variance_of_one_sample(self.one, self.two), shared)
        return np.where(self.both == 0, 0.0, shared)


def _variance_of_one_sample(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the (co)variance of values of a single sample; NaN for means over pairs."""
    return np.where(two == 2 * one, 2 * two, np.nan)  # a mean has a = v / 4, b = v / 2


def spread_over_samples(measure: Any, judged: LabeledRun) -> SampleSpread:
    """Return the sampling variance of expected exposure, EU or E(...).

    Samples are assumed to be independent; stratified ones vary less.
    """
    query, n_queries = judged.ranking_query, len(judged.qids)
    if not judged.run.sampled:
        got = "exact exposure" if judged.exact is not None else "no column 'sample'"
        raise InputError(f"{judged.where}: expected a sampled run, got {got}")
    n = np.bincount(query, minlength=n_queries)
    if not _is_of_pairs(measure):
        value, reach = _values(measure, judged)
        mean = sum_by_index(query, value, n_queries) / np.maximum(n, 1)
        square = sum_by_index(query, (value - mean[query]) ** 2, n_queries)
        variance = np.where(n == 1, np.nan, square / np.maximum(n - 1, 1))
        answers = spread_over_answers(measure, judged) if reads_answers(measure) else None
        if answers is not None:
            variance = variance - answers.excess
        no_bias, step = np.zeros(n_queries), reach / (n + 1)
        return SampleSpread(n, variance / 4, variance / 2, no_bias, step, answers)
    kernel_of, scale = _kernels(measure, judged), measure.scales(judged)
    one, two = np.zeros((2, n_queries))
    for number, rows in _by_query(query):
        kernel = kernel_of(np.arange(rows.start, rows.stop))
        one[number], two[number] = _moments(kernel, kernel)
    bias = np.zeros(n_queries)
    if measure["estimator"] == "plain":
        bias = measure.sampling_bias(judged)
    step = 2 * measure.widths(judged) * scale / (n + 1)
    return SampleSpread(n, one * scale**2, two * scale**2, bias, step)


def shared_over_samples(measure: Any, first: LabeledRun, second: LabeledRun) -> SharedSpread:
    """Return the sampling covariance of two runs with the same labels.

    Samples with the same number are assumed to have a joint distribution and to be independent of
    all others. The covariance of two U-statistics is Hoeffding's (1948), where a is the covariance
    of E[h | x] and E[k | y] and b that of h and k, for kernels h and k and a joint sample (x, y).
    """
    runs, n_queries = (first, second), len(first.qids)
    n, m = (np.bincount(judged.ranking_query, minlength=n_queries) for judged in runs)
    numbers = np.unique(np.concatenate([judged.run.ranking_sample for judged in runs]))
    cells = [
        judged.ranking_query * len(numbers) + np.searchsorted(numbers, judged.run.ranking_sample)
        for judged in runs
    ]
    cell, *indices = np.intersect1d(cells[0], cells[1], assume_unique=True, return_indices=True)
    query = cell // max(len(numbers), 1)
    both = np.bincount(query, minlength=n_queries)
    if _is_of_pairs(measure):
        kernels_of = [_kernels(measure, judged) for judged in runs]
        one, two = np.zeros((2, n_queries))
        for number, rows in _by_query(query):
            kernels = [of(index[rows]) for of, index in zip(kernels_of, indices, strict=True)]
            one[number], two[number] = _moments(*kernels)
        scale = measure.scales(first) * measure.scales(second)
        return SharedSpread(n, m, both, one * scale, two * scale)
    centered = []
    for judged, index in zip(runs, indices, strict=True):
        value = _values(measure, judged)[0][index]
        mean = sum_by_index(query, value, n_queries) / np.maximum(both, 1)
        centered.append(value - mean[query])
    product = sum_by_index(query, centered[0] * centered[1], n_queries)
    covariance = np.where(both == 1, np.nan, product / np.maximum(both - 1, 1))
    if reads_answers(measure):
        covariance = covariance - spread_over_answers(measure, first, second).excess
    return SharedSpread(n, m, both, covariance / 4, covariance / 2)


def has_sampling_variance(measure: Any) -> bool:
    """Return whether the sampling variance of a measure is known."""
    return _is_of_pairs(measure) or isinstance(
        measure, ExposureOfDocuments | ExpectedUtility | Expectation
    )


def _is_of_pairs(measure: Any) -> bool:
    is_of_documents = isinstance(measure, ExposureOfDocuments) and measure.PART != "relevance"
    return is_of_documents or isinstance(measure, type(GroupEE_D))


def _values(measure: Any, judged: LabeledRun) -> tuple[FloatArray, FloatArray]:
    """Return the value of each ranking, and the range of values by query (NaN if unbounded)."""
    reach = np.ones(len(judged.qids))
    if isinstance(measure, ExposureOfDocuments):
        exposure, scale = measure.exposure_by_ranking(judged), measure.scales(judged)
        value = exposure.per_row(exposure.weight * measure.targets(judged)[exposure.level])
        return value * scale[judged.ranking_query], measure.widths(judged) * scale
    if isinstance(measure, ExpectedUtility):
        query, value = measure.score_answers(judged)
        width = measure.bounds[1] - measure.bounds[0]
        reach = reach * (width if np.isfinite(width) else np.nan)
        return value[np.argsort(query, kind="stable")], reach
    if isinstance(measure, Expectation):
        return values_of_samples(measure.inner, judged)[1], reach
    raise ParameterError(f"expected EE_D, EE_R, EE_L, GroupEE_D, EU or E(...), got {measure!r}")


def _kernels(measure: Any, judged: LabeledRun) -> Callable[[IntArray], _Kernel]:
    """Return the function from samples of a query to their kernel."""
    exposure: SparseRows = measure.exposure_by_ranking(judged)
    towards = np.zeros(exposure.n_rows)
    if measure.PART == "loss":
        targets = measure.targets(judged)
        towards = exposure.per_row(exposure.weight * targets[exposure.level])

    def kernel(rows: IntArray) -> _Kernel:
        part = exposure.matrix[rows]
        dense = part[:, np.unique(part.indices)].toarray()  # without empty columns
        return _Kernel(np.asarray(dense), towards[rows])

    return kernel


class _Kernel:
    """The centered kernel h(x, y) of all pairs of a query's samples; see the module.

    Args:
        vectors: exposure of documents or groups in each sample, shape (n, n_columns).
        towards: the inner products with the target, shape (n,).
    """

    def __init__(self, vectors: FloatArray, towards: FloatArray) -> None:
        self.vectors, self.towards, self.n = vectors, towards, len(vectors)
        inner = vectors @ vectors.sum(axis=0) - (vectors**2).sum(axis=1)  # with all others
        pairs = self.n * (self.n - 1)
        self.mean = (float(inner.sum()) / pairs if pairs else math.nan) - 2 * float(towards.mean())
        self.sums = inner - towards.sum() - (self.n - 2) * towards - (self.n - 1) * self.mean

    def block(self, rows: slice) -> FloatArray:
        """Return rows of the matrix of all pairs, with 0 on the diagonal."""
        block = self.vectors[rows] @ self.vectors.T - self.towards[rows, None] - self.towards
        block = np.asarray(block - self.mean)
        block[np.arange(len(block)), np.arange(self.n)[rows]] = 0.0
        return block


def _moments(first: _Kernel, second: _Kernel) -> tuple[float, float]:
    """Return the covariances a and b of two kernels over the same samples."""
    n = first.n
    if n < 4:
        return math.nan, math.nan
    squares = 0.0
    step = max(1, _BLOCK // n)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        block = first.block(rows)
        squares += float((block * (block if second is first else second.block(rows))).sum())
    pairs, triples = n * (n - 1), n * (n - 1) * (n - 2)
    chains = float(first.sums @ second.sums) - squares
    apart = -(4 * chains + 2 * squares) / (triples * (n - 3))  # of four different samples
    return chains / triples - apart, squares / pairs - apart


def _by_query(query: IntArray) -> Iterator[tuple[int, slice]]:
    start = np.flatnonzero(np.diff(query, prepend=-1))
    for first, last in pairwise([*start.tolist(), len(query)]):
        yield int(query[first]), slice(first, last)
