"""The order of FA*IR: score-sorted queues, merged so that every prefix is fair if it can be.

A test says how fair the prefixes of all queries are: its `margin` is above 0 where one is fair, and
more is further from unfair. It takes the query of each prefix, shape (n,), and its documents of
each group, (n, n_groups).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk_baselines.fa_star_ir.prefix_tests import MTable, MultinomialTest, multinomial_cdf

MOST_STATES = 20_000  # vectors of counts for one place, beyond which the search is given up


@dataclass(frozen=True)
class BinomialPrefixes:
    """FA*IR's m-table of each query, shape (n_queries, k), for one group: all that is protected."""

    needed: IntArray
    n_groups = 1

    @classmethod
    def of(cls, tables: Sequence[MTable | None], k: int) -> BinomialPrefixes:
        """Return the test of each query's m-table; None asks for nothing."""
        rows = [[0] * k if table is None else table.needed for table in tables]
        return cls(np.array(rows, dtype=np.int64).reshape(len(tables), k))

    @property
    def k(self) -> int:
        """Length of the longest prefix that is tested."""
        return int(self.needed.shape[1])

    def margin(self, query: IntArray, length: int, counts: IntArray) -> FloatArray:
        """Return how many documents more than needed a prefix has, and 1."""
        more = counts[:, 0] - self.needed[query, length - 1]
        return np.asarray(more + 1, dtype=np.float64)


@dataclass(frozen=True)
class MultinomialPrefixes:
    """The test of multinomial FA*IR for each query."""

    k: int  # length of the longest prefix that is tested
    p: FloatArray  # minimum shares, 0 for groups that a query lacks; shape (n_queries, n_groups)
    limit: FloatArray  # significance of single tests; below 0: all is fair; shape (n_queries,)

    @classmethod
    def of(cls, tests: Sequence[MultinomialTest | None], k: int) -> MultinomialPrefixes:
        """Return the tests of the queries, side by side; None asks for nothing."""
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
        """The most groups that a query counts."""
        return int(self.p.shape[1])

    def margin(self, query: IntArray, length: int, counts: IntArray) -> FloatArray:
        """Return the distribution function at the counts, less the query's significance."""
        return np.asarray(multinomial_cdf(counts, length, self.p[query]) - self.limit[query])


PrefixTest = BinomialPrefixes | MultinomialPrefixes


@dataclass(frozen=True)
class Merged:
    """Rankings in their new order."""

    order: IntArray  # the row that takes each place; rankings stay where they are
    unfair: IntArray  # length of the first prefix of each ranking that is not fair; 0: none


def merge(start: IntArray, group: IntArray, test: PrefixTest) -> Merged:
    """Return rankings in which all prefixes are fair, with as few changes as possible.

    FA*IR (Zehlike et al. 2017, Algorithm 2): place by place, the best document left is taken if the
    prefix stays fair with it; else the best one of those groups that make it fair. With several
    groups that may end where no document makes the next prefix fair although another choice before
    would have: such rankings are made again with `longest_fair_path`. So the result is, of all
    orders with a prefix as long as can be fair, the one whose first difference to any other is a
    document that ranks higher in the input.

    Where no document makes a prefix fair, the one that comes nearest is taken: with one group, a
    protected document if there is one, else the best that is left. Below the last prefix that is
    tested documents keep their order. `start` is the first row of each ranking, and the number of
    rows, which are sorted by score inside; `group` is the protected group of each row, 0: none.
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
    """Return `merge`'s first try, where `paths` do not give the groups of a ranking's places."""
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
    """Return the length of each ranking's first unfair prefix, 0 if none, in the order as it is.

    And the documents of each group among the first k, shape (n_rankings, n_groups).
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
    """Return the queue that each live ranking takes its next document from, and if that is fair.

    `counts` are those before it; `heads` the first row of each queue, `none` if it is empty.
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
    """Return the group of each place in the best of the orders with the longest fair prefix.

    Best: at each place the document that ranks highest in the input, as far as the order stays one
    of these. All vectors of counts that fair prefixes can have are looked at, place by place; only
    those from which the longest prefix is reached are kept. Empty where there are too many.
    `group` is as for `merge`, of the test's one `query`.
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
