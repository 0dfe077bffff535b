"""The power of a paired t-test, and the number of queries that it requires."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import FloatArray
from fairtk.statistics.arrays import numbers
from fairtk.wording import short


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
    size = numbers(n, "n", ndim=np.ndim(n))
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
        raise ParameterError(f"difference must {rule}, got {short(difference)}")
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
