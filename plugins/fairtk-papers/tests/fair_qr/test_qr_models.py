"""A study with models as they are: servers that refuse parameters, odd answers, other prompts."""

from __future__ import annotations

import warnings

import pytest
import qr_world
from chat_server import serving

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("openai")

from fairtk import hookimpl, plugins
from fairtk.errors import DataWarning, ParameterError
from fairtk.experiment import describe_stage
from fairtk.llm import KeywordRefiner
from fairtk.llm.refinement import RefinementPrompt
from fairtk.plugins.registry import PromptSpec
from fairtk.prompts import get

ONLY = {"systems": ("fair-qr",), "variations": {}, "tuning": {}}


class Short(RefinementPrompt):
    """A plugin's prompt: fewer words."""

    name = "short"


class ShortPrompt:
    @hookimpl
    def fairtk_prompts(self):
        return [PromptSpec("short", "test_qr_models:Short", "fewer words")]


def test_an_answer_that_helps_no_topic(gender, tmp_path, client):
    # words that no document has
    with serving(lambda *_: "महिला, निर्देशक") as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        results = qr_world.study(gender, tmp_path, client(server), **ONLY).run()
    assert results.table.set_index("system").loc["fair-qr", "missing"] == 0


@pytest.mark.slow
def test_prompts_by_name_with_options_and_of_plugins(gender, tmp_path, client):
    plugin = ShortPrompt()
    plugins.register(plugin, "fairtk-short", "1.0")
    try:
        keys = set()
        for number, prompt in enumerate(("refine", "short", {"name": "short", "max_keywords": 3})):
            fair_qr = {"prompt": prompt}
            folder = tmp_path / str(number)
            study = qr_world.study(gender, folder, KeywordRefiner(), fair_qr=fair_qr, **ONLY)
            study.run()
            [stage] = study.stages(next(cell for cell in study.cells if cell.refines)).values()
            keys.add(str(describe_stage(stage)))
            [text, *_] = qr_world.paid(folder / "experiment.sqlite")
            assert ("3 words at most" in text) == (number == 2)
        assert len(keys) == 3
    finally:
        plugins.unregister(plugin)
    with pytest.raises(ParameterError, match="'max_keyword'"):
        wrong = {"prompt": {"name": "refine", "max_keyword": 3}}
        qr_world.study(gender, tmp_path, KeywordRefiner(), fair_qr=wrong, **ONLY)
    with pytest.raises(ParameterError, match="prompt"):
        qr_world.study(gender, tmp_path, KeywordRefiner(), fair_qr={"prompt": {}}, **ONLY)


class Plain:
    """A prompt without a digest."""

    name = "plain"

    def __call__(self, request):
        return get("refine")(request)

    def answer(self, text):
        return text


def test_models_and_prompts_without_a_digest_count_by_name(gender, tmp_path):
    def model(prompts):
        return [qr_world.adds_a_term(prompt) for prompt in prompts]

    settings = {"fair_qr": {"prompt": Plain(), "max_iterations": 1}, **ONLY}
    qr_world.study(gender, tmp_path, model, **settings).run()
    again = qr_world.study(gender, tmp_path, model, **settings)
    assert not any(again.pending(cell) for cell in again.cells)
