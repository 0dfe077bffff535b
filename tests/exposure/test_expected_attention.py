"""Exact expected attention: agreement with enumeration, closed forms, sums, and samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.exposure import expected_attention, score_gaps
from fairtk.exposure.exact import weigh_others
from fairtk.exposure.plackett_luce import SURE


def enumerated(gaps, weight):
    """Return the expected attention by following all sets of documents placed so far."""
    log_weight = -np.cumsum(gaps)
    size = len(gaps)
    result, layer = np.zeros(size), {0: 1.0}
    for rank in range(min(len(weight), size)):
        after = {}
        for placed, chance in layer.items():
            left = [d for d in range(size) if not placed >> d & 1]
            share = np.exp(log_weight[left] - log_weight[left].max())
            share *= chance / share.sum()
            for document, own in zip(left, share, strict=True):
                result[document] += weight[rank] * own
                grown = placed | 1 << document
                after[grown] = after.get(grown, 0.0) + own
        layer = after
    return result


def of_scores(scores, alpha, weight):
    """Return gaps and expected attention of one query with scores in any order."""
    descending = np.sort(np.asarray(scores, dtype=float))[::-1]
    gaps = score_gaps(descending, np.array([0, len(descending)]), alpha)
    return gaps, expected_attention(gaps, np.array([0, len(gaps)]), weight)


WEIGHTS = {
    "MU": lambda k: np.ones(k),
    "DCG": lambda k: 1 / np.log2(np.arange(k) + 2),
    "TREC": lambda k: 1 / np.log2(np.maximum(np.arange(k) + 1, 2)),
    "RBP": lambda k: 0.8 ** np.arange(k),
    "rising": lambda k: np.arange(k) + 1.0,
}


@given(
    scores=st.lists(st.floats(-5, 5), min_size=1, max_size=8),
    alpha=st.sampled_from([0, 0.3, 1, 2, 4, 6, 8]),
    ranks=st.integers(1, 9),
    model=st.sampled_from(sorted(WEIGHTS)),
)
def test_agrees_with_enumeration(scores, alpha, ranks, model):
    weight = WEIGHTS[model](ranks)
    gaps, found = of_scores(scores, alpha, weight)
    np.testing.assert_allclose(found, enumerated(gaps, weight), rtol=0, atol=1e-11)
    assert found.sum() == pytest.approx(weight[: len(scores)].sum(), abs=1e-10)


@pytest.mark.parametrize("alpha", [1, 8, 16, 64])
@pytest.mark.parametrize(
    "scores",
    [
        [1e308, 0.9e308, -1e308, -1e308, 0.0, 1e307],  # the range itself overflows
        [2.0, 1.0, 1.0, 1.0, 1.0],
        [3.0] * 6,
        [1.0, 1.0 - 1e-15, 0.5, 0.5, 0.0],
    ],
)
def test_ties_and_ranges_as_large_as_doubles(scores, alpha):
    for ranks in range(1, len(scores) + 1):
        weight = np.ones(ranks)
        gaps, found = of_scores(scores, alpha, weight)
        np.testing.assert_allclose(found, enumerated(gaps, weight), rtol=0, atol=1e-11)


@given(
    gaps=st.lists(
        st.one_of(st.just(0.0), st.floats(0, 3), st.floats(5, SURE)), min_size=2, max_size=8
    )
)
def test_weights_that_span_hundreds_of_nats(gaps):
    gaps = np.array([0.0, *gaps[1:]])
    weight = WEIGHTS["DCG"](len(gaps) - 1)
    found = expected_attention(gaps, np.array([0, len(gaps)]), weight)
    np.testing.assert_allclose(found, enumerated(gaps, weight), rtol=0, atol=1e-11)


def test_closed_forms():
    # one document; all tied (mean weight of the ranks: (1 + .5) / 4); sure order (the weights)
    weight = np.array([1.0, 0.5])
    gaps = np.array([0.0, 0, 0, 0, 0, 0, SURE, SURE])
    found = expected_attention(gaps, np.array([0, 1, 5, 8]), weight)
    assert found.tolist() == [1.0, 0.375, 0.375, 0.375, 0.375, 1.0, 0.5, 0.0]
    # two documents, e nats apart: the first is first with probability 1 / (1 + exp(-e))
    found = expected_attention(np.array([0.0, np.e]), np.array([0, 2]), np.ones(1))
    first = 1 / (1 + np.exp(-np.e))
    np.testing.assert_allclose(found, [first, 1 - first], atol=1e-13)


def test_queries_of_all_sizes_at_once_as_one_by_one():
    rng = np.random.default_rng(0)
    parts = []
    for size in [1, 2, 7, 30, 31, 200, 3]:
        alpha = rng.choice([0.5, 3.0, 9.0])
        scores = np.sort(rng.gamma(2, 1, size))[::-1]
        parts.append(score_gaps(scores, np.array([0, size]), alpha))
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    weight = WEIGHTS["RBP"](6)
    together = expected_attention(np.concatenate(parts), start, weight)
    alone = [expected_attention(part, np.array([0, len(part)]), weight) for part in parts]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("size", "ranks"), [(1000, 5), (400, 60), (150, 150)])
@pytest.mark.parametrize("alpha", [0.5, 2, 4, 8])
def test_sums_to_the_weights_of_the_ranks(size, ranks, alpha):
    scores = np.random.default_rng(size).gamma(2, 1, size)
    weight = WEIGHTS["DCG"](ranks)
    _, found = of_scores(scores, alpha, weight)
    assert found.sum() == pytest.approx(weight.sum(), abs=1e-10)
    assert found.min() >= 0
    assert (np.diff(found) <= 1e-13).all()  # more weight, more attention


def test_others_by_hand():
    # p = .2, .5, 1: without the first the count is 1 or 2, half each: (10 + 100) / 2 = 55.
    # Without the second 1 or 2: .8 x 10 + .2 x 100 = 28; without the third 0 (.8 x .5 = .4),
    # 1 (.2 x .5 + .8 x .5 = .5) or 2 (.1): .4 x 1 + .5 x 10 + .1 x 100 = 15.4
    happened = np.array([[0.2], [0.5], [1.0]])
    weight = np.array([[1.0], [10.0], [100.0]])
    found = weigh_others(happened, 1 - happened, weight)
    np.testing.assert_allclose(found[:, 0], [55, 28, 15.4])
