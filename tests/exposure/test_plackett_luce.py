"""The Plackett-Luce kernel: exact gaps, exact distribution in every branch, pure truncations."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from fairtk.exposure import Stream, draw_rankings, score_gaps
from fairtk.exposure.plackett_luce import SURE, count_heavy

# All seeds are fixed, so a p-value below this is a defect and not chance.
LEAST = 1e-5


def log_weights(scores, alpha):
    """Return scores scaled to [1, 2], to the power of alpha (the paper's Eq. 2, its footnote)."""
    values = np.asarray(scores, dtype=float)
    return (1 + (values - values.min()) / (np.ptp(values) or 1)) ** alpha


def gaps_of(weights):
    """Return the gaps of log-weights in descending order."""
    return np.minimum(-np.diff(weights, prepend=weights[:1]), SURE)


def sample_rankings(weights, n_samples, cutoff=None, *, seed=42, key=""):
    """Draw rankings of one query from log-weights in any order; shape (n_samples, places)."""
    weights = np.asarray(weights, dtype=float)
    descending = np.argsort(-weights, kind="stable")
    start = np.array([0, len(weights)])
    draws = draw_rankings(gaps_of(weights[descending]), start, [key], n_samples, cutoff, seed)
    places = min(len(weights), cutoff or len(weights))
    return descending[draws.row].reshape(n_samples, places)


def p_value(counts, probabilities, n_draws):
    """Chi-square p-value; outcomes expected fewer than 8 times are pooled, impossible ones fail."""
    expected = np.asarray(probabilities) * n_draws
    impossible = expected < 1e-15 * n_draws
    if counts[impossible].any():
        return 0.0
    rare = (expected < 8) & ~impossible
    expected_bins = np.append(expected[expected >= 8], expected[rare].sum())
    count_bins = np.append(counts[expected >= 8], counts[rare].sum())
    if expected_bins[-1] < 8:
        largest = int(np.argmax(expected_bins))
        expected_bins[largest] += expected_bins[-1]
        count_bins[largest] += count_bins[-1]
        expected_bins, count_bins = expected_bins[:-1], count_bins[:-1]
    if len(expected_bins) < 2:
        return 1.0
    statistic = ((count_bins - expected_bins) ** 2 / expected_bins).sum()
    return float(chi2.sf(statistic, len(expected_bins) - 1))


def rank_p_values(rankings, probabilities):
    n_draws, size = len(rankings), len(probabilities[0])
    return [
        p_value(np.bincount(rankings[:, rank], minlength=size), expected, n_draws)
        for rank, expected in enumerate(probabilities)
    ]


# --- scaling


def test_gaps_agree_with_the_reference(golden):
    for case in golden("pl_sampling")["cases"]:
        if case["oracle"]:
            continue
        expected = case["log_scores_paper"] or [1.0] * len(case["scores"])
        scores = -np.sort(-np.array(case["scores"]))
        found = score_gaps(scores, np.array([0, len(scores)]), case["alpha"])
        wanted = gaps_of(-np.sort(-np.array(expected)))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-9, err_msg=str(case["id"]))


@pytest.mark.parametrize("alpha", [0, 1, 64])
def test_equal_scores_and_a_single_score_have_no_gaps(alpha):
    assert score_gaps(np.array([3.0, 3.0]), np.array([0, 2]), alpha).tolist() == [0.0, 0.0]
    assert score_gaps(np.array([-7.0]), np.array([0, 1]), alpha).tolist() == [0.0]
    assert score_gaps(np.zeros(0), np.array([0]), alpha).tolist() == []


def test_gaps_of_two_queries_do_not_run_into_each_other():
    # query 1: (5, 2, 1) -> log-weights (4, 1.5625, 1) at alpha 2; query 2: (9, 9, 0) -> (4, 4, 1)
    gaps = score_gaps(np.array([5.0, 2.0, 1.0, 9.0, 9.0, 0.0]), np.array([0, 3, 6]), 2)
    np.testing.assert_allclose(gaps, [0, 2.4375, 0.5625, 0, 0, 3], rtol=1e-14)


def exact_gaps(scores, alpha):
    with localcontext() as context:
        context.prec = 400
        values = [Decimal(s) for s in scores]
        low, high = min(values), max(values)
        if low == high:
            return [0.0] * len(values)
        weights = [(1 + (v - low) / (high - low)) ** Decimal(alpha) for v in values]
        return [0.0] + [
            float(min(a - b, Decimal(SURE))) for a, b in zip(weights, weights[1:], strict=False)
        ]


@given(
    st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=2, max_size=6),
    st.one_of(st.just(0.0), st.floats(1e-6, 64)),
)
def test_gaps_keep_their_relative_precision(scores, alpha):
    scores = sorted(scores, reverse=True)
    found = score_gaps(np.array(scores), np.array([0, len(scores)]), alpha)
    np.testing.assert_allclose(found, exact_gaps(scores, alpha), rtol=1e-12, atol=1e-300)


def test_nearly_tied_scores_at_the_top_keep_their_gap():
    # log-weights near 2**64 = 1.8e19, where neighboring floats are 4096 apart; one step of the
    # top score is a gap of 64 * 2**64 * 2**-54 / 2 = 2**15 nats, far above SURE, while at alpha 8
    # it is 8 * 2**8 * 2**-53 / 2 = 2**-43, which a subtraction of the weights cannot resolve
    top = np.array([1.0, math.nextafter(1.0, 0.0), 0.0])
    start = np.array([0, 3])
    assert score_gaps(top, start, 64)[1] == SURE
    assert score_gaps(top, start, 8)[1] == pytest.approx(2.0**-43, rel=1e-12)


@pytest.mark.parametrize("scale", [1e308, 1e-300, 5e-324])
def test_gaps_survive_extreme_scores(scale):
    gaps = score_gaps(np.array([scale, 0.0, -scale]), np.array([0, 3]), 2)
    np.testing.assert_allclose(gaps, [0.0, 1.75, 1.25])  # 2, 1.5, 1 squared: 4, 2.25, 1
    # a step from one query to the next means nothing, however large
    apart = score_gaps(np.array([2.0, 1.0, -1.7e308, 1.7e308]), np.array([0, 1, 2, 3, 4]), 64)
    assert apart.tolist() == [0.0] * 4
    widest = score_gaps(np.array([1.7e308, -1.7e308, 2.0, 1.0]), np.array([0, 2, 4]), 1)
    np.testing.assert_allclose(widest, [0.0, 1.0, 0.0, 1.0])


def test_any_finite_alpha_is_right():
    gaps = score_gaps(np.array([3.0, 2.0, 2.0, 1.0]), np.array([0, 4]), 1e6)
    assert gaps.tolist() == [0.0, SURE, 0.0, SURE]


# --- the distribution


def test_every_rank_of_the_reference_cases(golden):
    n_draws = 20_000
    for case in golden("pl_sampling")["cases"]:
        if "rank_probabilities" not in case:
            continue
        found = sample_rankings(case["log_scores_code"], n_draws, key=str(case["id"]))
        assert min(rank_p_values(found, case["rank_probabilities"])) > LEAST, case["id"]
        for k, expected in case["inclusion_top_k"].items():
            share = np.bincount(found[:, : int(k)].ravel(), minlength=len(expected)) / n_draws
            error = np.sqrt(np.maximum(np.multiply(expected, 1 - np.array(expected)), 1e-6))
            assert (np.abs(share - expected) < 5 * error / math.sqrt(n_draws) + 1e-9).all()


def exact_pairs(weights):
    """P(first = i, second = j), by the definition."""
    weight = np.exp(weights - weights.max())
    # sums without document i, taken without cancellation
    rest = np.array([np.delete(weight, i).sum() for i in range(len(weight))])
    pairs = weight[:, None] * weight[None, :] / weight.sum() / rest[:, None]
    np.fill_diagonal(pairs, 0.0)
    return pairs


NORMAL = np.random.default_rng(3).normal(size=200)
POLICIES = {
    # name: (log-weights, heavy documents); 0 heavy is the flat branch, 64 means none is light
    "uniform": (np.zeros(200), 0),
    "alpha 1": (log_weights(NORMAL, 1), 0),
    "alpha 4": (log_weights(NORMAL, 4), None),
    "alpha 8": (log_weights(NORMAL, 8), 64),
    "halving": (np.log(0.5) * np.arange(200), 64),
    "ten percent less each": (np.log(0.9) * np.arange(200), 64),
    "one ahead": (np.append(4.0, np.zeros(199)), 1),
    "three far ahead": (np.r_[60.0, 30.0, 20.0, np.zeros(197)], 3),
    "a gap beyond SURE": (np.r_[900.0, 820.0, 810.0, np.zeros(197)], 3),
    "many beyond exp's range": (np.r_[-79.0 * np.arange(20), np.full(180, -1580.0)], 64),
    "seventeen far ahead": (np.r_[np.full(17, 30.0), np.zeros(183)], 0),
    "five far ahead": (np.r_[np.full(5, 30.0), np.zeros(195)], 5),
}


@pytest.mark.parametrize("name", POLICIES)
def test_first_two_places_in_every_branch(name):
    weights, heavy = POLICIES[name]
    size = len(weights)
    ordered = -np.cumsum(gaps_of(-np.sort(-weights)))
    if heavy is not None:
        assert count_heavy(ordered, np.exp(ordered), 64) == heavy
    pairs = exact_pairs(weights)
    for n_draws, cutoff in [(50_000, 2), (10_000, 20), (5_000, None)]:
        found = sample_rankings(weights, n_draws, cutoff, seed=7, key=name)
        seconds = np.bincount(found[:, 1], minlength=size)
        both = np.bincount(found[:, 0] * size + found[:, 1], minlength=size * size)
        assert p_value(np.bincount(found[:, 0], minlength=size), pairs.sum(1), n_draws) > LEAST
        assert p_value(seconds, pairs.sum(0), n_draws) > LEAST
        assert p_value(both, pairs.ravel(), n_draws) > LEAST


@pytest.mark.parametrize("name", POLICIES)
def test_deep_places_agree_with_the_plain_gumbel_matrix(name):
    weights, _ = POLICIES[name]
    n_draws, size = 5_000, len(weights)
    noise = np.random.default_rng(1).gumbel(size=(n_draws, size))
    plain = np.argsort(-(weights + noise), axis=1)
    found = sample_rankings(weights, n_draws, None, seed=3, key=name)
    assert (np.sort(found, axis=1) == np.arange(size)).all()
    for k in (5, 12, 40, 120):
        a = np.bincount(plain[:, :k].ravel(), minlength=size) / n_draws
        b = np.bincount(found[:, :k].ravel(), minlength=size) / n_draws
        error = np.sqrt(np.maximum((a + b) / 2 * (1 - (a + b) / 2), 1e-4) * 2 / n_draws)
        assert (np.abs(a - b) / error).max() < 5


@pytest.mark.parametrize("alpha", [16, 48, 64])
def test_ties_at_every_level_are_even(alpha):
    # scaled scores 2, 1.5, 1.5, 1.25, 1.25, 1.25, 1; at alpha 64 the log-weights are 1.8e19,
    # 1.9e11, 1.6e6 and 1
    scores = np.array([5.0, 3.0, 3.0, 2.0, 2.0, 2.0, 1.0])
    gaps = score_gaps(scores, np.array([0, 7]), alpha)
    ranked = draw_rankings(gaps, np.array([0, 7]), ["q"], 20_000, None, seed=1).row.reshape(-1, 7)
    assert (ranked[:, 0] == 0).all()
    assert (ranked[:, 6] == 6).mean() > 0.99
    assert np.mean(ranked[:, 1] == 1) == pytest.approx(0.5, abs=0.02)
    for rank in (3, 4, 5):
        shares = np.bincount(ranked[:, rank], minlength=7)[3:6] / 20_000
        np.testing.assert_allclose(shares, 1 / 3, atol=0.02)


def test_noise_survives_in_a_long_chain_of_large_gaps():
    # 300 pairs of ties, SURE nats apart: log-weights down to -24,000
    weights = np.repeat(-SURE * np.arange(300), 2)
    ranked = sample_rankings(weights, 2_000)
    assert (ranked // 2 == np.repeat(np.arange(300), 2)).all()
    upper = (ranked[:, ::2] % 2 == 0).mean(axis=0)
    assert np.abs(upper - 0.5).max() < 5 * 0.5 / math.sqrt(2_000)
    assert upper.mean() == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(2_000 * 300))


# --- truncation and streams


WEIGHTS = st.one_of(
    st.builds(lambda n: np.zeros(n), st.integers(1, 400)),
    st.builds(lambda n, r: r * np.arange(n), st.integers(1, 400), st.floats(-90, 0)),
    st.builds(
        lambda n, a, s: log_weights(np.random.default_rng(s).normal(size=n), a),
        st.integers(1, 400),
        st.sampled_from([1, 2, 4, 8, 64]),
        st.integers(0, 99),
    ),
)


def test_a_large_query_in_chunks_is_the_same(monkeypatch):
    from fairtk.exposure import plackett_luce as sampling

    weights = log_weights(np.random.default_rng(0).normal(size=600), 4)
    whole = sample_rankings(weights, 50)
    monkeypatch.setattr(sampling, "CHUNK", 1_300)  # two samples at a time
    assert (sample_rankings(weights, 50) == whole).all()


def test_queries_do_not_share_random_numbers():
    # two uniform queries: the first places agree as often as chance has it
    n = 20_000
    a, b = (sample_rankings(np.zeros(10), n, 1, key=key)[:, 0] for key in ("q1", "q2"))
    assert np.mean(a == b) == pytest.approx(0.1, abs=5 * 0.3 / math.sqrt(n))


def test_rows_of_a_stream_are_addressed():
    stream = Stream(42)
    stream.open("q1")
    rows = stream.rows(3, 40, 7)
    assert ((rows >= 0) & (rows < 1)).all()
    for which in ([0], [39], [3, 4, 5], [0, 20, 39], list(range(40))):
        assert (stream.some_rows(3, np.array(which), 7) == rows[which]).all()
    assert (stream.rows(4, 40, 7) != rows).all()
    stream.open("q2")
    assert (stream.rows(3, 40, 7) != rows).all()


def test_draws_of_many_queries_are_sorted():
    start = np.array([0, 2, 3])
    draws = draw_rankings(np.zeros(3), start, ["a", "b"], 2, 5, seed=1)
    assert draws.sample.tolist() == [0, 0, 1, 1, 0, 1]
    assert draws.rank.tolist() == [0, 1, 0, 1, 0, 0]
    assert draws.row[4:].tolist() == [2, 2]
    assert sorted(draws.row[:2].tolist()) == [0, 1]
    nothing = draw_rankings(np.zeros(0), np.array([0]), [], 2, 5, seed=1)
    assert len(nothing.row) == len(nothing.rank) == len(nothing.sample) == 0


def test_nothing_to_rank():
    assert sample_rankings([], 3).shape == (3, 0)
    assert sample_rankings([1.0], 3).tolist() == [[0], [0], [0]]
    assert sample_rankings([1.0, 2.0], 0).shape == (0, 2)
