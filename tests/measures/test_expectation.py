"""E(measure): the mean of any measure over samples."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import (
    AP,
    RR,
    Accuracy,
    Compat,
    NumRet,
    Rprec,
    calc_aggregate,
    iter_calc,
    nDCG,
    parse_measure,
)
from small_frames import run_of, small_groups, values

from fairtk import EE_D, E
from fairtk.errors import DataWarning, InputError, NotFoundError, ParameterError, UndefinedWarning
from fairtk.measures import ByGroup, parse

QRELS = pd.DataFrame(
    {"query_id": ["q", "q", "q2"], "doc_id": ["a", "b", "a"], "relevance": [1, 0, 1]}
)


def test_mean_over_samples_by_hand():
    # RR is 1 and 1/2: 0.75 for q; q2 is missing: 0
    run = run_of([["a", "b"], ["b", "a"]])
    got = values(E(RR), QRELS, run)
    assert got == {"q": pytest.approx(0.75), "q2": 0}
    with pytest.raises(InputError, match=r"write E\(RR\)"):
        iter_calc([RR], QRELS, run)


def test_rank_decides_where_scores_tie():
    run = run_of([["b", "a"], ["b", "a"]]).assign(score=1.0)
    assert values(E(RR), QRELS, run)["q"] == 0.5


@pytest.mark.filterwarnings("ignore:.*PerSample:fairtk.errors.DataWarning")
def test_unequal_numbers_of_samples():
    # q has two samples (1, 1/2), q2 one (1)
    run = pd.concat([run_of([["a", "b"], ["b", "a"]]), run_of([["a"]], "q2")])
    got = values(E(RR), QRELS, run)
    assert got == {"q": pytest.approx(0.75), "q2": 1}


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_several_expectations_and_a_fair_measure_inside():
    run = run_of([["a", "b"], ["b", "a"]])
    measures = [E(nDCG @ 5), E(AP), E(EE_D @ 1), EE_D @ 1]
    got = {(m.measure, m.query_id): m.value for m in iter_calc(measures, QRELS, run)}
    assert got[E(EE_D @ 1), "q"] == 1  # each sample alone is one deterministic ranking
    assert got[EE_D @ 1, "q"] == 0.5
    assert got[E(EE_D @ 1), "q2"] == 1  # missing: the worst value of the measure inside
    assert got[E(AP), "q"] == pytest.approx(0.75)


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_empty_run():
    empty = pd.DataFrame({"query_id": [], "doc_id": [], "score": []})
    assert calc_aggregate([E(nDCG @ 5)], QRELS, empty)[E(nDCG @ 5)] == 0


def test_forms():
    assert repr(E(nDCG @ 5)) == "E(measure='nDCG@5')"
    assert E(nDCG @ 5) == E("nDCG@5") == E(nDCG) @ 5 == parse("E(nDCG@5)") == parse("E(nDCG)@5")
    assert parse_measure("E(measure='nDCG@5')") == E(nDCG @ 5)
    assert parse("E(EE_D(browsing='RBP(p=0.5)')@5)") == E(EE_D(browsing="RBP(p=0.5)") @ 5)
    with pytest.raises(ParameterError):
        E(nDCG @ 5) @ 10
    with pytest.raises(ParameterError):
        calc_aggregate([E], QRELS, run_of([["a"]]))
    with pytest.raises((NotFoundError, ParameterError), match="'nDCG'"):
        E("nDGC@5")


def test_inputs_of_the_inner_measure_are_asked_for():
    assert set(ir_measures.run_inputs([E(nDCG @ 5)])) == {"query_id", "doc_id", "score"}


def test_compat_gets_scores_that_say_retrieved():
    # documents of equal grade: the ideal takes those that were retrieved, in their order, if scores
    # are above the 0 of one that was not; with 0, -1, -2 it put the missing one first
    qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b", "c"], "relevance": [1, 1, 1]})
    run = run_of([["a", "b"], ["b", "a"]])
    first = run[run["sample"] == 0].assign(score=[2.0, 1.0])
    wanted = calc_aggregate([Compat], qrels, first)[Compat]
    for samples in (run, run.assign(score=-1.0 - run["rank"])):
        assert calc_aggregate([E(Compat)], qrels, samples)[E(Compat)] == pytest.approx(wanted)


@pytest.mark.filterwarnings("ignore:.*PerSample:fairtk.errors.DataWarning")
def test_a_sum_over_queries_stays_a_sum():
    # q: two samples of 2 and 1 documents, 1.5; q2: one of 1
    run = pd.concat([run_of([["a", "b"], ["b"]]), run_of([["a"]], "q2")])
    measure = E(NumRet)
    assert calc_aggregate([measure], QRELS, run)[measure] == 2.5
    assert ir_measures.calc([measure], QRELS, run).aggregated[measure] == 2.5
    topics = pd.DataFrame({"qid": ["q", "q2"], "query": "x"})
    ours, labels = map(pt.model.from_ir_measures, (run, QRELS))
    arguments = [ours], topics, labels
    with pytest.warns(DataWarning, match=r"E\(NumRet\)"):
        pt.Experiment(*arguments, [measure])
    # means are the measure's own
    assert pt.Experiment(*arguments, [E(RR)], names=["s"]).iloc[0, 1] == pytest.approx(0.75)


def test_an_undefined_value_of_a_sample_is_not_0():
    # Accuracy has no value where nothing relevant is retrieved
    run = run_of([["a", "b"], ["b"]])
    with pytest.warns(UndefinedWarning, match="'q'"):
        got = values(E(Accuracy), QRELS, run)
    assert np.isnan(got["q"])


@pytest.mark.parametrize("measure", [nDCG @ 5, Rprec], ids=repr)
def test_fractional_labels(measure):
    qrels = QRELS.assign(relevance=[0.5, 0.0, 1.0])
    with pytest.raises(InputError, match=r"integer labels, got 0.5"):
        calc_aggregate([E(measure)], qrels, run_of([["a"], ["b"]]))


def test_documents_of_groups_lose_their_ranks_inside_an_expectation():
    groups = small_groups("a", "g")
    with pytest.raises(ParameterError, match="EE_D@1"):
        ByGroup(E(EE_D @ 1), groups)
