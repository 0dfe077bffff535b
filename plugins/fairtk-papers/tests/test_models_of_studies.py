"""The models of studies: kinds that plugins give, and words for settings that are left out."""

from __future__ import annotations

import pytest
from fairtk_papers.fair_qr.systems import make_model
from fairtk_papers.fair_rag import make_generator
from fairtk_papers.studies import with_none
from lab_models import lab_fixture  # noqa: F401
from model_answers import answers_of

from fairtk import Generator, demo
from fairtk.errors import NotFoundError, ParameterError


def test_models_of_a_plugins_kind(lab):
    settings = {"device": "cuda:0", "dtype": "bfloat16", "revision": "main", "cutoff": 3}
    generator = make_generator("lab:x", **settings)(2, 4)
    assert type(generator) is Generator and generator.cutoff == 4
    assert {name: getattr(generator.llm.source, name) for name in settings} == settings
    assert answers_of(generator.llm, ["a"]) == ["x: a"]
    assert make_generator("lab-float16:x")(2, 4).llm.source.dtype == "float16"
    assert make_model({"backend": "lab", "model": "x"}).name == "x"
    assert make_model({"backend": "lab-server", "model": "x"}).name == "x"
    with pytest.raises(ParameterError, match="'lab'"):
        make_generator("lab")
    with pytest.raises(NotFoundError, match="'lab'"):
        make_generator("labb:x")
    with pytest.raises(NotFoundError, match="'devise'.*'device'"):
        make_generator("lab:x", devise="cpu")


def test_studies_use_a_plugins_kind(lab, fairtk, tmp_path):
    words = ("rag", demo.collection_folder(), "-t", 2, "-g", "lab:X", "--limit", 4, "-n", 2)
    planned = fairtk(*words, "-o", "o", "--dry-run")
    assert planned.exit_code == 0 and "X" in planned.output
    assert not (tmp_path / "o").exists()
    for command in ("rag", "qr"):
        text = " ".join(fairtk(command, "--help").output.split())
        assert "lab (the lab's models)" in text and "openai (any server" in text


@pytest.mark.parametrize("name", ["temperature", "max_tokens", "extra_body", "reasoning_effort"])
def test_words_for_nothing(name):
    none = "" if name == "reasoning_effort" else "none"  # which is a word for an effort
    assert with_none({name: none}) == {name: None}
    assert with_none({name: "low"}) == {name: "low"}
