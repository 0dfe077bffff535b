"""Labels and runs that name the same things differently: a warning that shows one of each."""

import warnings

import ir_measures
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import AP, RR, P, nDCG
from small_frames import small_groups

from fairtk import AWRF, EE_D, EE_R, EU, ByGroup, E, Experiment, Target, evaluate, explain
from fairtk.errors import WARNINGS, UnmatchedWarning
from fairtk.measures import FairMeasure

QUERIES = [f"q{i}" for i in range(20)]


def frames(strange):
    """Return labels for a and b in each query, and a run of other documents in `strange` ones."""
    qrels = pd.DataFrame(
        [(q, d, label) for q in QUERIES for d, label in (("a", 1), ("b", 0))],
        columns=["qid", "docno", "label"],
    )
    run = pd.DataFrame(
        [(q, f"{q}/a" if i < strange else "b", 1.0) for i, q in enumerate(QUERIES)],
        columns=["qid", "docno", "score"],
    )
    return qrels, run


def warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(w.message) for w in caught if w.category is UnmatchedWarning]


def as_mapping(frame, value):
    by_query = frame.groupby("qid", sort=False)
    return {qid: dict(zip(own["docno"], own[value], strict=True)) for qid, own in by_query}


def by_experiment(measures, qrels, run):
    topics = pd.DataFrame({"qid": QUERIES, "query": "x"})
    pt.Experiment([pt.Transformer.from_df(run)], topics, qrels, measures)


GROUPS = small_groups(["a", "b", "q0/a"], "fmm", "kind")
AWRF_1 = AWRF(groups=GROUPS, target=Target.uniform(GROUPS)) @ 1
DOORS = {
    "calc": lambda m, qrels, run: ir_measures.calc(m, qrels, run),
    "mappings": lambda m, qrels, run: ir_measures.calc_aggregate(
        m, as_mapping(qrels, "label"), as_mapping(run, "score")
    ),
    "rows": lambda m, qrels, run: ir_measures.calc_aggregate(
        m,
        pt.model.to_ir_measures(qrels).itertuples(index=False),
        pt.model.to_ir_measures(run).itertuples(index=False),
    ),
    "pt.Experiment": by_experiment,
}
MEASURES = {
    "plain": [nDCG @ 5],
    "plain ones of several providers": [nDCG @ 5, RR @ 5, AP],
    "exposure": [EE_D @ 1, EE_R @ 1],
    "expectation": [E(nDCG @ 5), E(RR @ 1), E(EE_R @ 1)],
    "product": [P @ 1 * EE_R @ 1],
    "by group": [ByGroup(EE_R @ 1, GROUPS, "max"), ByGroup(nDCG @ 1, GROUPS, "max")],
    "groups": [AWRF_1],
    "fairtk's": [EE_D @ 1, E(nDCG @ 5), AWRF_1],
}


@pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning")
@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
@pytest.mark.parametrize("measures", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("strange", [17, 18])
def test_from_nine_in_ten_queries_on_every_door_says_it_once(strange, door, measures):
    qrels, run = frames(strange)  # an unjudged document in 17 or 18 of 20 queries
    found = warnings_of(lambda: door(measures, qrels, run))
    # in 17 queries, a rule that explains the docnos is a remark of fairtk's measures
    is_own = any(isinstance(measure, FairMeasure) for measure in measures)
    assert len(found) == (1 if strange >= 18 or is_own else 0)
    for message in found:
        assert f"for {strange} of 20 queries" in message
        assert "'q0/a' in the run, 'a' in the qrels" in message
        assert ("qid 'q0': docno" in message) == (strange >= 18)
    assert WARNINGS["unmatched"] is UnmatchedWarning


def test_measures_of_both_say_it_once_together():
    qrels, run = frames(20)
    found = warnings_of(lambda: ir_measures.calc([nDCG @ 5, RR @ 5, EE_D @ 1, AWRF_1], qrels, run))
    (message,) = found
    assert "for 20 of 20 queries" in message


def test_sampled_runs_say_it_once():
    qrels, run = frames(20)
    run = pd.concat([run.assign(sample=i, rank=0) for i in range(3)])
    for measure in (E(nDCG @ 5), E(EE_R @ 1), E(ir_measures.Compat), EE_R @ 1):
        assert len(warnings_of(lambda m=measure: ir_measures.calc([m], qrels, run))) == 1


def test_functions_say_it_once():
    qrels, run = frames(20)
    for measure in ("nDCG@5", "EE_R@1"):
        messages = warnings_of(lambda m=measure: evaluate(qrels, {"one": run, "two": run}, m))
        assert len(messages) == 1 and "for 20 of 20 queries of one, two" in messages[0]
    topics = pd.DataFrame({"qid": QUERIES, "query": "x"})
    system = pt.Transformer.from_df(run)
    assert len(warnings_of(lambda: Experiment([system], topics, qrels, [nDCG @ 5]))) == 1
    assert len(warnings_of(lambda: explain(qrels, run, "EE_L@1"))) == 1


def test_measures_of_answers_do_not_ask_for_documents():
    qrels, run = frames(20)
    qrels, run = qrels.assign(gold_answer="x"), run.assign(qanswer="x")
    assert warnings_of(lambda: ir_measures.calc([EU("em")], qrels, run)) == []


def test_queries_without_useful_documents_or_results_do_not_count():
    qrels, run = frames(17)
    qrels.loc[qrels["qid"] == "q19", "label"] = 0
    run = run[run["qid"] != "q18"]  # 17 of 18 are left
    (message,) = warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels, run))
    assert "17 of 18 queries" in message
    qrels["label"] = 0
    (message,) = warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels, run))
    assert "spelled differently" in message


def test_no_query_in_common():
    qrels, run = frames(0)
    run["qid"] = run["qid"].str.replace("q", "") + ".0"
    (message,) = warnings_of(lambda: ir_measures.calc([EE_D @ 1, E(ir_measures.RR)], qrels, run))
    assert "20 of 20 queries" in message
    assert "(run: '0.0'" in message
    assert warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels, run[:0])) == []
    assert warnings_of(lambda: ir_measures.calc([EE_D @ 1], qrels[:0], run)) == []
