"""Errors show a part of a wrong value on one line, and name the parameter."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk import Generator, credit
from fairtk.errors import ParameterError
from fairtk.testing import toy_groups, toy_qrels, toy_run, toy_topics
from fairtk.wording import short

LARGE = pd.DataFrame(
    {"qid": ["1"] * 50, "text": "a line\n" * 5, "docno": [f"d{i}" for i in range(50)]}
)


def test_short():
    assert short(5) == "5"
    assert short("a\nb") == repr("a\nb")
    assert "\n" not in short(LARGE)
    assert len(short("x" * 1000)) < 230
    assert short("x" * 1000).endswith("(1002 characters)")  # with quotes
    assert "\n" not in short(np.zeros((50, 3)))


def one_alpha():
    return fairtk.frontier(toy_qrels(), toy_run(), alphas=2)


def a_negative_alpha():
    return fairtk.frontier(toy_qrels(), toy_run(), alphas=[-1])


def answers_in_one_frame():
    return fairtk.off_policy_utility(toy_qrels(), toy_run(), toy_run(), [1], "accuracy")


def a_frame_of_results():
    return fairtk.cross_fit(toy_run(), "nDCG@5")


def a_dict_of_systems():
    return fairtk.tune({"a": toy_run()}, {"x": [1]}, toy_topics(), toy_qrels(), "nDCG@5")


def a_function_as_utility():
    subsets = credit.Subsets("one-out")(toy_run().assign(query="q", text="t"))
    answers = Generator(lambda prompts: ["a" for _ in prompts], prompt="rag")(subsets)
    return credit.from_answers(answers, len, {"1": "a"})


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (one_alpha, ["alphas"]),
        (a_negative_alpha, ["alpha", "-1"]),
        (answers_in_one_frame, ["answers"]),
        (a_frame_of_results, ["results", "fairtk.Experiment"]),
        (a_dict_of_systems, ["build", "fairtk.cross_fit"]),
        (a_function_as_utility, ["utility", "fairtk.utilities.Utility"]),
    ],
)
def test_first_guesses(call, names):
    with pytest.raises(ParameterError) as caught:
        call()
    for name in names:
        assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_order_audit_accepts_a_frame_of_groups():
    run, groups = toy_run(), toy_groups()
    reranker = pt.apply.generic(lambda frame: frame.assign(score=-frame["rank"]))
    of_frame = credit.order_audit(reranker, run, n=3, groups=groups)
    of_groups = credit.order_audit(reranker, run, n=3, groups=fairtk.Groups.from_frame(groups))
    pd.testing.assert_frame_equal(of_frame.preferences, of_groups.preferences)
    assert len(of_frame.preferences)
