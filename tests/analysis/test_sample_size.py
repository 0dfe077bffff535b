"""Standard errors from sampling and samples needed: by hand, and exactly by enumeration."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import P, nDCG

import fairtk
from fairtk import EE_D, EE_L, EE_R, EU, E, FairSampler, precision
from fairtk.analysis.sample_size import fewest_samples
from fairtk.errors import InputError, MissingWarning, ParameterError
from fairtk.experiment.sampling_spread import (
    SampleSpread,
    SharedSpread,
    _Kernel,
    _moments,
    shared_over_samples,
    spread_over_samples,
)
from fairtk.measures import LabeledRun

RUN = pd.DataFrame(
    {"qid": "q", "docno": [f"d{i}" for i in range(8)], "score": [8.0, 7, 6, 6, 4, 3, 1, 0]}
)
QRELS = pd.DataFrame({"qid": "q", "docno": [f"d{i}" for i in range(8)], "label": [0, 1] * 4})


def sampled(n_samples=30, seed=42, alpha=2):
    return FairSampler(alpha=alpha, n_samples=n_samples, cutoff=3, seed=seed)(RUN)


def test_means_over_samples_by_hand():
    # four answers, three right: mean 3/4, variance (3 * (1/4)^2 + (3/4)^2) / 3 = 1/4
    run = pd.DataFrame(
        {"qid": "q", "docno": "d0", "score": 1.0, "rank": 0, "sample": range(4)}
    ).assign(qanswer=["yes", "yes", "no", "yes"])
    result = precision(QRELS.assign(gold_answer="yes"), run, EU(utility="em"), 0.1)
    row = result.per_query.iloc[0]
    assert row["value"] == 0.75 and row["n_samples"] == 4 and row["bias"] == 0
    assert row["error"] == pytest.approx(np.sqrt(1 / 4 / 4))
    assert row["needed"] == np.ceil(1.959964**2 / 4 / 0.1**2)  # 97 = 96.04 rounded up
    assert result.means["half_width"][0] == pytest.approx(1.959964 * row["error"])
    assert "samples for +-0.1 at 95%" in repr(result)


def test_covariance_of_pairs_is_unbiased_by_enumeration():
    """Over all 3^6 draws of a joint policy: five samples and six, of which five are paired."""
    first = np.array([[1.0, 1, 0], [1, 0, 1], [0, 0.5, 0]]), np.array([0.2, 0.9, 0.4])
    second = np.array([[1.0, 0], [0, 0.3], [0.8, 0.8]]), np.zeros(3)
    probability = np.array([0.5, 0.3, 0.2])
    five, six = np.array([5]), np.array([6])
    of_pairs, of_means, chance = [], [], []
    for drawn in product(range(3), repeat=6):
        rows = list(drawn)
        own, paired = (_Kernel(*(part[rows[:5]] for part in side)) for side in (first, second))
        other = _Kernel(*(part[rows] for part in second))
        parts = np.array(_moments(own, paired))[:, None]
        covariance = SharedSpread(five, six, five, *parts).covariance()[0]
        of_pairs.append((own.mean, other.mean, covariance))
        x, y = first[1][rows[:5]], second[0][rows, 0]  # of means: a = c / 4 and b = c / 2
        c = np.cov(x, y[:5])[:1, 1]
        covariance = SharedSpread(five, six, five, c / 4, c / 2).covariance()[0]
        of_means.append((x.mean(), y.mean(), covariance))
        chance.append(probability[rows].prod())
    chance = np.array(chance)
    for x, y, estimate in (np.transpose(of_pairs), np.transpose(of_means)):
        exact = chance @ (x * y) - (chance @ x) * (chance @ y)
        assert abs(exact) > 1e-3 and chance @ estimate == pytest.approx(exact)


def test_samples_of_one_number_are_paired():
    """By hand: 1, 0, 1 and 0, 1, 1 in samples 0, 1, 2: covariance (1/3 - 4/9) 3/2 = -1/6."""
    answers = {"a": {7: "y", 0: "y", 1: "n", 2: "y"}, "b": {2: "y", 1: "y", 0: "n", 9: "n"}}
    judged = []
    for own in answers.values():
        run = pd.DataFrame({"sample": own.keys(), "qanswer": own.values()})
        run = run.assign(qid="q", docno="d0", score=1.0, rank=0)
        judged.append(LabeledRun.of(QRELS.assign(gold_answer="y"), run, "EU"))
    em = EU(utility="em")
    shared = shared_over_samples(em, *judged)
    assert (shared.first[0], shared.second[0], shared.both[0]) == (4, 4, 3)
    assert shared.covariance()[0] == pytest.approx(3 * (-1 / 6) / (4 * 4))
    assert shared.covariance(10)[0] == pytest.approx(-1 / 6 / 10)


@pytest.mark.parametrize(
    "measure", [EE_D @ 3, EE_L @ 3, EE_R @ 3, E(nDCG @ 3), E(P(judged_only=True) @ 3)]
)
def test_a_run_varies_with_itself_as_it_varies(measure):
    judged = LabeledRun.of(QRELS, sampled(9).sample(frac=1, random_state=1), "x")
    shared = shared_over_samples(measure, judged, judged)
    spread = spread_over_samples(measure, judged)
    assert shared.covariance() == pytest.approx(spread.variance())
    assert shared.covariance(40) == pytest.approx(spread.variance(40))
    other = sampled(9)
    apart = LabeledRun.of(QRELS, other.assign(sample=other["sample"] + 100), "y")
    assert shared_over_samples(measure, judged, apart).covariance().tolist() == [0]
    three = LabeledRun.of(QRELS, other.assign(sample=other["sample"] + 6), "y")  # 6, 7 and 8
    few = shared_over_samples(measure, judged, three)
    assert few.both.tolist() == [3]
    assert np.isnan(few.covariance()).tolist() == [measure.NAME in ("EE_D", "EE_L")]


def test_bias_of_the_plain_estimate():
    run = sampled()
    plain, unbiased = (
        precision(QRELS, run, [EE_D(estimator=e) @ 3, EE_L(estimator=e) @ 3]).per_query
        for e in ("plain", "unbiased")
    )
    removed = plain["value"] - unbiased["value"]
    assert plain["bias"].tolist() == pytest.approx(removed.tolist())
    assert (unbiased["bias"] == 0).all()
    assert plain["error"].tolist() == unbiased["error"].tolist()


@given(one=st.floats(0, 1), two=st.floats(0, 4), least=st.floats(1e-4, 0.5))  # b is never below 2 a
def test_samples_needed_are_the_fewest(one, two, least):
    two = max(two, 2 * one)
    needed = int(
        fewest_samples(np.array([one]), np.array([two]), np.zeros(1), math.sqrt(least), 1.0)[0]
    )
    spread = SampleSpread(np.array([9]), np.array([one]), np.array([two]), *np.zeros((2, 1)))
    assert spread.variance(needed)[0] <= least * (1 + 1e-6)
    assert needed == 2 or spread.variance(needed - 1)[0] > least * (1 - 1e-6)


def test_other_evaluators_samples_and_missing_queries():
    run = sampled(6)
    qrels = pd.concat([QRELS, QRELS.assign(qid="r")])
    # P@3 has a fast form here, its form with judged documents alone has none
    with pytest.warns(MissingWarning, match="'r'"):
        result = precision(qrels, run, [E(P @ 3), E(P(judged_only=True) @ 3)])
    table = result.per_query.set_index(["measure", "qid"])
    one, other = (table.xs(m, level="measure") for m in result.means["measure"])
    assert one["error"].tolist() == other["error"].tolist()
    assert other.loc["r", ["value", "error", "n_samples"]].tolist() == [0, 0, 0]
    assert result.means["n"].tolist() == [2, 2]
    # half of the queries varies: the mean's error is half of that query's
    assert result.means["error"][0] == pytest.approx(one["error"].iloc[0] / 2)


def test_samples_that_do_not_differ_are_no_proof():
    """19 equal samples: as if the 20th had another answer, ranking or exposure altogether."""
    one = sampled(1).assign(qanswer="yes")
    run = pd.concat([one.assign(sample=number) for number in range(19)])
    measures = [EE_R @ 3, E(nDCG @ 3), EU(utility="em"), EE_D(estimator="unbiased") @ 3]
    result = precision(QRELS.assign(gold_answer="yes"), run, measures)
    assert result.per_query["error"].tolist() == pytest.approx([1 / 20, 1 / 20, 1 / 20, 2 / 20])
    assert result.means["error"].tolist() == result.per_query["error"].tolist()


def test_few_samples_say_nothing():
    table = precision(QRELS, sampled(3, alpha=0, seed=1), [EE_D @ 3, EE_R @ 3]).per_query
    assert np.isnan(table["error"][0]) and np.isnan(table["needed"][0])
    assert table["error"][1] > 0
    assert np.isnan(precision(QRELS, sampled(1), EE_R @ 3).per_query["error"][0])


def test_what_is_refused():
    with pytest.raises(InputError):
        precision(QRELS, sampled(1), EE_D(estimator="unbiased") @ 3)
    with pytest.raises(InputError, match="column 'sample'"):
        precision(QRELS, RUN, EE_D @ 3)
    exact = fairtk.PlackettLuceExposure(alpha=2, cutoff=3)(RUN)
    with pytest.raises(InputError):
        precision(QRELS, exact, EE_D @ 3)
    with pytest.raises(ParameterError, match="EE_D.*EE_R.*EE_L"):
        precision(QRELS, sampled(), fairtk.nDCG_TREC @ 3)
    for options, words in (
        ({"half_width": 0}, "half_width"),
        ({"half_width": "x"}, "half_width"),
        ({"half_width": float("inf")}, "half_width"),
        ({"confidence": 1}, "confidence"),
    ):
        with pytest.raises(ParameterError, match=words):
            precision(QRELS, sampled(), EE_D @ 3, **options)
