"""Paid models anywhere in a pipeline: each answer is recorded and paid for once."""

import contextvars
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import paid_stages
import pyterrier as pt
import pytest
from chat_server import KEY, serving
from dask_cluster import settings_of
from experiment_stages import Retriever, world
from pyterrier import _ops

import fairtk
from fairtk import Generator, PerSample
from fairtk.experiment import prune, stored_results
from fairtk.experiment.store import FILE
from fairtk.llm import ChatModel, Completion, FunctionModel, Ledger, LLMError, OpenAICompatible
from fairtk.llm.chat import questions

pytest.importorskip("openai")
TOPICS, _ = world(n_queries=2)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server():
    with serving(lambda prompt, count: str(len(prompt))) as started:
        yield started


def model(server):
    # requests are counted: a call that takes long is not made again
    return OpenAICompatible("m", base_url=server.url, timeout=600)


def payments(ledger):
    [(number,)] = ledger.store.file.read("SELECT count(*) FROM payments")
    return number


def test_all_operators_are_tried():
    names = set(paid_stages.operators(None))
    assert names >= {"Sum", "SetUnion", "SetIntersection", "FeatureUnion", "Concatenate"}
    assert names >= {"Compose", "ScalarProduct", "RankCutoff"}
    assert all(issubclass(getattr(_ops, name), pt.Transformer) for name in names)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of PyTerrier's operators
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # of processes with threads
@pytest.mark.parametrize(
    "executor",
    [
        "serial",
        pytest.param("processes", marks=pytest.mark.slow),
        pytest.param("dask", marks=pytest.mark.nightly),
    ],
)
def test_each_answer_is_recorded_and_paid_once(tmp_path, tmp_path_factory, server, executor):
    with settings_of(executor, tmp_path_factory.mktemp("cluster")) as settings:
        check_answers(tmp_path, server, settings)


def check_answers(tmp_path, server, settings):
    run = {"save_dir": tmp_path, **settings}

    def systems():
        llm = model(server)
        labeled = {**paid_stages.operators(llm), **paid_stages.holders(llm)}
        if settings["executor"] != "dask":  # whose workers do not call paid models
            hidden = [paid_stages.hidden(llm, way) for way in paid_stages.WAYS]
            labeled |= {label: (pipeline, [label]) for pipeline, [label] in hidden}
        pipelines = {name: pipeline for name, (pipeline, _) in labeled.items()}
        expected = {
            f"{label}: {query}"
            for _, labels in labeled.values()
            for label in labels
            for query in TOPICS["query"]
        }
        return {**pipelines, **paid_stages.others(llm)}, expected

    pipelines, expected = systems()
    assert len(pipelines) >= 20
    results = fairtk.Experiment(pipelines, TOPICS, **run)
    prompts = Counter(prompt for prompt, *_ in server.requests)
    assert expected < prompts.keys() and set(prompts.values()) == {1}
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == payments(ledger) == len(prompts)
    rows = {name: results.rankings(name).to_csv() for name in pipelines}
    # the answers are recorded, whatever happens to the results
    prune(tmp_path, stored_results(tmp_path)["chain"])
    again = fairtk.Experiment(systems()[0], TOPICS, **run)
    assert len(server.requests) == len(prompts)
    for name in pipelines:
        assert again.rankings(name).to_csv() == rows[name]


@pytest.mark.parametrize("way", [paid_stages.completed, paid_stages.in_a_thread])
def test_a_hidden_model_keeps_the_ledger_of_its_user(tmp_path, server, way):
    with Ledger(tmp_path / "mine") as ledger:
        pipeline, _ = paid_stages.hidden(ledger.wrap(model(server)), way)
        fairtk.Experiment({"a": pipeline}, TOPICS, save_dir=tmp_path)
        assert len(ledger) == payments(ledger) == len(server.requests) == len(TOPICS)
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == 0


@pytest.mark.parametrize("way", [paid_stages.completed, paid_stages.in_a_thread])
def test_nothing_is_recorded_without_a_store(server, way):
    pipeline, _ = paid_stages.hidden(model(server), way)
    fairtk.Experiment({"a": pipeline}, TOPICS)
    fairtk.Experiment({"a": pipeline}, TOPICS)
    assert len(server.requests) == 2 * len(TOPICS)


def test_an_experiment_within_a_stage_has_the_store_of_the_outer_one(tmp_path, server):
    llm = model(server)

    def inner(inp):
        pipeline = Retriever(n=3) >> paid_stages.Paid(llm, "inner")
        return fairtk.Experiment({"a": pipeline}, inp).rankings("a")

    system = {"a": fairtk.identified(pt.apply.generic(inner), "inner, v1")}
    fairtk.Experiment(system, TOPICS, save_dir=tmp_path, batch_size=3)
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == payments(ledger) == len(server.requests) == len(TOPICS)


class Echo(ChatModel):
    """A user's model that is paid for or free, and answers with the length of the prompt."""

    def __init__(self, name):
        self._name, self.calls = name, 0

    @property
    def name(self):
        return self._name

    def parameters(self):
        return {}

    def outcomes(self, chats):
        for index, chat in enumerate(chats):
            self.calls += 1
            yield index, Completion(str(len(chat.text)))


class FreeEcho(Echo):
    free = True


@pytest.mark.parametrize("way", paid_stages.WAYS[:3])
@pytest.mark.parametrize("kind", [Echo, FreeEcho])
def test_models_of_users_are_recorded_unless_they_are_free(tmp_path, kind, way):
    llm = kind("mine")
    for _ in range(2):
        pipeline, _ = paid_stages.hidden(llm, way)
        fairtk.Experiment({"a": pipeline}, TOPICS, save_dir=tmp_path)
        prune(tmp_path, stored_results(tmp_path)["chain"])
    assert llm.calls == len(TOPICS) * (1 + kind.free)
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == payments(ledger) == (0 if kind.free else len(TOPICS))


def at_the_same_time(pipelines, folders):
    """Run an experiment for each folder in its own thread; return their errors."""

    def run(pipeline, folder):
        fairtk.Experiment({"a": pipeline}, TOPICS, save_dir=folder, batch_size=1)

    with ThreadPoolExecutor(len(folders)) as pool:
        started = [pool.submit(run, *pair) for pair in zip(pipelines, folders, strict=True)]
        return [one.exception(timeout=600) for one in started]


def test_experiments_in_two_threads_record_in_their_own_stores(tmp_path, server):
    folders, barrier = [tmp_path / "one", tmp_path / "two"], threading.Barrier(2, timeout=300)

    def together(llm, chats):
        barrier.wait()
        return llm.complete(chats)

    pipelines = [
        Retriever(n=3)
        >> paid_stages.Paid(model(server), folder.name)
        >> paid_stages.hidden(model(server), together)[0]  # both have the same prompts here
        for folder in folders
    ]
    assert at_the_same_time(pipelines, folders) == [None, None]
    for folder in folders:
        with Ledger(folder / FILE) as ledger:
            prompts = ledger.store.file.read("SELECT prompt FROM answers")
            texts = [json.loads(prompt)[0][1] for (prompt,) in prompts]
            labels = Counter(text.partition(":")[0] for text in texts)
            assert labels == {folder.name: len(TOPICS), "hidden together": len(TOPICS)}
            assert payments(ledger) == 2 * len(TOPICS)
    assert len(server.requests) == 4 * len(TOPICS)


@pytest.mark.parametrize("second", ["two", None])
def test_a_thread_without_a_context_is_refused_while_two_experiments_run(tmp_path, server, second):
    barrier = threading.Barrier(2, timeout=300)
    folders = [tmp_path / "one", second and tmp_path / second]

    def copied(llm, chats):  # the context of the stage
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(context.run, llm.complete, chats).result()

    def refused(llm, chats):
        barrier.wait()
        with ThreadPoolExecutor(1) as pool, pytest.raises(LLMError, match=r"'m'.*Ledger\(.*wrap"):
            pool.submit(llm.complete, chats).result()
        barrier.wait()
        return copied(llm, chats)

    pipelines = [paid_stages.hidden(model(server), refused)[0] for _ in folders]
    assert at_the_same_time(pipelines, folders) == [None, None]
    assert len(server.requests) == 2 * len(TOPICS)
    with Ledger(folders[0] / FILE) as ledger:
        assert len(ledger) == payments(ledger) == len(TOPICS)


def test_functions_of_generators_have_no_key_in_the_ledger(tmp_path):
    def named(answer):  # both functions have the same name
        reader = PerSample(Generator(lambda prompts: [answer] * len(prompts), cutoff=1))
        return Retriever(n=2) >> fairtk.identified(reader, f"{answer}, v1")

    results = fairtk.Experiment({a: named(a) for a in ("yes", "no")}, TOPICS, save_dir=tmp_path)
    for answer in ("yes", "no"):
        assert set(results.rankings(answer)["qanswer"]) == {answer}
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == 0


def test_a_model_that_calls_another_one_is_recorded_once(tmp_path, server):
    llm = model(server)
    outer = FunctionModel(lambda prompts: [one.text for one in llm.complete(questions(prompts))])
    system = {
        "a": Retriever(n=3) >> fairtk.identified(paid_stages.Paid(outer, "outer"), "outer, v1")
    }
    fairtk.Experiment(system, TOPICS, save_dir=tmp_path)
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == len(server.requests) == len(TOPICS)
