"""Statistics over queries: tests, margins, intervals, corrections."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

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
        ParameterError: one of them is out of range.
    """
    checks.open_interval("confidence", confidence)
    checks.integer("resamples", resamples)


def batches(resamples: int, n: int) -> Iterator[int]:
    """Yield how many resamples of n values to draw at a time."""
    size = max(1, _MOST_NUMBERS // max(n, 1))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def mean_intervals(
    values: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[FloatArray, FloatArray]:
    """Return Student's t intervals of means over queries.

    Args:
        values: shape (means, queries): one row per mean, one column per query. NaN is undefined:
            the mean and its interval are over the defined values.
        confidence: of each interval, in (0, 1).
        bounds: the smallest and the largest possible value. Intervals end there.

    Returns:
        The lower and the upper ends, each of shape (means,). Both are the mean where all values are
        equal, and NaN for a row with fewer than two defined values.

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
    half[np.sqrt(square) <= _ZERO * largest] = 0.0  # equal values, but for rounding of their mean
    # a mean outside the bounds (another scale, an unbiased estimate) keeps its interval there
    low = np.maximum(mean - half, np.minimum(bounds[0], mean))
    high = np.minimum(mean + half, np.maximum(bounds[1], mean))
    return np.where(enough, low, np.nan), np.where(enough, high, np.nan)


_EXACT = 20
"""Up to this many differences all sign vectors are counted: half a million without the mirrored."""
_ZERO = 1e-12
"""Numbers below this part of the largest one are rounding, and count as 0."""


def sign_flip_means(
    differences: FloatArray, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return the smaller and the larger of the two means that each sign vector leaves.

    A sign vector splits the differences d into a set P that keeps its signs and a set M that
    changes them. With A and B the sums of d - t over P and M, its statistic at shift t is at least
    as far from 0 as the one observed when |A - B| >= |A + B|, that is, when A B <= 0: when t lies
    between the means of P and M. The mean of all differences always does. A vector that leaves one
    set empty, such as the identity, counts at every shift: its means are infinite.

    Args:
        differences: shape (n,), zeros included.
        resamples: the number of vectors that are drawn; with up to 20 differences all of them are
            used, one of each mirrored pair, since both leave the same two sets.
        seed: of the draws.

    Returns:
        Two arrays of shape (vectors,); the first vector is the identity.
    """
    n, total = len(differences), float(differences.sum())
    if n <= _EXACT:
        sums, sizes = differences[:1], np.ones(1)
        for value in differences[1:]:
            sums = np.concatenate([sums + value, sums])
            sizes = np.concatenate([sizes + 1, sizes])
    else:
        generator = np.random.default_rng(seed)
        parts: list[tuple[FloatArray, FloatArray]] = [(np.array([total]), np.array([float(n)]))]
        for size in batches(resamples, n):
            drawn = generator.integers(0, 256, (size, -(-n // 8)), dtype=np.uint8)
            kept = np.unpackbits(drawn, axis=1, count=n)
            parts.append((kept @ differences, kept.sum(axis=1, dtype=np.float64)))
        sums, sizes = (np.concatenate(part) for part in zip(*parts, strict=True))
    split = (sizes > 0) & (sizes < n)
    kept_mean = sums / np.where(split, sizes, 1.0)
    changed_mean = (total - sums) / np.where(split, n - sizes, 1.0)
    low, high = np.minimum(kept_mean, changed_mean), np.maximum(kept_mean, changed_mean)
    rounding = _ZERO * float(np.abs(differences).max())
    for ends in (low, high):
        ends[np.abs(ends) <= rounding] = 0.0
    low[~split], high[~split] = -np.inf, np.inf
    return low, high


Test = Literal["t", "wilcoxon", "randomization"]
TESTS: tuple[Test, ...] = get_args(Test)
"""The names of the paired tests."""
MEAN, PSEUDOMEDIAN = "mean", "pseudomedian"
"""What the interval of a test is for."""


@dataclass(frozen=True)
class PairedTest:
    """The result of a paired test.

    Attributes:
        test: the name of the test.
        n: the number of pairs that are defined on both sides.
        difference: the mean of x - y over these pairs; NaN without any.
        estimate: the estimate that `low` and `high` belong to: the mean, or for the Wilcoxon test
            the Hodges-Lehmann pseudomedian of the differences other than 0.
        estimand: ``"mean"`` or ``"pseudomedian"``.
        low: lower end of the confidence interval of `estimate`.
        high: its upper end.
        p: the two-sided p-value, in [0, 1].
        effect: Cohen's dz: the mean of the differences divided by their standard deviation.
        n_zeros: the number of differences of 0, which the Wilcoxon test leaves out.
        note: why `p`, `low`, `high` and `effect` (or some of them) are NaN, or ``""``.
    """

    test: str
    n: int
    difference: float
    estimate: float
    estimand: str
    low: float
    high: float
    p: float
    effect: float
    n_zeros: int
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
    """Test whether x and y differ. Two-sided; pairs with a NaN are left out.

    P-value and interval come from one null law, so that the interval contains 0 exactly when
    p > 1 - `confidence` (for the Wilcoxon test: if no two differences have the same size).

    Args:
        x: values of one system, one per query, shape (n,).
        y: values of the other system, of the same queries in the same order.
        test: ``"t"`` (Student; the mean), ``"randomization"`` (sign flips of all differences, exact
            for up to 20; the mean) or ``"wilcoxon"`` (signed ranks of the differences other than 0,
            as R's ``wilcox.test``: exact without ties up to 50, else normal without continuity
            correction). The Wilcoxon test and its interval are about the pseudomedian, which is the
            mean only if the differences are symmetric; on skewed differences it rejects too often
            as a test of the mean.
        confidence: of the interval, in (0, 1).
        resamples: the number of sign vectors that the randomization test draws.
        seed: of these draws. Results do not depend on the order of the pairs.

    Returns:
        The result. Without spread (fewer than two pairs, no pair differs, or all differ by the same
        amount) there is no test: NaN, and `PairedTest.note` says why. Too few differences for a
        bounded interval (at 95 %, fewer than 6) have a p-value and no interval.

    Raises:
        InputError: the shapes differ, or a value is infinite or not a number.
        NotFoundError: the test is unknown.
        ParameterError: `confidence` or `resamples` is out of range.

    References:
        Hodges and Lehmann 1963 (pseudomedian); Fisher 1935 and Phipson and Smyth 2010
        (randomization).
    """
    name = checks.known("test", test, TESTS)
    check_drawing(confidence, resamples)
    differences = pair_differences(x, y)
    n, n_zeros = len(differences), int((differences == 0).sum())
    mean = float(differences.mean()) if n else math.nan
    estimand = PSEUDOMEDIAN if name == "wilcoxon" else MEAN
    note = no_test(differences)
    if note:
        nothing = math.nan
        estimate = mean if estimand == MEAN else nothing
        return PairedTest(
            name, n, mean, estimate, estimand, nothing, nothing, nothing, nothing, n_zeros, note
        )
    estimate = mean
    if name == "t":
        p = _student(differences)
        lows, highs = mean_intervals(differences[None], confidence=confidence)
        low, high = float(lows[0]), float(highs[0])
    elif name == "wilcoxon":
        estimate, low, high, p = _wilcoxon(differences[differences != 0], 1 - confidence)
    else:
        ends = sign_flip_means(differences, resamples, seed)
        p = float(((ends[0] <= 0) & (ends[1] >= 0)).mean())
        low, high = _inverted(*ends, 1 - confidence)
    if math.isnan(low):
        if name == "wilcoxon" and n_zeros:
            few = f"{n - n_zeros} differences other than 0"
        elif name == "randomization" and n > _EXACT:
            few = f"{resamples} resamples"
        else:
            few = f"{n} differences"
        note = f"{few} are too few for a bounded interval at {confidence:.4g}"
    effect = cohens_dz(differences)
    return PairedTest(name, n, mean, estimate, estimand, low, high, p, effect, n_zeros, note)


def _inverted(low: FloatArray, high: FloatArray, alpha: float) -> tuple[float, float]:
    """Return the shifts that the randomization test does not reject; NaN if they are unbounded.

    A shift t below the mean of the differences counts for the vectors whose smaller mean is at
    most t, so the lower end is an order statistic of the smaller means, and the upper end one of
    the larger means.
    """
    n = len(low)
    count = _more_than(alpha, n)
    lower = float(np.partition(low, count - 1)[count - 1])
    upper = float(np.partition(high, n - count)[n - count])
    bounded = math.isfinite(lower) and math.isfinite(upper)
    return (lower, upper) if bounded else (math.nan, math.nan)


def _more_than(alpha: float, n: int) -> int:
    """Return the smallest count of n whose share exceeds alpha, as floating point divides."""
    count = math.floor(alpha * n)
    while count / n <= alpha:
        count += 1
    while (count - 1) / n > alpha:
        count -= 1
    return count


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


_EXACT_RANKS = 50
"""Up to this many differences without ties the law of the signed ranks is exact."""


def _wilcoxon(differences: FloatArray, alpha: float) -> tuple[float, float, float, float]:
    """Return the pseudomedian, the ends of its interval, and the p-value of the signed-rank test.

    The signed-rank sum at shift t is the number of Walsh averages (d_i + d_j) / 2, i <= j, above
    t. So the ends are Walsh averages, at the place where the law of the sum rejects.

    Args:
        differences: shape (n,), none of them 0.
        alpha: 1 - confidence.
    """
    from scipy.stats import norm, rankdata

    n = len(differences)
    # differences that are equal but for rounding share their rank
    rounded = np.round(differences / float(np.abs(differences).max()), 12)
    ranks = rankdata(np.abs(rounded))
    n_walsh = n * (n + 1) // 2
    smaller = min(float(ranks[rounded > 0].sum()), float(ranks[rounded < 0].sum()))
    _, ties = np.unique(ranks, return_counts=True)
    exact = n <= _EXACT_RANKS and len(ties) == n
    if exact:
        law = np.cumsum(_signed_rank_law(n))
    else:
        variance = n * (n + 1) * (2 * n + 1) / 24 - float((ties**3 - ties).sum()) / 48

    def p_values(rank_sums: FloatArray) -> FloatArray:
        """Return the p-values of the smaller of the two rank sums."""
        if exact:
            return np.minimum(1.0, 2 * law[rank_sums.astype(np.int64)])
        return np.asarray(2 * norm.cdf((rank_sums - n_walsh / 2) / math.sqrt(variance)))

    p = float(p_values(np.array([smaller]))[0])
    index, below = np.triu_indices(n)
    walsh = np.sort((differences[index] + differences[below]) / 2)
    estimate = float(np.median(walsh))
    n_rejected = int((p_values(np.arange((n_walsh + 1) // 2, dtype=np.float64)) <= alpha).sum())
    if n_rejected == 0 or 2 * 0.5**n > alpha:  # 2 / 2^n: the smallest p-value of the exact law
        return estimate, math.nan, math.nan, p
    return estimate, float(walsh[n_rejected - 1]), float(walsh[n_walsh - n_rejected]), p


def _signed_rank_law(n: int) -> FloatArray:
    """Return the null law of the signed-rank sum of n differences; shape (n (n + 1) / 2 + 1,)."""
    law = np.ones(1)
    for rank in range(1, n + 1):
        law = (np.append(law, np.zeros(rank)) + np.append(np.zeros(rank), law)) / 2
    return law


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


Correction = Literal["holm", "bonferroni", "fdr_bh", "none"]
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
"""The names of the corrections of p-values."""


def correct_p_values(p: npt.ArrayLike, method: str | None = "holm") -> FloatArray:
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
