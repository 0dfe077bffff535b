"""`corrected_mean`: a case computed manually, invariants, and the coverage of its intervals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairtk.errors import InputError, ParameterError
from fairtk.statistics import corrected_mean, mean_intervals

CHECKED, VALUES, OTHERS = [1.0, 3.0, 2.0, 6.0], [0.0, 2.0, 2.0, 4.0], [1.0, 5.0, 2.0, 4.0]


def test_by_hand():
    # checked: mean 3, variance 14/3; values: mean 2, variance 8/3, covariance (4 + 6)/3 = 10/3;
    # others: mean 3, variance 10/3; all eight values: mean 5/2, variance 20/7.
    # weight = (10/3) / ((1 + 4/4) 20/7) = 7/12; corrected = 3 + 7/12 (3 - 2) = 43/12
    # variance = (14/3 - 2 7/12 10/3 + (7/12)^2 8/3) / 4 + (7/12)^2 (10/3) / 4
    weight = Fraction(7, 12)
    residual = Fraction(14, 3) - 2 * weight * Fraction(10, 3) + weight**2 * Fraction(8, 3)
    error = math.sqrt(residual / 4 + weight**2 * Fraction(10, 3) / 4)
    result = corrected_mean(CHECKED, VALUES, OTHERS)
    assert (result.n, result.n_checked) == (8, 4)
    assert (result.mean, result.mean_checked) == (2.5, 3)
    assert result.weight == pytest.approx(7 / 12, rel=1e-12)
    assert result.corrected == pytest.approx(43 / 12, rel=1e-12)
    half = stats.t.ppf(0.975, 3) * error
    assert (result.low, result.high) == pytest.approx((43 / 12 - half, 43 / 12 + half), rel=1e-12)
    assert result.p == pytest.approx(2 * stats.t.sf(43 / 12 / error, 3), rel=1e-12)
    assert result.note == ""
    assert corrected_mean(CHECKED, VALUES, OTHERS, bounds=(0, 6)).high == 6 < result.high
    # 6 is beyond a bound of 4, which therefore does not hold
    assert corrected_mean(CHECKED, VALUES, OTHERS, bounds=(0, 4)).high == result.high


finite = st.floats(-10, 10).map(lambda x: round(x, 3))


@given(
    pairs=st.lists(st.tuples(finite, finite), min_size=2, max_size=20),
    others=st.lists(finite, max_size=20),
    bias=st.floats(-5, 5).map(lambda x: round(x, 3)),
)
def test_invariants(pairs, others, bias):
    exact, cheap = np.array(pairs).T
    result = corrected_mean(exact, cheap, others)
    (low,), (high,) = mean_intervals(exact[None])
    if math.isnan(low):
        assert math.isnan(result.low) and result.note and math.isnan(result.p)
        return
    # never wider than the interval of the checked queries alone
    assert result.high - result.low <= (high - low) * (1 + 1e-9)
    assert 0 <= result.weight <= 1
    assert result.low <= result.corrected <= result.high
    if result.weight == 0:
        assert (result.low, result.high) == pytest.approx((low, high))
        assert result.corrected == result.mean_checked
    # a bias of the cheap values changes nothing
    shifted = corrected_mean(exact, cheap + bias, np.array(others) + bias)
    assert shifted.corrected == pytest.approx(result.corrected, abs=1e-6)
    assert shifted.high - shifted.low == pytest.approx(result.high - result.low, abs=1e-6)
    # no order matters
    again = corrected_mean(exact[::-1], cheap[::-1], others[::-1])
    assert (again.low, again.high) == pytest.approx((result.low, result.high))


@pytest.mark.parametrize("others", [[], [5.0]])
def test_without_others_it_is_the_mean_of_the_checked_queries(others):
    result = corrected_mean(CHECKED, VALUES, others)
    (low,), (high,) = mean_intervals([CHECKED])
    assert (result.weight, result.corrected, result.low, result.high) == (0, 3, low, high)


def test_undefined_values():
    nan = math.nan
    base = corrected_mean(CHECKED, VALUES, OTHERS)
    # undefined with both labels, and undefined for others: ignored
    assert corrected_mean([*CHECKED, nan], [*VALUES, nan], [*OTHERS, nan]) == base
    # with one of both labels: the cheap values do not count
    for exact, cheap in (([*CHECKED, nan], [*VALUES, 1.0]), ([*CHECKED, 4.0], [*VALUES, nan])):
        result = corrected_mean(exact, cheap, OTHERS)
        assert result.weight == 0 and result.mean_checked == result.corrected == np.nanmean(exact)
        assert (result.low, result.high) == tuple(end[0] for end in mean_intervals([exact]))


@pytest.mark.parametrize(
    ("exact", "note"), [([], "two"), ([1.0], "two"), ([2.0, 2.0, 2.0], "equal")]
)
def test_reasons_for_no_interval(exact, note):
    result = corrected_mean(exact, [1.0, 3.0, 2.0][: len(exact)], OTHERS)
    assert note in result.note
    assert math.isnan(result.low) and math.isnan(result.high) and math.isnan(result.p)


def test_invalid_input_is_refused():
    with pytest.raises(InputError, match="4 and 3"):
        corrected_mean(CHECKED, VALUES[:3], OTHERS)
    with pytest.raises(InputError, match="others.*inf"):
        corrected_mean(CHECKED, VALUES, [math.inf])
    with pytest.raises(ParameterError, match="confidence"):
        corrected_mean(CHECKED, VALUES, OTHERS, confidence=1)


JUDGES = {
    "biased": lambda y, noise: np.clip(0.15 + y + 0.1 * noise, 0, 1),
    "poor": lambda y, noise: 0.2 + 0.3 * y + 0.3 * noise,
    "random": lambda y, noise: 0.7 + 0.2 * noise,
}


def coverage(judge, n, m, repetitions, seed=0):
    """Return how often the interval has the true mean, and the mean width relative to checked."""
    generator = np.random.default_rng(seed)
    hits, widths = [], []
    for _ in range(repetitions):
        y = generator.beta(1.5, 2, n + m)
        f = JUDGES[judge](y, generator.normal(size=n + m))
        result = corrected_mean(y[:n], f[:n], f[n:])
        (low,), (high,) = mean_intervals(y[None, :n])
        hits.append(result.low <= 1.5 / 3.5 <= result.high)
        widths.append((result.high - result.low) / (high - low))
    return np.mean(hits), np.mean(widths)


@pytest.mark.parametrize(("n", "m"), [(30, 270), (100, 900)])
def test_intervals_cover_with_a_biased_judge(n, m):
    share, width = coverage("biased", n, m, 800)
    assert 0.93 <= share <= 0.97
    assert width < 0.6


@pytest.mark.nightly
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(("n", "m"), [(10, 20), (30, 70), (30, 270), (100, 900)])
def test_intervals_cover(judge, n, m):
    share, width = coverage(judge, n, m, 4000)
    assert 0.93 <= share <= 0.97
    assert width <= 1
