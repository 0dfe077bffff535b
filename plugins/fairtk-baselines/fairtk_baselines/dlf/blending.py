"""From the models' scores to one ranking per query.

Rows are sorted by query and earlier rank; `start` is the first row of each query, and n_rows.
"""

from __future__ import annotations

import numpy as np

from fairtk.frames import FloatArray, IntArray
from fairtk_baselines.scaling import min_max

NORMALIZATIONS = ("min-max", "z-score")
_DIGITS = 12  # rounding noise of different batch sizes is far below
STEP = 1e-9


def normalized(values: FloatArray, start: IntArray, how: str) -> FloatArray:
    """Return values scaled inside each query; shape (n_rows,).

    ``"min-max"``: to [0, 1]; ``"z-score"``: mean 0, standard deviation 1. Equal values become 0.
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
    """Return the relevance model's scores fused with the retriever's, scaled; shape (n_rows,).

    `fuse` is the share of the latter, in [0, 1], after each is scaled.
    """
    ours, theirs = normalized(relevance, start, how), normalized(score, start, how)
    return normalized((1 - fuse) * ours + fuse * theirs, start, how)


def ranked(blend: FloatArray, start: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return how rows are ordered by a blend of scores, highest first.

    Equal blends (to 12 digits) keep their order. Returned are the order, the 0-based rank of each
    ordered row, and its score: the blend, minus 1e-9 times the rank, so that scores of equal blends
    decrease, too.
    """
    size = np.diff(start)
    query = np.repeat(np.arange(len(size)), size)
    rounded = np.round(blend, _DIGITS)
    order: IntArray = np.lexsort((-rounded, query)).astype(np.int64)
    rank = np.arange(len(blend), dtype=np.int64) - np.repeat(start[:-1], size)
    return order, rank, rounded[order] - STEP * rank
