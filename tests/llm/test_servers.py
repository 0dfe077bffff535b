"""Several servers, Ctrl-C, base models, and many calls at a time."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import pickle
import signal
import sys
import threading
import time
import warnings

import pytest
from chat_clients import chats
from chat_server import error, nobody, serving, wait_until

pytest.importorskip("openai")

from fairtk.errors import DataWarning, ParameterError
from fairtk.llm import (
    BudgetError,
    Chat,
    Completion,
    Ledger,
    LLMError,
    Message,
    OpenAICompatible,
)
from fairtk.llm import server as server_module
from fairtk.llm import servers as states
from fairtk.llm.servers import Servers, parse_base_url


def client(urls, **options):
    options = {"backoff": 0.01, "timeout": 600.0, "retries": 3} | options
    return OpenAICompatible("toy", urls, **options)


@contextlib.contextmanager
def two(first, second=None):
    with serving(first) as one, serving(second or first) as other:
        yield one, other, [one.url, other.url]


# Several servers --------------------------------------------------------------------------------


def test_calls_go_to_the_least_loaded():
    def slow(*_):
        wait_until(lambda: len(fast.requests) + len(other.requests) == 40)
        return "slow"

    with two(lambda *_: "fast", slow) as (fast, other, urls):
        answers = client(urls, concurrency=4).complete(chats(*map(str, range(40))))
    assert all(isinstance(one, Completion) for one in answers)
    # at most two of four calls are at the slow one, which answers when no call is left
    assert len(fast.requests) + len(other.requests) == 40
    assert 1 <= len(other.requests) <= 2


def test_one_call_at_a_time_goes_to_the_servers_in_turn():
    with two(lambda prompt, _: prompt) as (one, other, urls):
        client(urls, concurrency=1).complete(chats(*"abcdef"))
    assert len(one.requests) == len(other.requests) == 3


def test_a_server_that_dies_half_way_is_left_out(tmp_path, monkeypatch):
    for name in ("FIRST_PAUSE", "MAX_PAUSE"):
        monkeypatch.setattr(states, name, 3000.0)
    count = iter(range(10_000))

    def dying(prompt, _):
        return {"drop": True} if next(count) >= 15 else {"text": prompt, "sleep": 0.01}

    prompts = chats(*map(str, range(200)))
    with (
        two(lambda prompt, _: {"text": prompt, "sleep": 0.01}, dying) as (_, other, urls),
        Ledger(tmp_path / "ledger", max_calls=200) as ledger,
    ):
        answers = ledger.wrap(client(urls, concurrency=16)).complete(prompts)
        assert ledger.spent.calls == len(ledger) == 200
    assert [one.text for one in answers] == [str(number) for number in range(200)]
    # 15 answers, and at most 16 calls that were under way
    assert len(other.requests) <= 15 + 16


def test_a_server_that_was_left_out_is_tried_again(monkeypatch):
    monkeypatch.setattr(states, "FIRST_PAUSE", 0.01)

    def ill(prompt, _):
        return {"drop": True} if len(other.requests) <= 3 else {"text": prompt, "sleep": 0.01}

    def asked():  # until it has its share again
        for number in itertools.takewhile(lambda _: len(other.requests) < 30, range(100_000)):
            yield from chats(str(number))

    with two(lambda prompt, _: {"text": prompt, "sleep": 0.01}, ill) as (_, other, urls):
        answers = dict(client(urls, concurrency=4).outcomes(asked()))
    assert all(isinstance(one, Completion) for one in answers.values())
    assert len(other.requests) >= 30


def test_a_server_that_is_not_there_costs_no_answer():
    with serving(lambda prompt, _: prompt) as server, nobody() as gone:
        answers = client([gone, server.url], retries=0).complete(chats(*"abcdefgh"))
    assert [one.text for one in answers] == list("abcdefgh")


def test_all_servers_have_to_be_dead_to_end_all():
    with nobody() as one, nobody() as other:
        llm = client([one, other], retries=1, concurrency=2)
        with pytest.raises(LLMError) as caught:
            llm.complete(chats(*"abcdefghijkl"))
    assert all(url in str(caught.value) for url in (one, other))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (error(401), "refuses the key"),
        (error(404, "no toy here"), "unknown model 'toy'.*no toy here"),
        (error(307, Location="http://h/"), "redirect .* to http://h/"),
    ],
)
def test_one_server_that_refuses_all_is_left_out_with_a_warning(reply, reason):

    def good(prompt, _):
        wait_until(lambda: llm._servers.states[1].refused)
        return prompt

    with two(good, lambda *_: reply) as (_, other, urls):
        llm = client(urls, concurrency=4)
        with pytest.warns(
            DataWarning, match=f"{other.url}.*the other servers are used instead"
        ) as records:
            outcomes = llm.complete(chats(*map(str, range(40))))
        assert [one.text for one in outcomes] == list(map(str, range(40)))
        assert len(records) == 1 and len(other.requests) <= 4  # those that started together
    with (
        two(lambda *_: reply) as (_, _, urls),
        warnings.catch_warnings(),
        pytest.raises(LLMError, match=reason),
    ):
        warnings.simplefilter("ignore", DataWarning)
        client(urls).complete(chats(*"abcdefgh"))


def test_the_check_names_the_server_without_the_model():
    with two(lambda prompt, _: prompt) as (one, other, urls):
        one.models, other.models = ["toy"], ["tiny"]
        with pytest.raises(LLMError, match=f"unknown model 'toy' at {other.url}.*'tiny'"):
            client(urls).check()
        other.models = ["toy", "more"]
        client(urls).check()
    with (
        serving(lambda prompt, _: prompt) as one,
        nobody() as gone,
        pytest.raises(LLMError, match=f"no connection to {gone}"),
    ):
        client([one.url, gone]).check()


def test_a_limit_has_its_other_name_only_where_that_is_asked_for():
    def strict(prompt, _, body):
        refused = "Unsupported parameter: 'max_tokens' is not supported with this model."
        return error(400, refused) if "max_tokens" in body else prompt

    with two(lambda prompt, _: prompt, strict) as (one, other, urls):
        llm = client(urls)
        with pytest.warns(DataWarning, match=f"max_tokens .* at {other.url}"):
            answers = llm.complete(chats(*"abcdefgh"))
        assert [answer.text for answer in answers] == list("abcdefgh")
        assert all("max_tokens" in body for _, body, _ in one.requests)
        assert "max_completion_tokens" in llm.body(chats("a")[0])  # as a batch sends it


def test_addresses():
    assert parse_base_url(None) == ["https://api.openai.com/v1"]
    both = ["http://a/v1", "http://b/v1"]
    assert parse_base_url("http://a/v1, http://b/v1") == parse_base_url(tuple(both)) == both
    many = client("http://a/v1,http://b/v1")
    assert many == client("http://a/v1") and many.url == "http://a/v1, http://b/v1"
    assert many.at_temperature(0.9)._servers is many._servers
    for wrong, message in (
        (["http://a", "http://a/"], "duplicate address http://a/"),
        (["http://a", 3], "base_url must be.*3"),
        (3, "base_url must be.*3"),
        ("http://a,", "begins with http"),
    ):
        with pytest.raises(ParameterError, match=message):
            client(wrong)


# Retry-After -----------------------------------------------------------------------------------


def test_the_other_server_takes_the_calls_until_retry_after_is_over():
    times = []

    def rule(prompt, _):
        times.append(time.monotonic())
        return error(429, "busy", **{"Retry-After": "60"}) if len(times) == 4 else prompt

    with two(rule) as (one, other, urls):
        begin = time.monotonic()
        client(urls, concurrency=1).complete(chats(*"abcdefgh"))
        # "d" went to the second server first
        assert one.counts["d"] == other.counts["d"] == 1
        assert len(one.requests) + len(other.requests) == 9
        assert [prompt for prompt, _, _ in other.requests] == ["b", "d"]
        assert time.monotonic() - begin < 60


def test_the_next_server():
    servers = Servers(["http://a", "http://b"])
    one, other = servers.states
    assert servers.next(()) is one and servers.next({one}) is other
    one.record_failure(retry_after=100)
    assert servers.next(()) is other and servers.next({other}) is one
    other.record_failure(retry_after=115)
    assert servers.next(()) is one and 1 < one.seconds_closed <= 100
    assert servers.next({one}) is other
    one.record_failure(retry_after=200)
    assert one.is_out and servers.next({other}) is other
    servers.reset()
    assert not one.is_out and one.seconds_closed == 0

    other.refused = True
    assert servers.next({one}) is one
    servers.reset()
    one.record_failure()
    assert not one.is_healthy and servers.next({other}) is other
    one.record_failure()
    assert one.pause == states.FIRST_PAUSE  # both failed together
    for _ in range(10):
        one.paused_until = 0.0
        assert one.is_healthy
        one.record_failure()
    assert one.pause == states.MAX_PAUSE
    one.paused_until, one.n_running = 0.0, 1
    assert not one.is_healthy  # one call at a time tries it
    servers.record_answer(one)
    assert one.is_healthy
    copy = pickle.loads(pickle.dumps(servers))
    assert [state.n_running for state in copy.states] == [0, 0]


def test_a_call_goes_on_at_the_next_server():
    with two(lambda *_: error(500), lambda prompt, _: prompt) as (one, other, urls):
        outcomes = client(urls, retries=0, concurrency=1).complete(chats(*"ab"))
    assert [outcome.text for outcome in outcomes] == ["a", "b"]
    assert one.counts == {"a": 1} and other.counts == {"a": 1, "b": 1}


@pytest.mark.parametrize("other", [error(429, **{"Retry-After": "200"}), error(500), error(401)])
def test_servers_that_ask_for_too_long_a_wait_are_given_up(other):
    asks = error(429, "busy", **{"Retry-After": "200"})
    with (
        two(lambda *_: asks, lambda *_: other) as (_, _, urls),
        warnings.catch_warnings(action="ignore"),
        pytest.raises(LLMError),
    ):
        client(urls, concurrency=1, retries=1).complete(chats(*map(str, range(9))))


@pytest.fixture
def ctrl_c(monkeypatch):
    """Return what presses Ctrl-C when the main thread waits for answers; it ends when that knows.

    The event is set by then.
    """
    noticed = threading.Event()

    def interrupted(*_):
        noticed.set()
        raise KeyboardInterrupt

    lines, first = inspect.getsourcelines(OpenAICompatible.arrivals)
    [waiting] = [n for n, line in enumerate(lines, first) if "done.get(timeout=" in line]

    def press():
        def waits():
            frame = sys._current_frames()[threading.main_thread().ident]
            return frame.f_code.co_name == "arrivals" and frame.f_lineno == waiting

        wait_until(waits)
        os.kill(os.getpid(), signal.SIGINT)
        # a signal that comes just before the main thread blocks does not wake it; the next one does
        for _ in range(300):
            if noticed.wait(1):
                break
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupted)
    yield press, noticed
    signal.signal(signal.SIGINT, before)


def test_what_is_under_way_at_ctrl_c_is_kept(tmp_path, ctrl_c, monkeypatch):
    monkeypatch.setattr(server_module, "INTERRUPT_TIMEOUT", 300.0)
    press, noticed = ctrl_c

    def rule(prompt, count):
        if int(prompt) >= 5 and count == 1:
            if prompt == "5":  # four are under way
                wait_until(lambda: "8" in server.counts)
                press()
            noticed.wait(300)
        return prompt

    prompts = chats(*map(str, range(20)))
    with serving(rule) as server, Ledger(tmp_path / "ledger") as ledger:
        llm = ledger.wrap(client(server.url, concurrency=4))
        with pytest.raises(KeyboardInterrupt):
            llm.complete(prompts)
        assert len(server.requests) == len(ledger) == 9
        assert [one.text for one in llm.complete(prompts)] == list(map(str, range(20)))
        assert len(server.requests) == 20  # each once


def test_ctrl_c_does_not_wait_for_long(ctrl_c, monkeypatch):
    monkeypatch.setattr(server_module, "INTERRUPT_TIMEOUT", 0.2)
    press, _ = ctrl_c
    over = threading.Event()

    def rule(prompt, count):
        if prompt != "0":
            wait_until(lambda: "2" in server.counts)
            if prompt == "1":
                press()
            over.wait(300)
        return prompt

    with serving(rule) as server:
        try:
            with pytest.raises(KeyboardInterrupt):
                client(server.url, concurrency=2).complete(chats(*map(str, range(9))))
            assert server.running == 2  # both still wait for their answers
        finally:
            over.set()


# Base models ------------------------------------------------------------------------------------


def test_base_models_go_on_with_a_text(tmp_path):
    with serving(lambda prompt, _: f"{prompt} ..") as server, Ledger(tmp_path / "l") as ledger:
        llm = client(server.url, endpoint="completions", extra_body={"top_k": 3})
        chat = Chat((Message("system", "s"), Message("user", "Once")))
        [answers] = ledger.wrap(llm).complete([chat])
        assert answers.text == "s\n\nOnce .." and answers.completion_tokens == 5
        [(_, body, _)] = server.requests
        assert (
            body
            == llm.body(chat)
            == {
                "model": "toy",
                "prompt": "s\n\nOnce",
                "temperature": 0.0,
                "max_tokens": 256,
                "top_k": 3,
            }
        )
        assert llm.path == "/v1/completions" and client(server.url).path == "/v1/chat/completions"
        # another call than the same chat's, which does not mention it
        talk = client(server.url, extra_body={"top_k": 3})
        assert llm.parameters() == {**talk.parameters(), "endpoint": "completions"}
        assert ledger.wrap(llm).key(chat) != ledger.wrap(talk).key(chat)
        ledger.wrap(llm).complete([chat])
        assert len(server.requests) == 1


@pytest.mark.parametrize("n", [32, pytest.param(512, marks=pytest.mark.slow)])
def test_many_at_once_ask_each_prompt_once_and_keep_the_budget(tmp_path, n):
    together, some = threading.Barrier(n, timeout=600), n // 8
    count = iter(range(10_000))

    def rule(prompt, _):
        if next(count) < n:
            together.wait()
        return prompt

    prompts = chats(*map(str, range(n + 2 * some)))
    with serving(rule) as server, Ledger(tmp_path / "l", max_calls=n + some) as ledger:
        llm = ledger.wrap(client(server.url, concurrency=n))
        with pytest.raises(BudgetError, match=f"max_calls={n + some}"):
            llm.complete(prompts)
        assert ledger.spent.calls == len(ledger) == len(server.requests) == n + some
        assert server.most_running == n
    with serving(lambda prompt, _: prompt) as server, Ledger(tmp_path / "l") as ledger:
        answers = ledger.wrap(client(server.url, concurrency=n)).complete(prompts)
        assert [one.text for one in answers] == list(map(str, range(n + 2 * some)))
        assert len(server.requests) == some
