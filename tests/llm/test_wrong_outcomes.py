"""Outcomes of models that are not what `ChatModel.outcomes` promises."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from fairtk import Generator
from fairtk.errors import InputError, ParameterError
from fairtk.llm import ChatModel, Completion, Ledger
from fairtk.llm.chat import questions

OK = Completion("yes")
RUN = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["a", "b", "c"]})

WRONG = {  # what a model yields for three prompts, and the value that the error names
    "large index": ([(0, OK), (3, OK)], "3"),
    "negative index": ([(0, OK), (-1, OK)], "-1"),
    "no index": ([(0, OK), ("1", OK)], "'1'"),
    "boolean": ([(True, OK)], "True"),
    "text": ([(0, OK), (1, "yes")], "index 1, got 'yes'"),
    "nothing": ([(0, OK), (2, None)], "index 2, got None"),
    "twice": ([(0, OK), (1, OK), (1, OK)], "index 1"),
    "no pair": ([OK], "Completion"),
    "no iterable": (None, "None"),
}


class Given(ChatModel):
    """A model with given outcomes."""

    name = "given"

    def __init__(self, pairs):
        self.pairs = pairs

    def parameters(self):
        return {}

    def outcomes(self, chats):
        list(chats)
        return self.pairs


class InLists(Given):
    def arrivals(self, chats):
        list(chats)
        yield self.pairs


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("pairs", WRONG)
def test_a_wrong_outcome_names_the_model_and_the_prompt(tmp_path, pairs, recorded):
    outcomes, value = WRONG[pairs]
    with Ledger(tmp_path / "l") if recorded else nullcontext() as ledger:
        llm = ledger.wrap(Given(outcomes)) if recorded else Given(outcomes)
        for call in (lambda: llm.complete(questions("abc")), lambda: Generator(llm)(RUN)):
            with pytest.raises(InputError) as caught:
                call()
            assert "'given'" in str(caught.value) and value in str(caught.value)
        assert not recorded or ledger.store.file.read("SELECT * FROM claims") == []


@pytest.mark.parametrize("pairs", [name for name in WRONG if name != "no iterable"])
def test_outcomes_in_lists_are_checked_as_well(pairs):
    outcomes, value = WRONG[pairs]
    with pytest.raises(InputError) as caught:
        list(InLists(outcomes).arrivals(iter(questions("abc"))))
    assert "'given'" in str(caught.value) and value in str(caught.value)


def test_indices_of_numpy_and_missing_outcomes_are_valid():
    first, second = Given([(np.int64(1), OK)]).complete(questions("ab"))
    assert "no answer" in first.reason and second == OK


def test_a_model_that_samples_needs_a_method_for_other_answers():
    class Sampling(Given):
        repeats = ""

    with pytest.raises(ParameterError, match=r"'given' .*numbered"):
        Generator(Sampling([]), answers=2)(RUN)
