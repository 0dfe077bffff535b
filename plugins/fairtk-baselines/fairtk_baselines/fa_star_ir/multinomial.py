"""The multinomial distribution function, for many vectors of counts at once.

Each of a number of documents belongs to group g with probability p_g, and to none with what is
left; P(X_1 <= m_1, ..., X_G <= m_G) leaves that rest unbounded. Counts are taken as Poisson
variables with means trials * p_g, given that they and the rest sum to the number of documents
(Levin, A representation for multinomial cumulative distribution functions, Annals of Statistics
1981): one coefficient of a product of truncated polynomials, exact but for rounding and without
subtractions.
"""

from __future__ import annotations

import numpy as np

from fairtk.frames import FloatArray, IntArray


def multinomial_cdf(counts: IntArray, trials: int, p: FloatArray) -> FloatArray:
    """Return P(X_1 <= m_1, ..., X_G <= m_G), with probabilities of its own for each vector.

    Args:
        counts: the bounds m, 0 or above; shape (n, n_groups).
        trials: number of documents, 0 or above.
        p: probabilities, at most 1 in sum; shape (n, n_groups) or (n_groups,).

    Returns:
        Probabilities; shape (n,).
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
    """Return what `multinomial_cdf` does where all vectors have the same probabilities.

    Vectors have parts in common: groups are halved again and again, and the polynomial of each
    distinct part is made once. That is much faster for thousands of vectors.

    Args:
        counts: as for `multinomial_cdf`.
        trials: as for `multinomial_cdf`.
        p: probabilities, at most 1 in sum; shape (n_groups,).

    Returns:
        Probabilities; shape (n,).
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
    result: FloatArray = np.minimum(chance / every, 1.0)
    return result


def _rest(share: FloatArray) -> FloatArray:
    result: FloatArray = np.clip(1.0 - share.sum(axis=1), 0.0, 1.0)
    return result


def _poisson(mean: FloatArray, most: int) -> FloatArray:
    """Return the probabilities of 0, 1, ..., `most` for each mean; shape (n, most + 1)."""
    from scipy.special import gammaln, xlogy

    number = np.arange(most + 1)
    logs = xlogy(number, mean[:, None]) - mean[:, None] - gammaln(number + 1.0)
    result: FloatArray = np.exp(logs)
    return result
