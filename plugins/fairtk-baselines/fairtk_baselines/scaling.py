"""Scores inside each query: scaled, and made to fall."""

from __future__ import annotations

import numpy as np

from fairtk.frames import FloatArray, IntArray

_SMALLEST = float(np.finfo(np.float64).tiny)  # below it, some processors' settings make it zero


def min_max(score: FloatArray, start: IntArray, when_equal: float) -> FloatArray:
    """Return scores scaled to [0, 1] inside each query.

    Args:
        score: finite scores, the rows of a query together.
        start: first row of each query, and the number of rows at the end.
        when_equal: what all get where the scores of a query are all equal.
    """
    if not len(score):
        return score.copy()
    # halved, so that the range of very large scores of both signs does not overflow
    half = score / 2
    low = np.repeat(np.minimum.reduceat(half, start[:-1]), np.diff(start))
    high = np.repeat(np.maximum.reduceat(half, start[:-1]), np.diff(start))
    spread = high - low
    out = np.full(len(score), when_equal)
    np.divide(half - low, spread, out=out, where=spread > 0)
    return out


def strictly_falling(score: FloatArray, query: IntArray) -> FloatArray:
    """Return scores in which ties are undone in the last bit, so that order and scores agree.

    Args:
        score: scores, not rising inside a query.
        query: query of each row; the rows of a query together.
    """
    falling = score + 0.0
    same = query[1:] == query[:-1]
    while len(late := np.flatnonzero(same & (falling[1:] >= falling[:-1]))):
        before = falling[late]
        falling[late + 1] = np.minimum(np.nextafter(before, -np.inf), before - _SMALLEST)
    return falling
