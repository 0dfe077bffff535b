"""Expected exposure, its target, and the values of EE-D, EE-R and EE-L with their bounds.

The arrays hold all queries at once (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG, Eqs. 3 to 6
and Appendix C). A "pair" is a (query, document) that is judged or retrieved. The documents of a
query have grades of usefulness; documents that are not useful, judged or not, share one grade.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairtk.exposure.browsing import BrowsingModel
from fairtk.frames import BoolArray, FloatArray, IntArray, Run


@dataclass(frozen=True)
class Grades:
    """The grades of usefulness of all queries, sorted by query and from best to worst.

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
        """Return the sum of grades' values in each query; shape (n_queries,)."""
        return sum_by_index(self.query, values, self.n_queries)

    @cached_property
    def n_documents(self) -> IntArray:
        """Number of documents in all grades of each query; shape (n_queries,)."""
        return self.per_query(self.size.astype(np.float64)).astype(np.int64)

    @cached_property
    def n_useful(self) -> IntArray:
        """Number of useful documents of each query; shape (n_queries,)."""
        return self.per_query((self.size * self.useful).astype(np.float64)).astype(np.int64)


def sum_by_index(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the sum of the values with each index; shape (size,)."""
    result: FloatArray = np.bincount(index, weights=values, minlength=size).astype(np.float64)
    return result


def sampling_excess(plain: FloatArray, square: FloatArray, query: IntArray) -> FloatArray:
    """Return an unbiased estimate of what sampling adds to the squared norm of a mean.

    With v the vector of each of N rankings, ||mean v||^2 overestimates the squared norm of the
    policy's vector. The excess is estimated by (mean ||v||^2 - ||mean v||^2) / (N - 1).

    Args:
        plain: ||mean v||^2 of each query; shape (n_queries,).
        square: ||v||^2 of each ranking; shape (n_rankings,).
        query: the index of each ranking's query; shape (n_rankings,).

    Returns:
        Shape (n_queries,); 0 for a query with fewer than two rankings.
    """
    n = np.bincount(query, minlength=len(plain))
    excess = average(query, square, len(plain)) - plain
    return np.where(n > 1, excess / np.maximum(n - 1, 1), 0.0)


def average(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Return the mean of the values with each index; 0 without values; shape (size,)."""
    return sum_by_index(index, values, size) / np.maximum(np.bincount(index, minlength=size), 1)


def members(size: IntArray) -> tuple[IntArray, IntArray]:
    """Return the block and the position in it of each member, for blocks of these sizes."""
    block = np.repeat(np.arange(len(size)), size)
    return block, np.arange(len(block)) - (np.cumsum(size) - size)[block]


def attention(
    rankings: Run,
    model: BrowsingModel,
    cutoff: int | None,
    useful: BoolArray | None = None,
) -> FloatArray:
    """Return the attention on each sorted row of a run; shape (n_rows,).

    Args:
        rankings: the run.
        model: the browsing model.
        cutoff: the number of ranks with attention; `None` for all.
        useful: whether each row's document is useful, for a cascade; shape (n_rows,). `None` if no
            document is.
    """
    deepest = int(rankings.position.max(initial=-1)) + 1
    return RankWeights.of(model, cutoff, deepest).attention(rankings, useful)


def expected_exposure(
    weight: FloatArray, pair: IntArray, n_pairs: int, n_samples: IntArray
) -> FloatArray:
    """Return the mean attention on each pair over its query's rankings (Towards Fair RAG, Eq. 5).

    Args:
        weight: attention on each row; shape (n_rows,).
        pair: pair index of each row; shape (n_rows,).
        n_pairs: number of pairs.
        n_samples: number of rankings of each row's query; shape (n_rows,).
    """
    return sum_by_index(pair, weight / n_samples, n_pairs)


def make_grades(
    query: IntArray,
    grade: FloatArray,
    n_queries: int,
    n_documents: IntArray | None = None,
) -> Grades:
    """Return the grades of each query and their numbers of documents.

    Args:
        query: query index of each pair; shape (n_pairs,).
        grade: grade of each pair, NaN for no grade; shape (n_pairs,).
        n_queries: number of queries.
        n_documents: number of documents n of each query; shape (n_queries,). All documents that
            are not useful, pairs or not, then share one grade. `None` to count only pairs, and keep
            grades of 0 and below apart.
    """
    alone = ~np.isnan(grade) if n_documents is None else grade > 0
    values, index = np.unique(grade[alone], return_inverse=True)
    width = len(values) + 1
    key = query * width + len(values)  # grades that are not useful come last
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
    rising = np.append(values[::-1], 0.0)  # grades by key within a query
    return Grades(
        query=grade_query,
        useful=rising[keys % width] > 0,
        size=size,
        above=running - running[first],
        of_pair=np.where(labeled, position, -1),
        n_queries=n_queries,
    )


DEEPEST = 10_000
"""The maximum number of ranks to compute; later ranks have even smaller weights."""


@dataclass(frozen=True)
class RankWeights:
    """The attention of a model on the first ranks.

    Attributes:
        weight: the weight of each rank if no document above is useful; shape (depth,).
        stop: the probability of leaving after a useful document.
        whole_square: an upper bound of the sum of squared weights of any ranking; NaN if
            unbounded.
    """

    weight: FloatArray
    stop: float
    whole_square: float

    @classmethod
    def of(cls, model: BrowsingModel, cutoff: int | None, deepest: int) -> RankWeights:
        """Return the weights of the first `deepest` ranks, at most up to the cutoff."""
        depth = deepest if cutoff is None else min(deepest, cutoff)
        most = depth if cutoff is None else max(depth, min(cutoff, DEEPEST))
        weight = model.checked_weights(np.arange(most, dtype=np.int64))
        bound, stop = model.total_square, model.stop
        if cutoff is not None:
            rest = float(weight[-1] ** 2) * (cutoff - most)  # deep weights never rise
            bound = min(bound, float((weight**2).sum()) + rest)
        return cls(weight[:depth], stop, bound if np.isfinite(bound) else float("nan"))

    def attention(self, rankings: Run, useful: BoolArray | None) -> FloatArray:
        """Return the attention on each sorted row of a run; see `attention`."""
        weight = np.append(self.weight, 0.0)[np.minimum(rankings.position, len(self.weight))]
        if self.stop > 0 and useful is not None:
            before: IntArray = np.cumsum(useful) - useful
            above = before - before[rankings.ranking_start[:-1]][rankings.ranking]
            weight = weight * (1.0 - self.stop) ** above
        return weight

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums over the first ranks of weights, squared weights, and weights under a cascade."""
        fading = self.weight * (1.0 - self.stop) ** np.arange(len(self.weight))
        plain, square, faded = (
            np.concatenate([[0.0], np.cumsum(part)])
            for part in (self.weight, self.weight**2, fading)
        )
        return plain, square, faded

    @property
    def rises(self) -> bool:
        """Whether a weight is above that of an earlier rank; never true for a cascade."""
        return self._sorted_sums is not None

    @cached_property
    def _sorted_sums(self) -> FloatArray | None:
        """Sums of the largest weights among the first n; `None` if weights never rise."""
        if self.stop > 0 or not (np.diff(self.weight) > 0).any():
            return None
        read = int(np.flatnonzero(self.weight)[-1]) + 1
        sums = np.zeros((read + 1, read + 1))
        for n in range(1, read + 1):
            sums[n, 1 : n + 1] = np.cumsum(np.sort(self.weight[:n])[::-1])
            sums[n, n:] = sums[n, n]
        return sums

    def ideal(self, rank: IntArray, n_useful: IntArray, n: IntArray) -> FloatArray:
        """Return the total attention on the first documents of an ideal ranking.

        An ideal ranking has all useful documents first. If weights rise with the rank, the best
        documents are at the ranks with most attention.

        Args:
            rank: the number of first documents; any shape.
            n_useful: number of useful documents in the ranking; shape of `rank`.
            n: number of documents in the ranking; shape of `rank`.
        """
        if (by_place := self._sorted_sums) is not None:
            most = len(by_place) - 1
            sums: FloatArray = by_place[np.minimum(n, most), np.minimum(rank, most)]
            return sums
        plain, _, faded = self._sums
        depth = np.minimum(rank, len(self.weight))
        if self.stop == 0:
            return plain[depth]
        inside = np.minimum(depth, n_useful)
        return faded[inside] + (1.0 - self.stop) ** inside * (plain[depth] - plain[inside])

    def target(self, grades: Grades) -> FloatArray:
        """Return the target exposure of a document of each grade; see `target_exposure`."""
        useful, n = grades.n_useful[grades.query], grades.n_documents[grades.query]
        end = self.ideal(grades.above + grades.size, useful, n)
        return (end - self.ideal(grades.above, useful, n)) / grades.size

    def largest_square(self, n: IntArray, n_useful: IntArray) -> FloatArray:
        """Return the disparity of a deterministic ranking of n documents, the largest possible.

        Under a cascade, the useful documents are last.

        Args:
            n: number of documents; any shape.
            n_useful: number of useful documents; shape of `n`.
        """
        depth = np.minimum(n, len(self.weight))
        square = self._sums[1]
        if self.stop == 0:
            return square[depth]
        free = np.minimum(depth, n - n_useful)
        owner, after = members(depth - free)
        felt = self.weight[free[owner] + after] * (1.0 - self.stop) ** after
        return np.asarray(square[free] + sum_by_index(owner, felt**2, len(n)))


def target_exposure(grades: Grades, model: BrowsingModel, cutoff: int | None) -> FloatArray:
    """Return the target exposure of a document of each grade; shape (n_grades,).

    The ideal policy ranks grades best first and shuffles uniformly within each, so each document of
    a grade gets the mean attention of the ranks of its grade. For `MU` this is Eq. 6 of Towards
    Fair RAG; for `RBP` and `GERR` the closed forms of Diaz et al. 2020.
    """
    return RankWeights.of(model, cutoff, int(grades.n_documents.max(initial=0))).target(grades)


def inner(
    exposure: FloatArray, target: FloatArray, pair_query: IntArray, grades: Grades
) -> FloatArray:
    """Return the inner product of exposure and target in each query; shape (n_queries,)."""
    padded = np.append(target, 0.0)  # index -1: no target
    products = exposure * padded[grades.of_pair]
    return sum_by_index(pair_query, products, grades.n_queries)


def normalized_gain(
    rankings: Run,
    useful: BoolArray,
    query: IntArray,
    n_useful: IntArray,
    model: BrowsingModel,
    weight: FloatArray,
    length: int,
) -> FloatArray:
    """Return the mean nDCG of each query's rankings, with binary gains; shape of `n_useful`.

    It is NaN without useful documents, and 0 for a query without a ranking. As in TREC Fair Ranking
    2022, the ideal ranking has the requested length, even if fewer documents are returned.

    Args:
        rankings: the run.
        useful: whether each sorted row's document is useful; shape (n_rows,).
        query: the index in `n_useful` of each query of the run; -1 if absent.
        n_useful: number of useful documents of each query.
        model: the browsing model whose weights are the discounts.
        weight: attention on each sorted row under it; shape (n_rows,).
        length: the requested number of documents.
    """
    gain = sum_by_index(rankings.ranking, weight * useful, rankings.n_rankings)
    index = query[rankings.ranking_query]
    gain, index = gain[index >= 0], index[index >= 0]
    mean = average(index, gain, len(n_useful))
    empty = n_useful == 0
    # the ideal ranking has all useful documents first
    weights = model.checked_weights(np.arange(length, dtype=np.int64))
    best = np.append(0.0, np.cumsum(weights))
    best = np.where(empty, 1.0, best[np.minimum(n_useful, length)])
    return np.where(empty, np.nan, mean / best)


@dataclass(frozen=True)
class Bounded:
    """The values of one measure, with their bounds; arrays of shape (n_queries,).

    Attributes:
        value: the raw values.
        lower: their lower bounds, 0 when normalized.
        upper: their upper bounds, 1 when normalized.
        worst: the worst raw value of any ranking, for missing queries.
        worst_normalized: the worst normalized value.
    """

    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    worst: FloatArray
    worst_normalized: float

    def normalized(self) -> FloatArray:
        """Return (value - lower) / (upper - lower); NaN if the two bounds are equal."""
        width = np.where(self.equal_bounds, np.nan, self.upper - self.lower)
        return (self.value - self.lower) / width

    @property
    def equal_bounds(self) -> BoolArray:
        """Whether the two bounds are equal, up to rounding."""
        return np.asarray(
            self.upper - self.lower <= 1e-12 * np.maximum(np.abs(self.upper), 1.0), dtype=bool
        )


@dataclass(frozen=True)
class ExposureValues:
    """EE-D, EE-R and EE-L of all queries.

    Attributes:
        disparity: EE-D, the squared norm of exposure.
        relevance: EE-R, the inner product of exposure and target.
        loss: EE-L, the squared distance of exposure and target.
    """

    disparity: Bounded
    relevance: Bounded
    loss: Bounded


def values_and_bounds(
    exposure: FloatArray,
    pair_query: IntArray,
    grades: Grades,
    ranks: RankWeights,
    cutoff: int | None,
    *,
    exact: bool,
    closed: bool = True,
) -> ExposureValues:
    """Return the values of the paper's definition.

    The paper's bounds are EE-D in [0, sum of squared weights], EE-R in [0, squared norm of the
    target], and EE-L in [0, sum of both upper bounds]. Exact bounds are those of policies over full
    rankings of the query's n documents: EE-D is at least (sum of weights)^2 / n, and EE-R at least
    the value of the worst order. Under a cascade (`GERR`), the upper bound of EE-R is the largest
    value of any order, which may exceed the target's squared norm, because documents that are not
    useful stop no user; the exact lower bound of EE-D and upper bound of EE-L cannot always be
    reached.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        grades: the grades, including the one of documents that are not useful.
        ranks: the attention on ranks, up to the documents of a query or the cutoff.
        cutoff: the measure's cutoff, or `None`.
        exact: whether to use the exact bounds.
        closed: whether no ranking can have more documents than `grades`. If false, the worst raw
            values are over any number of documents; NaN if unbounded.
    """
    n_queries, n, n_useful = grades.n_queries, grades.n_documents, grades.n_useful
    target = ranks.target(grades)
    disparity = sum_by_index(pair_query, exposure**2, n_queries)
    relevance = inner(exposure, target, pair_query, grades)
    squares = grades.size * target**2
    square = grades.per_query(squares)
    zero = np.zeros(n_queries)
    highest = ranks.largest_square(n, n_useful)
    worst_disparity, worst_square = highest, square
    if not closed:
        # If the n documents fill the ranks, more documents only lower the targets of those that are
        # not useful. Otherwise their squared norm is at most that of their ranks (Cauchy-Schwarz).
        worst_disparity = np.full(n_queries, ranks.whole_square)
        filled = np.zeros(n_queries, dtype=bool) if cutoff is None else n >= cutoff
        below = np.full(n_queries, ranks.whole_square)
        if not ranks.rises:
            below -= ranks.largest_square(n_useful, 0 * n_useful)
        useful = grades.per_query(squares * grades.useful)
        worst_square = np.where(filled, square, useful + below)
    lowest, worst, best = zero, zero, square
    if exact:
        ideal = ranks.ideal(n, n_useful, n)
        lowest = np.where(n > 0, ideal**2 / np.maximum(n, 1), 0.0)
        worst = worst_relevance(grades, target, ranks)
    if ranks.stop > 0:
        best = cascade_relevance(grades, target, ranks, worst=False)
    most = highest - 2 * worst + square
    return ExposureValues(
        Bounded(disparity, lowest, highest, worst_disparity, 1.0),
        Bounded(relevance, worst, best, zero, 0.0),
        Bounded(
            disparity - 2 * relevance + square, zero, most, worst_disparity + worst_square, 1.0
        ),
    )


def worst_relevance(grades: Grades, target: FloatArray, ranks: RankWeights) -> FloatArray:
    """Return the smallest EE-R of any ranking of all documents; shape (n_queries,).

    Unless the model is a cascade, this ranking has the grades in reverse order.
    """
    if ranks.stop > 0:
        return cascade_relevance(grades, target, ranks, worst=True)
    n = grades.n_documents[grades.query]
    below = n - grades.above - grades.size
    none = np.zeros_like(below)
    gained = ranks.ideal(below + grades.size, none, n) - ranks.ideal(below, none, n)
    return grades.per_query(target * gained)


def cascade_relevance(
    grades: Grades, target: FloatArray, ranks: RankWeights, *, worst: bool
) -> FloatArray:
    """Return the largest or smallest EE-R of any ranking of all documents under a cascade.

    A useful document takes attention from all documents below, so the best order does not follow
    from the targets alone. Useful documents are sorted by target, because swapping two of them
    affects no others. A dynamic program, from the last rank up, then chooses whether each rank has
    a useful document. Weights must not rise with the rank.

    Args:
        grades: the grades, including the one of documents that are not useful.
        target: target exposure of a document of each grade; shape (n_grades,).
        ranks: the weights of the ranks of a cascade.
        worst: whether to return the smallest value.

    Returns:
        Shape (n_queries,).
    """
    n, n_useful = grades.n_documents, grades.n_useful
    weight = ranks.weight
    felt = np.flatnonzero(weight > 1e-18)  # smaller weights change no digit
    depth = int(felt[-1]) + 1 if len(felt) else 0
    width = min(int(n_useful.max(initial=0)), depth) + 1
    grade = _by_place(grades, target, width, reverse=worst)
    plain = np.zeros(grades.n_queries)
    plain[grades.query[~grades.useful]] = target[~grades.useful]
    better = np.minimum if worst else np.maximum
    impossible = np.inf if worst else -np.inf
    above = np.arange(width)
    stopped = (1.0 - ranks.stop) ** above
    value = np.zeros((grades.n_queries, width))
    for rank in range(depth - 1, -1, -1):
        gain = weight[rank] * stopped
        useful = np.full_like(value, impossible)
        useful[:, :-1] = (gain * grade)[:, :-1] + value[:, 1:]
        useful[above >= n_useful[:, None]] = impossible
        other = gain * plain[:, None] + value
        other[rank - above >= (n - n_useful)[:, None]] = impossible
        ended = (rank >= n)[:, None] | (above > rank)
        value = np.where(ended, 0.0, better(useful, other))
    return value[:, 0]


def _by_place(grades: Grades, target: FloatArray, width: int, *, reverse: bool) -> FloatArray:
    """Return the sorted targets of each query's useful documents; shape (n_queries, width).

    The best come first, or last if `reverse`; missing ones are 0.
    """
    useful = np.flatnonzero(grades.useful)
    begin, size = grades.above[useful], grades.size[useful]
    if reverse:
        begin = grades.n_useful[grades.query[useful]] - begin - size
    size = np.minimum(begin + size, width) - np.minimum(begin, width)
    owner, index = members(size)
    result = np.zeros((grades.n_queries, width))
    result[grades.query[useful][owner], begin[owner] + index] = target[useful][owner]
    return result
