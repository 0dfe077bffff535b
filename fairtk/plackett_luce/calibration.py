"""The alpha of each query at which a policy has a wanted value, by few exact evaluations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray

EVALUATIONS = 12
"""How often the policy of a query is evaluated at most."""

Values = Callable[[FloatArray, IntArray], FloatArray]


def find_alphas(
    values: Values, even: FloatArray, steep: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return for each query the alpha at which its value lies in a range, and that value.

    Values are taken to rise with alpha, from `even` at 0 to `steep` in the limit; of one that does
    not, some alpha in the range is found. 0 is taken where `even` is not below the range, and the
    neighborhood of `steep`, as wide as the range, where that is below it.

    With v the place of a value between its two ends, log(-log(1 - v)) is nearly a line in log
    alpha: v starts as alpha squared, and what is left dies off exponentially. Once the wanted value
    lies between two that are known, the secant is drawn by Anderson and Bjorck's rule, which lets
    no end stay for ever.

    Args:
        values: values of some queries at an alpha each; takes (alpha, queries).
        even: values at alpha 0, of the uniform policy; shape (n_queries,).
        steep: values in the limit of large alpha; same shape.
        low: what the value should be at least; same shape.
        high: what it should be at most; above `low`.
    """
    width = high - low
    high = np.minimum(high, np.maximum(steep, even))
    low = np.minimum(low, high - width)
    alpha, value = np.zeros(len(even)), np.array(even)
    aim = (low + high) / 2

    def line(found: FloatArray, query: IntArray) -> FloatArray:
        share = (found - even[query]) / np.maximum(steep - even, 1e-300)[query]
        share = np.clip(share, 1e-15, 1 - 1e-15)
        return np.asarray(np.log(-np.log1p(-share)))

    query = np.flatnonzero(even < low)
    wanted = line(aim[query], query)
    # log alphas that are too small and too large, and by how much they miss on that line
    below, above = np.full(len(query), -np.inf), np.full(len(query), np.inf)
    miss_below, miss_above = np.zeros(len(query)), np.zeros(len(query))
    place = np.full(len(query), np.log(3.0))
    for step in range(EVALUATIONS):
        tried = _short(np.exp(place))
        found = values(tried, query)
        better = (step == 0) | (np.abs(found - aim[query]) < np.abs(value[query] - aim[query]))
        alpha[query[better]], value[query[better]] = tried[better], found[better]
        small = found < low[query]
        miss = line(found, query) - wanted
        again_below, again_above = small & (miss_below < 0), ~small & (miss_above > 0)
        miss_above = np.where(again_below, miss_above * _weaker(miss, miss_below), miss_above)
        miss_below = np.where(again_above, miss_below * _weaker(miss, miss_above), miss_below)
        below, miss_below = np.where(small, place, below), np.where(small, miss, miss_below)
        above, miss_above = np.where(small, above, place), np.where(small, miss_above, miss)
        left = small | (found > high[query])
        if not left.any():
            break
        query, wanted, miss, place = query[left], wanted[left], miss[left], place[left]
        below, above = below[left], above[left]
        miss_below, miss_above = miss_below[left], miss_above[left]
        free = place - np.sign(miss) * np.clip(np.abs(miss) / 3, 0.1, 0.7) * 2.0**step
        closed = np.isfinite(below) & np.isfinite(above)
        share = -miss_below / np.where(closed, miss_above - miss_below, 1.0)
        if step in (6, 8):  # where it is no line at all
            share = np.full(len(share), 0.5)
        gap = np.where(closed, above - below, 0.0)
        inside = np.where(closed, below, 0.0) + np.clip(share, 0.01, 0.99) * gap
        place = np.minimum(np.where(closed, inside, free), 700.0)
    return alpha, value


def _weaker(now: FloatArray, before: FloatArray) -> FloatArray:
    """Return by what the other end's miss is multiplied when an end moves twice in a row."""
    factor = 1.0 - now / np.where(before == 0, 1.0, before)
    return np.where(factor > 0, factor, 0.5)


def _short(alpha: FloatArray) -> FloatArray:
    """Return numbers of six digits: the same whatever rounding errors led to them."""
    return np.array([float(f"{one:.6g}") for one in alpha.tolist()])
