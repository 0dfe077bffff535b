"""Several processes with one ledger: each answer is paid for once, whoever dies."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from chat_server import nobody, serving, wait_until
from ledger_starts import ROWS, starts

pytest.importorskip("openai")

from fairtk.errors import DataWarning
from fairtk.io import process_start
from fairtk.llm import (
    BudgetError,
    Chat,
    KeywordRefiner,
    Ledger,
    LLMError,
    Message,
    OpenAICompatible,
)
from fairtk.llm import budget as claims

PROCESSES = 4


def chats(*texts):
    return [Chat((Message("user", text),)) for text in texts]


def client(server, **options):
    return OpenAICompatible(
        "toy", server.url, **({"backoff": 0.01, "retries": 1, "timeout": 600.0} | options)
    )


def upper(prompt, count):
    return prompt.upper()


# Starting ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("times", [12, pytest.param(200, marks=pytest.mark.nightly)])
def test_four_processes_begin_one_ledger(tmp_path, times):
    context = multiprocessing.get_context("spawn")
    together, out = context.Barrier(PROCESSES), context.Queue()
    processes = [
        context.Process(target=starts, args=(i, str(tmp_path), together, out, times))
        for i in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    said = [out.get(timeout=900) for _ in range(PROCESSES * times)]
    for process in processes:
        process.join()
    assert set(said) == {""}
    keys = [f"{i}-{row}" for i in range(PROCESSES) for row in range(ROWS)]
    for place in range(times):
        with Ledger(tmp_path / str(place)) as ledger:
            assert set(ledger.store.get(keys)) == set(keys)
    names = {f"{place}{end}" for place in range(times) for end in ("", ".backup")}
    assert {path.name for path in tmp_path.iterdir()} == names  # nothing was moved aside


# Asking ------------------------------------------------------------------------------------------

ASKING = """
import sys
from fairtk.llm import Chat, Ledger, Message, OpenAICompatible
path, url, concurrency = sys.argv[1:4]
llm = OpenAICompatible("toy", url, concurrency=int(concurrency), timeout=600)
with Ledger(path) as ledger:
    found = ledger.wrap(llm).complete(Chat((Message("user", t),)) for t in "abcdefghijkl")
    print("".join(c.text for c in found), ledger.spent.calls)
"""


def asking(path, server, concurrency=2):
    command = [sys.executable, "-c", ASKING, str(path), server.url, str(concurrency)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def reported(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    text, calls = out.split()
    return text, int(calls)


@pytest.mark.slow
def test_two_processes_pay_each_prompt_once(tmp_path):
    with serving(lambda prompt, _: {"text": prompt.upper(), "sleep": 0.2}) as server:
        both = [asking(tmp_path / "l", server) for _ in range(2)]
        found = [reported(process) for process in both]
        assert [text for text, _ in found] == ["ABCDEFGHIJKL"] * 2
        assert sum(calls for _, calls in found) == 12
        assert server.counts == dict.fromkeys("abcdefghijkl", 1)


@pytest.mark.slow
def test_the_calls_of_a_killed_process_are_taken_over(tmp_path):
    hold = threading.Event()

    def rule(prompt, count):
        if count == 1:
            hold.wait(600)  # slower than any fixed time for which a claim might hold
        return prompt.upper()

    with serving(rule) as server:
        first = asking(tmp_path / "l", server, concurrency=3)
        wait_until(lambda: len(server.requests) == 3)
        second = asking(tmp_path / "l", server, concurrency=20)
        wait_until(lambda: len(server.requests) == 12)  # all but what the first one asks for
        time.sleep(0.5)
        assert len(server.requests) == 12
        first.send_signal(signal.SIGKILL)
        first.communicate()
        hold.set()
        assert reported(second) == ("ABCDEFGHIJKL", 12)
        assert sorted(server.counts.values()) == [1] * 9 + [2] * 3


def test_an_interrupted_process_leaves_no_claims(tmp_path):
    told = threading.Event()

    def rule(prompt, _):
        if prompt != "a":  # two calls are under way, and no other can begin
            told.wait(600)
        return prompt.upper()

    with serving(rule) as server:
        process = asking(tmp_path / "l", server)
        wait_until(lambda: len(server.requests) == 3)
        process.send_signal(signal.SIGINT)
        told.set()
        _, err = process.communicate(timeout=600)
        assert process.returncode != 0 and "KeyboardInterrupt" in err
        with closing(sqlite3.connect(tmp_path / "l")) as database:
            assert database.execute("SELECT * FROM claims").fetchall() == []
        assert reported(asking(tmp_path / "l", server))[0] == "ABCDEFGHIJKL"


def test_an_error_leaves_no_claims(tmp_path):
    with nobody() as url, Ledger(tmp_path / "l") as ledger:
        with pytest.raises(LLMError):
            ledger.wrap(OpenAICompatible("toy", url, retries=0)).complete(chats(*"abcdefgh"))
        assert ledger.store.file.read("SELECT * FROM claims") == []


def test_whoever_stops_reading_leaves_no_claims(tmp_path):
    with serving(upper) as server, Ledger(tmp_path / "l") as ledger:
        outcomes = ledger.wrap(client(server, concurrency=2)).outcomes(chats(*"abcdef"))
        next(outcomes)
        outcomes.close()
        assert ledger.store.file.read("SELECT * FROM claims") == []


def claimed(path, owner, beat):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM claims")
        llm = KeywordRefiner({"a": ["b"]})
        with Ledger(path) as ledger:
            key = ledger.wrap(llm).key(refinement())
        database.execute("INSERT INTO claims VALUES (?,?,?,?)", (key, owner, 0.0, beat))


def refinement():
    return Chat((Message("user", "x"),), {"keywords": "q", "group": ("a",)})


def test_claims_of_the_dead_are_worth_nothing_and_of_the_living_all(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "SILENCE", 6000.0)  # the machine may stand still meanwhile
    mine, now = claims.new_owner(), time.time()
    host, pid, start, _ = mine.rsplit("|", 3)
    assert claims.is_alive(mine, beat=0.0)  # a slow call gives no sign for long
    assert not claims.is_alive(f"{host}|{pid}|{int(start) - 1}|x", now)  # another process's number
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        place = f"{host}|{child.pid}|{process_start(child.pid)}|x"
        assert claims.is_alive(place, 0.0)
        child.kill()
        wait_until(lambda: not claims.is_alive(place, now))  # a zombie is dead, too
    # of another host nothing but the last sign of life is known
    assert claims.is_alive("elsewhere|1|1|x", now - 3000)
    assert not claims.is_alive("elsewhere|1|1|x", now - 9000)
    Ledger(tmp_path / "l").close()
    claimed(tmp_path / "l", "elsewhere|1|1|x", now - 9000)
    with Ledger(tmp_path / "l") as ledger:
        [found] = ledger.wrap(KeywordRefiner({"a": ["b"]})).complete([refinement()])
        assert found.text == '["q", "b"]'


def test_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr("fairtk.llm.budget.BEAT", 0.05)
    hold = threading.Event()

    def rule(prompt, count):
        hold.wait(600)
        return "A"

    with serving(rule) as server:
        ledger = Ledger(tmp_path / "l")
        asked = threading.Thread(target=lambda: ledger.wrap(client(server)).complete(chats("a")))
        asked.start()
        wait_until(lambda: ledger.store.file.read("SELECT * FROM claims"))
        [[first]] = ledger.store.file.read("SELECT beat FROM claims")
        wait_until(lambda: ledger.store.file.read("SELECT beat FROM claims") != [(first,)])
        assert len(ledger.store.file.read("SELECT beat FROM claims")) == 1
        hold.set()
        asked.join()
        ledger.close()


def test_a_process_that_stands_still_is_named(tmp_path, monkeypatch):
    Ledger(tmp_path / "l").close()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        host = claims.new_owner().rsplit("|", 3)[0]
        claimed(tmp_path / "l", f"{host}|{child.pid}|{process_start(child.pid)}|x", 0.0)
        monkeypatch.setattr("fairtk.llm.ledger._STANDSTILL", 0.1)
        warn = claims.Claims.warn_of_standstill

        def warn_and_kill(self, keys):
            warn(self, keys)
            child.kill()

        monkeypatch.setattr(claims.Claims, "warn_of_standstill", warn_and_kill)
        with (
            Ledger(tmp_path / "l") as ledger,
            pytest.warns(DataWarning, match=f"process {child.pid} on .* asked for, which does not"),
        ):
            [found] = ledger.wrap(KeywordRefiner({"a": ["b"]})).complete([refinement()])
        assert found.text == '["q", "b"]'  # taken over when it was dead


# Paying ------------------------------------------------------------------------------------------


def test_budgets_count_all_that_share_the_file(tmp_path):
    path, prices = tmp_path / "l", {"toy": (1.0, 2.0)}
    with serving(upper) as server, Ledger(path, max_calls=5) as one, Ledger(path) as other:
        other.wrap(client(server)).complete(chats("a", "b", "c"))
        with pytest.raises(
            BudgetError, match=r"max_calls=5 .*\(5 calls are paid, 3 of them by oth"
        ):
            one.wrap(client(server)).complete(chats(*"defg"))
        assert one.spent.calls == 2 and len(server.requests) == 5
    # a call costs 20 millionths; the other's price is known by its model's name
    with (
        serving(upper) as server,
        Ledger(path, max_cost=61e-6, prices=prices) as one,
        Ledger(path) as other,
    ):
        other.wrap(client(server)).complete(chats("u", "v"))
        with pytest.raises(BudgetError, match="4e-05 is paid, 2 of them by other processes|6e-05"):
            one.wrap(client(server, max_tokens=5)).complete(chats(*"wxyz"))
        assert one.spent.calls == 1


def test_a_budget_waits_for_the_calls_of_others(tmp_path):
    path = tmp_path / "l"
    hold = threading.Event()

    def rule(prompt, count):
        if prompt == "slow":
            hold.wait(600)
            return {"status": 400, "body": b"{}"}  # it costs nothing in the end
        return prompt.upper()

    with serving(rule) as server, Ledger(path) as other, Ledger(path, max_calls=1) as one:
        thread = threading.Thread(target=lambda: other.wrap(client(server)).complete(chats("slow")))
        thread.start()
        wait_until(lambda: len(server.requests) == 1)
        threading.Timer(0.3, hold.set).start()
        assert one.wrap(client(server)).complete(chats("a"))[0].text == "A"
        assert hold.is_set()
        thread.join()


def test_a_ledger_travels_with_its_budget(tmp_path):
    with serving(upper) as server, Ledger(tmp_path / "l", max_calls=3) as ledger:
        llm = ledger.wrap(client(server))
        llm.complete(chats("a", "b"))
        there = pickle.loads(pickle.dumps(llm))  # as to a worker
        assert there == llm and there.ledger.path == ledger.path
        assert there.complete(chats("a", "c"))[1].text == "C"
        with pytest.raises(BudgetError, match="max_calls=3"):
            llm.complete(chats("d"))
        there.ledger.close()
    assert os.path.exists(tmp_path / "l")
