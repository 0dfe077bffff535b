"""Slopes and areas of curves, with bootstrap intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk.statistics.arrays import ZERO, check_drawing, numbers
from fairtk.statistics.bootstrap import batches
from fairtk.statistics.clusters import cluster_codes
from fairtk.statistics.intervals import TOO_FEW, percentile_interval
from fairtk.wording import short

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


def curve_values(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    span: tuple[float, float] = (0.0, 1.0),
    increasing: bool = True,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 42,
    clusters: npt.ArrayLike | None = None,
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
        clusters: the cluster of each query, shape (queries,): whole clusters are drawn. `None` if
            queries are independent.

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
    span = checks.interval("span", span)
    if span[0] == span[1]:
        raise ParameterError(f"`span` must be increasing, got {short(span)}")
    points = _Points(x, y, span, increasing)
    n = points.n_queries
    estimates = points.values(np.ones((1, n)))[0] if n else np.full(len(CURVES), np.nan)
    values = [float(value) for value in estimates]
    codes = np.arange(n)
    if clusters is not None:
        codes = cluster_codes(clusters, len(points.is_drawn))[points.is_drawn]
        codes = np.unique(codes, return_inverse=True)[1]
    n_clusters = len(np.unique(codes))
    if n_clusters < 2:
        return {
            name: CurveValue(value, math.nan, math.nan, TOO_FEW)
            for name, value in zip(CURVES, values, strict=True)
        }
    generator = np.random.default_rng(seed)
    drawn = np.concatenate(
        [
            points.values(_draws(generator, size, n_clusters)[:, codes])
            for size in batches(resamples, n)
        ]
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
        rows = np.asarray(defined.any(axis=1))
        self.is_drawn = rows
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
        flat = spread <= ZERO * square
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
    flat = spread <= ZERO**2 * np.maximum(1.0, np.nanmax(np.abs(x), axis=1)) ** 2
    return np.where(flat, np.nan, np.nansum(away * y, axis=1) / np.where(flat, 1.0, spread))


def _area(x: FloatArray, y: FloatArray, span: tuple[float, float]) -> float:
    first, last = np.searchsorted(x, span, side="right")
    ends = np.interp(span, x, y)
    position = np.concatenate([span[:1], x[first:last], span[1:]])
    height = np.concatenate([ends[:1], y[first:last], ends[1:]])
    return float(np.diff(position) @ (height[1:] + height[:-1]) / 2 / (span[1] - span[0]))
