"""`precision`: how sure sampled values are, and how many samples a wished precision needs.

EE_R, EU and E(m) are means over samples. EE_D and EE_L are means over pairs of samples, up to what
their estimator adds: a U-statistic with the kernel h(x, y) = <x, y>, for EE_L less <x, t> + <y, t>
with the target t. Its variance with N samples is 2 (2 (N - 2) a + b) / (N (N - 1)), with a the
variance of E[h | x] and b that of h (Hoeffding 1948); a mean with variance v has a = v / 4 and
b = v / 2. Both are estimated without bias from sums over two, three and four different samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import total
from fairtk.frames import QID, BoolArray, FloatArray, IntArray
from fairtk.groups import SparseRows
from fairtk.measures import (
    Expectation,
    ExpectedExposure,
    ExpectedUtility,
    Judged,
    parse,
    values_of_samples,
    written,
)

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

        It is an unbiased estimate, which can be below 0 by chance.
        """
        size = np.maximum(self.n if n is None else n, 2).astype(np.float64)
        return np.asarray(2 * (2 * (size - 2) * self.one + self.two) / (size * (size - 1)))

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


def spread_over_samples(measure: Any, judged: Judged) -> SampleSpread:
    """Return the spread of a measure's values over sets of samples.

    Samples are taken to be independent; stratified ones vary less. The measure is one of expected
    exposure, EU or E(...).
    """
    ranked, n_queries = judged.run, len(judged.qids)
    if not ranked.sampled:
        what = "exact exposure" if judged.exact is not None else "no column 'sample'"
        raise InputError(f"{judged.where}: the run has {what}: nothing varies by sampling")
    query = judged.ranking_query
    n = np.bincount(query, minlength=n_queries)
    nothing = np.zeros(n_queries)
    if isinstance(measure, ExpectedExposure) and measure.PART != "relevance":
        return _of_pairs(measure, judged, query, n)
    scale = reach = np.ones(n_queries)
    if isinstance(measure, ExpectedExposure):
        shown = measure.form.shown(judged)
        value = shown.per_row(shown.weight * measure.form.targets(judged)[shown.level])
        scale, reach = measure.scales(judged), measure.widths(judged)
    elif isinstance(measure, ExpectedUtility):
        query, value = measure.of_answers(judged)
        width = measure.bounds[1] - measure.bounds[0]
        reach = np.full(n_queries, width if np.isfinite(width) else np.nan)
    elif isinstance(measure, Expectation):
        query, value = values_of_samples(measure.inner, judged)
    else:
        raise ParameterError(
            f"{measure!r} is no mean over samples or pairs of samples, so that how it varies is "
            "not known; known are EE_D, EE_R, EE_L, EU and E(...)"
        )
    mean = total(query, value, n_queries) / np.maximum(n, 1)
    square = total(query, (value - mean[query]) ** 2, n_queries)
    variance = np.where(n == 1, np.nan, square / np.maximum(n - 1, 1)) * scale**2
    return SampleSpread(n, variance / 4, variance / 2, nothing, reach * scale / (n + 1))


def _of_pairs(measure: Any, judged: Judged, query: IntArray, n: IntArray) -> SampleSpread:
    shown, scale = measure.form.shown(judged), measure.scales(judged)
    towards = np.zeros(shown.n_rows)
    if measure.PART == "loss":
        towards = shown.per_row(shown.weight * measure.form.targets(judged)[shown.level])
    one, two, apart = np.zeros((3, len(n)))
    for number, rows in _rows_by_query(query):
        vectors = _dense(shown, rows)
        one[number], two[number], apart[number] = _moments(vectors, towards[rows])
    square = total(query, shown.square(), len(n)) / np.maximum(n, 1)
    added = (square - apart) / np.maximum(n, 1)
    if measure["estimator"] == "unbiased":
        added = np.zeros(len(n))
    one, two, added = one * scale**2, two * scale**2, added * scale
    step = 2 * measure.widths(judged) * scale / (n + 1)
    return SampleSpread(n, one, two, np.where(n > 0, added, 0.0), step)


def _rows_by_query(query: IntArray) -> Iterator[tuple[int, slice]]:
    start = np.flatnonzero(np.diff(query, prepend=-1))
    for first, last in zip(start.tolist(), [*start[1:].tolist(), len(query)], strict=True):
        yield int(query[first]), slice(first, last)


def _dense(shown: SparseRows, rows: slice) -> FloatArray:
    """Return some rows, with the columns that have weight in them; shape (n_rows, n_columns)."""
    some = shown.matrix[rows]
    return np.asarray(some[:, np.unique(some.indices)].toarray())


def _moments(vectors: FloatArray, towards: FloatArray) -> tuple[float, float, float]:
    """Return a and b of one query, and the mean inner product of two different samples."""
    n = len(vectors)
    if n < 2:
        return np.nan, np.nan, np.nan
    norm = (vectors**2).sum(axis=1)
    inner = vectors @ vectors.sum(axis=0) - norm  # with all others, by sample
    apart = float(inner.sum()) / (n * (n - 1))
    if n < 4:
        return np.nan, np.nan, apart
    mean = apart - 2 * float(towards.mean())
    sums = inner - (n - 1) * towards - (towards.sum() - towards) - (n - 1) * mean
    squares = 0.0
    step = max(1, _BLOCK // n)
    for first in range(0, n, step):
        own = slice(first, first + step)
        kernel = vectors[own] @ vectors.T - towards[own, None] - towards - mean
        kernel[np.arange(len(kernel)), np.arange(n)[own]] = 0.0
        squares += float((kernel**2).sum())
    pairs, triples = n * (n - 1), n * (n - 1) * (n - 2)
    chains = float((sums**2).sum()) - squares
    variance = (4 * chains + 2 * squares) / (triples * (n - 3))
    return chains / triples + variance, squares / pairs + variance, apart


WHERE = "precision"


@dataclass(frozen=True)
class Precision:
    """What `precision` found.

    Attributes:
        per_query: ``measure``, ``qid``, ``value``, ``n_samples``, ``error`` (the value's standard
            error from sampling; NaN for too few samples: two, four for EE_D and EE_L; where N
            samples do not differ, as if one in N + 1 did by all that values can), ``bias``
            (what the estimator adds in expectation: EE_D and EE_L that are not "unbiased"),
            ``needed`` (samples for the wished half-width; NaN where `error` is).
        means: ``measure``, ``value`` (mean over the queries that have one), ``error`` and
            ``half_width`` (of this mean, for these queries), ``bias``, ``needed`` (samples of each
            query for the wished half-width of the mean), ``n`` (queries).
        half_width: what was wished.
        confidence: of the intervals.
    """

    per_query: pd.DataFrame
    means: pd.DataFrame
    half_width: float
    confidence: float

    def __repr__(self) -> str:
        wish = f"{WHERE}: samples for +-{self.half_width:g} at {self.confidence:.0%}"
        return f"{wish}\n{self.means.to_string(index=False)}"


def precision(
    run: pd.DataFrame,
    qrels: pd.DataFrame,
    measures: Iterable[Any] | Any,
    half_width: float = 0.01,
    *,
    confidence: float = 0.95,
) -> Precision:
    """Return standard errors of sampled values, and the samples that a half-width needs.

    The spread of the samples that are there says how much values change with other samples of the
    same policies, and how that falls with their number. A pilot of 20 samples is enough for a plan.
    Samples are taken to be independent: with ``FairSampler(method="stratified")`` errors are mostly
    smaller than said here. Queries do not vary: see `Results.compare` for both.

    Args:
        run: rankings S, with ``qanswer`` for EU.
        qrels: the labels.
        measures: of EE_D, EE_R, EE_L, EU and E(...), or strings that are read as these.
        half_width: half of the width of the wished interval, in units of the measure.
        confidence: of the intervals, in (0, 1).

    Raises:
        ParameterError: another measure, or a setting out of its range.
        InputError: the run has no samples, or cannot be used.
    """
    checks.number("half_width", half_width, WHERE, ends="(]")
    checks.inside("confidence", confidence, WHERE)
    several = isinstance(measures, Iterable) and not isinstance(measures, str)
    wanted = [parse(measure) for measure in (measures if several else [measures])]
    from scipy.stats import norm

    factor = float(norm.ppf((1 + confidence) / 2))
    judged = Judged.of(qrels, run, f"{WHERE}({', '.join(map(written, wanted))})")
    parts, rows = [], []
    for measure in wanted:
        value = measure.scored(judged)
        spread = spread_over_samples(measure, judged)
        error, least = spread.error(), (half_width / factor) ** 2
        needed = fewest_samples(np.maximum(spread.one, 0), np.maximum(spread.two, 0), least)
        columns = {"value": value, "n_samples": spread.n, "error": error, "bias": spread.bias}
        frame = pd.DataFrame({QID: judged.qids, **columns, "needed": needed})
        frame.insert(0, "measure", written(measure))
        parts.append(frame)
        rows.append([written(measure), *_mean(value, spread, factor, least)])
    columns_of_means = ["measure", "value", "error", "half_width", "bias", "needed", "n"]
    means = pd.DataFrame(rows, columns=columns_of_means)
    return Precision(pd.concat(parts, ignore_index=True), means, half_width, confidence)


def _mean(value: FloatArray, spread: SampleSpread, factor: float, least: float) -> list[float]:
    """Return the mean of the values, its error, half-width, bias, needed samples and n."""
    there = ~np.isnan(value)
    n = int(there.sum())
    if n == 0:
        return [math.nan] * 5 + [0]
    # estimates of variances below 0 by chance stay, so that their sum is right on average
    variance = max(float(spread.variance()[there].sum()), 0.0) / n**2
    if spread.alike()[there].all():
        variance = float((spread.error()[there] ** 2).sum()) / n**2
    one, two = (max(float(part[there].sum()), 0.0) / n**2 for part in (spread.one, spread.two))
    needed = float(fewest_samples(np.array([one]), np.array([two]), least)[0])
    error, bias = math.sqrt(variance), float(spread.bias[there].mean())
    return [float(value[there].mean()), error, factor * error, bias, needed, n]


def fewest_samples(one: FloatArray, two: FloatArray, variance: float) -> FloatArray:
    """Return the smallest number of samples with at most a variance; NaN where it is not known.

    Solves 2 (2 (N - 2) a + b) / (N (N - 1)) = variance for N.

    Args:
        one: the variance a of what one sample says; see `SampleSpread`.
        two: the variance b of what a pair of samples says.
        variance: of the value.
    """
    middle = variance + 4 * one
    root = np.sqrt(np.maximum(middle**2 - 4 * variance * (8 * one - 2 * two), 0.0))
    return np.maximum(np.ceil((middle + root) / (2 * variance) - 1e-9), 2.0)
