"""A Dask cluster in processes of its own, over TCP: workers that join, are slow, and die."""

import contextlib
import threading

import pandas as pd
import pytest
from dask_cluster import Cluster, until
from experiment_stages import Echo, Padded, Retriever, Waits, world

import fairtk
from fairtk import FairSampler, Generator
from fairtk.errors import ParameterError, WorkerError
from fairtk.experiment import DaskExecutor, executors

distributed = pytest.importorskip("distributed")


@pytest.fixture
def cluster(tmp_path):
    """Return a scheduler without workers."""
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


@pytest.fixture
def client(cluster):
    """Return a client of a cluster with two workers."""
    for name in ("one", "two"):
        cluster.worker(name)
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
        yield client


def everything(results):
    """Return all tables as bytes."""
    parts = [results.per_query, *(results.rankings(name) for name in results.systems)]
    return [part.to_csv(index=False) for part in parts]


def calls(folder):
    """Return how many batches each worker took."""
    path = folder / "calls"
    lines = path.read_text().split() if path.exists() else []
    return {name: lines.count(name) for name in lines}


def says(texts, capfd):
    """Add what was written to stderr since; return whether workers are waited for."""
    texts.append(capfd.readouterr().err)
    return "waiting for one" in "".join(texts)


@contextlib.contextmanager
def beside(disturb):
    """Something that happens to a cluster while it works."""
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.nightly
def test_workers_die_join_and_are_slow(cluster, tmp_path):
    """Three workers; one is killed in the midst of it, with what it had, and another comes."""
    topics, qrels = world(60)
    for name in ("one", "two", "slow"):
        cluster.worker(name)

    def systems(folder=None):
        retriever = Retriever() >> Waits(folder)
        sampled = retriever >> FairSampler(n_samples=3, cutoff=3)
        return {"a": sampled >> Generator(Echo(), prompt="rag", cutoff=2), "b": retriever % 3}

    events = []

    def disturb():
        until(lambda: {"one", "two", "slow"} <= calls(tmp_path).keys(), "a batch of each worker")
        cluster.processes["one"].kill()
        cluster.processes["one"].wait()
        cluster.worker("new")
        until(lambda: "new" in calls(tmp_path), "a batch of the new worker")
        (tmp_path / "go").touch()
        until(lambda: sum(calls(tmp_path).values()) >= 50, "what others than the slow one do")
        events.append(calls(tmp_path))
        (tmp_path / "last").touch()

    with beside(disturb):
        results = fairtk.Experiment(
            systems(tmp_path),
            topics,
            qrels,
            ["E(nDCG@3)"],
            executor="dask",
            scheduler=cluster.address,
            batch_size=1,
            save_dir=tmp_path / "store",
        )
    assert events[0]["slow"] == 1  # which held nobody up
    assert calls(tmp_path)["one"] == 1  # somebody else did it again
    expected = fairtk.Experiment(systems(), topics, qrels, ["E(nDCG@3)"], threads=1)
    assert everything(results) == everything(expected)
    assert len(results.failures) == 0


@pytest.mark.nightly
def test_all_that_hold_a_stage_die(cluster, tmp_path, monkeypatch, capfd):
    """The only worker is killed, with the only copy of the stage; the next one gets it anew."""
    topics, qrels = world(8)
    cluster.worker("one")

    said = []
    forget = executors._ClusterStages._forget

    def forgotten(sent, places):
        forget(sent, places)
        monkeypatch.setattr(executors, "_PATIENCE", 0.5)  # only now, when it knows why

    monkeypatch.setattr(executors._ClusterStages, "_forget", forgotten)

    def disturb():
        until(lambda: calls(tmp_path), "a first batch")
        cluster.processes["one"].kill()
        until(lambda: says(said, capfd), "the line that there is no worker")
        (tmp_path / "go").touch()
        cluster.worker("two")

    with beside(disturb):
        found = fairtk.Experiment(
            {"a": Retriever() >> Waits(tmp_path)},
            topics,
            qrels,
            ["nDCG@3"],
            executor=DaskExecutor(scheduler=str(cluster.file)),  # the file has the address
            batch_size=1,
        )
    assert "waiting for one (the last ones ended in a task, maybe for lack of memory" in "".join(
        said
    )
    assert calls(tmp_path) == {"one": 1, "two": 8}
    expected = fairtk.Experiment({"a": Retriever() >> Waits()}, topics, qrels, ["nDCG@3"])
    assert everything(found) == everything(expected)


@pytest.mark.slow
def test_a_client_stays_open_and_its_workers_keep_nothing(client, data):
    topics, qrels = data
    expected = fairtk.Experiment({"a": Retriever()}, topics, qrels, ["nDCG@3"])
    for settings in ({"executor": client}, {"executor": "dask", "scheduler": client}):
        found = fairtk.Experiment({"a": Retriever()}, topics, qrels, ["nDCG@3"], **settings)
        assert everything(found) == everything(expected)
        assert client.status == "running" and client.submit(abs, -1).result() == 1
        assert set(client.run(loaded_stages).values()) == {0}
    executor = DaskExecutor(scheduler=client)
    assert repr(executor) == f"DaskExecutor(scheduler={client.scheduler.address!r})"
    client.close()  # it has no address then
    assert repr(executor).startswith("DaskExecutor(scheduler=")


def loaded_stages():
    """Return how many stages a worker has."""
    return len(executors._loaded)


@pytest.mark.nightly
def test_stages_and_batches_larger_than_a_message(client):
    """A stage of 80 MB, and texts of 24 MB in a batch: Dask would warn of 10 MB in a task."""
    topics = pd.DataFrame(
        [
            (f"q{i}", "words", f"q{i}-d{j}", 5 - j, j, chr(97 + i) * 2_000_000)
            for i in range(4)
            for j in range(3)
        ],
        columns=["qid", "query", "docno", "score", "rank", "text"],
    )
    qrels = topics[["qid", "docno"]].assign(label=1)
    systems = {"a": Padded(80_000_000)}
    expected = fairtk.Experiment(systems, topics, qrels, ["nDCG@3"])
    found = fairtk.Experiment(systems, topics, qrels, ["nDCG@3"], executor=client)
    assert everything(found) == everything(expected)


@pytest.mark.slow
def test_it_waits_for_a_first_worker(cluster, data, monkeypatch, capfd):
    monkeypatch.setattr(executors, "_PATIENCE", 0.5)
    topics, qrels = data

    texts = []

    def join():
        until(lambda: says(texts, capfd), "the line that there is no worker")
        cluster.worker("late", threads=4)  # does one task at a time all the same

    with beside(join):
        found = fairtk.Experiment(
            {"a": Retriever()},
            topics,
            qrels,
            ["nDCG@3"],
            executor="dask",
            scheduler=cluster.address,
            batch_size=2,
        )
    expected = fairtk.Experiment({"a": Retriever()}, topics, qrels, ["nDCG@3"])
    assert everything(found) == everything(expected)
    texts.append(capfd.readouterr().err)
    lines = [line for line in "".join(texts).splitlines() if "no workers" in line]
    assert lines == [f"the Dask scheduler at {cluster.address} has no workers: waiting for one"]


@pytest.mark.nightly
def test_a_stage_that_ends_its_workers(cluster, data):
    """Nannies start the workers again, which end again: that is not waited for without end."""
    topics, qrels = data
    for name in ("one", "two"):
        cluster.worker(name, nanny="--nanny")

    def end(inp):
        import os

        os._exit(1)

    import pyterrier as pt

    with pytest.raises(WorkerError):
        fairtk.Experiment(
            {"a": pt.apply.generic(end)},
            topics,
            qrels,
            ["nDCG@3"],
            executor="dask",
            scheduler=cluster.address,
            batch_size=100,
        )


@pytest.mark.nightly
def test_the_scheduler_ends(cluster, tmp_path):
    topics, qrels = world(20)
    cluster.worker("one")

    def disturb():
        until(lambda: calls(tmp_path), "a first batch")
        cluster.processes["scheduler"].kill()

    with (
        # which looks for its scheduler for 10 s, and not for 30
        distributed.Client(cluster.address, timeout=10, set_as_default=False) as client,
        beside(disturb),
        pytest.raises(
            WorkerError, match="(lost the Dask scheduler at tcp|send data to the Dask cluster)"
        ),
    ):
        fairtk.Experiment(
            {"a": Retriever() >> Waits(tmp_path)},
            topics,
            qrels,
            ["nDCG@3"],
            executor=client,
            batch_size=1,
        )


def test_what_is_wrong_with_the_settings_is_said_at_once(data, tmp_path):
    def run(**settings):
        fairtk.Experiment({"a": Retriever()}, *data, ["nDCG@3"], **settings)

    with pytest.raises(ParameterError, match="'dask'.*'serial'"):
        run(scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ParameterError, match="workers=2"):
        run(executor="dask", scheduler="tcp://127.0.0.1:1", workers=2)
    for scheduler in (None, 8786):
        with pytest.raises(ParameterError, match=f"got {scheduler}.*executor='processes'"):
            run(executor="dask", scheduler=scheduler)
    with pytest.raises(WorkerError):
        run(executor="dask", scheduler=tmp_path / "none.json")
    with pytest.raises(WorkerError):
        run(executor="dask", scheduler="nowhere://x")


def test_another_version_is_refused():
    kind, (error, *_), _ = executors.run_in_worker("0.0.1", b"", {})
    assert kind == "failed" and isinstance(error, WorkerError)
    assert "expected fairtk 0.0.1" in str(error)


def test_what_has_ended_is_let_go(monkeypatch):
    monkeypatch.setattr(executors, "_loaded", {"one": 1, "two": 2})
    executors.unload(["one", "three"])
    assert executors._loaded == {"two": 2}
