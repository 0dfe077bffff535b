"""How likely rankings are under Plackett-Luce policies: exact, in closed form."""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray

_DEEPEST = 700.0
"""exp(-x) of larger numbers is too coarse (subnormal, 0)."""


def log_step_probabilities(log_weight: FloatArray, rankings: IntArray) -> FloatArray:
    """Return the log-probability of each step of rankings of one query under many policies.

    The probability of the top of a ranking is a product of one softmax per place, over the
    documents that are left: sum the steps for its logarithm. What is left is never found by taking
    away what is large: with m the heaviest document that is left, all documents before m are gone,
    and those after it that are gone, too, weigh at most as much as m each. So the relative error is
    about 1e-15 times the square of the number of places.

    Args:
        log_weight: log-weights (`log_weights`), a column per policy; shape (n, n_policies). All
            policies have the documents in the same order, descending from 0.
        rankings: indexes of the documents at the first k places, k <= n; shape (n_rankings, k).
            Where k gaps add up to more than 700 nats, which takes a cutoff of 9, each gap is cut to
            700 / k nats.

    Returns:
        shape (k, n_rankings, n_policies).
    """
    places = rankings.shape[1]
    steep = log_weight[places - 1] < -_DEEPEST
    if steep.any():
        gaps = -np.diff(log_weight[:, steep], axis=0, prepend=0.0)
        log_weight = log_weight.copy()
        log_weight[:, steep] = -np.cumsum(np.minimum(gaps, _DEEPEST / places), axis=0)
    n = len(log_weight)
    weight = np.zeros((n + 1, log_weight.shape[1]))  # the last one is no document
    np.exp(log_weight, out=weight[:n])
    # of all documents from each of the first on
    tail = np.append(weight[: places - 1], [weight[places - 1 :].sum(axis=0)], axis=0)
    tail = np.cumsum(tail[::-1], axis=0)[::-1]
    gone = np.zeros(rankings.shape, dtype=bool)  # which of the first documents are placed
    taken = weight[rankings.T]
    steps, part = np.empty(taken.shape), np.empty(taken.shape[1:])
    for place in range(places):
        heaviest = gone.argmin(axis=1)
        left = steps[place]
        np.take(tail, heaviest, axis=0, out=left, mode="clip")
        for earlier in range(place):
            placed = rankings[:, earlier]
            behind = np.where(placed > heaviest, placed, n)
            left -= np.take(weight, behind, axis=0, out=part, mode="clip")
        light = np.flatnonzero(rankings[:, place] < places)
        gone[light, rankings[light, place]] = True
    with np.errstate(divide="ignore"):  # log(0): no double is as small as the probability
        return np.log(np.divide(taken, steps, out=steps), out=steps)
