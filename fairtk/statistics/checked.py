"""Means of cheap values of all queries, corrected by exact values of some."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.errors import InputError
from fairtk.frames import FloatArray
from fairtk.statistics.arrays import ZERO, numbers
from fairtk.statistics.intervals import held_bounds

TOO_FEW_CHECKED = "fewer than two checked queries have a value"

EQUAL_CHECKED = "the values of all checked queries are equal"


@dataclass(frozen=True)
class CorrectedMean:
    """The mean of cheap values, corrected by checked values (prediction-powered inference).

    Attributes:
        n: the number of queries with a cheap value.
        n_checked: the number of these with a checked value.
        mean: the mean of the cheap values of all n queries.
        mean_checked: the mean of the checked values.
        corrected: the corrected mean.
        weight: how much the cheap values count, in [0, 1]. With 0, `corrected` is `mean_checked`.
        low: the lower end of the confidence interval of `corrected`.
        high: the upper end.
        p: the two-sided p-value of the test that the true mean is 0.
        note: the reason if `low`, `high` and `p` are NaN, otherwise ``""``.
    """

    n: int
    n_checked: int
    mean: float
    mean_checked: float
    corrected: float
    weight: float
    low: float
    high: float
    p: float
    note: str


def corrected_mean(
    checked: npt.ArrayLike,
    values: npt.ArrayLike,
    others: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> CorrectedMean:
    """Compute a mean from exact values of some queries and cheap values of all.

    The checked queries must be drawn at random from all queries. The cheap values may have any
    bias, which the checked queries correct: the corrected mean is weight * mean(others) +
    mean(checked - weight * values). The weight minimizes the estimated variance, so the interval is
    never wider than that of the checked values alone.

    Args:
        checked: the exact values of the checked queries, e.g. with labels of people, shape (n,).
        values: the cheap values of the same queries, e.g. with labels of a model, shape (n,).
        others: the cheap values of all other queries, shape (m,).
        confidence: the level of the interval, in (0, 1).
        bounds: the smallest and the largest possible value, which clip the interval, as in
            `mean_intervals`.

    Returns:
        The mean. NaN in the arguments is ignored. If a checked query has only one of both values,
        the cheap values do not count (weight 0), because they may differ for such queries.

    Raises:
        InputError: the shapes differ, or a value is infinite or not a number.
        ParameterError: `confidence` is out of range.

    References:
        Angelopoulos et al. 2023, arXiv 2301.09633 and 2311.01453 (the weight).
    """
    from scipy.stats import t

    checks.open_interval("confidence", confidence)
    bounds = checks.interval("bounds", bounds)
    exact, cheap = numbers(checked, "checked", ndim=1), numbers(values, "values", ndim=1)
    rest = numbers(others, "others", ndim=1)
    if exact.shape != cheap.shape:
        raise InputError(
            f"checked and values must have the same length, got {len(exact)} and {len(cheap)}"
        )
    is_defined = ~np.isnan(exact)
    agree = bool((is_defined == ~np.isnan(cheap)).all())
    all_cheap = np.concatenate([cheap, rest])
    all_cheap, rest = all_cheap[~np.isnan(all_cheap)], rest[~np.isnan(rest)]
    exact, cheap = exact[is_defined], cheap[is_defined]
    n = len(exact)
    mean = float(all_cheap.mean()) if len(all_cheap) else math.nan
    mean_checked = float(exact.mean()) if n else math.nan
    corrected = weight = low = high = p = math.nan
    note = TOO_FEW_CHECKED
    if n > 1:
        weight = _weight(exact, cheap, rest) if agree and len(rest) > 1 else 0.0
        corrected, error = mean_checked, math.sqrt(_variance(weight, exact, cheap, rest))
        if weight:
            corrected += weight * float(rest.mean() - cheap.mean())
        note = EQUAL_CHECKED
        if error > ZERO * max(np.abs(exact).max(), weight * np.abs(all_cheap).max(initial=0.0)):
            half = float(t.ppf((1 + confidence) / 2, n - 1)) * error
            of_all = np.concatenate([exact, all_cheap])
            least, most = held_bounds(bounds, of_all.min(), of_all.max())
            low = max(corrected - half, min(float(least), corrected))
            high = min(corrected + half, max(float(most), corrected))
            p, note = float(2 * t.sf(abs(corrected) / error, n - 1)), ""
    return CorrectedMean(
        len(all_cheap), n, mean, mean_checked, corrected, weight, low, high, p, note
    )


def _weight(exact: FloatArray, cheap: FloatArray, rest: FloatArray) -> float:
    """Return the weight of the cheap values; 0 if it would not make the interval narrower."""
    spread = float(np.concatenate([cheap, rest]).var(ddof=1))
    covariance = float(np.cov(exact, cheap)[0, 1])
    if spread == 0 or covariance <= 0:
        return 0.0
    weight = min(covariance / ((1 + len(exact) / len(rest)) * spread), 1.0)
    without, with_weight = (_variance(w, exact, cheap, rest) for w in (0.0, weight))
    return weight if with_weight < without else 0.0


def _variance(weight: float, exact: FloatArray, cheap: FloatArray, rest: FloatArray) -> float:
    """Return the variance of the corrected mean."""
    if not weight:  # cheap values may be undefined
        return float(exact.var(ddof=1)) / len(exact)
    of_others = weight**2 * float(rest.var(ddof=1)) / len(rest)
    return float((exact - weight * cheap).var(ddof=1)) / len(exact) + of_others
