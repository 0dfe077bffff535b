"""How many of the others have arrived: sums over all documents but one, for each of them.

The number of independent events that happen is Poisson-binomial. Leaving one event out by
dividing its factor away loses digits where it is nearly certain. Here nothing is divided or
subtracted: factors are multiplied pairwise up a tree, and the derivatives of the result go down
again. All terms are positive, so every digit but the last few holds.
"""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray


def weigh_others(happened: FloatArray, not_yet: FloatArray, weight: FloatArray) -> FloatArray:
    """Return, for each event, the expected weight of the number of other events that happened.

    With N the number of the others, the sum over j of ``weight[j] P(N = j)``. It is the
    derivative of the same sum over all events, which is linear in each ``not_yet``, by that number.

    Args:
        happened: probability of each event; shape (n_events, n_cases).
        not_yet: that of its opposite, given apart since it may be tiny; same shape.
        weight: of 0, 1, 2, ... events; more have none; shape (n_counts, n_cases), not empty.

    Returns:
        Shape (n_events, n_cases).
    """
    counts, size = len(weight), len(happened)
    part = np.stack([not_yet, happened])[:counts]
    halves = []
    while part.shape[1] > 1:
        if part.shape[1] % 2:  # an event that never happens
            never = np.zeros_like(part[:, :1])
            never[0] = 1.0
            part = np.concatenate([part, never], axis=1)
        middle = part.shape[1] // 2
        left, right = part[:, :middle], part[:, middle:]
        halves.append((left, right))
        part = _product(left, right, counts)
    slope = weight[: len(part), None]
    while halves:
        left, right = halves.pop()
        terms = len(left) if halves else 1  # of a leaf, the slope by `not_yet` is enough
        slope = np.concatenate([_slope(slope, right, terms), _slope(slope, left, terms)], axis=1)
        wanted = halves[-1][0].shape[1] if halves else size
        slope = slope[:, :wanted]
    return np.asarray(slope[0])


def _product(left: FloatArray, right: FloatArray, counts: int) -> FloatArray:
    """Multiply polynomials along the first axis, up to `counts` coefficients."""
    terms = len(left)
    result = np.zeros((min(2 * terms - 1, counts), *left.shape[1:]))
    for power in range(terms):
        result[power : power + terms] += left[power] * right[: len(result) - power]
    return result


def _slope(slope: FloatArray, other: FloatArray, terms: int) -> FloatArray:
    """Return the derivatives by one factor's coefficients from those by the product's."""
    result = np.zeros((terms, *other.shape[1:]))
    for power in range(min(len(other), len(slope))):
        part = slope[power : power + terms]
        result[: len(part)] += part * other[power]
    return result
