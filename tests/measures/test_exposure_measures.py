"""EE-D, EE-R and EE-L: hand-computed cases, bounds, missing queries, invariants, bad input."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import iter_calc
from small_frames import qrels_of, run_of, value, values

import fairtk
from fairtk import EE_D, EE_L, EE_R
from fairtk.errors import (
    ColumnError,
    DataWarning,
    InputError,
    ParameterError,
    UndefinedWarning,
)
from fairtk.exposure.browsing import DCG, RBP, TREC
from fairtk.remarks import SIZES_DIFFER


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        (RBP(p=0.8), [1, 0.8, 0.64]),
        (DCG(), [1, 1 / np.log2(3), 0.5]),
        (TREC(), [1, 1, 1 / np.log2(3)]),
    ],
)
def test_weights_of_ranks(model, weights):
    assert model.weights(np.arange(3)) == pytest.approx(weights)


def test_exact_bounds_by_hand():
    run = run_of([["a", "b"], ["c", "a"]])
    qrels = qrels_of({"a": 1, "b": 0, "c": 0, "d": 0})
    # EE-D: floor k^2/n = 1, so (1.5 - 1) / (2 - 1)
    assert value(EE_D(bounds="exact") @ 2, qrels, run) == pytest.approx(0.5)
    # EE-R: worst order shows two documents that are not useful: 2 * 1/3; (4/3 - 2/3) / (4/3 - 2/3)
    assert value(EE_R(bounds="exact") @ 2, qrels, run) == pytest.approx(1.0)
    # EE-L: the worst fixed order loses 2 - 2 * 2/3 + 4/3 = 2
    assert value(EE_L(bounds="exact") @ 2, qrels, run) == pytest.approx((1 / 6) / 2)


def test_graded_labels_by_hand():
    run = run_of([["a", "b", "c"]])
    qrels = qrels_of({"a": 1, "b": 2, "c": 0})
    # RBP 0.5: grade 2 gets rank 0 (1), grade 1 rank 1 (1/2), the rest rank 2 (1/4)
    graded = EE_R(browsing="RBP(p=0.5)", normalize=False)
    assert value(graded, qrels, run) == pytest.approx(1 * 0.5 + 0.5 * 1 + 0.25 * 0.25)
    binary = graded(graded=False)  # a and b share (1 + 1/2) / 2
    assert value(binary, qrels, run) == pytest.approx(1.5 * 0.75 + 0.25 * 0.25)
    only_two = graded(rel=2)  # b alone is useful; a and c share (1/2 + 1/4) / 2
    assert value(only_two, qrels, run) == pytest.approx(0.5 * 1 + 1.25 * 0.375)


def test_cutoff_is_taken_within_each_sample():
    run = run_of([["a", "b"], ["b", "a"]])
    qrels = qrels_of({"a": 1, "b": 0})
    # at 1: a and b are each first once: EE-D = 1/4 + 1/4
    assert value(EE_D(normalize=False) @ 1, qrels, run) == pytest.approx(0.5)


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_missing_query_gets_the_worst_value():
    qrels = pd.concat([qrels_of({"a": 1, "b": 0, "c": 0}, q) for q in ("q1", "q2")])
    run = run_of([["a"]], "q1")
    got = {
        (m.query_id, str(m.measure)): m.value
        for m in iter_calc([EE_D @ 1, EE_R @ 1, EE_L @ 1], qrels, run)
    }
    assert got["q2", "EE_D@1"] == 1
    assert got["q2", "EE_R@1"] == 0
    assert got["q2", "EE_L@1"] == 1
    raw = EE_L(normalize=False) @ 1
    # upper bound of the raw value: 1 (EE-D) + 1 (target)
    assert values(raw, qrels, run)["q2"] == pytest.approx(2)


def test_a_query_without_labels_is_ignored_and_an_empty_run_is_the_worst():
    qrels = qrels_of({"a": 1, "b": 0})
    run = pd.concat([run_of([["a"]]), run_of([["x"]], "other")])
    assert [m.query_id for m in iter_calc([EE_D @ 1], qrels, run)] == ["q"]
    empty = pd.DataFrame({"query_id": [], "doc_id": [], "score": []})
    assert value(EE_D @ 1, qrels, empty) == 1
    assert value(EE_R @ 1, qrels, empty) == 0


def test_no_useful_document_is_nan_with_a_warning():
    qrels = pd.concat([qrels_of({"a": 1, "b": 0}, "q1"), qrels_of({"a": 0}, "q2")])
    run = pd.concat([run_of([["a"]], "q1"), run_of([["a"]], "q2")])
    with pytest.warns(UndefinedWarning, match="EE_R@1.*1 of 2.*'q2'"):
        got = values(EE_R @ 1, qrels, run)
    assert np.isnan(got["q2"])
    assert got["q1"] == 1


def test_exact_bounds_that_coincide_are_nan_with_a_reason():
    with pytest.warns(UndefinedWarning):
        assert np.isnan(
            value(EE_D(bounds="exact") @ 2, qrels_of({"a": 1, "b": 0}), run_of([["a", "b"]]))
        )


def test_machine_user_needs_a_cutoff():
    with pytest.raises(ParameterError, match="EE_D@5"):
        value(EE_D, qrels_of({"a": 1}), run_of([["a"]]))


@pytest.mark.parametrize(
    "params",
    [
        {"cutoff": 10**20},
        {"cutoff": 2.5},
        {"bounds": "exactly"},
        {"browsing": "RBP(q=1)"},
        {"brwsing": "MU"},
        {"rel": 0},
        {"normalize": "yes"},
    ],
)
def test_wrong_parameters(params):
    with pytest.raises(ParameterError, match=rf"\b{[*params][-1]}\b"):
        EE_D(**params)


def test_number_of_documents():
    run, qrels = run_of([["a", "x"]]), qrels_of({"a": 1, "b": 0}).assign(size=10)
    # n: a, b, x = 3 | a, b = 2 | 10: target of what is not useful (2-1)/(n-1)
    for n, rest in (("judged+retrieved", 1 / 2), ("judged", 1.0), (10, 1 / 9), ("size", 1 / 9)):
        got = value(EE_R(n=n, normalize=False) @ 2, qrels, run)
        assert got == pytest.approx(1 + rest), n
    with pytest.raises(InputError, match="qid 'q'"):
        value(EE_R(n=2) @ 2, qrels, run)
    with pytest.raises(ColumnError, match="got 'sizes'"):
        value(EE_R(n="sizes") @ 2, qrels, run)


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
def test_systems_that_differ_in_n_are_warned_about():
    qrels = qrels_of({"a": 1, "b": 0})
    runs = {"one": run_of([["a"]]), "two": run_of([["a", "x"]])}
    with pytest.warns(DataWarning, match="'q': 2 to 3"):
        results = fairtk.evaluate(qrels, runs, ["EE_R@2", "EE_L@2"])
    (remark,) = [one for one in results.remarks if one.kind == SIZES_DIFFER]
    assert (remark.measure, remark.qids, remark.n_queries) == ("EE_R@2, EE_L@2", ("q",), 1)
    # calls have nothing to do with each other
    evaluator = ir_measures.evaluator([EE_R @ 2], qrels)
    for run in runs.values():
        evaluator.calc_aggregate(run)
    # a fills the one rank that is read: the target gives the others nothing, whatever their number
    assert not fairtk.evaluate(qrels, runs, ["EE_R@1", "EE_L@1"]).remarks


@pytest.mark.filterwarnings("ignore::fairtk.errors.TruncationWarning")
def test_systems_of_an_experiment_that_differ_in_n_are_warned_about():
    frames = qrels_of({"a": 1, "b": 0}), run_of(["a"]), run_of(["ax"])
    qrels, one, other = map(pt.model.from_ir_measures, frames)
    with pytest.warns(DataWarning, match="'q': 2 to 3"):
        results = fairtk.Experiment({"one": one, "other": other}, None, qrels, ["EE_D@3", "EE_R@2"])
    (remark,) = [one for one in results.remarks if one.kind == SIZES_DIFFER]
    assert remark.measure == "EE_D@3, EE_R@2"


rankings = st.lists(st.permutations(["a", "b", "c", "d", "e"]), min_size=1, max_size=6)
grades = st.lists(st.integers(0, 2), min_size=5, max_size=5).filter(any)
models = st.sampled_from(["MU", "RBP(p=0.7)", "GERR(p=0.8, u=0.4)", "DCG", "TREC"])


@given(rankings, grades, models, st.integers(1, 5), st.integers(5, 1000))
def test_n_decides_nothing_where_useful_documents_fill_what_is_read(
    samples, labels, model, cutoff, n
):
    qrels = qrels_of(dict(zip("abcde", labels, strict=True)))
    if sum(label > 0 for label in labels) >= cutoff and not model.startswith("GERR"):
        for measure in (EE_R, EE_L):
            one, other = (measure(browsing=model, n=size) @ cutoff for size in (5, n))
            assert value(one, qrels, run_of(samples)) == pytest.approx(
                value(other, qrels, run_of(samples)), abs=1e-12
            )
