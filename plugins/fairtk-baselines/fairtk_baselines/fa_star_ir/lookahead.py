"""Which groups the places of one ranking go to, so that it stays fair for as long as it can."""

from __future__ import annotations

import numpy as np

from fairtk.frames import IntArray
from fairtk_baselines.fa_star_ir.prefix_tests import PrefixTest

MOST_STATES = 20_000
"""Up to so many vectors of counts are looked at for one place; beyond, the search is given up."""


def longest_fair_path(group: IntArray, test: PrefixTest, query: int) -> IntArray:
    """Return the group of each place in the best of the orders with the longest fair prefix.

    Best: at each place the document that ranks highest in the input, as far as the order stays one
    of these. All vectors of counts that fair prefixes can have are looked at, place by place; only
    those from which the longest prefix is reached are kept.

    Args:
        group: the group of each document in the input's order, 0: none; shape (n,).
        test: the test.
        query: the query in the test.

    Returns:
        Groups of as many places as can be fair, `test.k` at most; shape (n_places,). Empty where
        there are too many vectors of counts.
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
