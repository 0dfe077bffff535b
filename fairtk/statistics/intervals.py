"""Confidence intervals of means over queries, and of bootstrap samples."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.frames import FloatArray
from fairtk.statistics.arrays import ZERO, numbers
from fairtk.statistics.clusters import cluster_codes, sum_by_cluster

TOO_FEW = "fewer than two values are defined"

EQUAL_VALUES = "all values are equal"

ONE_CLUSTER = "all values are in one cluster"

EQUAL_CLUSTERS = "the means of all clusters are equal"


def mean_intervals(
    values: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    clusters: npt.ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Compute Student's t intervals of means over queries.

    Args:
        values: shape (means, queries). The mean and its interval are over the values that are not
            NaN.
        confidence: the level of each interval, in (0, 1).
        bounds: the smallest and the largest possible value, which clip the intervals. An end does
            not clip an interval over values beyond it, such as unbiased estimates below 0.
        clusters: the cluster of each query, shape (queries,): the queries of a cluster are not
            independent, such as the questions of one user, and the degrees of freedom are those of
            the clusters. `None` if all queries are independent.

    Returns:
        The lower and the upper ends, each of shape (means,), with the mean between them. They are
        NaN for fewer than two defined values or clusters, and if all values or the means of all
        clusters are equal: an interval of width 0 would claim certainty. `no_interval` returns the
        reason.

    Raises:
        InputError: a value is infinite or not a number, or `clusters` is invalid.
        ParameterError: `confidence` is out of range.

    References:
        Miller 2024, arXiv 2411.00640 (clusters).
    """
    from scipy.stats import t

    checks.open_interval("confidence", confidence)
    bounds = checks.interval("bounds", bounds)
    table = numbers(values, "values", ndim=2)
    defined = ~np.isnan(table)
    n = defined.sum(axis=1)
    mean = np.where(defined, table, 0.0).sum(axis=1) / np.maximum(n, 1)
    deviation, count = np.where(defined, table - mean[:, None], 0.0), n
    if clusters is not None:
        codes = cluster_codes(clusters, table.shape[1])
        deviation = sum_by_cluster(deviation, codes)
        count = (sum_by_cluster(defined.astype(np.float64), codes) > 0).sum(axis=1)
    square = (deviation**2).sum(axis=1)
    degrees = np.maximum(count - 1, 1)
    variance = square * (count / np.maximum(n, 1)) / degrees / np.maximum(n, 1)
    half = t.ppf((1 + confidence) / 2, degrees) * np.sqrt(variance)
    largest = np.where(defined, np.abs(table), 0.0).max(axis=1, initial=0.0)
    # equal values, up to rounding of their mean
    equal = (np.sqrt(square) <= ZERO * largest) | (half <= ZERO * largest)
    half[equal | (count < 2)] = np.nan
    lowest = np.where(defined, table, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(defined, table, -np.inf).max(axis=1, initial=-np.inf)
    least, most = held_bounds(bounds, lowest, highest)
    # rounding may put the mean outside the bounds
    low = np.maximum(mean - half, np.minimum(least, mean))
    high = np.minimum(mean + half, np.maximum(most, mean))
    return low, high


def held_bounds(
    bounds: tuple[float, float], lowest: npt.ArrayLike, highest: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of values, infinite if the lowest or the highest value is beyond them."""
    rounding = ZERO * np.maximum(1.0, np.abs(bounds))
    least = np.where(np.less(lowest, bounds[0] - rounding[0]), -np.inf, bounds[0])
    most = np.where(np.greater(highest, bounds[1] + rounding[1]), np.inf, bounds[1])
    return least, most


def no_interval(values: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> str:
    """Return the reason if a mean has no interval (see `mean_intervals`), otherwise ``""``.

    Args:
        values: shape (n,). NaN is ignored.
        clusters: as for `mean_intervals`.

    Raises:
        InputError: a value is infinite or not a number, or `clusters` is invalid.
    """
    row = numbers(values, "values", ndim=1)
    low, _ = mean_intervals(row[None], clusters=clusters)
    if not math.isnan(low[0]):
        return ""
    defined = ~np.isnan(row)
    if defined.sum() < 2:
        return TOO_FEW
    if clusters is not None:
        if len(np.unique(cluster_codes(clusters, len(row))[defined])) < 2:
            return ONE_CLUSTER
        if not math.isnan(mean_intervals(row[None])[0][0]):
            return EQUAL_CLUSTERS
    return EQUAL_VALUES


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
