"""Settings, plans and few topics of studies with local models."""

from __future__ import annotations

import json
import math

import pytest
import tiny_models
from fairtk_papers.fair_qr import QrConfiguration, from_trec_fair
from fairtk_papers.fair_qr.systems import with_model
from fairtk_papers.fair_rag import RagConfiguration
from rag_world import generator, study

from fairtk import demo
from fairtk.errors import FairtkError, NotFoundError, ParameterError
from fairtk.llm import list_model_kinds
from fairtk.plugins.registry import SERVER

FOLDER = demo.collection_folder()
NAMES = ("max_new_tokens", "max_tokens", "temperature", "terms", *SERVER)


@pytest.mark.parametrize("setting", NAMES)
def test_each_kind_of_model_gets_its_settings(setting):
    for use, given in (("answers", _of_rag), ("refinement", _of_qr)):
        for kind, spec in list_model_kinds(use).items():
            is_its_own = spec.has_setting(setting)
            text = f"{kind}:{spec.example}"
            if is_its_own:
                assert given([text], {setting: 20})[0][setting] == 20
            else:
                # another model with the setting has it alone
                own, server = given([text, "openai:toy"], {"timeout": 20})
                assert server["timeout"] == 20
                assert ("timeout" in own) is spec.has_setting("timeout")


def _of_rag(texts, settings):
    options = RagConfiguration({"folder": "x"}, models=texts).with_server(settings).options
    return [options.get(text, {}) for text in texts]


def _of_qr(texts, settings):
    kinds = [dict(zip(("backend", "model"), text.split(":", 1), strict=True)) for text in texts]
    return with_model(QrConfiguration({}, models=kinds), None, settings).models


def test_settings_that_no_generator_has():
    models = {"models": ["t5:x", "causal:y"]}
    with pytest.raises(NotFoundError, match="max_tokens.*max_new_tokens"):
        RagConfiguration({"folder": "x"}, **models).with_server({"max_tokens": 3})
    for setting in SERVER:
        with pytest.raises(FairtkError, match=setting):
            RagConfiguration({"folder": "x"}, **models).with_server({setting: "x"})


@pytest.mark.slow
def test_a_decoder_only_model(fairtk, tmp_path):
    model = tiny_models.save_llama(tmp_path / "model")
    words = ["rag", FOLDER, "-t", 2, "-g", f"causal:{model}", "-n", 2, "-a", 0, "--limit", 2]
    words += ["--set", "max_new_tokens=20", "--dry-run", "--format", "json", "-o", "out"]
    planned = fairtk(*words)
    assert planned.exit_code == 0, planned.output
    labels, rankings = json.loads(planned.stdout)
    for row in (labels, rankings):
        assert (row["calls"], row["price"]) == (0, 0)
        assert row["completion_tokens"] == 20 * row["prompts"]
        assert row["prompt_tokens"] > 4 * row["prompts"]
    assert not (tmp_path / "out").exists()


def test_the_time_of_a_local_model(tmp_path, monkeypatch):
    before = study(tmp_path, make=generator(), limit=2).plan()
    assert math.isnan(before.total["seconds"]) and "tiny is unknown" in before.note
    half = study(tmp_path, make=generator(), limit=2)
    half.label(half.tasks[0], half.generator(half.tasks[0], "tiny"))  # the answers for labels
    monkeypatch.setattr("fairtk.llm.store.AnswerStore.seconds_per_answer", lambda *_: 0.5)
    after = half.plan()
    assert after.total["prompts"] < before.total["prompts"]
    assert after.total["seconds"] == pytest.approx(0.5 * after.total["prompts"])
    assert "2 prompts a second" in after.note
    # 8 new tokens for each unanswered prompt
    assert after.total["completion_tokens"] == pytest.approx(8 * after.total["prompts"], abs=8)
    monkeypatch.undo()
    assert 0 < half.plan().total["seconds"] < 60 * after.total["prompts"]


def test_few_topics(wiki, fairtk, tmp_path):
    every = from_trec_fair(str(wiki)).topics["qid"].tolist()
    data = from_trec_fair(str(wiki), limit=3)
    assert data.topics["qid"].tolist() == every[:3] and set(data.qrels["qid"]) <= {*every[:3]}
    with pytest.raises(ParameterError, match="limit"):
        from_trec_fair(str(wiki), limit=0)
    # a run may have the other topics
    rows = [f"{qid} Q0 {1000 + 37 * rank} {rank} {9 - rank} mine\n"
            for qid in every for rank in range(3)]  # fmt: skip
    (tmp_path / "mine.run").write_text("".join(rows))
    small = ["--no-variations", "--no-tuning", "--attribute", "gender", "-s", "bm25"]
    words = ["qr", wiki, *small, "-r", "mine=mine.run", "--limit", 3, "-o", "out"]
    status = fairtk(*words, "--status", "--format", "json")
    assert status.exit_code == 0, status.output
    assert {row["queries"] for row in json.loads(status.stdout)} == {3}
    assert fairtk("qr", wiki, "--limit", 0).exit_code == 2
    (tmp_path / "study.toml").write_text(f'folder = "{wiki}"\nlimit = 3\n')
    assert QrConfiguration.read(tmp_path / "study.toml").data["limit"] == 3
