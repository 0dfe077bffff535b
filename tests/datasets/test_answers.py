"""Gold answers joined to qrels: every row has one, or an error names who lacks it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairtk.datasets import get_answers, get_topics, join_answers, lamp
from fairtk.errors import ColumnError, InputError, NotFoundError

QRELS = pd.DataFrame(
    {"qid": ["1", "1", "2"], "docno": ["a", "b", "a"], "label": [1, 0, 1]}, index=[5, 6, 9]
)


def answers(*rows):
    return pd.DataFrame(rows, columns=["qid", "gold_answer"])


def test_each_row_gets_its_answer_and_inputs_stay():
    before = QRELS.copy()
    joined = join_answers(QRELS, answers(("2", "two"), ("1", "one"), ("3", "three")))
    assert joined["gold_answer"].tolist() == ["one", "one", "two"]
    assert joined.drop(columns="gold_answer").equals(before)
    assert QRELS.equals(before)


def test_several_answers_become_a_list():
    joined = join_answers(
        QRELS,
        answers(("1", "one"), ("1", np.array(["uno"])), ("1", "one"), ("2", ["two", "dos"])),
    )
    assert joined["gold_answer"].tolist() == [["one", "uno"], ["one", "uno"], ["two", "dos"]]
    single = join_answers(QRELS, answers(("1", ["one"]), ("2", "two")))
    assert single["gold_answer"].tolist() == ["one", "one", "two"]


def test_an_empty_string_is_an_answer():
    joined = join_answers(QRELS, answers(("1", ""), ("2", "two")))
    assert joined["gold_answer"].tolist() == ["", "", "two"]


def test_missing_answers_are_named():
    for bad in (None, float("nan"), 5, ["x", None], []):
        with pytest.raises(InputError, match="qid '1'"):
            join_answers(QRELS, answers(("1", bad), ("2", "two")))


def test_wrong_frames():
    with pytest.raises(ColumnError, match="join_answers"):
        join_answers(QRELS, QRELS)
    with pytest.raises(ColumnError, match="join_answers"):
        join_answers(answers(("1", "one")).drop(columns="qid"), answers(("1", "one")))
    joined = join_answers(QRELS, answers(("1", "one"), ("2", "two")))
    with pytest.raises(InputError, match="already"):
        join_answers(joined, answers(("1", "one"), ("2", "two")))


def test_a_missing_column_of_answers_is_said_without_advice_to_do_what_was_done():
    with pytest.raises(ColumnError) as error:
        join_answers(QRELS, answers(("1", "x")).rename(columns={"gold_answer": "answer"}))
    assert str(error.value) == (
        "join_answers (answers): missing column 'gold_answer'; expected 'qid', 'gold_answer', got "
        "'qid', 'answer'"
    )


def test_no_qrels_no_rows():
    joined = join_answers(QRELS.iloc[:0], answers())
    assert list(joined.columns) == ["qid", "docno", "label", "gold_answer"] and not len(joined)


def test_datasets_in_every_form(lamp_folder):
    from fairtk.datasets import FairDataset

    dataset = lamp.from_folder(lamp_folder())
    assert get_answers(FairDataset(dataset)).equals(get_answers(dataset))
    assert get_topics(FairDataset(dataset)).equals(get_topics(dataset))
    with pytest.raises(NotFoundError, match="'lamp/4/devv'"):
        get_answers("irds:lamp/4/devv")
    with pytest.raises(InputError, match="get_answers"):
        get_answers(42)
