"""Local models and functions as chat models; the rule-based refiner."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairtk.errors import FormatError, InputError, ParameterError
from fairtk.frames.texts import words
from fairtk.llm import (
    Chat,
    KeywordRefiner,
    Ledger,
    Message,
    as_chat_model,
)
from fairtk.llm.local import PACKAGED, read_table
from fairtk.transformers.fair_qr.keywords import parse_completion


def chats(*texts):
    return [Chat((Message("system", "Rules."), Message("user", text))) for text in texts]


def shout(prompts):
    return [prompt.upper() for prompt in prompts]


def whisper(prompts):
    return [prompt.lower() for prompt in prompts]


def test_a_function():
    llm = as_chat_model(shout)
    assert [c.text for c in llm.complete(chats("a", "b"))] == ["RULES.\n\nA", "RULES.\n\nB"]
    assert llm.name == "shout" and llm.complete([]) == []
    assert llm == as_chat_model(shout) != as_chat_model(whisper)
    assert llm.at_temperature(0.9) is llm and as_chat_model(llm) is llm
    with pytest.raises(ParameterError, match="llm.*7"):
        as_chat_model(7)
    with pytest.raises(ParameterError, match="llm.*'gpt-4o'"):
        as_chat_model("gpt-4o")


def test_a_local_model_samples_at_the_temperature_with_its_seed(tmp_path):
    pytest.importorskip("transformers")
    demo = pytest.importorskip("fairtk.demo")
    from fairtk.llm import HuggingFaceSeq2Seq

    settings = {"max_new_tokens": 8, "batch_tokens": 40}
    greedy = HuggingFaceSeq2Seq(str(demo.model_folder()), **settings)
    warm = greedy.at_temperature(1.5)
    assert warm.at_temperature(0.5)._model is greedy._model is warm._model  # loaded once
    assert greedy.at_temperature(0.0) is greedy
    assert "temperature" not in greedy.parameters() and warm.parameters()["temperature"] == 1.5
    prompts = chats("a small question", "another, larger question", "a third one")
    first = [found.text for found in warm.complete(prompts)]
    settings |= {"model": str(demo.model_folder()), "temperature": 1.5}
    assert first == [c.text for c in HuggingFaceSeq2Seq(**settings).complete(prompts)]
    assert first != [c.text for c in HuggingFaceSeq2Seq(**settings, seed=7).complete(prompts)]
    with Ledger(tmp_path / "l") as ledger:
        outcomes = ledger.wrap(warm).outcomes(prompts)
        next(outcomes)
        assert len(ledger) == 1  # kept before the next batch is generated
        outcomes.close()
    with pytest.raises(ParameterError, match="temperature"):
        HuggingFaceSeq2Seq("any", temperature=-1)


def refinement(keywords, *group):
    return Chat((Message("user", "x"),), {"keywords": keywords, "group": group})


def test_keyword_refiner_adds_the_next_terms():
    llm = KeywordRefiner({"f": ["she", "woman", "New York", "her"]}, terms=2)
    steps = ["space travel"]
    for _ in range(3):
        [found] = llm.complete([refinement(steps[-1], "f")])
        steps.append(" ".join(json.loads(found.text)))
    assert steps[1:] == [
        "space travel she woman",
        "space travel she woman New York her",
        "space travel she woman New York her",  # nothing is left to add
    ]
    [both] = KeywordRefiner({"a": ["x"], "b": ["y"]}).complete([refinement("q", "a", "b")])
    assert both.text == '["q", "x", "y"]'


@given(st.text(max_size=400), st.sampled_from(["female", "Antarctica"]))
@example("I cannot. You would say that this is a sentence. Would you, please?", "female")
@example(" ".join(f"word{i}" for i in range(300)), "female")
def test_keyword_refiner_refines_any_query_with_a_word(query, group):
    chat = refinement(query, group)
    [answer] = KeywordRefiner().complete([chat])
    terms = KeywordRefiner().table[group]
    refined = parse_completion(answer, chat, before=query)
    assert set(refined.lower().split()) & {term.lower() for term in terms}
    query_words = {word.lower() for word in words(query.replace("_", " "))}
    assert query_words <= set(refined.lower().split())


def test_keyword_refiner_settings(tmp_path):
    assert KeywordRefiner() == KeywordRefiner(PACKAGED) != KeywordRefiner(terms=1)
    assert KeywordRefiner({"a": ["x"]}) != KeywordRefiner({"a": ["y"]})
    assert set(KeywordRefiner().table) >= {"female", "male", "NB", "Antarctica", "Oceania"}
    assert all(len(terms) >= 3 for terms in KeywordRefiner().table.values())
    with pytest.raises(InputError, match="group 'femal'.*'female'"):
        KeywordRefiner().complete([refinement("q", "femal")])
    with pytest.raises(InputError):
        KeywordRefiner().complete(chats("q"))
    with pytest.raises(ParameterError, match="terms"):
        KeywordRefiner(terms=0)
    table = tmp_path / "t.tsv"
    table.write_text("group\tterm\n# a comment\na\tone\na\ttwo\na\tone\n")
    assert read_table(table) == {"a": ("one", "two")}
    for text, place in (("a\tb\n", ":1:"), ("group\tterm\na\t\n", ":2:")):
        table.write_text(text)
        with pytest.raises(FormatError, match=place):
            KeywordRefiner(table)
    with pytest.raises(InputError):
        KeywordRefiner(tmp_path / "none.tsv")


def test_keyword_refiner_behind_a_ledger(tmp_path):
    with Ledger(tmp_path / "l", max_cost=0.0) as ledger:
        llm = ledger.wrap(KeywordRefiner({"a": ["x"], "b": ["y"]}))
        # the same words for a model, other facts for the rules
        found = llm.complete([refinement("q", "a"), refinement("q", "b")])
        assert [c.text for c in found] == ['["q", "x"]', '["q", "y"]']
        assert ledger.spent.price == 0.0 and len(ledger) == 2
