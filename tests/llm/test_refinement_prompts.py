"""The prompts that ask for refined keywords."""

from __future__ import annotations

import pytest

from fairtk import prompts
from fairtk.errors import ParameterError
from fairtk.llm.prompts import as_builder
from fairtk.llm.refinement import Refinement, RefinementPromptLike, as_refinement_prompt

NAMES = ("refine", "refine-few-shot", "refine-chain-of-thought")
REQUEST = Refinement("nobel prize physics", "nobel physics woman", ("NB",), "gender")


@pytest.mark.parametrize("name", NAMES)
def test_query_keywords_and_group_are_in_the_prompt(name):
    prompt = prompts.get(name, max_keywords=7)
    chat = prompt(REQUEST)
    assert [m.role for m in chat.messages] == ["system", "user"]
    for part in ("nobel prize physics", "nobel physics woman", "non-binary people (gender)"):
        assert part in chat.messages[1].content
    assert "7 words at most" in chat.text
    assert dict(chat.facts) == {
        "query": "nobel prize physics",
        "keywords": "nobel physics woman",
        "group": ["NB"],
        "attribute": "gender",
    }
    assert prompt.name == name and isinstance(prompt, RefinementPromptLike)
    assert prompt == prompts.get(name, max_keywords=7) != prompts.get(name)
    assert prompt == as_refinement_prompt({"name": name, "max_keywords": 7}, "a test")
    assert hash(prompt) == hash(prompts.get(name, max_keywords=7)) and name != repr(prompt)


def test_crossed_groups_and_names():
    request = Refinement("q", "k", ("female", "Oceania"))
    text = prompts.get("refine")(request).text
    assert "too little: women and Oceania\n" in text
    own = prompts.get("refine", group_names={"female": "female authors"})
    assert "too little: female authors and Oceania" in own(request).text


def test_answers():
    assert prompts.get("refine").answer("a, b") == "a, b"
    thought = prompts.get("refine-chain-of-thought")
    assert thought.answer("The keywords: should change.\nKeywords: a, b") == "a, b"
    assert thought.answer("Reasons.\n**Keywords:** a, b") == "a, b"
    assert thought.answer("Only reasons.") == ""


def test_errors():
    with pytest.raises(ParameterError, match="max_keywords"):
        prompts.get("refine", max_keywords=0)
    with pytest.raises(ParameterError, match="QueryRefiner"):
        as_builder(prompts.get("refine"))
    with pytest.raises(ParameterError, match="got {'max_keywords': 7}"):
        as_refinement_prompt({"max_keywords": 7}, "a test")
