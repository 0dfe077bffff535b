"""Explanations of runs with answers: equal to those without, whether texts or lists."""

from __future__ import annotations

import pandas as pd
import pytest

import fairtk
from fairtk import Groups
from fairtk.errors import InputError
from fairtk.io import read_run
from fairtk.io.tables import write_table

QRELS = pd.DataFrame(
    {"qid": ["1", "2"], "docno": ["a", "a"], "label": [1, 1], "gold_answer": ["x", "z"]}
)
RUN = pd.DataFrame(
    {
        "qid": ["1", "1", "2"],
        "docno": ["a", "b", "a"],
        "score": [1.0, 2.0, 1.0],
        "rank": [1, 0, 0],
    }
)
TEXTS = {"qanswer": ["x", "x", "z"], "answer_status": ["ok", "ok", "cut"]}
LISTS = {
    "qanswer": [["x", "y"], ["x", "y"], ["z", "z"]],
    "answer_status": [["ok", "cut"], ["ok", "cut"], ["ok", "ok"]],
    "prompt_id": ["p", "p", "r"],
}
GROUPS = Groups.from_frame(
    pd.DataFrame({"docno": ["a", "b"], "group": ["one", "two"]}), name="toys"
)


@pytest.mark.parametrize("answers", [TEXTS, LISTS], ids=["texts", "lists"])
@pytest.mark.parametrize("form", ["frame", "tsv", "csv", "jsonl", "parquet"])
def test_answers_do_not_change_an_explanation(answers, form, tmp_path):
    run = RUN.assign(**answers)
    if form != "frame":
        path = tmp_path / f"run.{form}"
        if answers is LISTS and form in ("tsv", "csv"):
            with pytest.raises(InputError, match="'qanswer'.*jsonl"):
                write_table(run, path)
            return
        write_table(run, path)
        run = read_run(path)
        assert {name: run[name].tolist() for name in answers} == answers
    of_groups = {"groups": GROUPS, "target": "uniform"}
    every = [("EE_L@2", {"qid": "1"}), ("AWRF@2", of_groups), ("GroupEE_L@2", of_groups)]
    for measure, more in every if form == "frame" else every[:1]:
        plain, answered = (fairtk.explain(QRELS, one, measure, **more) for one in (RUN, run))
        pd.testing.assert_frame_equal(answered.queries, plain.queries)
        assert str(answered) == str(plain)
