"""The multinomial distribution function, for many vectors of counts at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def multinomial_cdf(counts: IntArray, trials: int, p: FloatArray) -> FloatArray:
    """Return P(X_1 <= m_1, ..., X_G <= m_G) for X of a multinomial distribution.

    Each of `trials` documents belongs to group g with probability p_g, and to none with what is
    left; that rest is not bounded. The counts are taken as Poisson variables with means
    trials * p_g, given that they and the rest sum to `trials` (Levin, A representation for
    multinomial cumulative distribution functions, Annals of Statistics 1981): a product of
    truncated polynomials, exact but for rounding and without subtractions.

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
    rest = np.clip(1.0 - share.sum(axis=1), 0.0, 1.0)
    mass = _poisson(trials * rest, trials)
    for group in range(groups):
        bound = np.minimum(counts[:, group], trials)
        most = int(bound.max())
        chance = _poisson(trials * share[:, group], most)
        chance[np.arange(most + 1) > bound[:, None]] = 0.0
        total = mass * chance[:, :1]
        for count in range(1, most + 1):
            total[:, count:] += mass[:, : trials + 1 - count] * chance[:, count : count + 1]
        mass = total
    every = _poisson(np.array([float(trials)]), trials)[0, trials]
    result: FloatArray = np.minimum(mass[:, trials] / every, 1.0)
    return result


def _poisson(mean: FloatArray, most: int) -> FloatArray:
    """Return the probabilities of 0, 1, ..., `most` for each mean; shape (n, most + 1)."""
    from scipy.special import gammaln, xlogy

    number = np.arange(most + 1)
    logs = xlogy(number, mean[:, None]) - mean[:, None] - gammaln(number + 1.0)
    result: FloatArray = np.exp(logs)
    return result
