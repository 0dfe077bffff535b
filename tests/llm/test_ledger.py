"""The ledger: nothing is paid twice, nothing is lost, budgets are kept."""

from __future__ import annotations

import math
import threading
import time

import pytest
from chat_clients import chats, client
from chat_server import KEY, error, serving

pytest.importorskip("openai")

from fairtk.errors import FormatError, ParameterError
from fairtk.llm import (
    BudgetError,
    Chat,
    ChatModel,
    Completion,
    Failure,
    Ledger,
    LLMError,
    Message,
    OfflineError,
)


def upper(prompt, count):
    return prompt.upper()


def test_equal_calls_are_paid_once(tmp_path):
    path = tmp_path / "answers.sqlite"
    with serving(upper) as server:
        with Ledger(path) as ledger:
            found = ledger.wrap(client(server)).complete(chats("a", "b", "a"))
            assert [c.text for c in found] == ["A", "B", "A"]
            assert ledger.spent.calls == 2 and math.isnan(ledger.spent.price)
        with Ledger(path) as ledger:
            again = ledger.wrap(client(server)).complete(chats("b", "a", "c"))
            assert [c.text for c in again] == ["B", "A", "C"]
            assert again[0] == found[1]  # tokens and seconds, too
            # another temperature, limit, model or prompt is another call
            warmer = ledger.wrap(client(server)).at_temperature(1.0)
            assert warmer.complete(chats("a"))[0].text == "A"
            assert len(ledger) == 4
        assert server.counts == {"a": 2, "b": 1, "c": 1}
    with Ledger(path, offline=True) as ledger:  # the server is gone
        llm = ledger.wrap(client(server))
        assert [c.text for c in llm.complete(chats("c", "a"))] == ["C", "A"]
        with pytest.raises(OfflineError, match="'toy'.*'d'"):
            llm.complete(chats("a", "d"))
    assert KEY.encode() not in path.read_bytes()


def test_equal_calls_at_the_same_time_are_paid_once(tmp_path):
    path = tmp_path / "answers.sqlite"
    with serving(lambda prompt, _: {"text": prompt.upper(), "sleep": 0.1}) as server:
        ledgers = [Ledger(path) for _ in range(2)]
        texts = [chr(97 + i) for i in range(6)]
        found = {}

        def work(i):
            order = texts if i % 2 else texts[::-1]
            answers = ledgers[i % 2].wrap(client(server)).complete(chats(*order))
            found[i] = {t: c.text for t, c in zip(order, answers, strict=True)}

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.counts == dict.fromkeys(texts, 1)
        assert all(found[i] == {t: t.upper() for t in texts} for i in range(4))
        for ledger in ledgers:
            ledger.close()


def test_failures_are_not_recorded(tmp_path):
    def rule(prompt, count):
        return error(500) if prompt == "b" and count <= 2 else prompt.upper()

    with serving(rule) as server, Ledger(tmp_path / "l") as ledger:
        llm = ledger.wrap(client(server))
        a, b = llm.complete(chats("a", "b"))
        assert a.text == "A" and isinstance(b, Failure) and len(ledger) == 1
        assert ledger.store.file.read("SELECT * FROM claims") == []
        assert [c.text for c in llm.complete(chats("a", "b"))] == ["A", "B"]
        assert server.counts == {"a": 1, "b": 3}


def test_budget_in_calls_stops_and_resumes(tmp_path):
    path = tmp_path / "l"
    with serving(upper) as server:
        for run in range(2):
            with Ledger(path, max_calls=3) as ledger, pytest.raises(BudgetError) as caught:
                ledger.wrap(client(server)).complete(chats(*"abcdefgh"))
            assert "max_calls=3 is reached" in str(caught.value)
            assert len(server.requests) == 3 * (run + 1)
        with Ledger(path, max_calls=3) as ledger:
            found = ledger.wrap(client(server)).complete(chats(*"abcdefgh"))
        assert "".join(c.text for c in found) == "ABCDEFGH"
        assert len(server.requests) == 8


def test_budget_in_money(tmp_path):
    prices = {"toy": (1.0, 2.0)}
    with serving(upper) as server:
        llm = client(server, max_tokens=5, concurrency=3)
        # a call costs 10 * 1 + 5 * 2 = 20 millionths; before it, (1 + 4) * 1 + 5 * 2 = 15
        with Ledger(tmp_path / "l", max_cost=61e-6, prices=prices) as ledger:
            with pytest.raises(BudgetError, match="max_cost=6.*05"):
                ledger.wrap(llm).complete(chats(*"abcdefgh"))
            assert ledger.spent.price <= 61e-6 + 2 * 5e-6  # what estimates were too low by
            assert ledger.spent.calls == len(server.requests) >= 3


def test_money_that_running_calls_did_not_cost_is_there_for_the_next(tmp_path):
    prices = {"toy": (1.0, 2.0)}
    with serving(upper) as server:
        llm = client(server, max_tokens=1000, concurrency=8)
        # one call may cost (1 + 4) * 1 + 1000 * 2 = 2005 millionths, and costs 20: two at a time
        # fit into 4100, of which eight calls take 160
        with Ledger(tmp_path / "l", max_cost=4100e-6, prices=prices) as ledger:
            found = ledger.wrap(llm).complete(chats(*"abcdefgh"))
            assert "".join(c.text for c in found) == "ABCDEFGH"
            assert ledger.spent.price == pytest.approx(160e-6) and len(server.requests) == 8
        # after 60 paid, 2005 more do not fit into 2060: the message says what was paid by then
        with Ledger(tmp_path / "m", max_cost=2060e-6, prices=prices) as ledger:
            with pytest.raises(BudgetError, match="05"):
                ledger.wrap(llm).complete(chats(*"abcdefgh"))
            assert ledger.spent.calls == 3


def test_calls_that_run_when_the_budget_ends_are_counted_in_the_message(tmp_path):
    def slow(prompt, count):
        time.sleep(0.05)
        return prompt.upper()

    with serving(slow) as server, Ledger(tmp_path / "l", max_calls=3) as ledger:
        llm = ledger.wrap(client(server, concurrency=8))
        with pytest.raises(BudgetError, match=r"max_calls=3 is reached \(3 calls so far\)"):
            llm.complete(chats(*"abcdefgh"))


def test_estimate_calls_nobody(tmp_path):
    with serving(upper) as server:
        with Ledger(tmp_path / "l", prices={"toy": (1e6, 1e6)}) as ledger:
            llm = ledger.wrap(client(server, max_tokens=10))
            llm.complete(chats("a"))
            # two distinct calls left: 5 tokens each by length (1 of 4 characters, 4 of the form)
            found = llm.estimate(chats("a", "bbbb", "c", "c"))
            assert found == (2, 1, 10, 20.0, 30.0)
        assert len(server.requests) == 1
        with Ledger(tmp_path / "l") as ledger:
            unknown = ledger.wrap(client(server, max_tokens=10)).estimate(chats("b"))
            assert unknown.calls == 1 and math.isnan(unknown.price)


def test_prices_from_a_file(tmp_path):
    table = tmp_path / "prices.tsv"
    table.write_text("model\tprompt\tcompletion\ntoy\t3\t4\n")
    with serving(upper) as server, Ledger(tmp_path / "l", prices=table) as ledger:
        ledger.wrap(client(server)).complete(chats("a"))
        assert ledger.spent.price == pytest.approx((10 * 3 + 5 * 4) / 1e6)
    table.write_text("model\tprompt\tcompletion\ntoy\tcheap\t4\n")
    with pytest.raises(FormatError, match="got 'cheap'"):
        Ledger(tmp_path / "l", prices=table)
    with pytest.raises(ParameterError):
        Ledger(tmp_path / "l", prices={"toy": (-1.0, 1.0)})


def test_settings_out_of_range(tmp_path):
    with pytest.raises(ParameterError, match="max_calls"):
        Ledger(tmp_path / "l", max_calls="3")
    for pair in ((1,), 5, ("a", "b")):
        with pytest.raises(ParameterError, match="'m'"):
            Ledger(tmp_path / "l", prices={"m": pair})


def test_wrong_key_leaves_the_ledger_usable(tmp_path):
    with serving(lambda p, c: error(401) if c == 1 else p) as server, Ledger(tmp_path / "l") as one:
        llm = one.wrap(client(server, concurrency=1))
        with pytest.raises(LLMError):
            llm.complete(chats("a"))
        assert llm.complete(chats("a"))[0].text == "a" and one.spent.calls == 1


def test_a_full_disk_is_an_error_before_the_next_paid_call(tmp_path):
    with serving(lambda *_: "x" * 100_000) as server, Ledger(tmp_path / "l") as ledger:
        [[pages]] = ledger.store.file.read("PRAGMA page_count")
        ledger.store.file.read(f"PRAGMA max_page_count = {pages + 60}")  # two answers
        with pytest.raises(FormatError, match=r"/l.*full"):
            ledger.wrap(client(server, concurrency=1)).complete(chats(*"abcdef"))
        assert len(server.requests) == 3 and len(ledger) == 2


def test_a_budget_without_counts_says_why_it_ends(tmp_path):
    class Silent(ChatModel):
        name = "silent"

        def parameters(self):
            return {"max_tokens": 100}

        def outcomes(self, chats):
            for place, _ in enumerate(chats):
                yield place, Completion("x")  # a server that does not say what was used

    # 100 tokens at 10 per million are 0.001 for each call, whatever it took
    with Ledger(tmp_path / "l", max_cost=0.0025, prices={"silent": (0.0, 10.0)}) as ledger:
        calls = [Chat((Message("user", str(number)),)) for number in range(5)]
        with pytest.raises(BudgetError):
            ledger.wrap(Silent()).complete(calls)
        assert len(ledger) == 2 and ledger.spent.price == pytest.approx(0.002)
