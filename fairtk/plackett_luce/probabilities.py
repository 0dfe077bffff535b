"""How likely rankings are under Plackett-Luce policies: exact, in closed form."""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray

_DEEPEST = 700.0
"""exp(-x) of larger numbers is too coarse (subnormal, 0)."""


def log_step_probabilities(gaps: FloatArray, rankings: IntArray) -> FloatArray:
    """Return the log-probability of each step of rankings of one query under many policies.

    The probability of the top of a ranking is a product of one softmax per place, over the
    documents that are left: sum the steps for its logarithm. What is left is never found by taking
    away what is large: with m the heaviest document that is left, all documents before m are gone,
    and those after it that are gone, too, weigh at most as much as m each. So the relative error is
    about 1e-15 times the square of the number of places.

    Args:
        gaps: gaps of log-weights (`score_gaps`), a row per policy; shape (n_policies, n). All
            policies have the documents in the same order.
        rankings: indexes of the documents at the first k places, k <= n; shape (n_rankings, k).
            Where k gaps add up to more than 700 nats, which takes a cutoff of 9, each gap is cut to
            700 / k nats.

    Returns:
        shape (k, n_policies, n_rankings).
    """
    places = rankings.shape[1]
    log_weight = -np.cumsum(gaps, axis=1)
    steep = log_weight[:, places - 1] < -_DEEPEST
    if steep.any():
        cut = np.minimum(gaps[steep], _DEEPEST / places)
        log_weight[steep] = -np.cumsum(cut, axis=1)
    weight = np.exp(log_weight)
    ends = np.concatenate(
        [weight[:, : places - 1], weight[:, places - 1 :].sum(axis=1, keepdims=True)], axis=1
    )
    tail = np.cumsum(ends[:, ::-1], axis=1)[:, ::-1]  # of all documents from each of the first on
    gone = np.zeros(rankings.shape, dtype=bool)  # which of the first documents are placed
    taken = weight[:, rankings.T].transpose(1, 0, 2)  # (k, n_policies, n_rankings)
    steps = np.empty(taken.shape)
    with np.errstate(divide="ignore"):  # log(0): no double is as small as the probability
        for place in range(places):
            heaviest = gone.argmin(axis=1)
            left = tail[:, heaviest]
            for earlier in range(place):
                left -= taken[earlier] * (rankings[:, earlier] > heaviest)
            np.log(taken[place] / left, out=steps[place])
            light = np.flatnonzero(rankings[:, place] < places)
            gone[light, rankings[light, place]] = True
    return steps
