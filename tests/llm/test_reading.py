"""Answers in the texts of models, and their statuses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk import Generator
from fairtk.errors import ParameterError
from fairtk.frames.answers import STATUSES
from fairtk.llm import Completion, Failure
from fairtk.llm.reading import after_thinking, check_reader, is_cut, is_usable, read
from fairtk.llm.replies import read_reply

READERS = ["plain", "after-thinking", "json:answer", str.upper]


@pytest.mark.parametrize(
    ("text", "answer", "status"),
    [
        ("<think>London? No.</think>\n\nParis", "Paris", "ok"),
        ("<think>London", "", "thought only"),
        ("London? No.</think>Paris", "Paris", "ok"),  # the template opened the thought
        ("<think>a</think>b<think>c</think> Paris ", "Paris", "ok"),
        ("<think>a</think>b<think>c", "", "thought only"),
        ("<think>\n\n</think>\n", "", "thought only"),
        ("[THINK]London?[/THINK]Paris", "Paris", "ok"),
        ("[THINK]London?", "", "thought only"),
        ("<Thinking>London?</Thinking> Paris", "Paris", "ok"),
        ("I think Paris", "I think Paris", "ok"),
        ("  ", "", "empty"),
    ],
)
def test_thoughts_are_no_answers(text, answer, status):
    assert read(Completion(text), "?") == (answer, status, "")
    assert read(Completion(text), "?", "plain").answer == text.strip()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('```json\n{"answer": "Paris"}\n```', "Paris"),
        ('Sure: {"answer": " Paris "} {"answer": "Lyon"}', "Paris"),
        ('{"reason": {"answer": "x"}, "answer": "Paris"}', "Paris"),
        ('{"result": {"answer": "Paris"}}', "Paris"),
        ('{"other": 1} {"answer": "Paris"}', "Paris"),
        ('a {brace} and {"answer": "Paris"}', "Paris"),
        ('<think>{"answer": "London"}</think>{"answer": "Paris"}', "Paris"),
        ('{"answer": 42}', "42"),
        ('{"answer": true}', "true"),
    ],
)
def test_the_value_of_a_key(text, answer):
    assert read(Completion(text), "?", "json:answer") == (answer, "ok", "")


@pytest.mark.parametrize(
    "text", ["Paris", '{"answer": "Par', '{"answer": null}', '{"answer": []}', "{" * 10_000]
)
def test_a_text_without_the_key_is_unreadable(text):
    reading = read(Completion(text), "?", "json:answer")
    assert (reading.answer, reading.status) == ("", "unreadable")
    assert "answer" in reading.problem


def fails(text):
    raise KeyError(text)


@pytest.mark.parametrize(
    ("function", "answer", "status", "word"),
    [
        (str.upper, "PARIS", "ok", ""),
        (fails, "", "unreadable", "KeyError"),
        (len, "", "unreadable", "5"),
        (lambda text: None, "", "unreadable", "None"),
        (lambda text: "", "", "empty", ""),
    ],
)
def test_a_function_reads_a_text(function, answer, status, word):
    reading = read(Completion("Paris"), "?", function)
    assert reading[:2] == (answer, status)
    assert word in reading.problem


@pytest.mark.parametrize("answer", ["json:", "json", "thinking", 3, None, ""])
def test_an_unknown_way_to_read(answer):
    with pytest.raises(ParameterError, match="answer"):
        check_reader(answer, "Generator")


@pytest.mark.parametrize(
    ("finish", "text", "status"),
    [
        ("length", "Paris is the capital of Fra", "cut"),
        ("length", "<think>London", "thought only"),
        ("length", "", "cut"),
        ("length", '{"answer": "Par', "cut"),
        ("content_filter", "Par", "filtered"),
        ("content_filter", "", "filtered"),
        ("refusal", "I cannot", "refused"),
        ("unreadable", "{}", "unreadable"),
        ("thought only", "", "thought only"),
        ("unknown", "Paris", "unknown"),
        ("unknown", "", "empty"),
        ("tool_calls", "", "empty"),
        ("eos", "Paris", "ok"),
    ],
)
def test_why_an_answer_ended(finish, text, status):
    reader = "json:answer" if text.startswith("{") else "after-thinking"
    assert read(Completion(text, finish=finish), "?", reader).status == status


@pytest.mark.parametrize(
    ("prompt", "cached", "status"),
    [
        (2048, None, "prompt cut"),  # 2,048 < 16,000 / 2
        (7999, None, "prompt cut"),
        (8000, None, "ok"),
        (2048, 5951, "prompt cut"),  # 7,999 tokens
        (2048, 5952, "ok"),
        (0, None, "ok"),
        (None, None, "ok"),  # the server reports no usage
        (0, 100, "prompt cut"),
        (-3, None, "ok"),
        ("2048", None, "ok"),
        (16_001, None, "ok"),
    ],
)
def test_prompts_that_the_server_has_cut(prompt, cached, status):
    completion = Completion("Paris", prompt, cached_tokens=cached)
    assert read(completion, "word " * 16_000).status == status
    assert is_usable(completion, "word " * 16_000) == (status == "ok")


@given(st.text(max_size=80), st.sampled_from([*STATUSES, "stop", "length"]))
def test_any_text_has_one_known_status(text, finish):
    for reader in READERS:
        answer, status, problem = read(Completion(text, finish=finish), "?", reader)
        assert status in STATUSES and answer == answer.strip()
        assert bool(answer) or status not in ("ok", "unknown")
        assert not problem or status == "unreadable"
    assert after_thinking(f"{text}</think> {text}") in (
        (text.strip(), False),
        *[after_thinking(text)],
        ("", True),
    )


def reply(message, finish="stop", **usage):
    body = {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}
    return read_reply(json.dumps(body).encode(), 0.0)


THOUGHT, TEXT = {"type": "thinking", "thinking": "London?"}, {"type": "text", "text": "Paris"}


@pytest.mark.parametrize(
    ("message", "finish", "answer", "status"),
    [
        ({"content": None, "reasoning_content": "London?"}, "stop", "", "thought only"),
        ({"content": "", "reasoning": "London?"}, "length", "", "thought only"),
        ({"content": "Paris", "reasoning_content": "London?"}, "stop", "Paris", "ok"),
        ({"content": ""}, "stop", "", "empty"),
        ({"content": None}, "stop", "", "empty"),
        ({"content": None, "tool_calls": [{}]}, "tool_calls", "", "empty"),
        ({"content": "Par"}, "content_filter", "Par", "filtered"),
        ({"content": ""}, "SAFETY", "", "filtered"),
        ({"content": "Par"}, "MAX_TOKENS", "Par", "cut"),
        ({"content": "Par"}, "model_length", "Par", "cut"),
        ({"content": None, "refusal": "No."}, "stop", "No.", "refused"),
        ({"content": [THOUGHT, TEXT]}, "stop", "Paris", "ok"),
        ({"content": [{**TEXT, "type": "reasoning"}, TEXT]}, "stop", "Paris", "ok"),
        ({"content": [THOUGHT]}, "stop", "", "thought only"),
        ({"content": [TEXT, {"type": "image_url"}]}, "stop", "", "unreadable"),
        ({"content": 7}, "stop", "", "unreadable"),
    ],
)
def test_responses_of_servers(message, finish, answer, status):
    completion = reply(message, finish)
    assert read(completion, "?")[:2] == (answer, status)
    assert is_cut(completion) == (finish in ("length", "MAX_TOKENS", "model_length"))


@pytest.mark.parametrize("text", ["Paris", "", "<think>London", "{", "<think></think>"])
@pytest.mark.parametrize("reader", READERS)
def test_an_answer_that_was_cut_may_be_a_failure_whatever_its_status(text, reader):
    generator = Generator(str.splitlines, answer=reader, on_cut="fail")
    assert isinstance(generator.read("?", Completion(text, finish="length")), Failure)
    assert generator.read("?", Completion(text)) == read(Completion(text), "?", reader)


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens": 4}, None),
        ({"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}, 3),
        ({"prompt_tokens": 4, "prompt_tokens_details": None}, None),
        ({"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": -3}}, None),
        ({"cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}, 5),
        ({"prompt_cache_hit_tokens": 3}, 3),
    ],
)
def test_tokens_that_a_server_has_in_its_cache(usage, cached):
    assert reply({"content": "Paris"}, **usage).cached_tokens == cached
