"""The Generator with models of fairtk.llm: one ledger, budget and price for answers, too."""

from __future__ import annotations

import math

import pandas as pd
import pytest

pytest.importorskip("openai")

from chat_clients import client
from chat_server import KEY, error, serving

from fairtk import Generator
from fairtk.llm import (
    BudgetError,
    Ledger,
    OfflineError,
    UnansweredError,
    as_chat_model,
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


RUN = pd.DataFrame(
    {
        "qid": ["1", "1", "1", "1", "2", "2"],
        "query": ["who"] * 4 + ["what"] * 2,
        "sample": [0, 0, 1, 1, 0, 0],
        "docno": ["a", "b", "b", "a", "a", "b"],
        "text": ["apple", "bread", "bread", "apple", "apple", "bread"],
        "score": [2.0, 1.0] * 3,
    }
)


def words(prompt, count):
    return (
        f" {'who' if 'who' in prompt else 'what'} {prompt.index('apple') < prompt.index('bread')} "
    )


def test_estimate_asks_nobody(tmp_path):
    with serving(words) as server, Ledger(tmp_path / "l", prices={"toy": (1.0, 2.0)}) as ledger:
        model = client(server, max_tokens=10)
        twice = pd.concat([RUN, RUN.assign(sample=RUN["sample"] + 2)])  # the same prompts
        most = Generator(ledger.wrap(model)).estimate(twice)
        assert (most.calls, most.recorded, most.completion_tokens) == (3, 0, 30.0)
        assert most.price == pytest.approx((most.prompt_tokens + 2 * 30) / 1e6)
        assert math.isnan(Generator(model).estimate(RUN).price) and server.requests == []
    assert Generator(lambda prompts: prompts).estimate(RUN) == (0, 0, 0, 0.0, 0.0)


def test_answers_of_a_server_are_recorded_and_limited(tmp_path):
    with serving(words) as server:
        plain = Generator(client(server))(RUN)
        assert plain["qanswer"].tolist() == ["who True"] * 2 + ["who False"] * 2 + ["what True"] * 2
        assert len(server.requests) == 3
        with (
            Ledger(tmp_path / "l", max_calls=2) as ledger,
            pytest.raises(BudgetError, match="max_calls=2"),
        ):
            Generator(ledger.wrap(client(server)))(RUN)
        with Ledger(tmp_path / "l") as ledger:
            generator = Generator(ledger.wrap(client(server)))
            assert generator == Generator(client(server))
            assert generator(RUN).equals(plain) and ledger.spent.calls == 1
        assert len(server.requests) == 6
    with Ledger(tmp_path / "l", offline=True) as ledger:  # the server is gone
        assert Generator(ledger.wrap(client(server)))(RUN).equals(plain)


def test_a_call_that_fails_names_its_query_and_keeps_the_others():
    def rule(prompt, count):
        return error(500, "too odd") if "what" in prompt and count == 1 else words(prompt, count)

    with serving(rule) as server:
        generator = Generator(client(server, retries=0))
        with pytest.raises(UnansweredError, match="1 of 3.*qid '2'.*500"):
            generator(RUN)
        assert generator(RUN)["qanswer"].iloc[-1] == "what True"
        assert sorted(server.counts.values()) == [1, 1, 2]  # without a ledger, too
    with serving(lambda *_: {"body": b'{"choices": [{"message": {"content": 7}}]}'}) as server:
        assert set(Generator(client(server))(RUN)["answer_status"]) == {"unreadable"}


def test_answers_of_local_models_are_kept_by_content(tmp_path):
    pytest.importorskip("transformers")
    demo = pytest.importorskip("fairtk.demo")
    import shutil

    from fairtk.llm import HuggingFaceSeq2Seq

    def backend(folder, **options):
        return HuggingFaceSeq2Seq(str(folder), max_new_tokens=4, num_beams=1, **options)

    folder = demo.model_folder()
    plain = Generator(backend(folder))(RUN)
    with Ledger(tmp_path / "l") as ledger:
        generator = Generator(ledger.wrap(backend(folder)))
        assert generator.llm.tokenizer.model_max_length > 0  # prompts are cut to the window
        assert generator(RUN).equals(plain) and len(ledger) == 3
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    for name in ("generation_config.json",):
        (changed / name).write_text((changed / name).read_text() + "\n")
    with Ledger(tmp_path / "l", offline=True) as ledger:
        assert Generator(ledger.wrap(backend(folder, device="cpu")))(RUN).equals(plain)
        one, two = (backend(f).parameters() for f in (folder, changed))
        assert one["content"] != two["content"] and one | {"content": ""} == two | {"content": ""}
        with pytest.raises(OfflineError):
            Generator(ledger.wrap(backend(changed)))(RUN)


def test_a_function_behind_a_ledger(tmp_path):
    def shout(prompts):
        return [prompt[:3].upper() for prompt in prompts]

    with Ledger(tmp_path / "l") as ledger:
        found = Generator(ledger.wrap(shout))(RUN)
        assert found.equals(Generator(shout)(RUN)) and len(ledger) == 3
        assert Generator(as_chat_model(shout))(RUN).equals(found)


def test_a_prompt_that_is_too_long_is_named(tmp_path):
    def short(prompts):
        return ["ERROR::reduce_length" if "what" in prompt else "x" for prompt in prompts]

    for llm in (short, Ledger(tmp_path / "l").wrap(short)):
        with pytest.raises(UnansweredError, match="qid '2'.*too long"):
            Generator(llm)(RUN)
