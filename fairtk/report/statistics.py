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
"""The maximum number of random numbers in memory."""


def numbers(values: npt.ArrayLike, name: str, ndim: int) -> FloatArray:
    """Return values as an array of floats, with NaN for undefined values.

    Raises:
        InputError: a value is infinite or not a number, or the number of dimensions is wrong.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    infinite = np.isinf(array)
    if infinite.any():
        index = tuple(int(i) for i in np.argwhere(infinite)[0])
        where = index[0] if ndim == 1 else index
        raise InputError(f"{name} must be finite or NaN, got {array[index]} at index {where}")
    return array


def check_drawing(confidence: float, resamples: int) -> None:
    """Check that `confidence` is in (0, 1) and `resamples` at least 1.

    Raises:
        ParameterError: a value is out of range.
    """
    checks.open_interval("confidence", confidence)
    checks.integer("resamples", resamples)


def batches(resamples: int, n: int) -> Iterator[int]:
    """Yield the sizes of batches of resamples of n values."""
    size = max(1, _MOST_NUMBERS // max(n, 1))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


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
    equal = (np.sqrt(square) <= _ZERO * largest) | (half <= _ZERO * largest)
    half[equal | ~enough] = np.nan
    # a mean outside the bounds (another scale, an unbiased estimate) keeps its interval
    low = np.maximum(mean - half, np.minimum(bounds[0], mean))
    high = np.minimum(mean + half, np.maximum(bounds[1], mean))
    return low, high


TOO_FEW = "fewer than two values are defined"
EQUAL_VALUES = "all values are equal"


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
    rounding = _ZERO * max(abs(value), float(np.abs(defined).max()))
    if high - low <= rounding:
        return *nothing, "the bootstrap samples have equal values"
    if not low - rounding <= value <= high + rounding:
        return *nothing, "the bootstrap is biased: the value is outside its percentile interval"
    return min(float(low), value), max(float(high), value), ""


_EXACT = 20
"""The maximum number of differences for which all sign vectors are used."""
_ZERO = 1e-12
"""Numbers below this share of the largest one are rounding errors and count as 0."""


def sign_flip_means(
    differences: FloatArray, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return the smaller and the larger mean of the two sets that each sign vector creates.

    A sign vector splits the differences d into a set P that keeps its signs and a set M that
    changes them. With A and B the sums of d - t over P and M, its statistic at shift t is at least
    as extreme as the observed one if |A - B| >= |A + B|, so if A B <= 0: if t is between the means
    of P and M. A vector with an empty set, such as the identity, counts at every shift, so its
    means are infinite.

    Args:
        differences: shape (n,), zeros included.
        resamples: the number of random vectors; with up to 20 differences, all vectors are used,
            one of each mirrored pair.
        seed: the seed of the random vectors.

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
            signs = np.unpackbits(drawn, axis=1, count=n)
            parts.append((signs @ differences, signs.sum(axis=1, dtype=np.float64)))
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
"""The estimands of tests."""


@dataclass(frozen=True)
class PairedTest:
    """The result of a paired test.

    Attributes:
        test: the name of the test.
        n: the number of defined pairs.
        difference: the mean of x - y over these pairs, NaN if there are no pairs.
        estimate: the mean, or for the Wilcoxon test the Hodges-Lehmann pseudomedian of the
            differences other than 0.
        estimand: ``"mean"`` or ``"pseudomedian"``.
        low: the lower end of the confidence interval of `estimate`.
        high: the upper end.
        p: the two-sided p-value, in [0, 1].
        effect: Cohen's dz: the mean of the differences divided by their standard deviation.
        n_zeros: the number of differences of 0, which the Wilcoxon test ignores.
        note: the reason if `p`, `low`, `high` or `effect` is NaN, otherwise ``""``.
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
    """Test whether x and y differ, two-sided. Pairs with NaN are ignored.

    P-value and interval use the same null distribution, so they agree, except for the Wilcoxon test
    if differences have the same size.

    Args:
        x: values of one system, one per query, shape (n,).
        y: values of the other system, for the same queries in the same order.
        test: ``"t"`` (Student; the mean), ``"randomization"`` (sign flips of all differences, exact
            for up to 20; the mean) or ``"wilcoxon"`` (signed ranks of the differences other than 0:
            exact without ties up to 50, otherwise normal with corrections for ties and continuity,
            as in R's ``wilcox.test``, which is also normal for exactly 50 and with any difference
            of 0). The Wilcoxon test is a test of the pseudomedian,
            which equals the mean only for symmetric differences; as a test of the mean it rejects
            skewed differences too often.
        confidence: the level of the interval, in (0, 1).
        resamples: the number of sign vectors of the randomization test.
        seed: the seed of these vectors. Results do not depend on the order of the pairs.

    Returns:
        The result. Undefined values are NaN, and `PairedTest.note` has the reason. There is no
        p-value for fewer than two pairs, or if all differences are 0. If all differences are equal
        and not 0, only the t-test has no p-value (like R's ``t.test``, which refuses constant
        data). The other two tests count signs, but have no interval and no effect size. With too
        few differences for a bounded interval (fewer than 6 at 95 %), only the interval is NaN.

    Raises:
        InputError: the shapes differ, or a value is infinite or not a number.
        NotFoundError: the test is unknown.
        ParameterError: `confidence` or `resamples` is out of range.

    References:
        Hodges and Lehmann 1963 (pseudomedian); Fisher 1935 and Phipson and Smyth 2010
        (randomization); Hollander and Wolfe 1973, the reference of R's ``wilcox.test`` (corrections
        of the normal approximation: 20 differences of -0.5 have V = 0 and p = 8.554e-06).
    """
    name = checks.known("test", test, TESTS)
    check_drawing(confidence, resamples)
    checks.integer("seed", seed, least=0)
    differences = pair_differences(x, y)
    n, n_zeros = len(differences), int((differences == 0).sum())
    mean = float(differences.mean()) if n else math.nan
    estimand = PSEUDOMEDIAN if name == "wilcoxon" else MEAN
    note = no_test(differences)
    constant = note == SAME_AMOUNT
    if note and not (constant and name != "t"):
        if constant:
            note += "; use the randomization test"
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
    if not constant and math.isnan(low):
        if name == "wilcoxon" and n_zeros:
            few = f"{n - n_zeros} differences other than 0"
        elif name == "randomization" and n > _EXACT:
            few = f"{resamples} resamples"
        else:
            few = f"{n} differences"
        note = f"{few} are too few for a bounded interval at {confidence:.4g}"
    elif high - low <= _ZERO * abs(estimate):
        low = high = math.nan
        note = note or "too many differences are equal for an interval"
    effect = cohens_dz(differences)
    return PairedTest(name, n, mean, estimate, estimand, low, high, p, effect, n_zeros, note)


def _inverted(low: FloatArray, high: FloatArray, alpha: float) -> tuple[float, float]:
    """Return the range of shifts that the randomization test does not reject, NaN if unbounded.

    The lower end is an order statistic of the smaller means, the upper end one of the larger means.
    """
    n = len(low)
    count = _more_than(alpha, n)
    lower = float(np.partition(low, count - 1)[count - 1])
    upper = float(np.partition(high, n - count)[n - count])
    bounded = math.isfinite(lower) and math.isfinite(upper)
    return (lower, upper) if bounded else (math.nan, math.nan)


def _more_than(alpha: float, n: int) -> int:
    """Return the smallest count with count / n > alpha in floating-point arithmetic."""
    count = math.floor(alpha * n)
    while count / n <= alpha:
        count += 1
    while (count - 1) / n > alpha:
        count -= 1
    return count


def cohens_dz(differences: npt.ArrayLike) -> float:
    """Return Cohen's dz: mean over standard deviation of differences (Lakens 2013, equation 7).

    Args:
        differences: shape (n,); NaN is ignored.

    Returns:
        The effect size; NaN for fewer than two differences, or if all are equal.
    """
    values = numbers(differences, "differences", ndim=1)
    values = values[~np.isnan(values)]
    if no_test(values):
        return math.nan
    return float(values.mean() / values.std(ddof=1))


def pair_differences(x: npt.ArrayLike, y: npt.ArrayLike) -> FloatArray:
    """Return x - y of the defined pairs, sorted so that resampling does not depend on the order.

    Differences of 0 up to rounding are 0, and differences that are equal up to rounding are equal.

    Raises:
        InputError: the shapes differ, or a value is infinite or not a number.
    """
    first, second = numbers(x, "x", ndim=1), numbers(y, "y", ndim=1)
    if first.shape != second.shape:
        raise InputError(
            f"x and y must have one value per query, got {len(first)} and {len(second)} values"
        )
    defined = ~(np.isnan(first) | np.isnan(second))
    first, second = first[defined], second[defined]
    differences = first - second
    rounding = _ZERO * np.maximum(np.abs(first), np.abs(second)).max(initial=0.0)
    differences[np.abs(differences) <= rounding] = 0.0
    differences.sort()
    if len(differences) and differences[-1] - differences[0] <= rounding:
        differences[:] = differences[len(differences) // 2]
    return differences


SAME_AMOUNT = "all pairs differ by the same amount"
_SMALLEST = 1e-150
"""Numbers below this have a square of 0 in floating-point arithmetic, so they count as 0."""


def no_test(differences: FloatArray) -> str:
    """Return the reason if the differences have no t-test, otherwise ``""``."""
    if len(differences) == 0:
        return "no pair is defined"
    if len(differences) == 1:
        return "only one pair is defined"
    if not differences.any():
        return "all differences are 0"
    largest = np.abs(differences).max()
    if largest < _SMALLEST:
        return "all differences are 0"
    if np.ptp(differences) <= _ZERO * largest:
        return SAME_AMOUNT
    return ""


def _student(differences: FloatArray) -> float:
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(differences, 0.0).pvalue)


_EXACT_RANKS = 50
"""The maximum number of differences without ties for the exact distribution of signed ranks."""


def _wilcoxon(differences: FloatArray, alpha: float) -> tuple[float, float, float, float]:
    """Return the pseudomedian, the ends of its interval, and the p-value of the signed-rank test.

    The signed-rank sum at shift t is the number of Walsh averages (d_i + d_j) / 2, i <= j, above
    t, so the ends are the Walsh averages at the critical values of the sum.

    Args:
        differences: shape (n,), without zeros.
        alpha: 1 - confidence.
    """
    from scipy.stats import norm, rankdata

    n = len(differences)
    # differences that are equal up to rounding are ties
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
        away = np.minimum(rank_sums + 0.5 - n_walsh / 2, 0.0)  # 0.5: continuity correction
        return np.asarray(2 * norm.cdf(away / math.sqrt(variance)))

    p = float(p_values(np.array([smaller]))[0])
    index, below = np.triu_indices(n)
    walsh = np.sort((differences[index] + differences[below]) / 2)
    estimate = float(np.median(walsh))
    n_rejected = int((p_values(np.arange((n_walsh + 1) // 2, dtype=np.float64)) <= alpha).sum())
    if n_rejected == 0 or 2 * 0.5**n > alpha:  # 2 / 2^n: the smallest exact p-value
        return estimate, math.nan, math.nan, p
    return estimate, float(walsh[n_rejected - 1]), float(walsh[n_walsh - n_rejected]), p


def _signed_rank_law(n: int) -> FloatArray:
    """Return the null distribution of the signed-rank sum, shape (n (n + 1) / 2 + 1,)."""
    law = np.ones(1)
    for rank in range(1, n + 1):
        law = (np.append(law, np.zeros(rank)) + np.append(np.zeros(rank), law)) / 2
    return law


BETTER = ("higher", "lower")


@dataclass(frozen=True)
class MarginTest:
    """The result of a non-inferiority or equivalence test.

    Attributes:
        margin: the margin.
        n: the number of defined pairs.
        difference: the mean of x - y over these pairs, NaN if there are no pairs.
        low: the lower one-sided confidence bound.
        high: the upper one-sided bound. With confidence 0.95, [low, high] is a 90 % interval.
        p: the p-value, in [0, 1].
        note: the reason if `p`, `low` and `high` are NaN, otherwise ``""``.
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
    """Test whether x is less than `margin` worse than y, with a one-sided paired t-test.

    The null hypothesis is that x is worse by `margin` or more.

    Args:
        x: values of one system, one per query, shape (n,).
        y: values of the other system, for the same queries in the same order; pairs with NaN are
            ignored.
        margin: the largest acceptable loss, above 0, chosen before looking at the data.
        better: the better direction, ``"higher"`` or ``"lower"``.
        confidence: the level of `MarginTest.low` and of `MarginTest.high`, in (0, 1).

    Raises:
        ParameterError: `margin` or `confidence` is out of range.
        NotFoundError: the direction is unknown.
        InputError: the shapes differ, or a value is infinite or not a number.
    """
    checks.known("direction `better`", better, BETTER)
    margin_test, (not_below, not_above) = _one_sided(x, y, margin, confidence)
    return _with_p(margin_test, not_below if better == "higher" else not_above)


def equivalence_test(
    x: npt.ArrayLike, y: npt.ArrayLike, margin: float, *, confidence: float = 0.95
) -> MarginTest:
    """Test whether x and y differ by less than `margin`, with two one-sided paired t-tests.

    The null hypothesis is that the absolute mean difference is `margin` or more. It is rejected if
    the interval from `low` to `high` is within the margin.

    Args:
        x: see `non_inferiority_test`.
        y: see `non_inferiority_test`.
        margin: the smallest difference that matters, above 0, chosen before looking at the data.
        confidence: the level of `MarginTest.low` and of `MarginTest.high`, in (0, 1).

    Raises:
        ParameterError: `margin` or `confidence` is out of range.
        InputError: the shapes differ, or a value is infinite or not a number.

    References:
        Schuirmann 1987.
    """
    margin_test, sides = _one_sided(x, y, margin, confidence)
    return _with_p(margin_test, max(sides))


def check_margin(margin: object, where: str = "margin") -> float:
    """Return a margin.

    Raises:
        ParameterError: the margin is not a finite number above 0.
    """
    return checks.number(where, margin, ends="(]")


def _one_sided(
    x: npt.ArrayLike, y: npt.ArrayLike, margin: float, confidence: float
) -> tuple[MarginTest, tuple[float, float]]:
    """Return the result without p-value, and the p-values of the lower and the upper margin."""
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
    """Correct the p-values of a family of tests for multiple testing.

    Args:
        p: the p-values, shape (n,). NaN (no test) stays NaN and does not count.
        method: ``"holm"`` (Holm 1979) and ``"bonferroni"`` control the family-wise error rate;
            ``"fdr_bh"`` (Benjamini and Hochberg 1995) controls the false discovery rate of tests
            that are independent or positively dependent; ``"none"`` or `None` for no correction.

    Returns:
        The corrected p-values in [0, 1], shape (n,).

    Raises:
        NotFoundError: the method is unknown.
        InputError: a p-value is not in [0, 1].
    """
    name = checks.known("correction method", "none" if method is None else method, CORRECTIONS)
    family = numbers(p, "p-values", ndim=1)
    defined = ~np.isnan(family)
    p_values = family[defined]
    outside = (p_values < 0) | (p_values > 1)
    if outside.any():
        raise InputError(f"p-values must be in [0, 1], got {p_values[outside][0]}")
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
    out[defined] = np.minimum(p_values, 1.0)
    return out
