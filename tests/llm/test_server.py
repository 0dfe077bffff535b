"""The OpenAI-compatible backend against a real server on this machine."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import threading
import time
import tracemalloc
import warnings
import zlib

import pytest
from chat_server import KEY, error, nobody, serving

pytest.importorskip("openai")

from fairtk.errors import DataWarning, ParameterError
from fairtk.llm import (
    Chat,
    Completion,
    Failure,
    Ledger,
    LLMError,
    Message,
    OpenAICompatible,
    servers,
)
from fairtk.llm import server as calls
from fairtk.llm.replies import without_keys
from fairtk.llm.servers import backoff, retry_after
from fairtk.studies.frame import with_nothing


def chats(*texts):
    return [Chat((Message("system", "s"), Message("user", text))) for text in texts]


def client(server, **options):
    return OpenAICompatible("toy", server.url, **({"backoff": 0.01, "timeout": 300.0} | options))


def test_answers_in_order_with_tokens_and_time(monkeypatch):
    monkeypatch.setattr(calls, "HEAD_START", 0.0)
    together, held = threading.Barrier(4, timeout=300), {}

    def rule(prompt, _):
        begin = time.perf_counter()
        together.wait()  # for as long as there are not four calls at a time
        held[prompt] = time.perf_counter() - begin
        return prompt.upper()

    with serving(rule) as server:
        found = client(server, concurrency=4).complete(chats(*"abcdefgh"))
    assert [c.text for c in found] == list("ABCDEFGH")
    # the seconds hold the whole answer: more than the server kept the call
    assert all(isinstance(c, Completion) and c.seconds > held[c.text.lower()] for c in found)
    assert {(c.prompt_tokens, c.completion_tokens, c.finish) for c in found} == {(10, 5, "stop")}
    assert server.most_running == 4
    _, body, headers = server.requests[0]
    assert body["temperature"] == 0.3 and body["max_tokens"] == 256 and body["model"] == "toy"
    assert "seed" not in body
    assert headers["Authorization"] == f"Bearer {KEY}"


def faulty(prompt, count):
    if count == 1:
        return {
            "429": error(429, "slow down", **{"Retry-After": "0.3"}),
            "500": error(500),
            "truncated": {"body": b'{"choices": [{"mess'},
            "empty": {"body": b'{"choices": []}'},
            "dropped": {"drop": True},
        }[prompt]
    return f"{prompt} ok"


@pytest.mark.parametrize("fault", ["429", "500", "truncated", "empty", "dropped"])
def test_faults_are_tried_again(fault):
    with serving(faulty) as server:
        begin = time.perf_counter()
        [found] = client(server).complete(chats(fault))
        took = time.perf_counter() - begin
    assert isinstance(found, Completion) and found.text == f"{fault} ok"
    assert server.counts == {fault: 2}
    if fault == "429":
        assert took >= 0.3  # Retry-After is met


def test_a_call_that_takes_too_long_is_tried_again(monkeypatch):
    given_up = threading.Event()

    def patience(self, timeout, attempt):
        if attempt:
            given_up.set()
        return timeout if attempt else 0.3

    def rule(prompt, _):
        late = not given_up.is_set()
        given_up.wait(300)
        return "too late" if late else "in time"

    monkeypatch.setattr(servers.ServerState, "patience", patience)
    with serving(rule) as server:
        [found] = client(server).complete(chats("x"))
    assert isinstance(found, Completion) and found.text == "in time"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (error(500, "boom"), "status 500: boom .*3 attempts"),
        (error(429, "full", **{"Retry-After": "3600"}), "status 429: full$"),
        ({"body": b"<html>"}, "not a chat completion"),
        (error(400, "bad prompt"), "status 400: bad prompt$"),
        ({"drop": True}, "no connection"),
    ],
)
def test_what_fails_finally_is_a_failure_and_not_an_answer(reply, reason):
    with serving(lambda prompt, _: "fine" if prompt == "good" else reply) as server:
        good, bad = client(server, retries=2).complete(chats("good", "bad"))
    assert good.text == "fine"
    assert isinstance(bad, Failure)
    assert re.search(reason, bad.reason), bad.reason


def test_refusal_and_cut_off():
    def rule(prompt, _):
        return {"refusal": "I can't."} if prompt == "r" else {"text": "a, b", "finish": "length"}

    with serving(rule) as server:
        refusal, cut = client(server).complete(chats("r", "c"))
    assert (refusal.text, refusal.finish) == ("I can't.", "refusal")
    assert (cut.text, cut.finish) == ("a, b", "length")


def test_key_stands_nowhere(monkeypatch):
    for status in (401, 403):
        with serving(lambda *_, s=status: error(s, f"Incorrect API key: {KEY}")) as server:
            with pytest.raises(LLMError, match=f"status {status}") as caught:
                client(server).complete(chats("x"))
            assert len(server.requests) == 1
            assert "'OPENAI_API_KEY'" in str(caught.value)
        assert KEY not in str(caught.value) + repr(client(server)) + str(client(server).settings())
    monkeypatch.setenv("OPENAI_API_KEY", "plain secret word")
    with serving(lambda *_: error(400, "your key plain secret word and sk-abcdef***x")) as server:
        [failure] = client(server).complete(chats("x"))
    assert "secret" not in failure.reason and "abcdef" not in failure.reason


def test_unknown_model_ends_the_work_after_what_runs():
    def rule(prompt, _):
        return error(404, "The model `toy` does not exist") if prompt == "a" else "late"

    with serving(rule) as server:
        seen = []
        with pytest.raises(LLMError, match="'toy'"):
            for place, outcome in client(server, concurrency=2).outcomes(chats(*"abcdefgh")):
                seen.append((place, outcome))
    assert len(server.requests) <= 4


def test_key_is_needed_or_not(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ParameterError, match="'OPENAI_API_KEY'"):
        OpenAICompatible("toy").complete(chats("x"))
    with serving(lambda *_: "ok") as server:
        assert client(server, api_key_env=None).complete(chats("x"))[0].text == "ok"


def test_dead_server_is_named():
    with nobody() as url:
        [found] = OpenAICompatible("toy", url, retries=1, backoff=0.01).complete(chats("x"))
    assert isinstance(found, Failure) and f"no connection to {url} (2 attempts)" in found.reason


@pytest.fixture
def silent():
    """A server that never says a word: the system takes connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


# where the machine stands still the time to connect may be over first
NOTHING_CAME = r"(no answer within [\d.]+ s|no connection to \S+)"


def attempts(model):
    """Return how many there were, whether or not a server has seen them."""
    return sum(state.sent for state in model._servers.states)


def test_calls_that_lag_behind_the_last_failure_do_not_begin_anew(silent, monkeypatch):
    monkeypatch.setattr(servers, "SILENCE", 0.3)  # the first attempts take longer
    monkeypatch.setattr(servers, "PROBE", 0.1)
    monkeypatch.setattr(calls, "HEAD_START", 0.0)
    model = OpenAICompatible("toy", silent, timeout=0.4, concurrency=8, backoff=0.01)
    with pytest.raises(LLMError, match=f"5 calls in a row to {silent} failed"):
        model.complete(chats(*"abcdefgh"))
    assert 5 <= attempts(model) <= 8  # fewer where the last are not begun yet at the failure


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_server_that_never_says_a_word_costs_its_silence_once(silent, monkeypatch, concurrency):
    monkeypatch.setattr(servers, "SILENCE", 0.6)
    monkeypatch.setattr(servers, "PROBE", 0.1)
    model = OpenAICompatible("toy", silent, timeout=0.4, concurrency=concurrency, backoff=0.01)
    outcomes = []
    with pytest.raises(LLMError, match=f"5 calls in a row to {silent} failed.*{NOTHING_CAME}"):
        for _, outcome in model.outcomes(chats(*"abcdefgh")):
            outcomes.append(outcome)
    assert all(isinstance(outcome, Failure) for outcome in outcomes)
    # a call has .4 s and what is left of .6 s; then four calls have .1 s, or eight share the .6 s
    # (without a bound 6 + 4 * 2 attempts, or 8 * 6)
    assert attempts(model) <= (2 + 4 if concurrency == 1 else 8 * 2)
    # whoever asks again begins anew
    begin = attempts(model)
    with pytest.raises(LLMError):
        model.complete(chats(*"abcdefgh"))
    assert attempts(model) - begin >= 5


def test_a_server_that_has_answered_is_tried_again_for_long(monkeypatch):
    monkeypatch.setattr(servers, "SILENCE", 0.001)
    over = threading.Event()

    def rule(prompt, _):
        if prompt == "bad":
            over.wait(300)
        return "fine"

    with serving(rule) as server:
        model = client(server)
        [good] = model.complete(chats("good"))
        hasty = client(server, timeout=0.4, retries=2)
        hasty._servers = model._servers
        [bad] = hasty.complete(chats("bad"))
        over.set()
    assert good.text == "fine" and re.search(rf"{NOTHING_CAME} \(3 attempts\)$", bad.reason)
    assert attempts(model) == 1 + 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "http://me:secret@h/v1"}, "must not carry"),
        ({"base_url": "http://h/v1?key=1"}, "must not carry"),
        ({"temperature": -1}, "temperature"),
        ({"timeout": float("nan")}, "timeout"),
        ({"concurrency": 0}, "concurrency"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"model": " "}, "model"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"extra_body": [1]}, "extra_body"),
        ({"extra_body": {"x": float("nan")}}, "extra_body"),
        ({"extra_body": {"model": "other"}}, "'model'"),
        ({"endpoint": "responses"}, "'responses'"),
        ({"endpoint": "completions", "max_completion_tokens": 9}, "takes max_tokens"),
        ({"endpoint": "completions", "reasoning_effort": "low"}, "takes max_tokens"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ParameterError, match=message) as caught:
        OpenAICompatible(**({"model": "toy"} | options))
    assert "secret" not in str(caught.value)


def test_settings_and_equality():
    one = OpenAICompatible("toy", "http://h/v1")
    assert one == OpenAICompatible("toy", "http://other/v1") != OpenAICompatible("toy", seed=1)
    warmer = one.at_temperature(0.9)
    assert warmer.temperature == 0.9 and warmer.base_url == "http://h/v1" and one != warmer
    assert "http://h/v1" in repr(one) and hash(one) == hash(OpenAICompatible("toy"))


def test_waits():
    rng = random.Random(1)
    waits = [backoff(0.5, i, None, rng, 4.0) for i in range(6)]
    # 0.5, 1, 2, 4, 4, 4 times a factor in [0.5, 1]
    assert all(0.5 * w <= f <= w for w, f in zip([0.5, 1, 2, 4, 4, 4], waits, strict=True))
    assert 3.0 <= backoff(0.5, 0, 3.0, rng) <= 3.1
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=20.0) == 40.0
    assert retry_after({"retry-after": "soon"}) is None is retry_after({})
    for odd in (
        "nan",
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "1 Jan 2030 0:0 +" + "9" * 20,
    ):
        assert retry_after({"retry-after": odd}) is None


def test_short_keys_would_hide_words():
    assert without_keys("a cat sat", "cat") == "a cat sat"
    assert without_keys("a cats sat", " cats ") == "a <hidden> sat"


NAMED = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
VALUE = "'temperature' does not support 0.3 with this model. Only the default (1) is supported."
EXTRA = b'{"detail": [{"loc": ["body", "%s"], "msg": "Extra inputs are not permitted"}]}'


def strict(*refused):
    """Return a server's rule that refuses parameters, one after another, as servers do."""

    def rule(prompt, _, body):
        for name, reply in refused:
            if name in body:
                return reply
        return f"{prompt} ok"

    return rule


def test_a_limit_is_sent_by_its_other_name_where_a_server_asks_for_that(tmp_path):
    rule = strict(("max_tokens", error(400, NAMED)))
    with serving(rule) as server, Ledger(tmp_path / "ledger") as ledger:
        llm = client(server, seed=7)
        with pytest.warns(DataWarning, match="'toy'") as told:
            found = ledger.wrap(llm).complete(chats("a", "b", "c"))
        assert len(told) == 1
        assert [c.text for c in found] == ["a ok", "b ok", "c ok"]
        last = {k: v for k, v in server.requests[-1][1].items() if k not in ("model", "messages")}
        assert last == {"max_completion_tokens": 256, "temperature": 0.3, "seed": 7}
        assert len(server.requests) == 3 + 1
        assert len(ledger) == ledger.spent.calls == 3
        # what was asked for stays what the model is, and what the ledger knows
        assert llm.parameters() == client(server, seed=7).parameters()
        for limit in ({}, {"max_completion_tokens": 256}, {"max_tokens": 256}):
            again = ledger.wrap(client(server, seed=7, **limit))
            assert again.complete(chats("a", "b", "c")) == found
            assert again.estimate(chats("a", "d"))[:2] == (1, 1)
        assert len(server.requests) == 3 + 1


@pytest.mark.parametrize(
    ("name", "reply", "python"),
    [
        ("temperature", error(400, VALUE), "temperature=None ("),
        (
            "max_tokens",
            {"status": 422, "body": EXTRA % b"max_completion_tokens"},
            "max_tokens=None",
        ),
        (
            "reasoning_effort",
            error(400, "reasoning_effort is not supported"),
            "effort=None (",
        ),
        ("extra_body", error(400, "Unrecognized request argument: top_k"), "extra_body=None ("),
    ],
)
def test_what_else_a_server_refuses_ends_the_work_before_a_second_call(name, reply, python):
    rule = strict((name if name != "extra_body" else "top_k", reply))
    if name == "max_tokens":
        rule = strict(("max_tokens", error(400, NAMED)), ("max_completion_tokens", reply))
    with serving(rule) as server:
        llm = client(server, seed=7, reasoning_effort="low", extra_body={"top_k": 3})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            with pytest.raises(LLMError, match=re.escape(python)) as caught:
                llm.complete(chats(*"abcdefgh"))
        assert set(server.counts) == {"a"}
    none = "" if name == "reasoning_effort" else "none"  # which is a word for an effort
    assert f'("{none}" in a TOML file and for `--set`)' in str(caught.value)
    assert with_nothing({name: none}) == {name: None}
    without = client(server, **{"seed": 7, "reasoning_effort": "low", name: None})
    assert name not in without.parameters() or without.parameters()[name] is None


def test_options_decide_what_is_sent():
    with serving(lambda prompt, _: "ok") as server:
        client(
            server,
            temperature=None,
            max_completion_tokens=9,
            reasoning_effort="low",
            extra_body={"top_p": 0.5},
        ).complete(chats("a"))
        plain = client(server, temperature=None, max_tokens=None)
        assert plain.at_temperature(0.3) is plain
        plain.complete(chats("a"))
    bodies = [
        {k: v for k, v in body.items() if k not in ("model", "messages")}
        for _, body, _ in server.requests
    ]
    assert bodies == [{"max_completion_tokens": 9, "reasoning_effort": "low", "top_p": 0.5}, {}]


# Hostile servers ----------------------------------------------------------------------------------


def test_redirects_are_refused_and_both_addresses_named():
    with serving(lambda *_: "a page") as other:
        place = f"{other.url}/chat/completions"
        reply = {"status": 307, "body": b"", "headers": {"Location": place}}
        with serving(lambda *_: reply) as server:
            with pytest.raises(LLMError, match="status 307") as caught:
                client(server).complete(chats(*"abc"))
            assert server.url in str(caught.value) and place in str(caught.value)
            server.models = reply
            with pytest.raises(LLMError, match=f"redirects calls to {place}"):
                client(server).check()
        assert other.requests == [] and len(server.requests) == 1


@pytest.mark.parametrize("encoding", ["deflate", "identity"])
def test_an_answer_has_a_size(encoding):
    body = b" " * 30_000_000
    raw = body if encoding == "identity" else zlib.compress(body)
    reply = {"body": raw, "headers": {"Content-Encoding": encoding}}
    with serving(lambda *_: reply) as server:
        llm = client(server, max_bytes=1_000_000)
        llm.complete(chats("warm"))
        tracemalloc.start()
        [found] = llm.complete(chats("x"))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "it has more than max_bytes=1000000 bytes" in found.reason
    assert most < 10_000_000 and server.counts["x"] == 1
    assert server.requests[0][2]["Accept-Encoding"] == "identity"


def test_a_key_gets_into_no_ledger(tmp_path, monkeypatch):
    with serving(lambda *_: f"your key is {KEY}, and {KEY}!") as server:
        with (
            Ledger(tmp_path / "l") as ledger,
            pytest.warns(DataWarning, match="'OPENAI_API_KEY'"),
        ):
            [found] = ledger.wrap(client(server)).complete(chats("x"))
        assert found.text == "your key is <hidden>, and <hidden>!"
        for path in tmp_path.iterdir():
            assert KEY.encode() not in path.read_bytes()
    for dummy in ("EMPTY", "none", "fifteen-letters"):
        monkeypatch.setenv("OPENAI_API_KEY", dummy)
        with serving(lambda *_, d=dummy: f"it is {d}") as server:
            assert client(server).complete(chats("x"))[0].text == f"it is {dummy}"


def test_what_is_wrong_is_said_before_the_first_query(tmp_path, monkeypatch):
    with serving(lambda *_: "yes") as server, Ledger(tmp_path / "l") as ledger:
        llm = ledger.wrap(client(server))
        for models in (None, ["toy"], ["toy:latest", "b"], [], {"body": b"{}"}, {"body": b"[3]"}):
            server.models = models
            llm.check()
        server.models = ["tod", "else"]
        with pytest.raises(LLMError, match="'toy'.*'tod'.*'tod'"):
            llm.check()
        server.models = error(401)
        with pytest.raises(LLMError):
            llm.check()
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(ParameterError, match="'OPENAI_API_KEY'"):
            llm.check()
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        llm.complete(chats("x"))
        monkeypatch.delenv("OPENAI_API_KEY")
        llm.check()  # there are answers of this model, which may be all that is needed
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with nobody() as url, pytest.raises(LLMError, match=f"no connection to {url}"):
        OpenAICompatible("toy", url).check()


def test_calls_work_where_a_loop_runs_already():
    async def cell():
        return client(server).complete(chats("a"))

    with serving(lambda prompt, _: prompt.upper()) as server:
        assert asyncio.run(cell())[0].text == "A"


def test_waits_end_with_the_work():
    together = threading.Barrier(4, timeout=300)

    def rule(prompt, count):
        if count == 1:
            together.wait()
        return error(404) if prompt == "a" else error(500, **{"Retry-After": "60"})

    outcomes = []
    with serving(rule) as server:
        llm = client(server)
        llm._servers.states[0].heard = True  # so that all begin at once
        with pytest.raises(LLMError):
            for outcome in llm.outcomes(chats(*"bcda")):
                outcomes.append(outcome)
        assert server.counts == dict.fromkeys("abcd", 1)  # nobody waited, and tried again
    assert all("stopped while waiting to try again" in one.reason for _, one in outcomes)
    assert sorted(place for place, _ in outcomes) == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("this model does not support temperature", "temperature"),
        ("temperature must lie between 0 and 0.2", "temperature"),
        ("Invalid 'seed': must be a whole number", "seed"),
        ("seed: unknown field", "seed"),
        ("invalid prompt: a story about a seed that only grew", None),
        ("the temperature of the Arctic must not be asked for", None),
        ("the prompt on 'temperature' was flagged", None),
        # the value is wrong, and the parameter is taken
        ("'max_tokens' is too large: 256 must be below 128", None),
    ],
)
def test_words_of_a_prompt_are_no_parameters(text, refused):
    with serving(lambda *_: error(400, text)) as server:
        llm = client(server, seed=7, extra_body={"top_p": 0.5})
        if refused is None:
            assert isinstance(llm.complete(chats("a"))[0], Failure)
            assert len(server.requests) == 1
        else:
            with pytest.raises(LLMError, match=f"refuses {refused} for"):
                llm.complete(chats("a"))
