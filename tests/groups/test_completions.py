"""Bounds over all completions, against a search."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.groups.bounds import jensen_shannon_bounds
from fairtk.groups.divergences import js_divergence
from fairtk.groups.rows import SparseRows


def rows(dense):
    return SparseRows.of_dense(np.atleast_2d(np.asarray(dense, dtype=float)))


def test_bounds_by_hand():
    # nothing known, target (1/2, 1/2): splitting evenly is perfect, all in one level the worst
    known = np.ones(2, dtype=bool)
    low, high = jensen_shannon_bounds(rows([0, 0]), np.ones(1), rows([1, 1]), known)
    assert low[0] == 0
    assert high[0] == pytest.approx(0.75 * np.log(4 / 3))
    # everything known: both are the divergence itself
    low, high = jensen_shannon_bounds(rows([3, 1]), np.zeros(1), rows([1, 1]), known)
    assert low == high == js_divergence(rows([3, 1]), rows([1, 1]))
    # 1 known in the first level, 1 free: (1, 1) is reached
    low, _ = jensen_shannon_bounds(rows([1, 0]), np.ones(1), rows([1, 1]), known)
    assert low[0] == 0
    # 3 known in the first level, 1 free: the best is (3, 1)
    low, _ = jensen_shannon_bounds(rows([3, 0]), np.ones(1), rows([1, 1]), known)
    assert low == js_divergence(rows([3, 1]), rows([1, 1]))


def test_undefined_rows_are_nan():
    known = np.array([False, True, True])
    target = rows([[0, 1, 1], [1, 0, 0], [0, 0, 0]])
    shown = rows([[0, 0, 0], [0, 1, 0], [0, 1, 0]])
    low, high = jensen_shannon_bounds(shown, np.zeros(3), target, known)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


shares = st.lists(st.integers(0, 5), min_size=3, max_size=3)


@given(shares, shares.filter(any), st.integers(1, 3))
def test_every_completion_lies_between(fixed, target, free):
    known = np.ones(3, dtype=bool)
    low, high = jensen_shannon_bounds(rows(fixed), np.array([float(free)]), rows(target), known)
    steps = 4  # quarters of a document
    reached = []
    for parts in itertools.product(range(free * steps + 1), repeat=3):
        if sum(parts) == free * steps:
            filled = np.array(fixed) + np.array(parts) / steps
            reached.append(js_divergence(rows(filled), rows(target))[0])
    assert min(reached) >= low[0] - 1e-12
    assert max(reached) == pytest.approx(high[0], abs=1e-12)
    assert min(reached) <= low[0] + 0.1  # the grid comes near
