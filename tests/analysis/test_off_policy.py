"""Expected utility at any alpha from answers at some: against enumeration, and what is refused."""

from __future__ import annotations

import warnings
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairtk
from fairtk import FairSampler, off_policy_utility
from fairtk.analysis.off_policy import balanced_means
from fairtk.errors import (
    ColumnError,
    DataWarning,
    InputError,
    MissingWarning,
    NotFoundError,
    ParameterError,
)
from fairtk.exposure.plackett_luce import log_step_probabilities, log_weights

SCORES = [5.0, 4.5, 4.0, 2.0, 1.0, 0.5]
K = 2


def make_run(n_queries=2, scores=SCORES):
    return pd.DataFrame(
        [
            {"qid": f"q{q}", "docno": f"q{q}/d{i}", "score": score + 0.01 * q * i}
            for q in range(n_queries)
            for i, score in enumerate(scores)
        ]
    )


def make_qrels(run):
    return run.drop_duplicates("qid")[["qid", "docno"]].assign(label=1, gold_answer="yes")


def is_right(docnos):
    """An invented reader, which looks at the order of what it reads, too."""
    numbers = [int(d[-1]) for d in docnos]
    return numbers[0] == 2 or (numbers[0] < numbers[1] and sum(numbers) % 2 == 1)


def answered(run, alpha, n_samples=50, seed=42, cutoff=K, k=K):
    sampled = FairSampler(alpha=alpha, n_samples=n_samples, cutoff=cutoff, seed=seed)(run)
    read = sampled[sampled["rank"] < k].groupby(["qid", "sample"])["docno"]
    right = read.agg(lambda d: "yes" if is_right(list(d)) else "no").rename("qanswer")
    return sampled.join(right, on=["qid", "sample"])


def exact_utility(run, alpha):
    """Return the mean of EU over the queries, from all rankings."""
    values = []
    for _, own in run.groupby("qid"):
        scores = own["score"].to_numpy()
        every = np.array(list(permutations(range(len(scores)), K)))
        weights = log_weights(scores, np.array([alpha]))
        probability = np.exp(log_step_probabilities(weights, every).sum(axis=0)[:, 0])
        docnos = own["docno"].to_numpy()
        values.append(sum(p * is_right(docnos[r]) for p, r in zip(probability, every, strict=True)))
    return float(np.mean(values))


# --- the estimators


def test_plain_is_unbiased_by_enumeration():
    """The expectation of the estimate over all rankings of both policies is EU, exactly."""
    scores = np.array(SCORES)
    every = np.array(list(permutations(range(len(scores)), 3)))
    weights = log_weights(scores, np.array([1, 4, 0.5, 2.7]))
    log_p = log_step_probabilities(weights, every).sum(axis=0).T
    useful = np.random.default_rng(1).random(len(every))
    count = np.array([3, 1])  # as if three rankings came from alpha 1 for each one from alpha 4
    expected = np.zeros(2)
    for source in (0, 1):
        probability = np.exp(log_p[source])
        for place, p in enumerate(probability):
            # the weight of one ranking alone, in a sample of 3 + 1: shares are 3/4 and 1/4
            log_mixture = np.logaddexp.reduce(log_p[:2, place] + np.log(count / 4))
            weight = np.exp(log_p[2:, place] - log_mixture)
            expected += count[source] / 4 * p * weight * useful[place]
    assert expected == pytest.approx(np.exp(log_p[2:]) @ useful, abs=1e-12)
    # and balanced_means uses these weights: rankings 5 and 9 from alpha 1, 30 and 40 from alpha 4
    drawn, source = np.array([5, 9, 30, 40]), np.array([0, 0, 1, 1])
    estimates = balanced_means(
        log_p[2:, drawn], log_p[:2, drawn], source, np.array([0, 1, 0, 1]), useful[drawn], "plain"
    )
    weight = np.exp(log_p[2:, drawn]) / np.exp(log_p[:2, drawn]).mean(axis=0)
    assert estimates.value == pytest.approx((weight * useful[drawn]).mean(axis=1))
    # one draw is the pair of rankings with one sample number: two draws of two rankings each
    ratio = (weight * useful[drawn]).sum(axis=1) / weight.sum(axis=1)
    terms = weight * (useful[drawn] - ratio[:, None])
    away = terms - np.repeat(terms.reshape(2, 2, 2).mean(axis=2), 2, axis=1)
    draws = away.reshape(2, 2, 2).sum(axis=1)
    error = np.sqrt((draws**2).sum(axis=1) * 2) / weight.sum(axis=1)
    # and what the mean weight adds, which should be 1
    assert estimates.error == pytest.approx(np.hypot(error, ratio * (weight.mean(axis=1) - 1)))
    kish = weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1)
    assert estimates.effective == pytest.approx(kish * np.minimum(1, weight.mean(axis=1)) ** 2)


@pytest.mark.parametrize("estimator", ["plain", "self-normalized"])
def test_unused_alphas_against_enumeration(estimator):
    run = make_run(40)
    answers = {a: answered(run, a, 100) for a in (1, 4)}
    estimates = off_policy_utility(
        make_qrels(run), answers, run, [0.5, 1, 2, 3, 4], "em", K, estimator
    )
    for row in estimates.means.itertuples():
        assert row.value == pytest.approx(exact_utility(run, row.alpha), abs=3.5 * row.error)
        assert 0 < row.error < 0.02
    assert (estimates.means["n"] == 40).all() and (estimates.means["low"] == 0).all()
    assert estimator in repr(estimates)


@pytest.mark.parametrize("estimator", ["plain", "self-normalized"])
def test_standard_errors_say_how_far_off_values_are(estimator):
    """With random numbers shared by the alphas (one seed), and with numbers of their own."""
    run = make_run(200)
    run["score"] = np.tile(SCORES, 200)  # one truth for all queries
    truth = exact_utility(run.head(6), 2)
    for seeds in ((42, 42), (42, 7)):
        answers = {a: answered(run, a, 40, seed=s) for a, s in zip((1, 3), seeds, strict=True)}
        estimates = off_policy_utility(make_qrels(run), answers, run, [2], "em", K, estimator)
        z = (estimates.per_query["value"] - truth) / estimates.per_query["error"]
        assert 0.8 < z.std() < 1.2
        # the pooled error is that of these queries: they are alike, so it is that of queries, too
        row = estimates.means.iloc[0]
        assert row["error"] == pytest.approx(row["error_queries"], rel=0.15)


def test_an_alpha_that_was_used_alone_is_the_plain_mean():
    run = make_run(3)
    answers = {2: answered(run, 2)}
    estimates = off_policy_utility(make_qrels(run), answers, run, [2], "em", K)
    wanted = fairtk.EU(utility="em").calc_aggregate(make_qrels(run), answers[2])
    assert estimates.means["value"].iloc[0] == pytest.approx(wanted, abs=1e-12)
    assert estimates.per_query["effective"].tolist() == pytest.approx([50.0] * 3)


def test_order_of_rows_and_what_is_below_the_cutoff_change_nothing():
    run = make_run(3)
    deep = {a: answered(run, a, cutoff=None) for a in (1, 3)}
    shuffled = {a: frame.sample(frac=1, random_state=1) for a, frame in deep.items()}
    cut = {a: frame[frame["rank"] < K] for a, frame in deep.items()}
    tables = [
        off_policy_utility(make_qrels(run), frames, scores, [2], "em", K).per_query
        for frames, scores in ((cut, run), (deep, run), (shuffled, run.sample(frac=1)))
    ]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])


def test_a_measure_may_be_given_and_short_profiles_are_read_whole():
    run = pd.concat([make_run(1), make_run(2, SCORES[:1]).tail(1)])
    answers = {1: answered(run.head(6), 1)}
    one = run.tail(1).assign(rank=0, sample=0, qanswer="yes")
    answers[1] = pd.concat([answers[1], one], ignore_index=True)
    with pytest.warns(DataWarning, match="30"):
        estimates = off_policy_utility(
            make_qrels(run), answers, run, [1], fairtk.EU(utility="em"), K
        )
    assert estimates.per_query["value"].iloc[1] == 1.0
    assert np.isnan(estimates.per_query["error"].iloc[1])  # one draw says nothing of its spread


def test_what_no_answer_was_generated_for_is_doubtful():
    """All drawn rankings are alike at alpha 64, and all unlikely: Kish's number would be large."""
    run = make_run(1, [2.0, 1.9, 1.0] + [1.0 + i / 1000 for i in range(100, 0, -1)])
    answers = {0: answered(run, 0)}
    with pytest.warns(DataWarning, match="unreliable"):
        estimates = off_policy_utility(make_qrels(run), answers, run, [64], "em", K)
    assert estimates.per_query["effective"].iloc[0] < 1


# --- what is missing, and what is refused


def test_a_query_without_answers_gets_the_worst_value():
    run = make_run(2)
    answers = {1: answered(run[run["qid"] == "q0"], 1)}
    with (
        pytest.warns(MissingWarning, match="1 of 2"),
        pytest.warns(DataWarning, match="unreliable"),
    ):
        estimates = off_policy_utility(make_qrels(run), answers, run, [1], "em", K)
    assert estimates.per_query["value"].tolist()[1] == 0.0
    assert estimates.means[["n", "low"]].iloc[0].tolist() == [2, 1]


def test_answers_of_another_run_are_refused():
    run = make_run(20)
    other = run.assign(score=run["score"].to_numpy()[::-1])
    with pytest.raises(InputError):
        off_policy_utility(make_qrels(run), {2: answered(run, 2)}, other, [3], "em", K)
    stratified = FairSampler(1, 50, K, method="stratified")(run).assign(qanswer="yes")
    estimates = off_policy_utility(make_qrels(run), {1: stratified}, run, [1], "em", K)
    assert estimates.means["value"].tolist() == [1]


@pytest.mark.parametrize(("alpha", "said"), [(1, "more likely"), (4, "less likely")])
def test_answers_of_another_alpha_are_refused(alpha, said):
    run = make_run(20)
    answers = {1: answered(run, 1, seed=5), alpha: answered(run, 2, seed=7)}
    with pytest.raises(InputError, match=rf"answers\[{alpha}.*{said} rankings .*another alpha"):
        off_policy_utility(make_qrels(run), answers, run, [3], "em", K)


@given(st.integers(0, 10_000), st.sampled_from([0, 0.5, 1, 2, 8]), st.sampled_from([1, 2, 30]))
def test_answers_of_any_seed_are_taken(seed, alpha, n_samples):
    run = make_run(3)
    answers = {alpha: answered(run, alpha, n_samples, seed=seed)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        estimates = off_policy_utility(make_qrels(run), answers, run, [alpha], "em", K)
    rankings = answers[alpha].drop_duplicates(["qid", "sample"])
    assert estimates.means["value"][0] == pytest.approx((rankings["qanswer"] == "yes").mean())


def test_rankings_that_the_policy_cannot_draw_are_refused():
    run = make_run(2)
    qrels = make_qrels(run)
    answers = answered(run, 1)
    strange = answers.assign(docno=answers["docno"].str.replace("q1/d0", "q1/d9"))
    with pytest.raises(InputError, match="docno 'q1/d9'.*qid 'q1'"):
        off_policy_utility(qrels, {1: strange}, run, [1], "em", K)
    with pytest.raises(InputError, match=r"rankings of alpha 64.*46 such rankings"):
        off_policy_utility(qrels, {64: answers}, run, [1], "em", K)
    with pytest.raises(InputError, match="cutoff=5"):
        off_policy_utility(qrels, {1: answers}, run, [1], "em")


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"answers": {}}, ParameterError, "dict from alpha to frame"),
        ({"alphas": []}, ParameterError, "`alphas` must not be empty"),
        ({"alphas": 3}, ParameterError, "alphas must be a list"),
        ({"alphas": [float("nan")]}, ParameterError, "finite number"),
        ({"alphas": ["9" * 400]}, ParameterError, "finite number"),
        ({"alphas": [10**400]}, ParameterError, "finite number"),
        ({"estimator": "snips"}, NotFoundError, "unknown estimator"),
        ({"utility": "emm"}, ParameterError, "utility"),
        ({"cutoff": 0}, ParameterError, "cutoff"),
    ],
)
def test_bad_settings(changed, error, words):
    run = make_run(1)
    settings = {
        "answers": {1: answered(run, 1)},
        "scores": run,
        "qrels": make_qrels(run),
        "alphas": [1],
        "utility": "em",
        "cutoff": K,
    }
    with pytest.raises(error, match=words):
        off_policy_utility(**{**settings, **changed})


def test_frames_that_are_no_answers():
    run = make_run(1)
    answers, qrels = answered(run, 1), make_qrels(run)
    for frames, scores, error, words in (
        (answers.drop(columns="qanswer"), run, ColumnError, "qanswer"),
        (answers.drop(columns="docno"), run, ColumnError, "docno"),
        (answers, answers, ColumnError, "run of the retriever"),
        (answers, run.assign(score=np.nan), InputError, "score"),
    ):
        with pytest.raises(error, match=words):
            off_policy_utility(qrels, {1: frames}, scores, [1], "em", K)
    with pytest.raises(ColumnError, match="gold_answer"):
        off_policy_utility(qrels.drop(columns="gold_answer"), {1: answers}, run, [1], "em", K)


def test_answers_that_are_all_right_do_not_say_that_none_is_wrong():
    # ten draws, all of value 1, and one more at 0 and at 1: mean 11/12
    nothing = np.zeros((1, 10))
    estimates = balanced_means(
        nothing, nothing, np.zeros(10, int), np.arange(10), np.ones(10), "self-normalized", (0, 1)
    )
    variance = ((11 / 12) ** 2 + (1 / 12) ** 2 + 10 * (1 / 12) ** 2) / 12
    assert estimates.value[0] == 1 and estimates.error[0] == pytest.approx(np.sqrt(variance / 10))
    # without bounds, as of an error that has no largest value, nothing is added
    free = balanced_means(
        nothing, nothing, np.zeros(10, int), np.arange(10), np.ones(10), "self-normalized"
    )
    assert free.error[0] == 0
