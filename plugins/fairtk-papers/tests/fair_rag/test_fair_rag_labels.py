"""Utility labels: appendix B of the paper, by hand and with the packaged model."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from chat_server import serving
from fairtk_papers.fair_rag.labels import (
    ALONE,
    WITHOUT,
    TaskLabels,
    UtilityLabels,
    agreement,
    label_agreement,
    statistics,
    utility_labels,
)

from fairtk import Candidates, FlanT5, Generator, demo
from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.errors import DataWarning, InputError, ParameterError, StageError
from fairtk.llm import Completion

FACTS = {"x": "red", "y": "green", "z": "blue"}


def candidates(topics):
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


@pytest.mark.parametrize("as_id", [str, int])
def test_the_gold_answers_of_a_query_may_be_in_several_rows(as_id):
    """Each answer is right; ids may be numbers."""
    both = pd.concat([golds(), golds(), pd.DataFrame({"qid": ["1"], "gold_answer": ["blue"]})])
    given, both = (frame.assign(qid=frame["qid"].map(as_id)) for frame in (topics(), both))
    result = utility_labels(given, candidates(given), both, Generator(colors), "accuracy")
    assert result.documents["label"].tolist() == [1, 0, 1, 0, 0, 0]
    assert result.baseline["gold_answer"].tolist() == [["red", "blue"], "1", "nothing"]


def test_gold_answers_are_checked_before_the_model_is_called():
    def refuse(prompts):
        pytest.fail("called")

    for wrong in (None, [], 1):
        inputs = topics(), candidates(topics()), golds().assign(gold_answer=["red", "1", wrong])
        with pytest.raises(InputError, match="'3'"):
            utility_labels(*inputs, Generator(refuse), "accuracy")


class Failing:
    """Names colors, but not for one prompt: fails, or reads less than half of it."""

    name = "failing"

    def __init__(self, word, reads=False):
        self.word, self.reads = word, reads

    def generate(self, prompts):
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, prompt):
        tokens = None
        if self.word in prompt:
            if not self.reads:
                raise ValueError("no luck")
            tokens = 1
        return Completion(colors([prompt])[0], prompt_tokens=tokens)


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(("word", "system"), [("blue", ALONE), ("one", WITHOUT)])
def test_queries_without_an_answer_or_with_a_cut_prompt_have_no_labels(word, system, reads):
    generator = Generator(Failing(word, reads))
    with pytest.warns(DataWarning, match="1 of 3 queries"):
        result = utility_labels(topics(), candidates(topics()), golds(), generator, "accuracy")
    assert result.documents["qid"].tolist() == ["2", "2", "3"]
    assert not result.documents.isna().any(axis=None)
    failures = result.failures.set_index("system")["qid"]
    assert failures[system] == "1" and set(failures) == {"1"}
    assert set(result.qrels(0)["qid"]) == {"2", "3"}


@pytest.mark.parametrize(("reads", "reason"), [(False, "no luck"), (True, "less than half")])
def test_no_query_has_an_answer(reads, reason):
    inputs = topics(), candidates(topics()), golds(), Generator(Failing("red", reads))
    with (
        pytest.warns(DataWarning, match="3 of 3"),
        pytest.raises(StageError, match=f"3 queries .*{reason}"),
    ):
        utility_labels(*inputs, "accuracy")


def test_queries_without_candidates():
    none = candidates(topics()) >> pt.apply.generic(lambda rows: rows.head(0))
    with pytest.raises(InputError, match="no candidates"):
        utility_labels(topics(), none, golds(), Generator(colors), "accuracy")


def test_equal_answers_in_another_order_are_no_gain(client):
    """The utilities 4/9, 6/10 and 8/11 have two sums in floating point, by their order."""
    pytest.importorskip("openai")
    answers = ["a b", "a b c", "a b c d"]

    def rule(prompt, count):
        return answers[count - 1 if "red" in prompt else -count]

    with serving(rule) as server:
        gold = golds().assign(gold_answer="a b c d e f g")
        generator = Generator(client(server, temperature=0.7, concurrency=1), answers=3)
        result = utility_labels(topics(), candidates(topics()), gold, generator, "rougeL")
    assert 0 < result.documents["gain"].max() < 1e-15
    assert set(result.documents["label"]) == {0}


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
