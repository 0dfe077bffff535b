"""A study that was stopped goes on where it was; what is done is not done again."""

from __future__ import annotations

import os
from dataclasses import replace

import pandas as pd
import pyterrier as pt
import pytest
import qr_toys
import qr_world
from chat_server import error, serving

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("openai")

from fairtk_papers.fair_qr import QrStudy

from fairtk.errors import DataWarning
from fairtk.llm import BudgetError, KeywordRefiner, Ledger, LLMError, OfflineError
from fairtk.transformers import CollectionBM25

VARIED = {"max_iterations": (1, 10)}
WAITS = {"backoff": 0.01, "retries": 1, "timeout": 300.0}


class Counting(pt.Transformer):
    """A retriever that remembers what it was asked."""

    def __init__(self, inner):
        self.inner = inner
        self.queries = []

    def transform(self, inp):
        self.queries += [*zip(inp["qid"], inp["query"], strict=True)]
        return self.inner.transform(inp)

    def digest(self):
        return "counting"


@pytest.fixture(scope="module")
def index(data, tmp_path_factory):
    return Counting(CollectionBM25(tmp_path_factory.mktemp("index") / "index", data.documents))


@pytest.fixture(scope="module")
def whole(gender, index, tmp_path_factory):
    """Return an uninterrupted study with a server: its folder, results, and what was asked."""
    folder = tmp_path_factory.mktemp("whole")
    with serving(qr_world.adds_a_term) as server:
        results = study(gender, folder, model(server), index).run()
        return folder, results, sorted(prompt for prompt, *_ in server.requests)


def model(server, **options):
    from fairtk.llm import OpenAICompatible

    return OpenAICompatible("toy", server.url, **(WAITS | options))


def study(data, folder, llm, retriever, **changed):
    settings = {"variations": VARIED, "systems": ("fair-qr",)} | changed
    return qr_world.study(data, folder, llm, retriever=retriever, **settings)


def equal(results, folder, whole):
    """Check that results are those of the uninterrupted study; seconds and times are not."""
    before, expected, _ = whole
    pd.testing.assert_frame_equal(results.table, expected.table)
    pd.testing.assert_frame_equal(results.variations, expected.variations)
    pd.testing.assert_frame_equal(results.rankings, expected.rankings)
    assert qr_world.differences(qr_world.sums(folder), qr_world.sums(before)) == []
    return True


def test_what_is_removed_is_done_again_and_nothing_else(gender, tmp_path, index, whole):
    counting, progress = Counting(index.inner), []
    with serving(qr_world.adds_a_term) as server:
        study(gender, tmp_path, model(server), index).run()
        prompts = [prompt for prompt, *_ in server.requests]
        assert sorted(prompts) == whole[2] and len(set(prompts)) == len(prompts)
        again = study(gender, tmp_path, model(server), counting)  # as a new process would
        before = qr_world.rows_of(tmp_path, "SELECT * FROM cells")  # notes with their times, too
        again.run(progress.append)
        assert progress == [] and counting.queries == []
        assert qr_world.rows_of(tmp_path, "SELECT * FROM cells") == before
        qr_world.forget(tmp_path, "gender: bm25", "5")
        again.run()
        assert [qid for qid, _ in counting.queries] == ["5"]
        # a whole cell; its traces are made again, too
        counting.queries.clear()
        qr_world.forget(tmp_path, "gender: fair-qr")
        results = again.run(progress.append)
        assert len(progress) == 1 and progress[0].endswith("gender: fair-qr")
        assert {qid for qid, _ in counting.queries} == set(gender.topics["qid"])
        assert equal(results, tmp_path, whole) and len(server.requests) == len(prompts)


def test_a_server_that_dies_halfway_and_comes_back(gender, tmp_path, index, whole):
    # the server knows half of the queries, then is gone, then is whole
    alive = {"up to": 4, "there": True}

    def rule(prompt, count):
        topic = gender.topics["query"].tolist().index(original(prompt))
        if topic < alive["up to"]:
            return qr_world.adds_a_term(prompt)
        return error(400, "too odd") if alive["there"] else {"drop": True}

    with serving(rule) as server:
        one = study(gender, tmp_path, model(server), index)
        rows = [["bm25", 8, 0, 0, 8], ["fair-qr", 8, 0, 0, 8]]
        assert one.status().iloc[:2, 1:].to_numpy().tolist() == rows
        assert not list(tmp_path.iterdir()) and not server.requests
        with pytest.warns(DataWarning):
            results = one.run()
        rows = [["bm25", 8, 8, 0, 0], ["fair-qr", 8, 4, 4, 0]]
        assert one.status().iloc[:2, 1:].to_numpy().tolist() == rows
        missing = results.missing[results.missing["variation"] == ""]
        here = missing[missing["system"] == "fair-qr"]
        assert here["qid"].tolist() == gender.topics["qid"].tolist()[4:]
        assert here["reason"].str.contains("status 400: too odd").all()
        n_requests = len(server.requests)
        with pytest.warns(DataWarning):  # refused prompts are not requested again by default
            study(gender, tmp_path, model(server), index).run()
        assert len(server.requests) == n_requests
        alive["there"] = False
        with (  # of the first system the four that are left, of the second the one too many
            pytest.warns(DataWarning, match="4 of 8"),
            Ledger(tmp_path / "experiment.sqlite", retry_failed=True) as ledger,
            pytest.raises(LLMError),
        ):
            study(gender, tmp_path, model(server), index, ledger=ledger).run()
        alive["up to"] = 8
        with Ledger(tmp_path / "experiment.sqlite", retry_failed=True) as ledger:
            results = study(gender, tmp_path, model(server), index, ledger=ledger).run()
        prompts = [prompt for prompt, *_ in server.requests]
        answered = [p for p in prompts if prompts.count(p) == 1]
        # what was answered was asked for once, and nothing else was ever asked
        assert set(prompts) == set(whole[2]) == set(qr_world.paid(tmp_path / "experiment.sqlite"))
        first = gender.topics["query"].tolist()[:4]
        assert {p for p in prompts if original(p) in first} <= set(answered)
    assert equal(results, tmp_path, whole) and results.missing.empty


def original(prompt):
    return prompt.partition("Original query: ")[2].partition("\n")[0]


def test_a_budget_stops_and_the_next_run_goes_on(gender, tmp_path, index, whole):
    stops = 0
    with serving(qr_world.adds_a_term) as server:
        while True:
            with Ledger(tmp_path / "l.sqlite", max_calls=7) as ledger:
                before = len(server.requests)
                try:
                    results = study(gender, tmp_path, model(server), index, ledger=ledger).run()
                    break
                except BudgetError:
                    stops += 1
                    assert len(server.requests) == before + 7
        prompts = [prompt for prompt, *_ in server.requests]
        assert sorted(prompts) == whole[2]  # each once
        assert stops == (len(prompts) - 1) // 7 and stops >= 2
        with Ledger(tmp_path / "l.sqlite", offline=True) as ledger:
            replayed = study(gender, tmp_path / "again", model(server), index, ledger=ledger)
            assert equal(replayed.run(), tmp_path / "again", whole)
            other = study(gender, tmp_path / "other", model(server, max_tokens=9), index)
            other.ledger = ledger
            with pytest.raises(OfflineError):
                other.run()
    assert equal(results, tmp_path, whole)


def test_a_baseline_that_is_stopped_keeps_the_queries_before(gender, tmp_path):
    def run(folder, at=None):
        qr_toys.STOPPED.update(at=at, asked=[])
        return qr_world.study(gender, folder, KeywordRefiner(), systems=("toy",)).run()

    with qr_world.installed(("toy", "stops", False)):
        whole = run(tmp_path / "whole")
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", "5")
        assert qr_world.kept(tmp_path / "stopped") == 8 + 4  # all of BM25
        again = run(tmp_path / "stopped")
        assert qr_toys.STOPPED["asked"] == ["5", "6", "7", "8"]
    pd.testing.assert_frame_equal(again.table, whole.table)
    one, two = (qr_world.sums(tmp_path / name) for name in ("whole", "stopped"))
    assert qr_world.differences(one, two) == []


@pytest.mark.slow
def test_what_is_missing_is_in_the_bound_of_the_next_run(gender, tmp_path, index):
    """Cells that share answers may lack different topics: the bound counts all of them."""
    dead = set(gender.topics["query"].tolist()[:2])

    def rule(prompt, count):
        return {"drop": True} if original(prompt) in dead else qr_world.adds_a_term(prompt)

    with serving(rule) as server:
        first = study(gender, tmp_path, model(server), index)
        with pytest.warns(DataWarning, match="2 of 8"):
            first.run()
        refining = [cell for cell in first.cells if cell.refines]
        for cell, lost in ((refining[0], "5"), (refining[1], "6")):
            qr_world.forget(tmp_path, f"gender: {cell.label}", lost)
        plan = first.plan()
        # topics 1, 2, 5, 6, each refined up to ten times; no bound for each cell alone
        assert plan.rows[["topics", "calls"]].values.tolist() == [[4, 40]]
        assert (plan.total["done"], plan.total["systems"]) == (1, 4)
        dead.clear()
        before = len(server.requests)
        assert first.run().missing.empty
        assert 0 < len(server.requests) - before <= plan.total["calls"]
        after = first.plan()
        assert after.rows.empty and after.total["done"] == 4 and after.total["calls"] == 0
        assert after.total["recorded"] == len(qr_world.paid(tmp_path / "experiment.sqlite"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "systems",
    [("fair-qr",), pytest.param(("fair-qr", "random-terms"), marks=pytest.mark.nightly)],
)
def test_processes_give_what_the_serial_study_gives(gender, tmp_path, systems):
    """With tuned systems, which each worker makes for the folds of its topics."""
    found = []
    for engine in ({}, {"executor": "processes", "workers": 2}):
        settings = qr_world.settings(
            systems=systems,
            tuning={"fair-qr": {"max_iterations": [0, 1]}},
            variations={"max_iterations": (1,)},
        )
        folder = tmp_path / str(len(found))
        found.append(QrStudy(gender, folder, KeywordRefiner(), settings, **engine).run())
    for name in ("table", "variations", "rankings", "per_query", "iterations", "drift"):
        pd.testing.assert_frame_equal(*(getattr(results, name) for results in found))
    chosen = [results.tuning.drop(columns=["seconds"]) for results in found]
    pd.testing.assert_frame_equal(*chosen)
    assert found[0].warnings == found[1].warnings


# What changes ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(gender, tmp_path_factory):
    """Return a folder with a study of KeywordRefiner and toys, in which all is done."""
    folder = tmp_path_factory.mktemp("done")
    with toys():
        qr_world.study(gender, folder, KeywordRefiner(terms=1)).run()
    return folder


def toys(version="1.0"):
    specs = (("toy-memory", "memory", True), ("toy-reverse", "reverse", False))
    return qr_world.installed(*specs, version=version)


def pending(data, folder, llm=None, version="1.0", **changed):
    """Return the systems that would be done; none of them is."""
    with toys(version):
        made = qr_world.study(data, folder, llm or KeywordRefiner(terms=1), **changed)
        return {cell.label for cell in made.cells if len(made.pending(cell))}


BASES = {"toy-memory", "toy-reverse"}
EXPOSED = "fair-qr + exposure re-ranking"
REFINED = {"fair-qr", "fair-qr (no re-ranking)", EXPOSED, "random-terms"}
ALL = {"bm25"} | BASES | REFINED


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, set()),
        ({"correction": "none"}, set()),
        ({"ndcg": "trec_eval"}, set()),
        ({"seed": 7}, BASES | {"random-terms"}),
        ({"folds": 3}, {"toy-memory"}),
        ({"candidates": 11}, BASES),
        ({"options": {"toy-reverse": {"a": 1}}}, {"toy-reverse"}),
        ({"version": "1.1"}, BASES),
        ({"llm": KeywordRefiner(terms=2)}, REFINED),
        ({"fair_qr": {"threshold": 0.1}}, REFINED),
        ({"fair_qr": {"threshold": 0.05}}, set()),  # the default
        ({"options": {EXPOSED: {"weight": 2.0}}}, {EXPOSED}),
        ({"options": {EXPOSED: {"weight": 1.0, "k": 200}}}, set()),  # the defaults
        ({"variations": {"depth": (5, 6)}}, {"fair-qr, depth=6"}),
        ({"bm25": {"k1": 1.2}}, ALL),
        ({"bm25": {"num_results": 1000, "b": 0.4}}, set()),
        ({"cutoff": 6}, ALL),
    ],
)
def test_settings_change_what_they_must(gender, done, changed, expected):
    assert pending(gender, done, **changed) == expected


def test_data_change_what_they_must(data, gender, done):
    assert pending(data, done) == ALL  # of geography
    with toys():
        both = qr_world.study(data, done, KeywordRefiner(terms=1))
        assert {c.attribute for c in both.cells if len(both.pending(c))} == {"geography"}
    judged = gender.qrels.iloc[1:]
    assert pending(replace(gender, qrels=judged), done) == ALL
    worded = gender.topics.assign(query=gender.topics["query"].str.upper())
    assert pending(replace(gender, topics=worded), done) == ALL
    assert pending(replace(gender, collection="another"), done) == ALL
    relabeled = data.attributes["geography"]
    assert pending(replace(gender, attributes={"gender": relabeled}), done) == ALL
    assert pending(replace(gender, name="another name"), done) == set()
    mixed = (
        gender.topics.sample(frac=1, random_state=3),
        gender.qrels.sample(frac=1, random_state=3),
    )
    assert pending(replace(gender, topics=mixed[0], qrels=mixed[1]), done) == set()


def test_a_file_that_changes_changes_the_collection(tmp_path):
    folder = qr_world.write_world(tmp_path / "wiki")
    before = qr_world.read(folder, attributes=["gender"])
    assert qr_world.read(folder, attributes=["gender"]).key == before.key
    qr_world.write_world(folder)  # the same again, at another time, however coarse clocks are
    for path in folder.iterdir():
        later = path.stat().st_mtime_ns + 10**9
        os.utime(path, ns=(later, later))
    after = qr_world.read(folder, attributes=["gender"])
    assert after.key["collection"] != before.key["collection"]
    assert after.key["topics"] == before.key["topics"]
