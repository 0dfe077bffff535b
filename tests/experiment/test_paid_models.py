"""Paid models anywhere in a pipeline: each answer is recorded and paid for once, or refused."""

from collections import Counter

import paid_stages
import pyterrier as pt
import pytest
from chat_server import KEY, serving
from experiment_stages import Retriever, world
from pyterrier import _ops

import fairtk
from fairtk import Generator
from fairtk.experiment import prune, stored_results
from fairtk.experiment.store import FILE
from fairtk.llm import FunctionModel, Ledger, LLMError, OpenAICompatible
from fairtk.llm.chat import questions

pytest.importorskip("openai")
TOPICS, _ = world(n_queries=3)


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


def test_all_operators_are_tried():
    names = set(paid_stages.operators(None))
    assert names >= {"Sum", "SetUnion", "SetIntersection", "FeatureUnion", "Concatenate"}
    assert names >= {"Compose", "ScalarProduct", "RankCutoff"}
    assert all(issubclass(getattr(_ops, name), pt.Transformer) for name in names)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of PyTerrier's operators
@pytest.mark.parametrize(
    "executor",
    [
        "serial",
        pytest.param("processes", marks=pytest.mark.slow),
        pytest.param("dask", marks=pytest.mark.nightly),
    ],
)
def test_each_answer_is_recorded_and_paid_once(tmp_path, server, executor):
    if executor == "dask":
        pytest.importorskip("distributed")
    run = {"save_dir": tmp_path, "executor": executor}
    run |= {} if executor == "serial" else {"workers": 2}

    def systems():
        llm = model(server)
        labeled = {**paid_stages.operators(llm), **paid_stages.holders(llm)}
        pipelines = {name: pipeline for name, (pipeline, _) in labeled.items()}
        expected = {
            f"{label}: {query}"
            for _, labels in labeled.values()
            for label in labels
            for query in TOPICS["query"]
        }
        return {**pipelines, **paid_stages.others(llm)}, expected

    pipelines, expected = systems()
    results = fairtk.Experiment(pipelines, TOPICS, **run)
    prompts = Counter(prompt for prompt, *_ in server.requests)
    assert expected < prompts.keys() and set(prompts.values()) == {1}
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == len(prompts)
    rows = {name: results.rankings(name).to_csv() for name in pipelines}
    # the answers are recorded, whatever happens to the results
    prune(tmp_path, stored_results(tmp_path)["chain"])
    again = fairtk.Experiment(systems()[0], TOPICS, **run)
    assert len(server.requests) == len(prompts)
    for name in pipelines:
        assert again.rankings(name).to_csv() == rows[name]


def hidden(llm, what):
    """Return a pipeline with a model where the experiment does not look."""
    if what == "stage":
        stage = pt.apply.generic(lambda inp: paid_stages.asked(llm, "hidden", inp))
    elif what == "arrivals":
        stage = pt.apply.generic(lambda inp: inp.assign(n=len(list(llm.outcomes(questions("a"))))))
    else:
        stage = Generator(lambda prompts: [one.text for one in llm.complete(questions(prompts))])
    return {"a": Retriever(n=3) >> fairtk.identified(stage, f"{what}, v1")}


@pytest.mark.parametrize("what", ["stage", "arrivals", "generator"])
@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_hidden_model_is_refused_before_its_first_call(tmp_path, server, what, executor):
    llm, run = model(server), {"save_dir": tmp_path / "store", "executor": executor}
    with pytest.raises(LLMError, match=r"'m'.*Ledger\(.*\)\.wrap"):
        fairtk.Experiment(hidden(llm, what), TOPICS, **run)
    assert server.requests == []
    with Ledger(tmp_path / "answers.sqlite") as ledger:  # the remedy
        fairtk.Experiment(hidden(ledger.wrap(llm), what), TOPICS, **run)
        assert len(ledger) == len(server.requests) > 0
    # without a store nothing is recorded, so nothing is refused
    fairtk.Experiment(hidden(llm, what), TOPICS)


def test_a_model_that_calls_another_one_is_recorded_once(tmp_path, server):
    llm = model(server)
    outer = FunctionModel(lambda prompts: [one.text for one in llm.complete(questions(prompts))])
    system = {
        "a": Retriever(n=3) >> fairtk.identified(paid_stages.Paid(outer, "outer"), "outer, v1")
    }
    fairtk.Experiment(system, TOPICS, save_dir=tmp_path)
    with Ledger(tmp_path / FILE) as ledger:
        assert len(ledger) == len(server.requests) == len(TOPICS)
