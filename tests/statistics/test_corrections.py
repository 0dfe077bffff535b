import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from fairtk.errors import InputError, NotFoundError
from fairtk.statistics import correct_p_values
from fairtk.statistics.corrections import CORRECTIONS

TESTED = [method for method in CORRECTIONS if method != "none"]


@pytest.mark.parametrize("method", CORRECTIONS)
def test_what_was_not_tested_does_not_count(method):
    assert np.isnan(correct_p_values([np.nan, 0.5], method)[0])
    assert np.isnan(correct_p_values([np.nan, np.nan], method)).all()
    assert correct_p_values([], method).shape == (0,)
    assert correct_p_values([0.9, 0.9], method).max() <= 1


@pytest.mark.parametrize("method", TESTED)
@settings(max_examples=15)  # statsmodels' Holm collects garbage at each call
@given(p=st.lists(st.floats(0, 1) | st.just(float("nan")), min_size=1, max_size=20))
def test_equals_statsmodels(method, p):
    given_p = np.array(p)
    there = ~np.isnan(given_p)
    found = correct_p_values(p, method)
    assert (np.isnan(found) == ~there).all()
    if there.any():
        expected = multipletests(given_p[there], method=method)[1]
        assert found[there] == pytest.approx(expected, abs=1e-12)
        assert (found[there] >= given_p[there]).all()


def test_wrong_input():
    with pytest.raises(NotFoundError, match="'holms'.*'holm'"):
        correct_p_values([0.1], "holms")
    with pytest.raises(InputError, match=r"p-values must be in \[0, 1\], got 1.5"):
        correct_p_values([0.1, 1.5])
    with pytest.raises(InputError, match="got inf"):
        correct_p_values([0.1, np.inf])
    with pytest.raises(InputError, match=r"1 dimension\(s\), got shape \(1, 1\)"):
        correct_p_values([[0.1]])
    with pytest.raises(InputError):
        correct_p_values(["small"])
