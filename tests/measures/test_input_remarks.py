"""Remarks on what people bring: ids that almost match, queries that are documents, two orders."""

import importlib
import inspect
import warnings

import pandas as pd
import pyterrier as pt
import pytest

from fairtk import remarks

# two of three documents have other ids in the run, and the first query is its own document
SPELLED = {"001": "1", "002": "2", "100": "100"}
QRELS = pd.DataFrame(
    [(q, d, i != 1) for q in ("q1", "q2") for i, d in enumerate([*SPELLED, "q1"])],
    columns=["qid", "docno", "label"],
).astype({"label": int})
RUN = pd.DataFrame(
    [(q, d, 4.0 - i) for q in ("q1", "q2") for i, d in enumerate(["q1", *SPELLED.values()])],
    columns=["qid", "docno", "score"],
)
TOPICS = pd.DataFrame({"qid": ["q1", "q2"], "query": "words"})
SAMPLES = pd.concat([RUN.assign(sample=s) for s in range(2)], ignore_index=True)
PROVIDERS = pd.DataFrame({"docno": RUN["docno"].unique(), "group": "p"})
EXPECTED = {remarks.RESPELLED_DOCNOS, remarks.OWN_DOCUMENT}

CALLS = {
    "Experiment": ([pt.Transformer.from_df(RUN)], TOPICS, QRELS, ["EE_R@2"]),
    "evaluate": (QRELS, RUN, ["EE_R@2"]),
    "compare": (QRELS, {"a": RUN, "b": RUN.iloc[::-1]}, ["EE_R@2"]),
    "explain": (QRELS, RUN, "EE_L@2"),
    "frontier": (QRELS, {"a": RUN}),
    "precision": (QRELS, SAMPLES, ["EE_R@2"]),
    "sensitivity": (QRELS, {"a": RUN, "b": RUN}, ["EE_R@2"]),
    "providers": (QRELS, RUN, PROVIDERS),
}
OTHERS = {
    "plan": "measures nothing",
    "doctor": "has findings instead of remarks",
    "order_audit": "reads the qrels of a measure of credit",
    "query_gain": "reads the answers of two runs",
}


def entry_points():
    """Return the public functions that measure runs with qrels, by name."""
    found = {}
    for module in ("fairtk", "fairtk.credit", "fairtk.experiment", "fairtk.analysis"):
        home = importlib.import_module(module)
        for name in home.__all__:
            value = getattr(home, name)
            if inspect.isfunction(value):
                names = {*inspect.signature(value).parameters}
                if "qrels" in names and not names.isdisjoint(("run", "runs", "systems")):
                    found[name] = value
    return found


def recorded(call, *args, **options):
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        call(*args, **options)
    return records


def kinds_of(records):
    """Return the kinds of the remarks among warnings."""
    starts = {name: kind.template.split("{")[-1] for name, kind in remarks.KINDS.items()}
    ends = {name: text.partition("}")[2] for name, text in starts.items()}
    return {n for n in EXPECTED for w in records if str(w.message).endswith(ends[n])}


def test_each_entry_point_is_listed():
    assert entry_points().keys() == {*CALLS, *OTHERS}


@pytest.mark.parametrize("name", CALLS)
def test_each_entry_point_remarks_on_ids(name):
    records = recorded(entry_points()[name], *CALLS[name])
    assert kinds_of(records) == EXPECTED, [str(w.message) for w in records]
