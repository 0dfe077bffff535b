"""`cross_fit` selects stored rows: choices in numbers and by a loop, ties, folds, failures."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairtk
from fairtk import ByGroup, E, Groups
from fairtk.errors import (
    DataWarning,
    InputError,
    NotFoundError,
    ParameterError,
    UndefinedWarning,
)
from fairtk.experiment import folds as make_folds

DOCS = ("first", "second", "third", "fourth")


def run(ranks):
    """Return a run with the document ``good`` at a rank from 1 for each query."""
    rows = []
    for number, rank in enumerate(ranks):
        docs = list(DOCS)
        docs[rank - 1] = "good"
        rows += [(f"q{number}", doc, -float(i), i) for i, doc in enumerate(docs)]
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


def results_of(ranks, measures=("RR",)):
    """Return results from ranks of the good document: a row per system, a column per query."""
    qids = [f"q{i}" for i in range(len(ranks[0]))]
    qrels = pd.DataFrame({"qid": qids, "docno": "good", "label": 1})
    runs = {f"s{i}": run(row) for i, row in enumerate(ranks)}
    return fairtk.Experiment(runs, None, qrels, measures)


def test_choices_and_rows_by_hand():
    # RR by query q0 to q3: s0 1, 1/4, 1/2, 1/4; s1 1/2, 1, 1/4, 1/2
    results = results_of([[1, 4, 2, 4], [2, 1, 4, 2]])
    folds = {"q0": 5, "q1": 5, "q2": 7, "q3": 7}
    tuned = fairtk.cross_fit(results, "RR", folds)
    # for fold 5, on q2 and q3: s0 (1/2 + 1/4) / 2 = 3/8, s1 (1/4 + 1/2) / 2 = 3/8: the first
    # for fold 7, on q0 and q1: s0 (1 + 1/4) / 2 = 5/8, s1 (1/2 + 1) / 2 = 3/4
    expected = [[5, "s0", 3 / 8, 2], [7, "s1", 3 / 4, 2]]
    assert tuned.choices.to_numpy().tolist() == expected
    assert list(tuned.choices) == ["fold", "system", "value", "topics"]
    s0, s1 = results.rankings("s0"), results.rankings("s1")
    pd.testing.assert_frame_equal(tuned.rows, pd.concat([s0[:8], s1[8:]], ignore_index=True))
    # q0 and q1 of s0, q2 and q3 of s1: (1 + 1/4 + 1/4 + 1/2) / 4
    again = fairtk.Experiment({"tuned": tuned.rows}, None, results.qrels, ["RR"])
    assert again.means.loc["tuned", "RR"] == pytest.approx(0.5)


def test_ties_are_decided_by_the_order_of_the_systems():
    results = results_of([[1, 2], [2, 1], [1, 2]])
    folds = {"q0": 0, "q1": 1}
    assert fairtk.cross_fit(results, "RR", folds).choices["system"].tolist() == ["s1", "s0"]
    turned = fairtk.cross_fit(results, "RR", folds, systems=["s2", "s1", "s0"])
    assert turned.choices["system"].tolist() == ["s1", "s2"]


ranks = st.integers(2, 7).flatmap(
    lambda n: st.lists(st.lists(st.integers(1, 4), min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(ranks, st.data())
def test_choices_equal_a_plain_loop(table, data):
    n = len(table[0])
    folds = data.draw(
        st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(lambda f: len(set(f)) > 1)
    )
    results = results_of(table)
    tuned = fairtk.cross_fit(results, "RR", {f"q{i}": fold for i, fold in enumerate(folds)})
    for fold, system, value, topics in tuned.choices.itertuples(index=False):
        others = [i for i in range(n) if folds[i] != fold]
        means = [math.fsum(1 / row[i] for i in others) / len(others) for row in table]
        best = max(means)
        assert value == pytest.approx(best) and topics == len(others)
        assert means[int(system[1:])] == pytest.approx(best)
        # of systems with equal values the first; other ties may differ in the last digit
        equal = [row for row in table if sorted(row[i] for i in others)
                 == sorted(table[int(system[1:])][i] for i in others)]  # fmt: skip
        assert min(map(table.index, equal)) <= int(system[1:])
        chosen = tuned.rows[tuned.rows["qid"].isin(f"q{i}" for i in range(n) if folds[i] == fold)]
        rows = results.rankings(system)
        assert chosen.to_numpy().tolist() == (
            rows[rows["qid"].isin(chosen["qid"])].to_numpy().tolist()
        )
    assert tuned.rows["qid"].unique().tolist() == [f"q{i}" for i in range(n)]


@settings(max_examples=8)
@given(ranks, st.randoms(use_true_random=False))
def test_labels_of_a_fold_do_not_change_its_choice(table, random):
    """Never tune on the topics that are reported."""
    n = len(table[0])
    folds = {f"q{i}": i % 2 for i in range(n)}
    changed = [[random.randint(1, 4) if i % 2 == 0 else row[i] for i in range(n)] for row in table]
    before, after = (
        fairtk.cross_fit(results_of(values), "RR", folds).choices for values in (table, changed)
    )
    assert before.iloc[0].equals(after.iloc[0])


@settings(max_examples=8)
@given(ranks, st.randoms(use_true_random=False))
def test_choices_do_not_depend_on_the_order_of_topics(table, random):
    results = results_of(table)
    qids = results.qrels["qid"].tolist()
    random.shuffle(qids)
    labels = results.qrels.set_index("qid").loc[qids].reset_index()
    runs = {name: results.rankings(name) for name in results.systems}
    shuffled = fairtk.Experiment(runs, None, labels, ["RR"])
    choices = [fairtk.cross_fit(r, "RR", 2).choices for r in (results, shuffled)]
    pd.testing.assert_frame_equal(*choices, check_exact=True)


def test_the_better_direction_is_the_measures():
    # the expected loss grows with the rank of the useful document
    results = results_of([[4, 4], [1, 1]], ["EE_L@1", "RR"])
    folds = {"q0": 0, "q1": 1}
    for measure in ("EE_L@1", "RR"):
        assert fairtk.cross_fit(results, measure, folds).choices["system"].tolist() == ["s1"] * 2


def test_topics_with_an_undefined_value_are_left_out_for_all():
    # EE_R of q1 is undefined without a label above 0
    qrels = pd.DataFrame({"qid": ["q0", "q1", "q2"], "docno": "good", "label": [1, 0, 1]})
    with pytest.warns(UndefinedWarning):
        runs = {"a": run([4, 1, 1]), "b": run([1, 4, 4])}
        results = fairtk.Experiment(runs, None, qrels, ["EE_R@2"])
    tuned = fairtk.cross_fit(results, "EE_R@2", {"q0": 0, "q1": 0, "q2": 1})
    assert tuned.choices[["system", "topics"]].to_numpy().tolist() == [["a", 1], ["b", 1]]
    with pytest.raises(InputError, match="fold 0"):
        fairtk.cross_fit(results, "EE_R@2", {"q0": 0, "q1": 1, "q2": 0})


def test_a_measure_that_compares_queries_is_compared_as_a_table_would():
    qids = [f"q{i}" for i in range(4)]
    lengths = pd.DataFrame({"docno": qids, "group": ["short", "long"] * 2})
    groups = Groups.from_frame(lengths, name="lengths")
    measure = ByGroup("RR", groups, by="query")
    # s0: RR 1 for short queries and 1/2 for long ones, gap 1/2; s1: RR 1/4 for all, gap 0
    results = results_of([[1, 2, 1, 2], [4, 4, 4, 4]], ["RR", measure])
    folds = {"q0": 0, "q1": 0, "q2": 1, "q3": 1}
    choices = fairtk.cross_fit(results, measure, folds).choices
    assert choices[["system", "value"]].to_numpy().tolist() == [["s1", 0.0]] * 2
    assert fairtk.cross_fit(results, "RR", folds).choices["system"].tolist() == ["s0"] * 2


def test_random_folds_are_those_of_folds():
    results = results_of([[1, 2, 3, 4, 1, 2], [2, 1, 4, 3, 2, 1]])
    given_folds = make_folds([f"q{i}" for i in range(6)], 3, seed=7)
    random = fairtk.cross_fit(results, "RR", 3, seed=7)
    fixed = fairtk.cross_fit(results, "RR", given_folds)
    pd.testing.assert_frame_equal(random.choices, fixed.choices)
    numbers = {qid: np.int64(fold) for qid, fold in given_folds.items()}
    pd.testing.assert_frame_equal(fairtk.cross_fit(results, "RR", numbers).rows, fixed.rows)


def test_saved_results_answer_like_the_original(tmp_path):
    results = results_of([[1, 2, 3], [2, 1, 1]], [E("RR")])
    results.save(tmp_path / "saved")
    loaded = fairtk.experiment.open_results(tmp_path / "saved")
    tuned, again = (fairtk.cross_fit(r, "E(RR)", 3) for r in (results, loaded))
    pd.testing.assert_frame_equal(tuned.choices, again.choices)
    pd.testing.assert_frame_equal(tuned.rows, again.rows)


def test_topics_without_labels_have_rows():
    topics = pd.DataFrame({"qid": ["q0", "q1", "q2"], "query": "words"})
    qrels = pd.DataFrame({"qid": ["q0", "q1"], "docno": "good", "label": 1})
    runs = {"s0": run([1, 2, 3]), "s1": run([2, 1, 1])}
    with pytest.warns(DataWarning, match="q2"):
        results = fairtk.Experiment(runs, topics, qrels, ["RR"])
    tuned = fairtk.cross_fit(results, "RR", {"q0": 0, "q1": 1, "q2": 1})
    assert tuned.choices["system"].tolist() == ["s1", "s0"]
    assert tuned.rows.groupby("qid")["docno"].agg(list).loc["q2"][2] == "good"  # of s0


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"measure": "nDCG@5"}, NotFoundError, "'nDCG@5'.*RR"),
        ({"systems": ["s9"]}, NotFoundError, "'s9'.*s0"),
        ({"systems": {0: ["s0"]}}, ParameterError, "fold 1"),
        ({"systems": []}, ParameterError, "fold 0"),
        ({"folds": {"q0": 0}}, InputError, "'q1'"),
        ({"folds": {"q0": 0, "q1": "x"}}, ParameterError, r"folds\['q1'\].*'x'"),
        ({"folds": {"q0": 1, "q1": 1}}, ParameterError, "`folds`"),
        ({"folds": 3}, ParameterError, r"`folds`.*\(2\), got 3"),
        ({"folds": 1}, ParameterError, "folds.*got 1"),
    ],
)
def test_bad_input(options, error, message):
    arguments = {"measure": "RR", "folds": {"q0": 0, "q1": 1}} | options
    with pytest.raises(error, match=message):
        fairtk.cross_fit(results_of([[1, 2], [2, 1]]), **arguments)
