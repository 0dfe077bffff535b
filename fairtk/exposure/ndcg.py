"""The nDCG of TREC Fair Ranking 2022, which is not trec_eval's.

Ranks 1 and 2 weigh the same, gains are binary, and the ideal ranking is as long as the list that
was asked for, not as the one that was returned. Pure array arithmetic.
"""

from __future__ import annotations

import numpy as np

from fairtk.exposure.browsing import BrowsingModel
from fairtk.exposure.expected import average, total
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.rankings import Rankings


def normalized_gain(
    rankings: Rankings,
    useful: BoolArray,
    query: IntArray,
    n_useful: IntArray,
    model: BrowsingModel,
    weight: FloatArray,
    length: int,
) -> FloatArray:
    """Return each query's nDCG, the mean over its rankings; shape of `n_useful`.

    NaN where no document is useful; 0 for a query without a ranking.

    Args:
        rankings: the run.
        useful: whether each sorted row's document is useful; shape (n_rows,).
        query: for each query of the run, its index among those of `n_useful`; -1: none of them.
        n_useful: number of useful documents of each query.
        model: gives the discount of each rank.
        weight: attention of each sorted row under it; shape (n_rows,).
        length: the number of documents that were asked for.
    """
    gain = total(rankings.ranking, weight * useful, rankings.n_rankings)
    place = query[rankings.ranking_query]
    gain, place = gain[place >= 0], place[place >= 0]
    mean = average(place, gain, len(n_useful))
    empty = n_useful == 0
    best = np.where(empty, 1.0, ideal_gain(model, length, n_useful))
    return np.where(empty, np.nan, mean / best)


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
