"""Multinomial FA*IR: the distribution function, the correction, the tree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fairtk_baselines.fa_star_ir import mtable, multinomial_test
from fairtk_baselines.fa_star_ir.merging import MultinomialPrefixes
from fairtk_baselines.fa_star_ir.prefix_tests import (
    CountBoxes,
    lowest_of_samples,
    multinomial_cdf,
    shared_cdf,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fairtk.errors import ParameterError

SHARES = st.sampled_from(
    [(0.5, 0.3), (0.2, 0.05), (1 / 3, 1 / 3), (0.5, 0.5), (0.4, 0.0), (0.2, 0.3, 0.1), (0.25,)]
)


def sequences(length, p):
    """Yield (counts after each document, probability) of all rankings; the rest group is last."""
    every = [*p, max(0.0, 1 - sum(p))]
    for ranking in itertools.product(range(len(every)), repeat=length):
        hits = np.array(ranking)[:, None] == np.arange(len(p))
        yield np.cumsum(hits, axis=0), float(np.prod([every[g] for g in ranking]))


@given(p=SHARES, length=st.integers(1, 5), data=st.data())
def test_distribution_by_enumeration(p, length, data):
    bound = np.array(data.draw(st.tuples(*[st.integers(0, 6)] * len(p))))
    expected = sum(chance for counts, chance in sequences(length, p) if (counts[-1] <= bound).all())
    found = multinomial_cdf(bound[None], length, np.array(p))
    assert found == pytest.approx([expected], abs=1e-12)


def test_distribution_of_many_and_long():
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 120, (50, 1))
    share = rng.random((50, 1))
    expected = binom.cdf(counts[:, 0], 400, share[:, 0])
    assert multinomial_cdf(counts, 400, share) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert multinomial_cdf(np.zeros((0, 2), dtype=int), 5, np.array([0.1, 0.2])).shape == (0,)
    # a group without a share changes nothing, to the last bit
    wide = np.hstack([counts, np.zeros_like(counts)])
    padded = multinomial_cdf(wide, 400, np.hstack([share, np.zeros_like(share)]))
    assert (padded == multinomial_cdf(counts, 400, share)).all()


@given(st.integers(1, 12), st.integers(1, 20), st.integers(0, 60), st.integers(0, 5))
def test_shared_shares_give_the_same_distribution(groups, trials, n, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(groups + 1))[:groups]
    counts = rng.poisson(1.5 * trials / (groups + 1), (n, groups))
    expected = multinomial_cdf(counts, trials, p)
    assert shared_cdf(counts, trials, p) == pytest.approx(expected, rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("p", [(0.25,), (0.3, 0.1), (0.3, 0.2, 0.1)])
def test_boxes_hold_the_distribution(p):
    boxes = CountBoxes.of(9, p)
    for length in (1, 4, 9):
        bound = np.array(list(itertools.product(range(3), repeat=len(p))))
        # the last index of an axis is no bound at all: stay below it
        assert min(boxes.cdf.shape[1:]) > 3
        found = boxes.cdf[(length - 1, *bound.T)]
        assert found == pytest.approx(multinomial_cdf(bound, length, np.array(p)), abs=1e-12)
    assert CountBoxes.fits(9, p, boxes.cdf.size) and not CountBoxes.fits(9, p, 10)


@given(k=st.integers(1, 40), p=st.sampled_from([0.02, 0.25, 0.5, 0.98, 1.0]),
       adjust=st.sampled_from(["nearest", "below", "none"]))  # fmt: skip
def test_one_group_is_the_binary_test(k, p, adjust):
    table, test = mtable(k, p, 0.1, adjust), multinomial_test(k, [p], 0.1, adjust)
    assert test.fail_probability == pytest.approx(table.fail_probability, abs=1e-9)


@pytest.mark.parametrize("adjust", ["nearest", "below", "none"])
@pytest.mark.parametrize("p", [(0.3, 0.2), (0.5, 0.5), (0.2, 0.2, 0.2)])
def test_fail_probability_by_enumeration(p, adjust):
    k = 5
    lowest, chances = [], []
    for counts, chance in sequences(k, p):
        values = [multinomial_cdf(counts[i : i + 1], i + 1, np.array(p))[0] for i in range(k)]
        lowest.append(min(values))
        chances.append(chance)
    lowest, chances = np.array(lowest), np.array(chances)
    test = multinomial_test(k, p, 0.2, adjust)
    assert test.error == 0
    failed = chances[lowest <= test.adjusted_alpha].sum()
    assert test.fail_probability == pytest.approx(failed, abs=1e-9)
    every = np.array([chances[lowest <= limit + 1e-12].sum() for limit in [-1, *lowest]])
    every = every[np.append(True, lowest <= 0.2)]
    if adjust == "none":
        assert test.adjusted_alpha == 0.2
    elif adjust == "below":
        assert failed == pytest.approx(every[every <= 0.2 + 1e-12].max(), abs=1e-9)
    else:
        assert abs(failed - 0.2) == pytest.approx(np.abs(every - 0.2).min(), abs=1e-9)


@pytest.mark.parametrize("adjust", ["nearest", "below", "none"])
@pytest.mark.parametrize(("p", "alpha", "k"), [(0.7, 0.3, 1), (0.5, 0.125, 3), (0.5, 0.0625, 4)])
def test_equality_with_alpha_is_not_fair_whatever_rounding_does(p, alpha, k, adjust):
    # k documents, none of them protected: (1 - p) ** k is alpha
    test = MultinomialPrefixes.of([multinomial_test(k, [p], alpha, adjust)], k)
    for length, needed in enumerate(mtable(k, p, alpha, adjust).needed, start=1):
        counts = np.arange(length + 1)[:, None]
        fair = test.margin(np.zeros(length + 1, dtype=int), length, counts) > 0
        assert np.argmax(fair) == needed


def test_samples_agree_with_the_exact_distribution():
    p = (0.3, 0.2, 0.05)
    exact = multinomial_test(20, p)
    lowest = lowest_of_samples(20, np.array(p), 4000, seed=1)
    error = np.sqrt(exact.fail_probability * (1 - exact.fail_probability) / 4000)
    assert abs((lowest <= exact.adjusted_alpha).mean() - exact.fail_probability) < 4 * error
    assert (lowest == lowest_of_samples(20, np.array(p), 4000, seed=1)).all()
    assert (lowest != lowest_of_samples(20, np.array(p), 4000, seed=2)).any()


def test_many_groups_are_sampled():
    p = (0.1,) * 8
    test = multinomial_test(20, p, samples=500, seed=3)
    assert 0 < test.error < 0.02
    assert abs(test.fail_probability - 0.1) < 0.01
    assert test.adjusted_alpha < 0.01
    assert test == multinomial_test(20, list(p), samples=500, seed=3)
    assert test.adjusted_alpha != multinomial_test(20, p, samples=500, seed=4).adjusted_alpha


@pytest.mark.parametrize(
    ("arguments", "options", "word"),
    [
        ((5, []), {}, "at least one group"),
        ((5, [0.6, 0.6]), {}, "at most 1 in sum"),
        ((5, [0.6, -0.1]), {}, r"p must be in \[0, 1\]"),
        ((0, [0.5]), {}, "k must be"),
        ((5, [0.5]), {"samples": 10}, "samples must be"),
        ((5, [0.5]), {"seed": -1}, "seed must be"),
    ],
)
def test_arguments_out_of_range(arguments, options, word):
    with pytest.raises(ParameterError, match=word):
        multinomial_test(*arguments, **options)
