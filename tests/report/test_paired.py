import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.statistics import TESTS, cohens_dz, paired_test

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


def test_t_by_hand():
    # differences 1, 2, 3: mean 2, deviation 1, so t = 2 sqrt(3) with 2 degrees of freedom, whose
    # distribution function is 1/2 + t / (2 sqrt(2 + t^2)): p = 1 - t / sqrt(2 + t^2)
    statistic = 2 * math.sqrt(3)
    found = paired_test([3, 4, 5], [2, 2, 2])
    assert found.p == pytest.approx(1 - statistic / math.sqrt(2 + statistic**2))
    assert found.effect == pytest.approx(2)


def test_wilcoxon_by_hand():
    # signed ranks +1 +2 -3 +4: the negative ones sum to 3. Of 16 signs, those with a sum of at most
    # 3 are {}, {1}, {2}, {3}, {1, 2}: two-sided 2 * 5 / 16
    assert paired_test([1, 2, -3, 4], [0, 0, 0, 0], "wilcoxon").p == pytest.approx(0.625)
    assert paired_test([1, 2, -3, 4, 7], [0, 0, 0, 0, 7], "wilcoxon").p == pytest.approx(0.625)


def test_wilcoxon_is_scipys():
    assert paired_test(X, Y, "wilcoxon").p == pytest.approx(stats.wilcoxon(X, Y).pvalue)
    # 0.3 - 0.1 and 0.5 - 0.3 differ in their last bit only: they share a rank
    x, y = [0.3, 0.5, 0.1, 0.9, 0.4], [0.1, 0.3, 0.4, 0.2, 0.35]
    assert 0.3 - 0.1 != 0.5 - 0.3
    exact = stats.wilcoxon([20, 20, -30, 70, 5])
    assert paired_test(x, y, "wilcoxon").p == pytest.approx(exact.pvalue)


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


@pytest.mark.parametrize("test", TESTS)
def test_near_student_for_many_normal_differences(test):
    found = paired_test(LONG_X, LONG_Y, test, resamples=20_000)
    student = paired_test(LONG_X, LONG_Y)
    assert found.p == pytest.approx(student.p, abs=0.04)
    assert (found.low, found.high) == pytest.approx((student.low, student.high), abs=2e-3)
    assert (found.difference, found.effect) == (student.difference, student.effect)


def test_bootstrap_by_definition():
    d = np.sort(X - Y)
    drawn = d[np.random.default_rng(5).integers(0, 15, (999, 15))]
    far = abs(drawn.mean(1) - d.mean()) / (drawn.std(1, ddof=1) / math.sqrt(15))
    error = d.std(ddof=1) / math.sqrt(15)
    found = paired_test(X, Y, "bootstrap", resamples=999, seed=5)
    assert found.p == (1 + (far >= abs(d.mean()) / error).sum()) / 1000
    half = np.sort(far)[949] * error  # the 950th of 999
    assert (found.low, found.high) == pytest.approx((d.mean() - half, d.mean() + half))


@settings(max_examples=30, deadline=None)
@given(
    whole=st.lists(st.integers(-2, 3), min_size=6, max_size=6).filter(lambda d: len(set(d)) > 1),
    scale=st.sampled_from([0.1, 0.3, 1 / 3, 1 / 7]),
)
@example(whole=[0, 0, 2, 3, -2, 3], scale=0.1)  # 0.255 and 0.27 without a tolerance
def test_bootstrap_counts_ties_whatever_the_unit(whole, scale):
    """Differences of few values have resamples just as far from 0; rounding must not decide."""
    d, none = np.array(whole, dtype=float), np.zeros(6)
    assume(d.any())
    one = paired_test(d, none, "bootstrap", resamples=199, seed=1)
    other = paired_test(d * scale, none, "bootstrap", resamples=199, seed=1)
    assert one.p == other.p
    if not math.isnan(one.low) and abs(one.p - 0.05) > 1e-9:
        assert (one.p < 0.05) == (not one.low <= 0 <= one.high)


@settings(max_examples=30, deadline=None)
@given(shift=st.floats(-0.4, 0.4), confidence=st.sampled_from([0.8, 0.95]), seed=st.integers(0, 99))
@pytest.mark.parametrize("test", ["t", "bootstrap"])
def test_p_and_interval_agree(test, shift, confidence, seed):
    found = paired_test(
        X + shift, Y, test, confidence=confidence, resamples=499, seed=seed
    )  # fmt: skip
    assume(abs(found.p - (1 - confidence)) > 1e-9)
    assert (found.p < 1 - confidence) == (not found.low <= 0 <= found.high)


@pytest.mark.parametrize("test", TESTS)
@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(15)), seed=st.integers(0, 9))
def test_order_does_not_matter_and_sides_mirror(test, order, seed):
    options = {"test": test, "resamples": 99, "seed": seed}
    found = paired_test(X, Y, **options)
    assert paired_test(X[order], Y[order], **options) == found
    mirrored = paired_test(Y, X, **options)
    assert mirrored.difference == pytest.approx(-found.difference)
    if test != "bootstrap":  # whose draws are of other indices
        assert mirrored.p == pytest.approx(found.p)
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
        ([1], [0.5], 1, 0.5, "there is a single pair"),
        ([1, 2], [1, 2], 2, 0, "no pair differs"),
        ([0.1 + 0.2, 0.5], [0.3, 0.5], 2, 0, "no pair differs"),
        ([1.1, 2.1, 3.1], [1, 2, 3], 3, 0.1, "all pairs differ by the same amount"),
        ([1e6 + 0.1, 1e6 + 0.2], [0.1, 0.2], 2, 1e6, "all pairs differ by the same amount"),
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


def test_too_little_for_a_studentized_interval():
    # half of all resamples of two differences have no spread
    found = paired_test([1, 3], [0, 0], "bootstrap", resamples=999)
    assert found.p > 0.4 and math.isnan(found.low)
    assert found.note == "too few distinct differences, or resamples, for an interval"
    assert math.isnan(paired_test(X, Y, "bootstrap", resamples=10).high)


def test_cohens_dz():
    assert cohens_dz([1, 2, 3, math.nan]) == 2
    assert (
        math.isnan(cohens_dz([1])) and math.isnan(cohens_dz([1, 1])) and math.isnan(cohens_dz([]))
    )


def test_batches_are_one_draw(monkeypatch):
    whole = [paired_test(LONG_X, LONG_Y, test, resamples=500) for test in TESTS]
    monkeypatch.setattr("fairtk.report.statistics._NUMBERS", 200 * 64)
    assert [paired_test(LONG_X, LONG_Y, test, resamples=500) for test in TESTS] == whole


def test_wrong_input():
    with pytest.raises(NotFoundError, match="unknown test 'student'; known: bootstrap, "):
        paired_test(X, Y, "student")
    with pytest.raises(InputError, match="of the same queries; found 15 and 14"):
        paired_test(X, Y[1:])
    with pytest.raises(InputError, match="y must be finite or NaN; found inf at index 1"):
        paired_test([1, 2], [1, math.inf])
    with pytest.raises(ParameterError, match="confidence"):
        paired_test(X, Y, confidence=1)
    with pytest.raises(ParameterError, match="resamples"):
        paired_test(X, Y, resamples=True)
