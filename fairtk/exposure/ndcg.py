"""The nDCG of TREC Fair Ranking 2022, which is not trec_eval's.

Ranks 1 and 2 weigh the same, gains are binary, and the ideal ranking is as long as the list that
was asked for, not as the one that was returned. Pure array arithmetic.
"""

from __future__ import annotations

import numpy as np

from fairtk.exposure.browsing import BrowsingModel
from fairtk.exposure.expected import total
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray


def discounted_gain(
    model: BrowsingModel,
    cutoff: int | None,
    position: IntArray,
    useful: BoolArray,
    ranking: IntArray,
    n_rankings: int,
) -> FloatArray:
    """Return the summed discounts of the useful documents of each ranking; shape (n_rankings,).

    Args:
        model: gives the discount of each rank.
        cutoff: ranks from here on count nothing; None: no cutoff.
        position: 0-based rank of each row; shape (n_rows,).
        useful: whether each row's document is useful; shape (n_rows,).
        ranking: ranking index of each row; shape (n_rows,).
        n_rankings: number of rankings.
    """
    deepest = int(position.max(initial=-1)) + 1
    weight = model.weights(np.arange(deepest, dtype=np.int64))[position] * useful
    if cutoff is not None:
        weight = np.where(position < cutoff, weight, 0.0)
    return total(ranking, weight, n_rankings)


def ideal_gain(model: BrowsingModel, length: int, n_useful: IntArray) -> FloatArray:
    """Return the gain of a ranking of `length` documents with all useful ones first.

    Args:
        model: gives the discount of each rank.
        length: the number of documents that were asked for.
        n_useful: number of useful documents of each query; any shape.
    """
    weight = model.weights(np.arange(length, dtype=np.int64))
    summed: FloatArray = np.concatenate([[0.0], np.cumsum(weight)])
    return summed[np.minimum(n_useful, length)]
