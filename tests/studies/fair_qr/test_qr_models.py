"""A study with models as they are: servers that refuse parameters, odd answers, other prompts."""

from __future__ import annotations

import warnings

import pytest
import qr_world
from chat_server import error, serving

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("openai")

from fairtk import hookimpl, plugins
from fairtk.errors import DataWarning, ParameterError
from fairtk.llm import KeywordRefiner, LLMError
from fairtk.llm.refinement import RefinementPrompt
from fairtk.plugins.registry import PromptSpec

ONLY = {"systems": ("fair-qr",), "variations": {}, "tuning": {}}


class Short(RefinementPrompt):
    """A plugin's prompt: fewer words."""

    name = "short"


class ShortPrompt:
    @hookimpl
    def fairtk_prompts(self):
        return [PromptSpec("short", "test_qr_models:Short", "fewer words")]


@pytest.mark.slow
def test_a_study_with_a_server_that_refuses_max_tokens_then_temperature(gender, tmp_path, client):
    def strict(prompt, count, body):
        for name in ("max_tokens", "temperature"):
            if name in body:
                return error(400, f"Unsupported parameter: '{name}' is not supported.")
        return qr_world.adds_a_term(prompt, count)

    with serving(strict) as server:
        model = client(server, concurrency=1)
        with pytest.raises(LLMError, match="temperature=None"):
            qr_world.study(gender, tmp_path / "strict", model, **ONLY).run()
        assert len(server.requests) == 2  # each refusal is asked for once
        server.requests.clear()
        model = client(server, concurrency=1, temperature=None)
        study = qr_world.study(gender, tmp_path / "strict", model, **ONLY)
        with pytest.warns(DataWarning, match="max_completion_tokens"):
            results = study.run()
        asked = [body for _, body, _ in server.requests]
        paid = len(qr_world.paid(tmp_path / "strict" / "ledger.sqlite"))
        assert len(asked) == 1 + paid and "max_completion_tokens" in asked[-1]
        # a new process asks nothing, and has the same
        again = qr_world.study(
            gender, tmp_path / "strict", client(server, temperature=None), **ONLY
        ).run()
        assert len(server.requests) == len(asked)
    assert results.missing.empty and results.table.equals(again.table)
    with serving(qr_world.adds_a_term) as server:
        plain = qr_world.study(gender, tmp_path / "plain", client(server), **ONLY).run()
    assert plain.per_query.equals(results.per_query)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("zot zotzot", None),  # the same for all topics: the loop ends, the first list stays
        ("महिला, निर्देशक", None),  # words that no document has
        ("", "the answer is empty"),
        ("I cannot help with that.", "refused"),
    ],
)
def test_odd_models(gender, tmp_path, client, answer, reason):
    with serving(lambda *_: answer) as server:
        study = qr_world.study(gender, tmp_path, client(server), **ONLY)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            results = study.run()
    row = results.table.set_index("system").loc["fair-qr"]
    if reason is None:
        assert row["missing"] == 0
    else:
        assert row["missing"] > 0 and row["nDCG"] < results.table["nDCG"].iloc[0]
        assert results.missing["reason"].str.contains(reason).all()
        assert any("have no result" in str(w.message) for w in heard)


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
            keys.add(study.key(next(cell for cell in study.cells if cell.refines)))
            [text, *_] = qr_world.paid(folder / "ledger.sqlite")
            assert ("3 words at most" in text) == (number == 2)
        assert len(keys) == 3
    finally:
        plugins.unregister(plugin)
    with pytest.raises(ParameterError, match="'max_keyword'"):
        wrong = {"prompt": {"name": "refine", "max_keyword": 3}}
        qr_world.study(gender, tmp_path, KeywordRefiner(), fair_qr=wrong, **ONLY)
    with pytest.raises(ParameterError, match="prompt"):
        qr_world.study(gender, tmp_path, KeywordRefiner(), fair_qr={"prompt": {}}, **ONLY)
