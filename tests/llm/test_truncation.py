"""Properties of the default truncation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk import prompts
from fairtk.errors import InputError
from fairtk.llm.prompts import SHORTEST_ENTRY, count, divide, trim, window


class Halves:
    """Words are cut into pieces of three letters, and each prompt gets one special token."""

    def __init__(self, model_max_length):
        self.model_max_length = model_max_length

    def tokenize(self, text):
        pieces = []
        for word in text.split():
            marked = "_" + word
            pieces += [marked[i : i + 3] for i in range(0, len(marked), 3)]
        return pieces

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens).replace("_", " ").strip()

    def num_special_tokens_to_add(self):
        return 1


words = st.lists(st.sampled_from(["a", "bb", "harbour", "is", "tag", "lanternlight"]), max_size=60)
text = words.map(" ".join)
names = [*(f"lamp-{n}" for n in range(2, 8)), "rag"]
FIELDS = ("text", "title", "tag", "rating", "article", "abstract")


@given(
    name=st.sampled_from(names),
    question=text,
    documents=st.lists(text, max_size=6),
    longest=st.integers(30, 160),
)
def test_whole_question_and_never_too_long(name, question, documents, longest):
    tokenizer = Halves(longest)
    prompt = prompts.get(name)
    rows = [dict.fromkeys(FIELDS, document) for document in documents]
    built = prompt(question, rows, tokenizer)
    assert count(built, tokenizer) <= window(tokenizer) == longest - 1
    if prompt.document_budget(question, tokenizer) >= 0:
        assert question in built
    else:
        assert built == prompt.join(trim(question, _kept(built, prompt, tokenizer), tokenizer), [])


def _kept(built, prompt, tokenizer):
    """Tokens of the question in a prompt that has nothing but a question."""
    return count(built, tokenizer) - count(prompt.join("", []), tokenizer)


@given(demands=st.lists(st.integers(0, 50), max_size=8), room=st.integers(-5, 200))
def test_shares_are_fair(demands, room):
    shares = divide(demands, room)
    assert sum(shares) == min(max(0, room), sum(demands))
    assert all(0 <= share <= demand for share, demand in zip(shares, demands, strict=True))
    # who is cut gets at least as much as anybody else, but for the remainder
    cut = [s for s, d in zip(shares, demands, strict=True) if s < d]
    assert not cut or max(shares) <= min(cut) + 1


def test_shares_by_hand():
    # 30 tokens for 4, 20, 20: 10 each; the first leaves 6, so (30 - 4) / 2 = 13 each
    assert divide([4, 20, 20], 30) == [4, 13, 13]
    # 31: one token is over and goes to the better ranked
    assert divide([4, 20, 20], 31) == [4, 14, 13]
    assert divide([], 10) == []
    assert divide([3, 3], 0) == [0, 0]


def test_without_documents_the_prompt_is_the_question():
    tokenizer = Halves(100)
    for number in range(1, 8):
        assert prompts.get(f"lamp-{number}")("what is it?", [], tokenizer) == "what is it?"
    assert prompts.get("rag")("what?", [], tokenizer) == (
        "Answer the question. Question: what? Answer:"
    )


def test_a_question_that_fills_the_window_leaves_the_documents_out():
    tokenizer = Halves(21)  # 20 tokens for the prompt
    question = " ".join(["a"] * 20)
    built = prompts.get("lamp-7")(question, [{"text": "bb bb bb"}], tokenizer)
    assert built == question
    # one token more than the window: cut at its end, still no document
    assert prompts.get("lamp-7")(question + " a", [{"text": "bb"}], tokenizer) == question


def test_documents_are_dropped_from_the_bottom_when_shares_become_too_short():
    tokenizer = Halves(31)
    question = " ".join(["a"] * 10)
    documents = [{"text": " ".join([word] * 40)} for word in ("b", "c", "d")]
    # 30 - 10 for the question; ' are written by a person. Following the given patterns' has more
    # than 20 three-letter pieces, so no document fits
    assert prompts.get("lamp-7")(question, documents, tokenizer) == question
    template = prompts.get("template", template="{documents} {question}", joiner=" ")
    built = template(question, documents, tokenizer).split()
    # 20 tokens for documents: three would get 6 each, below the least of 8; two get 10 each
    assert SHORTEST_ENTRY == 8
    assert built == ["b"] * 10 + ["c"] * 10 + ["a"] * 10


def test_a_window_that_does_not_hold_the_own_words_is_an_error():
    with pytest.raises(InputError, match="'rag' must have at most 3 tokens.*16"):
        prompts.get("rag")("what?", [], Halves(4))


def test_no_tokenizer_or_no_window_means_no_cut():
    documents = [{"text": "long " * 2000}]
    whole = prompts.get("rag")("what?", documents, None)
    assert "long " * 2000 in whole
    assert prompts.get("rag")("what?", documents, Halves(10**30)) == whole
    with pytest.raises(InputError, match="'fair-rag'"):
        prompts.get("lamp-7", truncate="fair-rag")("what?", documents, None)
