"""Non-inferiority and equivalence: by hand, against scipy, and against what is known."""

import math

import numpy as np
import pytest
from scipy import stats

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.statistics import equivalence_test, non_inferiority_test

GENERATOR = np.random.default_rng(4)
Y = GENERATOR.random(30)
X = Y + GENERATOR.normal(-0.01, 0.05, 30)


def test_by_hand():
    # differences -1, 0, 1: mean 0, standard error 1 / sqrt(3). Against a margin of 1 the statistic
    # is sqrt(3) with 2 degrees of freedom: p = 1/2 - t / (2 sqrt(2 + t^2)) = 1/2 - sqrt(3/5) / 2
    p = 0.5 - math.sqrt(3 / 5) / 2
    for found in (
        non_inferiority_test([0, 1, 2], [1, 1, 1], 1),
        non_inferiority_test([0, 1, 2], [1, 1, 1], 1, better="lower"),
        equivalence_test([0, 1, 2], [1, 1, 1], 1),
    ):
        assert found.p == pytest.approx(p) and found.difference == 0 and found.n == 3
        half = stats.t.ppf(0.95, 2) / math.sqrt(3)
        assert (found.low, found.high) == pytest.approx((-half, half))


def test_sides_are_scipys():
    above = stats.ttest_rel(X, Y - 0.03, alternative="greater").pvalue
    below = stats.ttest_rel(X, Y + 0.03, alternative="less").pvalue
    assert non_inferiority_test(X, Y, 0.03).p == pytest.approx(above)
    assert non_inferiority_test(X, Y, 0.03, better="lower").p == pytest.approx(below)
    assert equivalence_test(X, Y, 0.03).p == pytest.approx(max(above, below))


@pytest.mark.parametrize("margin", [0.005, 0.015, 0.03, 0.1])
def test_interval_and_p_value_say_the_same(margin):
    found = equivalence_test(X, Y, margin)
    assert (found.p < 0.05) == (-margin < found.low and found.high < margin)
    one = non_inferiority_test(X, Y, margin)
    assert (one.p < 0.05) == (one.low > -margin)


def test_pairs_that_are_undefined_or_say_nothing():
    x = np.append(X, np.nan)
    assert equivalence_test(x, np.append(Y, 1), 0.03) == equivalence_test(X, Y, 0.03)
    same = equivalence_test(Y, Y, 0.1)
    assert math.isnan(same.p) and same.note == "all differences are 0" and same.difference == 0
    assert non_inferiority_test([], [], 0.1).note == "no pair is defined"


@pytest.mark.parametrize("margin", [0, -1, math.nan, math.inf, "0.1", None, True])
def test_margins_are_positive_numbers(margin):
    with pytest.raises(ParameterError, match="margin"):
        equivalence_test(X, Y, margin)


def test_bad_input():
    with pytest.raises(NotFoundError, match="direction"):
        non_inferiority_test(X, Y, 0.1, better="up")
    with pytest.raises(InputError):
        equivalence_test(X, Y[1:], 0.1)
    with pytest.raises(ParameterError, match="confidence"):
        equivalence_test(X, Y, 0.1, confidence=1)


def test_differences_whose_squares_are_0_have_no_test():
    result = equivalence_test([0.0, 1e-308], [0.0, 0.0], 0.1)
    assert np.isnan(result.p) and np.isnan(result.low)
    assert result.note == "all differences are 0"
