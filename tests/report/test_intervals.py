import math

import numpy as np
import pytest
from scipy.stats import bootstrap, t

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.statistics import INTERVALS, mean_intervals

TABLE = np.random.default_rng(3).normal(size=(3, 12))


@pytest.mark.parametrize("method, theirs", [("percentile", "percentile"), ("bca", "BCa")])
def test_bootstrap_is_scipys(method, theirs):
    low, high = mean_intervals(TABLE, method=method, confidence=0.9, resamples=199, seed=7)
    for row, ends in zip(TABLE, zip(low, high, strict=True), strict=True):
        found = bootstrap(
            (row,), np.mean, confidence_level=0.9, n_resamples=199, method=theirs,
            rng=np.random.default_rng(7),
        ).confidence_interval  # fmt: skip
        assert ends == pytest.approx(tuple(found))


def test_student_by_hand():
    # mean 2, standard deviation 1, n 3: 2 +- t(0.975, 2) / sqrt(3)
    low, high = mean_intervals([[1, 2, 3]], method="t")
    half = t.ppf(0.975, 2) / math.sqrt(3)
    assert (low[0], high[0]) == pytest.approx((2 - half, 2 + half))


@pytest.mark.parametrize("method", INTERVALS)
def test_undefined_values_are_left_out(method):
    table = TABLE.copy()
    table[1, [0, 5]] = np.nan
    low, high = mean_intervals(table, method=method, resamples=99)
    alone = mean_intervals(np.delete(TABLE[1], [0, 5])[None], method=method, resamples=99)
    assert (low[1], high[1]) == (alone[0][0], alone[1][0])
    whole = mean_intervals(TABLE, method=method, resamples=99)
    assert low[[0, 2]].tolist() == whole[0][[0, 2]].tolist()  # the others do not notice


@pytest.mark.parametrize("method", INTERVALS)
def test_too_little_to_say(method):
    for row in ([1.0], [], [np.nan, np.nan], [1.0, np.nan]):
        low, high = mean_intervals([row], method=method, resamples=99)
        assert np.isnan([*low, *high]).all()
    assert mean_intervals(np.empty((0, 4)), method=method)[0].shape == (0,)


def test_equal_values():
    low, high = mean_intervals([[2.0, 2.0, 2.0]], resamples=99)
    assert (low[0], high[0]) == (2, 2)
    low, high = mean_intervals([[2.0, 2.0, 2.0]], method="bca", resamples=99)
    assert np.isnan([low[0], high[0]]).all()  # BCa has none


def test_wrong_input():
    with pytest.raises(NotFoundError, match="unknown interval 'BCa'; did you mean 'bca'"):
        mean_intervals(TABLE, method="BCa")
    with pytest.raises(ParameterError, match="confidence must be above 0 and below 1; found 95"):
        mean_intervals(TABLE, confidence=95)
    with pytest.raises(ParameterError, match="resamples must be an integer of at least 1"):
        mean_intervals(TABLE, resamples=0)
    with pytest.raises(InputError, match=r"found inf at index \(0, 1\)"):
        mean_intervals([[1, np.inf]])
