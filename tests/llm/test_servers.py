"""Several servers, what they let through, base models, and many calls at a time."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import signal
import sys
import threading
import time
import warnings

import pytest
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
from fairtk.llm.servers import Allowance, Servers, addresses, duration


def chats(*texts):
    return [Chat((Message("system", "s"), Message("user", text))) for text in texts]


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
        found = client(urls, concurrency=4).complete(chats(*map(str, range(40))))
    assert all(isinstance(one, Completion) for one in found)
    # at most two of four calls are at the slow one, which answers when no call is left
    assert len(fast.requests) + len(other.requests) == 40
    assert 1 <= len(other.requests) <= 2


def test_one_call_at_a_time_goes_to_the_servers_in_turn():
    with two(lambda prompt, _: prompt) as (one, other, urls):
        client(urls, concurrency=1).complete(chats(*"abcdef"))
    assert len(one.requests) == len(other.requests) == 3


def test_a_server_that_dies_half_way_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "REST", 3000.0)
    count = iter(range(10_000))

    def dying(prompt, _):
        return {"drop": True} if next(count) >= 15 else {"text": prompt, "sleep": 0.01}

    asked = chats(*map(str, range(200)))
    with (
        two(lambda prompt, _: {"text": prompt, "sleep": 0.01}, dying) as (_, other, urls),
        Ledger(tmp_path / "ledger", max_calls=200) as ledger,
    ):
        found = ledger.wrap(client(urls, concurrency=16)).complete(asked)
        assert ledger.spent.calls == len(ledger) == 200
    assert [one.text for one in found] == [str(number) for number in range(200)]
    # 15 answers, and at most 16 calls that were under way
    assert len(other.requests) <= 15 + 16


def test_a_server_that_was_left_out_is_tried_again(monkeypatch):
    monkeypatch.setattr(states, "REST", 0.01)

    def ill(prompt, _):
        return {"drop": True} if len(other.requests) <= 3 else {"text": prompt, "sleep": 0.01}

    def asked():  # until it has its share again
        for number in itertools.takewhile(lambda _: len(other.requests) < 30, range(100_000)):
            yield from chats(str(number))

    with two(lambda prompt, _: {"text": prompt, "sleep": 0.01}, ill) as (_, other, urls):
        found = dict(client(urls, concurrency=4).outcomes(asked()))
    assert all(isinstance(one, Completion) for one in found.values())
    assert len(other.requests) >= 30


def test_a_server_that_is_not_there_costs_no_answer():
    with serving(lambda prompt, _: prompt) as server, nobody() as gone:
        found = client([gone, server.url], retries=0).complete(chats(*"abcdefgh"))
    assert [one.text for one in found] == list("abcdefgh")


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
        (error(404, "no toy here"), "does not know the model 'toy'.*no toy here"),
        (error(307, Location="http://h/"), "redirects calls to http://h/"),
    ],
)
def test_one_server_that_refuses_all_is_left_out_with_a_warning(reply, reason, monkeypatch):
    monkeypatch.setattr(states, "LONGEST_REST", 3000.0)

    def good(prompt, _):
        wait_until(lambda: llm._servers.states[1].refused)
        return prompt

    with two(good, lambda *_: reply) as (_, other, urls):
        llm = client(urls)
        with pytest.warns(DataWarning, match=f"{other.url}.*the other servers go on") as told:
            found = llm.complete(chats(*map(str, range(40))))
        assert [one.text for one in found] == list(map(str, range(40)))
        assert len(other.requests) == len(told) == 1
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
        with pytest.raises(LLMError, match=f"{other.url} does not know the model 'toy'.*'tiny'"):
            client(urls).check()
        other.models = ["toy", "more"]
        client(urls).check()
        one.version, other.version = "0.9.1", "0.9.2"
        with pytest.warns(DataWarning, match="0.*9.*1.*0.*9.*2"):
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
        with pytest.warns(DataWarning, match=f"{other.url} refuses max_tokens"):
            found = llm.complete(chats(*"abcdefgh"))
        assert [answer.text for answer in found] == list("abcdefgh")
        assert all("max_tokens" in body for _, body, _ in one.requests)
        assert "max_completion_tokens" in llm.body(chats("a")[0])  # as a batch sends it


def test_addresses():
    assert addresses(None) == ["https://api.openai.com/v1"]
    assert addresses("http://a/v1, http://b/v1") == addresses(("http://a/v1", "http://b/v1"))
    many = client("http://a/v1,http://b/v1")
    assert many == client("http://a/v1") and many.url == "http://a/v1, http://b/v1"
    assert many.at_temperature(0.9)._servers is many._servers
    for wrong, message in (
        (["http://a", "http://a/"], "has the address http://a/ twice"),
        (["http://a", 3], "must be a text, the address of a server, or a list.*3"),
        (3, "must be a text"),
        ("http://a,", "begins with http"),
    ):
        with pytest.raises(ParameterError, match=message):
            client(wrong)


# Rate limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("20ms", 0.02),
        ("2000000010", 10.0),  # since 1970, at 2,000,000,000
        ("-3", 0.0),
        ("", None),
        ("1.2.3s", None),
        ("1s and more", None),
        ("nan", None),
    ],
)
def test_durations(text, seconds):
    assert duration(text, now=2e9) == (None if seconds is None else pytest.approx(seconds))


def test_an_allowance_counts_what_was_sent_after_the_call_that_tells_of_it():
    limit = Allowance()
    calls = [limit.send(1) for _ in range(5)]
    assert limit.wait(1, 0.0) == 0.0  # nobody has said anything
    limit.told(calls[1], 6, 8, 10.0, now=0.0)  # after the second 6 were left: 3 were sent since
    assert [limit.wait(n, 4.0) for n in (1, 3, 4)] == [0.0, 0.0, 6.0]
    limit.told(calls[0], 7, 8, 9.0, now=1.0)  # is older, though it came later
    assert limit.wait(4, 4.0) == 6.0
    limit.told(calls[4], 0, 8, 10.0, now=2.0)
    assert limit.wait(1, 4.0) == 8.0
    # then 8 are there again, for as long
    assert limit.wait(8, 12.0) == 0.0 and limit.wait(9, 12.0) == 10.0


def test_a_call_larger_than_the_limit_goes_when_all_is_there_again():
    limit = Allowance()
    limit.told(limit.send(5), 0, 8, 10.0, now=0.0)
    assert limit.wait(20, 1.0) == 9.0 and limit.wait(20, 10.0) == 0.0


def test_a_limit_that_is_not_told_is_found_out():
    limit = Allowance()
    limit.told(limit.send(1), 0, None, 10.0, now=0.0)
    assert limit.wait(1, 4.0) == 6.0
    assert limit.wait(1, 10.0) == 0.0 and limit.wait(2, 10.0) == 10.0  # one call asks for the rest
    limit.told(limit.send(1), 50, None, 10.0, now=11.0)
    assert limit.wait(50, 12.0) == 0.0 and limit.wait(51, 12.0) == 9.0


def test_no_more_calls_than_the_headers_say_are_left():
    times, lock = [], threading.Lock()

    def rule(prompt, _):
        with lock:
            left = 9 - len(times) % 10
            times.append(time.monotonic())
        headers = {
            "x-ratelimit-limit-requests": "10",
            "x-ratelimit-remaining-requests": str(left),
            "x-ratelimit-reset-requests": "300ms",
        }
        return {"text": prompt, "headers": headers}

    with serving(rule) as server:
        found = client(server.url, concurrency=32).complete(chats(*map(str, range(35))))
    assert all(isinstance(one, Completion) for one in found)
    assert len(server.requests) == 35
    # ten in 300 ms, from the first answer on; however late a call arrives, it was not sent before
    assert all(moment - times[0] >= 0.29 * (n // 10) for n, moment in enumerate(times))


def test_tokens_that_are_left_count_too():
    headers = {"x-ratelimit-remaining-tokens": "30", "x-ratelimit-reset-tokens": "300ms"}
    times = []

    def rule(prompt, _):
        times.append(time.monotonic())
        return {"text": prompt, "headers": headers}

    with serving(rule) as server:
        client(server.url, max_tokens=100).complete(chats("a", "b", "c"))
    # one in 300 ms, as above
    assert all(moment - times[0] >= 0.29 * n for n, moment in enumerate(times))


def test_a_wait_that_one_call_is_asked_for_is_met_by_all():
    times = []

    def rule(prompt, _):
        times.append(time.monotonic())
        busy = len(times) == 4
        return error(429, "busy", **{"retry-after-ms": "400"}) if busy else prompt

    with serving(rule) as server:
        found = client(server.url, concurrency=1).complete(chats(*"abcdefgh"))
    assert [one.text for one in found] == list("abcdefgh")
    assert times[4] - times[3] >= 0.4

    with two(rule) as (one, other, urls):
        times.clear()
        client(urls, concurrency=1).complete(chats(*"abcdefgh"))
        # the other one takes what the first would have to wait for
        assert one.counts["d"] == other.counts["d"] == 1
        assert len(one.requests) + len(other.requests) == 9


def test_one_server_is_taken_while_the_other_is_closed():
    both = Servers(["http://a", "http://b"])
    first, second = both.states
    assert both.next(1) is first
    first.close(100)
    assert [both.next(1) for _ in range(2)] == [second, second]
    second.close(115)
    assert both.next(1) is first and 1 < first.wait(1) <= 100


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
    [waiting] = [n for n, line in enumerate(lines, first) if "arrived.get(timeout=" in line]

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
    monkeypatch.setattr(server_module, "GRACE", 300.0)
    press, noticed = ctrl_c

    def rule(prompt, count):
        if int(prompt) >= 5 and count == 1:
            if prompt == "5":  # four are under way
                wait_until(lambda: server.running == 4)
                press()
            noticed.wait(300)
        return prompt

    asked = chats(*map(str, range(20)))
    with serving(rule) as server, Ledger(tmp_path / "ledger") as ledger:
        llm = ledger.wrap(client(server.url, concurrency=4))
        with pytest.raises(KeyboardInterrupt):
            llm.complete(asked)
        assert len(server.requests) == len(ledger) == 9
        assert [one.text for one in llm.complete(asked)] == list(map(str, range(20)))
        assert len(server.requests) == 20  # each once


def test_ctrl_c_does_not_wait_for_long(ctrl_c, monkeypatch):
    monkeypatch.setattr(server_module, "GRACE", 0.2)
    press, _ = ctrl_c
    over = threading.Event()

    def rule(prompt, count):
        if prompt != "0":
            wait_until(lambda: server.running == 2)
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
        [chat] = chats("Once")
        [found] = ledger.wrap(llm).complete([chat])
        assert found.text == "s\n\nOnce .." and found.completion_tokens == 5
        [(_, body, _)] = server.requests
        assert (
            body
            == llm.body(chat)
            == {
                "model": "toy",
                "prompt": "s\n\nOnce",
                "temperature": 0.3,
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


# In the ledger ----------------------------------------------------------------------------------


def test_the_ledger_has_the_servers_with_version_and_models(tmp_path, monkeypatch):
    moments = map("2000-01-01T00:00:{:02}".format, range(60))
    monkeypatch.setattr(states, "now", lambda: next(moments))
    with two(lambda prompt, _: prompt) as (one, other, urls):
        one.models, one.version, other.models = ["toy", "b"], "0.9.1", ["toy"]
        with Ledger(tmp_path / "l") as ledger:
            assert ledger.servers == []
            ledger.wrap(client(urls, concurrency=1)).complete(chats(*"abcd"))
            rows = ledger.servers
        assert [(r["url"], r["version"], r["models"]) for r in rows] == [
            (one.url, "0.9.1", ["b", "toy"]),
            (other.url, "", ["toy"]),
        ] and all(row["seen"] for row in rows)
        one.version = "0.9.2"
        with Ledger(tmp_path / "l") as ledger:
            ledger.wrap(client(one.url)).complete(chats("e"))
            assert [r["version"] for r in ledger.servers] == ["0.9.1", "", "0.9.2"]
    with Ledger(tmp_path / "l", offline=True) as ledger:
        assert len(ledger.servers) == 3


def test_512_at_once_ask_each_prompt_once_and_keep_the_budget(tmp_path):
    together = threading.Barrier(512, timeout=600)
    count = iter(range(10_000))

    def rule(prompt, _):
        if 1 <= next(count) <= 512:  # after the first, which is alone
            together.wait()
        return prompt

    asked = chats(*map(str, range(700)))
    with serving(rule) as server, Ledger(tmp_path / "l", max_calls=600) as ledger:
        llm = ledger.wrap(client(server.url, concurrency=512))
        with pytest.raises(BudgetError, match="max_calls=600"):
            llm.complete(asked)
        assert ledger.spent.calls == len(ledger) == len(server.requests) == 600
        assert server.most_running == 512
    with serving(rule) as server, Ledger(tmp_path / "l") as ledger:
        found = ledger.wrap(client(server.url, concurrency=512)).complete(asked)
        assert [one.text for one in found] == [str(number) for number in range(700)]
        assert len(server.requests) == 100
