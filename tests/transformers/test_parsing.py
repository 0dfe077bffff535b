"""What is a list of keywords, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.llm import Completion
from fairtk.llm.chat import questions
from fairtk.transformers.fair_qr.keywords import (
    AnswerError,
    changes,
    parse_completion,
    parse_keywords,
    same_words,
)


@pytest.mark.parametrize(
    ("answer", "keywords"),
    [
        ("physics, women, Nobel Prize", "physics women Nobel Prize"),
        ("physics women Nobel", "physics women Nobel"),
        ("  physics;women ; Nobel\n", "physics women Nobel"),
        ("physics, women, science.", "physics women science"),
        ("```text\nphysics\nwomen\n```", "physics women"),
        ("Keywords: physics, women", "physics women"),
        ("Refined keywords:\nphysics\nwomen", "physics women"),
        ('"physics, women"', "physics women"),
        ("**physics, women**", "physics women"),
        ("1. physics\n2. women\n10) Nobel Prize", "physics women Nobel Prize"),
        ("- physics\n- women", "physics women"),
        ('["physics", "women in science"]', "physics women in science"),
        ("[physics, women]", "physics women"),
        ('["what", "would", "you", "cannot"]', "what would you cannot"),  # words, not a sentence
        ("physics, Physics, PHYSICS, women", "physics women"),
        ("World War I, women, U.S. history", "World War I women U S history"),
        ("non-binary, long-term", "non-binary long-term"),
        ('title:"x" AND (women^2)', "title x AND women 2"),
        ("Ärztinnen, 女性, مريم", "Ärztinnen 女性 مريم"),
        ("<think>\nI should add women.\n</think>\n\nphysics, women", "physics women"),
        ("physics < 1900, women > 1", "physics 1900 women 1"),  # signs, no markup
        ('{"keywords": ["physics", "women in science"]}', "physics women in science"),
        ('```json\n{"keywords": ["physics", "women"]}\n```', "physics women"),
        ('{"thoughts": "I add women.", "refined_keywords": "physics, women"}', "physics women"),
        (
            "<|channel|>analysis<|message|>I add women.<|end|><|start|>assistant"
            "<|channel|>final<|message|>physics, women<|return|>",
            "physics women",
        ),
        ("analysisI add women.assistantfinalphysics, women", "physics women"),
        ("physics, women<|im_end|>", "physics women"),
        ("**Updated Keyword List:**\nphysics\nwomen", "physics women"),
        ("### Refined search terms:\n- physics\n- women", "physics women"),
        ("फिल्म, महिला निर्देशक", "फिल्म महिला निर्देशक"),
        (
            "cafe\u0301, ❤️ women",
            "cafe\u0301 women",
        ),  # an accent of its own; a mark without a letter
        ("novel, Mrs. Dalloway., Virginia Woolf", "novel Mrs Dalloway Virginia Woolf"),
        ("novel, Mrs. Dalloway.", "novel Mrs Dalloway"),
    ],
)
def test_keywords(answer, keywords):
    assert parse_keywords(answer) == keywords


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (" \n ", "empty"),
        ("``` ```", "no keywords|one block of keywords|empty"),
        ("...", "no keywords"),
        ("None", "no keywords"),
        ("n/a", "no keywords"),
        ("None, nothing, unknown", "no keywords"),  # each word says so, no listed phrase does
        ("I'm sorry, but I can't help with that.", "refused"),
        ("I cannot refine queries by gender", "refused"),
        ("As an AI, women, physics", "refused"),
        ("Here are the keywords: physics, women", "sentence"),
        ("Sure! physics, women", "sentence"),
        ("The refined query adds terms about women to the list.", "sentence"),
        ("physics, women\n\nThese words relate to the group", "sentence"),
        ("I added women, physics", "sentence"),
        ("```\na\n```\n```\nb\n```", "one block of keywords"),
        ('{"reasons": ["physics", "women"]}', "an object with one list"),
        ('{"keywords": ["physics"], "new terms": ["women"]}', "an object with one list"),
        ('{"keywords": {"a": 1}}', "a list of words"),
        ('{"keywords": ["physics",', "an object"),
        ('{"keywords": ["physics"}', "not valid JSON"),
        ('{"keywords": "I cannot do that"}', "refused"),
        ("<|channel|>analysis<|message|>physics, women", "markup"),  # cut off while thinking
        ("She wrote books. Women, physics", "sentence"),
        ("Mrs. Dalloway goes out. physics, women", "sentence"),
        ("\u0301 \u094d", "no keywords"),  # marks alone
        ("[1, 2]", "a list of words"),
        ("<think>physics, women", "empty"),  # cut off while thinking
        ("<think>physics, women</think>", "empty"),
        ("<b>physics</b>, women", "markup"),
        ('["sorry"]', "refused"),
        ('["I am sorry, but I cannot help", "women"]', "refused"),
        (" ".join(f"w{i}" for i in range(65)), "at most 64 keywords, got 65"),
        ("word " * 10_000, "at most 64 keywords, got 10000"),
    ],
)
def test_what_is_rejected(answer, reason):
    with pytest.raises(AnswerError, match=reason):
        parse_keywords(answer)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "cut off"), ("refusal", "refused"), ("content_filter", "filtered")],
)
def test_how_an_answer_ended_matters(finish, reason):
    [chat] = questions(["?"])
    with pytest.raises(AnswerError, match=reason):
        parse_completion(Completion("physics, women", finish=finish), chat)
    assert parse_completion(Completion("physics, women"), chat) == "physics women"
    [long] = questions(["word " * 100])  # the server has read 10 tokens of 100 words
    with pytest.raises(AnswerError, match=reason):
        parse_completion(Completion("physics, women", 10, finish=finish), long)


@given(st.text(max_size=300))
def test_anything_is_keywords_or_an_error(text):
    try:
        found = parse_keywords(text)
    except AnswerError as error:
        assert "\n" not in str(error)
    else:
        words = found.split()
        assert 0 < len(words) <= 64 and len({w.lower() for w in words}) == len(words)
        assert parse_keywords(", ".join(words)) == found or len(words) == 1


def test_changes():
    assert changes("physics Prize", "physics women prize") == (["women"], [])
    assert changes("physics prize", "women physics") == (["women"], ["prize"])
    assert same_words("Physics women", "women, physics") and not same_words("a b", "a")
