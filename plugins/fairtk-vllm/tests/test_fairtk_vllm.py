"""vLLM behind fairtk's contracts, by a module with vLLM 0.33's signatures (tests/fake)."""

import json
import pickle
import random

import pytest
import vllm
from fairtk_vllm import VLLMCausal, fairtk_chat_models
from tiny_llama import TEMPLATE, save_llama

import fairtk
from fairtk import Generator
from fairtk.errors import MissingExtraError, ModelError, ParameterError
from fairtk.experiment import describe_stage
from fairtk.llm import (
    Chat,
    Failure,
    HuggingFaceCausal,
    Message,
    build_model,
    parse_model,
)
from fairtk.llm.chat import questions
from fairtk.llm.models import ANSWERS
from fairtk.testing import ChatModelContract
from fairtk.testing.models import QUESTIONS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_llama(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    return save_llama(tmp_path_factory.mktemp("chat"), TEMPLATE)


def answers_of(model, prompts):
    return [outcome.text for outcome in model.complete(questions(prompts))]


def made(folder, **settings):
    return VLLMCausal(model=str(folder), max_new_tokens=6, **settings)


class TestModel(ChatModelContract):
    @pytest.fixture(autouse=True)
    def _set(self, folder):
        self.folder = folder

    def make(self):
        return made(self.folder)

    def others(self):
        return [
            VLLMCausal(model=str(self.folder), max_new_tokens=7),
            made(self.folder, dtype="float16"),
            made(self.folder, seed=1),
            made(self.folder, batch_invariant=False),
            made(self.folder, engine={"tensor_parallel_size": 2}),
            HuggingFaceCausal(model=str(self.folder), max_new_tokens=6),
        ]


class TestModelWithTemplate(TestModel):
    @pytest.fixture(autouse=True)
    def _set(self, chat_folder):
        self.folder = chat_folder


class TestSampled(TestModelWithTemplate):
    def make(self):
        return made(self.folder, temperature=0.7)

    def others(self):
        return [
            made(self.folder, temperature=0.7, seed=1),
            made(self.folder, temperature=0.7, dtype="float32"),
        ]


@pytest.mark.parametrize("name", ["folder", "chat_folder"])
def test_prompts_and_answers_are_those_of_transformers(name, request):
    """The fake generates by transformers, so equal token ids have equal answers."""
    place = request.getfixturevalue(name)
    ours, theirs = made(place), HuggingFaceCausal(model=str(place), max_new_tokens=6, device="cpu")
    assert answers_of(ours, QUESTIONS) == answers_of(theirs, QUESTIONS)
    assert ours.tokenizer.model_max_length == theirs.tokenizer.model_max_length
    messages = Message("system", "Be brief."), Message("user", "a question")
    answers = [model.complete([Chat(messages)])[0].text for model in (ours, theirs)]
    assert answers[0] == answers[1]


def test_what_vllm_is_given(folder):
    state = random.getstate()
    backend = made(folder, seed=3, engine={"tensor_parallel_size": 2, "max_num_seqs": 8})
    answers_of(backend, ["the title", "a question", "the market"])
    assert random.getstate() == state  # vLLM seeds it
    [engine] = vllm.loaded
    assert engine.arguments == {
        "dtype": "bfloat16",
        "seed": 3,
        "tensor_parallel_size": 2,
        "trust_remote_code": False,
        "enable_prefix_caching": True,
        "load_format": "safetensors",
        "max_num_seqs": 8,
        "max_model_len": 200,  # 194 of the prompt and 6 of the answer
    }
    assert engine.environment == {
        "VLLM_BATCH_INVARIANT": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
    }
    assert {(p.temperature, p.seed, p.max_tokens) for p in engine.params} == {(0.0, 3, 6)}
    [rows] = engine.calls
    assert rows == sorted(rows)  # prompts with a common beginning are neighbors


def test_prompts_go_in_parts(folder):
    whole, parts = made(folder), made(folder, batch_tokens=40)
    assert answers_of(parts, QUESTIONS) == answers_of(whole, QUESTIONS)
    # that of parts came first
    assert [len(engine.calls) > 1 for engine in vllm.loaded] == [True, False]


def test_a_temperature_has_seeds_of_prompts(folder):
    warm = made(folder, temperature=0.7, seed=5)
    one = answers_of(warm, ["the title", "a question"])
    assert answers_of(warm, ["a question"]) == one[1:]
    answers_of(made(folder, temperature=0.7, seed=6), ["a question"])
    first, second, third = (params.seed for params in vllm.loaded[0].params)
    [other] = (params.seed for params in vllm.loaded[1].params)
    hot = warm.at_temperature(0.9)
    answers_of(hot, ["a question"])
    assert len(vllm.loaded) == 2  # loaded once for all temperatures
    assert len({first, second}) == 2 and third in (first, second) and other not in (first, second)


def test_identity_has_engine_and_flags(folder):
    stage = Generator(made(folder, engine={"max_num_seqs": 8}))
    text = json.dumps(describe_stage(stage))
    for part in ('"vllm": "0.33.0"', '"engine_version": "0.33.0"', '"batch_invariant": true'):
        assert part in text
    for part in ('"max_num_seqs": 8', '"dtype": "bfloat16"', '"seed": 0', '"device": "cuda"'):
        assert part in text
    parameters = made(folder).parameters()
    assert parameters["engine_version"] == "0.33.0" and parameters["batch_invariant"] is True
    assert "model" not in parameters and parameters["content"]


@pytest.mark.parametrize(
    ("capability", "variable", "expected"),
    [((8, 0), None, True), ((7, 5), None, False), (None, None, False), ((9, 0), "0", False)],
)
def test_batch_invariance_where_the_device_has_it(
    folder, monkeypatch, capability, variable, expected
):
    monkeypatch.setattr("vllm.platforms.current_platform.capability", capability)
    if variable is not None:
        monkeypatch.setenv("VLLM_BATCH_INVARIANT", variable)
    backend = made(folder)
    assert backend.batch_invariant is expected
    answers_of(backend, ["a question"])
    assert vllm.loaded[0].environment["VLLM_BATCH_INVARIANT"] == str(int(expected))


def test_batch_invariance_that_cannot_be(folder, monkeypatch):
    monkeypatch.setattr("vllm.platforms.current_platform.capability", (7, 5))
    with pytest.raises(ModelError, match="8.*0"):
        answers_of(made(folder, batch_invariant=True), ["a question"])
    with pytest.raises(ModelError, match="VLLM_BATCH_INVARIANT=1"):
        answers_of(made(folder, batch_invariant=False), ["a question"])


@pytest.mark.parametrize(
    "name", ["google/flan-t5-small", "google/flan-t5-xxl", "t5-base", "google/mt5-small"]
)
def test_t5_stays_where_it_is(name):
    with pytest.raises(ModelError, match=rf"encoder-decoder .*\(ct2:{name}\).*\(t5:{name}\)"):
        build_model(*parse_model(f"vllm:{name}", ANSWERS, "generator"))


def test_an_encoder_decoder_of_another_name():
    with pytest.raises(ModelError):
        answers_of(made(fairtk.demo.model_folder()), ["a question"])


def test_the_hook_and_the_text(folder):
    [spec] = fairtk_chat_models()
    parsed, settings = parse_model(f"vllm-float16:{folder}", ANSWERS, "generator")
    backend = build_model(parsed, settings)
    assert parsed == spec and isinstance(backend, VLLMCausal) and backend.dtype == "float16"


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": "auto"},
        {"dtype": "int8"},
        {"device": "cpu"},
        {"num_beams": 4},
        {"seed": -1},
        {"engine": {"trust_remote_code": True}},
    ],
)
def test_settings_that_cannot_be(folder, settings):
    with pytest.raises(ParameterError, match=rf"\b{[*settings][-1]}\b"):
        made(folder, **settings)


def test_what_vllm_refuses_is_one_line(folder):
    with pytest.raises(ModelError):
        answers_of(made(folder, engine={"gpu_memory_utilization": 1.5}), ["a question"])
    with pytest.raises(ModelError):
        answers_of(made(folder, engine={"no_such": 1}), ["a question"])
    with pytest.raises(ModelError):
        answers_of(made(folder), [""])
    answer, failure = made(folder).complete(questions(["the title", "question " * 195]))
    assert isinstance(failure, Failure) and "194" in failure.reason


def test_another_version(folder, monkeypatch):
    travelled = pickle.loads(pickle.dumps(made(folder)))
    monkeypatch.setattr("fairtk_vllm.metadata.version", lambda name: "0.33.1")
    with pytest.raises(ModelError, match="33.*33"):
        answers_of(travelled, ["a question"])
    monkeypatch.setattr("fairtk_vllm.metadata.version", lambda name: "0.20.0")
    with pytest.raises(MissingExtraError, match="33, got 0.20"):
        made(folder)


def test_it_is_not_installed(folder, monkeypatch):
    def version(name):
        raise fairtk_metadata.PackageNotFoundError(name)

    from importlib import metadata as fairtk_metadata

    monkeypatch.setattr("fairtk_vllm.metadata.version", version)
    with pytest.raises(MissingExtraError):
        made(folder)
