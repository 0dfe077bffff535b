"""Failures that can pass and failures that cannot: what is requested again, what ends the work."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from chat_clients import chats, client
from chat_server import KEY, error, serving

pytest.importorskip("openai")

from fairtk.llm import Chat, Completion, Failure, Ledger, LLMError, Message


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def refusal(status, message, code=None, kind=None):
    body = json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()
    return {"status": status, "body": body}


TOO_LONG = refusal(400, "maximum context length is 4096", "context_length_exceeded")
REFUSALS = {
    "too long": TOO_LONG,
    "filtered": refusal(400, "The response was filtered", "content_filter"),
    "too large": refusal(413, "Request Entity Too Large"),
    "not processable": refusal(422, "could not process the prompt"),
    # a prompt that mentions what refusals of all calls mention
    "repeated": refusal(400, f"cannot read: 'the model was not found, {'x' * 50}'"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_prompt_is_requested_once_whatever_its_neighbors_do(tmp_path, name):
    def rule(prompt, count):
        return REFUSALS[name] if prompt.startswith("bad") else prompt.upper()

    prompts = ["a", "bad 1", "b", "bad 2"]
    with serving(rule) as server:
        for run in range(3):
            with Ledger(tmp_path / "l") as ledger:
                outcomes = ledger.wrap(client(server)).complete(chats(*prompts))
                assert [type(one) for one in outcomes] == [Completion, Failure] * 2
                assert not outcomes[1].can_pass and not outcomes[3].can_pass
                assert ledger.spent.calls == (2 if run == 0 else 0)
        assert set(server.counts.values()) == {1}
        with Ledger(tmp_path / "l", offline=True) as ledger:
            assert ledger.wrap(client(server)).complete(chats(*prompts)) == outcomes
        with Ledger(tmp_path / "l", retry_failed=True) as ledger:
            for _ in range(2):  # once more, not each time
                assert ledger.wrap(client(server)).complete(chats(*prompts)) == outcomes
            assert ledger.wrap(client(server)).estimate(chats(*prompts))[:2] == (0, 4)
        assert server.counts == {"a": 1, "b": 1, "bad 1": 2, "bad 2": 2}


def test_a_failure_that_passes_is_requested_again(tmp_path):
    down = {"x"}
    with serving(lambda prompt, _: error(500) if prompt in down else "ok") as server:
        for expected in (Failure, Failure, Completion):
            with Ledger(tmp_path / "l") as ledger:
                [outcome] = ledger.wrap(client(server, retries=0)).complete(chats("x"))
            assert isinstance(outcome, expected)
            if len(server.requests) == 2:
                assert outcome.can_pass
                down.clear()
        assert server.counts == {"x": 3}


def test_a_failure_that_is_fixed_is_an_answer_from_then_on(tmp_path):
    broken = {"x"}
    with serving(lambda prompt, _: TOO_LONG if prompt in broken else "ok") as server:
        for settings, expected in (({}, Failure), ({"retry_failed": True}, Completion)):
            with Ledger(tmp_path / "l", **settings) as ledger:
                [outcome] = ledger.wrap(client(server)).complete(chats("x"))
            assert isinstance(outcome, expected)
            broken.clear()
        with Ledger(tmp_path / "l") as ledger:
            [again] = ledger.wrap(client(server)).complete(chats("x"))
        assert again.text == "ok" and server.counts == {"x": 2}


def test_twenty_refused_prompts_are_twenty_calls():
    with serving(lambda prompt, count: TOO_LONG) as server:
        outcomes = client(server, retries=5).complete(chats(*map(str, range(20))))
        assert len(server.requests) == 20
        assert all(isinstance(one, Failure) and not one.can_pass for one in outcomes)


FINAL = {
    "quota": (refusal(429, "You exceeded your current quota", "insufficient_quota"), "quota"),
    "quota by type": (refusal(429, "no", None, "insufficient_quota"), "quota"),
    "payment": (refusal(402, "Insufficient Balance"), "quota"),
    "billing": (refusal(400, "no", "billing_hard_limit_reached"), "quota"),
    "key": (refusal(401, f"Incorrect API key {KEY}"), "OPENAI_API_KEY"),
    "key as 400": (refusal(400, "API key not valid. Please pass a valid one."), "OPENAI_API_KEY"),
    "model": (refusal(404, "The model `toy` does not exist"), "'toy'"),
    "model as 400": (refusal(400, "toy is not a valid model ID; no such model found"), "'toy'"),
    "model by code": (refusal(400, "no", "model_not_found"), "'toy'"),
    "model in a few words": (refusal(400, "Model Not Exist"), "'toy'"),
}


@pytest.mark.parametrize("name", FINAL)
def test_a_refusal_of_all_calls_ends_the_work_at_once(tmp_path, name):
    reply, text = FINAL[name]
    with serving(lambda prompt, count: reply if prompt != "good" else "ok") as server:
        with Ledger(tmp_path / "l") as ledger:
            llm = ledger.wrap(client(server, retries=5, concurrency=1))
            llm.complete(chats("good"))
            with pytest.raises(LLMError, match=text) as caught:
                llm.complete(chats("x", "y", "z"))
        assert server.counts == {"good": 1, "x": 1}  # one attempt
    # what is stored, and where
    assert str(tmp_path / "l") in str(caught.value) and "1 answers" in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", [n for n in FINAL if not n.startswith("model")])
def test_without_a_key_a_refusal_names_no_variable(name):
    with (
        serving(lambda prompt, count: FINAL[name][0]) as server,
        pytest.raises(LLMError, match=server.url) as caught,
    ):
        client(server, api_key_env=None).complete(chats("x"))
    assert "None" not in str(caught.value) and "OPENAI" not in str(caught.value)


def test_a_rate_limit_is_not_a_quota():
    def rule(prompt, count):
        limit = refusal(429, "Rate limit reached for model toy", "rate_limit_exceeded")
        return limit if count == 1 else "ok"

    with serving(rule) as server:
        [outcome] = client(server).complete(chats("x"))
        assert outcome.text == "ok" and server.counts == {"x": 2}


NO_SYSTEM = {
    "vLLM": refusal(400, "System role not supported"),
    "llama.cpp": refusal(500, "Jinja Exception: System role not supported at row 1"),
    "alternate": refusal(400, "Conversation roles must alternate user/assistant/user/..."),
    "only": refusal(400, "Only user and assistant roles are supported!"),
    "o1": refusal(
        400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."
    ),
    "Gemma": refusal(400, "Developer instruction is not enabled for models/gemma-3-1b-it"),
}


@pytest.mark.parametrize("name", NO_SYSTEM)
def test_a_system_message_goes_into_the_first_message_of_the_user(tmp_path, name):
    def rule(prompt, count, body):
        has_system = any(m["role"] == "system" for m in body["messages"])
        return NO_SYSTEM[name] if has_system else f"<{prompt}>"

    chat = Chat((Message("system", "Be brief."), Message("user", "Who?")))
    plain = Chat((Message("user", "Who?"),))
    with serving(rule) as server, Ledger(tmp_path / "l") as ledger:
        llm = ledger.wrap(client(server, concurrency=1))
        for _ in range(2):
            answers = llm.complete([chat, plain])
            assert [one.text for one in answers] == ["<Be brief.\n\nWho?>", "<Who?>"]
        sent = [body["messages"] for _, body, _ in server.requests]
        assert sent == [
            [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}],
            [{"role": "user", "content": "Be brief.\n\nWho?"}],
            [{"role": "user", "content": "Who?"}],
        ]
        # under the key of the chat as it was given
        assert ledger.store.get([llm.key(chat)])[llm.key(chat)].text == "<Be brief.\n\nWho?>"
        assert ledger.spent.calls == 2
        # it is remembered for later calls
        llm.complete([Chat((Message("system", "Be brief."), Message("user", "When?")))])
        assert len(server.requests) == 4
    with closing(sqlite3.connect(tmp_path / "l")) as database:
        rows = database.execute("SELECT prompt, parameters FROM answers").fetchall()
    sent = {len(json.loads(prompt)): json.loads(settings).get("sent") for prompt, settings in rows}
    assert len(rows) == 3 and sent == {1: None, 2: "merged system"}  # by number of messages


def test_a_server_that_refuses_the_merged_chat_too_refuses_the_prompt():
    chat = Chat((Message("system", "s"), Message("user", "u")))
    with serving(lambda *_: NO_SYSTEM["vLLM"]) as server:
        [outcome] = client(server).complete([chat])
        assert isinstance(outcome, Failure) and not outcome.can_pass
        assert len(server.requests) == 2
