"""Paid models and a Dask cluster whose workers run in other folders: this process calls them."""

from collections import Counter

import paid_stages
import pytest
from chat_server import KEY, serving
from experiment_stages import Retriever, world
from paid_stages import Paid, asked, completed, hidden, in_a_pool

import fairtk
from fairtk import Generator, QueryRefiner
from fairtk.experiment.store import FILE
from fairtk.llm import Ledger, LLMError, OpenAICompatible

pytest.importorskip("openai")
pytest.importorskip("distributed")
from dask_cluster import Cluster

pytestmark = pytest.mark.slow
TOPICS, _ = world(n_queries=4)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A scheduler and two workers, each in its own folder, without the key."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    for name in ("one", "two"):
        (folder / name).mkdir()
        with monkeypatch.context() as patch:
            patch.chdir(folder / name)
            cluster.worker(name)
    yield cluster
    cluster.end()


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(lambda prompt, count: str(len(prompt))) as started:
        yield started


def systems(llm):
    """Return a generator, a stage and a refiner with a model, and a system without a model."""
    return {
        "generator": Retriever() % 2 >> Generator(llm, prompt="rag", cutoff=2),
        "stage": Retriever(n=3) >> Paid(llm, "stage"),
        "refiner": QueryRefiner(llm, group="g") >> Retriever(n=2),
        "none": Retriever(n=3),
    }


def test_this_process_calls_paid_models_and_records_their_answers(
    cluster, server, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # workers do not have it
    llm = OpenAICompatible("m", base_url=server.url, timeout=600)
    monkeypatch.chdir(tmp_path)
    run = {"save_dir": "store", "executor": "dask", "scheduler": cluster.address, "batch_size": 1}
    results = fairtk.Experiment(systems(llm), TOPICS, **run)
    serial = fairtk.Experiment(systems(llm), TOPICS)
    for name in results.systems:
        assert results.rankings(name).equals(serial.rankings(name))
    calls = Counter(prompt for prompt, *_ in server.requests)
    assert set(calls.values()) == {2}  # of the two experiments
    with Ledger(tmp_path / "store" / FILE) as ledger:
        payments = ledger.store.file.read("SELECT count(*) FROM payments")
        assert len(ledger) == payments[0][0] == len(calls)
    fairtk.Experiment(systems(llm), TOPICS, **run)
    assert len(server.requests) == 2 * len(calls)
    # workers have written nothing
    assert [*cluster.folder.rglob("*.sqlite")] == []


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of PyTerrier's operators
def test_all_operators_and_holders_have_the_calls_of_a_serial_run(
    cluster, server, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    llm = OpenAICompatible("m", base_url=server.url, timeout=600)
    labeled = {**paid_stages.operators(llm), **paid_stages.holders(llm)}
    pipelines = {name: pipeline for name, (pipeline, _) in labeled.items()}
    pipelines |= paid_stages.others(llm)
    assert len(pipelines) >= 20
    counts, rankings = {}, {}
    for executor in ("serial", "dask"):
        begin = len(server.requests)
        run = {"save_dir": tmp_path / executor, "executor": executor}
        run |= {"scheduler": cluster.address} if executor == "dask" else {}
        results = fairtk.Experiment(pipelines, TOPICS, **run)
        calls = Counter(prompt for prompt, *_ in server.requests[begin:])
        assert set(calls.values()) == {1}
        with Ledger(tmp_path / executor / FILE) as ledger:
            [[payments]] = ledger.store.file.read("SELECT count(*) FROM payments")
            counts[executor] = len(calls), len(ledger), payments
        rankings[executor] = {name: results.rankings(name).to_csv() for name in pipelines}
    assert len(set(counts["serial"])) == 1 and counts["dask"] == counts["serial"]
    assert rankings["dask"] == rankings["serial"]
    assert [*cluster.folder.rglob("*.sqlite")] == []
    print(f"{len(pipelines)} pipelines; calls, answers, payments: {counts}")


@pytest.mark.parametrize("way", [completed, in_a_pool])
def test_a_model_that_the_walk_does_not_find_is_refused_before_its_first_call(
    cluster, server, tmp_path, monkeypatch, way
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    pipeline, _ = hidden(OpenAICompatible("m", base_url=server.url, timeout=600), way)
    run = {"executor": "dask", "scheduler": cluster.address, "save_dir": tmp_path / "store"}
    with pytest.raises(LLMError, match=FILE):
        fairtk.Experiment({"a": pipeline}, TOPICS, **run)
    assert server.requests == []
    assert [*cluster.folder.rglob("*.sqlite")] == []


def test_a_ledger_of_the_user_is_used_by_this_process_alone(cluster, server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    run = {"executor": "dask", "scheduler": cluster.address, "batch_size": 1}
    with Ledger(tmp_path / "mine") as ledger:
        llm = ledger.wrap(OpenAICompatible("m", base_url=server.url, timeout=600))
        fairtk.Experiment(systems(llm), TOPICS, save_dir=tmp_path / "store", **run)
        assert len(ledger) == len(server.requests) > 0
        paid = len(server.requests)

        # a model where fairtk does not look for it would be called by a worker
        def hidden(inp):
            return asked(llm, "hidden", inp)

        import pyterrier as pt

        stage = fairtk.identified(pt.apply.generic(hidden), "hidden, v1")
        with pytest.raises(LLMError, match="mine"):
            system = {"a": Retriever(n=3) >> stage}
            fairtk.Experiment(system, TOPICS, save_dir=tmp_path / "other", **run)
    assert len(server.requests) == paid
    assert [*cluster.folder.rglob("mine*")] == []
