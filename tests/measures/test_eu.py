"""EU: the mean utility of generated answers."""

import numpy as np
import pandas as pd
import pytest
from ir_measures import calc_aggregate
from small_frames import values

from fairtk import EE_D, EU
from fairtk.errors import ColumnError, InputError, ParameterError, UndefinedWarning
from fairtk.measures.provider import FairEvaluator

QRELS = pd.DataFrame(
    {
        "query_id": ["q1", "q1", "q2"],
        "doc_id": ["a", "b", "a"],
        "relevance": [1, 0, 1],
        "gold_answer": ["comedy", "comedy", "drama"],
    }
)


def answers(rows):
    return pd.DataFrame(rows, columns=["query_id", "sample", "doc_id", "score", "qanswer"])


RUN = answers(
    [
        ("q1", 0, "a", 2.0, "comedy"),
        ("q1", 0, "b", 1.0, "comedy"),
        ("q1", 1, "b", 1.0, "drama"),
        ("q1", 2, "b", 1.0, "comedy"),
        ("q2", 0, "a", 1.0, "drama"),
    ]
)


@pytest.mark.filterwarnings("ignore:.*PerSample:fairtk.errors.DataWarning")
def test_mean_over_samples_by_hand():
    # q1: right in samples 0 and 2 of three; q2: right in its only sample
    assert values(EU(utility="accuracy"), QRELS, RUN) == {"q1": pytest.approx(2 / 3), "q2": 1}


def test_one_answer_per_query_without_documents():
    run = pd.DataFrame({"query_id": ["q1", "q2"], "qanswer": ["comedy", ""]})
    assert values(EU(utility="accuracy"), QRELS, run) == {"q1": 1, "q2": 0}


def test_several_gold_answers():
    qrels = pd.DataFrame({"query_id": ["q1"], "gold_answer": [["drama", "comedy"]]})
    run = pd.DataFrame({"query_id": ["q1"], "qanswer": ["comedy"]})
    assert values(EU(utility="accuracy"), qrels, run) == {"q1": 1}


def test_errors_are_turned_by_upper_bound():
    qrels = pd.DataFrame({"query_id": ["q1", "q2"], "gold_answer": ["4", "2"]})
    run = pd.DataFrame({"query_id": ["q1"], "qanswer": ["3"]})
    turned = EU(utility="mae", upper_bound=4)
    assert turned.better == "higher"
    assert values(turned, qrels, run) == {"q1": 3, "q2": 0}
    raw = EU(utility="mae")
    assert raw.better == "lower"
    with pytest.warns(UndefinedWarning, match="'q2'.*no answer"):
        got = values(raw, qrels, run)
    assert got["q1"] == 1
    assert np.isnan(got["q2"])
    with pytest.raises(ParameterError):
        EU(utility="accuracy", upper_bound=1)


def test_a_missing_query_gets_zero():
    assert values(EU(utility="rougeL"), QRELS, RUN[RUN.query_id == "q1"])["q2"] == 0
    empty = pd.DataFrame({"query_id": [], "doc_id": [], "score": []})
    assert values(EU(utility="rougeL"), QRELS, empty) == {"q1": 0, "q2": 0}


def test_bad_input():
    with pytest.raises(ColumnError, match="'qanswer'"):
        values(EU("em"), QRELS, RUN.drop(columns="qanswer"))
    with pytest.raises(ColumnError, match="join_answers"):
        values(EU("em"), QRELS.drop(columns="gold_answer"), RUN)
    with pytest.raises(InputError, match="qid 'q1'.*sample 0"):
        values(EU("em"), QRELS, RUN.assign(qanswer=["x", "y", "z", "z", "z"]))
    with pytest.raises(InputError, match="qid 'q2'"):
        values(EU("em"), QRELS, RUN.assign(qanswer=["x", "x", "z", "z", None]))
    with pytest.raises(InputError, match="qid 'q2'"):
        values(EU("em"), QRELS.assign(gold_answer=["c", "c", None]), RUN)
    with pytest.raises(InputError):
        values(EU("em"), QRELS.assign(gold_answer=["c", "d", "e"]), RUN)
    with pytest.raises(ParameterError, match="'rougeL'"):
        EU(utility="rougel")
    with pytest.raises(ParameterError):
        calc_aggregate([EU], QRELS, RUN)


@pytest.mark.filterwarnings("ignore:.*PerSample:fairtk.errors.DataWarning")
def test_labels_of_documents_are_not_needed():
    gold = QRELS[["query_id", "gold_answer"]].drop_duplicates()
    assert FairEvaluator([EU("accuracy")], gold).calc_aggregate(RUN) == pytest.approx(
        {EU("accuracy"): 5 / 6}
    )
    with pytest.raises(ColumnError, match="EE_D@2.*'docno'.*'label'"):
        FairEvaluator([EE_D @ 2], gold).calc_aggregate(RUN)
