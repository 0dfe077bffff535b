"""The statistical tests of FA*IR, for one or several protected groups.

A ranking of k documents is compared with a random ranking in which each document is of group g with
probability p_g, independently (Zehlike et al., FA*IR: A Fair Top-k Ranking Algorithm, CIKM 2017;
several groups: IPM 2022). A prefix with m_1, ..., m_G documents of the groups is fair if
P(X_1 <= m_1, ..., X_G <= m_G) > alpha. Because k such tests reject a fair ranking more often than
one test, alpha is lowered until the probability that any test rejects is alpha again.

The multinomial distribution function is computed from Poisson variables with means trials * p_g,
given that they and the documents of no group sum to the number of documents (Levin, A
representation for multinomial cumulative distribution functions, Annals of Statistics 1981): one
coefficient of a product of truncated polynomials, which is exact up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import FloatArray, IntArray

ADJUST = ("nearest", "below", "none")  # the corrections for testing every prefix
ROUNDING = 1e-12  # values of a distribution function within this relative distance are equal


def multinomial_cdf(counts: IntArray, trials: int, p: FloatArray) -> FloatArray:
    """Return P(X_1 <= m_1, ..., X_G <= m_G) for each vector of counts; shape (n,).

    `counts` are the bounds m, shape (n, n_groups); `p` has the same shape, or (n_groups,).
    """
    n, groups = counts.shape
    share = np.broadcast_to(p, (n, groups))
    if not n:
        return np.zeros(0)
    mass = _poisson(trials * _rest(share), trials)
    for group in range(groups):
        bound = np.minimum(counts[:, group], trials)
        most = int(bound.max())
        chance = _poisson(trials * share[:, group], most)
        chance[np.arange(most + 1) > bound[:, None]] = 0.0
        mass = _product(mass, chance)
    return _given_sum(mass[:, trials], trials)


def shared_cdf(counts: IntArray, trials: int, p: FloatArray) -> FloatArray:
    """Return `multinomial_cdf` for vectors with the same p, shape (n_groups,).

    Groups are halved recursively, and the polynomial of each distinct part is computed once, which
    is much faster for thousands of vectors.
    """
    bound = np.minimum(counts, trials)
    parts = [(_poisson(trials * _rest(p[None]), trials), np.zeros(len(bound), dtype=np.int64))]
    for group, share in enumerate(p):
        size = int(bound[:, group].max(initial=0)) + 1
        chance = _poisson(np.array([trials * share]), size - 1)
        parts.append((np.tril(np.repeat(chance, size, axis=0)), bound[:, group]))
    while len(parts) > 2:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        joined = [_joined(*left, *right, trials) for left, right in pairs]
        parts = joined + parts[2 * len(joined) :]
    (one, first), (two, second) = parts
    size = min(two.shape[1], trials + 1)
    opposite = one[:, trials + 1 - size : trials + 1][:, ::-1]
    return _given_sum(np.einsum("ij,ij->i", opposite[first], two[second, :size]), trials)


def _joined(
    one: FloatArray, first: IntArray, two: FloatArray, second: IntArray, trials: int
) -> tuple[FloatArray, IntArray]:
    """Return the product of each distinct pair of polynomials, and its index for each vector."""
    place = first * len(two) + second
    if len(one) * len(two) <= len(place):  # computing all is faster than finding the distinct
        pair = np.arange(len(one) * len(two))
    else:
        pair, place = np.unique(place, return_inverse=True)
    left, right = one[pair // len(two)], two[pair % len(two)]
    if left.shape[1] < right.shape[1]:
        left, right = right, left
    size = min(left.shape[1] + right.shape[1] - 1, trials + 1)
    return _product(np.pad(left, ((0, 0), (0, size - left.shape[1]))), right), place


def _product(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the products of polynomials, row by row, truncated to the degree of `one`."""
    total: FloatArray = one * two[:, :1]
    size = one.shape[1]
    for power in range(1, min(two.shape[1], size)):
        total[:, power:] += one[:, : size - power] * two[:, power : power + 1]
    return total


def _given_sum(chance: FloatArray, trials: int) -> FloatArray:
    every = _poisson(np.array([float(trials)]), trials)[0, trials]
    return np.asarray(np.minimum(chance / every, 1.0))


def _rest(share: FloatArray) -> FloatArray:
    return np.asarray(np.clip(1.0 - share.sum(axis=1), 0.0, 1.0))


def _poisson(mean: FloatArray, most: int) -> FloatArray:
    """Return the probabilities of 0, 1, ..., `most` for each mean; shape (n, most + 1)."""
    from scipy.special import gammaln, xlogy

    number = np.arange(most + 1)
    return np.asarray(np.exp(xlogy(number, mean[:, None]) - mean[:, None] - gammaln(number + 1.0)))


@dataclass(frozen=True)
class CountBoxes:
    """The distribution function of each prefix at every vector of counts.

    The last index of each axis of `cdf` means no bound, and also represents larger counts, whose
    probability in a fair ranking is below 1e-12.
    """

    p: tuple[float, ...]  # share of each group
    cdf: FloatArray  # P(X_1 <= m_1, ..., X_G <= m_G); shape (k, size_1, ..., size_G)

    @classmethod
    def fits(cls, k: int, p: Sequence[float], most: int) -> bool:
        """Return whether the boxes have at most `most` cells."""
        return k * math.prod(_sizes(k, p)) <= most

    @classmethod
    def of(cls, k: int, p: Sequence[float]) -> CountBoxes:
        """Return the boxes of k prefixes."""
        sizes = _sizes(k, p)
        cdf = np.empty((k, *sizes))
        before = np.ones(sizes)
        for prefix in range(k):
            before = _next(before, p, gathers=False)
            cdf[prefix] = before
        return cls(tuple(p), cdf)

    def values(self) -> FloatArray:
        """Return the values of the distribution function at possible counts."""
        k, *sizes = self.cdf.shape
        length = np.arange(1, k + 1).reshape(-1, *[1] * len(sizes))
        return np.asarray(self.cdf[np.indices(sizes).sum(axis=0) <= length])

    def fail_probability(self, limit: float) -> float:
        """Return the probability that a prefix of a fair ranking has a value of at most `limit`."""
        mass = np.zeros(self.cdf.shape[1:])
        mass.flat[0] = 1.0
        failed = 0.0
        for prefix in self.cdf:
            mass = _next(mass, self.p, gathers=True)
            rejected = prefix <= limit
            failed += float(mass[rejected].sum())
            mass[rejected] = 0.0
        return min(failed, 1.0)


def _sizes(k: int, p: Sequence[float]) -> list[int]:
    from scipy.stats import binom

    return [min(k, int(binom.isf(ROUNDING, k, share)) + 1) + 1 if share else 2 for share in p]


def _next(before: FloatArray, p: Sequence[float], gathers: bool) -> FloatArray:
    """Return a function of the counts after one more document.

    The last index of an axis `gathers` all higher counts, or means no bound.
    """
    result = before * max(0.0, 1.0 - math.fsum(p))
    for axis, share in enumerate(p):
        into, out = np.moveaxis(result, axis, 0), np.moveaxis(before, axis, 0)
        last = len(out) - 1
        into[1 : last + gathers] += share * out[: last - 1 + gathers]
        into[last] += share * out[last]
    return result


@dataclass(frozen=True)
class Correction:
    """A significance for the single tests, the `limit`.

    It rejects the first `step` of the values in `steps` and no others. It is between two values, so
    that the result does not depend on rounding.
    """

    steps: FloatArray  # distinct values up to the given alpha, increasing
    step: int
    limit: float
    fail_probability: float  # of a fair ranking, with this limit

    @classmethod
    def of(
        cls, values: FloatArray, alpha: float, adjust: str, fails: Callable[[float], float]
    ) -> Correction:
        """Return the correction whose fail probability fits alpha best.

        Args:
            values: the values of the distribution function at which the test may change.
            alpha: see `mtable`.
            adjust: see `mtable`; for two that are equally near, the lower one is taken.
            fails: returns the fail probability at a significance.
        """
        steps = _distinct(values[values <= alpha * (1 + ROUNDING)])
        step, limit = len(steps), _between(steps, len(steps))
        if adjust != "none":
            step = _step_for(lambda s: fails(_between(steps, s)), len(steps), alpha, adjust)
            limit = _between(steps, step)
        return cls(steps, step, limit, fails(limit))

    @property
    def is_none(self) -> bool:
        """Whether the significance is alpha itself."""
        return self.step == len(self.steps)


def _distinct(values: FloatArray) -> FloatArray:
    ordered: FloatArray = np.unique(values)
    apart = np.append(True, ordered[1:] > ordered[:-1] * (1 + ROUNDING))[: len(ordered)]
    return np.asarray(ordered[apart])


def _between(steps: FloatArray, step: int) -> float:
    """Return a significance at which the first `step` values, and no others, are rejected."""
    if not step:
        return 0.0
    low = float(steps[step - 1])
    return (low + float(steps[step])) / 2 if step < len(steps) else low * (1 + 10 * ROUNDING)


def _step_for(fails: Callable[[int], float], last: int, alpha: float, adjust: str) -> int:
    low, high = 0, last + 1  # fails(low) <= alpha < fails(high), if that exists
    below, above = 0.0, math.inf
    while high - low > 1:
        middle = (low + high) // 2
        value = fails(middle)
        if value <= alpha:
            low, below = middle, value
        else:
            high, above = middle, value
    return high if adjust == "nearest" and above - alpha < alpha - below else low


@dataclass(frozen=True)
class MTable:
    """The minimum number of protected documents in each prefix.

    Attributes:
        k: the length of the longest prefix.
        p: the minimum share of protected documents.
        alpha: the requested probability of rejecting a random ranking with share p.
        adjust: the correction; see `mtable`.
        needed: the minimum number of protected documents in the prefixes of 1, 2, ..., k documents.
        adjusted_alpha: the significance of each single test.
        interval: low and high; all significances in [low, high) give this table.
        fail_probability: the probability that at least one test rejects a ranking in which each
            document is protected with probability p; exact up to rounding.
    """

    k: int
    p: float
    alpha: float
    adjust: str
    needed: tuple[int, ...]
    adjusted_alpha: float
    interval: tuple[float, float]
    fail_probability: float


def mtable(k: int, p: float, alpha: float = 0.1, adjust: str = "nearest") -> MTable:
    """Return the m-table of FA*IR (Zehlike et al., CIKM 2017).

    ``needed[i - 1]`` is the smallest m with F(m; i, p) > alpha. The authors' package has >= instead
    of >, which differs only if F equals alpha. The correction is exact, because it considers all
    values at which the table changes. `MTable.adjusted_alpha` is the first significance with this
    table in a bisection of [0, alpha], as in the package.

    Args:
        k: the length of the longest prefix, at least 1; cost grows with k squared.
        p: the minimum share of protected documents, in [0, 1].
        alpha: the probability of rejecting a random ranking with share p, in (0, 1).
        adjust: the correction for k tests: ``"nearest"`` for the table whose fail probability is
            nearest to alpha, above or below, as in the authors' package; ``"below"`` for the
            highest fail probability of at most alpha; ``"none"`` to use alpha for each single test.
            No correction raises the significance above alpha.

    Raises:
        ParameterError: an argument is out of its range.
    """
    where = "mtable"
    return _mtable(
        checks.integer("k", k, where),
        checks.share("p", p, where),
        checks.number("alpha", alpha, where, 0, 1, "()"),
        checks.choice("adjust", adjust, ADJUST, where),
    )


@lru_cache(maxsize=4096)
def _mtable(k: int, p: float, alpha: float, adjust: str) -> MTable:
    boxes = CountBoxes.of(k, [p])
    chance, values = boxes.cdf, boxes.values()

    def needed(limit: float) -> IntArray:
        return np.asarray(np.count_nonzero(chance <= limit, axis=1))

    correction = Correction.of(values, alpha, adjust, lambda limit: _failing(needed(limit), p))
    low = float(correction.steps[correction.step - 1]) if correction.step else 0.0
    rest = values[values > alpha * (1 + ROUNDING)]
    high = float(rest.min(initial=1.0) if correction.is_none else correction.steps[correction.step])
    adjusted = alpha if correction.is_none else _first_midpoint(low, high, alpha)
    return MTable(
        k,
        p,
        alpha,
        adjust,
        tuple(needed(correction.limit).tolist()),
        adjusted,
        (min(low, adjusted), high),  # because of rounding, e.g. 1 - 0.7 > 0.3
        correction.fail_probability,
    )


def fail_probability(needed: Sequence[int] | MTable, p: float) -> float:
    """Return the exact probability that an m-table rejects a fair ranking.

    The distribution of the number of protected documents is computed prefix by prefix, without
    simulation, and agrees with the paper's recurrence over blocks. The numbers of the authors'
    package differ, because its code leaves out the last position: for k = 20, p = 0.25 and alpha =
    0.1 it gives 0.1152 before and 0.1053 after the correction; the exact values are 0.14689 and
    0.10515.

    Args:
        needed: an `MTable`, or the minimum number of protected documents in the prefixes of 1, 2,
            ... documents.
        p: the probability that each document is protected, independently; in [0, 1].

    Raises:
        ParameterError: the table is empty or has an entry that is not an integer of at least 0, or
            p is out of range.
    """
    where = "fail_probability"
    entries = needed.needed if isinstance(needed, MTable) else list(needed)
    if not len(entries):
        raise ParameterError(f"{where}: the m-table must have at least one entry")
    table = [checks.integer("an entry of the m-table", m, where, least=0) for m in entries]
    return _failing(np.array(table, dtype=np.int64), checks.share("p", p, where))


def _failing(needed: IntArray, p: float) -> float:
    most = np.maximum.accumulate(needed)
    # counts that are enough for the last prefix share one state, because they cannot fail
    mass = np.zeros(int(most[-1]) + 1)
    mass[0] = 1.0
    failed = 0.0
    for least in most:
        hit, safe = mass * p, mass[-1]
        mass *= 1 - p
        mass[1:] += hit[:-1]
        mass[-1] += p * safe
        failed += float(mass[:least].sum())  # exact even for rare failures
        mass[:least] = 0.0
    return min(failed, 1.0)


def _first_midpoint(low: float, high: float, alpha: float) -> float:
    """Return the first midpoint in [low, high) of a bisection of [0, alpha]."""
    left, right = 0.0, alpha
    for _ in range(60):
        middle = (left + right) / 2
        if low <= middle < high:
            return middle
        left, right = (middle, right) if middle < low else (left, middle)
    return (low + high) / 2


MOST_COUNTS = 1_000_000  # vectors over all prefixes for which the fail probability is exact


@dataclass(frozen=True)
class MultinomialTest:
    """A test of all prefixes for several protected groups.

    Attributes:
        k: the length of the longest prefix.
        p: the minimum share of each protected group.
        alpha: the requested probability of rejecting a random ranking with shares p.
        adjust: the correction; see `multinomial_test`.
        adjusted_alpha: a prefix with m_1, ..., m_G documents of the groups is fair if
            P(X_1 <= m_1, ..., X_G <= m_G) is above this value.
        fail_probability: the probability that a fair ranking is rejected at any prefix.
        error: the standard error of `fail_probability`; 0 if it is exact.
    """

    k: int
    p: tuple[float, ...]
    alpha: float
    adjust: str
    adjusted_alpha: float
    fail_probability: float
    error: float

    @property
    def limit(self) -> float:
        """`adjusted_alpha`, raised by the rounding error of values that equal it."""
        return self.adjusted_alpha * (1 + 1e-11)


def multinomial_test(
    k: int,
    p: Sequence[float],
    alpha: float = 0.1,
    adjust: str = "nearest",
    samples: int = 10_000,
    seed: int = 42,
) -> MultinomialTest:
    """Return the test of multinomial FA*IR (Zehlike et al., IPM 2022).

    A prefix is fair if the distribution function of the multinomial distribution at its counts is
    above the significance; with one group, the results are those of `mtable`. The significance is a
    quantile of the lowest such value in a random ranking. Its distribution is exact up to
    `MOST_COUNTS` vectors of counts (at k = 20, about three groups of common sizes), otherwise
    sampled. The authors simulate, and compare counts with one path of a tree instead of the
    distribution function itself.

    Args:
        k: the length of the longest prefix, at least 1.
        p: the minimum share of each protected group; their sum is at most 1.
        alpha: the probability of rejecting a random ranking with shares p, in (0, 1).
        adjust: ``"nearest"``, ``"below"`` or ``"none"``; see `mtable`.
        samples: the number of sampled rankings if the exact distribution is too large, at least
            100.
        seed: the seed of the samples.

    Raises:
        ParameterError: an argument is out of its range.
    """
    where = "multinomial_test"
    shares = tuple(checks.share("p", share, where) for share in p)
    if not shares or math.fsum(shares) > 1 + 1e-9:
        raise ParameterError(
            f"{where}: p must be the shares of at least one group, at most 1 in sum, got {p!r}"
        )
    return _multinomial_test(
        checks.integer("k", k, where),
        shares,
        checks.number("alpha", alpha, where, 0, 1, "()"),
        checks.choice("adjust", adjust, ADJUST, where),
        checks.integer("samples", samples, where, least=100),
        checks.integer("seed", seed, where, least=0),
    )


@lru_cache(maxsize=4096)
def _multinomial_test(
    k: int, p: tuple[float, ...], alpha: float, adjust: str, samples: int, seed: int
) -> MultinomialTest:
    exact = CountBoxes.fits(k, p, MOST_COUNTS)
    if exact:
        boxes = CountBoxes.of(k, p)
        correction = Correction.of(boxes.values(), alpha, adjust, boxes.fail_probability)
    else:
        lowest = lowest_of_samples(k, np.array(p), samples, seed)
        correction = Correction.of(lowest, alpha, adjust, lambda v: float((lowest <= v).mean()))
    failed = correction.fail_probability
    error = 0.0 if exact else math.sqrt(failed * (1 - failed) / samples)
    adjusted = alpha if correction.is_none else correction.limit
    return MultinomialTest(k, p, alpha, adjust, adjusted, failed, error)


def lowest_of_samples(k: int, p: FloatArray, samples: int, seed: int) -> FloatArray:
    """Return the lowest value of the distribution function in random rankings; (samples,)."""
    draw = np.random.default_rng(seed).random((k, samples))
    # n_groups means that the document is in no group
    group = np.searchsorted(np.cumsum(p), draw, side="right")
    counts = np.zeros((samples, len(p) + 1), dtype=np.int64)
    lowest = np.ones(samples)
    for length in range(1, k + 1):
        counts[np.arange(samples), group[length - 1]] += 1
        np.minimum(lowest, shared_cdf(counts[:, :-1], length, p), out=lowest)
    return lowest
