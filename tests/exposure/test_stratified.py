"""Stratified rankings: each by itself has the law of the policy, and means vary less."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from fairtk.exposure import Stream, draw_rankings, score_gaps
from fairtk.exposure.plackett_luce import (
    SPREAD,
    SURE,
    _points,
    log_step_probabilities,
    spread_rankings,
)

LEAST = 1e-5


def drawn(gaps, n_samples, places, key="q", seed=1, method="stratified"):
    gaps = np.asarray(gaps, dtype=float)
    draws = draw_rankings(gaps, np.array([0, len(gaps)]), [key], n_samples, places, seed, method)
    return draws.row.reshape(n_samples, -1)


def gaps_of(scores, alpha):
    scores = -np.sort(-np.asarray(scores, dtype=float))
    return score_gaps(scores, np.array([0, len(scores)]), alpha)


@pytest.mark.parametrize("alpha", [0, 1.5, 3])
def test_every_sample_has_the_law_of_the_policy(alpha):
    """All 24 top-3 rankings of four documents, for the first, a middle and the last sample."""
    gaps = gaps_of([3.0, 2.5, 1.0, 0.5], alpha)
    every = np.array(list(permutations(range(4), 3)))
    probability = np.exp(log_step_probabilities(-np.cumsum(gaps)[:, None], every).sum(axis=0)[:, 0])
    n_keys, samples = 1500, (0, 4, 6)
    found = np.stack([drawn(gaps, 7, 3, key=str(i)) for i in range(n_keys)])
    number = {tuple(ranking): place for place, ranking in enumerate(every.tolist())}
    for sample in samples:
        counts = np.zeros(24)
        for ranking in found[:, sample].tolist():
            counts[number[tuple(ranking)]] += 1
        rare = probability * n_keys < 8
        expected = np.append(probability[~rare], probability[rare].sum()) * n_keys
        seen = np.append(counts[~rare], counts[rare].sum())
        there = expected > 0
        statistic = ((seen - expected)[there] ** 2 / expected[there]).sum()
        assert chi2.sf(statistic, there.sum() - 1) > LEAST, sample


def test_points_are_strata_in_every_dimension_and_pair_of_neighbors():
    stream = Stream(3)
    stream.open("any")
    points = _points(64, stream)
    assert points.shape == (64, SPREAD) and (points >= 0).all() and (points < 1).all()
    for column in points.T:  # one point in each of 64 intervals
        assert sorted((column * 64).astype(int).tolist()) == list(range(64))
    cells = (points[:, 0] * 8).astype(int) * 8 + (points[:, 1] * 8).astype(int)
    assert sorted(cells.tolist()) == list(range(64))  # and in each of 8 x 8 squares


def test_scrambles_differ_and_a_point_is_uniform():
    stream, first = Stream(3), []
    for key in range(2000):
        stream.open(str(key))
        first.append(_points(3, stream)[2])
    counts = np.bincount((np.array(first) * 20).astype(int)[:, 1], minlength=20)
    assert chi2.sf(((counts - 100) ** 2 / 100).sum(), 19) > LEAST
    # scrambled, and not only moved: two points are not always equally far apart
    stream.open("a")
    assert abs(np.subtract(*_points(2, stream))).std() > 0.01


@given(
    gaps=st.lists(
        st.one_of(st.just(0.0), st.just(SURE), st.floats(0, 80)), min_size=0, max_size=60
    ),
    data=st.data(),
)
def test_rankings_hold_no_document_twice_and_more_of_them_change_none(gaps, data):
    gaps = [0.0, *gaps]
    places = data.draw(st.integers(1, len(gaps)))
    n_samples = data.draw(st.integers(1, 20))
    found = drawn(gaps, n_samples, places)
    assert all(len(set(row)) == places for row in found.tolist())
    more = drawn(gaps, n_samples + 7, None)
    assert (more[:n_samples, :places] == found).all()
    # what is more than 80 nats ahead of all that is left comes first
    depth = min(places, 30)
    sure = [i for i in range(1, depth + 1) if i < len(gaps) and gaps[i] == SURE]
    for end in sure:
        assert (np.sort(found[:, :end], axis=1) == np.arange(end)).all()


def test_ties_behind_a_heavy_document_are_shared_evenly():
    found = drawn(gaps_of([2.0, 1.0, 1.0], 64), 1000, 2)
    assert (found[:, 0] == 0).all()
    assert (found[:, 1] == 1).sum() == 500  # strata: half, to the digit


def test_an_empty_query_and_no_samples():
    stream = Stream(1)
    stream.open("q")
    assert spread_rankings(np.zeros(3), 0, 2, stream).shape == (0, 2)
