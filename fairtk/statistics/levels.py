"""Two levels of chance: which queries there are, and which samples of each were drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError, ParameterError
from fairtk.frames.arrays import FloatArray
from fairtk.statistics.samples import check_drawing, numbers


@dataclass(frozen=True)
class TwoLevels:
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


def two_levels(
    values: npt.ArrayLike, variances: npt.ArrayLike, *, confidence: float = 0.95
) -> TwoLevels:
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
        return TwoLevels(0, *[math.nan] * 8)
    mean, of_samples = float(value.mean()), float(variance.mean())
    error_samples = math.sqrt(max(of_samples, 0.0) / n) if not math.isnan(of_samples) else math.nan
    whole = float(value.var(ddof=1)) if n > 1 else math.nan
    error = math.sqrt(whole / n)
    left = whole - max(of_samples, 0.0) if not math.isnan(of_samples) else math.nan
    error_queries = math.sqrt(max(left, 0.0) / n) if not math.isnan(left) else math.nan
    half = float(t.ppf((1 + confidence) / 2, n - 1)) * error if n > 1 else math.nan
    near = float(norm.ppf((1 + confidence) / 2)) * error_samples
    return TwoLevels(n, mean, error, error_queries, error_samples,
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
    """
    from scipy.stats import nct, norm, t

    size = np.asarray(n, dtype=np.float64)
    edge = t.ppf(1 - significance / 2, size - 1)
    away = abs(difference) / deviation * np.sqrt(size)
    # the noncentral t has digits near its middle and for few degrees of freedom alone; elsewhere
    # the normal distribution has the same first three
    near = (size < 1000) & (away < 30)
    few, mean = np.where(near, size - 1, 1.0), np.where(near, away, 0.0)
    exact = nct.sf(edge, few, mean) + nct.cdf(-edge, few, mean)
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
        if not 0 < value < 1:
            raise ParameterError(f"{name} must be above 0 and below 1; found {value!r}")
    if not (math.isfinite(difference) and difference != 0):
        raise ParameterError(
            f"difference must be a finite number other than 0; found {difference!r}"
        )
    if not (math.isfinite(deviation) and deviation >= 0):
        raise ParameterError(f"deviation must be a finite number from 0; found {deviation!r}")
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
