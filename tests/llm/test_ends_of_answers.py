"""Each kind of model says why an answer ended, and a ledger keeps it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from chat_clients import chats, client
from chat_server import serving

from fairtk.batch.lines import answer_lines
from fairtk.llm import (
    Completion,
    CTranslate2Seq2Seq,
    FunctionModel,
    HuggingFaceCausal,
    HuggingFaceSeq2Seq,
    Ledger,
)
from fairtk.llm.chat import questions
from fairtk.llm.reading import read

PROMPTS = [f"{word} is the movie" for word in ("harbour", "lantern", "willow", "vector", "marble")]
LOCAL = {"causal": HuggingFaceCausal, "seq2seq": HuggingFaceSeq2Seq, "ct2": CTranslate2Seq2Seq}


def statuses(model, prompts=PROMPTS):
    return [read(outcome, "?").status for outcome in model.complete(questions(prompts))]


@pytest.fixture(scope="session")
def loaded(request):
    """The models by kind and number of beams, loaded once; tests change only their limit."""
    models = {}

    def get(kind, num_beams):
        if (kind, num_beams) not in models:
            folder = request.getfixturevalue("llama_folder" if kind == "causal" else "t5_folder")
            options = {"num_beams": num_beams, "device": "cpu", "dtype": "float32"}
            models[kind, num_beams] = LOCAL[kind](str(folder), **options)
        return models[kind, num_beams]

    return get


KINDS = ["causal", "seq2seq", pytest.param("ct2", marks=pytest.mark.slow)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_beams", [1, 2])
def test_a_local_model_says_whether_its_answer_was_cut(loaded, kind, num_beams, monkeypatch):
    if kind == "ct2":
        pytest.importorskip("ctranslate2")
    model = loaded(kind, num_beams)
    by_length = {}
    for n_tokens in (1, 4, 24):
        monkeypatch.setattr(model, "max_new_tokens", n_tokens)
        outcomes = model.complete(questions(PROMPTS))
        by_length[n_tokens] = [outcome.finish for outcome in outcomes]
        assert {*by_length[n_tokens]} <= {"stop", "length"}
        if kind != "ct2":
            assert by_length[n_tokens] == oracle(model, PROMPTS)
    # a random model does not end its answer with the first token
    assert by_length[1] == ["length"] * len(PROMPTS)


def oracle(model, prompts):
    """Return the ends of answers by one call of transformers per prompt."""
    import torch

    ends = []
    for row in model._encode(chats(*prompts)):
        output = model._model.generate(
            torch.tensor([row]), max_new_tokens=model.max_new_tokens, num_beams=model.num_beams
        )[0].tolist()
        new = output[len(row) :] if model.PADDED == "left" else output[1:]
        ends.append("stop" if model._tokenizer.eos_token_id in new else "length")
    return ends


def test_an_answer_that_ends_with_its_last_token_is_whole(loaded, monkeypatch):
    """The model is forced to end: the answer has max_new_tokens tokens, the last one </s>."""
    model = loaded("seq2seq", 1)
    monkeypatch.setattr(model, "max_new_tokens", 3)
    monkeypatch.setattr(model._model.generation_config, "forced_eos_token_id", 1)
    assert statuses(model) == ["ok"] * len(PROMPTS)


@pytest.mark.slow
def test_ctranslate2_ends_as_transformers(t5_folder):
    pytest.importorskip("ctranslate2")
    options = {"max_new_tokens": 12, "num_beams": 1, "device": "cpu", "dtype": "float32"}
    prompts = [f"{a} {b}" for a in ("harbour", "kernel", "gentle") for b in ("tag", "movie", "is")]
    one, other = (
        cls(str(t5_folder), **options).complete(questions(prompts))
        for cls in (HuggingFaceSeq2Seq, CTranslate2Seq2Seq)
    )
    assert [o.finish for o in one] == [o.finish for o in other]


REPLIES = {
    "whole": ({"text": "Paris"}, "ok"),
    "long": ({"text": "Paris is the capital of Fra", "finish": "length"}, "cut"),
    "none": ({"text": ""}, "empty"),
    "refused": ({"refusal": "No."}, "refused"),
    "filtered": ({"text": "Par", "finish": "content_filter"}, "filtered"),
    "thought": ({"text": "<think>London"}, "thought only"),
}


def test_a_server_and_its_ledger(tmp_path, monkeypatch):
    with serving(lambda prompt, _: REPLIES[prompt][0]) as server:
        model = client(server)
        expected = [status for _, status in REPLIES.values()]
        assert statuses(model, REPLIES) == expected
        with Ledger(tmp_path / "a.sqlite") as ledger:
            assert statuses(ledger.wrap(model), REPLIES) == expected
        before = sum(server.counts.values())
        with Ledger(tmp_path / "a.sqlite") as ledger:
            assert statuses(ledger.wrap(model), REPLIES) == expected
            assert sum(server.counts.values()) == before  # recorded
        with Ledger(tmp_path / "a.sqlite", retry_unusable=True) as ledger:
            assert statuses(ledger.wrap(model), REPLIES) == expected
        assert sum(server.counts.values()) == before + len(REPLIES) - 1  # all but the whole answer


def test_lines_of_a_batch(tmp_path):
    path = tmp_path / "lines.jsonl"
    lines = []
    for name, (reply, _) in REPLIES.items():
        message = {"content": reply.get("text"), "refusal": reply.get("refusal")}
        choice = {"message": message, "finish_reason": reply.get("finish", "stop")}
        response = {"status_code": 200, "body": {"model": "toy", "choices": [choice]}}
        lines.append(json.dumps({"custom_id": name, "response": response}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    actual = [read(line.answer, "?").status for line in answer_lines(path)]
    assert actual == [status for _, status in REPLIES.values()]


def test_a_function_may_return_completions():
    ends = {"whole": "stop", "long": "length", "filtered": "content_filter"}
    model = FunctionModel(lambda prompts: [Completion("Par", finish=ends[p]) for p in prompts])
    assert statuses(model, ends) == ["ok", "cut", "filtered"]
    assert statuses(FunctionModel(lambda prompts: ["Paris"] * len(prompts)), ["?"]) == ["ok"]


def test_a_prompt_that_the_server_cut_is_requested_again(tmp_path):
    """16,000 words sent, 2,048 tokens read: less than half, until the server is fixed."""
    tokens = [2048]

    def rule(prompt, count):
        choice = {"message": {"content": "Paris"}, "finish_reason": "stop"}
        body = {"choices": [choice], "usage": {"prompt_tokens": tokens[0]}}
        return {"body": json.dumps(body).encode()}

    prompt = "word " * 16_000
    path = tmp_path / "a.sqlite"
    with serving(rule) as server:
        for expected, n_tokens, retry, n_calls in (
            ("prompt cut", 2048, False, 1),
            ("prompt cut", 20_000, False, 1),  # recorded
            ("ok", 20_000, True, 2),
            ("ok", 2048, True, 2),  # it is usable now
        ):
            tokens[0] = n_tokens
            with Ledger(path, retry_unusable=retry) as ledger:
                [outcome] = ledger.wrap(client(server)).complete(questions([prompt]))
            assert read(outcome, prompt).status == expected
            assert sum(server.counts.values()) == n_calls


def test_ends_are_texts(loaded):
    model = loaded("seq2seq", 1)
    assert not any(isinstance(o.finish, np.str_) for o in model.complete(questions(PROMPTS)))
