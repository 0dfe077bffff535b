import math
import sys

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from fairtk import utilities
from fairtk.errors import InputError, MissingExtraError, NotFoundError, ParameterError
from fairtk.utilities import normalized

NAMES = ["accuracy", "contains", "em", "f1", "mae", "rouge1", "rougeL"]
PACKAGED = [
    "rouge_score_rouge1",
    "rouge_score_rouge2",
    "rouge_score_rougeL",
    "rouge_score_rougeLsum",
]
MISSING = [None, math.nan, pd.NA]


def test_options_tell_utilities_apart():
    one, two = utilities.get("accuracy", labels=["a"]), utilities.get("accuracy", labels=["b"])
    assert one != two
    assert one == utilities.get("accuracy", labels=("a",))
    assert one != utilities.get("accuracy")
    assert repr(one) == "accuracy(labels=['a'])"
    assert repr(utilities.get("accuracy")) == "accuracy"
    assert repr(utilities.get("mae", high=10)) == "mae(low=1.0, high=10.0)"
    assert utilities.get("em") != utilities.get("f1")


class TestValues:
    def test_accuracy_without_labels_compares_stripped_texts(self):
        accuracy = utilities.get("accuracy")
        assert accuracy([" yes", "Yes", "none"], ["yes ", "yes", "other"]) == [1.0, 0.0, 0.0]

    def test_token_f1_by_hand(self):
        # {cat: 2, sat} and {cat, sat, down}: 2 shared of 3 and 3: 2*2/6
        assert utilities.get("f1")(["The cat, cat sat!"], ["a cat sat down"]) == [
            pytest.approx(4 / 6)
        ]

    def test_squad_normalization(self):
        assert normalized("The  Quick-Brown 'fox'. An A!") == "quickbrown fox"
        assert utilities.get("em")(["The Answer."], ["answer"]) == [1.0]

    def test_texts_of_articles_only(self):
        assert utilities.get("f1")(["the", "the"], ["a", "cat"]) == [1.0, 0.0]

    def test_mae_scale(self):
        mae = utilities.get("mae", low=0, high=10)
        # no number: the farther end, the upper one at equal distance
        assert mae(["?", "?", "?", "12"], ["2", "9", "5", "4"]) == [8.0, 9.0, 5.0, 8.0]

    @pytest.mark.parametrize(
        "name", ["rouge_score_rougeL", "rouge_score_rougeLsum", "em", "f1", "contains"]
    )
    def test_the_word_empty_gives_no_credit_to_an_empty_answer(self, name):
        if name in PACKAGED:
            pytest.importorskip("rouge_score")
        assert utilities.get(name)(["", "..", ""], ["an empty house", "empty", " "]) == [0, 0, 1]


class TestSeveralGoldAnswers:
    def test_the_best_match_counts(self):
        assert utilities.get("em")(["b"], [["a", "b"]]) == [1.0]
        assert utilities.get("mae")(["3"], [["1", "4"]]) == [1.0]

    def test_arrays_and_tuples(self):
        golds = [np.array(["a", "b"], dtype=object), ("c",), "b"]
        assert utilities.get("em")(pd.Series(["b", "b", "b"]), golds) == [1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "predictions", "golds", "place"),
    [
        *(("rougeL", ["a", missing], ["a", "b"], "position 1") for missing in MISSING),
        *(("em", [wrong], ["a"], "position 0") for wrong in (3, ["a"], b"a")),
        *(
            ("em", ["a", "b", "c"], ["a", "b", wrong], "position 2")
            for wrong in (*MISSING, 5, ["a", None])
        ),
        ("em", ["a"], [[]], "position 0"),
        ("em", ["a", "b"], ["a"], "got 1 for 2"),
        ("em", "abc", ["a", "b", "c"], "predictions"),
        ("mae", ["1", "2"], ["1", "good"], "position 1.*'good'"),
    ],
)
def test_bad_texts(name, predictions, golds, place):
    with pytest.raises(InputError, match=place):
        utilities.get(name)(predictions, golds)


@pytest.mark.parametrize(
    ("name", "options", "error", "place"),
    [
        ("rouge-l", {}, NotFoundError, "'rouge-l'.*'rougeL'"),
        ("accuracy", {"label": ["a"]}, ParameterError, "'label'.*'labels'"),
        ("em", {"x": 1}, ParameterError, "'em'.*'x'"),
        *(
            ("accuracy", {"labels": wrong}, ParameterError, "labels")
            for wrong in ("abc", [], [1, 2])
        ),
        ("mae", {"low": 5, "high": 1}, ParameterError, "low"),
    ],
)
def test_bad_options(name, options, error, place):
    with pytest.raises(error, match=place):
        utilities.get(name, **options)


def test_package_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtraError, match=r"'.\[rouge\]'"):
        utilities.get("rouge_score_rougeL")


def test_each_distinct_pair_is_scored_once():
    class Counting(utilities.Utility):
        name = "counting"
        calls = 0

        def score(self, prediction, gold):
            Counting.calls += 1
            return float(prediction == gold)

    assert Counting()(["a", "b", "a", "a"], ["a", "a", "a", ["a", "b"]]) == [1.0, 0.0, 1.0, 1.0]
    assert Counting.calls == 4  # (a, a), (b, a), and (a, a), (a, b) of the list


@pytest.mark.parametrize("name", NAMES)
@given(prediction=st.text(max_size=30), gold=st.text(max_size=30))
def test_any_text_gives_a_value_in_range(name, prediction, gold):
    utility = utilities.get(name)
    if name == "mae":
        gold = "2"
    [value] = utility([prediction], [gold])
    low, high = utility.bounds
    assert math.isnan(value) if value != value else low <= value <= high
    if name != "mae" and utilities.answer_text(gold) != utilities.EMPTY:
        assert utility([gold], [gold]) == [pytest.approx(1, abs=1e-8)]
