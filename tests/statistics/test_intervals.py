import math

import numpy as np
import pytest
from scipy.stats import t

from fairtk.errors import InputError, ParameterError
from fairtk.statistics import mean_intervals, no_interval
from fairtk.statistics.intervals import EQUAL_VALUES, TOO_FEW

TABLE = np.random.default_rng(3).normal(size=(3, 12))


def test_student_by_hand():
    # mean 2, standard deviation 1, n 3: 2 +- t(0.975, 2) / sqrt(3)
    low, high = mean_intervals([[1, 2, 3]])
    half = t.ppf(0.975, 2) / math.sqrt(3)
    assert (low[0], high[0]) == pytest.approx((2 - half, 2 + half))


def test_student_is_scipys():
    low, high = mean_intervals(TABLE, confidence=0.9)
    error = TABLE.std(axis=1, ddof=1) / math.sqrt(12)
    theirs = t.interval(0.9, 11, loc=TABLE.mean(axis=1), scale=error)
    np.testing.assert_allclose((low, high), theirs, rtol=1e-12)


def test_undefined_values_are_left_out():
    table = TABLE.copy()
    table[1, [0, 5]] = np.nan
    low, high = mean_intervals(table)
    alone = mean_intervals(np.delete(TABLE[1], [0, 5])[None])
    assert (low[1], high[1]) == pytest.approx((alone[0][0], alone[1][0]), rel=1e-12)
    whole = mean_intervals(TABLE)
    assert low[[0, 2]].tolist() == whole[0][[0, 2]].tolist()  # the others do not notice


def test_too_little_to_say():
    for row in ([1.0], [], [np.nan, np.nan], [1.0, np.nan]):
        low, high = mean_intervals([row])
        assert np.isnan([*low, *high]).all() and no_interval(row) == TOO_FEW
    assert no_interval([1.0, 2.0]) == ""
    assert mean_intervals(np.empty((0, 4)))[0].shape == (0,)


@pytest.mark.parametrize("value", [2.0, 0.1, 1 / 3, 1e9, 0.0])
def test_equal_values(value):
    low, high = mean_intervals([[value] * 7])
    assert np.isnan([*low, *high]).all() and no_interval([value] * 7) == EQUAL_VALUES


def test_intervals_end_at_the_bounds_of_the_measure():
    low, high = mean_intervals([[0.5, 0.9, 1.0, 1.0]], bounds=(0.0, 1.0))
    assert low[0] > 0 and high[0] == 1
    # a bound does not hold for values beyond it, such as unbiased estimates, except for rounding
    half = 4.3027 * 0.1 / math.sqrt(3)
    for shift in (-0.2, 1.2, -0.05, 1.05):
        values = [[shift - 0.1, shift, shift + 0.1], [0.4, 0.5, 1.0 + 1e-15]]
        low, high = mean_intervals(values, bounds=(0.0, 1.0))
        assert [low[0], high[0]] == pytest.approx([shift - half, shift + half], abs=1e-4)
        assert low[1] == 0 and high[1] == 1


def test_wrong_input():
    with pytest.raises(ParameterError, match="95"):
        mean_intervals(TABLE, confidence=95)
    with pytest.raises(InputError, match=r"index \(0, 1\)"):
        mean_intervals([[1, np.inf]])
