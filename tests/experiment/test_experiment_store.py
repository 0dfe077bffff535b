"""The store of an experiment: resumed, shared, refused, full, pruned."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings

import ir_measures
import pandas as pd
import pytest
from experiment_stages import Echo, FailsFor, Retriever
from ir_measures import nDCG
from ledger_files import change

import fairtk
from fairtk import EE_D, EE_R, E, FairSampler, Generator, experiment
from fairtk.errors import DataWarning, IdentityError, NotFoundError, ParameterError, StoreError
from fairtk.experiment.store import FILE
from fairtk.llm import Chat, Ledger, Message
from fairtk.measures.evaluator import Evaluator

MEASURES = [EE_D @ 3, E(nDCG @ 3)]


def system(log=None, alpha=1, model_log=None):
    generator = Generator(Echo(model_log), prompt="rag", cutoff=2)
    return Retriever(log=log) >> FairSampler(alpha=alpha, n_samples=3, cutoff=3) >> generator


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def tables(results):
    parts = [results.per_query, results.counts, *map(results.rankings, results.systems)]
    return [part.to_csv(index=False) for part in parts]


def test_what_is_there_is_not_done_again(data, tmp_path):
    topics, qrels = data
    log, model = tmp_path / "log", tmp_path / "model"
    run = {"save_dir": tmp_path / "store", "batch_size": 5}
    some = fairtk.Experiment({"a": system(log, 1, model)}, topics.head(7), qrels, MEASURES, **run)
    assert len(lines(log)) == 7
    prompts = len(lines(model))
    assert prompts == len(set(lines(model))) > 0
    first = fairtk.Experiment({"a": system(log, 1, model)}, topics, qrels, MEASURES, **run)
    assert sorted(lines(log)) == sorted(topics["qid"])  # the other five alone
    again = fairtk.Experiment({"a": system(log, 1, model)}, topics, qrels, MEASURES, **run)
    assert len(lines(log)) == len(topics)
    assert len(lines(model)) == len(set(lines(model)))
    assert tables(again) == tables(first)
    assert tables(fairtk.Experiment({"a": system()}, topics, qrels, MEASURES)) == tables(first)
    # a new sampler behind the same retriever starts from the stored retrieval
    fairtk.Experiment({"b": system(log, 8, model)}, topics, qrels, MEASURES, **run)
    assert len(lines(log)) == len(topics)
    assert len(some.per_query) < len(first.per_query)


def test_a_changed_topic_is_another_cell(data, tmp_path):
    topics, _ = data
    log = tmp_path / "log"
    fairtk.Experiment([Retriever(log=log)], topics, save_dir=tmp_path / "store")
    other = topics.assign(query=topics["query"].where(topics["qid"] != "q4", "other words"))
    found = fairtk.Experiment({"a": Retriever(log=log)}, other, save_dir=tmp_path / "store")
    assert lines(log)[len(topics) :] == ["q4"]
    rows = found.rankings("a")
    assert set(rows[rows["qid"] == "q4"]["query"]) == {"other words"}


def test_a_changed_system_is_done_anew_and_the_change_is_said(data, tmp_path):
    topics, _ = data
    fairtk.Experiment({"a": system()}, topics, save_dir=tmp_path)
    with pytest.warns(DataWarning, match="FairSampler.alpha"):
        fairtk.Experiment({"a": system(alpha=2)}, topics, save_dir=tmp_path)
    fairtk.Experiment({"a": system()}, topics, save_dir=tmp_path)  # the earlier is still there


def test_a_store_needs_identities_and_a_run_without_one_does_not(data, tmp_path):
    import pyterrier as pt

    topics, qrels = data
    pipeline = Retriever() >> pt.apply.generic(lambda frame: frame[frame["rank"] < 3])
    fairtk.Experiment([pipeline], topics, qrels, [nDCG @ 3])
    with pytest.raises(IdentityError):
        fairtk.Experiment([pipeline], topics, qrels, [nDCG @ 3], save_dir=tmp_path)
    named = fairtk.identified(pipeline, "head, v1")
    found = fairtk.Experiment({"a": named}, topics, qrels, [nDCG @ 3], save_dir=tmp_path)
    again = fairtk.Experiment({"a": named}, topics, qrels, [nDCG @ 3], save_dir=tmp_path)
    assert tables(again) == tables(found)


def test_two_functions_that_print_alike_are_two_systems(data):
    import pyterrier as pt

    topics, _ = data
    pipelines = {
        name: Retriever()
        >> pt.apply.generic(lambda frame, k=k: frame.assign(rank=k * frame["rank"]))
        for name, k in (("up", 1), ("down", -1))
    }
    run = [p.transform(topics) for p in pipelines.values()]
    assert repr(pipelines["up"]) == repr(pipelines["down"])
    assert not run[0].equals(run[1])
    found = fairtk.Experiment(pipelines, topics)
    assert not found.rankings("up").equals(found.rankings("down"))


def test_a_failure_is_kept_and_tried_again(data, tmp_path):
    topics, qrels = data
    bad, log = tmp_path / "bad", tmp_path / "log"
    bad.write_text("q3")
    run = {"save_dir": tmp_path / "store", "batch_size": 4}
    pipeline = {"a": Retriever() >> FailsFor(bad, log)}
    with pytest.warns(DataWarning, match="1 of 12"):
        fairtk.Experiment(pipeline, topics, qrels, MEASURES, **run)
    plan = fairtk.plan(pipeline, topics, qrels, MEASURES, **run)
    assert plan.cells.iloc[0].tolist() == ["a", 12, 11, 1, 0]
    bad.unlink()
    log.unlink()
    found = fairtk.Experiment(pipeline, topics, qrels, MEASURES, **run)
    assert set(lines(log)) == {"q3"}
    assert found.failures.empty
    assert "failed" not in found.means
    expected = fairtk.Experiment({"a": Retriever()}, topics, qrels, MEASURES)
    assert tables(found) == tables(expected)


def test_dry_run_tells_and_does_nothing(data, tmp_path):
    topics, qrels = data
    store, log, model = tmp_path / "store", tmp_path / "log", tmp_path / "model"
    wanted = {"a": system(log, 1, model), "b": system(log, 2, model)}
    plan = fairtk.plan(wanted, topics, qrels, MEASURES, save_dir=store)
    assert not store.exists()
    assert not lines(log)
    assert plan.cells["missing"].tolist() == [12, 12]
    assert plan.prompts[["prompts", "unknown"]].to_numpy().tolist() == [[0, 24]]
    fairtk.Experiment({"a": wanted["a"]}, topics, qrels, MEASURES, save_dir=store)
    calls = len(lines(model))
    plan = fairtk.plan(wanted, topics, qrels, MEASURES, save_dir=store)
    assert plan.cells.set_index("system")["stored"].to_dict() == {"a": 12, "b": 0}
    assert plan.prompts.iloc[0].tolist() == ["echo", calls, calls, 0, 12]
    assert len(lines(model)) == calls
    assert "missing" in repr(plan)
    assert "<table>" in plan._repr_html_()


def test_values_are_kept_with_what_was_warned_of(data, tmp_path, monkeypatch):
    topics, qrels = data
    without = qrels.assign(label=qrels["label"].where(qrels["qid"] != "q2", 0))
    found, evaluate = [], Evaluator.evaluate
    for labels, versions in (
        (without, {"fairtk": "1", "numpy": "1"}),
        (without, {"fairtk": "2", "numpy": "1"}),
        (without, {"fairtk": "2", "numpy": "2"}),
        (qrels, {"fairtk": "2", "numpy": "2"}),
    ):
        calls = []
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            patch.setattr(
                "fairtk.measures.evaluator.Evaluator.evaluate",
                lambda *a, to=calls: to.append(1) or evaluate(*a),
            )
            patch.setattr(
                "fairtk.experiment.values.environment", lambda v=versions: {"packages": v}
            )
            results = fairtk.Experiment(
                {"a": system(), "b": system(alpha=2)}, topics, labels, [EE_R @ 3], save_dir=tmp_path
            )
        found.append((len(calls), [str(w.message) for w in records], tables(results)))
    (_, said, values), (_, said_again, same), _, (_, nothing, _) = found
    assert [calls for calls, _, _ in found] == [2, 0, 2, 2]
    assert len(said) == 1 and "1 of 12 queries of a, b ('q2')" in said[0]
    assert said_again == said
    assert not nothing
    assert same == values


def test_values_of_a_function_are_never_kept(data, tmp_path):
    topics, qrels = data
    for value in (0.25, 0.75):
        measure = ir_measures.define(
            lambda qrels, run, v=value: [(qid, v) for qid in qrels["query_id"].unique()], name="V"
        )
        found = fairtk.Experiment({"a": Retriever()}, topics, qrels, [measure], save_dir=tmp_path)
        assert found.means.iloc[0, 0] == value


def test_two_experiments_on_one_store_at_once(data, tmp_path):
    topics, qrels = data
    found = {}

    def work(name, alpha):
        pipelines = {"shared": system(), name: system(alpha=alpha)}
        found[name] = fairtk.Experiment(
            pipelines, topics, qrels, MEASURES, save_dir=tmp_path, batch_size=2
        )

    threads = [threading.Thread(target=work, args=(f"s{i}", i + 2)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(2):
        pipelines = {"shared": system(), f"s{i}": system(alpha=i + 2)}
        expected = fairtk.Experiment(pipelines, topics, qrels, MEASURES)
        assert tables(found[f"s{i}"]) == tables(expected)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(data, tmp_path):
    topics, _ = data
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(StoreError, match=str(folder)):
        fairtk.Experiment([Retriever()], topics, save_dir=folder / "store")


def test_a_file_in_the_place_of_the_folder(data, tmp_path):
    topics, _ = data
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="save_dir"):
        fairtk.Experiment([Retriever()], topics, save_dir=tmp_path / "file")


def test_a_full_disk_keeps_what_was_committed(data, tmp_path):
    topics, qrels = data
    fairtk.Experiment({"a": system()}, topics.head(4), qrels, MEASURES, save_dir=tmp_path)
    import fairtk.experiment.store as stores

    made = stores.Store.__init__

    def small(self, folder):
        made(self, folder)
        [[pages]] = self.select("PRAGMA page_count")
        self.select(f"PRAGMA max_page_count = {pages + 2}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores.Store, "__init__", small)
        with pytest.raises(StoreError, match=f"{tmp_path}.*full.*committed"):
            fairtk.Experiment(
                {"a": system()}, topics, qrels, MEASURES, save_dir=tmp_path, batch_size=1
            )
    found = fairtk.Experiment({"a": system()}, topics, qrels, MEASURES, save_dir=tmp_path)
    assert tables(found) == tables(fairtk.Experiment({"a": system()}, topics, qrels, MEASURES))


def test_a_column_that_cannot_be_kept_is_named(data, tmp_path):
    import pyterrier as pt

    topics, _ = data
    odd = Retriever() >> fairtk.identified(
        pt.apply.generic(lambda frame: frame.assign(bag=[{1, 2}] * len(frame))), "bags"
    )
    with pytest.raises(fairtk.errors.ColumnError, match="'bag'"):
        fairtk.Experiment([odd], topics, save_dir=tmp_path)
    found = fairtk.Experiment({"a": odd}, topics)
    assert found.rankings("a")["bag"][0] == {1, 2}


def test_upkeep(data, tmp_path):
    topics, qrels = data
    store = tmp_path / "store"
    fairtk.Experiment(
        {"a": system(), "b": system(alpha=2)}, topics, qrels, MEASURES, save_dir=store
    )
    listed = experiment.stored_results(store)
    assert set(listed["systems"]) == {"", "a", "b"}
    assert (listed["queries"] == len(topics)).all()
    assert (listed["megabytes"] > 0).all()
    [folder] = experiment.export(store, tmp_path / "rows")
    assert sorted(experiment.open_results(folder).systems) == ["a", "b"]
    assert len(pd.read_parquet(folder / "rankings" / "000.parquet")) == len(topics) * 9
    assert experiment.prune(store, systems=["a"]) == len(topics)
    assert set(experiment.stored_results(store)["systems"]) == {"", "b"}
    with pytest.raises(ParameterError):
        experiment.prune(store)
    with pytest.raises(NotFoundError):
        experiment.prune(store, ["zz"])
    with pytest.raises(StoreError):
        experiment.stored_results(tmp_path)


SCRIPT = """
import sys, pandas as pd, pyterrier as pt, fairtk
from ir_measures import nDCG

class Fixed(pt.Transformer):
    def transform(self, inp):
        return inp.assign(docno=inp["qid"] + "-d0", score=1.0, rank=0)

topics = pd.DataFrame({"qid": ["q1", "q2", "q3"], "query": ["a", "b", "c"]})
qrels = pd.DataFrame({"qid": ["q1", "q2", "q3"], "docno": ["q1-d0", "x", "q3-d0"], "label": 1})
found = fairtk.Experiment(
    {"fixed": Fixed()}, topics, qrels, [nDCG@5], executor="processes", workers=1, batch_size=1
)
print(found.means.iloc[0, 0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["script", "stdin"])
def test_workers_need_no_main_guard(tmp_path, way):
    script = tmp_path / "study.py"
    script.write_text(SCRIPT)
    call = [sys.executable, "-" if way == "stdin" else str(script)]
    done = subprocess.run(
        call, input=SCRIPT if way == "stdin" else None, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{2 / 3}"]


STUCK = """
import sys, time
from pathlib import Path
import fairtk
from experiment_stages import Retriever, world

folder, executor = sys.argv[1:]  # a worker has other words

class Stuck(Retriever):
    def transform(self, inp):
        if "q3" in set(inp["qid"]):
            Path(folder, "stuck").touch()
            time.sleep(3600)
        return super().transform(inp)

stuck = fairtk.identified(Stuck(), "stuck, v1")
fairtk.Experiment(
    {"a": stuck}, world()[0], save_dir=folder, executor=executor, batch_size=1,
    workers=None if executor == "serial" else 1,
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_an_interrupt_keeps_what_was_committed(tmp_path, executor):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    call = [sys.executable, "-c", STUCK, str(tmp_path), executor]
    deadline = time.monotonic() + 600
    with subprocess.Popen(call, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            # workers go on while the process that started them commits what they sent
            while not (tmp_path / "stuck").exists() or committed(tmp_path) < 3:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in stderr
    assert committed(tmp_path) == 3


def committed(folder):
    """Return how many cells are in a store."""
    if not (folder / FILE).exists():
        return 0
    database = sqlite3.connect(folder / FILE, timeout=120)
    try:
        return database.execute("SELECT count(*) FROM cells WHERE error IS NULL").fetchone()[0]
    except sqlite3.OperationalError:  # the table is not there yet
        return 0
    finally:
        database.close()


@pytest.mark.parametrize(
    ("statement", "place"),
    [("PRAGMA user_version = 3", "format 3"), ("DROP TABLE cells", "'cells'"), (None, "empty")],
)
def test_a_file_that_is_no_store_of_this_version_is_refused(data, tmp_path, statement, place):
    topics, _ = data
    fairtk.Experiment({"a": Retriever()}, topics, save_dir=tmp_path)
    if statement is None:
        (tmp_path / FILE).write_bytes(b"")
    else:
        change(tmp_path / FILE, statement)
    content = (tmp_path / FILE).read_bytes()
    for use in (
        lambda: fairtk.Experiment({"a": Retriever()}, topics, save_dir=tmp_path),
        lambda: fairtk.plan({"a": Retriever()}, topics, save_dir=tmp_path),
        lambda: experiment.stored_results(tmp_path),
        lambda: experiment.prune(tmp_path, failed=True),
        lambda: experiment.export(tmp_path, tmp_path / "out"),
    ):
        with pytest.raises(StoreError, match=f"{FILE}.*{place}"):
            use()
    assert (tmp_path / FILE).read_bytes() == content


def test_a_ledger_and_an_experiment_share_a_file(data, tmp_path):
    topics, qrels = data
    call = Chat((Message("user", "a prompt"),))
    with Ledger(tmp_path / FILE) as ledger:
        wrapped = ledger.wrap(Echo())
        [answer] = wrapped.complete([call])
        fairtk.Experiment({"a": system()}, topics, qrels, MEASURES, save_dir=tmp_path)
        assert ledger.store.get([wrapped.key(call)]) == {wrapped.key(call): answer}
    assert set(experiment.stored_results(tmp_path)["systems"]) == {"", "a"}
