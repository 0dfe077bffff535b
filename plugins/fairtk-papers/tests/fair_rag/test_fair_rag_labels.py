"""Utility labels: appendix B of the paper, by hand and with the packaged model."""

import numpy as np
import pandas as pd
import pytest
from fairtk_papers.fair_rag.labels import (
    TaskLabels,
    UtilityLabels,
    agreement,
    label_agreement,
    statistics,
    utility_labels,
)

from fairtk import Candidates, FlanT5, Generator, demo
from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.errors import InputError, ParameterError

FACTS = {"x": "red", "y": "green", "z": "blue"}


def candidates(topics):
    import pyterrier as pt

    rows = [
        (qid, docno, -float("xyz".index(docno)), FACTS[docno])
        for qid, docnos in (("1", "xyz"), ("2", "xy"), ("3", "x"))
        for docno in docnos
    ]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score", "text"])
    return pt.apply.generic(lambda inp: inp.merge(frame, on="qid"))


def topics():
    return pd.DataFrame({"qid": ["1", "2", "3"], "query": ["one", "two", "three"]})


def golds():
    return pd.DataFrame({"qid": ["1", "2", "3"], "gold_answer": ["red", "1", "nothing"]})


def colors(prompts):
    """Answer with the color that the prompt names; "nothing" without documents."""
    return [next((c for c in FACTS.values() if c in p), "nothing") for p in prompts]


def labels(**settings):
    return utility_labels(
        topics(), candidates(topics()), golds(), Generator(colors), "accuracy", **settings
    )


def test_a_document_is_useful_if_its_answer_is_better_than_none():
    result = labels()
    # query 1 wants "red": x alone answers it (gain 1 - 0); without a document it is "nothing"
    # query 3 wants "nothing", which no document gives: the answer without any has utility 1,
    # that of x has 0, so the gain is -1
    assert result.documents[["qid", "docno", "qanswer", "utility", "gain", "label"]].to_numpy(
        object
    ).tolist() == [
        ["1", "x", "red", 1.0, 1.0, 1],
        ["1", "y", "green", 0.0, 0.0, 0],
        ["1", "z", "blue", 0.0, 0.0, 0],
        ["2", "x", "red", 0.0, 0.0, 0],
        ["2", "y", "green", 0.0, 0.0, 0],
        ["3", "x", "red", 0.0, -1.0, 0],
    ]
    assert result.baseline["utility"].tolist() == [0.0, 0.0, 1.0]
    assert result.baseline["qanswer"].tolist() == ["nothing"] * 3


def test_queries_with_few_useful_documents_are_left_out():
    result = labels()
    assert result.qrels(2).empty
    assert result.qrels(1).to_numpy(object).tolist() == [
        ["1", "x", 1, "red"],
        ["1", "y", 0, "red"],
        ["1", "z", 0, "red"],
    ]


def test_an_error_is_turned_around():
    # LaMP-3: ratings; 5 - 4 = 1 off is 4 - 1 = 3, no number is 4 off, so 0
    ratings = golds().assign(gold_answer="5")

    def rate(prompts):
        return ["4" if "red" in prompt else "no" for prompt in prompts]

    inputs = topics(), candidates(topics()), ratings, Generator(rate)
    result = utility_labels(*inputs, "mae", upper_bound=4)
    assert result.documents["utility"].tolist() == [3.0, 0.0, 0.0, 3.0, 0.0, 3.0]
    assert result.baseline["utility"].tolist() == [0.0] * 3
    with pytest.raises(ParameterError, match="upper_bound"):
        utility_labels(*inputs, "mae")
    with pytest.raises(ParameterError, match="upper_bound"):
        utility_labels(*inputs, "accuracy", upper_bound=4)


def test_gains_as_grades_are_places_among_the_distinct_gains():
    # golds "red green": rougeL of "red" is 2/3; of "blue" 0; equal gains share a grade
    gold = golds().assign(gold_answer="red green")
    result = utility_labels(
        topics(), candidates(topics()), gold, Generator(colors), "rougeL", grades="gain"
    )
    assert result.documents["label"].tolist() == [1, 1, 0, 1, 1, 1]
    with pytest.raises(ParameterError, match="grades"):
        labels(grades="best")


def test_a_query_without_gold_answer_is_named():
    with pytest.raises(InputError, match="1 of 3.*'2'"):
        utility_labels(
            topics(), candidates(topics()), golds().query("qid != '2'"), Generator(colors), "em"
        )


def test_statistics_by_hand():
    rows = [
        ("1", "a", 1),
        ("1", "b", 1),
        ("1", "c", 0),
        ("1", "d", 0),
        ("2", "a", 1),
        ("2", "b", 2),
    ]
    counts = statistics(pd.DataFrame(rows, columns=["qid", "docno", "label"]))
    # documents 4 and 2: mean 3, deviations 1 and -1: sqrt(2 / 1); useful 2 and 2; shares 50, 100
    assert counts == {
        "queries": 2,
        "documents": 3.0,
        "documents std": pytest.approx(np.sqrt(2)),
        "useful": 2.0,
        "useful std": 0.0,
        "percent useful": 75.0,
    }


def test_agreement_by_hand():
    one = pd.DataFrame({"qid": "1", "docno": list("abcde"), "label": [1, 1, 0, 0, 1]})
    other = pd.DataFrame({"qid": "1", "docno": list("abcdf"), "label": [1, 0, 0, 0, 1]})
    # a to d: equal at a, c, d: 3/4; chance: 1/2 * 1/4 + 1/2 * 3/4 = 1/2; kappa (3/4 - 1/2) / (1/2)
    assert agreement(one, other) == {
        "pairs": 4,
        "only here": 1,
        "only published": 1,
        "share": 0.75,
        "kappa": 0.5,
    }
    same = one.assign(label=1)
    assert np.isnan(agreement(same, same)["kappa"])
    assert np.isnan(agreement(one, other.assign(qid="2"))["share"])


@pytest.mark.slow
def test_the_demo_labels_are_what_the_packaged_model_gains(tmp_path):
    data = demo.load()
    model = FlanT5(
        model=demo.model_folder(),
        prompt="lamp-2",
        max_new_tokens=8,
        batch_tokens=4096,
        device="cpu",
    )
    dataset = data.dataset
    result = utility_labels(
        get_topics(dataset), Candidates(dataset), get_answers(dataset), model, "accuracy"
    )
    assert agreement(result.qrels(0), data.qrels)["kappa"] == 1.0
    lamp.write_folder(dataset, result.qrels(), tmp_path)
    again = lamp.from_folder(tmp_path, task=2)
    labels = pd.DataFrame(again.qrels_iter())[["query_id", "doc_id", "relevance"]]
    expected = result.qrels()[["qid", "docno", "label"]]
    assert labels.to_numpy().tolist() == expected.to_numpy().tolist()


def labeled(labels):
    documents = pd.DataFrame(
        {"qid": "q", "docno": [str(i) for i in range(len(labels))], "label": labels}
    )
    own = UtilityLabels(documents, documents.head(0), documents.head(0))
    return TaskLabels(documents, 1, {}, own)


def test_flipped_labels_of_two_generators():
    labels = {
        ("LaMP-4", "t5"): labeled([1, 1, 0, 0]),
        ("LaMP-4", "t5-bfloat16"): labeled([1, 0, 0, 0]),
        ("LaMP-2", "t5"): labeled([1]),
        ("LaMP-4", "published"): TaskLabels(pd.DataFrame(), 1, {}, None),
    }
    table = label_agreement(labels)
    # 3 of 4 equal; by chance 1/2 * 1/4 + 1/2 * 3/4 = 1/2: kappa (3/4 - 1/2) / (1/2)
    expected = ["LaMP-4", "t5", "t5-bfloat16", 4, 1, 0.75, 0.5]
    assert table.to_numpy().tolist() == [expected]
