"""Queries and samples as two levels of chance, and how many queries are needed."""

import math

import numpy as np
import pytest
from scipy import stats

from fairtk.errors import InputError, ParameterError
from fairtk.statistics import mean_intervals, power_of_test, queries_needed, two_level_mean


def test_by_hand():
    # values 1, 2, 3: variance 1, of which sampling has 1/4: 3/4 is that of queries
    found = two_level_mean([1, 2, 3, math.nan], [0.25, 0.5, 0, 9])
    assert (found.n, found.mean) == (3, 2)
    assert found.error == pytest.approx(math.sqrt(1 / 3))
    assert found.error_samples == pytest.approx(math.sqrt(0.25 / 3))
    assert found.error_queries == pytest.approx(math.sqrt(0.75 / 3))
    low, high = mean_intervals([[1, 2, 3]])
    assert (found.low, found.high) == pytest.approx((low[0], high[0]))
    half = stats.norm.ppf(0.975) * math.sqrt(0.25 / 3)
    assert (found.low_samples, found.high_samples) == pytest.approx((2 - half, 2 + half))


def test_both_levels_are_found_again():
    """Queries with deviation 0.2, samples with 0.1: over many draws the estimates are these."""
    generator = np.random.default_rng(8)
    queries, samples = [], []
    for _ in range(300):
        values = generator.normal(0, 0.2, 40) + generator.normal(0, 0.1, 40)
        found = two_level_mean(values, np.full(40, 0.01))
        queries.append(found.error_queries**2)
        samples.append(found.error_samples**2)
    assert np.mean(queries) == pytest.approx(0.2**2 / 40, rel=0.05)
    assert np.mean(samples) == pytest.approx(0.1**2 / 40)


def test_what_is_not_known_is_nan():
    unknown = two_level_mean([1, 2, 4], [0.1, math.nan, 0.1])
    assert math.isnan(unknown.error_samples) and math.isnan(unknown.error_queries)
    assert unknown.error > 0
    assert two_level_mean([], []).n == 0
    one = two_level_mean([5], [0.04])
    assert one.error_samples == pytest.approx(0.2) and math.isnan(one.error)
    # more noise than spread: nothing is left for the queries, and never less
    assert two_level_mean([1, 2], [9, 9]).error_queries == 0
    assert two_level_mean([1, 2], [-1, -1]).error_samples == 0
    with pytest.raises(InputError):
        two_level_mean([1, 2], [1])
    with pytest.raises(ParameterError, match="confidence"):
        two_level_mean([1], [1], confidence=0)


def test_power_is_what_simulation_gives():
    generator = np.random.default_rng(2)
    drawn = generator.normal(0.3, 1.0, (20_000, 40))
    share = (stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05).mean()
    assert power_of_test(40, 0.3, 1.0) == pytest.approx(share, abs=0.015)
    assert power_of_test([5, 10**6], 1.0, 0.1) == pytest.approx([1, 1])
    wrong = {"n": (1, 0.5, 1), "deviation": (9, 0.5, 0), "significance": (9, 0.5, 1, 1)}
    for name, (n, difference, deviation, *level) in wrong.items():
        options = {"significance": level[0]} if level else {}
        with pytest.raises(ParameterError, match=name):
            power_of_test(n, difference, deviation, **options)


def test_large_effects_have_a_power():
    # scipy's cdf of the other tail is NaN there: these powers were NaN, and 13 queries needed
    power = power_of_test([3, 5, 100, 300], 0.8, 0.1)
    assert np.isfinite(power).all() and power == pytest.approx([power[0], 1, 1, 1], abs=1e-4)
    assert power_of_test(100, 0.8, 1.0) == pytest.approx(1, abs=1e-8)
    needed = queries_needed(-0.625, 0.1345, significance=0.01)
    generator = np.random.default_rng(3)
    for n, enough in ((needed - 1, False), (needed, True)):
        p = stats.ttest_1samp(generator.normal(-0.625, 0.1345, (20_000, n)), 0, axis=1).pvalue
        assert ((p < 0.01).mean() >= 0.8) == enough


def test_queries_needed_by_a_textbook():
    # Cohen 1988: a paired t-test with dz = 0.5 and power 0.8 at 5 % takes 34 pairs, 0.2 takes 199
    assert queries_needed(0.5, 1.0) == 34
    assert queries_needed(-0.2, 1.0) == 199
    assert queries_needed(0.1, 0.0) == 2
    n = queries_needed(0.03, 0.2, power=0.9, significance=0.01)
    assert power_of_test(n, 0.03, 0.2, significance=0.01) >= 0.9
    assert power_of_test(n - 1, 0.03, 0.2, significance=0.01) < 0.9


@pytest.mark.parametrize(
    "options",
    [{"difference": 0}, {"difference": math.nan}, {"deviation": -1}, {"power": 1},
     {"significance": 0}],
)  # fmt: skip
def test_bad_plans(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        queries_needed(**{"difference": 0.1, "deviation": 1.0, **options})
