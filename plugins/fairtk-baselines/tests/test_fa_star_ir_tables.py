"""FA*IR's m-tables: published values, definitions, enumeration of all rankings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fairtk_baselines.fa_star_ir import fail_probability, mtable
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

from fairtk.errors import ParameterError

SHARES = st.sampled_from([0.05, 0.2, 0.25, 1 / 3, 0.5, 0.7, 0.98])
ALPHAS = st.sampled_from([0.01, 0.05, 0.1, 0.15, 0.3])

# The tables in the tests of the authors' package fairsearch-fair-python.
PUBLISHED = [
    (10, 0.2, 0.15, "none", [0] * 8 + [1, 1]),
    (20, 0.25, 0.1, "none", [0] * 8 + [1] * 6 + [2] * 5 + [3]),
    (30, 0.3, 0.05, "none", [0] * 8 + [1] * 5 + [2] * 5 + [3] * 5 + [4] * 4 + [5] * 3),
    (10, 0.2, 0.15, "nearest", [0] * 8 + [1, 1]),
    (20, 0.25, 0.1, "nearest", [0] * 8 + [1] * 7 + [2] * 5),
    (30, 0.3, 0.05, "nearest", [0] * 10 + [1] * 6 + [2] * 5 + [3] * 4 + [4] * 5),
]


@pytest.mark.parametrize(("k", "p", "alpha", "adjust", "needed"), PUBLISHED)
def test_published_tables(k, p, alpha, adjust, needed):
    assert list(mtable(k, p, alpha, adjust).needed) == needed


@pytest.mark.parametrize(
    ("k", "p", "alpha", "adjusted", "probability"),
    [
        (10, 0.2, 0.15, 0.15, 0.134217728),  # 0.8 ** 9: no protected document in nine
        (20, 0.25, 0.1, 0.078125, 0.10515247355215251),
        (30, 0.3, 0.05, 0.0259765625, 0.04877730797178359),
    ],
)
def test_published_corrections(k, p, alpha, adjusted, probability):
    table = mtable(k, p, alpha)
    assert table.adjusted_alpha == pytest.approx(adjusted, abs=1e-12)
    assert table.fail_probability == pytest.approx(probability, abs=1e-12)


def test_the_last_position_counts():
    # The authors' package gives .11517506930977106 for this table: it leaves position 20 out, at
    # which a third protected document is needed.
    table = mtable(20, 0.25, 0.1, "none")
    assert fail_probability(table.needed[:19], 0.25) == pytest.approx(0.11517506930977106)
    assert table.fail_probability == pytest.approx(0.146887188699111)
    drawn = np.cumsum(np.random.default_rng(0).random((100_000, 20)) < 0.25, axis=1)
    for adjust, exact in (("none", 0.14689), ("nearest", 0.10515)):
        table = mtable(20, 0.25, 0.1, adjust)
        assert table.fail_probability == pytest.approx(exact, abs=5e-6)
        failed = (drawn < table.needed).any(axis=1).mean()
        assert abs(failed - exact) < 4 * np.sqrt(exact * (1 - exact) / 100_000)


def test_equality_with_alpha_is_not_fair():
    # F(0; 1, .7) is .3, and 1 - .7 in floating point is a little more than .3
    assert 1 - 0.7 > 0.3
    assert mtable(1, 0.7, 0.3, "none").needed == (1,)
    assert mtable(2, 0.5, 0.25, "none").needed == (0, 1)


@pytest.mark.parametrize("adjust", ["nearest", "below", "none"])
def test_extreme_shares(adjust):
    nothing, everything = mtable(5, 0, 0.1, adjust), mtable(5, 1, 0.1, adjust)
    assert (nothing.needed, nothing.fail_probability) == ((0,) * 5, 0)
    assert (everything.needed, everything.fail_probability) == ((1, 2, 3, 4, 5), 0)


@given(k=st.integers(1, 40), p=SHARES, alpha=ALPHAS)
def test_entries_are_the_smallest_fair_counts(k, p, alpha):
    for length, needed in enumerate(mtable(k, p, alpha, "none").needed, start=1):
        assert binom.cdf(needed, length, p) > alpha * (1 - 1e-9)
        assert needed == 0 or binom.cdf(needed - 1, length, p) <= alpha * (1 + 1e-9)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.floats(0, 1))
def test_fail_probability_by_enumeration(needed, p):
    expected = 0.0
    for ranking in itertools.product([0, 1], repeat=len(needed)):
        if (np.cumsum(ranking) < needed).any():
            expected += np.prod(np.where(ranking, p, 1 - p))
    assert fail_probability(needed, p) == pytest.approx(expected, abs=1e-12)


@given(k=st.integers(1, 12), p=SHARES, alpha=ALPHAS)
def test_correction_is_the_best_of_all_tables(k, p, alpha):
    every = {mtable(k, p, a, "none").needed for a in np.linspace(alpha / 500, alpha, 500)}
    chances = [0.0 if needed[-1] == 0 else fail_probability(needed, p) for needed in every]
    chances = np.array([0.0, *chances])
    nearest = mtable(k, p, alpha, "nearest").fail_probability
    assert abs(nearest - alpha) <= np.abs(chances - alpha).min() + 1e-12
    below = mtable(k, p, alpha, "below").fail_probability
    assert chances[chances <= alpha].max() - 1e-12 <= below <= alpha


@given(k=st.integers(1, 60), p=SHARES, alpha=ALPHAS, adjust=st.sampled_from(["nearest", "below"]))
@example(k=1, p=0.7, alpha=0.3, adjust="nearest")
def test_the_interval_gives_the_table(k, p, alpha, adjust):
    table = mtable(k, p, alpha, adjust)
    low, high = table.interval
    assert low <= table.adjusted_alpha < high
    assert table.adjusted_alpha <= alpha
    assert mtable(k, p, table.adjusted_alpha, "none").needed == table.needed
    assert fail_probability(table, p) == table.fail_probability
    if 0 < high <= alpha:
        assert mtable(k, p, high, "none").needed != table.needed
    if low > 0:
        assert mtable(k, p, low * (1 - 1e-9), "none").needed != table.needed


def test_large_tables():
    table = mtable(1500, 0.3, 0.1, "below")
    assert 0.0995 < table.fail_probability <= 0.1
    drawn = np.random.default_rng(1).random((20_000, 400)) < 0.3
    small = mtable(400, 0.3)
    failed = (np.cumsum(drawn, axis=1) < small.needed).any(axis=1).mean()
    assert abs(failed - small.fail_probability) < 4 * np.sqrt(0.1 * 0.9 / 20_000)


def test_rare_failures_keep_their_digits():
    # all of 30 documents unprotected: .25 ** 30, far below the rounding of 1 - (1 - x)
    assert fail_probability([0] * 29 + [1], 0.75) == pytest.approx(0.25**30, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((0, 0.5, 0.1), "k must be"),
        ((2.5, 0.5, 0.1), "k must be"),
        ((10, 1.5, 0.1), r"p must be in \[0, 1\]"),
        ((10, float("nan"), 0.1), r"p must be in \[0, 1\]"),
        ((10, "half", 0.1), r"p must be in \[0, 1\]"),
        ((10, 0.5, 0), "alpha must be in"),
        ((10, 0.5, 1), "alpha must be in"),
        ((10, 0.5, 0.1, "nearly"), "adjust must be one of .*'nearest'"),
        ((10, 0.5, 0.1, True), "adjust must be"),
    ],
)
def test_arguments_out_of_range(arguments, word):
    with pytest.raises(ParameterError, match=word):
        mtable(*arguments)


@pytest.mark.parametrize("needed", [[], [0, -1], [0.5]])
def test_tables_that_are_none(needed):
    with pytest.raises(ParameterError, match="m-table"):
        fail_probability(needed, 0.5)
