"""Answers and gold answers of a wrong type: the error names system, qid and sample."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk.errors import InputError

QRELS = pd.DataFrame({"qid": ["1", "2"], "docno": "a", "label": 1, "gold_answer": "p"})
RUN = pd.DataFrame({"qid": ["1", "2"], "docno": "a", "score": 1.0, "qanswer": ["p", "p"]})


def with_answer(value, frame=RUN):
    answers = frame["qanswer"].astype(object)
    answers[1] = value
    return frame.assign(qanswer=answers)


@pytest.mark.parametrize("value", [5, 1.5, b"p", True, {"p": 1}, [], ["p", 5], ("p", None)])
@pytest.mark.parametrize("sampled", [False, True])
def test_an_answer_that_is_no_text_is_named(value, sampled):
    run = with_answer(value)
    run = run.assign(sample=3) if sampled else run
    with pytest.raises(InputError, match="qid '2'") as caught:
        fairtk.evaluate(QRELS, {"toy": run}, ["EU(utility='em')"])
    assert str(caught.value).startswith("toy:") and "qanswer" in str(caught.value)
    assert not sampled or "sample 3" in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, None])
def test_a_missing_answer_is_named(value):
    with pytest.raises(InputError, match="missing answer of qid '2'"):
        fairtk.evaluate(QRELS, {"toy": with_answer(value)}, ["EU(utility='em')"])


@pytest.mark.parametrize("sampled", [False, True])
def test_a_gold_answer_or_an_answer_that_a_utility_cannot_read_is_named(sampled):
    run = RUN.assign(sample=3) if sampled else RUN
    gold = QRELS["gold_answer"].astype(object)
    gold[1] = ["p", 5]
    numbers = run.assign(qanswer="1"), QRELS.assign(gold_answer=["1", "good"])
    for frame, qrels, measure in (
        (run, QRELS.assign(gold_answer=gold), "EU(utility='em')"),
        (*numbers, "EU(utility='mae')"),
    ):
        with pytest.raises(InputError, match="qid '2'") as caught:
            fairtk.evaluate(qrels, {"toy": frame}, [measure])
        assert str(caught.value).startswith("toy:")
        assert ("sample 3" in str(caught.value)) == sampled
