"""Trade-off curves of two measures, errors over queries and samples, and power."""

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
from fairtk.report.statistics import (
    TOO_FEW,
    batches,
    check_drawing,
    mean_intervals,
    no_interval,
    numbers,
    percentile_interval,
)
from fairtk.report.tables import mean_intervals_of

_ZERO = 1e-12
"""Relative spreads below this are rounding errors."""
_SAME = 1e-9
"""Positions that differ by less are equal up to rounding."""

CURVES = ("slope of points", "slope of means", "area of means", "area of points")
"""The names of the values of `curve_values`."""


@dataclass(frozen=True)
class CurveValue:
    """A number that describes a curve.

    Attributes:
        value: the number.
        low: the lower end of its bootstrap interval over queries.
        high: the upper end.
        note: the reason if `low` and `high` are NaN, otherwise ``""``.
    """

    value: float
    low: float
    high: float
    note: str = ""


def plot_trade_off(
    means: pd.DataFrame, per_query: pd.DataFrame, better: Callable[[str], str], x: str, y: str
) -> Any:
    """Draw the means of two measures, one point per system, with intervals over the queries.

    Args:
        means: means by system (index) and measure (columns).
        per_query: ``system``, ``qid``, ``measure``, ``value``.
        better: a function that returns ``"higher"`` or ``"lower"`` for a measure.
        x: the measure of the horizontal axis.
        y: the measure of the vertical axis.
    """
    for name in (x, y):
        if name not in means.columns:
            raise NotFoundError("measure", name, list(means.columns))
    figure = new_figure((5, 4), "plot_trade_off")
    ends = [mean_intervals_of(means, per_query, name)[:3] for name in (x, y)]
    reach = [np.abs(np.array([low, high]) - mean) for mean, low, high in ends]
    points = Points(
        *(means[x].to_numpy(), means[y].to_numpy(), series_style(0)),
        x_error=reach[0],
        y_error=reach[1],
        labels=[str(name) for name in means.index],
    )
    sides = better(x), better(y)
    labels = [f"{name} ({side} is better)" for name, side in zip((x, y), sides, strict=True)]
    draw_trade_off(figure.subplots(), [points], *labels, better=sides)
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
    """Compute slopes and areas of y against x, with bootstrap intervals over the queries.

    - ``"slope of points"``: the slope of the least-squares line through all points;
    - ``"slope of means"``: the slope of the line through the means of the settings;
    - ``"area of means"``: the area under the means of the settings (trapezoids);
    - ``"area of points"``: the area under the isotonic regression of all points; x that differ by
      less than 1e-9 are equal.

    Areas are divided by the width of `span`, so they are mean heights. Curves are constant beyond
    their last points. The bootstrap draws queries with all their points (percentile intervals).

    Args:
        x: shape (queries, settings); NaN for a missing point.
        y: shape (queries, settings); NaN for a missing point.
        span: the range of x.
        increasing: the direction of the isotonic regression.
        confidence: the level of the intervals, in (0, 1).
        resamples: the number of bootstrap samples.
        seed: the seed of the bootstrap; results also depend on the order of the queries.

    Returns:
        The values by name, as in `CURVES`. A slope is NaN if all x are equal. `CurveValue.note` has
        the reason if there is no interval.

    Raises:
        InputError: the shapes differ, or a value is infinite or not a number.
        ParameterError: `span`, `confidence` or `resamples` is out of range.
    """
    check_drawing(confidence, resamples)
    checks.integer("seed", seed, least=0)
    checks.boolean("increasing", increasing)
    if not span[0] < span[1]:
        raise ParameterError(f"`span` must be increasing, got {span!r}")
    points = _Points(x, y, span, increasing)
    n = points.n_queries
    estimates = points.values(np.ones((1, n)))[0] if n else np.full(len(CURVES), np.nan)
    values = [float(value) for value in estimates]
    if n < 2:
        return {
            name: CurveValue(value, math.nan, math.nan, TOO_FEW)
            for name, value in zip(CURVES, values, strict=True)
        }
    generator = np.random.default_rng(seed)
    drawn = np.concatenate(
        [points.values(_draws(generator, size, n)) for size in batches(resamples, n)]
    )
    return {
        name: CurveValue(value, *percentile_interval(value, column, confidence))
        for name, value, column in zip(CURVES, values, drawn.T, strict=True)
    }


def _draws(generator: np.random.Generator, size: int, n: int) -> FloatArray:
    """Return the count of each of n queries in each bootstrap sample, shape (size, n)."""
    drawn = generator.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=size * n)
    return counts.reshape(size, n).astype(np.float64)


class _Points:
    """The points of queries, sorted once; all points of a query have the same weight."""

    def __init__(
        self, x: npt.ArrayLike, y: npt.ArrayLike, span: tuple[float, float], increasing: bool
    ) -> None:
        first, second = numbers(x, "x", ndim=2), numbers(y, "y", ndim=2)
        if first.shape != second.shape:
            raise InputError(
                f"x and y must have the same shape (queries, settings), got {first.shape} and "
                f"{second.shape}"
            )
        defined = ~(np.isnan(first) | np.isnan(second))
        rows = defined.any(axis=1)
        self.defined = defined[rows]
        self.x, self.y = (np.where(defined, values, 0.0)[rows] for values in (first, second))
        self.n_queries = len(self.x)
        self.span, self.increasing = span, increasing
        self.query, _ = np.nonzero(self.defined)
        self.height = self.y[self.defined]
        self.position, self.code = _distinct_positions(self.x[self.defined])

    def values(self, weights: FloatArray) -> FloatArray:
        """Return the values of `CURVES`, shape (n, 4), for query weights of shape (n, queries)."""
        count = weights @ self.defined
        with np.errstate(invalid="ignore"):  # 0 / 0: a setting without points
            means = (weights @ self.x) / count, (weights @ self.y) / count
        areas = [area_under(*pair, self.span) for pair in zip(*means, strict=True)]
        isotonic = [self._isotonic(row) for row in weights]
        return np.column_stack([self._slopes(weights), _slopes_of(*means), areas, isotonic])

    def _slopes(self, weights: FloatArray) -> FloatArray:
        x, y = (
            np.where(self.defined, values - values[self.defined].mean(), 0.0)
            for values in (self.x, self.y)
        )
        columns = [self.defined, x, y, x**2, x * y]
        n, sum_x, sum_y, square, product = (weights @ c.sum(axis=1) for c in columns)
        spread = square - sum_x**2 / n
        flat = spread <= _ZERO * square
        return np.where(flat, np.nan, (product - sum_x * sum_y / n) / np.where(flat, 1.0, spread))

    def _isotonic(self, weight: FloatArray) -> float:
        from scipy.optimize import isotonic_regression

        point_weight = weight[self.query]
        mass = np.bincount(self.code, weights=point_weight)
        total = np.bincount(self.code, weights=point_weight * self.height)
        drawn = mass > 0
        mass = mass[drawn]
        fit = isotonic_regression(total[drawn] / mass, weights=mass, increasing=self.increasing)
        return _area(self.position[drawn], fit.x, self.span)


def area_under(x: FloatArray, y: FloatArray, span: tuple[float, float] = (0.0, 1.0)) -> float:
    """Return the mean of a piecewise linear curve over a span, constant beyond its points.

    Args:
        x: positions of the points in any order, NaN for missing points; points with equal x are
            averaged.
        y: their heights.
        span: the range of x.
    """
    points = ~np.isnan(x)
    position, code = _distinct_positions(x[points])
    return _area(position, np.bincount(code, weights=y[points]) / np.bincount(code), span)


def _distinct_positions(x: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the sorted positions that differ by more than rounding, and the index of each x."""
    value, code = np.unique(x, return_inverse=True)
    new = np.diff(value, prepend=-np.inf) > _SAME
    return value[new], (np.cumsum(new) - 1)[code]


def _slopes_of(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the slope of the points in each row; NaN are missing points."""
    away = x - np.nanmean(x, axis=1, keepdims=True)
    spread = np.nansum(away**2, axis=1)
    flat = spread <= _ZERO**2 * np.maximum(1.0, np.nanmax(np.abs(x), axis=1)) ** 2
    return np.where(flat, np.nan, np.nansum(away * y, axis=1) / np.where(flat, 1.0, spread))


def _area(x: FloatArray, y: FloatArray, span: tuple[float, float]) -> float:
    first, last = np.searchsorted(x, span, side="right")
    ends = np.interp(span, x, y)
    position = np.concatenate([span[:1], x[first:last], span[1:]])
    height = np.concatenate([ends[:1], y[first:last], ends[1:]])
    return float(np.diff(position) @ (height[1:] + height[:-1]) / 2 / (span[1] - span[0]))


@dataclass(frozen=True)
class TwoLevelMean:
    """A mean over queries of values that are estimated from samples.

    Attributes:
        n: the number of queries with a value.
        mean: the mean of their values.
        error: the standard error of the mean over queries and samples.
        error_queries: the standard error over queries alone, as with infinitely many samples.
        error_samples: the standard error over samples alone, for these queries; NaN if the variance
            of a query is unknown.
        low: the lower end of the interval over queries and samples (Student); NaN if all values are
            equal.
        high: the upper end.
        low_samples: the lower end of the interval over samples (normal); NaN if `error_samples` is
            0 or NaN.
        high_samples: the upper end.
        note: the reason if `low` is NaN, otherwise ``""``.
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
    note: str


def two_level_mean(
    values: npt.ArrayLike, variances: npt.ArrayLike, *, confidence: float = 0.95
) -> TwoLevelMean:
    """Compute a mean and the contributions of queries and samples to its error.

    The variance of the values over queries is the variance of the true values plus the mean
    sampling variance, so the former is the difference (at least 0).

    Args:
        values: values or differences, one per query, shape (n,); NaN is skipped.
        variances: the sampling variances, same shape: 0 for exact values, NaN if unknown. Unbiased
            estimates may be negative.
        confidence: the level of the intervals, in (0, 1).

    Returns:
        The mean with its errors; errors and intervals over queries are NaN for fewer than two.

    Raises:
        InputError: the shapes differ, or a value is infinite or not a number.
        ParameterError: `confidence` is out of range.
    """
    from scipy.stats import norm

    check_drawing(confidence, 1)
    value, variance = numbers(values, "values", ndim=1), numbers(variances, "variances", ndim=1)
    if value.shape != variance.shape:
        raise InputError(
            f"values and variances must have the same length, got {len(value)} and {len(variance)}"
        )
    defined = ~np.isnan(value)
    value, variance = value[defined], variance[defined]
    n = len(value)
    if n == 0:
        nan = math.nan
        return TwoLevelMean(0, nan, nan, nan, nan, nan, nan, nan, nan, TOO_FEW)
    mean, of_samples = float(value.mean()), float(variance.mean())
    error_samples = math.sqrt(max(of_samples, 0.0) / n) if not math.isnan(of_samples) else math.nan
    total = float(value.var(ddof=1)) if n > 1 else math.nan
    error = math.sqrt(total / n)
    of_queries = total - max(of_samples, 0.0) if not math.isnan(of_samples) else math.nan
    error_queries = math.sqrt(max(of_queries, 0.0) / n) if not math.isnan(of_queries) else math.nan
    (low,), (high,) = mean_intervals(value[None], confidence=confidence)
    # an estimated variance of 0 has no interval
    near = float(norm.ppf((1 + confidence) / 2)) * (error_samples or math.nan)
    return TwoLevelMean(
        n, mean, error, error_queries, error_samples, float(low), float(high),
        mean - near, mean + near, no_interval(value) if math.isnan(low) else "",
    )  # fmt: skip


def power_of_test(
    n: npt.ArrayLike, difference: float, deviation: float, *, significance: float = 0.05
) -> FloatArray:
    """Compute the power of a two-sided paired t-test.

    Args:
        n: numbers of queries, each at least 2.
        difference: the true mean difference.
        deviation: the standard deviation of the differences over queries, above 0.
        significance: the level of the test, in (0, 1).

    Returns:
        The power in [significance, 1], in the shape of `n`.

    Raises:
        ParameterError: a number is out of range.
    """
    from scipy.stats import nct, norm, t

    checks.open_interval("significance", significance)
    checks.number("difference", difference, least=-math.inf, rule="be a finite number")
    checks.positive("deviation", deviation)
    size = np.asarray(n, dtype=np.float64)
    checks.number("n", float(size.min()) if size.size else 2, least=2)
    edge = t.ppf(1 - significance / 2, size - 1)
    away = abs(difference) / deviation * np.sqrt(size)
    # scipy's noncentral t is accurate only near its center and for few degrees of freedom;
    # elsewhere the normal distribution agrees to three digits
    near = (size < 1000) & (away < 30)
    few, mean = np.where(near, size - 1, 1.0), np.where(near, away, 0.0)
    # the lower tail is computed as the mirrored upper one: scipy's cdf of small values is NaN
    exact = nct.sf(edge, few, mean) + nct.sf(edge, few, -mean)
    return np.asarray(np.where(near, exact, norm.sf(edge - away) + norm.cdf(-edge - away)))


def queries_needed(
    difference: float, deviation: float, *, power: float = 0.8, significance: float = 0.05
) -> int:
    """Return the smallest number of queries for a paired t-test to reach a power.

    Args:
        difference: the mean difference to detect, other than 0.
        deviation: the standard deviation of the differences over queries, sampling noise included.
        power: the required power, in (0, 1).
        significance: the level of the test, in (0, 1).

    Raises:
        ParameterError: a number is out of range.
    """
    for name, value in (("power", power), ("significance", significance)):
        checks.open_interval(name, value)
    rule = "be a finite number other than 0"
    if checks.number("difference", difference, least=-math.inf, rule=rule) == 0:
        raise ParameterError(f"difference must {rule}, got {difference!r}")
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
