"""`max_tokens` of a ledger: the tokens of prompts and answers, of all processes with the file."""

from __future__ import annotations

import multiprocessing
from contextlib import closing

import pytest
from chat_clients import chats, client
from chat_server import serving

pytest.importorskip("openai")

from fairtk.errors import ParameterError
from fairtk.llm import BudgetError, ChatModel, Completion, Ledger, OpenAICompatible


def upper(prompt, count):
    return prompt.upper()


def test_tokens_that_the_server_reports(tmp_path):
    path = tmp_path / "l"
    with serving(upper) as server:
        # a call may have (1 + 4) + 5 = 10 tokens, and has 10 + 5: it starts up to 50 tokens
        llm = client(server, max_tokens=5, concurrency=1)
        with Ledger(path, max_tokens=60) as ledger:
            with pytest.raises(BudgetError, match=r"max_tokens=60 .*\(60 so far"):
                ledger.wrap(llm).complete(chats(*"abcdefgh"))
            assert len(server.requests) == ledger.spent.calls == 4
        with Ledger(path, max_tokens=60) as ledger:  # the limit of another run
            texts = [one.text for one in ledger.wrap(llm).complete(chats(*"abcdefgh"))]
            assert texts == [*"ABCDEFGH"] and len(server.requests) == 8


def test_running_calls_count_with_the_longest_answer(tmp_path):
    with serving(lambda prompt, _: {"text": prompt, "sleep": 0.02}) as server:
        llm = client(server, max_tokens=1000, concurrency=8)
        # a call may have 5 + 1000 tokens and has 15: two at a time fit into 2100
        with Ledger(tmp_path / "l", max_tokens=2100) as ledger:
            assert len(ledger.wrap(llm).complete(chats(*"abcdefgh"))) == 8
        assert server.most_running == 2


class Silent(ChatModel):
    """A model that does not report tokens."""

    name = "silent"

    def parameters(self):
        return {"max_tokens": 10}

    def outcomes(self, chats):
        for index, _ in enumerate(chats):
            yield index, Completion("x" * 9)


def test_a_server_that_does_not_report_tokens(tmp_path):
    # 8 characters are 2 tokens, and 4 for a chat; 9 characters are 3: 9 tokens each, at most 16
    with Ledger(tmp_path / "l", max_tokens=30) as ledger:
        with pytest.raises(BudgetError, match=r"\(18 so far"):
            ledger.wrap(Silent()).complete(chats(*(f"prompt {i}" for i in range(5))))
        assert len(ledger) == 2


class Free(Silent):
    free = True


def test_free_models_have_no_tokens_to_pay(tmp_path):
    with Ledger(tmp_path / "l", max_tokens=0) as ledger:
        assert len(ledger.wrap(Free()).complete(chats("a", "b"))) == 2


def paying(path, url, texts):
    ledger = Ledger(path, max_tokens=75)
    ledger.budget.after = 0  # all begin at the same time
    llm = OpenAICompatible("toy", url, max_tokens=5, concurrency=2, timeout=600)
    with closing(ledger), pytest.raises(BudgetError):
        ledger.wrap(llm).complete(chats(*texts))


def test_processes_share_the_limit(tmp_path):
    path = tmp_path / "l"
    Ledger(path).close()
    with serving(lambda prompt, _: {"text": prompt, "sleep": 0.05}) as server:
        context = multiprocessing.get_context("fork")
        works = [(path, server.url, texts) for texts in ("abcdefgh", "ijklmnop")]
        processes = [context.Process(target=paying, args=work) for work in works]
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout=600)
            assert process.exitcode == 0
        # 15 tokens each, at most 10 before; up to 4 run at a time: 75 = 5 * 15, and 3 * 5 more
        assert 5 <= len(server.requests) <= 6


@pytest.mark.parametrize("wrong", [-1, 1.5, "10", True])
def test_bad_limits(tmp_path, wrong):
    with pytest.raises(ParameterError, match="max_tokens"):
        Ledger(tmp_path / "l", max_tokens=wrong)


def test_answers_without_a_maximum_length_are_refused(tmp_path):
    endless = OpenAICompatible("toy", "http://127.0.0.1:1/v1", max_tokens=None)
    ledger = Ledger(tmp_path / "l", max_tokens=10)
    with closing(ledger), pytest.raises(ParameterError, match="max_tokens.*'toy'"):
        ledger.wrap(endless)
