"""Credit of models with few right answers: the message, and progress without a terminal."""

from __future__ import annotations

import io
import re
import threading
import time
from contextlib import redirect_stderr

import pandas as pd
import pytest

from fairtk import FairSampler, Generator
from fairtk.credit import Subsets, fit_browsing
from fairtk.errors import InputError
from fairtk.llm import FunctionModel, progress
from fairtk.llm.chat import Completion
from fairtk.llm.refinement import Refinement, as_refinement_prompt
from fairtk.transformers.fair_qr.keywords import refine


def test_leave_one_out_with_a_negative_sum_at_the_first_rank():
    # Two documents in both orders. Their mean credit at rank 0 is -3 / 2 and -1 / 2; each has the
    # weight 1 / 2, since both ranks are equally likely: -0.75 - 0.25 = -1.
    run = pd.DataFrame({"qid": "q", "docno": ["a", "b"], "score": [1.0, 1.0]})
    rows = [("q", 0, "a", 0, -3.0), ("q", 0, "b", 1, 0.5), ("q", 1, "b", 0, -1.0)]
    credit = pd.DataFrame(
        [*rows, ("q", 1, "a", 1, 1.5)], columns=["qid", "sample", "docno", "rank", "credit"]
    )
    sampler = FairSampler(alpha=1, n_samples=2)
    with pytest.raises(InputError) as refused:
        fit_browsing(credit, run, sampler)
    text = str(refused.value)
    assert "rank 0" in text and "2 documents" in text and "above 0, got -1 for 1 quer" in text
    assert all(remedy in text for remedy in ("rankings per query", "Subsets('all')"))
    # two queries with these rankings: the sum is -2
    other = credit.assign(qid="r", docno=credit["docno"] + "2")
    two = pd.concat([run, run.assign(qid="r", docno=run["docno"] + "2")])
    with pytest.raises(InputError, match=r"4 documents.*got -2 for 2 queries"):
        fit_browsing(pd.concat([credit, other]), two, sampler)


class Log(io.StringIO):
    def lines(self):
        """Return the finished and all units of each line."""
        reports = re.findall(r"(?m)^(?:answers|calling \w+): (\d+) of (\d+)", self.getvalue())
        return [(int(done), int(total)) for done, total in reports]


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(progress, "MINUTE", 0.001)
    return Log()


class Waiting:
    """A model whose answers wait until a line has reported the ones before them."""

    def __init__(self, log):
        self.log = log

    def outcomes(self, chats):
        for index, _ in enumerate(chats):
            yield index, Completion("a")
            end = time.monotonic() + 60
            while not any(done == index + 1 for done, _ in self.log.lines()):
                assert time.monotonic() < end
                time.sleep(0.001)


@pytest.fixture
def model(log):
    function = FunctionModel(lambda prompts: ["a"] * len(prompts), "toy")
    function.outcomes = Waiting(log).outcomes
    return function


RUN = pd.DataFrame(
    {"qid": "q", "query": "x", "docno": ["a", "b"], "score": [2.0, 1.0], "rank": [0, 1]}
).assign(text=lambda frame: frame["docno"])


def test_lines_while_answers_for_credit_are_generated(log, model):
    subsets = Subsets("all", cutoff=2)(RUN)
    with redirect_stderr(log):
        Generator(model)(subsets)
    # none, a, b, and a with b
    assert {(n, 4) for n in range(1, 5)} <= {*log.lines()} <= {(n, 4) for n in range(5)}
    assert not [t for t in threading.enumerate() if t.name == "fairtk minutes"]


def test_lines_of_refinements(log, model):
    with redirect_stderr(log):
        requests = [Refinement(text, text, ("Female",), "gender") for text in ("x", "y")]
        refine(model, as_refinement_prompt("refine", "a test"), requests)
    assert {(1, 2), (2, 2)} <= {*log.lines()}


def test_one_report_at_a_time(log, model):
    with redirect_stderr(log), progress.progress_bar("answers", 7, "prompt") as done:
        model.outcomes = FunctionModel(lambda prompts: ["a"] * len(prompts)).outcomes
        Generator(model)(RUN)
        done(7)
        while (7, 7) not in log.lines():
            time.sleep(0.001)
    assert {total for _, total in log.lines()} == {7}
