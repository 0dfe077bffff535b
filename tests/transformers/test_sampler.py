"""FairSampler: the policy of the paper, on frames, whatever their order and company."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fairtk.errors import ParameterError
from fairtk.transformers.samplers import FairSampler

# small collections have equal scores
pytestmark = pytest.mark.filterwarnings("ignore:.*all scores of:fairtk.errors.DataWarning")


def make_run(scores, qid="q1"):
    return pd.DataFrame(
        {"qid": qid, "docno": [f"d{i}" for i in range(len(scores))], "score": scores}
    )


def rankings(sampled, qid="q1"):
    """Return docnos as an array (n_samples, places)."""
    one = sampled[sampled["qid"] == qid]
    return one["docno"].to_numpy().reshape(one["sample"].nunique(), -1)


@st.composite
def runs(draw):
    """A run of a few queries, some with ties, one of them larger than a stage of the race."""
    parts = []
    for number in range(draw(st.integers(1, 4))):
        size = draw(st.sampled_from([1, 2, 5, 30, 150]))
        levels = draw(st.sampled_from([1, 3, 1000]))
        seed = draw(st.integers(0, 999))
        scores = np.random.default_rng(seed).integers(0, levels, size).astype(float)
        parts.append(make_run(scores, qid=f"q{number}"))
    return pd.concat(parts, ignore_index=True)


SAMPLERS = st.builds(
    FairSampler,
    alpha=st.sampled_from([0, 1, 4, 8, 64]),
    n_samples=st.integers(1, 12),
    cutoff=st.sampled_from([None, 1, 5, 20]),
    seed=st.integers(),
    method=st.sampled_from(["independent", "stratified"]),
)


# --- the frame


def test_output_frame():
    run = pd.DataFrame(
        {
            "qid": ["b", "b", "b", "a"],
            "query": ["x", "x", "x", "y"],
            "docno": ["d1", "d2", "d3", "d9"],
            "score": [3.0, 2.0, 1.0, 5.0],
            "text": ["one", "two", "three", "nine"],
        },
        index=[7, 7, 8, 9],
    )
    before = run.copy()
    result = FairSampler(alpha=1, n_samples=3, cutoff=2)(run)
    pd.testing.assert_frame_equal(run, before)
    assert list(result.columns) == ["qid", "query", "docno", "score", "text", "rank", "sample"]
    assert list(result.index) == list(range(9))
    assert result["qid"].tolist() == ["b"] * 6 + ["a"] * 3  # as in the input
    assert result["sample"].tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2]
    assert result["rank"].tolist() == [0, 1, 0, 1, 0, 1, 0, 0, 0]
    assert result["score"].tolist() == [3.0, 2.0] * 3 + [1.0] * 3
    assert result["rank"].dtype == result["sample"].dtype == np.int64
    # every other column still belongs to its document
    words = dict(zip(run["docno"], run["text"], strict=True))
    assert result["text"].tolist() == [words[d] for d in result["docno"]]
    assert not result.duplicated(["qid", "sample", "docno"]).any()


def test_rank_keeps_its_column_and_is_set_anew():
    run = make_run([3.0, 2.0]).assign(rank=[0, 1], text="t")[
        ["rank", "qid", "score", "docno", "text"]
    ]
    result = FairSampler(n_samples=2)(run)
    assert list(result.columns) == ["rank", "qid", "score", "docno", "text", "sample"]
    assert result["rank"].tolist() == [0, 1, 0, 1]


# --- the distribution


def test_first_places_and_inclusion_of_the_paper_policy(golden):
    n_draws = 20_000
    for case in golden("pl_sampling")["cases"]:
        if case["oracle"] or not case["log_scores_paper"]:
            continue
        run = make_run(case["scores"])
        sampled = FairSampler(case["alpha"], n_samples=n_draws)(run)
        codes = run.set_index("docno").index.get_indexer(sampled["docno"])
        ranked = codes.reshape(n_draws, -1)
        inclusion = case.get("paper_inclusion_top_k", case["inclusion_top_k"])
        for k, expected in inclusion.items():
            share = np.bincount(ranked[:, : int(k)].ravel(), minlength=len(expected)) / n_draws
            error = np.sqrt(np.maximum(np.multiply(expected, 1 - np.array(expected)), 1e-6))
            assert (np.abs(share - expected) < 5 * error / math.sqrt(n_draws) + 1e-9).all()


@pytest.mark.parametrize(("alpha", "scores"), [(0, [9.0, 1.0, 5.0, 5.0]), (8, [2.0] * 4)])
def test_alpha_zero_and_equal_scores_are_uniform(alpha, scores):
    ranked = rankings(FairSampler(alpha, n_samples=24_000)(make_run(scores)))
    _, counts = np.unique(["".join(row) for row in ranked], return_counts=True)
    assert len(counts) == 24  # all orders of four documents
    assert chisquare(counts).pvalue > 1e-5


# --- what the rankings depend on


@given(runs(), SAMPLERS)
def test_samples_and_cutoff_only_truncate(run, sampler):
    more = FairSampler(sampler.alpha, 12, None, sampler.seed, sampler.method)(run)
    depth = math.inf if sampler.cutoff is None else sampler.cutoff
    part = more[(more["sample"] < sampler.n_samples) & (more["rank"] < depth)]
    pd.testing.assert_frame_equal(sampler(run), part.reset_index(drop=True))


def test_ranks_given_to_ties_carry_no_meaning():
    run = make_run([2.0, 2.0, 2.0, 1.0])
    one = FairSampler(n_samples=30)(run.assign(rank=[0, 1, 2, 3]))
    two = FairSampler(n_samples=30)(run.assign(rank=[2, 1, 0, 3]))
    assert one["docno"].tolist() == two["docno"].tolist()


def test_seed_and_qid_change_the_samples():
    run = make_run(list(range(20)))
    base = FairSampler(n_samples=5)(run)["docno"].tolist()
    assert FairSampler(n_samples=5)(run)["docno"].tolist() == base
    assert FairSampler(n_samples=5, seed=43)(run)["docno"].tolist() != base
    assert FairSampler(n_samples=5)(run.assign(qid="q2"))["docno"].tolist() != base


# --- settings


def test_print_and_equality():
    assert repr(FairSampler(alpha=2.0, n_samples=10)) == (
        "FairSampler(alpha=2, n_samples=10, cutoff=None, seed=42)"
    )
    spread = FairSampler(method="stratified")
    assert repr(spread).endswith("seed=42, method='stratified')")
    assert spread != FairSampler() and FairSampler(method="independent") == FairSampler()
    assert FairSampler(alpha=2) == FairSampler(alpha=2.0)
    assert hash(FairSampler(alpha=2)) == hash(FairSampler(alpha=2.0))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("cutoff", 0), ("seed", 1.0), ("seed", None)],
)
def test_settings_out_of_range(setting, value):
    with pytest.raises(ParameterError, match=f"FairSampler: {setting}"):
        FairSampler(**{setting: value})
