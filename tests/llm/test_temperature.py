"""Temperature 0 by default, and ledgers with answers at another temperature."""

from __future__ import annotations

import pytest
from chat_clients import chats
from chat_server import KEY, serving
from experiment_stages import Retriever, world

pytest.importorskip("openai")

import fairtk
from fairtk import Generator
from fairtk.llm import Ledger, LLMError, OpenAICompatible

TOPICS, _ = world(n_queries=3)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(lambda prompt, count: f"answer {len(prompt)}") as started:
        yield started


def model(server, **settings):
    return OpenAICompatible("m", base_url=server.url, timeout=600, **settings)


def temperatures(server):
    return [body["temperature"] for _, body, _ in server.requests]


@pytest.mark.filterwarnings("ignore:.*one answer stands:fairtk.errors.DataWarning")
def test_a_generator_answers_at_temperature_0(server):
    run = Retriever().transform(TOPICS)
    Generator(model(server)).transform(run)
    assert set(temperatures(server)) == {0}
    server.requests.clear()
    Generator(model(server, temperature=0.7)).transform(run)
    assert set(temperatures(server)) == {0.7}


@pytest.mark.parametrize("stored", [0.3, 0.7, None])
def test_answers_at_another_temperature_stop_a_run_before_it_pays(tmp_path, server, stored):
    with Ledger(tmp_path / "l") as ledger:
        ledger.wrap(model(server, temperature=stored)).complete(chats("a", "b"))
    server.requests.clear()
    with Ledger(tmp_path / "l") as ledger:
        llm = ledger.wrap(model(server))
        # the new prompt comes first, and is not paid
        with pytest.raises(LLMError, match=f"'m' to 2 of 3 .*temperature={stored}"):
            llm.complete(chats("new", "a", "b"))
        assert server.requests == [] and len(ledger) == 2
        llm.complete(chats("other"))  # other prompts are not refused
        ledger.wrap(model(server, temperature=0.0)).complete(chats("a"))  # the user has decided
        assert temperatures(server) == [0, 0]
        assert len(llm.complete(chats("a"))) == 1 and len(server.requests) == 2
    with Ledger(tmp_path / "l") as ledger:
        ledger.wrap(model(server, temperature=stored)).complete(chats("a", "b"))
    assert len(server.requests) == 2


def test_other_settings_are_other_prompts(tmp_path, server):
    with Ledger(tmp_path / "l") as ledger:
        ledger.wrap(model(server, temperature=0.3, max_tokens=9)).complete(chats("a"))
        ledger.wrap(model(server)).complete(chats("a"))
    assert temperatures(server) == [0.3, 0]


@pytest.mark.filterwarnings("ignore:system 'a' differs")
@pytest.mark.filterwarnings("ignore:.*one answer stands:fairtk.errors.DataWarning")
@pytest.mark.parametrize("executor", ["serial", pytest.param("processes", marks=pytest.mark.slow)])
def test_an_experiment_stops_before_it_pays(tmp_path, server, executor):
    def systems(**settings):
        return {"a": Retriever() % 2 >> Generator(model(server, **settings))}

    run = {"save_dir": tmp_path, "executor": executor, "batch_size": 1}
    fairtk.Experiment(systems(temperature=0.3), TOPICS[:1], **run)
    paid = len(server.requests)
    with pytest.raises(LLMError, match=r"0\.3"):
        fairtk.Experiment(systems(), TOPICS, **run)
    assert len(server.requests) == paid == 1
    fairtk.Experiment(systems(temperature=0), TOPICS, **run)
    assert temperatures(server) == [0.3, 0, 0, 0]
