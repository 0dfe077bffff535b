import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.statistics import paired_test
from fairtk.statistics.tests import TESTS, sign_flip_means

GENERATOR = np.random.default_rng(11)
X, Y = GENERATOR.random((2, 15))
LONG_X = GENERATOR.random(200)
LONG_Y = LONG_X + GENERATOR.normal(0.02, 0.1, 200)


def test_t_is_scipys():
    found = paired_test(X, Y)
    theirs = stats.ttest_rel(X, Y)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-12)
    interval = theirs.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.difference == pytest.approx((X - Y).mean()) and found.n == 15
    assert found.effect == pytest.approx(theirs.statistic / math.sqrt(15))
    assert found.note == ""


def test_wilcoxon_ranks_are_those_of_exact_differences():
    # 0.3 - 0.1 and 0.5 - 0.3 differ in their last bit only: they share a rank
    x, y = [0.3, 0.5, 0.1, 0.9, 0.4], [0.1, 0.3, 0.4, 0.2, 0.35]
    assert 0.3 - 0.1 != 0.5 - 0.3
    tied = stats.wilcoxon([20, 20, -30, 70, 5], correction=True, method="asymptotic")
    assert paired_test(x, y, "wilcoxon").p == pytest.approx(tied.pvalue)


def test_randomization_by_hand():
    # sums of +-1 +-2 +-3: 6 and -6 of eight are as far out as 6
    assert paired_test([1, 2, 3], [0, 0, 0], "randomization").p == 2 / 8
    # 0.1 + 0.2 - 0.3 is not 0 in floating point, yet all eight sums are at least as far out as 0
    assert paired_test([0.1, 0.2, -0.3], [0, 0, 0], "randomization").p == 1


def test_randomization_is_scipys():
    theirs = stats.permutation_test(
        (X[:10], Y[:10]), lambda a, b, axis: (a - b).mean(axis), vectorized=True,
        permutation_type="samples",
    )  # fmt: skip
    assert paired_test(X[:10], Y[:10], "randomization").p == pytest.approx(theirs.pvalue)


def test_drawn_flips_are_near_exact_ones():
    x, y = X - 0.1, Y
    exact = paired_test(x, y, "randomization").p
    # six more pairs that differ by next to nothing: drawn, and the p-value can hardly move
    more = np.concatenate([x, np.full(6, 1e-6)]), np.concatenate([y, np.zeros(6)])
    drawn = paired_test(*more, "randomization", resamples=40_000).p
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000))
    assert paired_test(LONG_X + 1, LONG_Y, "randomization", resamples=999).p == 1 / 1000


@given(shift=st.floats(-0.4, 0.4), confidence=st.sampled_from([0.8, 0.95]), seed=st.integers(0, 99))
@pytest.mark.parametrize("test", TESTS)
def test_p_and_interval_agree(test, shift, confidence, seed):
    for x, y in ((X, Y), (LONG_X[:40], LONG_Y[:40])):
        found = paired_test(x + shift, y, test, confidence=confidence, resamples=499, seed=seed)
        assert (found.p > 1 - confidence) == (found.low <= 0 <= found.high)


@given(
    whole=st.lists(st.integers(-3, 4), min_size=6, max_size=24).filter(lambda d: len(set(d)) > 1),
    scale=st.sampled_from([1.0, 0.1, 0.3, 1 / 3]),
    confidence=st.sampled_from([0.5, 0.9, 0.95]),
)
@example(whole=[0, 0, 2, 3, -2, 3], scale=0.1, confidence=0.95)
def test_randomization_interval_holds_0_exactly_when_p_says_so(whole, scale, confidence):
    """Ties, zeros and rounding included, exact or drawn."""
    d, none = np.array(whole, dtype=float) * scale, np.zeros(len(whole))
    assume(d.any())
    found = paired_test(d, none, "randomization", confidence=confidence, resamples=199)
    if not math.isnan(found.low):
        assert (found.p > 1 - confidence) == (found.low <= 0 <= found.high)
    unit = paired_test(whole, none, "randomization", confidence=confidence, resamples=199)
    assert found.p == unit.p


@given(
    values=st.lists(st.integers(-9, 9), min_size=2, max_size=8, unique=True),
    shift=st.integers(-40, 40).map(lambda n: n / 4 + 0.1),
)
def test_a_sign_vector_counts_between_its_two_means(values, shift):
    """All sign vectors tried at a shift by brute force, against the two means of each."""
    d = np.sort(np.array(values, dtype=float))
    signs = np.array(list(itertools.product([1, -1], repeat=len(d))))
    far = np.abs((signs * (d - shift)).sum(axis=1)) >= abs((d - shift).sum()) - 1e-9
    low, high = sign_flip_means(d, 1, 1)
    assert len(low) == len(signs) / 2
    assert ((low <= shift) & (shift <= high)).mean() == far.mean()


def test_randomization_interval_by_hand():
    # differences 1 to 6: 32 pairs of mirrored sign vectors. At 90 % at least 4 of them must count,
    # since 3 / 32 is below .1. The smaller means are none (the identity), 1 (of 1 alone), 1.5 (1
    # and 2), 2 (2 alone; 1 and 3; 1, 2 and 3), ...: the fourth smallest is 2
    found = paired_test(np.arange(1, 7), np.zeros(6), "randomization", confidence=0.9)
    assert found.p == 1 / 32  # all others have a mean nearer to 0 than 3.5
    assert (found.low, found.high) == (2, 5)
    assert (found.estimate, found.estimand, found.difference) == (3.5, "mean", 3.5)


def test_zeros_count_in_randomization_and_not_in_wilcoxon():
    x = [0, 0, 0, 1, 2, 3, 4, 5, 6]
    wilcoxon = paired_test(x, np.zeros(9), "wilcoxon")
    assert wilcoxon.p == paired_test(x[3:], np.zeros(6), "wilcoxon").p == 2 / 64
    # the median of the Walsh averages of 1 to 6; no zeros
    assert (wilcoxon.estimate, wilcoxon.estimand, wilcoxon.n_zeros) == (3.5, "pseudomedian", 3)
    assert wilcoxon.difference == pytest.approx(21 / 9)
    randomization = paired_test(x, np.zeros(9), "randomization")
    assert randomization.p == 2 / 64  # zeros double every sign vector
    # a smaller mean of a sign vector with zeros is nearer to 0
    assert randomization.low < paired_test(x[3:], np.zeros(6), "randomization").low


@pytest.mark.parametrize(("test", "n"), [("randomization", 5), ("wilcoxon", 5)])
def test_five_differences_have_no_bounded_interval(test, n):
    found = paired_test(np.arange(1, n + 1), np.zeros(n), test)
    assert found.p == 2 / 2**n and math.isnan(found.low) and math.isnan(found.high)
    assert found.note.startswith("5 differences are too few")
    six = paired_test(np.arange(1, n + 2), np.zeros(n + 1), test)
    assert six.note == "" and six.p == 2 / 2 ** (n + 1) and 0 < six.low < six.estimate < six.high
    # zeros do not count
    zeros = paired_test([0, 0, 1, 2, 3, 4, 5], np.zeros(7), "wilcoxon")
    assert math.isnan(zeros.low) and zeros.note.startswith("5 differences other than 0")
    # they count in a randomization test, whose drawn vectors may be too few, too
    assert paired_test([0, 1, 2, 3], np.zeros(4), "randomization").note.startswith("4 differences")
    drawn = paired_test(np.arange(30), np.zeros(30), "randomization", resamples=9)
    assert math.isnan(drawn.low) and drawn.note.startswith("9 resamples")


def test_wilcoxon_interval_by_hand():
    # P(W <= 0) = 1 / 64: at 95 % a sum of 0 is rejected (2 / 64), a sum of 1 is not (4 / 64), so
    # the sum may be 1 to 20, as it is from the smallest Walsh average of 1 to 6 to the largest
    found = paired_test(np.arange(1, 7), np.zeros(6), "wilcoxon")
    assert (found.low, found.high) == (1, 6)
    # 1 to 7: P(W <= 2) = 3 / 128, so 2 is rejected: the third smallest of 1, 1.5, 2, 2, ...
    found = paired_test(np.arange(1, 8), np.zeros(7), "wilcoxon")
    assert (found.low, found.high) == (2, 6)


@given(n=st.integers(6, 60), seed=st.integers(0, 99), ties=st.booleans())
def test_wilcoxon_is_scipys_with_and_without_ties(n, seed, ties):
    d = np.random.default_rng(seed).normal(0.3, 1, n)
    d = np.round(d, 0 if ties else 12)
    assume(len(set(d[d != 0])) > 1)
    nonzero = d[d != 0]
    exact = len(set(np.abs(nonzero))) == len(nonzero) and len(nonzero) <= 50
    theirs = stats.wilcoxon(nonzero, correction=True, method="exact" if exact else "asymptotic")
    assert paired_test(d, np.zeros(n), "wilcoxon").p == pytest.approx(theirs.pvalue, rel=1e-9)


@pytest.mark.parametrize("test", TESTS)
@settings(max_examples=15)
@given(order=st.permutations(range(15)), seed=st.integers(0, 9))
def test_order_does_not_matter_and_sides_mirror(test, order, seed):
    options = {"test": test, "resamples": 99, "seed": seed}
    found = paired_test(X, Y, **options)
    assert paired_test(X[order], Y[order], **options) == found
    mirrored = paired_test(Y, X, **options)
    assert mirrored.difference == pytest.approx(-found.difference)
    assert mirrored.p == pytest.approx(found.p)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))
    assert 0 < found.p <= 1


@pytest.mark.parametrize("test", TESTS)
def test_undefined_pairs_are_left_out(test):
    x, y = X.copy(), Y.copy()
    x[2] = y[7] = np.nan
    found = paired_test(x, y, test, resamples=99)
    assert found.n == 13
    assert found == paired_test(np.delete(X, [2, 7]), np.delete(Y, [2, 7]), test, resamples=99)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(
    "x, y, n, difference, note",
    [
        ([], [], 0, math.nan, "no pair is defined"),
        ([math.nan], [1], 0, math.nan, "no pair is defined"),
        ([1], [0.5], 1, 0.5, "only one pair is defined"),
        ([1, 2], [1, 2], 2, 0, "all differences are 0"),
        ([0.1 + 0.2, 0.5], [0.3, 0.5], 2, 0, "all differences are 0"),
    ],
)
def test_nothing_to_test(test, x, y, n, difference, note):
    found = paired_test(x, y, test)
    assert (found.n, found.note) == (n, note)
    assert found.difference == pytest.approx(difference, nan_ok=True)
    assert np.isnan([found.p, found.low, found.high, found.effect]).all()


def test_small_differences_are_differences():
    # 1, 2, 3 and a billionth of them have the same t, so the same p
    found = paired_test([1e-9, 2e-9, 3e-9], [0, 0, 0])
    assert found.p == pytest.approx(paired_test([1, 2, 3], [0, 0, 0]).p) and found.note == ""


def test_the_default_seed():
    # 30 signs cannot all be tried out, so p is of those that the seed draws
    x = np.random.default_rng(1).normal(0.3, 1, 30)
    found = [paired_test(x, 0 * x, "randomization", **seed) for seed in ({}, {"seed": 42})]
    assert found[0] == found[1] != paired_test(x, 0 * x, "randomization", seed=43)


def test_batches_are_one_draw(monkeypatch):
    whole = [paired_test(LONG_X, LONG_Y, test, resamples=500) for test in TESTS]
    monkeypatch.setattr("fairtk.statistics.bootstrap._MOST_NUMBERS", 200 * 64)
    assert [paired_test(LONG_X, LONG_Y, test, resamples=500) for test in TESTS] == whole


def test_wrong_input():
    with pytest.raises(NotFoundError, match="'student'"):
        paired_test(X, Y, "student")
    with pytest.raises(InputError, match="got 15.*14"):
        paired_test(X, Y[1:])
    with pytest.raises(InputError, match="got inf"):
        paired_test([1, 2], [1, math.inf])
    with pytest.raises(ParameterError, match="confidence"):
        paired_test(X, Y, confidence=1)
    with pytest.raises(ParameterError, match="resamples"):
        paired_test(X, Y, resamples=True)
