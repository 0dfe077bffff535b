"""The multinomial distribution function, and which of its values are significant.

Each of a number of documents belongs to group g with probability p_g, and to none with what is
left; P(X_1 <= m_1, ..., X_G <= m_G) leaves that rest unbounded. Counts are taken as Poisson
variables with means trials * p_g, given that they and the rest sum to the number of documents
(Levin, A representation for multinomial cumulative distribution functions, Annals of Statistics
1981): one coefficient of a product of truncated polynomials, exact but for rounding and without
subtractions. A ranking is rejected if the least value over its prefixes is at most a significance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairtk.frames import FloatArray, IntArray

ADJUST = ("nearest", "below", "none")  # the corrections for testing every prefix
ROUNDING = 1e-12  # values of a distribution function that agree to this share are one value


def multinomial_cdf(counts: IntArray, trials: int, p: FloatArray) -> FloatArray:
    """Return P(X_1 <= m_1, ..., X_G <= m_G), with probabilities of its own for each vector; (n,).

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
    """Return what `multinomial_cdf` does where all vectors have the same p; shape (n_groups,).

    Groups are halved again and again, and the polynomial of each distinct part is made once: much
    faster for thousands of vectors.
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
    """Return the product of each pair of polynomials that occurs, and which one each vector has."""
    place = first * len(two) + second
    if len(one) * len(two) <= len(place):  # to make all is quicker than to look for the distinct
        pair = np.arange(len(one) * len(two))
    else:
        pair, place = np.unique(place, return_inverse=True)
    left, right = one[pair // len(two)], two[pair % len(two)]
    if left.shape[1] < right.shape[1]:
        left, right = right, left
    size = min(left.shape[1] + right.shape[1] - 1, trials + 1)
    return _product(np.pad(left, ((0, 0), (0, size - left.shape[1]))), right), place


def _product(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the products of polynomials, row by row, to the degree of `one`."""
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

    The last index of each axis of `cdf` stands for no bound. A count above that is kept as the
    last: more documents of the group occur in a fair ranking with a probability below 1e-12.
    """

    p: tuple[float, ...]  # share of each group
    cdf: FloatArray  # P(X_1 <= m_1, ..., X_G <= m_G); shape (k, size_1, ..., size_G)

    @classmethod
    def fits(cls, k: int, p: Sequence[float], most: int) -> bool:
        """Return whether the boxes have at most so many cells."""
        return k * math.prod(_sizes(k, p)) <= most

    @classmethod
    def of(cls, k: int, p: Sequence[float]) -> CountBoxes:
        """Return the boxes of a number of prefixes."""
        sizes = _sizes(k, p)
        cdf = np.empty((k, *sizes))
        before = np.ones(sizes)
        for prefix in range(k):
            before = _next(before, p, gathers=False)
            cdf[prefix] = before
        return cls(tuple(p), cdf)

    def values(self) -> FloatArray:
        """Return the values of the distribution function at counts that a prefix can have."""
        k, *sizes = self.cdf.shape
        length = np.arange(1, k + 1).reshape(-1, *[1] * len(sizes))
        return np.asarray(self.cdf[np.indices(sizes).sum(axis=0) <= length])

    def fail_probability(self, limit: float) -> float:
        """Return how likely a fair ranking has a prefix whose value is at most `limit`."""
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
    """Return what one more document makes of a function of the counts.

    The last index of an axis `gathers` all higher counts, or stands for no bound.
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
    """A significance for the single tests: the `limit`, between two values where the test changes.

    It rejects the first `step` of these values and no others, so that rounding does not decide.
    """

    steps: FloatArray  # up to the alpha asked for, increasing
    step: int
    limit: float
    fail_probability: float  # of a fair ranking, with this limit

    @classmethod
    def of(
        cls, values: FloatArray, alpha: float, adjust: str, fails: Callable[[float], float]
    ) -> Correction:
        """Return the correction for which the fail probability suits alpha.

        `values` are those of the distribution function where the test may change; `fails` is the
        fail probability at a significance. Of two that are equally near, the lower is taken.
        """
        steps = _distinct(values[values <= alpha * (1 + ROUNDING)])
        step, limit = len(steps), _between(steps, len(steps))
        if adjust != "none":
            step = _step_for(lambda s: fails(_between(steps, s)), len(steps), alpha, adjust)
            limit = _between(steps, step)
        return cls(steps, step, limit, fails(limit))

    @property
    def is_none(self) -> bool:
        """Whether alpha itself is the significance."""
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
    low, high = 0, last + 1  # fails(low) <= alpha < fails(high), where that exists
    below, above = 0.0, math.inf
    while high - low > 1:
        middle = (low + high) // 2
        value = fails(middle)
        if value <= alpha:
            low, below = middle, value
        else:
            high, above = middle, value
    return high if adjust == "nearest" and above - alpha < alpha - below else low
