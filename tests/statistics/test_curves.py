"""Slopes and areas: by hand, by other packages, and what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.errors import InputError, ParameterError
from fairtk.statistics import curve_values
from fairtk.statistics.curves import CURVES

NAN = float("nan")


def values(x, y, **settings):
    found = curve_values(x, y, **{"resamples": 5} | settings)
    assert list(found) == list(CURVES)
    return {name: found[name].value for name in CURVES}


def test_by_hand():
    # one query, three settings: (0.2, 0), (0.4, 1), (0.8, 0.5)
    found = values([[0.2, 0.4, 0.8]], [[0.0, 1.0, 0.5]])
    # mean x 7/15, away -4/15, -1/15, 5/15: sum of squares 42/225; of products (-1 + 2.5)/15 = 0.1
    assert found["slope of points"] == pytest.approx(0.1 / (42 / 225))
    assert found["slope of means"] == pytest.approx(found["slope of points"])
    # 0 to 0.2 at 0; 0.2 * 0.5; 0.4 * 0.75; 0.2 * 0.5 behind the last point: 0.5
    assert found["area of means"] == pytest.approx(0.2 * 0.5 + 0.4 * 0.75 + 0.2 * 0.5)
    # isotonic: 1 and 0.5 are pooled to 0.75: 0.2 * 0.375 + 0.6 * 0.75
    assert found["area of points"] == pytest.approx(0.2 * 0.375 + 0.6 * 0.75)


def test_points_and_means_differ():
    # settings' means (0.25, 0.5), (0.75, 0.5): slope 0; points: products 0.25 * 0.5 twice, over
    # 4 * 0.0625 + ... ; x away: -.5, 0, 0, .5 -> squares 0.5, products (.5 * .5 + .5 * .5) / 0.5
    x, y = [[0.0, 0.5], [0.5, 1.0]], [[0.0, 0.5], [1.0, 0.5]]
    found = values(x, y)
    assert found["slope of means"] == 0.0
    # -0.5 * 0 + 0 * 0.5 + 0 * 1 + 0.5 * 0.5 = 0.25, over 0.5
    assert found["slope of points"] == pytest.approx(0.5)
    assert found["area of means"] == pytest.approx(0.5)
    # mean heights 0, (0.5 + 1) / 2 = 0.75, 0.5: 0.75 twice and 0.5 pooled to 2/3
    assert found["area of points"] == pytest.approx(0.5 * (1 / 3) + 0.5 * (2 / 3))


def test_decreasing():
    assert values([[0.0, 1.0]], [[1.0, 0.0]])["area of points"] == pytest.approx(0.5)
    x, y = [[0.0, 0.5, 1.0]], [[1.0, 0.0, 0.5]]
    # increasing: all pooled to 0.5; decreasing: 1, then 0.25
    assert values(x, y)["area of points"] == pytest.approx(0.5)
    found = values(x, y, increasing=False)["area of points"]
    assert found == pytest.approx(0.5 * 0.625 + 0.5 * 0.25)


def test_another_span():
    found = values([[1.0, 3.0]], [[2.0, 4.0]], span=(0.0, 5.0))
    # 1 at 2, then 2 at 3 in the mean, then 2 at 4: (2 + 6 + 8) / 5
    assert found["area of means"] == pytest.approx(16 / 5)
    # a span inside the points: y from 2.5 to 3.5
    assert values([[1.0, 3.0]], [[2.0, 4.0]], span=(1.5, 2.5))["area of means"] == pytest.approx(3)


def test_undefined():
    flat = values([[0.5, 0.5]], [[0.0, 1.0]])
    assert np.isnan(flat["slope of points"]) and np.isnan(flat["slope of means"])
    assert flat["area of means"] == flat["area of points"] == 0.5
    for x in ([[NAN, NAN]], np.zeros((0, 3))):
        found = curve_values(x, x)
        assert all(np.isnan([v.value, v.low, v.high]).all() for v in found.values())
    one = curve_values([[0.0, 1.0]], [[0.0, 1.0]])
    assert one["slope of points"].value == 1.0 and np.isnan(one["slope of points"].low)


def test_pairs_that_are_not_there_do_not_count():
    x = [[0.1, 0.6, 0.9], [0.2, NAN, 0.8], [NAN, NAN, NAN]]
    y = [[0.2, 0.1, 0.7], [0.4, 0.3, NAN], [0.1, 0.2, 0.3]]
    flat_x, flat_y = [0.1, 0.6, 0.9, 0.2], [0.2, 0.1, 0.7, 0.4]
    found = values(x, y)
    assert found["slope of points"] == pytest.approx(np.polyfit(flat_x, flat_y, 1)[0])
    means = np.polyfit([0.15, 0.6, 0.9], [0.3, 0.1, 0.7], 1)[0]
    assert found["slope of means"] == pytest.approx(means)


def test_intervals_hold_what_made_the_points():
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(40):
        x = np.clip(rng.beta(2, 2, (80, 1)) * 0.2 + np.array([0.1, 0.3, 0.5, 0.7]), 0, 1)
        y = 0.2 + 0.4 * x + rng.normal(0, 0.2, (80, 1)) + rng.normal(0, 0.05, x.shape)
        found = curve_values(x, y, resamples=300, seed=seed)["slope of means"]
        hits += found.low <= 0.4 <= found.high
    assert hits >= 33  # of 40 intervals of 95 %; fewer has a chance below 1 in 1,000


def test_draws_are_of_whole_queries():
    """Queries that all have the same points leave no spread, however many points there are."""
    x, y = np.tile([0.1, 0.5, 0.9], (9, 1)), np.tile([0.3, 0.2, 0.8], (9, 1))
    for found in curve_values(x, y, resamples=50).values():
        assert np.isnan([found.low, found.high]).all() and "equal values" in found.note


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 4))
def test_areas_lie_between_the_heights(seed, queries, settings):
    rng = np.random.default_rng(seed)
    x, y = rng.random((queries, settings)), rng.random((queries, settings))
    found = values(x, y, resamples=1)
    for name in ("area of means", "area of points"):
        assert y.min() - 1e-12 <= found[name] <= y.max() + 1e-12
    # a line moves with its points, and areas with their heights
    moved = values(x, 2 * y + 1, resamples=1)
    for name in CURVES:
        assert moved[name] == pytest.approx(2 * found[name] + ("area" in name), rel=1e-9, abs=1e-9)
    order = rng.permutation(queries)
    again = values(x[order][:, ::-1], y[order][:, ::-1], resamples=1)
    assert again == pytest.approx(found)


def test_bad_input():
    with pytest.raises(InputError):
        curve_values([[0.0, 1.0]], [[0.0]])
    with pytest.raises(InputError, match="x"):
        curve_values([[np.inf]], [[0.0]])
    with pytest.raises(ParameterError, match="span"):
        curve_values([[0.0]], [[0.0]], span=(1, 1))
    with pytest.raises(ParameterError, match="confidence"):
        curve_values([[0.0]], [[0.0]], confidence=1)


def test_places_that_differ_by_rounding_are_one_place():
    # one ulp apart, .1 + .2 and .3 are one x of height (0 + 1) / 2; as two places the isotonic
    # fit would rise from 0 to 1 between them
    apart, same = np.array([[0.1 + 0.2], [0.3]]), np.array([[0.3], [0.3]])
    y = np.array([[0.0], [1.0]])
    for name in ("area of points", "area of means"):
        of_apart, of_same = (values(x, y, resamples=1)[name] for x in (apart, same))
        assert of_apart == pytest.approx(of_same, abs=1e-12) == 0.5
