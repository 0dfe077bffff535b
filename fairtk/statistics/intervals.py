"""Confidence intervals of means over queries, and of bootstrap samples."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.frames import FloatArray
from fairtk.statistics.arrays import ZERO, numbers

TOO_FEW = "fewer than two values are defined"

EQUAL_VALUES = "all values are equal"


def mean_intervals(
    values: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[FloatArray, FloatArray]:
    """Compute Student's t intervals of means over queries.

    Args:
        values: shape (means, queries). The mean and its interval are over the values that are not
            NaN.
        confidence: the level of each interval, in (0, 1).
        bounds: the smallest and the largest possible value, which clip the intervals.

    Returns:
        The lower and the upper ends, each of shape (means,), with the mean between them. They are
        NaN for fewer than two defined values, and if all values are equal: an interval of width 0
        would claim certainty. `no_interval` returns the reason.

    Raises:
        InputError: a value is infinite or not a number.
        ParameterError: `confidence` is out of range.
    """
    from scipy.stats import t

    checks.open_interval("confidence", confidence)
    table = numbers(values, "values", ndim=2)
    defined = ~np.isnan(table)
    n = defined.sum(axis=1)
    enough = n >= 2
    mean = np.where(defined, table, 0.0).sum(axis=1) / np.maximum(n, 1)
    square = (np.where(defined, table - mean[:, None], 0.0) ** 2).sum(axis=1)
    degrees = np.maximum(n - 1, 1)
    half = t.ppf((1 + confidence) / 2, degrees) * np.sqrt(square / degrees / np.maximum(n, 1))
    largest = np.where(defined, np.abs(table), 0.0).max(axis=1, initial=0.0)
    # equal values, up to rounding of their mean
    equal = (np.sqrt(square) <= ZERO * largest) | (half <= ZERO * largest)
    half[equal | ~enough] = np.nan
    # a mean outside the bounds (another scale, an unbiased estimate) keeps its interval
    low = np.maximum(mean - half, np.minimum(bounds[0], mean))
    high = np.minimum(mean + half, np.maximum(bounds[1], mean))
    return low, high


def no_interval(values: npt.ArrayLike) -> str:
    """Return the reason if a mean has no interval (see `mean_intervals`), otherwise ``""``.

    Args:
        values: shape (n,). NaN is ignored.

    Raises:
        InputError: a value is infinite or not a number.
    """
    row = numbers(values, "values", ndim=1)
    low, _ = mean_intervals(row[None])
    if not math.isnan(low[0]):
        return ""
    return TOO_FEW if (~np.isnan(row)).sum() < 2 else EQUAL_VALUES


def percentile_interval(
    value: float, drawn: npt.ArrayLike, confidence: float = 0.95
) -> tuple[float, float, str]:
    """Return the percentile interval of a value from its bootstrap samples.

    Args:
        value: the value for the original queries.
        drawn: the values for the bootstrap samples, shape (resamples,); NaN if undefined.
        confidence: the level of the interval, in (0, 1).

    Returns:
        The ends, with `value` between them, and ``""``. Otherwise NaN, NaN and the reason: less
        than half of the values are defined; all are equal; or `value` is not between the ends, so
        the bootstrap is biased.

    Raises:
        InputError: a value is infinite or not a number.
        ParameterError: `confidence` is out of range.
    """
    checks.open_interval("confidence", confidence)
    values = numbers(drawn, "drawn", ndim=1)
    defined = values[~np.isnan(values)]
    nothing = math.nan, math.nan
    if math.isnan(value):
        return *nothing, "the value is undefined"
    if 2 * len(defined) < len(values) or len(defined) < 2:
        return *nothing, "the value is undefined for most bootstrap samples"
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    rounding = ZERO * max(abs(value), float(np.abs(defined).max()))
    if high - low <= rounding:
        return *nothing, "the bootstrap samples have equal values"
    if not low - rounding <= value <= high + rounding:
        return *nothing, "the bootstrap is biased: the value is outside its percentile interval"
    return min(float(low), value), max(float(high), value), ""
