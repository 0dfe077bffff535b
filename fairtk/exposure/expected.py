"""Expected exposure: what documents get, what they should get, and how far apart the two are.

Pure array arithmetic, for all queries at once (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG,
Eqs. 3 to 6 and Appendix C). A "pair" is one (query, document) that is judged or retrieved. The
documents of a query form one block for each grade of usefulness, best first, and one for all
that is not useful, judged or not.

Ranks 1 and 2 weigh the same, gains are binary, and the ideal ranking is as long as the list that
was asked for, not as the one that was returned. Pure array arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairtk.exposure.browsing import BrowsingModel
from fairtk.frames import BoolArray, FloatArray, IntArray, Run


@dataclass(frozen=True)
class Grades:
    """The grades of usefulness of all queries, sorted by query and, inside, best first.

    Attributes:
        query: query index of each grade; shape (n_grades,).
        useful: whether the grade's documents are useful; shape (n_grades,).
        size: number of documents m of each grade; shape (n_grades,).
        above: number of documents b in better grades of the same query; shape (n_grades,).
        of_pair: grade index of each pair, -1 for a pair without a target; shape (n_pairs,).
        n_queries: number of queries.
    """

    query: IntArray
    useful: BoolArray
    size: IntArray
    above: IntArray
    of_pair: IntArray
    n_queries: int

    def per_query(self, values: FloatArray) -> FloatArray:
        """Sum values of grades inside each query; shape (n_queries,)."""
        return total(self.query, values, self.n_queries)

    @cached_property
    def n_documents(self) -> IntArray:
        """Number of documents in all grades of each query; shape (n_queries,)."""
        return self.per_query(self.size.astype(np.float64)).astype(np.int64)

    @cached_property
    def n_useful(self) -> IntArray:
        """Number of useful documents of each query; shape (n_queries,)."""
        return self.per_query((self.size * self.useful).astype(np.float64)).astype(np.int64)


def total(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the sum of the values that have each index; shape (size,)."""
    result: FloatArray = np.bincount(index, weights=values, minlength=size).astype(np.float64)
    return result


def average(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the mean of the values that have each index, 0 where none has; shape (size,)."""
    return total(index, values, size) / np.maximum(np.bincount(index, minlength=size), 1)


def attention(
    rankings: Run,
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
    deepest = int(rankings.position.max(initial=-1)) + 1
    return RankWeights.of(model, cutoff, deepest).attention(rankings, useful)


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


def make_grades(
    query: IntArray,
    grade: FloatArray,
    n_queries: int,
    n_documents: IntArray | None = None,
) -> Grades:
    """Return the grades of each query, with how many documents have each.

    Args:
        query: query index of each pair; shape (n_pairs,).
        grade: grade of each pair; shape (n_pairs,). Pairs with NaN have none.
        n_queries: number of queries.
        n_documents: number of documents n of each query; shape (n_queries,). If given, all pairs
            with a grade of 0 or below share one grade of n - m documents, whether or not they are
            among the pairs. If None, each grade has the pairs that are given with it.
    """
    alone = ~np.isnan(grade) if n_documents is None else grade > 0
    values, index = np.unique(grade[alone], return_inverse=True)
    width = len(values) + 1
    key = query * width + len(values)  # the grade of what is not useful comes last
    key[alone] -= 1 + index  # ... and the best grade first
    keys, size = np.unique(key[alone], return_counts=True)
    if n_documents is not None:
        n_useful = np.bincount(keys // width, weights=size, minlength=n_queries)
        keys = np.concatenate([keys, np.arange(n_queries) * width + len(values)])
        size = np.concatenate([size, n_documents - n_useful.astype(np.int64)])
        order = np.argsort(keys, kind="stable")
        keys, size = keys[order], size[order]
        keys, size = keys[size > 0], size[size > 0]
    grade_query = keys // width
    running = np.cumsum(size) - size
    first = np.searchsorted(grade_query, grade_query)
    position = np.searchsorted(keys, key)
    position[position == len(keys)] = 0
    labeled = (keys[position] == key) if len(keys) else np.zeros(len(key), dtype=bool)
    rising = np.append(values[::-1], 0.0)  # by the place of a key within its query
    return Grades(
        query=grade_query,
        useful=rising[keys % width] > 0,
        size=size,
        above=running - running[first],
        of_pair=np.where(labeled, position, -1),
        n_queries=n_queries,
    )


DEEPEST = 10_000
"""Ranks that are looked at where as many as possible count; those below weigh less still."""


@dataclass(frozen=True)
class RankWeights:
    """The attention that a model gives to the first ranks.

    Attributes:
        weight: of each rank, where nothing above is useful; shape (depth,).
        stop: the probability of leaving after a useful document.
        whole_square: what the sum of squared weights of no ranking is above, however long; NaN if
            it has no end.
    """

    weight: FloatArray
    stop: float
    whole_square: float

    @classmethod
    def of(cls, model: BrowsingModel, cutoff: int | None, deepest: int) -> RankWeights:
        """Return the weights of as many ranks as rankings have, but of none from the cutoff on."""
        depth = deepest if cutoff is None else min(deepest, cutoff)
        most = depth if cutoff is None else max(depth, min(cutoff, DEEPEST))
        weight = model.weights(np.arange(most, dtype=np.int64))
        whole, stop = model.total_square, model.stop
        if cutoff is not None:
            rest = float(weight[-1] ** 2) * (cutoff - most)  # weights do not rise
            whole = min(whole, float((weight**2).sum()) + rest)
        return cls(weight[:depth], stop, whole if np.isfinite(whole) else float("nan"))

    def attention(self, rankings: Run, useful: BoolArray | None) -> FloatArray:
        """Return the attention that each sorted row of a run gets; see `attention`."""
        weight = np.append(self.weight, 0.0)[np.minimum(rankings.position, len(self.weight))]
        if self.stop > 0 and useful is not None:
            before: IntArray = np.cumsum(useful) - useful
            above = before - before[rankings.ranking_start[:-1]][rankings.ranking]
            weight = weight * (1.0 - self.stop) ** above
        return weight

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the first ranks: of weights, of their squares, of weights that fade."""
        fading = self.weight * (1.0 - self.stop) ** np.arange(len(self.weight))
        plain, square, faded = (
            np.concatenate([[0.0], np.cumsum(part)])
            for part in (self.weight, self.weight**2, fading)
        )
        return plain, square, faded

    def ideal(self, rank: IntArray, n_useful: IntArray) -> FloatArray:
        """Return the attention that the first ranks of an ideal ranking get in total.

        An ideal ranking shows all useful documents first, so a cascade has stopped after min(rank,
        n_useful) of them.

        Args:
            rank: how many ranks are summed; any shape.
            n_useful: number of useful documents in the ranking; shape of `rank`.
        """
        plain, _, faded = self._sums
        depth = np.minimum(rank, len(self.weight))
        if self.stop == 0:
            return plain[depth]
        inside = np.minimum(depth, n_useful)
        return faded[inside] + (1.0 - self.stop) ** inside * (plain[depth] - plain[inside])

    def target(self, grades: Grades) -> FloatArray:
        """Return the target exposure of a document of each grade; see `target_exposure`."""
        useful = grades.n_useful[grades.query]
        end = self.ideal(grades.above + grades.size, useful)
        return (end - self.ideal(grades.above, useful)) / grades.size

    def largest_square(self, n: IntArray, n_useful: IntArray) -> FloatArray:
        """Return the largest squared norm of the attention of a ranking of n documents.

        That is the disparity of a fixed ranking, the largest there is; under a cascade, of one with
        the useful documents last.

        Args:
            n: number of documents; any shape.
            n_useful: how many of them are useful; shape of `n`.
        """
        depth = np.minimum(n, len(self.weight))
        square = self._sums[1]
        if self.stop == 0:
            return square[depth]
        free = np.minimum(depth, n - n_useful)
        owner = np.repeat(np.arange(len(n)), depth - free)
        after = np.arange(len(owner)) - (np.cumsum(depth - free) - (depth - free))[owner]
        felt = self.weight[free[owner] + after] * (1.0 - self.stop) ** after
        return np.asarray(square[free] + total(owner, felt**2, len(n)))


def target_exposure(grades: Grades, model: BrowsingModel, cutoff: int | None) -> FloatArray:
    """Return the target exposure of a document of each grade: its share of an ideal policy.

    The ideal policy ranks grades best first and shuffles uniformly inside each, so every document
    of a grade gets the mean attention of the block of ranks that its grade occupies. For `MU` that
    is Eq. 6 of Towards Fair RAG; for `RBP` and `GERR` the closed forms of Diaz et al. 2020.

    Returns:
        An array of shape (n_grades,).
    """
    return RankWeights.of(model, cutoff, int(grades.n_documents.max(initial=0))).target(grades)


def inner(
    exposure: FloatArray, target: FloatArray, pair_query: IntArray, grades: Grades
) -> FloatArray:
    """Return the inner product of exposure and target in each query; shape (n_queries,)."""
    padded = np.append(target, 0.0)  # index -1: no target
    products = exposure * padded[grades.of_pair]
    return total(pair_query, products, grades.n_queries)


def normalized_gain(
    rankings: Run,
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
