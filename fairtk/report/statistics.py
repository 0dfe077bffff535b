"""Statistics over queries: tests, margins, intervals, corrections."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.errors import InputError
from fairtk.frames import FloatArray

_MOST_NUMBERS = 1 << 22
"""How many drawn numbers are in memory at a time."""


def numbers(values: npt.ArrayLike, name: str, ndim: int) -> FloatArray:
    """Return values as an array of floats; NaN is allowed and means undefined.

    Raises:
        InputError: they are no numbers, infinite, or not of so many dimensions.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s); found the shape {array.shape}")
    infinite = np.isinf(array)
    if infinite.any():
        place = tuple(int(i) for i in np.argwhere(infinite)[0])
        where = place[0] if ndim == 1 else place
        raise InputError(f"{name} must be finite or NaN; found {array[place]} at index {where}")
    return array


def check_drawing(confidence: float, resamples: int) -> None:
    """Raise unless a confidence is in (0, 1) and there is at least one resample.

    Raises:
        ParameterError: they are not.
    """
    checks.inside("confidence", confidence)
    checks.whole("resamples", resamples)


def batches(resamples: int, n: int) -> Iterator[int]:
    """Yield how many resamples of n values to draw at a time."""
    size = max(1, _MOST_NUMBERS // max(n, 1))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


INTERVALS = ("percentile", "bca", "t")
"""The names of the intervals of a mean: two bootstraps, and Student's t."""
_NUMBERS = 1 << 24
"""How many resampled numbers scipy may hold at a time."""


def mean_intervals(
    values: npt.ArrayLike,
    *,
    method: str = "percentile",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[FloatArray, FloatArray]:
    """Return confidence intervals of means over queries.

    All rows without NaN are resampled alike, so that intervals of one table belong together.

    Args:
        values: shape (means, queries): one row per mean, one column per query. NaN is undefined:
            the mean and its interval are over the defined values.
        method: ``"percentile"`` or ``"bca"`` (bootstrap by scipy; BCa is bias-corrected and
            accelerated: Efron 1987), or ``"t"`` (Student).
        confidence: of the intervals, in (0, 1).
        resamples: of the bootstrap.
        seed: of the bootstrap.
        bounds: of the values, where intervals end, if their mean is within; Student's know none.

    Returns:
        The lower and the upper ends, each of shape (means,); NaN for a row with fewer than two
        defined values, and for BCa where all are equal. A bootstrap over a handful of queries is
        too narrow: "t" is better there.

    Raises:
        InputError: a value is infinite or no number.
        NotFoundError: there is no such method.
        ParameterError: `confidence` or `resamples` is out of its range.
    """
    name = checks.known("interval", method, INTERVALS)
    check_drawing(confidence, resamples)
    table = numbers(values, "values", ndim=2)
    low, high = np.full(len(table), np.nan), np.full(len(table), np.nan)
    there = ~np.isnan(table)
    whole = there.all(axis=1)
    parts = [(whole, table[whole])]
    for i in np.flatnonzero(~whole):
        parts.append((np.arange(len(table)) == i, table[i, there[i]][None]))
    for rows, part in parts:
        if len(part) and part.shape[1] >= 2:
            if name == "t":
                ends, mean = _student_interval(part, confidence), part.mean(axis=1)
                low[rows] = np.maximum(ends[0], np.minimum(bounds[0], mean))
                high[rows] = np.minimum(ends[1], np.maximum(bounds[1], mean))
            else:
                low[rows], high[rows] = _bootstrap_interval(part, name, confidence, resamples, seed)
    return low, high


def _student_interval(table: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    from scipy.stats import t

    n = table.shape[1]
    mean = table.mean(axis=1)
    half = t.ppf((1 + confidence) / 2, n - 1) * table.std(axis=1, ddof=1) / np.sqrt(n)
    return mean - half, mean + half


def _bootstrap_interval(
    table: FloatArray, name: str, confidence: float, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    from scipy.stats import DegenerateDataWarning, bootstrap

    # values that are all equal have no BCa interval: scipy divides 0 by 0, and gives NaN
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        interval = bootstrap(
            (table,),
            np.mean,
            axis=1,
            confidence_level=confidence,
            n_resamples=resamples,
            batch=max(1, _NUMBERS // table.size),
            method="BCa" if name == "bca" else name,
            vectorized=True,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return np.asarray(interval.low), np.asarray(interval.high)


_EXACT = 20
"""Up to so many differences, all sign flips are counted: half a million sums."""
_EQUAL = 1e-12
"""Sums that differ by less, relative to the largest possible sum, are equal."""


def sign_flips(differences: FloatArray, resamples: int, seed: int) -> float:
    """Return the two-sided p-value of the randomization test (Fisher's, by signs).

    Under the null hypothesis each difference could as well have the other sign. The p-value is the
    share of all sign flips whose mean is at least as far from 0 as the mean that was found: exact
    for up to 20 differences other than 0, by drawn flips beyond. Then it is
    (1 + hits) / (1 + resamples), never 0 (Phipson and Smyth 2010).

    Args:
        differences: shape (n,), not all 0.
        resamples: how many flips are drawn.
        seed: of the draws.
    """
    moved = differences[differences != 0]
    whole = float(np.abs(moved).sum())
    least = abs(float(moved.sum())) - _EQUAL * whole
    if len(moved) <= _EXACT:
        sums = moved[:1]  # the mirrored half is equal by symmetry
        for value in moved[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= least).mean())
    generator = np.random.default_rng(seed)
    hits = 0
    for size in batches(resamples, len(moved)):
        drawn = generator.integers(0, 256, (size, -(-len(moved) // 8)), dtype=np.uint8)
        signs = np.unpackbits(drawn, axis=1, count=len(moved)).astype(np.float64)
        hits += int((np.abs(2 * (signs @ moved) - moved.sum()) >= least).sum())
    return (1 + hits) / (1 + resamples)


def studentized(differences: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Return how far means of resamples are from the mean found, in their own standard errors.

    The absolute bootstrap-t statistics, sorted (Efron and Tibshirani 1993, chapters 12 and 16;
    Sakai 2006 for retrieval). A resample of equal values has no spread: infinity, unless its mean
    is the mean found.

    Args:
        differences: shape (n,), with spread.
        resamples: of the bootstrap.
        seed: of the draws.

    Returns:
        shape (resamples,).
    """
    generator = np.random.default_rng(seed)
    n, mean = len(differences), differences.mean()
    centered = differences - mean
    least = _EQUAL * np.abs(differences).max()
    parts = []
    for size in batches(resamples, n):
        drawn = centered[generator.integers(0, n, (size, n))]
        away = np.abs(drawn.mean(axis=1))
        error = drawn.std(axis=1, ddof=1) / np.sqrt(n)
        flat = error <= least
        ratio = np.divide(away, error, out=np.zeros(size), where=~flat)
        ratio[flat & (away > least)] = np.inf
        parts.append(ratio)
    return np.sort(np.concatenate(parts))


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
    name = checks.known("test", test, TESTS)
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
    differences = first - second
    largest = np.maximum(np.abs(first), np.abs(second))
    differences[np.abs(differences) <= _ZERO * largest.max(initial=0.0)] = 0.0
    return np.sort(differences)


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
    drawn, statistic = studentized(differences, resamples, seed), abs(mean) / error
    # those that are equal to it but for rounding count as equal
    rounding = _EQUAL * (statistic + float(np.abs(differences).max()) / error)
    drawn[np.abs(drawn - statistic) <= rounding] = statistic
    p = (1 + int((drawn >= statistic).sum())) / (1 + resamples)
    place = math.ceil(confidence * (resamples + 1)) - 1  # so that it holds 0 just if p says so
    half = float(drawn[place]) * error if place < resamples else math.inf
    half = abs(mean) if half < math.inf and drawn[place] == statistic else half
    return (p, mean - half, mean + half) if math.isfinite(half) else (p, math.nan, math.nan)


def _interval(
    differences: FloatArray, method: str, confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    low, high = mean_intervals(
        differences[None], method=method, confidence=confidence, resamples=resamples, seed=seed
    )
    return float(low[0]), float(high[0])


BETTER = ("higher", "lower")


@dataclass(frozen=True)
class MarginTest:
    """What a test against a margin found.

    Attributes:
        margin: the margin.
        n: pairs that are defined on both sides.
        difference: the mean of x - y over these pairs; NaN without any.
        low: the difference is above it with the wished confidence.
        high: it is below it with that confidence; both at once hold with less: 90 % for 95 %.
        p: the p-value, in [0, 1]; below 1 - confidence the claim holds.
        note: why `p`, `low` and `high` are NaN, or ``""``.
    """

    margin: float
    n: int
    difference: float
    low: float
    high: float
    p: float
    note: str


def non_inferiority_test(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    margin: float,
    *,
    better: str = "higher",
    confidence: float = 0.95,
) -> MarginTest:
    """Test whether x is at most `margin` worse than y: a one-sided paired t-test.

    That a difference is not significant does not say that there is none; this test does say that
    it is small. The null hypothesis is that x is worse by `margin` or more.

    Args:
        x: values of one system, one per query, shape (n,).
        y: values of the other, of the same queries in the same order; pairs with a NaN are left
            out.
        margin: the largest loss that is accepted, above 0; choose it before you look.
        better: ``"higher"`` or ``"lower"`` values.
        confidence: of `MarginTest.low` and `MarginTest.high`, each, in (0, 1).

    Raises:
        ParameterError: `margin` or `confidence` is out of its range.
        NotFoundError: there is no such direction.
        InputError: the shapes differ, or a value is infinite or no number.
    """
    checks.known("direction", better, BETTER)
    margin_test, (not_below, not_above) = _one_sided(x, y, margin, confidence)
    return _with_p(margin_test, not_below if better == "higher" else not_above)


def equivalence_test(
    x: npt.ArrayLike, y: npt.ArrayLike, margin: float, *, confidence: float = 0.95
) -> MarginTest:
    """Test whether x and y differ by less than `margin`: two one-sided paired t-tests.

    Schuirmann 1987. The null hypothesis is that the mean difference is `margin` or more, one way
    or the other; it is refused where the interval from `low` to `high` lies within the margin.

    Args:
        x: as in `non_inferiority_test`.
        y: likewise.
        margin: the smallest difference that matters, above 0; choose it before you look.
        confidence: of `MarginTest.low` and `MarginTest.high`, each, in (0, 1).

    Raises:
        ParameterError: `margin` or `confidence` is out of its range.
        InputError: the shapes differ, or a value is infinite or no number.
    """
    margin_test, sides = _one_sided(x, y, margin, confidence)
    return _with_p(margin_test, max(sides))


def check_margin(margin: object, where: str = "margin") -> float:
    """Return a margin, which must be a finite number above 0.

    Raises:
        ParameterError: it is not.
    """
    return checks.number(where, margin, ends="(]")


def _one_sided(
    x: npt.ArrayLike, y: npt.ArrayLike, margin: float, confidence: float
) -> tuple[MarginTest, tuple[float, float]]:
    """Return what both tests share, and the p-values of "not below" and "not above" the margin."""
    from scipy.stats import t

    margin = check_margin(margin)
    check_drawing(confidence, 1)
    differences = pair_differences(x, y)
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    note = no_test(differences)
    if note:
        nothing = math.nan
        return MarginTest(margin, n, mean, nothing, nothing, nothing, note), (nothing, nothing)
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    half = float(t.ppf(confidence, n - 1)) * error
    below, above = (float(t.sf((margin + way * mean) / error, n - 1)) for way in (1, -1))
    margin_test = MarginTest(margin, n, mean, mean - half, mean + half, math.nan, note)
    return margin_test, (below, above)


def _with_p(margin_test: MarginTest, p: float) -> MarginTest:
    return MarginTest(**{**vars(margin_test), "p": p})


CORRECTIONS = ("holm", "bonferroni", "fdr_bh", "none")
"""The names of the corrections of p-values."""


def correct(p: npt.ArrayLike, method: str | None = "holm") -> FloatArray:
    """Return the p-values of one family of tests, corrected for their number.

    Args:
        p: the p-values, shape (n,). NaN (nothing was tested) stays NaN and does not count.
        method: ``"holm"`` (Holm 1979) and ``"bonferroni"`` bound the chance of any false finding;
            ``"fdr_bh"`` (Benjamini and Hochberg 1995) bounds the share of false ones among the
            findings, for tests that are independent or positively dependent; ``"none"`` or None.

    Returns:
        shape (n,), in [0, 1]; never below `p`.

    Raises:
        NotFoundError: there is no such method.
        InputError: a p-value is not in [0, 1].
    """
    name = checks.known("correction", "none" if method is None else method, CORRECTIONS)
    family = numbers(p, "p-values", ndim=1)
    there = ~np.isnan(family)
    p_values = family[there]
    outside = (p_values < 0) | (p_values > 1)
    if outside.any():
        raise InputError(f"p-values must lie in [0, 1]; found {p_values[outside][0]}")
    n = len(p_values)
    order = np.argsort(p_values, kind="stable")
    if name == "holm":
        p_values[order] = np.maximum.accumulate(p_values[order] * np.arange(n, 0, -1))
    elif name == "bonferroni":
        p_values = p_values * n
    elif name == "fdr_bh":
        scaled = p_values[order] * (n / np.arange(1, n + 1))
        p_values[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    out = np.full(len(family), np.nan)
    out[there] = np.minimum(p_values, 1.0)
    return out
