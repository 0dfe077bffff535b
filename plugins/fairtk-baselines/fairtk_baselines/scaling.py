"""Scores inside each query: scaled, blended, and made to fall.

The rows of a query are together; `start` is the first row of each query, and the number of rows.
"""

from __future__ import annotations

import numpy as np

from fairtk.frames import FloatArray, IntArray

NORMALIZATIONS = ("min-max", "z-score")
_DIGITS = 12  # rounding noise of different batch sizes is far below
_STEP = 1e-9
_SMALLEST = float(np.finfo(np.float64).tiny)  # below it, some processors' settings make it zero


def min_max(score: FloatArray, start: IntArray, when_equal: float) -> FloatArray:
    """Return finite scores scaled to [0, 1] inside each query, or `when_equal` where all are."""
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


def normalized(values: FloatArray, start: IntArray, how: str) -> FloatArray:
    """Return values scaled inside each query, equal ones to 0; shape (n_rows,).

    ``"min-max"``: to [0, 1]; ``"z-score"``: mean 0, standard deviation 1.
    """
    found = min_max(values, start, when_equal=0.0)
    if how == "min-max" or not len(values):
        return found
    # of the scaled values, so that no square over- or underflows
    size = np.diff(start)
    off = found - np.repeat(np.add.reduceat(found, start[:-1]) / size, size)
    unit = np.repeat(np.sqrt(np.add.reduceat(off**2, start[:-1]) / size), size)
    return np.asarray(np.divide(off, unit, out=np.zeros_like(values), where=unit > 0))


def fused(
    relevance: FloatArray, score: FloatArray, fuse: float, start: IntArray, how: str
) -> FloatArray:
    """Return two scores, each scaled, blended by the share `fuse` of the second, scaled again."""
    ours, theirs = normalized(relevance, start, how), normalized(score, start, how)
    return normalized((1 - fuse) * ours + fuse * theirs, start, how)


def ranked(blend: FloatArray, start: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return how rows are ordered by a blend of scores, highest first: order, 0-based rank, score.

    Blends equal to 12 digits keep their order. The score is the blend, minus 1e-9 times the rank.
    """
    size = np.diff(start)
    query = np.repeat(np.arange(len(size)), size)
    rounded = np.round(blend, _DIGITS)
    order: IntArray = np.lexsort((-rounded, query)).astype(np.int64)
    rank = np.arange(len(blend), dtype=np.int64) - np.repeat(start[:-1], size)
    return order, rank, rounded[order] - _STEP * rank


def strictly_falling(score: FloatArray, query: IntArray) -> FloatArray:
    """Return scores that do not rise, with ties undone in the last bit: order and scores agree."""
    falling = score + 0.0
    same = query[1:] == query[:-1]
    while len(late := np.flatnonzero(same & (falling[1:] >= falling[:-1]))):
        before = falling[late]
        falling[late + 1] = np.minimum(np.nextafter(before, -np.inf), before - _SMALLEST)
    return falling
