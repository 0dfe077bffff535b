"""Tuning inside a study: chosen on other folds, kept, counted, shown beside the default."""

from __future__ import annotations

import json
from typing import ClassVar

import pandas as pd
import pytest
import qr_toys
import qr_world
from fairtk_papers.fair_qr import QrSettings
from fairtk_papers.fair_qr.report import all_tables
from fairtk_papers.fair_qr.systems import GRIDS, all_cells

from fairtk.errors import DataWarning, FairtkError, InputError, NotFoundError, ParameterError
from fairtk.experiment import folds
from fairtk.llm import KeywordRefiner
from fairtk.transformers import CollectionBM25

TRIED = (0, 1, 5)
EXPOSED = "fair-qr + exposure re-ranking"


@pytest.fixture(scope="module")
def tuned(gender, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    grid = {"fair-qr": {"max_iterations": TRIED}, EXPOSED: {"weight": [1.0, 30.0]}}
    changed = {"tuning": grid, "variations": {"max_iterations": TRIED}}
    changed["systems"] = ("fair-qr", EXPOSED)
    return qr_world.study(gender, folder, KeywordRefiner(terms=1), **changed)


@pytest.fixture(scope="module")
def results(tuned):
    return tuned.run()


def test_each_topic_has_what_is_best_on_the_other_folds(results, gender):
    values = results.per_query[results.per_query["measure"] == "nDCG x AWRF"]
    varied = values[values["variation"] == "max_iterations"]
    wide = varied.pivot(index="qid", columns="setting", values="value")
    parts = folds(gender.topics["qid"].tolist(), 4, 42)
    own = values[values["system"] == "fair-qr (tuned)"].set_index("qid")["value"]
    best = {}
    for fold in range(4):
        others = wide[[parts[qid] != fold for qid in wide.index]].mean()
        best[fold] = max(TRIED, key=lambda n: others[str(n)])  # noqa: B023 - of equal ones the first
    for qid, value in own.items():
        assert value == pytest.approx(wide.loc[qid, str(best[parts[qid]])])
    chosen = results.tuning[results.tuning["system"] == "fair-qr (tuned)"]
    found = {row.fold: json.loads(row.settings) for row in chosen.itertuples()}
    assert found == {fold: {"max_iterations": n} for fold, n in best.items()}
    assert chosen["topics"].tolist() == [6] * 4 and (chosen["seconds"] >= 0).all()
    # settings with fewer iterations make some of the calls of the one with most
    trace = results.traces.query("variation == 'max_iterations' and setting == '5'")
    assert chosen["calls"].tolist() == [(trace["iteration"] > 0).sum(), 0, 0, 0]


def test_rows_stand_side_by_side_and_time_is_counted(results):
    names = ["bm25", "fair-qr", "fair-qr (tuned)", EXPOSED, f"{EXPOSED} (tuned)"]
    assert results.table["system"].tolist() == names
    assert [row[0] for row in all_tables(results)["comparison"].rows] == names
    costs = results.costs[results.costs["variation"] == ""].set_index("system")
    assert costs.loc["fair-qr (tuned)", "training seconds"] > 0
    assert costs.loc["fair-qr", "training seconds"] == 0
    table = all_tables(results)["tuning"]
    assert len(table.rows) == 8 and table.rows[0][3].startswith("max_iterations=")


def test_tables_of_a_finished_study_come_from_kept_values(results, tuned, monkeypatch):
    expected = results.per_query
    measured = "fairtk.measures.evaluator.Evaluator.evaluate"
    monkeypatch.setattr(measured, lambda *_: pytest.fail("measured again"))
    pd.testing.assert_frame_equal(tuned.run().per_query, expected)
    pairs = results.controls.set_index(["system", "against", "measure"])["difference"]
    means = results.table.set_index("system")["AWRF"]
    names = (f"{EXPOSED} (tuned)", "fair-qr (tuned)")
    assert pairs[(*names, "AWRF")] == pytest.approx(means[names[0]] - means[names[1]], abs=1e-12)


@pytest.mark.parametrize(
    ("build", "trained"),
    [pytest.param("depth", False, marks=pytest.mark.nightly), ("memory_depth", True)],
)
def test_systems_of_plugins_are_tuned_by_their_own_grid(
    gender, tmp_path, monkeypatch, build, trained
):
    """Of one document or three of BM25's the product takes three."""
    monkeypatch.setitem(GRIDS, "bm25", {"b": (0.4,)})  # each other one needs an index
    qr_toys.APPLIED.clear()
    with qr_world.installed(("toy", build, trained, {"depth": [1, 3]})):
        given = {"systems": ("toy",), "tuning": None, "folds": 3}
        found = qr_world.study(gender, tmp_path, KeywordRefiner(), **given).run()
    rows = found.tuning[found.tuning["system"] == "toy (tuned)"]
    assert [json.loads(text) for text in rows["settings"]] == [{"depth": 3}] * 3
    sizes = found.rankings.groupby(["system", "qid"]).size()
    assert set(sizes["toy"]) == {1} and set(sizes["toy (tuned)"]) == {3}
    assert (
        found.table.set_index("system")["nDCG"].loc[["toy", "toy (tuned)"]].diff()[1:] > 0
    ).all()
    assert all(seen and not set(seen) & set(ranked) for seen, ranked in qr_toys.APPLIED)
    assert bool(qr_toys.APPLIED) == trained


GRID = {"depth": [1, 3]}
TOY = {"systems": ("toy",), "tuning": {"toy": GRID}, "folds": 3}


def test_tuning_that_is_stopped_goes_on(gender, tmp_path):
    def run(at=None):
        qr_toys.STOPPED.update(at=at, asked=[])
        return qr_world.study(gender, tmp_path, KeywordRefiner(), **TOY).run()

    with qr_world.installed(("toy", "stops_at_three", False, GRID)):
        with pytest.raises(KeyboardInterrupt):
            run("5")
        assert qr_toys.STOPPED["asked"] == list("12345")
        results = run()
        assert qr_toys.STOPPED["asked"][:4] == list("5678")  # then those of its folds
        again = run()
        assert qr_toys.STOPPED["asked"] == []
    assert len(results.tuning.query("system == 'toy (tuned)'")) == 3
    pd.testing.assert_frame_equal(again.tuning, results.tuning)


def test_settings_that_fail_are_named_and_the_others_kept(gender, tmp_path):
    with qr_world.installed(("toy", "fails_at_three", False, GRID)):
        study = qr_world.study(gender, tmp_path, KeywordRefiner(), **TOY)
        with pytest.warns(DataWarning, match=r"gender: toy \(tuned\), depth=3.*too deep"):
            results = study.run()
    rows = results.tuning[results.tuning["system"] == "toy (tuned)"]
    assert [json.loads(text) for text in rows["settings"]] == [{"depth": 1}] * 3
    assert results.missing.empty
    with qr_world.installed(("toy", "fails_at_three", False)):
        given = {**TOY, "tuning": {"toy": {"depth": [3]}}}
        study = qr_world.study(gender, tmp_path, KeywordRefiner(), **given)
        with pytest.raises(FairtkError, match=r"toy \(tuned\), depth=3.*too deep"):
            study.run()


def test_a_query_that_fails_with_the_chosen_settings_is_named(gender, tmp_path):
    """On the other folds, three documents have the higher product."""
    with qr_world.installed(("toy", "fails_once", False)):
        study = qr_world.study(gender, tmp_path, KeywordRefiner(), **TOY)
        with pytest.warns(DataWarning, match=r"1 of 8 queries of gender: toy \(tuned\).*no luck"):
            results = study.run()
        assert results.missing[["system", "qid"]].to_numpy().tolist() == [["toy (tuned)", "5"]]
        status = study.status().set_index("system").loc["toy (tuned)"]
    assert status[["done", "failed", "missing"]].tolist() == [7, 1, 0]


def test_remarks_name_the_settings(gender, tmp_path):
    with qr_world.installed(("toy", "doubts", False)):
        study = qr_world.study(gender, tmp_path, KeywordRefiner(), **TOY)
        with pytest.warns(DataWarning, match="doubts"):
            results = study.run()
    remarks = {cell.label: system.remarks for cell, system in results.systems.items()}
    assert {remark.system for remark in remarks["toy"]} == {""}
    assert {remark.system for remark in remarks["toy (tuned)"]} == {"gender: toy (tuned), depth=1"}


class Counting(KeywordRefiner):
    """Counts the prompts of all its objects."""

    prompts: ClassVar = []

    def outcomes(self, chats):
        chats = list(chats)
        self.prompts.extend(chat.text for chat in chats)
        return super().outcomes(chats)


def test_a_tuned_placebo_calls_no_model(gender, tmp_path):
    requests = []
    for tuning in ({}, {"random-terms": {"max_iterations": [0, 1]}}):
        Counting.prompts.clear()
        given = {"tuning": tuning, "systems": ("fair-qr", "random-terms")}
        given["fair_qr"] = {"max_iterations": 1}
        results = qr_world.study(gender, tmp_path / str(len(requests)), Counting(), **given).run()
        requests.append(sorted(Counting.prompts))
    assert requests[0] == requests[1] and requests[0]
    calls = results.tuning.groupby("system")["calls"].sum()
    assert calls.to_dict() == {"random-terms (tuned)": 0}


def test_other_prompts_are_other_calls(gender, tmp_path):
    settings = {"prompt": ["refine", "refine-few-shot"], "max_iterations": [0, 1]}
    given = {"systems": ("fair-qr",), "tuning": {"fair-qr": settings}, "folds": 2}
    study = qr_world.study(gender, tmp_path, KeywordRefiner(), **given)
    results = study.run()
    is_first = results.traces.query("system == 'fair-qr'")["iteration"] == 1
    assert results.tuning["calls"].tolist() == [2 * is_first.sum(), 0] != [0, 0]
    # a plan has the calls of pending topics only
    name = "gender: fair-qr (tuned), prompt='refine', max_iterations=1"
    qr_world.forget(tmp_path, name, "3")
    status = study.status().set_index("system").loc["fair-qr (tuned)"]
    assert status[["done", "failed", "missing"]].tolist() == [7, 0, 1]
    assert study.plan().rows["topics"].tolist() == [1]


def test_bm25_is_tuned_inside_fair_qr_where_it_is_the_studys_own(gender, tmp_path):
    grid = {"fair-qr": [{"k1": [3.0], "b": [0.0]}]}
    given = {"systems": ("fair-qr",), "tuning": grid, "fair_qr": {"max_iterations": 0}}
    study = qr_world.study(gender, tmp_path, KeywordRefiner(), **given)
    [tuned] = [cell for cell in study.cells if cell.grid]
    run = study.refiner(tuned.at(tuned.grid[0]), KeywordRefiner())(gender.topics)
    # without a refinement the list is BM25's with these settings
    other = CollectionBM25(study.retriever.folder, gender.documents, k1=3.0, b=0.0)
    expected = other(gender.topics)
    top = expected[expected["rank"] < 5]
    assert run["docno"].tolist() == top["docno"].tolist() and study.pending(tuned)
    foreign = qr_world.study(gender, tmp_path, KeywordRefiner(), retriever=other, **given)
    assert not any(cell.grid for cell in foreign.cells)


def test_what_was_tuned_is_kept_until_something_changes(results, tuned, gender):
    assert not any(tuned.pending(cell) for cell in tuned.cells)
    stored = [{"folds": 3}, {"seed": 7}, {"ndcg": "trec_eval"}]  # only the choice changes
    for changed in (*stored, {"tuning": {EXPOSED: {"k": [9]}}}):
        given = {"tuning": tuned.settings.tuning, "systems": (EXPOSED,), **changed}
        again = qr_world.study(gender, tuned.folder, KeywordRefiner(terms=1), **given)
        left = {cell.label for cell in again.cells if len(again.pending(cell))}
        assert left == (set() if changed in stored else {f"{EXPOSED} (tuned)"})


def test_a_plan_counts_what_tuning_may_ask(gender, tmp_path):
    few = {"systems": ("fair-qr",), "fair_qr": {"max_iterations": 2}}
    plain = qr_world.study(gender, tmp_path, KeywordRefiner(), **few).plan()
    grid = {"fair-qr": {"threshold": [0.1, 0.2], "choose": ["difference", "ratio"], "k": [5, 9]}}
    plan = qr_world.study(gender, tmp_path, KeywordRefiner(), tuning=grid, **few).plan()
    # which group is chosen changes the calls; threshold and k only how many, or none
    assert plan.total["calls"] == 2 * plain.total["calls"] == 2 * 8 * 2
    assert plan.rows["systems"].tolist() == ["fair-qr", "fair-qr (tuned)"]


def test_every_system_is_tuned_unless_told_otherwise():
    names = {cell.system for cell in all_cells(QrSettings(), {"gender": None})}
    assert {"bm25 (tuned)", "fair-qr (tuned)", f"{EXPOSED} (tuned)"} <= names
    assert not any("tuned" in c.system for c in all_cells(QrSettings(tuning={}), {"gender": None}))


def test_tuning_needs_other_topics(gender, tmp_path):
    one = qr_world.study(
        qr_world.first_topics(gender, 1),
        tmp_path,
        KeywordRefiner(),
        tuning={"bm25": {"b": [0.4]}},
        systems=("bm25",),
    )
    with pytest.raises(InputError, match="2 folds and topics.*tuning={}"):
        one.run()


@pytest.mark.parametrize(
    ("tuning", "error", "place"),
    [
        ({"fair-qq": {}}, NotFoundError, "'fair-qq'"),
        ({"fair-qr": {"kk": [5]}}, NotFoundError, "FairQR setting 'kk'"),
        ({"fair-qr": {"k": [5, 0]}}, ParameterError, "k must be"),
        ({"bm25": {"k3": [5]}}, NotFoundError, "'k3'"),
    ],
)
def test_bad_input(gender, tmp_path, tuning, error, place):
    with pytest.raises(error, match=place):
        qr_world.study(gender, tmp_path, KeywordRefiner(), tuning=tuning)
