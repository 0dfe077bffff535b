"""The toy frames: valid, deterministic, and as their docstrings say."""

import numpy as np
import pytest

from fairtk import testing
from fairtk.frames import Run
from fairtk.measures import nDCG_TREC
from fairtk.testing import (
    toy_answers,
    toy_documents,
    toy_groups,
    toy_qrels,
    toy_run,
    toy_samples,
    toy_topics,
)

TOYS = [getattr(testing, name) for name in testing.__all__ if name.startswith("toy_")]


@pytest.mark.parametrize("toy", TOYS, ids=lambda t: t.__name__)
def test_made_anew_each_time(toy):
    one = toy()
    assert one.equals(toy())
    one[one.columns[0]] = "changed"
    assert not one.equals(toy())


def test_runs_are_valid():
    for run in (toy_run(), toy_samples(), toy_answers()):
        Run(run, "toy").checked()
    assert toy_run().groupby("qid").size().to_dict() == {"q1": 6, "q2": 6, "q3": 4, "q4": 1}
    assert toy_samples(7).groupby("qid")["sample"].nunique().tolist() == [7] * 4


def test_samples():
    samples = toy_samples()
    first = samples[samples["sample"] == 0]
    assert first["docno"].tolist() == toy_run()["docno"].tolist()
    # q3 is d6 d1 d4 d2; sample 1 is turned by one, d1 d4 d2 d6, and reversed
    q3 = samples[(samples["qid"] == "q3") & (samples["sample"] == 1)]
    assert q3["docno"].tolist() == ["d6", "d2", "d4", "d1"]
    assert toy_samples(2).equals(samples[samples["sample"] < 2].reset_index(drop=True))


def test_one_answer_per_ranking():
    answers = toy_answers()
    assert (answers.groupby(["qid", "sample"])["qanswer"].nunique() == 1).all()
    top = answers[answers["rank"] == 0]
    assert (top["qanswer"] == top["text"]).all()


def test_all_documents_are_known():
    docnos = set(toy_documents()["docno"])
    assert set(toy_run()["docno"]) == docnos
    assert set(toy_groups()["docno"]) == docnos
    assert (toy_groups().groupby("docno")["weight"].sum() == 1).all()
    assert (toy_qrels().groupby("qid")["docno"].nunique() == len(docnos)).all()
    assert set(toy_qrels()["qid"]) == set(toy_topics()["qid"])


def test_a_value_by_hand():
    # q3 at 2: d6 (useful), d1 (not). Ideal: two useful. Weights 1 and 1: (1 + 0) / (1 + 1)
    found = {
        m.query_id: m.value
        for m in (nDCG_TREC @ 2).iter_calc(
            toy_qrels().rename(
                columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"}
            ),
            toy_run().rename(columns={"qid": "query_id", "docno": "doc_id"}),
        )
    }
    assert np.isclose(found["q3"], 0.5)
