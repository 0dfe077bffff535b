"""Groups and targets from every form of data: all are equal to those from a frame."""

from collections import namedtuple

import pandas as pd
import pyarrow as pa
import pytest

import fairtk
from fairtk import Groups, Target
from fairtk.errors import InputError

polars = pytest.importorskip("polars")

MEMBERS = {"a": "x", "b": "y", "c": "x"}
FRAME = pd.DataFrame({"docno": [*MEMBERS], "group": [*MEMBERS.values()]})
SHARES = {"x": 0.25, "y": 0.75}
WEIGHTS = pd.DataFrame({"group": [*SHARES], "weight": [*SHARES.values()]})


def forms(frame):
    """Return the forms of a frame's rows."""
    records = frame.to_dict("records")
    tuples = [*frame.itertuples(index=False, name="Row")]
    return {
        "frame": frame,
        "polars": polars.DataFrame(frame.to_dict("list")),
        "arrow": pa.Table.from_pandas(frame),
        "columns": frame.to_dict("list"),
        "records": records,
        "named tuples": tuples,
        "iterator of records": iter(records),
        "iterator of named tuples": iter(tuples),
    }


GROUPS = {**forms(FRAME), "dict": MEMBERS}
TARGETS = {**forms(WEIGHTS), "dict": SHARES, "series": pd.Series(SHARES)}


@pytest.mark.parametrize("form", GROUPS)
def test_groups(form):
    assert Groups.of(GROUPS[form]) == Groups.from_frame(FRAME)


@pytest.mark.parametrize("form", forms(FRAME))
def test_groups_from_frame(form):
    assert Groups.from_frame(forms(FRAME)[form], name="g") == Groups.from_frame(FRAME, name="g")


@pytest.mark.parametrize("form", TARGETS)
def test_targets(form):
    groups = Groups.from_frame(FRAME)
    expected = Target.from_frame(WEIGHTS, groups).to_frame()
    assert Target.of(TARGETS[form], groups).to_frame().equals(expected)


def test_targets_by_query():
    groups = Groups.from_frame(FRAME)
    by_query = {"q1": SHARES, "q2": {"x": 1.0}}
    frame = Target.of(by_query, groups).to_frame()
    rows = {*frame[["qid", "group", "weight"]].itertuples(index=False, name=None)}
    assert rows == {("q1", "x", 0.25), ("q1", "y", 0.75), ("q2", "x", 1.0)}


@pytest.mark.parametrize("target", [SHARES, pd.Series(SHARES), WEIGHTS.to_dict("records")])
@pytest.mark.parametrize("groups", [{"g": MEMBERS}, {"g": FRAME}, FRAME.to_dict("records")])
def test_evaluate(groups, target):
    qrels, run = {"q": {"a": 1, "b": 0, "c": 1}}, {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    name = "g" if isinstance(groups, dict) else "group"
    expected = fairtk.evaluate(
        qrels, run, ["AWRF@3"], groups=Groups.from_frame(FRAME, name=name), target=WEIGHTS
    )
    results = fairtk.evaluate(qrels, run, ["AWRF@3"], groups=groups, target=target)
    assert results.per_query["value"].equals(expected.per_query["value"])


def test_documents_may_be_called_docno_and_group():
    assert {*Groups.of({"docno": "x", "group": "y"}).docnos} == {"docno", "group"}


@pytest.mark.parametrize("source", [5, None, [1], [("a", "x")], [{"docno": "a"}, {"group": "x"}]])
def test_other_groups_are_refused(source):
    with pytest.raises(InputError):
        Groups.of(source)


Share = namedtuple("Share", ["name", "part"])


@pytest.mark.parametrize(
    "source", [5, None, [0.5, 0.5], [("x", 1.0)], {}, {"x": 0.5}, {"x": "much"}, [Share("x", 1)]]
)
def test_other_targets_are_refused(source):
    with pytest.raises(InputError):
        Target.of(source, Groups.from_frame(FRAME))


def test_a_dict_of_documents_names_no_attribute():
    with pytest.raises(InputError, match=r"'gender': \{docno: group\}"):
        fairtk.evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, ["AWRF@3"], groups=MEMBERS)


def test_runs_and_labels_from_records():
    records = [{"qid": "q", "docno": "a", "score": 1.0, "label": 1}]
    labels = [{"query_id": "q", "doc_id": "a", "relevance": 1}]
    assert len(fairtk.frames.Run(records)) == len(fairtk.frames.Qrels(labels)) == 1
    results = fairtk.evaluate(labels, records, ["EE_R@1"])
    assert results.per_query["value"].tolist() == [1.0]
