"""Each rule of `fairtk.frames.schema` runs once per column or input, whatever form it has."""

import sys
from collections import Counter

import pandas as pd
import pytest

import fairtk
from fairtk import FairSampler
from fairtk.frames import schema
from fairtk.io import write_qrels, write_run
from fairtk.io.tables import write_table

RULES = {
    getattr(schema, name).__code__: name
    for name in ("check_ids", "check_ids_among", "check_numbers", "check_unique", "check_order")
}
RUN = pd.DataFrame(
    [(q, f"d{i}", 9.0 - i, i) for q in ("q1", "q2") for i in range(6)],
    columns=["qid", "docno", "score", "rank"],
)
QRELS = pd.DataFrame(
    [(q, f"d{i}", 1) for q in ("q1", "q2") for i in (0, 3)], columns=["qid", "docno", "label"]
)


def rule_calls(function):
    """Return the calls of rules, by rule and column; the ids of a run may be found in labels."""
    calls, before = Counter(), sys.getprofile()

    def count(frame, event, argument):
        if event == "call" and frame.f_code in RULES:
            of = frame.f_locals.get("name") or frame.f_locals.get("message", "")
            calls[RULES[frame.f_code].replace("_among", ""), of] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls


def as_dicts(frame, value):
    by_query = frame.groupby("qid", sort=False)
    return {qid: dict(zip(own["docno"], own[value], strict=True)) for qid, own in by_query}


def trec(folder):
    write_run(RUN, folder / "a.run")
    write_qrels(QRELS, folder / "qrels.txt")
    return folder / "qrels.txt", folder / "a.run"


def named(folder):
    write_table(RUN, folder / "run.parquet")
    write_table(QRELS, folder / "qrels.tsv")
    return folder / "qrels.tsv", folder / "run.parquet"


FORMS = {
    "TREC files": trec,
    "named files": named,
    "frames": lambda folder: (QRELS, RUN),
    "dicts": lambda folder: (as_dicts(QRELS, "label"), as_dicts(RUN, "score")),
}
MEASURES = {"own": ["EE_D@5", "EE_R@5"], "others": ["nDCG@5"], "both": ["EE_L@5", "P@2"]}


@pytest.mark.parametrize("measures", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_rule_runs_once(form, measures, tmp_path):
    qrels, run = form(tmp_path)
    calls = rule_calls(lambda: fairtk.evaluate(qrels, run, measures))
    # qid and docno of qrels and run; all others are of one input
    assert (calls["check_ids", "qid"], calls["check_ids", "docno"]) == (2, 2)
    others = {key: n for key, n in calls.items() if key[0] != "check_ids"}
    assert set(others.values()) == {1}, others
    has_ranks = form is not FORMS["dicts"]
    assert calls["check_numbers", "score"] == calls["check_numbers", "label"] == 1
    assert (calls["check_numbers", "rank"] == 1) == has_ranks


@pytest.mark.filterwarnings("ignore:all answers are equal:fairtk.errors.DataWarning")
def test_each_rule_runs_once_with_samples_and_answers(tmp_path):
    sampled = FairSampler(n_samples=3, cutoff=3, seed=1)(RUN.drop(columns="rank"))
    write_run(sampled, tmp_path / "fair.run")
    answers = sampled[["qid", "sample"]].drop_duplicates().assign(qanswer="yes")
    gold = pd.DataFrame({"qid": ["q1", "q2"], "gold_answer": "yes"})

    def call():
        return fairtk.evaluate(
            *(QRELS, tmp_path / "fair.run", ["EE_D@3", "E(nDCG@3)", "EU(utility='em')"]),
            answers=[answers],
            gold=gold,
        )

    calls = rule_calls(call)
    # qids also of answers and gold answers
    assert (calls["check_ids", "qid"], calls["check_ids", "docno"]) == (4, 2)
    assert (
        calls["check_numbers", "score"]
        == calls["check_unique", "duplicate document in a ranking"]
        == 1
    )
