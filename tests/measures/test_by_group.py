"""ByGroup: a measure for each group of documents or queries, compared."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import RR, P, calc_aggregate, iter_calc, nDCG, parse_measure
from small_frames import run_of, small_groups, values

import fairtk
from fairtk import EE_D, EE_R, EU, E
from fairtk.errors import DataWarning, ParameterError, UndefinedWarning
from fairtk.measures import ByGroup, parse

QRELS = pd.DataFrame({"query_id": "q1", "doc_id": ["a", "b", "c", "d"], "relevance": [1, 1, 0, 1]})
RUN = pd.DataFrame(
    {"query_id": "q1", "doc_id": ["c", "a", "b", "d"], "score": [4.0, 3.0, 2.0, 1.0]}
)
GROUPS = small_groups("abcd", "fmmm", "gender")
THREE = pd.concat([QRELS.assign(query_id=q) for q in ("q1", "q2", "q3")])
QUERIES = small_groups(["q1", "q2", "q3"], ["short", "long", "long"])


def value(measure, qrels=QRELS, run=RUN):
    return values(measure, qrels, run)["q1"]


def test_ranks_among_all_documents_are_kept():
    # f has a at rank 2: RR 1/2; m has b at rank 3 (c is not relevant): RR 1/3
    frame = ByGroup(RR, GROUPS).per_group(QRELS, RUN).set_index("group")["value"]
    assert frame["f"] == pytest.approx(1 / 2)
    assert frame["m"] == pytest.approx(1 / 3)
    assert value(ByGroup(RR, GROUPS)) == pytest.approx(1 / 6)
    assert value(ByGroup(RR, GROUPS, compare="ratio")) == pytest.approx(2 / 3)
    assert value(ByGroup(RR, GROUPS, compare="min")) == pytest.approx(1 / 3)
    assert value(ByGroup(RR, GROUPS, compare="max")) == pytest.approx(1 / 2)


def test_a_fair_measure_sees_the_groups_documents_alone():
    # RBP 1/2: f has a at rank 2: exposure 1/2, EE-D 1/4; m has c, b, d: 1, 1/4, 1/8
    measure = EE_D(browsing="RBP(p=0.5)", normalize=False)
    frame = ByGroup(measure, GROUPS).per_group(QRELS, RUN).set_index("group")["value"]
    assert frame["f"] == pytest.approx(1 / 4)
    assert frame["m"] == pytest.approx(1 + 1 / 16 + 1 / 64)


def test_samples_in_which_a_group_is_absent_still_count():
    run = run_of(["ab", "b"], "q1")
    measure = EE_D(browsing="RBP(p=0.5)", normalize=False)
    frame = ByGroup(measure, GROUPS).per_group(QRELS, run).set_index("group")["value"]
    assert frame["f"] == pytest.approx(1 / 4)  # a: 1 in one of two samples
    assert frame["m"] == pytest.approx(9 / 16)  # b: (1/2 + 1) / 2
    expected = ByGroup(E(P @ 1), GROUPS).per_group(QRELS, run).set_index("group")["value"]
    assert expected["m"] == pytest.approx(1 / 2)  # first in sample 1 alone


def test_groups_without_a_useful_document_take_no_part():
    qrels = QRELS.assign(relevance=[1, 0, 0, 0])
    with pytest.warns(UndefinedWarning):
        assert np.isnan(value(ByGroup(RR, GROUPS), qrels))
    assert value(ByGroup(RR, GROUPS, compare="min"), qrels) == 0.5


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_a_missing_query_is_nan():
    qrels = pd.concat([QRELS, QRELS.assign(query_id="q2")])
    with pytest.warns(UndefinedWarning, match="'q2'"):
        found = list(iter_calc([ByGroup(RR, GROUPS)], qrels, RUN))
    assert [np.isnan(m.value) for m in found] == [False, True]


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_groups_of_queries():
    run = pd.concat([RUN, RUN.assign(query_id="q2", score=-RUN.score)])
    measure = ByGroup(RR, QUERIES, by="query")
    # RR: q1 1/2; q2 (order d, b, a, c) 1; q3 is missing: 0. Means: short 1/2, long 1/2
    frame = measure.per_group(THREE, run).set_index("group")
    assert frame["value"].to_dict() == {"long": 0.5, "short": 0.5}
    assert frame["queries"].to_dict() == {"long": 2, "short": 1}
    assert calc_aggregate([measure], THREE, run)[measure] == 0
    largest = measure(compare="max")
    assert calc_aggregate([largest], THREE, run)[largest] == 0.5


def test_every_aggregate_compares_groups_of_queries():
    run = pd.concat([RUN, RUN.assign(query_id="q2", score=-RUN.score), RUN.assign(query_id="q3")])
    # RR: q1 1/2; q2 1; q3 1/2. Means: short 1/2, long 3/4
    measure = ByGroup(RR, QUERIES, by="query")
    assert calc_aggregate([measure], THREE, run)[measure] == 0.25
    both = ir_measures.calc([measure, RR], THREE, run)
    assert both.aggregated == {measure: 0.25, RR: pytest.approx(2 / 3)}
    ours, labels = map(pt.model.from_ir_measures, (run, THREE))
    assert fairtk.evaluate(labels, {"s": ours}, [measure]).means.iloc[0, 0] == 0.25
    topics = pd.DataFrame({"qid": ["q1", "q2", "q3"], "query": "x"})
    assert fairtk.Experiment({"s": ours}, topics, labels, [measure]).means.iloc[0, -1] == 0.25
    with pytest.warns(DataWarning):
        assert all(np.isnan(m.value) for m in iter_calc([measure], THREE, run))


def test_pyterrier_averages_so_groups_of_queries_are_nan_there():
    run, qrels = map(pt.model.from_ir_measures, (RUN, QRELS))
    topics = pd.DataFrame({"qid": ["q1"], "query": ["x"]})
    arguments = [run.assign(query="x")], topics, qrels
    with pytest.warns(DataWarning, match=r"ByGroup.*pt\.Experiment"):
        found = pt.Experiment(*arguments, [ByGroup(RR, QUERIES, by="query")], names=["x"])
    assert np.isnan(found.iloc[0, 1])
    found = pt.Experiment(*arguments, [ByGroup(RR, GROUPS)], names=["x"])
    assert found.iloc[0, 1] == pytest.approx(1 / 6)


def test_forms():
    fairtk.register_groups(GROUPS, "by group")  # others have groups of that name, too
    measure = ByGroup(nDCG @ 20, GROUPS, compare="ratio")
    assert parse_measure(repr(measure)) == measure
    assert ByGroup(nDCG, GROUPS) @ 20 == ByGroup(nDCG @ 20, GROUPS)
    of_groups = ByGroup(EE_R @ 5, GROUPS)
    assert parse("ByGroup(EE_R@5, groups='by group')") == of_groups
    with pytest.raises(ParameterError):
        ByGroup(EU("em"), GROUPS)
    with pytest.raises(ParameterError):
        value(ByGroup(RR))


def test_the_unknown_level_is_no_group_unless_asked_for():
    groups = small_groups("abc", ["x", "y", None])
    qrels = pd.DataFrame({"qid": "1", "docno": ["a", "b", "c"], "label": [1, 1, 1]})
    run = pd.DataFrame({"qid": "1", "docno": ["a", "b", "c"], "score": [3.0, 2.0, 1.0]})
    # reciprocal ranks: x 1, y 1/2, unknown 1/3
    plain = ByGroup(RR, groups)
    assert plain.calc_aggregate(qrels, run) == pytest.approx(1 - 1 / 2)
    assert plain.per_group(qrels, run)["group"].tolist() == ["x", "y"]
    every = ByGroup(RR, groups, unknown="group")
    assert every.calc_aggregate(qrels, run) == pytest.approx(1 - 1 / 3)
    assert every.per_group(qrels, run)["group"].tolist() == ["@UNKNOWN", "x", "y"]
    assert "unknown='group'" in repr(every) and "unknown" not in repr(plain)
    # of queries, too: RR is 1 for q1 and 1/2 for q2; the group of q3, with 1/3, is not known
    of_queries = small_groups(["q1", "q2", "q3"], ["x", "y", None], "kind")
    labels = pd.DataFrame({"qid": ["q1", "q2", "q3"], "docno": ["a", "b", "c"], "label": 1})
    runs = pd.concat([run.assign(qid=qid) for qid in ("q1", "q2", "q3")])
    for unknown, value in (("leave-out", 1 - 1 / 2), ("group", 1 - 1 / 3)):
        measure = ByGroup(RR, of_queries, by="query", unknown=unknown)
        assert measure.calc_aggregate(labels, runs) == pytest.approx(value)


def test_a_ratio_is_of_values_above_zero():
    # 2 - error: -1 for x and -3 for y, whose ratio was 3, in a range of [0, 1]
    qids = ["q1", "q2"]
    groups = small_groups(qids, "xy", "kind")
    qrels = pd.DataFrame({"qid": qids, "docno": "a", "label": 1, "gold_answer": "0"})
    run = pd.DataFrame({"qid": qids, "docno": "a", "score": 1.0, "qanswer": ["3", "5"]})
    measure = ByGroup(EU(utility="mae", upper_bound=2), groups, by="query", compare="ratio")
    assert np.isnan(measure.calc_aggregate(qrels, run))
    assert measure(compare="difference").calc_aggregate(qrels, run) == pytest.approx(2)
