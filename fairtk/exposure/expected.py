"""Expected exposure: what documents get, what they should get, and how far apart the two are.

Pure array arithmetic, for all queries at once (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG,
Eqs. 3 to 6 and Appendix C). A "pair" is one (query, document) that is judged or retrieved. The
documents of a query form levels: one for each grade of usefulness, best first, and one for all
that is not useful, judged or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairtk.exposure.browsing import BrowsingModel
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.rankings import Rankings


@dataclass(frozen=True)
class Levels:
    """The levels of usefulness of all queries, sorted by query and, inside, best first.

    Attributes:
        query: query index of each level; shape (n_levels,).
        useful: whether the level's documents are useful; shape (n_levels,).
        size: number of documents m of each level; shape (n_levels,).
        above: number of documents b in better levels of the same query; shape (n_levels,).
        of_pair: level index of each pair, -1 for a pair without a target; shape (n_pairs,).
        n_queries: number of queries.
    """

    query: IntArray
    useful: BoolArray
    size: IntArray
    above: IntArray
    of_pair: IntArray
    n_queries: int

    def per_query(self, values: FloatArray) -> FloatArray:
        """Sum values of levels inside each query; shape (n_queries,)."""
        return total(self.query, values, self.n_queries)

    @property
    def n_documents(self) -> IntArray:
        """Number of documents in all levels of each query; shape (n_queries,)."""
        return self.per_query(self.size.astype(np.float64)).astype(np.int64)

    @property
    def n_useful(self) -> IntArray:
        """Number of useful documents of each query; shape (n_queries,)."""
        return self.per_query((self.size * self.useful).astype(np.float64)).astype(np.int64)


def total(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the sum of the values that have each index; shape (size,)."""
    result: FloatArray = np.bincount(index, weights=values, minlength=size).astype(np.float64)
    return result


def attention(
    rankings: Rankings,
    model: BrowsingModel,
    cutoff: int | None,
    useful: BoolArray | None = None,
) -> FloatArray:
    """Return the attention that each sorted row of a run gets; shape (n_rows,).

    Args:
        rankings: the run.
        model: the browsing model.
        cutoff: ranks from here on get none; None: no cutoff.
        useful: whether each row's document is useful (a cascade stops there); shape (n_rows,).
            None: none is.
    """
    position = rankings.position
    deepest = int(position.max(initial=-1)) + 1
    weight = model.weights(np.arange(deepest, dtype=np.int64))[position]
    if cutoff is not None:
        weight = np.where(position < cutoff, weight, 0.0)
    if model.stop > 0 and useful is not None:
        before: IntArray = np.cumsum(useful) - useful
        above = before - before[rankings.ranking_start[:-1]][rankings.ranking]
        weight = weight * (1.0 - model.stop) ** above
    return weight


def expected_exposure(
    weight: FloatArray, pair: IntArray, n_pairs: int, n_samples: IntArray
) -> FloatArray:
    """Return the mean attention of each pair over the sampled rankings of its query (Eq. 5).

    Args:
        weight: attention of each row; shape (n_rows,).
        pair: pair index of each row; shape (n_rows,).
        n_pairs: number of pairs.
        n_samples: number of rankings of each row's query; shape (n_rows,).
    """
    return total(pair, weight / n_samples, n_pairs)


def make_levels(
    query: IntArray,
    grade: FloatArray,
    n_queries: int,
    n_documents: IntArray | None = None,
) -> Levels:
    """Group pairs into levels, one for each grade of each query.

    Args:
        query: query index of each pair; shape (n_pairs,).
        grade: grade of each pair; shape (n_pairs,). Pairs with NaN get no level.
        n_queries: number of queries.
        n_documents: number of documents n of each query; shape (n_queries,). If given, all pairs
            with a grade of 0 or below share one level of n - m documents, whether or not they are
            among the pairs. If None, every grade is a level of the pairs that have it.
    """
    alone = ~np.isnan(grade) if n_documents is None else grade > 0
    values, index = np.unique(grade[alone], return_inverse=True)
    width = len(values) + 1
    key = query * width + len(values)  # the level of what is not useful comes last
    key[alone] -= 1 + index  # ... and the best grade first
    keys, size = np.unique(key[alone], return_counts=True)
    if n_documents is not None:
        n_useful = np.bincount(keys // width, weights=size, minlength=n_queries)
        keys = np.concatenate([keys, np.arange(n_queries) * width + len(values)])
        size = np.concatenate([size, n_documents - n_useful.astype(np.int64)])
        order = np.argsort(keys, kind="stable")
        keys, size = keys[order], size[order]
        keys, size = keys[size > 0], size[size > 0]
    level_query = keys // width
    running = np.cumsum(size) - size
    first = np.searchsorted(level_query, level_query)
    found = np.searchsorted(keys, key)
    found[found == len(keys)] = 0
    known = (keys[found] == key) if len(keys) else np.zeros(len(key), dtype=bool)
    rising = np.append(values[::-1], 0.0)  # the grade of each level within a query
    return Levels(
        query=level_query,
        useful=rising[keys % width] > 0,
        size=size,
        above=running - running[first],
        of_pair=np.where(known, found, -1),
        n_queries=n_queries,
    )


def ideal_attention(
    model: BrowsingModel, cutoff: int | None, rank: IntArray, n_useful: IntArray
) -> FloatArray:
    """Return the attention that the first ranks of an ideal ranking get in total.

    An ideal ranking shows all useful documents first, so a cascade has stopped after min(rank,
    n_useful) of them.

    Args:
        model: the browsing model.
        cutoff: ranks from here on get none; None: no cutoff.
        rank: how many ranks are summed; any shape.
        n_useful: number of useful documents in the ranking; shape of `rank`.
    """
    depth = rank if cutoff is None else np.minimum(rank, cutoff)
    deepest = int(depth.max(initial=0))
    plain = model.weights(np.arange(deepest, dtype=np.int64))
    summed: FloatArray = np.concatenate([[0.0], np.cumsum(plain)])
    if model.stop == 0:
        return summed[depth]
    going_on = (1.0 - model.stop) ** np.arange(deepest)
    fading: FloatArray = np.concatenate([[0.0], np.cumsum(plain * going_on)])
    inside = np.minimum(depth, n_useful)
    return fading[inside] + (1.0 - model.stop) ** inside * (summed[depth] - summed[inside])


def target_exposure(levels: Levels, model: BrowsingModel, cutoff: int | None) -> FloatArray:
    """Return the target exposure of a document of each level: its share of an ideal policy.

    The ideal policy ranks levels best first and shuffles uniformly inside each, so every document
    of a level gets the mean attention of the block of ranks that its level occupies. For `MU` that
    is Eq. 6 of Towards Fair RAG; for `RBP` and `GERR` the closed forms of Diaz et al. 2020.

    Returns:
        An array of shape (n_levels,).
    """
    useful = levels.n_useful[levels.query]
    end = ideal_attention(model, cutoff, levels.above + levels.size, useful)
    begin = ideal_attention(model, cutoff, levels.above, useful)
    return (end - begin) / levels.size
