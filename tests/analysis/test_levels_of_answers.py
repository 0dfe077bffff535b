"""Errors of EU over queries, rankings and answers: simulations with known variances."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk import EU
from fairtk.experiment.answer_spread import spread_over_answers
from fairtk.experiment.sampling_spread import spread_over_samples
from fairtk.measures import LabeledRun
from fairtk.statistics import two_level_mean

ERROR = EU(utility="mae", upper_bound=4)


def labeled(lists, prompts=None, gold="3"):
    """Return a run with one document: lists of answers by query and sample."""
    rows = [
        {"qid": f"q{q}", "docno": "d", "score": 1.0, "sample": s, "qanswer": answers}
        for q, rankings in enumerate(lists)
        for s, answers in enumerate(rankings)
    ]
    run = pd.DataFrame(rows)
    if prompts is not None:
        run["prompt_id"] = [p for of_query in prompts for p in of_query]
    qids = run["qid"].unique()
    qrels = pd.DataFrame({"qid": qids, "docno": "d", "label": 1, "gold_answer": gold})
    return qrels, run


def test_parts_by_hand():
    # errors |y - 3| of the answers: 3, 4 -> 0, 1; 5, 5 -> 2, 2; utilities 4 - error
    qrels, run = labeled([[["3", "4"], ["3", "4"], ["5", "5"]]], [["a", "a", "b"]])
    judged = LabeledRun.of(qrels, run, "test")
    answers = spread_over_answers(ERROR, judged)
    # a: mean 3.5, variance 1/2, u = 1/4; b: mean 2, u = 0; m_a = 2 of N = 3
    assert answers.actual == pytest.approx([(2 / 3) ** 2 / 4])
    assert answers.one == pytest.approx([(1 / 4 + 1 / 4 + 0) / 3])
    assert answers.shared == pytest.approx([2 * (1 / 4) / 6])  # 2 of 6 ordered pairs are equal
    assert answers.part(3) == pytest.approx(answers.actual)
    assert answers.part(3, 4) == pytest.approx(answers.actual / 2)
    # over rankings 3.5, 3.5, 2: variance 3/4; minus one - shared
    spread = spread_over_samples(ERROR, judged)
    expected = (0.75 - (1 / 6 - 1 / 12)) / 3
    assert spread.variance() == pytest.approx([expected])
    assert spread.error() == pytest.approx([math.sqrt(expected + 1 / 9)])


def test_one_answer_per_prompt_is_unknown():
    qrels, run = labeled([[["3"], ["4"]], [["5"], ["3"]]])
    for frame in (run, run.assign(qanswer=run["qanswer"].str[0])):
        result = fairtk.precision(qrels, frame, [ERROR])
        assert result.means[["error_answers", "needed_answers"]].isna().all(axis=None)
        assert result.per_query["error_answers"].isna().all()
        assert len(result.notes) == 1 and result.notes[0] in repr(result)
        runs = {"one": frame, "two": frame.assign(qanswer=frame["qanswer"].iloc[::-1].to_list())}
        table = fairtk.compare(qrels, runs, [ERROR], levels=True).table
        row = table[table["run"] == "two"].iloc[0]
        assert math.isnan(row["error_answers"]) and "answers=5" in row["answers"]


def test_other_measures_do_not_read_answers():
    qrels, run = labeled([[["3", "4"]] * 2, [["5", "3"]] * 2])
    assert "error_answers" not in fairtk.precision(qrels, run, ["EE_R@1"]).means
    table = fairtk.precision(qrels, run, ["EE_R@1", ERROR]).means.set_index("measure")
    assert math.isnan(table["error_answers"].iloc[0]) and table["error_answers"].iloc[1] > 0


@pytest.mark.filterwarnings("ignore:.*all differences are 0:fairtk.errors.UndefinedWarning")
def test_runs_that_share_answers_differ_by_nothing():
    qrels, run = labeled([[["3", "4"], ["5", "3"]], [["5", "3"], ["1", "2"]]])
    table = fairtk.compare(qrels, {"a": run, "b": run.copy()}, [ERROR], levels=True).table
    row = table[table["run"] == "b"].iloc[0]
    assert row["error_answers"] == pytest.approx(0, abs=1e-9)
    assert row["error_samples"] == pytest.approx(0, abs=1e-9)


def test_runs_of_one_ranking():
    """Without samples, the answers' part of a query is v / n."""
    qrels, run = labeled([[["3", "4"]], [["5", "5"]]])
    run = run.drop(columns="sample")
    other = run.assign(qanswer=[["1", "3"], ["3", "3"]])
    table = fairtk.compare(qrels, {"a": run, "b": other}, [ERROR], levels=True).table
    # u: 1/4 and 0; and of the other run (utilities 2, 4) 1 and 0; mean of the sums 5/8, 2 queries
    row = table[table["run"] == "b"].iloc[0]
    assert row["error_answers"] == pytest.approx(math.sqrt(5 / 8 / 2))
    assert row["answers"] == ""


# Simulations ---------------------------------------------------------------------------------

SIGMAS = {"queries": 0.5, "prompts": 0.4, "answers": 0.6}  # standard deviations
PROMPTS = 4  # a query has so many prompts, which rankings choose with these probabilities:
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def simulated(generator, n_queries, n_samples=6, n_answers=3):
    """Return labels, a run, and the true variance of its mean by level.

    The value of an answer is query + prompt + answer. Rankings choose prompts, so they share them.
    """
    query = generator.normal(0, SIGMAS["queries"], (n_queries, 1))
    prompt = query + generator.normal(0, SIGMAS["prompts"], (n_queries, PROMPTS))
    noise = generator.normal(0, SIGMAS["answers"], (n_queries, PROMPTS, n_answers))
    texts = (prompt[..., None] + noise).round(9).astype(str)
    chosen = generator.choice(PROMPTS, (n_queries, n_samples), p=SHARES)
    lists = [[texts[q, p].tolist() for p in of] for q, of in enumerate(chosen)]
    qrels, run = labeled(lists, [[f"{q} {p}" for p in of] for q, of in enumerate(chosen)], "-9")
    mean = (prompt * SHARES).sum(axis=1)
    over_rankings = ((prompt - mean[:, None]) ** 2 * SHARES).sum(axis=1) / n_samples
    equal = (SHARES**2).sum()
    over_answers = (
        SIGMAS["answers"] ** 2 / n_answers * (1 / n_samples + (1 - 1 / n_samples) * equal)
    )
    return qrels, run, over_rankings.mean(), over_answers


def parts(qrels, run):
    """Return the value, its parts over rankings and over answers, by query."""
    measure = EU(utility="mae")  # the distance to a number below all values: linear in the answer
    judged = LabeledRun.of(qrels, run, "test")
    spread = spread_over_samples(measure, judged)
    value = measure.score_all(judged).values
    assert spread.answers is not None
    return value, spread.variance(), spread.answers.part()


def check(n_queries, repetitions, seed, tolerance):
    generator = np.random.default_rng(seed)
    estimates, covered = [], 0
    for _ in range(repetitions):
        qrels, run, rankings, answers = simulated(generator, n_queries)
        value, of_rankings, of_answers = parts(qrels, run)
        levels = two_level_mean(value, of_rankings, of_answers)
        between = value.var(ddof=1) - of_rankings.mean() - of_answers.mean()
        estimates.append([of_rankings.mean() - rankings, of_answers.mean() - answers, between])
        covered += levels.low <= 9 <= levels.high  # queries have the mean 0, the gold is -9
    estimates = np.array(estimates)
    # the true means of a query: query + weighted prompts
    truth = SIGMAS["queries"] ** 2 + SIGMAS["prompts"] ** 2 * (SHARES**2).sum()
    mean, error = estimates.mean(axis=0), estimates.std(axis=0, ddof=1) / math.sqrt(repetitions)
    assert np.abs((mean - [0, 0, truth]) / error).max() < tolerance
    return covered / repetitions


def test_parts_are_unbiased():
    check(n_queries=60, repetitions=40, seed=1, tolerance=3.5)


@pytest.mark.nightly
def test_parts_are_unbiased_and_intervals_cover():
    coverage = check(n_queries=30, repetitions=2000, seed=2, tolerance=3.5)
    assert 0.93 <= coverage <= 0.97


def test_planned_numbers():
    generator = np.random.default_rng(3)
    qrels, run, *_ = simulated(generator, 40)
    measure = EU(utility="mae")
    means = fairtk.precision(qrels, run, [measure], half_width=0.05).means.iloc[0]
    assert 0 < means["error_answers"] < means["error"]
    # with the needed answers, the half-width is reached, and with one less it is not
    judged = LabeledRun.of(qrels, run, "test")
    spread = spread_over_samples(measure, judged)
    samples = max(spread.variance().sum(), 0) / 40**2

    def half_width(n):
        return 1.959964 * math.sqrt(samples + spread.answers.part(None, n).sum() / 40**2)

    needed = means["needed_answers"]
    if math.isfinite(needed):
        assert half_width(needed) <= 0.05 * (1 + 1e-6)
        assert needed == 1 or half_width(needed - 1) > 0.05
    # infinitely many rankings share prompts, so the answers' part stays
    limit = 1.959964 * math.sqrt(spread.answers.shared.sum() / 40**2)
    tight = fairtk.precision(qrels, run, [measure], half_width=limit * 0.9).means.iloc[0]
    wide = fairtk.precision(qrels, run, [measure], half_width=limit * 1.2).means.iloc[0]
    assert tight["needed"] == math.inf and wide["needed"] < math.inf


def test_queries_needed_by_answers():
    generator = np.random.default_rng(4)
    qrels, one, *_ = simulated(generator, 30)
    other = simulated(generator, 30)[1]
    compared = fairtk.compare(qrels, {"a": one, "b": other}, [EU(utility="mae")], levels=True)
    plan = compared.queries_needed(0.1, (6,), n_answers=(1, 3, 30))
    assert plan["n_answers"].tolist() == [1, 3, 30]
    nothing = compared.queries_needed(0.1, (6,), n_answers=())
    assert nothing.empty and nothing.columns.equals(plan.columns)
    assert plan["deviation"].is_monotonic_decreasing
    assert plan["queries"].is_monotonic_decreasing
    # with the actual numbers, the deviation is that of the values
    same = compared.queries_needed(0.1, (6,))
    assert same["deviation"][0] == pytest.approx(plan["deviation"][1])
    without = fairtk.compare(
        qrels,
        {
            name: run.assign(qanswer=[a[0] for a in run["qanswer"]])
            for name, run in (("a", one), ("b", other))
        },
        [EU(utility="mae")],
    )
    assert without.queries_needed(0.1, (6,), n_answers=(2,))["queries"].isna().all()


def test_only_the_sampled_system_of_a_plan_has_other_numbers_of_samples():
    # u of the prompts a and b of the sampled run: 1/4 and 0, so N samples have 1/8 / N
    rankings = [["3", "4"], ["5", "5"]]
    qrels, sampled = labeled([rankings] * 2, [["a", "b"]] * 2)
    judged = LabeledRun.of(qrels, sampled, "test")
    fixed = sampled.drop_duplicates("qid").drop(columns=["sample", "prompt_id"])
    fixed = fixed.assign(qanswer=[["1", "3"], ["3", "3"]])  # u: 1 and 0
    compared = fairtk.compare(qrels, {"fixed": fixed, "sampled": sampled}, [ERROR], levels=True)
    plan = compared.queries_needed(0.1, (2, 4, 8)).set_index("n_samples")
    of_samples = spread_over_samples(ERROR, judged)
    for n in (2, 4, 8):
        within = plan["deviation"][n] ** 2 - plan["deviation_queries"][n] ** 2
        expected = of_samples.variance(n).mean() + 1 / 8 / n + 1 / 2
        assert within == pytest.approx(expected)
