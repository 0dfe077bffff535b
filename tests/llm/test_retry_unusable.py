"""`retry_unusable` requests the answers again that a generator cannot read."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import fairtk
from fairtk import Generator
from fairtk.llm import ChatModel, Completion, Ledger


def last_word(text):
    return text.split("ANSWER:")[1]


READERS = ["after-thinking", "plain", "json:answer", last_word]
COMPLETIONS = [
    Completion("Paris"),
    Completion("<think>Paris"),
    Completion('{"answer": "Paris"}'),
    Completion("ANSWER: Paris"),
    Completion("Par", finish="length"),
    Completion("No.", finish="refusal"),
    Completion("", finish="thought cut"),
    Completion("Paris", prompt_tokens=1),
    Completion("Paris", finish="unknown"),
]


class Given(ChatModel):
    """A model with a completion for each query, which counts its calls."""

    name = "given"

    def __init__(self, completions):
        self.completions, self.calls = completions, [0] * len(completions)

    def parameters(self):
        return {}

    def outcomes(self, chats):
        for index, chat in enumerate(chats):
            number = int(re.search(r"city (\d)", chat.text)[1])
            self.calls[number] += 1
            yield index, self.completions[number]


def topics(llm):
    numbers = range(len(llm.completions))
    return pd.DataFrame({"qid": list(map(str, numbers)), "query": [f"city {n}" for n in numbers]})


def directly(generator, frame):
    return generator(frame)


def in_an_experiment(generator, frame):
    return fairtk.Experiment({"s": generator}, frame).answers("s")


@pytest.mark.parametrize("run", [directly, in_an_experiment])
@pytest.mark.parametrize("reader", READERS)
def test_answers_are_requested_again_if_their_generator_cannot_read_them(tmp_path, reader, run):
    llm = Given(COMPLETIONS)
    frame = topics(llm)
    with Ledger(tmp_path / "l") as ledger:
        statuses = Generator(ledger.wrap(llm), answer=reader)(frame)["answer_status"].tolist()
    assert set(llm.calls) == {1} and "ok" in statuses and "cut" in statuses
    n_calls = [1 if status in ("ok", "unknown") else 2 for status in statuses]
    with Ledger(tmp_path / "l", retry_unusable=True) as ledger:
        for _ in range(2):  # once more, also if it is as unusable as before
            answers = run(Generator(ledger.wrap(llm), answer=reader), frame)
            assert answers["answer_status"].tolist() == statuses and llm.calls == n_calls
    with Ledger(tmp_path / "l") as ledger:
        run(Generator(ledger.wrap(llm), answer=reader), frame)
    assert llm.calls == n_calls


@pytest.mark.parametrize("readers", [("json:answer", "plain"), ("plain", "json:answer")])
def test_an_answer_of_two_generators_is_requested_again_if_one_cannot_read_it(tmp_path, readers):
    llm = Given([Completion("Paris")])
    for retry, completion, n_calls in (
        (False, Completion("Paris"), 1),
        (True, Completion('{"answer": "Paris"}'), 2),
        (True, Completion("not requested"), 2),
    ):
        llm.completions = [completion]
        with Ledger(tmp_path / "l", retry_unusable=retry) as ledger:
            systems = {reader: Generator(ledger.wrap(llm), answer=reader) for reader in readers}
            results = fairtk.Experiment(systems, topics(llm))
        assert llm.calls == [n_calls]
    assert results.answers("json:answer")["qanswer"].tolist() == ["Paris"]
