"""Functions and foreign objects as backends."""

from __future__ import annotations

import pytest
import tiny_models

from fairtk.errors import InputError, ParameterError
from fairtk.llm import CallableBackend, HuggingFaceSeq2Seq
from fairtk.llm.backends import as_backend


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


def test_a_function_gets_each_prompt_once():
    seen = []

    def shout(prompts):
        seen.append(prompts)
        return (prompt.upper() + "\n" for prompt in prompts)

    backend = as_backend(shout)
    assert backend.name == "shout" and backend.tokenizer is None
    assert backend.generate(["b", "a", "b"]) == ["B", "A", "B"]
    assert seen == [["b", "a"]]
    assert backend.generate([]) == [] and len(seen) == 1


def test_a_pyterrier_rag_backend_keeps_its_window():
    foreign = RagBackend(tiny_models.make_tokenizer())
    backend = as_backend(foreign)
    assert backend.name == "some/model"
    assert backend.tokenizer.model_max_length == 20  # where it would cut silently
    assert foreign.tokenizer.model_max_length == tiny_models.WINDOW
    assert backend.generate(["b", "a", "b"]) == ["B", "A", "B"]
    assert foreign.seen == [["b", "a"]]
    unlimited = as_backend(RagBackend(foreign.tokenizer, max_input_length=None))
    assert unlimited.tokenizer.model_max_length == tiny_models.WINDOW
    assert unlimited.generate(["a"]) == ["A"]


def test_equality_is_by_the_wrapped_object():
    first, second = RagBackend(), RagBackend()
    assert repr(first) == repr(second)
    assert as_backend(first) == as_backend(first)
    assert as_backend(first).digest() == as_backend(first).digest()
    assert as_backend(first) != as_backend(second)
    assert as_backend(str.splitlines) == as_backend(str.splitlines)


def test_a_whole_backend_is_used_as_it_is():
    backend = HuggingFaceSeq2Seq("never/loaded")
    assert as_backend(backend) is backend
    assert not vars(backend).keys() & HuggingFaceSeq2Seq.LOADED.keys()  # nothing was loaded
    wrapped = CallableBackend(str.splitlines)
    assert as_backend(wrapped) is wrapped


def test_what_is_no_backend():
    for nothing in ("google/flan-t5-small", None, HuggingFaceSeq2Seq):
        with pytest.raises(ParameterError, match="backend"):
            as_backend(nothing)
    with pytest.raises(InputError, match="'short'"):
        CallableBackend(lambda prompts: prompts[:1], name="short").generate(["a", "b"])
    with pytest.raises(InputError, match="got the.*'xy'"):
        CallableBackend(lambda prompts: "xy", name="text").generate(["a", "b"])
    with pytest.raises(InputError, match="got None"):
        CallableBackend(lambda prompts: [None], name="none").generate(["a"])
