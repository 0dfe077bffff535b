"""A ledger identifies the answers of a function by its name, and those of a lambda by its code."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from fairtk import Generator
from fairtk.llm import FunctionModel, Ledger

TOPICS = pd.DataFrame({"qid": ["1"], "query": ["which cat"]})


def one(prompts):
    return ["one"] * len(prompts)


def constant(text):
    return lambda prompts: [text] * len(prompts)


class Generating:
    model_id = "constant, v1"

    def generate(self, prompts):
        return ["constant"] * len(prompts)


LAMBDAS = [
    lambda prompts: ["one"] * len(prompts),
    lambda prompts: ["two"] * len(prompts),
    lambda prompts: [(lambda: "three")() for _ in prompts],
    lambda prompts: [(lambda: "four")() for _ in prompts],
    lambda prompts, text="five": [text] * len(prompts),
    lambda prompts, text="six": [text] * len(prompts),
    lambda prompts, *, text="seven": [text] * len(prompts),
    constant("eight"),
    constant("nine"),
    lambda prompts: list(map(str.upper, prompts)),
    lambda prompts: list(map(str.lower, prompts)),
]


def test_lambdas_do_not_share_answers(tmp_path):
    with Ledger(tmp_path / "l") as ledger:
        for _ in range(2):
            for function in LAMBDAS:
                [answer] = Generator(ledger.wrap(function))(TOPICS)["qanswer"]
                assert answer == Generator(function)(TOPICS)["qanswer"].item()
            assert len(ledger) == len(LAMBDAS)


def test_equal_lambdas_are_equal_in_each_process():
    code = "lambda prompts, number=1: [(lambda: f'{number}')() for _ in prompts]"
    script = (
        f"from fairtk.llm import FunctionModel; print(FunctionModel({code}).parameters()['code'])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == FunctionModel(eval(code)).parameters()["code"]


@pytest.mark.parametrize(
    ("llm", "name"),
    [(one, "one"), (str.splitlines, "splitlines"), (Generating(), "constant, v1")],
)
def test_functions_and_objects_have_names(tmp_path, llm, name):
    with Ledger(tmp_path / "l") as ledger:
        assert ledger.wrap(llm).name == name
        assert ledger.wrap(FunctionModel(one, "one, v2")).name == "one, v2"
