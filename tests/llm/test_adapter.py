"""Functions and foreign objects as models."""

from __future__ import annotations

import pytest
import tiny_models
from model_answers import answers_of

from fairtk.errors import InputError, ParameterError
from fairtk.llm import FunctionModel, HuggingFaceSeq2Seq, as_chat_model


class Output:
    """The shape of pyterrier_rag's BackendOutput."""

    def __init__(self, text):
        self.text = text


class RagBackend:
    """The shape of pyterrier_rag's Hugging Face backends."""

    model_id = "some/model"
    name = "an attribute of every PyTerrier transformer"

    def __init__(self, tokenizer=None, max_input_length=20):
        self.tokenizer = tokenizer
        self.max_input_length = max_input_length
        self.seen = []

    def generate(self, inps, *, return_logprobs=False, max_new_tokens=None):
        self.seen.append(list(inps))
        return [Output(f" {text.upper()} ") for text in inps]

    def __repr__(self):
        return "RagBackend('some/model')"


def test_a_function_gets_all_prompts_at_once():
    seen = []

    def shout(prompts):
        seen.append(prompts)
        return (prompt.upper() + "\n" for prompt in prompts)

    backend = as_chat_model(shout)
    assert backend.name == "shout" and backend.tokenizer is None
    assert answers_of(backend, ["b", "a", "b"]) == ["B", "A", "B"]
    assert seen == [["b", "a", "b"]]
    assert answers_of(backend, []) == [] and len(seen) == 1


def test_a_pyterrier_rag_backend_keeps_its_window():
    foreign = RagBackend(tiny_models.make_tokenizer())
    backend = as_chat_model(foreign)
    assert backend.name == "some/model"
    assert backend.tokenizer.model_max_length == 20  # where it would cut silently
    assert foreign.tokenizer.model_max_length == tiny_models.WINDOW
    assert answers_of(backend, ["b", "a", "b"]) == ["B", "A", "B"]
    assert foreign.seen == [["b", "a", "b"]]
    unlimited = as_chat_model(RagBackend(foreign.tokenizer, max_input_length=None))
    assert unlimited.tokenizer.model_max_length == tiny_models.WINDOW
    assert answers_of(unlimited, ["a"]) == ["A"]


def test_equality_is_by_the_wrapped_object():
    first, second = RagBackend(), RagBackend()
    assert repr(first) == repr(second)
    assert as_chat_model(first) == as_chat_model(first)
    assert as_chat_model(first).digest() == as_chat_model(first).digest()
    assert as_chat_model(first) != as_chat_model(second)
    assert as_chat_model(str.splitlines) == as_chat_model(str.splitlines)


def test_a_model_is_used_as_it_is():
    backend = HuggingFaceSeq2Seq("never/loaded")
    assert as_chat_model(backend) is backend
    assert not vars(backend).keys() & HuggingFaceSeq2Seq.LOADED.keys()  # nothing was loaded
    wrapped = FunctionModel(str.splitlines)
    assert as_chat_model(wrapped) is wrapped


def test_what_is_no_model():
    for nothing in ("google/flan-t5-small", None, HuggingFaceSeq2Seq):
        with pytest.raises(ParameterError, match="llm"):
            as_chat_model(nothing)
    with pytest.raises(InputError, match="'short'"):
        answers_of(FunctionModel(lambda prompts: prompts[:1], name="short"), ["a", "b"])
    with pytest.raises(InputError, match="'text'.*'xy'"):
        answers_of(FunctionModel(lambda prompts: "xy", name="text"), ["a", "b"])
    with pytest.raises(InputError, match="got None"):
        answers_of(FunctionModel(lambda prompts: [None], name="none"), ["a"])
