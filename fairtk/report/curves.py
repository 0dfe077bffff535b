"""How one measure goes with another over queries and settings, and two levels of chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk import checks
from fairtk.display import Points, draw_trade_off, new_figure, series_style
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk.report.statistics import batches, check_drawing, numbers
from fairtk.report.tables import mean_intervals_of

_ZERO = 1e-12
"""A spread below this part of the values is rounding."""
_SAME = 1e-9
"""Places that are nearer to each other than this are one place: they differ by rounding."""

CURVES = ("slope of points", "slope of means", "area of means", "area of points")
"""The names of what `curve_values` gives."""


@dataclass(frozen=True)
class CurveValue:
    """A number that describes a curve.

    Attributes:
        value: the number.
        low: lower end of its bootstrap interval over queries.
        high: its upper end.
    """

    value: float
    low: float
    high: float


def plot_trade_off(
    means: pd.DataFrame, per_query: pd.DataFrame, better: Callable[[str], str], x: str, y: str
) -> Any:
    """Draw the means of two measures, one point per system, with intervals over the queries.

    Takes means by system (index) and measure (columns), the queries' values (``system``, ``qid``,
    ``measure``, ``value``), and what says which direction of a measure is better.
    """
    for name in (x, y):
        if name not in means.columns:
            raise NotFoundError("measure", name, list(means.columns))
    figure = new_figure((5, 4), "plot_trade_off")
    ends = [mean_intervals_of(means, per_query, name) for name in (x, y)]
    reach = [np.abs(np.array([low, high]) - mean) for mean, low, high in ends]
    points = Points(
        *(means[x].to_numpy(), means[y].to_numpy(), series_style(0)),
        x_error=reach[0],
        y_error=reach[1],
        labels=[str(name) for name in means.index],
    )
    labels = [f"{name} ({better(name)} is better)" for name in (x, y)]
    draw_trade_off(figure.subplots(), [points], *labels)
    return figure


def curve_values(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    span: tuple[float, float] = (0.0, 1.0),
    increasing: bool = True,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 42,
) -> dict[str, CurveValue]:
    """Return slopes and areas of y against x, with bootstrap intervals over the queries.

    - ``"slope of points"``: of the least-squares line through all points;
    - ``"slope of means"``: of the one through the settings' means;
    - ``"area of means"``: under the settings' means joined by straight lines (trapezoids);
    - ``"area of points"``: under the isotonic regression of all points; those whose x differ by
      less than 1e-9, which is rounding, count as one x.

    Areas are over `span`, beyond the points at the height of the last one, divided by its width:
    a mean height. Queries are drawn with all their points (percentile intervals).

    Args:
        x: shape (queries, settings): a point per query and setting; NaN: there is none.
        y: likewise.
        span: the ends of x.
        increasing: direction of the isotonic regression.
        confidence: of the intervals, in (0, 1).
        resamples: of the bootstrap.
        seed: of the bootstrap; the order of the queries counts, too.

    Returns:
        The values by name, as in `CURVES`. NaN where nothing is defined: a slope of points that
        share one x, an interval of fewer than two queries.

    Raises:
        InputError: the shapes differ, or a value is infinite or no number.
        ParameterError: `span`, `confidence` or `resamples` is out of its range.
    """
    check_drawing(confidence, resamples)
    if not span[0] < span[1]:
        raise ParameterError(f"span must rise; found {span!r}")
    points = _Points(x, y, span, increasing)
    n = points.n_queries
    estimates = points.values(np.ones((1, n)))[0] if n else np.full(len(CURVES), np.nan)
    low, high = np.full((2, len(CURVES)), np.nan)
    if n > 1:
        generator = np.random.default_rng(seed)
        drawn = np.concatenate(
            [points.values(_draws(generator, size, n)) for size in batches(resamples, n)]
        )
        for place, values in enumerate(drawn.T):
            defined = values[~np.isnan(values)]
            if len(defined):
                ends = [(1 - confidence) / 2, (1 + confidence) / 2]
                low[place], high[place] = np.quantile(defined, ends)
    every = zip(CURVES, estimates, low, high, strict=True)
    return {name: CurveValue(float(v), float(a), float(b)) for name, v, a, b in every}


def _draws(generator: np.random.Generator, size: int, n: int) -> FloatArray:
    """Return how often each of n queries is in each resample; shape (size, n)."""
    drawn = generator.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=size * n)
    return counts.reshape(size, n).astype(np.float64)


class _Points:
    """The points of some queries, sorted once; those of a query are weighted alike."""

    def __init__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, span: tuple[float, float], increasing: bool
    ) -> None:
        first, second = numbers(x, "x", ndim=2), numbers(y, "y", ndim=2)
        if first.shape != second.shape:
            raise InputError(
                f"x and y must have one shape (queries, settings); found {first.shape} and "
                f"{second.shape}"
            )
        there = ~(np.isnan(first) | np.isnan(second))
        rows = there.any(axis=1)
        self.there = there[rows]
        self.x, self.y = (np.where(there, values, 0.0)[rows] for values in (first, second))
        self.n_queries = len(self.x)
        self.span, self.increasing = span, increasing
        self.query, _ = np.nonzero(self.there)
        self.height = self.y[self.there]
        self.place, self.code = _places(self.x[self.there])

    def values(self, weights: FloatArray) -> FloatArray:
        """Return the values of `CURVES` for weights of the queries.

        Args:
            weights: shape (n, queries).

        Returns:
            shape (n, 4).
        """
        count = weights @ self.there
        with np.errstate(invalid="ignore"):  # 0 / 0: a setting without points
            means = (weights @ self.x) / count, (weights @ self.y) / count
        areas = [area_under(*pair, self.span) for pair in zip(*means, strict=True)]
        isotonic = [self._isotonic(row) for row in weights]
        return np.column_stack([self._slopes(weights), _slopes_of(*means), areas, isotonic])

    def _slopes(self, weights: FloatArray) -> FloatArray:
        x, y = (
            np.where(self.there, values - values[self.there].mean(), 0.0)
            for values in (self.x, self.y)
        )
        columns = [self.there, x, y, x**2, x * y]
        n, sum_x, sum_y, square, product = (weights @ c.sum(axis=1) for c in columns)
        spread = square - sum_x**2 / n
        flat = spread <= _ZERO * square
        return np.where(flat, np.nan, (product - sum_x * sum_y / n) / np.where(flat, 1.0, spread))

    def _isotonic(self, weight: FloatArray) -> float:
        from scipy.optimize import isotonic_regression

        own = weight[self.query]
        mass = np.bincount(self.code, weights=own)
        total = np.bincount(self.code, weights=own * self.height)
        drawn = mass > 0
        mass = mass[drawn]
        fit = isotonic_regression(total[drawn] / mass, weights=mass, increasing=self.increasing)
        return _area(self.place[drawn], fit.x, self.span)


def area_under(x: FloatArray, y: FloatArray, span: tuple[float, float] = (0.0, 1.0)) -> float:
    """Return the mean height over a span of straight lines through points, flat beyond them.

    Args:
        x: places of the points, in any order; those at one place count as their mean; NaN: none.
        y: their heights.
        span: the ends of x.
    """
    points = ~np.isnan(x)
    place, code = _places(x[points])
    return _area(place, np.bincount(code, weights=y[points]) / np.bincount(code), span)


def _places(x: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the places that are no further apart than rounding, rising, and that of each value."""
    value, code = np.unique(x, return_inverse=True)
    new = np.diff(value, prepend=-np.inf) > _SAME
    return value[new], (np.cumsum(new) - 1)[code]


def _slopes_of(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the slope of each row's points; NaN are none."""
    away = x - np.nanmean(x, axis=1, keepdims=True)
    spread = np.nansum(away**2, axis=1)
    flat = spread <= _ZERO**2 * np.maximum(1.0, np.nanmax(np.abs(x), axis=1)) ** 2
    return np.where(flat, np.nan, np.nansum(away * y, axis=1) / np.where(flat, 1.0, spread))


def _area(x: FloatArray, y: FloatArray, span: tuple[float, float]) -> float:
    """Return the mean height of straight lines through points over the span, flat beyond them.

    Args:
        x: places of the points, rising.
        y: their heights.
        span: from where to where.
    """
    first, last = np.searchsorted(x, span, side="right")
    ends = np.interp(span, x, y)
    at = np.concatenate([span[:1], x[first:last], span[1:]])
    height = np.concatenate([ends[:1], y[first:last], ends[1:]])
    return float(np.diff(at) @ (height[1:] + height[:-1]) / 2 / (span[1] - span[0]))


@dataclass(frozen=True)
class TwoLevelMean:
    """A mean over queries of values that are estimated from samples.

    Attributes:
        n: queries with a value.
        mean: of their values.
        error: standard error of the mean, for queries like these: both levels together.
        error_queries: what stays of it with infinitely many samples of each query.
        error_samples: standard error for these very queries: other samples alone. NaN where a
            query's is not known.
        low: lower end of the interval for queries like these (Student).
        high: its upper end.
        low_samples: lower end of the interval for these queries (normal).
        high_samples: its upper end.
    """

    n: int
    mean: float
    error: float
    error_queries: float
    error_samples: float
    low: float
    high: float
    low_samples: float
    high_samples: float


def two_level_mean(
    values: npt.ArrayLike, variances: npt.ArrayLike, *, confidence: float = 0.95
) -> TwoLevelMean:
    """Return the mean of values with what queries and samples each contribute to its error.

    The variance of values over queries is that of their true values plus the mean of the sampling
    variances; so the first is what is left of it (at least 0).

    Args:
        values: one per query (of a system, or differences of two), shape (n,); NaN is left out.
        variances: the sampling variance of each, same shape: 0 for what is known exactly, NaN
            where it is not known. Unbiased estimates may be below 0.
        confidence: of the intervals, in (0, 1).

    Returns:
        NaN for what is not defined: errors of queries and intervals over them for fewer than two.

    Raises:
        InputError: the shapes differ, or a value is infinite or no number.
        ParameterError: `confidence` is out of its range.
    """
    from scipy.stats import norm, t

    check_drawing(confidence, 1)
    value, variance = numbers(values, "values", ndim=1), numbers(variances, "variances", ndim=1)
    if value.shape != variance.shape:
        raise InputError(
            f"values and variances must be of the same queries; found {len(value)} and "
            f"{len(variance)}"
        )
    there = ~np.isnan(value)
    value, variance = value[there], variance[there]
    n = len(value)
    if n == 0:
        return TwoLevelMean(0, *[math.nan] * 8)
    mean, of_samples = float(value.mean()), float(variance.mean())
    error_samples = math.sqrt(max(of_samples, 0.0) / n) if not math.isnan(of_samples) else math.nan
    whole = float(value.var(ddof=1)) if n > 1 else math.nan
    error = math.sqrt(whole / n)
    left = whole - max(of_samples, 0.0) if not math.isnan(of_samples) else math.nan
    error_queries = math.sqrt(max(left, 0.0) / n) if not math.isnan(left) else math.nan
    half = float(t.ppf((1 + confidence) / 2, n - 1)) * error if n > 1 else math.nan
    near = float(norm.ppf((1 + confidence) / 2)) * error_samples
    return TwoLevelMean(n, mean, error, error_queries, error_samples,
                     mean - half, mean + half, mean - near, mean + near)  # fmt: skip


def power_of_test(
    n: npt.ArrayLike, difference: float, deviation: float, *, significance: float = 0.05
) -> FloatArray:
    """Return the chance that a two-sided paired t-test finds a difference.

    Args:
        n: numbers of queries, each at least 2.
        difference: the true mean difference.
        deviation: standard deviation of the differences over queries, above 0.
        significance: the level of the test, in (0, 1).

    Returns:
        shape of `n`, in [significance, 1].

    Raises:
        ParameterError: a number is out of its range.
    """
    from scipy.stats import nct, norm, t

    checks.open_interval("significance", significance)
    checks.positive("deviation", deviation)
    size = np.asarray(n, dtype=np.float64)
    checks.number("n", float(size.min()) if size.size else 2, least=2)
    edge = t.ppf(1 - significance / 2, size - 1)
    away = abs(difference) / deviation * np.sqrt(size)
    # the noncentral t has digits near its middle and for few degrees of freedom alone; elsewhere
    # the normal distribution has the same first three
    near = (size < 1000) & (away < 30)
    few, mean = np.where(near, size - 1, 1.0), np.where(near, away, 0.0)
    # the other tail as its mirror image: of small values, scipy's cdf is NaN
    exact = nct.sf(edge, few, mean) + nct.sf(edge, few, -mean)
    return np.asarray(np.where(near, exact, norm.sf(edge - away) + norm.cdf(-edge - away)))


def queries_needed(
    difference: float, deviation: float, *, power: float = 0.8, significance: float = 0.05
) -> int:
    """Return the smallest number of queries with which a paired t-test has a power.

    Args:
        difference: the mean difference that should be found, other than 0.
        deviation: standard deviation of the differences over queries, sampling noise included:
            the root of query variance + sampling variance with as many samples as there will be.
        power: the wished chance of finding it, in (0, 1).
        significance: the level of the test, in (0, 1).

    Raises:
        ParameterError: a number is out of its range.
    """
    for name, value in (("power", power), ("significance", significance)):
        checks.open_interval(name, value)
    if not (math.isfinite(difference) and difference != 0):
        raise ParameterError(
            f"difference must be a finite number other than 0; found {difference!r}"
        )
    checks.number("deviation", deviation)
    if deviation == 0:
        return 2

    def enough(n: int) -> bool:
        return bool(power_of_test(n, difference, deviation, significance=significance) >= power)

    high = 2
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
