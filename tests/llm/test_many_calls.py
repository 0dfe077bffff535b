"""Ctrl-C, base models, and many calls at a time."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading

import pytest
from chat_clients import chats
from chat_server import serving, wait_until

pytest.importorskip("openai")

from fairtk import stage_context
from fairtk.llm import (
    BudgetError,
    Chat,
    Ledger,
    Message,
    OpenAICompatible,
)
from fairtk.llm import server as server_module


def client(url, **options):
    options = {"backoff": 0.01, "timeout": 600.0, "retries": 3} | options
    return OpenAICompatible("toy", url, **options)


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


def test_ctrl_c_while_answers_are_stored_loses_none(tmp_path):
    presses = iter([signal.raise_signal])  # once, before the first answers are stored

    def arrived(outcomes):
        for press in presses:
            press(signal.SIGINT)

    with serving(lambda prompt, count: prompt) as server, Ledger(tmp_path / "ledger") as ledger:
        llm = ledger.wrap(client(server.url, concurrency=4))
        with stage_context.changed(on_answers=arrived), pytest.raises(KeyboardInterrupt):
            llm.complete(chats(*map(str, range(20))))
        assert 0 < len(server.requests) == len(ledger) < 20
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


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
    together, extra = threading.Barrier(n, timeout=600), n // 8
    count = iter(range(10_000))

    def rule(prompt, _):
        if next(count) < n:
            together.wait()
        return prompt

    prompts = chats(*map(str, range(n + 2 * extra)))
    with serving(rule) as server, Ledger(tmp_path / "l", max_calls=n + extra) as ledger:
        llm = ledger.wrap(client(server.url, concurrency=n))
        with pytest.raises(BudgetError, match=f"max_calls={n + extra}"):
            llm.complete(prompts)
        assert ledger.spent.calls == len(ledger) == len(server.requests) == n + extra
        assert server.most_running == n
    with serving(lambda prompt, _: prompt) as server, Ledger(tmp_path / "l") as ledger:
        answers = ledger.wrap(client(server.url, concurrency=n)).complete(prompts)
        assert [one.text for one in answers] == list(map(str, range(n + 2 * extra)))
        assert len(server.requests) == extra
