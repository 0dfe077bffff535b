"""The OpenAI-compatible model against a real server on this machine."""

from __future__ import annotations

import asyncio
import gzip
import pickle
import re
import threading
import time
import tracemalloc
import warnings
import zlib
from email.utils import formatdate

import pytest
from chat_clients import chats, client
from chat_server import KEY, error, nobody, serving

pytest.importorskip("openai")

from fairtk.errors import DataWarning, ParameterError
from fairtk.llm import (
    Completion,
    Failure,
    Ledger,
    LLMError,
    OpenAICompatible,
)
from fairtk.llm.replies import parse_retry_after, without_keys
from fairtk.llm.server import OPENAI_URL, ServerState, backoff


def test_answers_in_order_with_tokens_and_time():
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
    assert body["temperature"] == 0 and body["max_tokens"] == 256 and body["model"] == "toy"
    assert "seed" not in body
    assert headers["Authorization"] == f"Bearer {KEY}"


def http_date(seconds):
    """Return the date so many seconds from now, as ``Retry-After`` has it: without fractions."""
    return formatdate(time.time() + seconds, usegmt=True)


FAULTS = {
    "429 in seconds": lambda: error(429, "slow down", **{"Retry-After": "0.3"}),
    "429 with a date": lambda: error(429, "slow down", **{"Retry-After": http_date(2)}),
    "500": lambda: error(500),
    "truncated": lambda: {"body": b'{"choices": [{"mess'},
    "no choices": lambda: {"body": b'{"choices": []}'},
    "dropped": lambda: {"drop": True},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_tried_again(fault):
    with serving(lambda _, count: FAULTS[fault]() if count == 1 else "ok") as server:
        begin = time.perf_counter()
        [outcome] = client(server).complete(chats(fault))
        seconds = time.perf_counter() - begin
    assert isinstance(outcome, Completion) and outcome.text == "ok"
    assert server.counts == {fault: 2}
    if fault.startswith("429"):
        assert seconds >= (0.3 if fault == "429 in seconds" else 1.0)


def test_a_slow_attempt_is_tried_again():
    second = threading.Event()

    def rule(prompt, count):
        if count > 1:
            second.set()
        second.wait(300)
        return str(count)

    with serving(rule) as server:
        [outcome] = client(server, timeout=0.5, retries=500).complete(chats("x"))
    assert isinstance(outcome, Completion) and int(outcome.text) > 1


def test_retry_after_holds_for_all_calls():
    times = []

    def rule(prompt, _):
        times.append(time.monotonic())
        return error(429, "busy", **{"Retry-After": "0.4"}) if len(times) == 4 else prompt

    with serving(rule) as server:
        outcomes = client(server, concurrency=1).complete(chats(*"abc", "d"))
        assert [one.text for one in outcomes] == list("abcd")
        assert times[4] - times[3] >= 0.4
        llm = client(server)
        llm._server.close_for(0.4)
        begin = time.monotonic()
        llm.complete(chats("e", "f"))
        assert min(times[5:]) - begin >= 0.39


def test_five_failed_calls_in_a_row_end_the_work():
    with serving(lambda prompt, _: prompt if prompt == "fine" else error(500, "boom")) as server:
        llm = client(server, retries=1, concurrency=1)
        outcomes = []
        with pytest.raises(LLMError, match=f"5 failed calls in a row to {server.url}.*boom"):
            for _, outcome in llm.outcomes(chats(*"abcd", "fine", *"efghijkl")):
                outcomes.append(outcome)
        assert [type(one) for one in outcomes] == [Failure] * 4 + [Completion] + [Failure] * 4
        assert set(server.counts) == {*"abcdefghi", "fine"}
        assert isinstance(llm.complete(chats("a"))[0], Failure)  # counted from 0 again


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
            assert len(server.requests) == 1 and caught.value.__suppress_context__
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
    monkeypatch.setenv("OPENAI_API_KEY", "sk-42…")
    with pytest.raises(ParameterError, match="'OPENAI_API_KEY'"):
        OpenAICompatible("toy").complete(chats("x"))
    with serving(lambda *_: "ok") as server:
        assert client(server, api_key_env=None).complete(chats("x"))[0].text == "ok"


def test_dead_server_is_named():
    with nobody() as url:
        [found] = OpenAICompatible("toy", url, retries=1, backoff=0.01).complete(chats("x"))
    assert isinstance(found, Failure)
    assert f"no connection to {url} (ConnectError) (2 attempts)" in found.reason


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://me:secret@h/v1"},
        {"base_url": "http://h/v1?key=1"},
        {"base_url": 3},
        {"base_url": "h/v1"},
        {"temperature": -1},
        {"timeout": float("nan")},
        {"concurrency": 0},
        {"max_tokens": 1.5},
        {"model": " "},
        {"max_completion_tokens": 0},
        {"reasoning_effort": 3},
        {"extra_body": [1]},
        {"extra_body": {"x": float("nan")}},
        {"extra_body": {"model": "other"}},
        {"endpoint": "responses"},
        {"endpoint": "completions", "max_completion_tokens": 9},
        {"endpoint": "completions", "reasoning_effort": "low"},
    ],
)
def test_bad_settings(options):
    with pytest.raises(ParameterError, match=rf"\b{[*options][-1]}\b") as caught:
        OpenAICompatible(**({"model": "toy"} | options))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("base_url", [["http://a/v1", "http://b/v1"], "http://a/v1,http://b/v1"])
def test_several_addresses_are_refused_in_favor_of_a_proxy(base_url):
    with pytest.raises(ParameterError, match="base_url .* proxy"):
        OpenAICompatible("toy", base_url)


def test_settings_and_equality():
    one = OpenAICompatible("toy", "http://h/v1")
    assert one == OpenAICompatible("toy", "http://other/v1") != OpenAICompatible("toy", seed=1)
    warmer = one.at_temperature(0.9)
    assert warmer.temperature == 0.9 and warmer.base_url == "http://h/v1" and one != warmer
    assert "http://h/v1" in repr(one) and hash(one) == hash(OpenAICompatible("toy"))
    assert warmer._server is one._server is warmer.numbered(2)._server
    assert OpenAICompatible("toy").url == OPENAI_URL
    assert OpenAICompatible("toy", " http://h/v1 ").url == "http://h/v1"


def test_a_server_that_asks_for_too_long_a_wait_gets_no_more_calls():
    busy = error(429, "busy", **{"Retry-After": "200"})
    with serving(lambda *_: busy) as server:
        llm = client(server, concurrency=1)
        begin = time.monotonic()
        with pytest.raises(LLMError, match=f"{server.url} requires a wait of 200 s"):
            llm.complete(chats(*map(str, range(9))))
        assert len(server.requests) == 1 and time.monotonic() - begin < 100
        assert llm._server == ServerState()  # the next run tries again
        llm._server.close_for(100)
        assert pickle.loads(pickle.dumps(llm))._server == ServerState()


def test_waits():
    waits = [backoff(0.5, n) for n in range(1, 10)]
    full = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert all(0.5 * most <= wait <= most for wait, most in zip(waits, full, strict=True))
    assert parse_retry_after({"retry-after": "2.5"}) == 2.5
    assert 50 < parse_retry_after({"retry-after": http_date(60)}) <= 60
    assert parse_retry_after({"retry-after": http_date(-60)}) == 0.0
    for odd in ("soon", "nan", "inf", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", ""):
        assert parse_retry_after({"retry-after": odd}) is None


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
        with pytest.warns(DataWarning, match="'toy'") as records:
            found = ledger.wrap(llm).complete(chats("a", "b", "c"))
        assert len(records) == 1
        assert [c.text for c in found] == ["a ok", "b ok", "c ok"]
        last = {k: v for k, v in server.requests[-1][1].items() if k not in ("model", "messages")}
        assert last == {"max_completion_tokens": 256, "temperature": 0.0, "seed": 7}
        n_requests = len(server.requests)
        assert 3 + 1 <= n_requests <= 3 + 3  # calls that start together are refused together
        assert len(ledger) == ledger.spent.calls == 3
        # what was asked for stays what the model is, and what the ledger knows
        assert llm.parameters() == client(server, seed=7).parameters()
        for limit in ({}, {"max_completion_tokens": 256}, {"max_tokens": 256}):
            again = ledger.wrap(client(server, seed=7, **limit))
            assert again.complete(chats("a", "b", "c")) == found
            assert again.estimate(chats("a", "d"))[:2] == (1, 1)
        assert len(server.requests) == n_requests


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
def test_another_parameter_that_a_server_refuses_ends_the_work(name, reply, python):
    rule = strict((name if name != "extra_body" else "top_k", reply))
    if name == "max_tokens":
        rule = strict(("max_tokens", error(400, NAMED)), ("max_completion_tokens", reply))
    with serving(rule) as server:
        llm = client(server, seed=7, reasoning_effort="low", extra_body={"top_k": 3})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            with pytest.raises(LLMError, match=re.escape(python)) as caught:
                llm.complete(chats(*"abcdefgh"))
    none = "" if name == "reasoning_effort" else "none"  # which is a word for an effort
    assert f'("{none}" in a TOML file and for `--set`)' in str(caught.value)
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
                client(server, concurrency=1).complete(chats(*"abc"))
            assert server.url in str(caught.value) and place in str(caught.value)
            server.models = reply
            with pytest.raises(LLMError, match=f"to {place}, status"):
                client(server).check()
        assert other.requests == [] and len(server.requests) == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
@pytest.mark.parametrize("status", [200, 500])
def test_a_response_larger_than_max_bytes_is_not_read(encoding, status):
    body = b" " * 30_000_000
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[encoding]
    reply = {"status": status, "body": pack(body), "headers": {"Content-Encoding": encoding}}
    with serving(lambda *_: reply) as server:
        llm = client(server, max_bytes=1_000_000)
        llm.complete(chats("warm"))
        tracemalloc.start()
        [outcome] = llm.complete(chats("x"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert isinstance(outcome, Failure) and "max_bytes=1000000" in outcome.reason
    assert peak < 10_000_000 and server.counts["x"] == 1
    assert server.requests[0][2]["Accept-Encoding"] == "identity"


def test_a_compressed_answer_is_read():
    body = b'{"choices": [{"message": {"content": "fine"}}]}'
    reply = {"body": gzip.compress(body), "headers": {"Content-Encoding": "gzip"}}
    with serving(lambda *_: reply) as server:
        assert client(server).complete(chats("x"))[0].text == "fine"


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
        with pytest.raises(LLMError):
            for outcome in client(server).outcomes(chats(*"bcda")):
                outcomes.append(outcome)
        assert server.counts == dict.fromkeys("abcd", 1)  # nobody waited, and tried again
    assert all("stopped while waiting" in one.reason for _, one in outcomes)
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
