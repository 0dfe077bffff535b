"""GroupEE_D, GroupEE_R and GroupEE_L: TREC 2022's Task 2."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ir_measures import calc_aggregate, parse_measure
from small_frames import qrels_of, run_of, small_groups, values
from trec_worlds import groups_of, target_of

import fairtk
from fairtk import GroupEE_D, GroupEE_L, GroupEE_R, Groups, Target
from fairtk.errors import InputError, ParameterError, UndefinedWarning
from fairtk.testing import toy_groups, toy_run

GOLDEN = Path(__file__).parents[1] / "golden"
EEL = json.loads((GOLDEN / "eel.json").read_text(encoding="utf-8"))
MEASURES = ((GroupEE_D, "EE-D"), (GroupEE_R, "EE-R"), (GroupEE_L, "EE-L"))


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
@pytest.mark.filterwarnings("ignore::fairtk.errors.UnmatchedWarning")  # nothing useful is ranked
@pytest.mark.parametrize(
    "case",
    # marked: the reference raises for one relevant document
    [c for c in EEL["cases"] if "EE-L" in c["expected"]],
    ids=lambda c: f"{c['id']}-{c['tag']}",
)
def test_task_2(case):
    groups, _ = groups_of(EEL["worlds"][case["world"]], case["dims"])
    options = {"groups": groups, "target": target_of(case, groups)}
    options["useful_only"] = case["options"]["only_rel"]
    length = case["options"]["target_len"]
    if "zero exposure" in case["tag"]:  # a departure: documents count all the same here
        assert not options["useful_only"]
        return
    qrels, run = qrels_of(dict.fromkeys(case["rel"], 1)), run_of(case["sequences"])
    for measure, key in MEASURES:
        got = calc_aggregate([measure(**options) @ length], qrels, run)
        assert list(got.values())[0] == pytest.approx(case["expected"][key], rel=1e-5, abs=1e-6)


@pytest.fixture
def gender():
    return small_groups("abc", "fmm", "gender", unknown=None)


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_missing_queries_get_the_worst_value(gender):
    qrels = qrels_of({"a": 1, "b": 1})
    empty = pd.DataFrame({"query_id": [], "doc_id": [], "score": []})
    target = Target.uniform(gender)
    measures = [m(groups=gender, target=target) @ 2 for m in (GroupEE_D, GroupEE_R, GroupEE_L)]
    got = calc_aggregate(measures, qrels, empty)
    # all attention, 2, on one group: 4; nothing where it should be: 0; 4 (1 + 1/2)
    assert [got[m] for m in measures] == pytest.approx([4, 0, 6])


def test_undefined(gender):
    qrels, run = qrels_of({"a": 0}), run_of([["a"]])
    measure = GroupEE_L(groups=gender, target=Target.uniform(gender)) @ 2
    with pytest.warns(UndefinedWarning):
        assert np.isnan(values(measure, qrels, run)["q"])


def test_forms(gender):
    fairtk.register_groups(gender, "forms")  # others have groups of that name, too
    measure = GroupEE_L(groups=gender, target=Target.uniform(gender)) @ 20
    assert repr(measure) == "GroupEE_L(groups='forms',target='uniform')@20"
    assert parse_measure(repr(measure)) == measure
    assert measure["browsing"].__class__.__name__ == "TREC"
    assert GroupEE_D(groups=gender, browsing="MU") @ 5 != GroupEE_D(groups=gender) @ 5
    with pytest.raises(ParameterError, match="requires groups"):
        GroupEE_D.calc_aggregate(qrels_of({"a": 1}), run_of([["a"]]))
    with pytest.raises(ParameterError, match="normalize"):
        GroupEE_D(groups=gender, normalize=True)


def test_undefined_alike_whatever_is_measured_with_it():
    """EE_D has a value without a target and shares its computation with the others."""
    qrels, run = qrels_of({"a": 1, "b": 0}), run_of([["a", "b"]])
    groups = small_groups("ab", "fm", "gender")
    with pytest.raises(ParameterError, match="GroupEE_L"):
        calc_aggregate([GroupEE_D(groups=groups) @ 2, GroupEE_L(groups=groups) @ 2], qrels, run)
    other = pd.DataFrame({"qid": ["other"], "group": ["f"], "weight": [1.0]})
    target = Target.from_frame(other, groups)
    measures = [m(groups=groups, target=target) @ 2 for m in (GroupEE_D, GroupEE_R, GroupEE_L)]
    with pytest.warns(UndefinedWarning, match="'q'") as records:
        got = calc_aggregate(measures, qrels, run)
    assert [np.isnan(got[m]) for m in measures] == [False, True, True]
    assert sorted(str(w.message)[:9] for w in records) == ["GroupEE_L", "GroupEE_R"]


@pytest.mark.parametrize("browsing", ["DCG", "GERR"])
@pytest.mark.parametrize("useful_only", [True, False])
def test_only_the_disparity_of_all_documents_needs_no_labels(browsing, useful_only):
    """The user of GERR stops at useful documents, so labels are read; others do not stop."""
    groups = Groups.from_frame(toy_groups())
    settings = {"groups": groups, "browsing": browsing, "useful_only": useful_only}
    free = GroupEE_D(**settings) @ 3
    assert bool(free.reason_for_labels) == (useful_only or browsing == "GERR")
    settings["target"] = Target.uniform(groups)
    for measure in (GroupEE_R(**settings) @ 3, GroupEE_L(**settings) @ 3):
        assert measure.reason_for_labels
        with pytest.raises(InputError, match="qrels"):
            fairtk.evaluate(None, {"run": toy_run()}, [measure])
    if free.reason_for_labels:
        with pytest.raises(InputError, match="qrels"):
            fairtk.evaluate(None, {"run": toy_run()}, [free])
    else:
        assert fairtk.evaluate(None, {"run": toy_run()}, [free]).means.notna().all(axis=None)
