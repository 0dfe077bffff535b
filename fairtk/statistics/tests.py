"""Paired tests of two systems over queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk.statistics.arrays import ZERO, check_drawing, numbers
from fairtk.statistics.bootstrap import batches
from fairtk.statistics.clusters import cluster_codes, error_of_mean, sum_by_cluster
from fairtk.statistics.intervals import mean_intervals

_EXACT = 20
"""The maximum number of differences for which all sign vectors are used."""


def sign_flip_means(
    differences: FloatArray, resamples: int, seed: int, codes: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the smaller and the larger mean of the two sets that each sign vector creates.

    A sign vector splits the differences d into a set P that keeps its signs and a set M that
    changes them. With A and B the sums of d - t over P and M, its statistic at shift t is at least
    as extreme as the observed one if |A - B| >= |A + B|, so if A B <= 0: if t is between the means
    of P and M. A vector with an empty set, such as the identity, counts at every shift, so its
    means are infinite. The differences of a cluster have the same sign.

    Args:
        differences: shape (n,), zeros included.
        resamples: the number of random vectors; with up to 20 differences or clusters, all vectors
            are used, one of each mirrored pair.
        seed: the seed of the random vectors.
        codes: the cluster of each difference; `None` for clusters of one.

    Returns:
        Two arrays of shape (vectors,); the first vector is the identity.
    """
    n, total = len(differences), float(differences.sum())
    # the sum and the size of each cluster
    values, weights = differences, np.ones(n)
    if codes is not None:
        table = sum_by_cluster(np.stack([values, weights]), codes)
        values, weights = table[:, np.lexsort(table[::-1])]
    n_signs = len(values)
    if n_signs <= _EXACT:
        sums, sizes = values[:1], weights[:1]
        for value, weight in zip(values[1:], weights[1:], strict=True):
            sums = np.concatenate([sums + value, sums])
            sizes = np.concatenate([sizes + weight, sizes])
    else:
        generator = np.random.default_rng(seed)
        parts: list[tuple[FloatArray, FloatArray]] = [(np.array([total]), np.array([float(n)]))]
        for size in batches(resamples, n_signs):
            drawn = generator.integers(0, 256, (size, -(-n_signs // 8)), dtype=np.uint8)
            signs = np.unpackbits(drawn, axis=1, count=n_signs)
            parts.append((signs @ values, signs @ weights))
        sums, sizes = (np.concatenate(part) for part in zip(*parts, strict=True))
    split = (sizes > 0) & (sizes < n)
    kept_mean = sums / np.where(split, sizes, 1.0)
    changed_mean = (total - sums) / np.where(split, n - sizes, 1.0)
    low, high = np.minimum(kept_mean, changed_mean), np.maximum(kept_mean, changed_mean)
    rounding = ZERO * float(np.abs(differences).max())
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
    clusters: npt.ArrayLike | None = None,
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
        clusters: the cluster of each query, shape (n,): the queries of a cluster are not
            independent, such as the questions of one user. The t-test has the degrees of freedom of
            the clusters, and the randomization test flips the signs of whole clusters. The Wilcoxon
            test is refused. `None` if all queries are independent.

    Returns:
        The result. Undefined values are NaN, and `PairedTest.note` has the reason. There is no
        p-value for fewer than two pairs, or if all differences are 0. If all differences are equal
        and not 0, only the t-test has no p-value (like R's ``t.test``, which refuses constant
        data). The other two tests count signs, but have no interval and no effect size. With too
        few differences for a bounded interval (fewer than 6 at 95 %), only the interval is NaN.

    Raises:
        InputError: the shapes differ, a value is not a finite number, or `clusters` is invalid.
        NotFoundError: the test is unknown.
        ParameterError: `confidence` or `resamples` is out of range, or the Wilcoxon test has
            clusters.

    References:
        Hodges and Lehmann 1963 (pseudomedian); Fisher 1935 and Phipson and Smyth 2010
        (randomization); Hollander and Wolfe 1973, the reference of R's ``wilcox.test`` (corrections
        of the normal approximation: 20 differences of -0.5 have V = 0 and p = 8.554e-06); Miller
        2024, arXiv 2411.00640 (clusters).
    """
    name = checks.known("test", test, TESTS)
    check_drawing(confidence, resamples)
    checks.integer("seed", seed, least=0)
    if name == "wilcoxon" and clusters is not None:
        raise ParameterError(
            "test 'wilcoxon' is not supported with clusters; use 't' or 'randomization'"
        )
    differences, codes = pair_differences(x, y, clusters)
    n, n_zeros = len(differences), int((differences == 0).sum())
    mean = float(differences.mean()) if n else math.nan
    estimand = PSEUDOMEDIAN if name == "wilcoxon" else MEAN
    note = no_test(differences, codes)
    constant = note in (SAME_AMOUNT, SAME_MEANS)
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
        p = _student(differences, codes)
        lows, highs = mean_intervals(differences[None], confidence=confidence, clusters=codes)
        low, high = float(lows[0]), float(highs[0])
    elif name == "wilcoxon":
        estimate, low, high, p = _wilcoxon(differences[differences != 0], 1 - confidence)
    else:
        ends = sign_flip_means(differences, resamples, seed, codes)
        p = float(((ends[0] <= 0) & (ends[1] >= 0)).mean())
        low, high = _inverted(*ends, 1 - confidence)
    if not constant and math.isnan(low):
        if name == "wilcoxon" and n_zeros:
            few = f"{n - n_zeros} differences other than 0"
        elif name == "randomization" and (n if codes is None else codes.max() + 1) > _EXACT:
            few = f"{resamples} resamples"
        else:
            few = f"{n} differences" if codes is None else f"{codes.max() + 1} clusters"
        note = f"{few} are too few for a bounded interval at {confidence:.4g}"
    elif high - low <= ZERO * abs(estimate):
        low = high = math.nan
        of_clusters = "" if codes is None else " of clusters"
        note = note or f"too many differences{of_clusters} are equal for an interval"
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


def pair_differences(
    x: npt.ArrayLike, y: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> tuple[FloatArray, IntArray | None]:
    """Return x - y of the defined pairs, sorted so that resampling does not depend on the order.

    Differences of 0 up to rounding are 0, and differences that are equal up to rounding are equal.
    The clusters of these pairs are returned as integers from 0, `None` without clusters.

    Raises:
        InputError: the shapes differ, a value is not a finite number, or `clusters` is invalid.
    """
    first, second = numbers(x, "x", ndim=1), numbers(y, "y", ndim=1)
    if first.shape != second.shape:
        raise InputError(
            f"x and y must have one value per query, got {len(first)} and {len(second)} values"
        )
    codes = None if clusters is None else cluster_codes(clusters, len(first))
    defined = ~(np.isnan(first) | np.isnan(second))
    first, second = first[defined], second[defined]
    differences, rounding = rounded_differences(first, second)
    if codes is not None:
        order = np.argsort(differences, kind="stable")
        codes = np.unique(codes[defined][order], return_inverse=True)[1]
    differences.sort()
    if len(differences) and differences[-1] - differences[0] <= rounding:
        differences[:] = differences[len(differences) // 2]
    return differences, codes


def rounded_differences(x: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
    """Return x - y, where differences of 0 up to rounding are 0, and the size of the rounding."""
    differences = x - y
    rounding = ZERO * float(np.fmax(np.abs(x), np.abs(y)).max(initial=0.0, where=~np.isnan(x + y)))
    differences[np.abs(differences) <= rounding] = 0.0
    return differences, rounding


SAME_AMOUNT = "all pairs differ by the same amount"

SAME_MEANS = "the mean differences of all clusters are equal"

_SMALLEST = 1e-150
"""Numbers below this have a square of 0 in floating-point arithmetic, so they count as 0."""


def no_test(differences: FloatArray, codes: IntArray | None = None) -> str:
    """Return the reason if the differences have no t-test, otherwise ``""``."""
    if len(differences) == 0:
        return "no pair is defined"
    if len(differences) == 1:
        return "only one pair is defined"
    if codes is not None and not codes.any():
        return "all defined pairs are in one cluster"
    if not differences.any():
        return "all differences are 0"
    largest = np.abs(differences).max()
    if largest < _SMALLEST:
        return "all differences are 0"
    if np.ptp(differences) <= ZERO * largest:
        return SAME_AMOUNT
    if codes is not None:
        sums = np.bincount(codes, differences - differences.mean())
        if math.sqrt(float((sums**2).sum())) <= ZERO * largest:
            return SAME_MEANS
    return ""


def _student(differences: FloatArray, codes: IntArray | None) -> float:
    from scipy.stats import t, ttest_1samp

    if codes is None:
        return float(ttest_1samp(differences, 0.0).pvalue)
    error, degrees = error_of_mean(differences, codes)
    return float(2 * t.sf(abs(differences.mean()) / error, degrees))


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
