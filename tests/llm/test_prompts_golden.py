"""The LaMP prompts of the published Fair-RAG code, character by character."""

from __future__ import annotations

import hashlib

import pytest
from word_tokenizer import WordTokenizer

from fairtk import prompts
from fairtk.errors import InputError
from fairtk.llm.prompts import fair_rag

WORDS = WordTokenizer(512)
"""The tokenizer that the reference prompts were made with."""


@pytest.fixture(scope="module")
def cases(golden):
    return golden("lamp_prompts")["cases"]


def test_every_published_prompt_is_rebuilt(cases):
    seen = 0
    for case in cases:
        if "error" in case:
            continue
        prompt = prompts.get(f"lamp-{case['task']}", truncate="fair-rag")
        entries = [prompt.entry(doc, rank) for rank, doc in enumerate(case["documents"])]
        built = fair_rag(prompt, case["question"], entries, WORDS)
        if "aggregated_prompt" in case:
            assert built.aggregated == case["aggregated_prompt"], case["id"]
        else:
            words = built.aggregated.split()
            assert len(words) == case["aggregated_tokens"], case["id"]
            assert " ".join(words[-12:]) == case["aggregated_tail"], case["id"]
            digest = hashlib.sha256(built.aggregated.encode()).hexdigest()
            assert digest == case["aggregated_sha256"], case["id"]
        if "final_tokens" in case:
            assert built.final == " ".join(built.aggregated.split()[: case["final_tokens"]])
            assert built.final.endswith(case["final_tail"]), case["id"]
        else:
            assert built.final == built.aggregated, case["id"]
        assert prompt(case["question"], case["documents"], WORDS) == built.final
        seen += 1
    assert seen == 59


def test_where_the_published_code_raises(cases):
    index_error, no_documents = (case for case in cases if "error" in case)
    assert (index_error["error"], no_documents["error"]) == ("IndexError", "ZeroDivisionError")
    with pytest.raises(InputError):
        prompts.get("lamp-1", truncate="fair-rag")(
            index_error["question"], index_error["documents"], WORDS
        )
    prompt = prompts.get("lamp-4", truncate="fair-rag")
    assert prompt(no_documents["question"], [], WORDS) == no_documents["question"]


def test_keep_question_keeps_what_the_published_truncation_loses(cases):
    lost = 0
    for case in cases:
        prompt = prompts.get(f"lamp-{case['task']}")
        built = prompt(case["question"], case["documents"], WORDS)
        assert len(built.split()) <= 512
        if case["task"] == 1:
            head, marker, rest = case["question"].partition("which reference is related?")
            assert built.startswith(head) and built.endswith(marker + rest)
        else:
            assert built.endswith(case["question"])
        lost += "final_tokens" in case
        # a prompt that fits is the published one, but for its cut of questions at 256 tokens
        if len(case["question"].split()) <= 256 and "aggregated_prompt" in case:
            assert built == case["aggregated_prompt"]
    assert lost == 11


def test_keep_question_keeps_tags_of_cut_descriptions(cases):
    case = next(c for c in cases if c["task"] == 2 and c["tag"].startswith("long profile"))
    built = prompts.get("lamp-2")(case["question"], case["documents"], WORDS)
    for document in case["documents"]:
        assert f" is {document['tag']}" in built
