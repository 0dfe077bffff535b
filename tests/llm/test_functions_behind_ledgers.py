"""A ledger identifies the answers of a function by its name, so the name must be specific."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest

from fairtk import Generator
from fairtk.errors import IdentityError
from fairtk.llm import FunctionModel, KeywordRefiner, Ledger
from fairtk.llm.chat import questions
from fairtk.stage_context import Recording, recorded

TOPICS = pd.DataFrame({"qid": ["1"], "query": ["which cat"]})


def one(prompts, text="one"):
    return [text] * len(prompts)


def nested():
    def answer(prompts):
        return ["nested"] * len(prompts)

    return answer


class Constant:
    def __init__(self, text):
        self.text = text

    def __call__(self, prompts):
        return [self.text] * len(prompts)

    def answers(self, prompts):
        return self(prompts)


class Generating(Constant):
    generate = Constant.__call__


class WithId(Generating):
    model_id = "constant, v1"


UNNAMED = {
    "lambda": lambda prompts: ["lambda"] * len(prompts),
    "nested": nested(),
    "partial": partial(one, text="partial"),
    "callable": Constant("callable"),
    "method": Constant("method").answers,
    "object": Generating("object"),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_a_function_without_a_specific_name_is_refused_before_any_call(tmp_path, name):
    function = UNNAMED[name]
    with Ledger(tmp_path / "l") as ledger:
        with pytest.raises(IdentityError, match="FunctionModel"):
            ledger.wrap(function)
        with recorded(Recording(ledger)), pytest.raises(IdentityError, match="FunctionModel"):
            FunctionModel(function).complete(questions(["a"]))  # in an experiment with a store
        assert len(ledger) == 0
        llm = ledger.wrap(FunctionModel(function, f"{name}, v1"))
        assert Generator(llm)(TOPICS)["qanswer"].tolist() == [name]
    assert Generator(function)(TOPICS)["qanswer"].tolist() == [name]  # without a ledger


@pytest.mark.parametrize(
    ("llm", "name"),
    [(one, "one"), (str.splitlines, "splitlines"), (WithId("a"), "constant, v1")],
)
def test_functions_of_modules_and_named_objects_need_no_other_name(tmp_path, llm, name):
    with Ledger(tmp_path / "l") as ledger:
        assert ledger.wrap(llm).name == name
        ledger.wrap(KeywordRefiner({"g": ["t"]}))
