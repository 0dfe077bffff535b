"""Prompts that fail, one by one or all: how often they are requested."""

import pandas as pd
import pytest
from chat_server import KEY, error, serving
from experiment_stages import Retriever, world

import fairtk
from fairtk import FairSampler, Generator, PerSample
from fairtk.errors import DataWarning, StageError
from fairtk.llm import LLMError, OpenAICompatible

pytest.importorskip("openai")
TOPICS, _ = world(n_queries=20)
KINDS = pytest.mark.parametrize(("kind", "saved"), [("generator", True), ("per sample", False)])


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def systems(server, **settings):
    llm = OpenAICompatible(
        "m", base_url=server.url, **{"timeout": 600, "backoff": 0.01, **settings}
    )
    generator = Generator(llm, prompt="rag", cutoff=2)
    return {
        "generator": {"a": Retriever() % 2 >> generator},
        "per sample": {"a": Retriever() % 2 >> PerSample(generator >> Retriever() % 9)},
    }


@KINDS
def test_refused_prompts_are_requested_once(tmp_path, kind, saved):
    folder = {"save_dir": tmp_path} if saved else {}
    with serving(lambda prompt, count: error(400)) as server:
        with pytest.raises(StageError, match="20 of 20.* 17 more"):  # three are shown
            fairtk.Experiment(systems(server)[kind], TOPICS, **folder)
        assert len(server.requests) == len(server.counts) == 20

    def rule(prompt, count):  # one of twenty
        return error(400) if "words of q7 " in prompt else "yes"

    with serving(rule) as server:
        folder = {"save_dir": tmp_path / "other"} if saved else {}
        with pytest.warns(DataWarning, match="1 of 20"):
            results = fairtk.Experiment(systems(server)[kind], TOPICS, **folder)
        assert results.failures["qid"].tolist() == ["q7"]
        assert len(server.requests) == len(server.counts) == 20
        if saved and kind == "generator":  # a plan says what would be requested
            for settings, missing in (({}, 0), ({"retry_failed": True}, 1)):
                planned = fairtk.plan(systems(server)[kind], TOPICS, **folder, **settings)
                [row] = planned.prompts.to_dict("records")
                assert (row["prompts"], row["stored"], row["missing"]) == (20, 19, missing)


def test_without_a_store_the_other_prompts_of_a_batch_are_requested_once():
    def rule(prompt, count):
        return error(400) if "words of q7 " in prompt else "yes"

    with serving(rule) as server:
        generator = Generator(OpenAICompatible("m", base_url=server.url), prompt="rag", cutoff=2)
        system = Retriever() >> FairSampler(n_samples=3, seed=1) >> PerSample(generator)
        with pytest.warns(DataWarning, match="1 of 20"):
            results = fairtk.Experiment({"a": system}, TOPICS, batch_size=20)
        assert results.failures["qid"].tolist() == ["q7"]
        assert set(server.counts.values()) == {1} and len(server.counts) > 20


@KINDS
def test_a_server_that_is_down_ends_the_run_after_five_failed_calls(tmp_path, kind, saved):
    folder = {"save_dir": tmp_path} if saved else {}
    with serving(lambda prompt, count: error(503)) as server:
        with pytest.raises(LLMError, match="5 failed calls in a row"):
            fairtk.Experiment(
                systems(server, retries=1, concurrency=1)[kind], TOPICS, batch_size=20, **folder
            )
        assert len(server.requests) == 5 * 2  # each call has two attempts


def test_a_function_that_raises_costs_the_queries_of_its_prompts():
    sizes = []

    def model(prompts):
        sizes.append(len(prompts))
        if any("words of q3 " in prompt for prompt in prompts):
            raise RuntimeError("no answer")
        return [prompt[-9:] for prompt in prompts]

    system = {"a": Retriever() % 2 >> Generator(model, cutoff=2)}
    with pytest.warns(DataWarning, match="1 of 20"):
        results = fairtk.Experiment(system, TOPICS)
    assert results.failures["qid"].tolist() == ["q3"]
    assert sizes == [20, *[1] * 20]
    assert isinstance(results.rankings("a"), pd.DataFrame)


@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_prompt_that_a_function_refuses_is_kept_until_it_is_retried(tmp_path, executor):
    notes = tmp_path / "asked"
    notes.mkdir()

    def model(prompts):
        for prompt in prompts:
            (notes / str(len(list(notes.iterdir())))).write_text(prompt)
        return ["ERROR::reduce_length" if "of q3 " in p else "x" for p in prompts]

    system = {"a": Retriever() % 2 >> fairtk.identified(Generator(model, cutoff=2), "a, v1")}
    run = {"save_dir": tmp_path / "store", "executor": executor, "workers": 1}
    run |= {} if executor == "processes" else {"workers": None}
    for calls, more in ((20, {}), (20, {}), (21, {"retry_failed": True}), (21, {})):
        with pytest.warns(DataWarning, match="1 of 20"):
            results = fairtk.Experiment(system, TOPICS, **run, **more)
        assert results.failures["qid"].tolist() == ["q3"]
        assert "too long" in results.failures["error"].iloc[0]
        assert len(list(notes.iterdir())) == calls
