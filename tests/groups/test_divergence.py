"""Divergences of sparse rows: hand-computed values, agreement with dense ones, edge cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon

from fairtk.errors import ParameterError
from fairtk.groups.divergences import js_divergence, kl_divergence, log_base
from fairtk.groups.rows import SparseRows


def rows(dense):
    dense = np.atleast_2d(np.asarray(dense, dtype=float))
    row, level = np.nonzero(dense)
    return SparseRows.collect(row, level, dense[row, level], *dense.shape)


weights = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
pairs = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        arrays(float, (3, n), elements=weights), arrays(float, (3, n), elements=weights)
    )  # noqa: E501
)


def test_jensen_shannon_by_hand():
    # p = (1, 0), q = (1/2, 1/2): m = (3/4, 1/4)
    # KL(p, m) = ln(4/3); KL(q, m) = (ln(2/3) + ln 2) / 2 = ln(4/3) / 2
    want = 0.75 * math.log(4 / 3)
    assert js_divergence(rows([1, 0]), rows([0.5, 0.5]))[0] == pytest.approx(want, rel=1e-14)
    assert js_divergence(rows([3, 0]), rows([7, 7]), 2)[0] == pytest.approx(want / math.log(2))
    assert js_divergence(rows([1, 0]), rows([0, 1]))[0] == pytest.approx(math.log(2), rel=1e-14)
    assert js_divergence(rows([1, 0]), rows([0, 1]), "2")[0] == 1


def test_kullback_leibler_by_hand():
    # KL((1/2, 1/2) || (1/4, 3/4)) = (ln 2 + ln(2/3)) / 2 = ln(4/3) / 2
    want = 0.5 * math.log(4 / 3)
    assert kl_divergence(rows([1, 1]), rows([1, 3]))[0] == pytest.approx(want, rel=1e-14)
    assert kl_divergence(rows([1, 1]), rows([1, 0]))[0] == math.inf
    assert kl_divergence(rows([1, 0]), rows([1, 1]), 2)[0] == pytest.approx(1)
    # smoothing 1/2 over 2 cells: (3/4, 1/4) and (1/2, 1/2); KL = .75 ln 1.5 + .25 ln .5
    want = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    got = kl_divergence(rows([1, 0]), rows([1, 1]), smoothing=0.5)
    assert got[0] == pytest.approx(want, rel=1e-13)


@given(pairs)
def test_equal_to_the_dense_computation(pair):
    p, q = pair
    got = js_divergence(rows(p), rows(q))
    for a, b, value in zip(p, q, got, strict=True):
        if not a.any() or not b.any():
            assert np.isnan(value)
            continue
        with np.errstate(invalid="ignore"):
            want = jensenshannon(a, b) ** 2
        assert value == pytest.approx(0 if np.isnan(want) else want, abs=1e-12)
        assert 0 <= value <= math.log(2) + 1e-12


def test_plain_arrays_are_rows_too():
    # p = (1/2, 1/2, 0), q = (1/2, 0, 1/2): the first level adds 0, the others ln(2) / 4 each
    p, q = (
        np.array([[1.0, 1, 0], [1, 0, 0], [0, 0, 0]]),
        np.array([[1.0, 0, 1], [0, 0, 0], [1, 1, 0]]),
    )
    got = js_divergence(p, q)
    assert got[0] == pytest.approx(math.log(2) / 2) and np.isnan(got[1:]).all()
    for smoothing in (0.0, 0.1):  # the other rows of p or q are empty
        plain, sparse = (kl_divergence(f(p), f(q), smoothing=smoothing) for f in (np.array, rows))
        assert plain[0] == sparse[0] and np.isnan([plain[1:], sparse[1:]]).all()


@given(pairs, st.floats(0.01, 0.9))
def test_smoothed_kl_is_equal_to_the_dense_one(pair, smoothing):
    p, q = pair
    got = kl_divergence(rows(p), rows(q), smoothing=smoothing)
    for a, b, value in zip(p, q, got, strict=True):
        if a.any() and b.any():
            a, b = ((1 - smoothing) * v / v.sum() + smoothing / len(v) for v in (a, b))
            assert value == pytest.approx((a * np.log(a / b)).sum(), abs=1e-12)


@given(pairs)
def test_symmetric_and_zero_for_equal_rows(pair):
    p, q = map(rows, pair)
    forth, back = js_divergence(p, q), js_divergence(q, p)
    assert np.allclose(forth, back, atol=1e-12, equal_nan=True)
    same = js_divergence(p, p.weighted(3.0 * p.weight))
    assert np.nan_to_num(same) == pytest.approx(np.zeros(3), abs=1e-15)
    assert (np.nan_to_num(js_divergence(p, p)) == 0).all()
    assert (np.nan_to_num(kl_divergence(p, p)) == 0).all()


@given(arrays(float, (4, 5), elements=weights), st.lists(st.integers(-1, 3), max_size=6))
def test_rows_can_be_taken_and_looked_up(dense, chosen):
    whole = rows(dense)
    padded = np.vstack([dense, np.zeros(5)])
    taken = whole.take(np.array(chosen, dtype=np.int64))
    assert taken.n_rows == len(chosen)
    assert (taken.dense() == padded[chosen]).all()
    row, level = np.divmod(np.arange(20), 5)
    assert (whole.lookup(row, level).reshape(4, 5) == dense).all()
    assert whole.total() == pytest.approx(dense.sum(axis=1))
    assert whole.square() == pytest.approx((dense**2).sum(axis=1))
    assert whole.expanded() is whole


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.floats(0.1, 1)), max_size=30))
def test_both_ways_to_collect_agree(entries):
    row, level, weight = (np.array(v) for v in zip(*entries, strict=True)) if entries else (
        np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))  # fmt: skip
    few = SparseRows.collect(row, level, weight, 3, 10)
    many = SparseRows.collect(row, level, weight, 3, 10**9)  # too many levels for an array
    assert (few.row == many.row).all()
    assert (few.level == many.level).all()
    assert few.weight == pytest.approx(many.weight, rel=1e-12)


def test_large_level_numbers_stay_exact():
    level = np.array([2**58, 2**58 + 1, 2**58])
    whole = SparseRows.collect(np.array([99, 99, 99]), level, np.ones(3), 100, 2**61)
    assert whole.row.tolist() == [99, 99]
    assert whole.level.tolist() == [2**58, 2**58 + 1]
    assert whole.weight.tolist() == [2, 1]
    assert whole.lookup(whole.row, whole.level).tolist() == [2, 1]


def test_settings_are_checked():
    assert log_base("e") == 1
    assert log_base("2") == log_base(2) == math.log(2)
    for base in (1, 0, -2, "x", None, math.inf, math.nan):
        with pytest.raises(ParameterError, match="'e'"):
            js_divergence(rows([1]), rows([1]), base)
    for smoothing in (-0.1, 1, math.nan):
        with pytest.raises(ParameterError, match=r"smoothing must be in \[0, 1\)"):
            kl_divergence(rows([1]), rows([1]), smoothing=smoothing)
