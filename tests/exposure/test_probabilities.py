"""Probabilities of rankings: against the product of softmaxes, worked with 60 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.exposure import score_gaps
from fairtk.exposure.plackett_luce import SURE, log_step_probabilities, log_weights


def heights(gaps):
    """Return log-weights from gaps, a row per policy."""
    return -np.cumsum(gaps, axis=1).T


def exact_steps(gaps, ranking):
    """Return log-probabilities of the steps of one ranking from sums of 60 digits."""
    with localcontext() as context:
        context.prec = 60
        heights = [-sum(map(Decimal, gaps[: i + 1])) for i in range(len(gaps))]
        weight = [height.exp() for height in heights]
        left, steps = set(range(len(gaps))), []
        for document in ranking:
            steps.append(float((weight[document] / sum(weight[i] for i in left)).ln()))
            left.remove(document)
    return steps


def test_by_hand():
    # weights 4, 2, 1: the ranking (1, 0) has 2/7 * 4/5, the ranking (2, 1) 1/7 * 2/6
    gaps = np.log([[1.0, 2.0, 2.0]])
    steps = log_step_probabilities(heights(gaps), np.array([[1, 0], [2, 1]]))
    assert np.exp(steps[:, :, 0]) == pytest.approx(np.array([[2 / 7, 1 / 7], [4 / 5, 2 / 6]]))


def test_all_rankings_add_up_to_one():
    weights = log_weights(np.array([9.0, 7.0, 7.0, 3.5, 2.0]), np.array([0, 1, 3, 8, 64]))
    for places in range(1, 6):
        every = np.array(list(permutations(range(5), places)))
        found = np.exp(log_step_probabilities(weights, every).sum(axis=0)).sum(axis=0)
        assert found == pytest.approx(np.ones(5), abs=1e-12)


@given(
    gaps=st.lists(st.one_of(st.just(0.0), st.just(SURE), st.floats(0, 80)), min_size=1, max_size=9),
    data=st.data(),
)
def test_any_weights_and_any_ranking(gaps, data):
    """Also where what is left weighs next to nothing beside what is placed."""
    gaps = [0.0, *gaps]
    places = data.draw(st.integers(1, min(8, len(gaps))))  # 8 gaps are never cut
    ranking = data.draw(st.permutations(range(len(gaps))))[:places]
    found = log_step_probabilities(heights([gaps]), np.array([ranking]))[:, 0, 0]
    wanted = exact_steps(gaps, ranking)
    # a weight below exp(-745) is no double: its probability is 0
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if np.isfinite(one) and one > -600:
            assert one == pytest.approx(other, rel=1e-12, abs=1e-12), place
        else:
            assert other < -80


def test_deep_rankings_of_a_steep_policy_are_certain():
    gaps = np.full((1, 40), SURE)
    gaps[0, 0] = 0.0
    steps = log_step_probabilities(heights(gaps), np.arange(30)[None])
    assert (np.abs(steps) < 1e-9).all()


@given(
    scores=st.lists(st.floats(-1e308, 1e308), min_size=1, max_size=8),
    alphas=st.lists(st.floats(0, 30), min_size=1, max_size=4),
)
def test_log_weights_are_summed_gaps(scores, alphas):
    """Also where a gap is cut, and where they are taken from the heaviest document at once."""
    scores, alphas = -np.sort(-np.array(scores)), np.array(alphas)
    start = np.array([0, len(scores)])
    wanted = heights([score_gaps(scores, start, alpha) for alpha in alphas])
    np.testing.assert_allclose(log_weights(scores, alphas), wanted, rtol=1e-12, atol=1e-12)
