"""Models by strings: the kinds that plugins give, and nothing else lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lab_models import lab_fixture  # noqa: F401
from model_answers import answers_of

import fairtk
from fairtk import hookimpl, plugins
from fairtk.errors import NotFoundError, ParameterError, PluginError
from fairtk.llm import (
    HuggingFaceCausal,
    KeywordRefiner,
    OpenAICompatible,
    build_model,
    list_model_kinds,
    parse_model,
)
from fairtk.llm.models import ANSWERS, REFINEMENT
from fairtk.plugins import ChatModelSpec

KEPT = {"t5", "ct2", "causal", "openai"}


def test_what_the_built_in_kinds_are_good_for():
    assert set(list_model_kinds(ANSWERS)) == KEPT
    assert set(list_model_kinds(REFINEMENT)) == KEPT | {"keyword"}
    servers = [name for name, spec in list_model_kinds(ANSWERS).items() if spec.server]
    assert servers == ["openai"]


def test_strings():
    spec, settings = parse_model("t5-bfloat16:a/b:c", ANSWERS, "generator")
    assert (spec.name, settings) == ("t5", {"model": "a/b:c", "dtype": "bfloat16"})
    assert parse_model("keyword:my.tsv", REFINEMENT, "model")[1] == {"table": "my.tsv"}
    assert parse_model("keyword", REFINEMENT, "model")[1] == {}
    with pytest.raises(ParameterError):
        parse_model("openai:", ANSWERS, "generator")
    with pytest.raises(NotFoundError, match="'casual'.*'causal'"):
        parse_model("casual:x", ANSWERS, "generator")
    with pytest.raises(NotFoundError, match="'keyword'"):  # it refines queries
        parse_model("keyword", ANSWERS, "generator")
    with pytest.raises(NotFoundError):
        parse_model("no-such:thing", ANSWERS, "generator")


def test_models_from_settings():
    kinds = list_model_kinds(REFINEMENT)
    assert isinstance(build_model(kinds["keyword"], {}), KeywordRefiner)
    assert isinstance(build_model(kinds["openai"], {"model": "m"}), OpenAICompatible)
    chat = build_model(kinds["causal"], {"model": "never/loaded", "temperature": 0.5})
    assert isinstance(chat, HuggingFaceCausal) and chat.temperature == 0.5
    with pytest.raises(NotFoundError, match="'num_beam'"):
        build_model(kinds["causal"], {"model": "never/loaded", "num_beam": 2})
    with pytest.raises(NotFoundError, match="'temprature'"):
        build_model(kinds["ct2"], {"model": "never/loaded", "temprature": 2})
    with pytest.raises(ParameterError, match="model is required"):
        build_model(kinds["openai"], {})


def test_a_plugin_adds_a_kind(lab):
    settings = {"device": "cuda:0", "dtype": "bfloat16", "revision": "main", "cutoff": 3}
    spec, chosen = parse_model("lab:x", ANSWERS, "generator")
    backend = build_model(spec, {**chosen, **settings})
    assert {name: getattr(backend.source, name) for name in settings} == settings
    assert answers_of(backend, ["a"]) == ["x: a"]
    spec, chosen = parse_model("lab-float16:x", ANSWERS, "generator")
    assert build_model(spec, chosen).source.dtype == "float16"
    with pytest.raises(ParameterError, match="'lab'"):
        parse_model("lab", ANSWERS, "generator")
    with pytest.raises(NotFoundError, match="'lab'"):
        parse_model("labb:x", ANSWERS, "generator")
    with pytest.raises(NotFoundError, match="'devise'.*'device'"):
        build_model(spec, {**chosen, "devise": "cpu"})
    [mine] = [plugin for plugin in plugins.loaded_plugins() if plugin.name == "fairtk-lab"]
    assert mine.gave == {"fairtk_chat_models": ["lab", "lab-server"]}


def test_a_kind_means_one_thing(lab):
    class Other:
        @staticmethod
        @hookimpl
        def fairtk_chat_models():
            return [ChatModelSpec("lab", "fairtk.llm:OpenAICompatible", "another")]

    with pytest.raises(PluginError, match="'lab'"):
        plugins.register(Other(), "fairtk-other")


def test_nothing_else_lists_the_kinds():
    """No other file of the package has the words of two kinds beside each other."""
    package = Path(fairtk.__file__).parent
    pair = re.compile(r"\b(t5|ct2|causal|openai|keyword)\b\W+(t5|ct2|causal|openai|keyword)\b")
    listing = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name != "builtin.py" and pair.search(path.read_text(encoding="utf-8"))
    ]
    assert listing == []
