"""How one measure goes with another over queries and settings: slopes and areas under curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError, ParameterError
from fairtk.frames.arrays import BoolArray, FloatArray
from fairtk.statistics.samples import check_drawing, numbers

CURVES = ("slope of points", "slope of means", "area of means", "area of points")


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
    points = _Points.of(x, y, span, increasing)
    n = len(points.x)
    found = points.values(np.ones(n)) if n else dict.fromkeys(CURVES, np.nan)
    if n < 2:
        return {name: CurveValue(value, np.nan, np.nan) for name, value in found.items()}
    generator = np.random.default_rng(seed)
    drawn = [
        points.values(np.bincount(generator.integers(0, n, n), minlength=n).astype(np.float64))
        for _ in range(resamples)
    ]
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    result = {}
    for name, value in found.items():
        every = np.array([values[name] for values in drawn])
        every = every[~np.isnan(every)]
        low, high = np.quantile(every, ends) if len(every) else (np.nan, np.nan)
        result[name] = CurveValue(value, float(low), float(high))
    return result


@dataclass(frozen=True)
class _Points:
    """The points of some queries; those of a query are weighted alike."""

    x: FloatArray
    y: FloatArray
    there: BoolArray
    span: tuple[float, float]
    increasing: bool

    @classmethod
    def of(
        cls, x: npt.ArrayLike, y: npt.ArrayLike, span: tuple[float, float], increasing: bool
    ) -> _Points:
        first, second = numbers(x, "x", ndim=2), numbers(y, "y", ndim=2)
        if first.shape != second.shape:
            raise InputError(
                f"x and y must have one shape (queries, settings); found {first.shape} and "
                f"{second.shape}"
            )
        there = ~(np.isnan(first) | np.isnan(second))
        kept = there.any(axis=1)
        first, second = (np.where(there, values, 0.0)[kept] for values in (first, second))
        return cls(first, second, there[kept], span, increasing)

    def values(self, weight: FloatArray) -> dict[str, float]:
        """Return the values of `CURVES` for weights of the queries."""
        count = weight @ self.there
        settings = count > 0
        means = [(weight @ values)[settings] / count[settings] for values in (self.x, self.y)]
        weights = np.broadcast_to(weight[:, None], self.there.shape)
        used = self.there & (weights > 0)
        points = self.x[used], self.y[used], weights[used]
        alike = np.ones(len(means[0]))
        found = (
            _slope(*points),
            _slope(means[0], means[1], alike),
            _area(*_heights(means[0], means[1], alike)[:2], self.span),
            self._isotonic(*points),
        )
        return dict(zip(CURVES, found, strict=True))

    def _isotonic(self, x: FloatArray, y: FloatArray, weight: FloatArray) -> float:
        from scipy.optimize import isotonic_regression

        place, height, mass = _heights(x, y, weight)
        fit = isotonic_regression(height, weights=mass, increasing=self.increasing)
        return _area(place, fit.x, self.span)


def _slope(x: FloatArray, y: FloatArray, weight: FloatArray) -> float:
    mass = weight.sum()
    away = x - (weight @ x) / mass
    spread = weight @ away**2
    if spread <= 1e-24 * mass * max(1.0, float(np.abs(x).max()) ** 2):
        return float("nan")
    return float((weight * away) @ y / spread)


def _heights(
    x: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct x in order, the mean y at each, and their weights."""
    place, code = np.unique(x, return_inverse=True)
    mass = np.bincount(code, weights=weight).astype(np.float64)
    return place, np.bincount(code, weights=weight * y) / mass, mass


def _area(x: FloatArray, y: FloatArray, span: tuple[float, float]) -> float:
    """Return the mean height of straight lines through points over the span, flat beyond them."""
    inside = x[(x > span[0]) & (x < span[1])]
    at = np.concatenate([[span[0]], inside, [span[1]]])
    return float(np.trapezoid(np.interp(at, x, y), at) / (span[1] - span[0]))
