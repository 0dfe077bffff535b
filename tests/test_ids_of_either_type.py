"""An integer 1 and "1" are the same id, wherever ids are given: each call, once with each type."""

import warnings

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from settings_calls import Echo

import fairtk
from fairtk import Groups, Target, credit, io
from fairtk.errors import InputError
from fairtk.transformers import OracleExposure

DOCNOS = ["11", "12", "13"]
QIDS = ["1", "2", "3"]
ROWS = [(qid, docno) for qid in QIDS for docno in DOCNOS]
RUN = pd.DataFrame(ROWS, columns=["qid", "docno"]).assign(score=[3.0, 2.0, 1.0] * 3)
OTHER = RUN.assign(score=[1.0, 2.0, 3.0, 2.0, 1.0, 3.0, 1.0, 3.0, 2.0])
QRELS = RUN[["qid", "docno"]].assign(label=[1, 0, 1, 0, 1, 0, 0, 1, 1])
TOPICS = pd.DataFrame({"qid": QIDS, "query": ["one", "two", "three"]})
ANSWERS = pd.DataFrame({"qid": QIDS, "qanswer": ["x", "y", "z"]})
GOLD = pd.DataFrame({"qid": QIDS, "gold_answer": ["x", "y", "w"]})
LISTED = fairtk.join_answers(QRELS, GOLD)
ANSWERED = RUN.merge(ANSWERS)
SAMPLED = fairtk.FairSampler(n_samples=2)(RUN)
OF_SAMPLES = SAMPLED[["qid", "sample"]].drop_duplicates().assign(qanswer="x")
SUBSETS = credit.Subsets("one-out", cutoff=2)(RUN).assign(qanswer="x")
GROUP = dict(zip(DOCNOS, "xyx", strict=True))
GROUPS = Groups.of(GROUP)
CLUSTERS = {"1": "a", "2": "b", "3": "b"}
SHARES = {qid: {"x": 0.25, "y": 0.75} for qid in QIDS}
SAMPLER = fairtk.FairSampler(alpha=1, n_samples=4, cutoff=2)
DRAWN = SAMPLER(RUN).assign(qanswer="x")
CREDITED = DRAWN.assign(credit=1.0)
EU = fairtk.EU(utility="em")
EM, AWRF = "EU(utility='em')", "AWRF@2"


def values(*given, **options):
    return fairtk.evaluate(*given, **options).per_query


def fair(**options):
    return values(QRELS, RUN, [AWRF], **{"groups": {"g": GROUP}, "target": "uniform"} | options)


def varied(qrels, runs):
    return fairtk.sensitivity(qrels, runs, "nDCG@2", vary=["judgments"]).table


def refined(group):
    requests = []

    class Model(Echo):
        def generate(self, prompts):
            requests.extend(prompts)
            return ["more"] * len(prompts)

    fairtk.QueryRefiner(Model(), group=group)(TOPICS)
    return requests


GIVEN = {
    "qrels": (lambda d: values(d, RUN, ["nDCG@2", "EE_R@2"]), QRELS),
    "run": (lambda d: values(QRELS, d, ["nDCG@2", "EE_R@2"]), RUN),
    "answers": (lambda d: values(LISTED, RUN, [EM], answers=d), ANSWERS),
    "answers by run": (lambda d: values(LISTED, {"r": RUN}, [EM], answers={"r": d}), ANSWERS),
    "answers of samples": (lambda d: values(LISTED, SAMPLED, [EM], answers=d), OF_SAMPLES),
    "run of answers": (lambda d: values(LISTED, d, [EM], answers=ANSWERS), RUN),
    "gold": (lambda d: values(QRELS, RUN, [EM], answers=ANSWERS, gold=d), GOLD),
    "qrels of gold": (lambda d: values(d, RUN, [EM], answers=ANSWERS, gold=GOLD), QRELS),
    "checked": (lambda d: fairtk.evaluate(QRELS, RUN, ["P@2"], checked=d).corrected, QRELS[:6]),
    "checked without gold": (
        lambda d: fairtk.evaluate(LISTED, ANSWERED, [EM], checked=d).corrected,
        QRELS[:6],
    ),
    "cluster": (lambda d: fairtk.evaluate(QRELS, RUN, ["P@2"], cluster=d).clusters, CLUSTERS),
    "cluster of a frame": (
        lambda d: fairtk.evaluate(QRELS, RUN, ["P@2"], cluster=d).clusters,
        pd.DataFrame({"qid": QIDS, "cluster": ["a", "b", "b"]}),
    ),
    "groups": (lambda d: fair(groups={"g": d}), GROUP),
    "groups of a frame": (
        lambda d: fair(groups=d),
        pd.DataFrame({"docno": DOCNOS, "group": ["x", "y", "x"]}),
    ),
    "target": (lambda d: fair(target=d), SHARES),
    "target of a frame": (lambda d: fair(target=d), Target.of(SHARES).to_frame()),
    "target of work": (
        lambda d: Target.from_work_needed(QRELS, GROUPS, d, order=["A", "B"]).to_frame(),
        {"11": "A", "12": "B", "13": "A"},
    ),
    "join_answers, qrels": (lambda d: fairtk.join_answers(d, GOLD), QRELS),
    "join_answers, gold": (lambda d: fairtk.join_answers(QRELS, d), GOLD),
    "add_answers, run": (lambda d: io.add_answers(d, ANSWERS), RUN),
    "add_answers, answers": (lambda d: io.add_answers(RUN, d), ANSWERS),
    "from_answers, gold": (lambda d: credit.from_answers(SUBSETS, "em", d), GOLD),
    "from_answers, gold by qid": (
        lambda d: credit.from_answers(SUBSETS, "em", d),
        {"1": "x", "2": "y", "3": "w"},
    ),
    "from_answers": (lambda d: credit.from_answers(d, "em", GOLD), SUBSETS),
    "providers": (
        lambda d: credit.providers(QRELS, RUN, d, cutoff=2, resamples=20).table,
        GROUP,
    ),
    "weights": (
        lambda d: credit.providers(QRELS, RUN, GROUP, weights=d, cutoff=2, resamples=20).table,
        {"1": 1.0, "2": 2.0, "3": 5.0},
    ),
    "query_gain, groups": (
        lambda d: (
            credit.query_gain(
                LISTED,
                ANSWERED,
                ANSWERED.assign(qanswer="v"),
                d,
                fairtk.EU(utility="em"),
                resamples=20,
            ).table
        ),
        pd.DataFrame({"docno": QIDS, "group": ["x", "y", "x"]}),
    ),
    "explain, qid": (lambda d: fairtk.explain(QRELS, RUN, "EE_L@2", qid=d).by_document, "1"),
    "coverage": (lambda d: fairtk.coverage(GROUPS, d), RUN),
    "topics": (
        lambda d: fairtk.Experiment([pt.Transformer.from_df(RUN)], d, QRELS, ["P@2"]).per_query,
        TOPICS,
    ),
    "qrels of topics": (
        lambda d: fairtk.Experiment([RUN], TOPICS, d, ["P@2"], names=["r"]).per_query,
        QRELS,
    ),
    "frame of topics": (
        lambda d: fairtk.Experiment([d], TOPICS, QRELS, ["P@2"], names=["r"]).per_query,
        RUN,
    ),
    "qrels of a sampler": (
        lambda d: fairtk.OracleSampler(d, n_samples=2)(RUN),
        QRELS,
    ),
    "qrels of optimal exposure": (lambda d: OracleExposure(d, cutoff=2)(RUN), QRELS),
    "answers of other alphas": (
        lambda d: fairtk.off_policy_utility(LISTED, {1.0: d}, RUN, [1, 2], EU, cutoff=2).per_query,
        DRAWN,
    ),
    "scores of other alphas": (
        lambda d: (
            fairtk.off_policy_utility(LISTED, {1.0: DRAWN}, d, [1, 2], EU, cutoff=2).per_query
        ),
        RUN,
    ),
    "sensitivity, run": (lambda d: varied(QRELS[:7], {"a": d, "b": OTHER}), RUN),
    "sensitivity, qrels": (lambda d: varied(d, {"a": RUN, "b": OTHER}), QRELS[:7]),
    "frontier": (
        lambda d: fairtk.frontier(QRELS, {"a": d}, alphas=[1, 2], resamples=9).curve,
        RUN,
    ),
    "browsing": (lambda d: credit.fit_browsing(d, RUN, SAMPLER).table, CREDITED),
    "folds": (lambda d: fairtk.experiment.folds(d, 2), QIDS),
    "folds of cross_fit": (
        lambda d: (
            fairtk.experiment.cross_fit(
                fairtk.evaluate(QRELS, {"a": RUN, "b": OTHER}, ["P@2"]), "P@2", d
            ).rows
        ),
        {"1": 0, "2": 1, "3": 1},
    ),
    "groups of a refiner": (refined, {"1": "women", "2": "men", "3": "women"}),
}
"""A call, and what is given with ids."""


def as_integers(data):
    if isinstance(data, pd.DataFrame):
        ids = data.columns.intersection(["qid", "docno"])
        return data.assign(**{name: data[name].astype(np.int64) for name in ids})
    if isinstance(data, dict):
        return {int(key): value for key, value in data.items()}
    return [*map(int, data)] if isinstance(data, list) else int(data)


def text_of(result):
    """Return a result as text, also the ids of functions that keep their type."""
    if isinstance(result, pd.DataFrame):
        ids = result.columns.intersection(["qid", "docno"])
        return result.astype(dict.fromkeys(ids, str)).to_json()
    return str(result)


@pytest.mark.parametrize("name", GIVEN)
def test_text_and_integers_are_the_same_ids(name):
    call, given = GIVEN[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # toys are small
        expected, result = call(given), call(as_integers(given))
    assert text_of(result) == text_of(expected)


def test_both_types_in_a_frame_are_refused():
    mixed = pd.DataFrame({"qid": ["1", 1, "2", "3"], "qanswer": list("xyzw")})
    with pytest.raises(InputError, match="answers of r: qid '1'"):
        fairtk.evaluate(LISTED, {"r": RUN}, [EM], answers=mixed)
