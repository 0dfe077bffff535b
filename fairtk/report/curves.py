"""How one measure goes with another over queries and settings: slopes and areas under curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError, ParameterError
from fairtk.frames.arrays import FloatArray
from fairtk.statistics.samples import batches, check_drawing, numbers

_ZERO = 1e-12
"""A spread below this part of the values is rounding."""

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
    - ``"area of points"``: under the isotonic regression of all points.

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
    found = points.values(np.ones((1, n)))[0] if n else np.full(len(CURVES), np.nan)
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
    every = zip(CURVES, found, low, high, strict=True)
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
        kept = there.any(axis=1)
        self.there = there[kept]
        self.x, self.y = (np.where(there, values, 0.0)[kept] for values in (first, second))
        self.n_queries = len(self.x)
        self.span, self.increasing = span, increasing
        self.query, _ = np.nonzero(self.there)
        self.height = self.y[self.there]
        self.place, self.code = np.unique(self.x[self.there], return_inverse=True)

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
    known = ~np.isnan(x)
    place, code = np.unique(x[known], return_inverse=True)
    return _area(place, np.bincount(code, weights=y[known]) / np.bincount(code), span)


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
