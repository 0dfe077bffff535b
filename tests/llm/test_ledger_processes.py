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
from chat_clients import chats, client
from chat_server import nobody, serving, wait_until
from ledger_files import claimed_elsewhere, lapse
from ledger_starts import ROWS, starts

pytest.importorskip("openai")

from fairtk.llm import (
    BudgetError,
    Ledger,
    LLMError,
    OpenAICompatible,
)
from fairtk.llm.budget import Most
from fairtk.llm.claims import LEASE, process_name

PROCESSES = 4


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
    outputs = [out.get(timeout=900) for _ in range(PROCESSES * times)]
    for process in processes:
        process.join()
    assert set(outputs) == {""}
    keys = [f"{i}-{row}" for i in range(PROCESSES) for row in range(ROWS)]
    for place in range(times):
        with Ledger(tmp_path / str(place)) as ledger:
            assert set(ledger.store.get(keys)) == set(keys)
    assert {path.name for path in tmp_path.iterdir()} == set(map(str, range(times)))


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

LIMITED = """
import sys
from fairtk.llm import BudgetError, Chat, Ledger, Message, OpenAICompatible
path, url, concurrency = sys.argv[1:4]
llm = OpenAICompatible("toy", url, concurrency=int(concurrency), timeout=600)
with Ledger(path, max_calls=7) as ledger:
    ledger.budget.after = 0  # they all begin at the same time
    try:
        ledger.wrap(llm).complete(Chat((Message("user", t),)) for t in "abcdefghijkl")
    except BudgetError:
        sys.exit(3)
"""


def asking(path, server, concurrency=2, script=ASKING):
    command = [sys.executable, "-c", script, str(path), server.url, str(concurrency)]
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
@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.nightly)])
def test_no_prompt_is_answered_twice_and_the_budget_holds(tmp_path, count):
    path = tmp_path / "l"
    with serving(lambda prompt, _: {"text": prompt.upper(), "sleep": 0.1}) as server:
        processes = [asking(path, server, script=LIMITED) for _ in range(count)]
        for process in processes:
            _, errors = process.communicate(timeout=600)
            assert process.returncode == 3, errors
        assert len(server.requests) == 7 and set(server.counts.values()) == {1}


@pytest.mark.slow
def test_the_calls_of_a_killed_process_are_taken_over(tmp_path):
    hold, path = threading.Event(), tmp_path / "l"

    def rule(prompt, count):
        if count == 1:
            hold.wait(600)
        return prompt.upper()

    with serving(rule) as server:
        first = asking(path, server, concurrency=3)
        wait_until(lambda: len(server.requests) == 3)
        second = asking(path, server, concurrency=20)
        wait_until(lambda: len(server.requests) == 12)  # all but what the first one asks for
        time.sleep(0.5)
        assert len(server.requests) == 12
        first.send_signal(signal.SIGKILL)
        first.communicate()
        lapse(path)
        hold.set()
        assert reported(second) == ("ABCDEFGHIJKL", 12)
        assert sorted(server.counts.values()) == [1] * 9 + [2] * 3


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_process_that_was_suspended_continues_with_the_stored_answers(tmp_path, seconds):
    """As on a laptop that is closed: its calls are made again, paid twice, and stored once."""
    hold, path = threading.Event(), tmp_path / "l"

    def rule(prompt, count):
        if count == 1 and prompt in "ab":
            hold.wait(600)
        return f"{prompt}{count}"

    with serving(rule) as server:
        asleep = asking(path, server)  # two calls at a time
        wait_until(lambda: len(server.requests) == 2)
        asleep.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        if not seconds:
            lapse(path)
        texts = "a2b2c1d1e1f1g1h1i1j1k1l1"
        assert reported(asking(path, server)) == (texts, 12)
        hold.set()
        asleep.send_signal(signal.SIGCONT)
        assert reported(asleep) == (texts, 2)
        assert server.counts == {**dict.fromkeys("abcdefghijkl", 1), "a": 2, "b": 2}
    with Ledger(path) as ledger:
        assert ledger.store.file.read("SELECT count(*) FROM payments") == [(14,)]
        assert len(ledger) == 12
        assert ledger.store.file.read("SELECT * FROM claims") == []


@pytest.mark.slow
def test_an_interrupted_process_leaves_no_claims(tmp_path):
    event = threading.Event()

    def rule(prompt, _):
        if prompt != "a":  # two calls are under way, and no other can begin
            event.wait(600)
        return prompt.upper()

    with serving(rule) as server:
        process = asking(tmp_path / "l", server)
        wait_until(lambda: len(server.requests) == 3)
        process.send_signal(signal.SIGINT)
        event.set()
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


def test_a_call_is_claimed_when_it_can_start(tmp_path):
    claims = []

    def rule(prompt, count):
        claims.extend(ledger.store.file.read("SELECT count(*) FROM claims"))
        return prompt

    with serving(rule) as server, Ledger(tmp_path / "l") as ledger:
        ledger.wrap(client(server, concurrency=1)).complete(chats(*"abc"))
        assert claims == [(1,)] * 3


def test_claims_of_a_lapsed_lease_are_free_and_others_are_waited_for(tmp_path, capsys):
    path = tmp_path / "l"
    with serving(upper) as server, Ledger(path) as ledger:
        llm = ledger.wrap(client(server))
        claimed_elsewhere(path, *map(llm.key, chats("a", "b")))
        outcomes = {}
        thread = threading.Thread(target=lambda: outcomes.update(llm.outcomes(chats(*"abc"))))
        begin = time.monotonic()
        thread.start()
        reports = []

        def is_reported():
            reports.append(capsys.readouterr().err)
            return "process 1 on elsewhere" in reports[-1]

        wait_until(is_reported)
        assert time.monotonic() - begin >= 2  # short waits are not reported
        assert "2 answers" in reports[-1] and str(path) in reports[-1]
        assert server.counts == {"c": 1} and thread.is_alive()
        lapse(path)
        thread.join()
        assert [outcomes[number].text for number in range(3)] == ["A", "B", "C"]
        assert server.counts == {"a": 1, "b": 1, "c": 1}
        [[name]] = ledger.store.file.read("SELECT name FROM owners")
        assert name == process_name()


def test_a_renewal_changes_one_row_and_none_without_claims(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        claims, file = ledger.claims, ledger.store.file

        def changes():
            """Return how many rows a renewal changes."""
            with file._use() as connection:  # the thread does not renew meanwhile
                before = connection.total_changes
                claims.renew()
                return connection.total_changes - before

        assert changes() == 0
        claims.claim({str(number): Most() for number in range(1000)})
        file.write(lambda database: database.execute("UPDATE owners SET expires = 0"))
        begin = time.time()
        assert changes() == 1
        [[expires]] = file.read("SELECT expires FROM owners")
        assert begin + LEASE <= expires <= time.time() + LEASE
        claims.release(map(str, range(1000)))
        assert changes() == 0


def test_one_thread_renews_for_all_threads_and_ledgers(tmp_path):
    with serving(lambda prompt, _: {"text": prompt, "sleep": 0.05}) as server:
        ledgers = [Ledger(tmp_path / str(number)) for number in range(3)]

        def work(number):
            ledgers[number % 3].wrap(client(server)).complete(chats("a", str(number)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [t.name for t in threading.enumerate()].count("fairtk-leases") == 1
        for ledger in ledgers:
            ledger.close()


RENEWING = """
import sys
from fairtk.llm import claims
claims.RENEWAL = 0.05
"""


@pytest.mark.slow
def test_leases_are_renewed_during_a_call(tmp_path):
    hold, path = threading.Event(), tmp_path / "l"

    def rule(prompt, count):
        hold.wait(600)
        return prompt.upper()

    with serving(rule) as server:
        process = asking(path, server, script=RENEWING + ASKING)
        wait_until(lambda: len(server.requests) == 2)
        lapse(path)
        with Ledger(path) as ledger:
            wait_until(lambda: ledger.store.file.read("SELECT expires FROM owners")[0][0] > 1)
        hold.set()
        assert reported(process) == ("ABCDEFGHIJKL", 12)


# Paying ------------------------------------------------------------------------------------------


def test_budgets_count_all_that_share_the_file(tmp_path):
    path, prices = tmp_path / "l", {"toy": (1.0, 2.0)}
    with serving(upper) as server, Ledger(path, max_calls=5) as one, Ledger(path) as other:
        other.wrap(client(server)).complete(chats("a", "b", "c"))
        with pytest.raises(BudgetError, match=r"max_calls=5 .*\(5 calls so far, 3 of them by oth"):
            one.wrap(client(server)).complete(chats(*"defg"))
        assert one.spent.calls == 2 and len(server.requests) == 5
    # a call costs 20 millionths; the other's price is known by its model's name
    with (
        serving(upper) as server,
        Ledger(path, max_cost=61e-6, prices=prices) as one,
        Ledger(path) as other,
    ):
        other.wrap(client(server)).complete(chats("u", "v"))
        with pytest.raises(BudgetError, match="4e-05 so far, 2 of them by other processes|6e-05"):
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
