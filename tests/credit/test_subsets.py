"""Shapley values: the axioms, brute force over all orders, and cases by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.credit.subsets import (
    Subsets,
    draw_orders,
    leave_one_out,
    max_shapley,
    prefix_masks,
    sampled_shapley,
    shapley,
)
from fairtk.errors import ColumnError, InputError

UTILITIES = st.integers(0, 5).flatmap(
    lambda k: st.lists(
        st.floats(-10, 10, allow_nan=False, width=32), min_size=1 << k, max_size=1 << k
    )
)


def brute_force(values):
    """The mean, over all orders, of what a document adds to those before it."""
    k = len(values).bit_length() - 1
    credit = np.zeros(k)
    for order in itertools.permutations(range(k)):
        mask = 0
        for document in order:
            credit[document] += values[mask | 1 << document] - values[mask]
            mask |= 1 << document
    return credit / math.factorial(k)


@given(UTILITIES)
def test_equal_to_all_orders_and_efficient(values):
    credit = shapley(values)
    assert credit == pytest.approx(brute_force(values), abs=1e-12)
    assert credit.sum() == pytest.approx(values[-1] - values[0], abs=1e-9)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_maximum_game_is_equal_to_brute_force(n, points, seed):
    x = np.random.default_rng(seed).random((n, points)).round(1)  # ties, too
    worth = np.zeros(1 << n)
    for mask in range(1, 1 << n):
        chosen = [i for i in range(n) if mask >> i & 1]
        worth[mask] = x[chosen].max(axis=0).sum()
    credit = max_shapley(x)
    assert credit == pytest.approx(shapley(worth), abs=1e-12)
    assert credit.sum() == pytest.approx(worth[-1], abs=1e-12)


def test_many_lists_at_once_and_what_is_undefined():
    values = np.random.default_rng(1).random((3, 2, 8))
    values[1, 0, 5] = np.nan
    credit = shapley(values)
    assert credit.shape == (3, 2, 3)
    assert credit[2, 1] == pytest.approx(brute_force(values[2, 1]))
    assert np.isnan(credit[1, 0]).all() and not np.isnan(credit[0]).any()
    # the mask 5 is the list without document 1 alone
    assert np.isnan(leave_one_out(values)[1, 0]).tolist() == [False, True, False]


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_all_orders_sampled_are_exact_and_additive_utilities_have_no_error(k, seed):
    rng = np.random.default_rng(seed)
    worth = rng.random(k)
    orders = draw_orders(k, 10, rng)
    masks = prefix_masks(orders)
    bits = masks[..., None] >> np.arange(k) & 1
    credit, error = sampled_shapley(bits @ worth, orders)
    assert credit == pytest.approx(worth) and error == pytest.approx(np.zeros(k), abs=1e-12)
    assert (masks[:, 0] == 0).all() and (masks[:, -1] == (1 << k) - 1).all()


def test_sampled_values_cover_the_exact_ones():
    rng = np.random.default_rng(7)
    values = rng.random(1 << 6)
    exact = shapley(values)
    hits = []
    for _ in range(200):
        orders = draw_orders(6, 60, rng)
        credit, error = sampled_shapley(values[prefix_masks(orders)], orders)
        hits.append(np.abs(credit - exact) <= 2.05 * error)  # Student's t, 29 degrees of freedom
    assert 0.93 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shapley([]), "got 0 values"),
        (lambda: shapley([0, np.inf]), r"finite or NaN, got inf at \(1,\)"),
        (lambda: max_shapley([1.0, 2.0]), "axes documents and points, got 1"),
        (lambda: max_shapley([[1.0], [-2.0]]), r"at least 0, got -2.0 at \[1, 0\]"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_rankings_with_answers_are_refused():
    # otherwise the answers would be copied to all subsets, and every credit would be 0
    run = pd.DataFrame({"qid": "1", "docno": ["a", "b"], "score": [2.0, 1.0], "qanswer": "yes"})
    with pytest.raises(ColumnError, match="qanswer"):
        Subsets("one-out")(run)
