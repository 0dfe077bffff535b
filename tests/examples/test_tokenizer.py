"""The tiny model's tokenizer: any text comes back, and the fixed phrases are short."""

import pytest
from demo_model.grammar import load_grammar
from hypothesis import given
from hypothesis import strategies as st

from fairtk import demo

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(demo.model_folder())


@given(text=st.text(max_size=60))
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.unk_token_id not in ids or "<unk>" in text
    if not any(special in text for special in ("<pad>", "</s>", "<unk>")):
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        assert tokenizer.convert_tokens_to_string(tokenizer.tokenize(text)) == text


def test_phrases_are_single_tokens(tokenizer):
    grammar = load_grammar()
    for tag in grammar.tags:
        assert len(tokenizer(tag)["input_ids"]) == 2  # the tag and </s>
        # a tag within a prompt is the same token
        assert tokenizer(f"it is {tag}.")["input_ids"][2] == tokenizer(tag)["input_ids"][0]
    assert len(tokenizer(grammar.question("").strip())["input_ids"]) == 2
    assert tokenizer.model_max_length == 512


def test_a_phrase_inside_a_word_is_no_phrase(tokenizer):
    phrase = tokenizer("true story")["input_ids"][0]
    assert phrase in tokenizer("a true story, told")["input_ids"]
    assert phrase not in tokenizer("a true storybook")["input_ids"]


def test_packaged_prompts_fit(tokenizer):
    data = demo.load()
    longest = max(len(ids) for ids in tokenizer(data.candidates["text"].tolist())["input_ids"])
    assert longest < 80
    questions = tokenizer(data.topics["question"].tolist())["input_ids"]
    # five entries with their fixed words, and the question
    assert 5 * (longest + 5) + max(len(ids) for ids in questions) <= 512
