"""fairtk rag on the packaged collection and model."""

import json
import shutil
from pathlib import Path

import pytest
from chat_server import serving

from fairtk import demo

FOLDER, MODEL = str(demo.collection_folder()), f"t5:{demo.model_folder()}"


def folder_of(place, n_queries, change=lambda questions, golds: None):
    """Write some queries of the packaged folder, changed."""
    place.mkdir()
    questions = json.loads((Path(FOLDER) / "dev_questions.json").read_text(encoding="utf-8"))
    outputs = json.loads((Path(FOLDER) / "dev_outputs.json").read_text(encoding="utf-8"))
    change(questions, outputs["golds"])
    (place / "dev_questions.json").write_text(json.dumps(questions[:n_queries]), encoding="utf-8")
    (place / "dev_outputs.json").write_text(json.dumps(outputs), encoding="utf-8")
    return place


def unlike_any(questions, golds):
    for gold in golds:
        gold["output"] = "no answer"


def one_entry(questions, golds):
    del questions[1]["profile"][1:]


@pytest.mark.slow
def test_from_files_to_tables(tmp_path, fairtk):
    words = [FOLDER, "-t", 2, "-g", MODEL, "-n", 2, "-a", 0, "-a", 8, "--limit", 3]
    words += ["-o", tmp_path / "out"]
    plan = fairtk("rag", *map(str, words), "--dry-run")
    assert plan.exit_code == 0 and "prompts are unanswered" in plan.stdout
    assert not (tmp_path / "out").exists()
    result = fairtk("rag", *map(str, words))
    assert result.exit_code == 0, result.output
    assert "deterministic" in result.stdout and "Tables and figures: " in result.stdout
    (model,) = (tmp_path / "out").glob("settings/*/models/*")
    page = tmp_path / "page.html"
    setting = model.parents[1].name
    shown = fairtk("report", tmp_path / "out", "-o", page, "--setting", setting)
    assert shown.exit_code == 0, shown.output
    text = page.read_text(encoding="utf-8")
    assert "Utility by level of exposure" in text and f"fairtk rag {FOLDER} -t 2" in text
    assert f"--setting {setting}" in text
    assert "Means of EE_D and EE_R. BM25: alpha 0: 0." in text  # the picture in words
    assert "upper quartile of EE_D: alpha 0: 0." in text and "&#34;n_samples&#34;: 2" in text
    remarks = json.loads((model / "config.json").read_text(encoding="utf-8"))["remarks"]
    assert [remark["detail"] for remark in remarks if remark["kind"] == "study warning"] == []
    assert len(list((tmp_path / "out").glob("settings/*/figures/*.pdf"))) == 5
    (svg,) = (tmp_path / "out").glob("settings/*/figures/requests_LaMP-2.svg")  # Figure 7
    status = fairtk("rag", *map(str, words), "--status", "--format", "csv")
    missing = [line.rsplit(",", 1)[1] for line in status.stdout.splitlines()[1:]]
    assert set(missing) == {"0"}
    again = fairtk("rag", *map(str, words), "--format", "json")
    assert again.stdout.startswith("[")
    exported = tmp_path / "exported"
    done = fairtk("export", tmp_path / "out", "-o", exported)
    assert (done.exit_code, done.stdout) == (0, f"Results: {exported / model.name}\n"), done.output
    duckdb = pytest.importorskip("duckdb")
    of_study, of_model = (
        duckdb.sql(f"SELECT avg(value) FROM '{file}' WHERE {where}").fetchall()
        for file, where in (
            (exported / "values.parquet", "alpha = '8.0' AND measure = 'EE_D'"),
            (exported / "*" / "values.parquet", "system = 'alpha 8' AND measure LIKE 'EE_D%'"),
        )
    )
    assert of_study[0][0] == pytest.approx(of_model[0][0]) and 0 < of_model[0][0] < 1
    counted = duckdb.sql(
        f"SELECT count(*) FROM '{exported}/*/answers.parquet' WHERE sample IS NOT NULL"
    ).fetchall()
    # alpha 0, alpha 8 and the oracle: two samples for each of the measured queries
    queries = duckdb.sql(f"SELECT count(DISTINCT qid) FROM '{exported}/values.parquet'").fetchall()
    assert counted == [(3 * 2 * queries[0][0],)]
    facts = json.loads((exported / "study.json").read_text(encoding="utf-8"))
    assert facts["settings"]["n_samples"] == 2 and "packages" in facts["environment"]
    shutil.copytree(tmp_path / "out" / "settings" / setting, tmp_path / "out" / "settings" / "z")
    refused = fairtk("report", tmp_path / "out", "-o", page)
    message = f"--setting is required, one of {setting!r}, 'z'"
    assert refused.exit_code == 2 and message in refused.stderr
    refused = fairtk("report", tmp_path / "out", "-o", page, "--setting", "n3")
    assert refused.exit_code == 2 and "unknown setting 'n3'" in refused.stderr


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (["-g", MODEL, "--base-url", "http://x"], "base_url"),
        (["-g", "openai:m", "--set", "seed"], "NAME=VALUE"),
    ],
)
def test_wrong_settings_of_a_server_are_one_line(fairtk, options, place):
    result = fairtk("rag", FOLDER, "-t", "2", *options, "--dry-run")
    assert result.exit_code == 2 and place in result.stderr and result.output.count("\n") == 1


def test_a_model_without_tokenizer_is_said_before_anything_is_done(fairtk, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(demo.model_folder(), model, ignore=shutil.ignore_patterns("token*"))
    out = tmp_path / "out"
    for asked in (["-g", f"t5:{model}"], ["-g", MODEL, "-r", f"contriever:{model}"]):
        result = fairtk("rag", FOLDER, "-t", "2", *asked, "-o", str(out))
        assert result.exit_code == 1 and str(model) in result.stderr
    assert "missing tokenizer" in fairtk("rag", FOLDER, "-t", "2", "-g", f"t5:{model}").stderr
    assert not list(out.rglob("*.sqlite"))


@pytest.mark.slow
def test_what_the_data_lack(fairtk, tmp_path):
    words = ["-t", 2, "-g", MODEL, "-n", 1, "-a", 8, "-o"]
    useless = folder_of(tmp_path / "useless", 2, unlike_any)
    result = fairtk("rag", *map(str, [useless, *words, tmp_path / "no"]))
    assert result.exit_code == 2
    assert "none of 2 queries has 2 useful documents (0 have one)" in result.stderr
    assert "-g t5:FOLDER" in result.stderr and "examples/headline_model.py" in result.stderr
    assert "min_useful" not in result.stderr  # which would not help
    short = folder_of(tmp_path / "short", 3, one_entry)
    result = fairtk("rag", *map(str, [short, *words, tmp_path / "short-out"]), "--format", "json")
    assert result.exit_code == 0, result.output  # the query of one entry is left out
    rows = {row["policy"]: row for row in json.loads(result.stdout)}
    assert rows["alpha 8"]["queries"] == 2
    assert rows["alpha 8"]["EE_D"] is None  # one sample has no unbiased estimate
    assert rows["deterministic"]["EE_D"] == 1


def short(questions, golds):
    for question in questions:
        del question["profile"][3:]
    for gold in golds:
        gold["output"] = "comedy"


@pytest.mark.slow
def test_a_budget_ends_a_study_of_shapley_values(fairtk, tmp_path):
    folder = folder_of(tmp_path / "data", 2, short)
    words = ["rag", folder, "-t", 2, "-g", "openai:a-model", "-n", 3, "-a", 0]
    words = [*map(str, words), "-o", str(tmp_path / "out"), "--credit", "shapley"]
    with serving(
        lambda prompt, _: "comedy" if "the tag for the movie" in prompt else "?"
    ) as server:
        words += ["--base-url", server.url, "--api-key-env", "", "--set", "timeout=600"]
        words += ["--set", "temperature=none", "--set", "max_tokens=64"]
        plan = json.loads(fairtk(*words, "--dry-run", "--format", "json").stdout)
        prompts = {row["retriever"]: row["prompts"] for row in plan}
        # 2 queries of 3 documents: labels have asked for none and for each
        assert prompts["labels"] == 2 * (1 + 3) and prompts["BM25, credit"] > 0
        enough = prompts["labels"] + prompts["BM25"]  # the oracle's counted at most
        result = fairtk(*words, "--max-calls", str(enough + 1))
        assert (result.exit_code, len(server.requests)) == (1, enough + 1), result.stderr
        assert "max_calls" in result.stderr and "run again" in result.stderr
        result = fairtk(*words, "--format", "json")
        assert result.exit_code == 0, result.output
        assert max(server.counts.values()) == 1
        bodies = [body for _, body, _ in server.requests]
        assert {body["max_tokens"] for body in bodies} == {64}
        assert not any("temperature" in body for body in bodies)
        left = json.loads(fairtk(*words, "--status", "--format", "json").stdout)
        assert {row["missing"] for row in left} == {0}
        assert len(server.requests) <= sum(prompts.values())
    rows = {row["policy"]: row for row in json.loads(result.stdout)}
    assert 0 < rows["alpha 0"]["AE_D"] <= 1
    again = fairtk(*words, "--format", "json", "--offline")  # the server is gone
    assert again.exit_code == 0 and again.stdout == result.stdout
