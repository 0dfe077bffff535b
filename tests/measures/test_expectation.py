"""E(measure): the mean of any measure over samples."""

import pandas as pd
import pytest
from ir_measures import AP, RR, calc_aggregate, iter_calc, nDCG, parse_measure

from fairtk import EE_D, E
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.measures import parse

QRELS = pd.DataFrame(
    {"query_id": ["q1", "q1", "q2"], "doc_id": ["a", "b", "a"], "relevance": [1, 0, 1]}
)


def run_of(samples, qid="q1"):
    rows = [
        (qid, doc, sample, rank, -float(rank))
        for sample, ranking in enumerate(samples)
        for rank, doc in enumerate(ranking)
    ]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "sample", "rank", "score"])


def test_mean_over_samples_by_hand():
    # RR is 1 and 1/2: 0.75 for q1; q2 is missing: 0
    run = run_of([["a", "b"], ["b", "a"]])
    got = {m.query_id: m.value for m in iter_calc([E(RR)], QRELS, run)}
    assert got == {"q1": pytest.approx(0.75), "q2": 0}
    with pytest.raises(InputError, match=r"write E\(RR\)"):
        iter_calc([RR], QRELS, run)


def test_a_run_without_samples_is_the_measure_itself():
    run = run_of([["b", "a"]]).drop(columns="sample")
    assert calc_aggregate([E(nDCG @ 5)], QRELS, run)[E(nDCG @ 5)] == pytest.approx(
        calc_aggregate([nDCG @ 5], QRELS, run)[nDCG @ 5]
    )


def test_rank_decides_where_scores_tie():
    run = run_of([["b", "a"], ["b", "a"]]).assign(score=1.0)
    assert {m.query_id: m.value for m in iter_calc([E(RR)], QRELS, run)}["q1"] == 0.5


def test_unequal_numbers_of_samples():
    # q1 has two samples (1, 1/2), q2 one (1)
    run = pd.concat([run_of([["a", "b"], ["b", "a"]]), run_of([["a"]], "q2")])
    got = {m.query_id: m.value for m in iter_calc([E(RR)], QRELS, run)}
    assert got == {"q1": pytest.approx(0.75), "q2": 1}


def test_several_expectations_and_a_fair_measure_inside():
    run = run_of([["a", "b"], ["b", "a"]])
    measures = [E(nDCG @ 5), E(AP), E(EE_D @ 1), EE_D @ 1]
    got = {(m.measure, m.query_id): m.value for m in iter_calc(measures, QRELS, run)}
    assert got[E(EE_D @ 1), "q1"] == 1  # each sample alone is one fixed ranking
    assert got[EE_D @ 1, "q1"] == 0.5
    assert got[E(EE_D @ 1), "q2"] == 1  # missing: the worst value of the measure inside
    assert got[E(AP), "q1"] == pytest.approx(0.75)


def test_empty_run():
    empty = pd.DataFrame({"query_id": [], "doc_id": [], "score": []})
    assert calc_aggregate([E(nDCG @ 5)], QRELS, empty)[E(nDCG @ 5)] == 0


def test_forms():
    assert repr(E(nDCG @ 5)) == "E(measure='nDCG@5')"
    assert E(nDCG @ 5) == E("nDCG@5") == E(nDCG) @ 5 == parse("E(nDCG@5)") == parse("E(nDCG)@5")
    assert parse_measure("E(measure='nDCG@5')") == E(nDCG @ 5)
    assert parse("E(EE_D(browsing='RBP(p=0.5)')@5)") == E(EE_D(browsing="RBP(p=0.5)") @ 5)
    with pytest.raises(ParameterError, match="cutoff inside already"):
        E(nDCG @ 5) @ 10
    with pytest.raises(ParameterError, match="needs a measure"):
        calc_aggregate([E], QRELS, run_of([["a"]]))
    with pytest.raises((NotFoundError, ParameterError), match="did you mean 'NDCG'|'nDCG'"):
        E("nDGC@5")


def test_inputs_of_the_inner_measure_are_asked_for():
    import ir_measures

    assert set(ir_measures.run_inputs([E(nDCG @ 5)])) == {"query_id", "doc_id", "score"}
