"""The reranking of FA*IR: merge the documents of all groups, so that prefixes are fair if possible.

The `margin` of a test is above 0 for a fair prefix, and larger if it is further from unfair. Its
arguments are the query of each prefix, shape (n,), and the number of documents of each group in it,
shape (n, n_groups).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk_baselines.fa_star_ir.prefix_tests import MTable, MultinomialTest, multinomial_cdf

MOST_STATES = 20_000  # vectors of counts for one rank; the search is given up beyond


@dataclass(frozen=True)
class BinomialPrefixes:
    """The m-table of each query, shape (n_queries, k), for one group of all protected documents."""

    needed: IntArray
    n_groups = 1

    @classmethod
    def of(cls, tables: Sequence[MTable | None], k: int) -> BinomialPrefixes:
        """Return the test of each query's m-table; `None` for no test."""
        rows = [[0] * k if table is None else table.needed for table in tables]
        return cls(np.array(rows, dtype=np.int64).reshape(len(tables), k))

    @property
    def k(self) -> int:
        """The length of the longest prefix to test."""
        return int(self.needed.shape[1])

    def margin(self, query: IntArray, length: int, counts: IntArray) -> FloatArray:
        """Return 1 plus the number of documents above the minimum of each prefix."""
        more = counts[:, 0] - self.needed[query, length - 1]
        return np.asarray(more + 1, dtype=np.float64)


@dataclass(frozen=True)
class MultinomialPrefixes:
    """The test of multinomial FA*IR for each query."""

    k: int  # the length of the longest prefix to test
    p: FloatArray  # minimum shares, 0 for groups not in a query; shape (n_queries, n_groups)
    limit: FloatArray  # significance of single tests, below 0 for no test; shape (n_queries,)

    @classmethod
    def of(cls, tests: Sequence[MultinomialTest | None], k: int) -> MultinomialPrefixes:
        """Return the tests of the queries; `None` for no test."""
        widest = max((len(test.p) for test in tests if test), default=1)
        p = np.zeros((len(tests), widest))
        limit = np.full(len(tests), -1.0)
        for row, test in enumerate(tests):
            if test:
                p[row, : len(test.p)] = test.p
                limit[row] = test.limit
        return cls(k, p, limit)

    @property
    def n_groups(self) -> int:
        """The maximum number of groups of a query."""
        return int(self.p.shape[1])

    def margin(self, query: IntArray, length: int, counts: IntArray) -> FloatArray:
        """Return the distribution function at the counts, minus the significance of the query."""
        return np.asarray(multinomial_cdf(counts, length, self.p[query]) - self.limit[query])


PrefixTest = BinomialPrefixes | MultinomialPrefixes


@dataclass(frozen=True)
class Merged:
    """Rankings in their new order."""

    order: IntArray  # the row for each position; rankings keep their positions
    unfair: IntArray  # length of the first unfair prefix of each ranking; 0 if all are fair


def merge(start: IntArray, group: IntArray, test: PrefixTest) -> Merged:
    """Return rankings in which all prefixes are fair if possible, with as few changes as possible.

    As in FA*IR (Zehlike et al. 2017, Algorithm 2), each rank gets the best remaining document if
    the prefix is then fair, otherwise the best document of the groups that make it fair. With
    several groups, this may lead to a rank where no document makes the prefix fair, although
    another earlier choice would have; these rankings are computed again with `longest_fair_path`.
    Of all orders with the longest possible fair prefix, the result is the one whose first
    difference from any other is a document that ranks higher in the input.

    If no document makes a prefix fair, the document that comes closest is taken; with one group,
    this is a protected document if there is one, otherwise the best remaining document. Documents
    below the last tested prefix keep their order.

    Args:
        start: the first row of each ranking, and the number of rows, which are sorted by score.
        group: the protected group of each row; 0 if not protected.
        test: the test.
    """
    merged = _merge(start, group, test, {})
    if test.n_groups < 2:
        return merged
    paths = {
        ranking: longest_fair_path(group[start[ranking] : start[ranking + 1]], test, ranking)
        for ranking in np.flatnonzero(merged.unfair).tolist()
    }
    better = {r: path for r, path in paths.items() if len(path) >= merged.unfair[r]}
    return _merge(start, group, test, better) if better else merged


def _merge(
    start: IntArray, group: IntArray, test: PrefixTest, paths: Mapping[int, IntArray]
) -> Merged:
    """Return the greedy order; `paths` has the groups of the first ranks of some rankings."""
    n, groups, rows = len(start) - 1, test.n_groups + 1, len(group)
    size = np.diff(start)
    places = min(test.k, int(size.max(initial=0)))
    given = np.full((n, places), -1, dtype=np.int64)
    for ranking, path in paths.items():
        given[ranking, : len(path)] = path
    queue = np.repeat(np.arange(n), size) * groups + group
    queued = np.append(np.argsort(queue, kind="stable"), rows)  # rows: no row
    ends = np.cumsum(np.bincount(queue, minlength=n * groups)).reshape(n, groups)
    nexts = np.concatenate([[0], ends.ravel()[:-1]]).reshape(n, groups) if n else ends.copy()
    counts = np.zeros((n, groups), dtype=np.int64)
    order = np.arange(rows)
    unfair = np.zeros(n, dtype=np.int64)
    for place in range(places):
        live = np.flatnonzero(size > place)
        heads = np.where(nexts[live] < ends[live], queued[nexts[live]], rows)
        taken, fair = _choose(test, live, place + 1, counts[live], heads, rows)
        known = given[live, place] >= 0
        taken, fair = np.where(known, given[live, place], taken), fair | known
        order[start[live] + place] = heads[np.arange(len(live)), taken]
        nexts[live, taken] += 1
        counts[live, taken] += 1
        first = live[~fair & (unfair[live] == 0)]
        unfair[first] = place + 1
    rest = np.arange(rows) - np.repeat(start[:-1], size) >= test.k
    used = np.zeros(rows, dtype=bool)
    used[order[~rest]] = True
    order[rest] = np.flatnonzero(~used)  # in their old order
    return Merged(order, unfair)


def first_unfair(start: IntArray, group: IntArray, test: PrefixTest) -> tuple[IntArray, IntArray]:
    """Return the first unfair prefix of each ranking, without changing the order.

    Returns:
        Its length, 0 if all are fair, shape (n_rankings,); and the number of documents of each
        group in the first k ranks, shape (n_rankings, n_groups).
    """
    size = np.diff(start)
    counts = np.zeros((len(size), test.n_groups + 1), dtype=np.int64)
    unfair = np.zeros(len(size), dtype=np.int64)
    for place in range(min(test.k, int(size.max(initial=0)))):
        live = np.flatnonzero(size > place)
        counts[live, group[start[live] + place]] += 1
        fair = test.margin(live, place + 1, counts[live, 1:]) > 0
        first = live[~fair & (unfair[live] == 0)]
        unfair[first] = place + 1
    return unfair, counts[:, 1:]


def _choose(
    test: PrefixTest, live: IntArray, length: int, counts: IntArray, heads: IntArray, none: int
) -> tuple[IntArray, BoolArray]:
    """Return the group of each ranking's next document, and whether the prefix is then fair.

    `counts` are the documents of each group so far; `heads` has the best remaining row of each
    group, or the value `none`.
    """
    taken = np.argmin(heads, axis=1)
    tried = counts.copy()
    tried[np.arange(len(live)), taken] += 1
    fair = test.margin(live, length, tried[:, 1:]) > 0
    due = np.flatnonzero(~fair)
    if len(due):
        groups = heads.shape[1]
        tried = counts[due][:, None, :] + np.eye(groups, dtype=np.int64)
        margin = test.margin(np.repeat(live[due], groups), length, tried.reshape(-1, groups)[:, 1:])
        margin = np.where(heads[due] < none, margin.reshape(-1, groups), -np.inf)
        fair[due] = (margin > 0).any(axis=1)
        suits = np.where(fair[due][:, None], margin > 0, margin == margin.max(axis=1)[:, None])
        taken[due] = np.argmin(np.where(suits, heads[due], none), axis=1)
    return taken, fair


def longest_fair_path(group: IntArray, test: PrefixTest, query: int) -> IntArray:
    """Return the group at each rank in the best order with the longest fair prefix.

    The best order has at each rank the document that ranks highest in the input, among the orders
    with the longest fair prefix. The search enumerates the vectors of counts of fair prefixes, rank
    by rank, and keeps those that lead to the longest prefix. The result is empty if there are too
    many. `group` has the groups of one `query`, as in `merge`.
    """
    groups, places = test.n_groups + 1, min(test.k, len(group))
    there = np.bincount(group, minlength=groups)
    base = np.minimum(there, places) + 1
    if np.log2(base).sum() > 62:  # their numbers would not fit
        return np.zeros(0, dtype=np.int64)
    step = np.cumprod(np.append(1, base[:-1]))
    one = np.eye(groups, dtype=np.int64)
    levels = [np.zeros((1, groups), dtype=np.int64)]
    for length in range(1, places + 1):
        grown = (levels[-1][:, None, :] + one).reshape(-1, groups)
        grown = grown[(grown <= there).all(axis=1)]
        grown = grown[np.unique(grown @ step, return_index=True)[1]]
        if len(grown) > MOST_STATES:
            return np.zeros(0, dtype=np.int64)
        grown = grown[test.margin(np.full(len(grown), query), length, grown[:, 1:]) > 0]
        if not len(grown):
            break
        levels.append(grown)
    alive = [levels[-1] @ step]
    for level in levels[-2::-1]:
        number = level @ step
        alive.append(number[np.isin(number[:, None] + step, alive[-1]).any(axis=1)])
    alive.reverse()
    rows = [np.flatnonzero(group == kind) for kind in range(groups)]
    counts, path = np.zeros(groups, dtype=np.int64), []
    for keeps in alive[1:]:
        heads = [rows[g][counts[g]] if counts[g] < there[g] else len(group) for g in range(groups)]
        fits = np.isin(counts @ step + step, keeps) & (counts < there)
        taken = int(np.argmin(np.where(fits, heads, len(group))))
        counts[taken] += 1
        path.append(taken)
    return np.array(path, dtype=np.int64)
