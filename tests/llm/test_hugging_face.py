"""The Hugging Face backends on real (tiny, random) models."""

from __future__ import annotations

import pickle
import random
import shutil

import numpy as np
import pytest
import tiny_models
import torch
from model_answers import answers_of
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from fairtk.errors import ModelError, ParameterError
from fairtk.llm import Chat, Completion, Failure, HuggingFaceCausal, HuggingFaceSeq2Seq, Message
from fairtk.llm.chat import questions
from fairtk.llm.hugging_face import GumbelNoise

NEW = 8


def some_prompts(n=20, longest=9):
    rng = random.Random(7)
    return [" ".join(rng.choices(tiny_models.WORDS, k=rng.randint(1, longest))) for _ in range(n)]


def one_at_a_time(auto_class, folder, prompts, beams, tokenize=None):
    """The reference: transformers' own generate, a prompt at a time, no padding."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = auto_class.from_pretrained(folder)
    answers = []
    for prompt in prompts:
        text = prompt if tokenize is None else tokenize(tokenizer, prompt)
        inputs = tokenizer(text, return_tensors="pt", add_special_tokens=tokenize is None)
        with torch.inference_mode():
            output = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                num_beams=beams,
                do_sample=False,
                max_new_tokens=NEW,
            )
        start = 0 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        answers.append(tokenizer.decode(output[0][start:], skip_special_tokens=True).strip())
    return answers


@pytest.mark.parametrize("beams", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_batches_give_the_answers_of_one_prompt_at_a_time(t5_folder, beams):
    prompts = some_prompts()
    expected = one_at_a_time(AutoModelForSeq2SeqLM, t5_folder, prompts, beams)
    assert len(set(expected)) > 8  # the model does answer differently
    for batch_tokens in (None, 1, 100):
        backend = HuggingFaceSeq2Seq(
            t5_folder, num_beams=beams, max_new_tokens=NEW, batch_tokens=batch_tokens
        )
        assert answers_of(backend, prompts) == expected


def test_the_beams_of_a_t5_read_one_copy_of_their_prompt(t5_folder, monkeypatch):
    backend = HuggingFaceSeq2Seq(t5_folder, num_beams=4, max_new_tokens=NEW)
    given = []
    inner = backend._model.generate
    monkeypatch.setattr(
        backend._model, "generate", lambda **inputs: given.append(inputs) or inner(**inputs)
    )
    answers_of(backend, some_prompts(6))
    keys = given[0]["past_key_values"].cross_attention_cache.layers[0].keys
    assert len(keys) == len(given[0]["attention_mask"]) == 6


def test_what_was_counted_is_not_tokenized_again(t5_folder, monkeypatch):
    monkeypatch.setattr("fairtk.llm.tokenizers.MAX_CACHED", 12)
    tokenizer = HuggingFaceSeq2Seq(t5_folder).tokenizer
    asked = []
    inner = tokenizer.wrapped
    tokenizer.wrapped = lambda text, **options: asked.append(text) or inner(text, **options)
    tokenizer.num_special_tokens_to_add = lambda: 1  # </s>
    first, second = "movie tag movie tag", "sparse movie tag is the title"
    assert tokenizer.count(first) == 4 == len(inner.tokenize(first))
    assert tokenizer.encode([first, second]) == inner([first, second])["input_ids"]
    assert asked == [first, second]
    tokenizer.count(second)  # 5 + 7 tokens are remembered
    tokenizer.count("tag")  # and 2 more push out the oldest
    tokenizer.count(first)
    assert asked == [first, second, "tag", first]


def test_texts_are_neither_cut_nor_padded_whatever_the_tokenizer_does(t5_folder):
    tokenizer = HuggingFaceSeq2Seq(t5_folder).tokenizer
    below, texts = tokenizer.wrapped.backend_tokenizer, some_prompts(6)
    whole = tokenizer.wrapped(texts)["input_ids"]
    for number, (text, ids) in enumerate(zip(texts, whole, strict=True)):
        if number % 3 == 0:  # the two that follow find it as the first has left it
            below.enable_truncation(2)
            below.enable_padding(length=50)
        assert tokenizer.encode([text]) == [ids]


def test_out_of_memory_halves_the_batches_and_loses_nothing(t5_folder, monkeypatch):
    prompts = some_prompts(20)
    backend = HuggingFaceSeq2Seq(t5_folder, max_new_tokens=NEW)
    expected = answers_of(backend, prompts)
    inner, tried = backend._model.generate, []

    def small_memory(**inputs):
        tried.append(len(inputs["attention_mask"]))
        if tried[-1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return inner(**inputs)

    monkeypatch.setattr(backend._model, "generate", small_memory)
    assert answers_of(backend, prompts) == expected
    # 20 fails, 10 fails, 5 fails; after that no batch as large is tried again
    assert [size for size in tried if size > 3] == sorted(
        (size for size in tried if size > 3), reverse=True
    )
    assert sum(size for size in tried if size <= 3) == len(prompts)

    def no_memory(**inputs):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    monkeypatch.setattr(backend._model, "generate", no_memory)
    with pytest.raises(ModelError):
        answers_of(backend, prompts)


def test_other_runtime_errors_are_not_swallowed(t5_folder, monkeypatch):
    backend = HuggingFaceSeq2Seq(t5_folder)

    def broken(**inputs):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(backend._model, "generate", broken)
    with pytest.raises(RuntimeError, match="mat1"):
        answers_of(backend, ["movie"])


def test_a_prompt_that_is_too_long_is_a_failure_that_cannot_pass(t5_folder):
    backend = HuggingFaceSeq2Seq(t5_folder, max_new_tokens=NEW)
    window = tiny_models.WINDOW
    fits = " ".join(["movie"] * window)  # 64 tokens and </s>: the published code's longest
    answers_of(backend, [fits])
    first, long, last = backend.complete(questions(["movie", fits + " movie", "tag"]))
    assert isinstance(long, Failure) and not long.can_pass
    assert "64 tokens, got 66" in long.reason
    assert [first.text, last.text] == answers_of(backend, ["movie", "tag"])
    longer = HuggingFaceSeq2Seq(t5_folder, max_new_tokens=NEW, max_prompt_tokens=100)
    assert longer.tokenizer.model_max_length == 100
    assert len(answers_of(longer, [fits + " movie"])) == 1


def test_the_window_comes_from_the_tokenizer_then_from_the_model(t5_folder, tmp_path):
    assert HuggingFaceSeq2Seq(t5_folder).tokenizer.model_max_length == tiny_models.WINDOW
    unlimited = tiny_models.save_t5(tmp_path / "t5", window=10**30)
    tokenizer = HuggingFaceSeq2Seq(unlimited).tokenizer
    assert tokenizer.model_max_length >= 10**9
    assert tokenizer.num_special_tokens_to_add() == 1
    assert tokenizer.convert_tokens_to_string(tokenizer.tokenize("movie tag")) == "movie tag"


def test_sampling_defaults_of_the_model_are_ignored(t5_folder, tmp_path):
    folder = shutil.copytree(t5_folder, tmp_path / "sampling")
    (folder / "generation_config.json").write_text(
        '{"do_sample": true, "temperature": 0.3, "top_k": 5, "max_length": 3, "num_beams": 2,'
        ' "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}'
    )
    prompts = some_prompts(5)
    expected = answers_of(HuggingFaceSeq2Seq(t5_folder, max_new_tokens=NEW), prompts)
    assert answers_of(HuggingFaceSeq2Seq(folder, max_new_tokens=NEW), prompts) == expected


def test_settings_travel_without_the_model(t5_folder):
    backend = HuggingFaceSeq2Seq(t5_folder, max_new_tokens=NEW)
    answers = answers_of(backend, ["movie tag"])
    copy = pickle.loads(pickle.dumps(backend))
    assert copy == backend and hash(copy) == hash(backend)
    assert "_model" not in vars(copy) and "_model" in vars(backend)
    assert answers_of(copy, ["movie tag"]) == answers


@pytest.mark.parametrize(
    "options",
    [
        {"num_beams": 0},
        {"batch_tokens": True},
        {"dtype": "float23"},
    ],
)
def test_settings_are_checked_at_once(options):
    with pytest.raises(ParameterError, match=rf"\b{[*options][-1]}\b"):
        HuggingFaceSeq2Seq("anything", **options)


def test_unknown_device(t5_folder):
    with pytest.raises(ParameterError, match="'gpu'"):
        answers_of(HuggingFaceSeq2Seq(t5_folder, device="gpu"), ["movie"])


@pytest.mark.parametrize("beams", [1, 3])
def test_causal_answers_are_those_of_one_prompt_at_a_time(llama_folder, beams):
    prompts = some_prompts(12)
    expected = one_at_a_time(AutoModelForCausalLM, llama_folder, prompts, beams)
    assert len(set(expected)) > 5
    backend = HuggingFaceCausal(llama_folder, num_beams=beams, max_new_tokens=NEW)
    assert answers_of(backend, prompts) == expected
    # 64 positions less the answer
    assert backend.tokenizer.model_max_length == tiny_models.WINDOW - NEW


def test_causal_uses_the_chat_template(tmp_path):
    template = (
        "{% for m in messages %}question {{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %} answer{% endif %}"
    )
    folder = tiny_models.save_llama(tmp_path / "chat", chat_template=template)
    prompts = some_prompts(6)
    expected = one_at_a_time(
        AutoModelForCausalLM, folder, prompts, 1, lambda _, prompt: f"question {prompt} answer"
    )
    backend = HuggingFaceCausal(folder, max_new_tokens=NEW)
    assert answers_of(backend, prompts) == expected
    plain = HuggingFaceCausal(tiny_models.save_llama(tmp_path / "plain"), max_new_tokens=NEW)
    assert backend.tokenizer.model_max_length < plain.tokenizer.model_max_length


TEMPLATES = {
    "roles": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}answer",
    "no system": (
        "{% for m in messages %}{% if m['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}"
        "user: {{ m['content'] }} {% endfor %}answer"
    ),
    "drops it": (
        "{% for m in messages if m['role'] == 'user' %}user: {{ m['content'] }} {% endfor %}answer"
    ),
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("roles", "system: harbour user: movie answer"),
        ("no system", "user: harbour\n\nmovie answer"),
        ("drops it", "user: harbour\n\nmovie answer"),
    ],
)
def test_a_chat_keeps_its_system_message(tmp_path, template, expected):
    folder = tiny_models.save_llama(tmp_path / "chat", chat_template=TEMPLATES[template])
    backend = HuggingFaceCausal(folder, max_new_tokens=NEW)
    messages = (Message("system", "harbour"), Message("user", "movie"))
    assert backend._formatted(messages) == expected
    [answer] = one_at_a_time(AutoModelForCausalLM, folder, ["x"], 1, lambda *_: expected)
    [outcome] = backend.complete([Chat(messages)])
    assert isinstance(outcome, Completion) and outcome.text == answer


def test_a_sampled_answer_depends_on_seed_and_prompt_alone(llama_folder):
    prompts = some_prompts(12)

    def sampling(temperature=0.7, seed=3, batch_tokens=None):
        settings = {"temperature": temperature, "seed": seed, "batch_tokens": batch_tokens}
        return HuggingFaceCausal(llama_folder, max_new_tokens=NEW, **settings)

    answers = {}
    for batch_tokens in (1, 60, None):
        model = sampling(batch_tokens=batch_tokens)
        answers[batch_tokens] = answers_of(model, prompts)
        assert (len(model.batches(questions(prompts))) > 1) == (batch_tokens is not None)
    assert answers[1] == answers[60] == answers[None]
    assert answers_of(sampling(), prompts[::-1]) == answers[1][::-1]
    other = answers_of(sampling(seed=4), prompts)
    assert sum(a != b for a, b in zip(answers[1], other, strict=True)) > 6
    # without noise to speak of, the best token is chosen
    assert answers_of(sampling(1e-6), prompts) == answers_of(sampling(0.0), prompts)


def test_noise_makes_draws_from_the_softmax():
    # logits log(1), log(2), log(5) at T = 0.5: weights 1, 4, 25; shares 1/30, 4/30, 25/30
    scores = torch.log(torch.tensor([[1.0, 2.0, 5.0]])).repeat(6000, 1)
    noisy = GumbelNoise(0.5, 1, [[number] for number in range(6000)])(None, scores)
    shares = np.bincount(noisy.argmax(dim=1).numpy(), minlength=3) / 6000
    # four standard errors: 4 * sqrt(p (1 - p) / 6000) is at most 0.02
    assert np.abs(shares - np.array([1, 4, 25]) / 30).max() < 0.02


def test_half_precision_runs(t5_folder):
    backend = HuggingFaceSeq2Seq(t5_folder, dtype="bfloat16", max_new_tokens=NEW)
    assert all(isinstance(answer, str) for answer in answers_of(backend, some_prompts(4)))
    assert next(backend._model.parameters()).dtype == torch.bfloat16


def test_loading_is_quiet_and_leaves_global_state_alone(t5_folder, capfd):
    state = torch.get_rng_state()
    numbers = np.random.get_state()[1].copy()
    answers_of(HuggingFaceSeq2Seq(t5_folder, max_new_tokens=NEW), ["movie tag " * 15])
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""
    assert torch.equal(state, torch.get_rng_state())
    assert (numbers == np.random.get_state()[1]).all()
