"""CTranslate2: the answers of transformers, from a model that is converted and checked."""

import json

import numpy as np
import pytest
from model_answers import answers_of

pytest.importorskip("ctranslate2")

from fairtk import demo
from fairtk.errors import MissingExtraError, ModelError, ParameterError
from fairtk.experiment.identity import describe_stage
from fairtk.llm import CTranslate2Seq2Seq, HuggingFaceSeq2Seq
from fairtk.llm import ct2 as conversion
from fairtk.transformers import Generator

PROMPTS = [f"question {word} for title {other}" for word in ("harbour", "willow", "sparse")
           for other in ("copper", "movie", "meadow market gentle tensor", "a")]  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Keep converted models of all tests in one folder of this run."""
    folder = tmp_path_factory.getbasetemp() / "converted"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "fairtk" / "ctranslate2"


@pytest.mark.slow
@pytest.mark.parametrize("num_beams", [1, 2, 4])
def test_answers_are_those_of_transformers(t5_folder, num_beams):
    settings = {"num_beams": num_beams, "max_new_tokens": 12, "device": "cpu"}
    slow = answers_of(HuggingFaceSeq2Seq(str(t5_folder), **settings), PROMPTS)
    fast = answers_of(CTranslate2Seq2Seq(str(t5_folder), **settings), PROMPTS)
    assert len(set(slow)) > 3
    assert fast == slow


@pytest.mark.slow
def test_the_packaged_model_answers_alike():
    data = demo.load()
    prompts = [f"{t} description: {d}" for t, d in zip(data.topics["question"][:24],
               data.candidates["text"][:24], strict=True)]  # fmt: skip
    settings = {"max_new_tokens": 8, "device": "cpu"}
    slow = answers_of(HuggingFaceSeq2Seq(str(demo.model_folder()), **settings), prompts)
    assert answers_of(CTranslate2Seq2Seq(str(demo.model_folder()), **settings), prompts) == slow


@pytest.mark.slow
def test_a_model_is_converted_once_and_by_its_content(t5_folder, cache):
    answers_of(CTranslate2Seq2Seq(str(t5_folder), max_new_tokens=2), PROMPTS[:1])
    digest = CTranslate2Seq2Seq(str(t5_folder)).content_digest()
    (folder,) = cache.glob(f"{digest}-*")
    before = (folder / "model.bin").stat().st_mtime_ns
    answers_of(CTranslate2Seq2Seq(str(t5_folder), max_new_tokens=2), PROMPTS[:1])
    assert (folder / "model.bin").stat().st_mtime_ns == before
    assert not list(cache.glob(".converting*"))


@pytest.mark.slow
def test_scores_that_differ_are_refused(t5_folder, cache):
    answers_of(CTranslate2Seq2Seq(str(t5_folder), max_new_tokens=2), PROMPTS[:1])
    digest = CTranslate2Seq2Seq(str(t5_folder)).content_digest()
    (probe,) = cache.glob(f"{digest}-*/probe.json")
    content = probe.read_text()
    settings = json.loads(content)
    settings["scores"][0] -= 0.1
    probe.write_text(json.dumps(settings))
    try:
        with pytest.raises(ModelError, match="0.*1"):
            answers_of(CTranslate2Seq2Seq(str(t5_folder), max_new_tokens=2), PROMPTS[:1])
    finally:
        probe.write_text(content)


def test_the_probe_notices_scaled_logits(t5_folder, tmp_path, monkeypatch):
    """The converter's fault with transformers 5: logits of an untied T5 are scaled."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained(t5_folder)
    tokenizer = AutoTokenizer.from_pretrained(t5_folder)
    right = conversion._probe(model, tokenizer)
    with torch.inference_mode():
        model.lm_head.weight.mul_(model.config.d_model**-0.5)
    wrong = conversion._probe(model, tokenizer)
    apart = np.abs(np.subtract(right["scores"][:1], wrong["scores"][:1])).max()
    assert apart > 10 * conversion.TOLERANCE


def test_other_versions_are_refused(t5_folder, monkeypatch):
    monkeypatch.setattr(conversion.metadata, "version", lambda name: "4.9.1")
    with pytest.raises(ModelError, match="got 4"):
        CTranslate2Seq2Seq(str(t5_folder))

    def none(name):
        raise conversion.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(conversion.metadata, "version", none)
    with pytest.raises(MissingExtraError):
        CTranslate2Seq2Seq(str(t5_folder))


@pytest.mark.slow
def test_it_runs_beside_pisa(t5_folder, tmp_path):
    """In one process the two libraries crash, whichever comes second."""
    pisa = pytest.importorskip("pyterrier_pisa", reason="no wheel for this platform")
    fast = CTranslate2Seq2Seq(str(t5_folder), max_new_tokens=4)
    before = answers_of(fast, PROMPTS)
    index = pisa.PisaIndex(str(tmp_path / "index"), text_field="text")
    index.index([{"docno": str(n), "text": text} for n, text in enumerate(PROMPTS)])
    assert len(index.bm25().search("harbour")) == 4
    assert answers_of(fast, PROMPTS) == before


@pytest.mark.slow
def test_a_process_that_died_is_said(t5_folder):
    fast = CTranslate2Seq2Seq(str(t5_folder), max_new_tokens=2)
    answers_of(fast, PROMPTS[:1])
    fast._translator._interpreter.process.kill()
    with pytest.raises(ModelError, match=r"has ended \(exit code -9\)"):
        answers_of(fast, PROMPTS[:1])


def test_float32_alone(t5_folder):
    with pytest.raises(ParameterError, match="'float32'.*'float16'"):
        CTranslate2Seq2Seq(str(t5_folder), dtype="float16")


@pytest.mark.slow
def test_models_that_cannot_be_converted_are_said(llama_folder):
    with pytest.raises(ModelError):
        answers_of(CTranslate2Seq2Seq(str(llama_folder), max_new_tokens=2), ["harbour"])


def test_an_experiment_knows_the_version(t5_folder):
    text = json.dumps(describe_stage(Generator(CTranslate2Seq2Seq(str(t5_folder)))), default=str)
    assert "CTranslate2Seq2Seq" in text and "ctranslate2" in text
