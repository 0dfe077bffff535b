"""Paired tests: whether two systems differ over the same queries by more than chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError
from fairtk.frames.arrays import FloatArray
from fairtk.statistics.intervals import mean_intervals
from fairtk.statistics.resampling import sign_flips, studentized
from fairtk.statistics.samples import check_drawing, numbers, one_of

TESTS = ("t", "wilcoxon", "randomization", "bootstrap")
"""The names of the paired tests."""
_ZERO = 1e-12
"""Differences below this part of the largest value are rounding, and count as 0."""


@dataclass(frozen=True)
class PairedTest:
    """What a paired test found.

    Attributes:
        test: its name.
        n: pairs that are defined on both sides.
        difference: the mean of x - y over these pairs; NaN without any.
        low: lower end of the confidence interval of the mean difference.
        high: its upper end.
        p: the two-sided p-value, in [0, 1].
        effect: Cohen's dz: the mean of the differences over their standard deviation.
        note: why `p`, `low`, `high` and `effect` are NaN (or some of them), or ``""``.
    """

    test: str
    n: int
    difference: float
    low: float
    high: float
    p: float
    effect: float
    note: str


def paired_test(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    test: str = "t",
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
) -> PairedTest:
    """Test whether the mean of x - y differs from 0. Two-sided; pairs with a NaN are left out.

    Args:
        x: values of one system, one per query, shape (n,).
        y: values of the other, of the same queries in the same order.
        test: ``"t"`` (Student, with its own interval); ``"wilcoxon"`` (signed ranks without the
            zeros; tests symmetry around 0 rather than the mean) or ``"randomization"`` (sign
            flips, exact for up to 20 differences), both with a BCa bootstrap interval of the mean;
            ``"bootstrap"`` (studentized, with the symmetric interval that belongs to it).
        confidence: of the interval, in (0, 1).
        resamples: drawn by randomization and bootstrap.
        seed: of these draws. Results do not depend on the order of the pairs.

    Returns:
        The result. Without spread (fewer than two pairs, no pair differs, or all differ by the same
        amount) nothing can be tested: NaN, and `PairedTest.note` says why.

    Raises:
        InputError: the shapes differ, or a value is infinite or no number.
        NotFoundError: there is no such test.
        ParameterError: `confidence` or `resamples` is out of its range.
    """
    name = one_of("test", test, TESTS)
    check_drawing(confidence, resamples)
    differences = pair_differences(x, y)
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    note = no_test(differences)
    if note:
        nothing = math.nan
        return PairedTest(name, n, mean, nothing, nothing, nothing, nothing, note)
    if name == "t":
        p = _student(differences)
        low, high = _interval(differences, "t", confidence, resamples, seed)
    elif name == "bootstrap":
        p, low, high = _bootstrap(differences, confidence, resamples, seed)
    else:
        p = (
            _wilcoxon(differences)
            if name == "wilcoxon"
            else sign_flips(differences, resamples, seed)
        )
        low, high = _interval(differences, "bca", confidence, resamples, seed)
    if math.isnan(low):
        note = "too few distinct differences, or resamples, for an interval"
    return PairedTest(name, n, mean, low, high, p, cohens_dz(differences), note)


def cohens_dz(differences: npt.ArrayLike) -> float:
    """Return Cohen's dz: mean over standard deviation of differences (Lakens 2013, equation 7).

    Args:
        differences: shape (n,); NaN is left out.

    Returns:
        Without unit, of the sign of the mean; NaN for fewer than two, or without spread.
    """
    values = numbers(differences, "differences", ndim=1)
    values = values[~np.isnan(values)]
    if no_test(values):
        return math.nan
    return float(values.mean() / values.std(ddof=1))


def pair_differences(x: npt.ArrayLike, y: npt.ArrayLike) -> FloatArray:
    """Return x - y of the pairs without NaN, sorted: resampling must not depend on their order.

    Raises:
        InputError: the shapes differ, or a value is infinite or no number.
    """
    first, second = numbers(x, "x", ndim=1), numbers(y, "y", ndim=1)
    if first.shape != second.shape:
        raise InputError(
            f"x and y must be values of the same queries; found {len(first)} and {len(second)}"
        )
    there = ~(np.isnan(first) | np.isnan(second))
    first, second = first[there], second[there]
    found = first - second
    largest = np.maximum(np.abs(first), np.abs(second))
    found[np.abs(found) <= _ZERO * largest.max(initial=0.0)] = 0.0
    return np.sort(found)


def no_test(differences: FloatArray) -> str:
    """Return why nothing can be tested, or ``""``."""
    if len(differences) == 0:
        return "no pair is defined"
    if len(differences) == 1:
        return "there is a single pair"
    if not differences.any():
        return "no pair differs"
    if np.ptp(differences) <= _ZERO * np.abs(differences).max():
        return "all pairs differ by the same amount"
    return ""


def _student(differences: FloatArray) -> float:
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon(differences: FloatArray) -> float:
    from scipy.stats import wilcoxon

    # differences that are equal but for rounding must share their rank
    scale = float(np.abs(differences).max())
    return float(wilcoxon(np.round(differences / scale, 12)).pvalue)


def _bootstrap(
    differences: FloatArray, confidence: float, resamples: int, seed: int
) -> tuple[float, float, float]:
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    drawn = studentized(differences, resamples, seed)
    p = (1 + int((drawn >= abs(mean) / error).sum())) / (1 + resamples)
    place = math.ceil(confidence * (resamples + 1)) - 1  # so that it holds 0 just if p says so
    half = float(drawn[place]) * error if place < resamples else math.inf
    return (p, mean - half, mean + half) if math.isfinite(half) else (p, math.nan, math.nan)


def _interval(
    differences: FloatArray, method: str, confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    low, high = mean_intervals(
        differences[None], method=method, confidence=confidence, resamples=resamples, seed=seed
    )
    return float(low[0]), float(high[0])
