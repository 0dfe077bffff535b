"""FA*IR's order against the algorithm as it is written down, one ranking at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fairtk_baselines.fa_star_ir import merging, mtable, multinomial_test
from fairtk_baselines.fa_star_ir.merging import (
    BinomialPrefixes,
    MultinomialPrefixes,
    first_unfair,
    merge,
)
from fairtk_baselines.fa_star_ir.prefix_tests import multinomial_cdf
from hypothesis import example, given
from hypothesis import strategies as st

RANKINGS = st.lists(st.lists(st.integers(0, 1), max_size=14), min_size=1, max_size=5)


def two_queues(protected, needed):
    """Merge one ranking with two queues (Zehlike et al. 2017, Algorithm 2); rest in old order."""
    queues = [[i for i, g in enumerate(protected) if g == kind] for kind in (0, 1)]
    order, shown = [], 0
    for least in needed[: len(protected)]:
        one, two = queues
        take = bool(two) and (not one or shown < least or two[0] < one[0])
        order.append(queues[take].pop(0))
        shown += take
    return order + sorted(queues[0] + queues[1])


def flat(rankings):
    start = np.cumsum([0, *map(len, rankings)])
    return start, np.array([g for ranking in rankings for g in ranking], dtype=np.int64)


@given(RANKINGS, st.integers(1, 12), st.data())
def test_as_the_two_queues(rankings, k, data):
    tables = [
        mtable(k, data.draw(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])), 0.2) for _ in rankings
    ]
    test = BinomialPrefixes.of(tables, k)
    start, group = flat(rankings)
    merged = merge(start, group, test)
    for i, ranking in enumerate(rankings):
        found = merged.order[start[i] : start[i + 1]] - start[i]
        assert found.tolist() == two_queues(ranking, tables[i].needed)
        # a floor: no prefix has fewer protected documents than it had
        assert (np.cumsum(np.array(ranking, dtype=int)[found]) >= np.cumsum(ranking)).all()
    # what merge says is unfair is what a test of its output says
    unfair, _ = first_unfair(start, group[merged.order], test)
    assert unfair.tolist() == merged.unfair.tolist()
    for i, ranking in enumerate(rankings):
        if sum(ranking) >= tables[i].needed[min(k, len(ranking)) - 1] or not ranking:
            assert unfair[i] == 0


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=25), min_size=1, max_size=4),
    st.sampled_from([(0.4, 0.2), (0.5, 0.5), (0.2, 0.2)]),
    st.sampled_from([5, 12]),
)
def test_several_groups(rankings, p, k):
    found = multinomial_test(k, p, 0.2)
    test = MultinomialPrefixes.of([found] * len(rankings), k)
    start, group = flat(rankings)
    merged = merge(start, group, test)
    assert sorted(merged.order.tolist()) == list(range(len(group)))
    unfair, shown = first_unfair(start, group[merged.order], test)
    assert unfair.tolist() == merged.unfair.tolist()
    for i, ranking in enumerate(rankings):
        order = merged.order[start[i] : start[i + 1]]
        assert (order >= start[i]).all() and (order < start[i + 1]).all()
        for kind in (0, 1, 2):  # inside a group nothing changes places
            rows = order[group[order] == kind]
            assert (np.diff(rows) > 0).all()
        assert (np.diff(order[k:]) > 0).all()
        if min(ranking.count(1), ranking.count(2)) >= k:
            assert unfair[i] == 0
        top = np.array(ranking)[(order - start[i])[:k]]
        assert shown[i].tolist() == [(top == 1).sum(), (top == 2).sum()]


def fair_orders(group, fair, places):
    """Yield (length of the fair prefix, rows) of all orders that keep the order inside groups."""
    for path in set(itertools.permutations(group)):
        rows = {kind: iter(np.flatnonzero(np.array(group) == kind)) for kind in set(group)}
        order = [int(next(rows[kind])) for kind in path][:places]
        prefixes = [path[:length] for length in range(1, places + 1)]
        yield sum(1 for _ in itertools.takewhile(fair, prefixes)), order


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=7),
    st.sampled_from([(0.4, 0.2), (0.47, 0.04, 0.4), (0.5, 0.5), (0.3, 0.3, 0.3), (0.6,)]),
    st.sampled_from([0.1, 0.3, 0.5]),
    st.sampled_from(["nearest", "below", "none"]),
)
@example([1, 2, 1, 1, 2, 1, 1], (0.47, 0.04, 0.4), 0.3, "below")  # a dead end of the first try
def test_the_best_of_all_orders(group, p, alpha, adjust):
    group, k = [g % (len(p) + 1) for g in group], 5
    found = multinomial_test(k, p, alpha, adjust)
    tests = [MultinomialPrefixes.of([found], k)]
    if len(p) == 1:
        tests.append(BinomialPrefixes.of([mtable(k, p[0], alpha, adjust)], k))
    for test in tests:

        def fair(path, test=test):
            counts = np.bincount(path, minlength=test.n_groups + 1)
            return test.margin(np.array([0]), len(path), counts[None, 1:])[0] > 0

        places = min(k, len(group))
        orders = list(fair_orders(group, fair, places))
        longest = max(length for length, _ in orders)
        best = min(order[:longest] for length, order in orders if length == longest)
        merged = merge(np.array([0, len(group)]), np.array(group), test)
        assert merged.order[:longest].tolist() == best
        assert merged.unfair.tolist() == [0 if longest == places else longest + 1]


def test_a_search_that_would_be_too_large_is_given_up(monkeypatch):
    group = np.array([1, 2, 1, 1, 2, 1, 1])
    test = MultinomialPrefixes.of([multinomial_test(4, (0.47, 0.04, 0.4), 0.3, "below")], 4)
    assert merge(np.array([0, 7]), group, test).unfair.tolist() == [0]
    monkeypatch.setattr(merging, "MOST_STATES", 1)
    assert merge(np.array([0, 7]), group, test).unfair.tolist() == [4]
    wide = MultinomialPrefixes(30, np.full((1, 30), 1 / 30), np.array([0.5]))
    path = merging.longest_fair_path(np.repeat(np.arange(31), 30), wide, 0)
    assert path.tolist() == []  # vectors of counts that no 64 bits number


def test_the_best_of_several_fair_documents():
    # Five documents of no group are rejected at alpha = .3, p = (1/2, 1/4): at rank 1, F(0, 0) is
    # 1/4 and F(0, 1) is 1/2: group 2 is as good as group 1 (3/4) for the test, and ranks higher.
    p = np.array([0.5, 0.25])
    assert multinomial_cdf(np.array([[0, 0], [1, 0], [0, 1]]), 1, p) == pytest.approx(
        [0.25, 0.75, 0.5]
    )
    test = MultinomialPrefixes(1, p[None], np.array([0.3]))
    start, group = flat([[0, 0, 2, 1]])
    assert merge(start, group, test).order.tolist() == [2, 0, 1, 3]
    # a significance of .6 leaves group 1 alone
    test = MultinomialPrefixes(1, p[None], np.array([0.6]))
    assert merge(start, group, test).order.tolist() == [3, 0, 1, 2]
    # at .9 no document is fair: the nearest to it is taken, and said
    test = MultinomialPrefixes(1, p[None], np.array([0.9]))
    merged = merge(start, group, test)
    assert (merged.order.tolist(), merged.unfair.tolist()) == ([3, 0, 1, 2], [1])


def test_nothing_to_rank():
    start, group = flat([[]])
    merged = merge(start, group, BinomialPrefixes(np.array([[0, 1]])))
    assert (merged.order.tolist(), merged.unfair.tolist()) == ([], [0])
    empty = np.zeros(0, dtype=np.int64)
    merged = merge(np.array([0]), empty, BinomialPrefixes.of([], 5))
    assert (merged.order.tolist(), merged.unfair.tolist()) == ([], [])
