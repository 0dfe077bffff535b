"""Wording, lookup and the user's own template."""

from __future__ import annotations

import pytest

import fairtk
from fairtk import prompts
from fairtk.errors import InputError, ParameterError
from fairtk.llm.prompts import as_builder


def test_rag_by_hand():
    built = prompts.get("rag")("Who?", [{"text": "One."}, {"text": "Two."}], None)
    assert built == (
        "Answer the question with the help of the passages. "
        "Passage 1: One. Passage 2: Two. Question: Who? Answer:"
    )


def test_columns_that_lamp_prompts_read():
    """The prompts themselves are compared with the published ones."""
    fields = [set(prompts.get(f"lamp-{n}").fields) for n in range(2, 8)]
    assert fields == [
        {"text", "tag"},
        {"text", "rating"},
        {"title", "article"},
        {"title", "abstract"},
        {"title", "text"},
        {"text"},
    ]


def test_all_names_are_registered():
    assert set(fairtk.plugins.registry.prompts.names()) >= {
        "rag",
        "template",
        *(f"lamp-{n}" for n in range(1, 8)),
    }


def test_builders_are_equal_by_options_and_print_them():
    assert prompts.get("lamp-4") == prompts.get("lamp-4", truncate="keep-question")
    assert prompts.get("lamp-4") != prompts.get("lamp-4", truncate="fair-rag")
    assert prompts.get("lamp-4") != prompts.get("lamp-6")
    assert repr(prompts.get("lamp-4")) == "Lamp4(truncate='keep-question')"


def test_wrong_names_and_options():
    with pytest.raises(ParameterError, match="'trunkate'.*'truncate'"):
        prompts.get("lamp-4", trunkate="fair-rag")
    with pytest.raises(ParameterError, match="'keep-question'.*'fair-rag'.*'head'"):
        prompts.get("lamp-4", truncate="head")
    with pytest.raises(ParameterError, match="'template'.*'template'"):
        prompts.get("template")
    with pytest.raises(ParameterError, match="prompt"):
        as_builder(7)


def test_missing_field_and_missing_marker():
    with pytest.raises(InputError, match="'lamp-2'.*'tag'.*'text'"):
        prompts.get("lamp-2")("Q", [{"text": "D"}], None)
    with pytest.raises(InputError, match="'lamp-1'"):
        prompts.get("lamp-1")("Which one?", [{"title": "T"}], None)


def test_template_by_hand():
    prompt = prompts.get(
        "template",
        template="Use {documents} for: {question}",
        document="[{rank}] {title} - {text}",
        joiner="; ",
    )
    assert prompt.fields == ("title", "text")
    documents = [{"title": "A", "text": "x {question}"}, {"title": "B", "text": "y"}]
    assert prompt("Q?", documents, None) == "Use [1] A - x {question}; [2] B - y for: Q?"
    closed_book = prompts.get("template", template="{question} {{short}}")
    assert closed_book.fields == ()
    assert closed_book("Q?", documents, None) == "Q? {short}"


@pytest.mark.parametrize(
    "options",
    [
        {"template": "no place"},
        {"template": "{question} {docs}"},
        {"template": "{question"},
        {"template": "{question.__class__}"},
        {"template": "{question!r}"},
        {"template": "{question} {documents}", "document": "text"},
        {"template": "{question} {documents}", "document": "{}"},
    ],
)
def test_template_errors(options):
    with pytest.raises(ParameterError, match=rf"\b{[*options][-1]}\b"):
        prompts.get("template", **options)
