"""``fairtk qr``: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest
import qr_world
from chat_server import KEY, serving

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("matplotlib")
pytest.importorskip("openai")

SMALL = "attributes = ['gender']\ncutoff = 5\ncandidates = 10\n"
ONLY = "systems = ['bm25', 'fair-qr']\n"  # whatever plugins are installed


@pytest.fixture
def config(tmp_path, wiki):
    """Write a configuration of a small study: ``config("[llm]\\n...")``."""

    def write(more="", first=ONLY, variations=""):
        path = tmp_path / "study.toml"
        folder = f"folder = {json.dumps(str(wiki))}\n"
        tables = f"[tuning]\n[variations]\n{variations}\n{more}"
        path.write_text(folder + SMALL + first + tables, encoding="utf-8")
        return path

    return write


def by_server(server, more=""):
    return (
        f"[llm]\nbackend = 'openai'\nmodel = 'toy'\nbase_url = '{server.url}'\ntimeout = 600\n"
        f"backoff = 0.01\n{more}"
    )


def one_line(result, code):
    """Return the error of a command that failed with a code: one line, and nothing on stdout."""
    assert result.exit_code == code, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1 and result.stderr.splitlines()[-1] == lines[0], result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""
    return lines[0]


def exported_means(fairtk, study, folder):
    """Hold what DuckDB finds in an export to be what the study's tables say."""
    duckdb = pytest.importorskip("duckdb")
    done = fairtk("export", study, "-o", folder)
    assert done.exit_code == 0 and done.stdout == f"Results: {folder / 'gender'}\n", done.output
    means = duckdb.sql(
        f"SELECT system, avg(value) FROM '{folder}/*/values.parquet' "
        "WHERE measure LIKE 'AWRF%' GROUP BY system"
    ).fetchall()
    table = pd.read_parquet(folder / "table.parquet").set_index("system")
    assert len(means) == 2
    for system, mean in means:
        assert mean == pytest.approx(table.loc[system, "AWRF"])
    ranked = f"SELECT count(DISTINCT qid) FROM '{folder}/*/rankings/*.parquet' GROUP BY system"
    assert duckdb.sql(ranked).fetchall() == [(8,), (8,)]
    assert {"study.json", "traces.parquet", "costs.parquet"} <= {p.name for p in folder.iterdir()}


def test_a_study_from_a_configuration(fairtk, config, tmp_path):
    path = config(variations="max_iterations = [1, 5]", first=ONLY + "output = 'out'\n")
    done = fairtk("qr", path)
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Note: ")]
    assert lines[:3] == ["1/3 gender: bm25", "2/3 gender: fair-qr",
                        "3/3 gender: fair-qr, max_iterations=1"]  # fmt: skip
    out = tmp_path / "out"
    page = f"Page: fairtk report {out}"
    assert lines[-2:] == [f"Report: {out / 'report.md'}", page]
    page = (out / "report.md").read_text()
    assert page.startswith("# FAIR-QR on wiki (train topics)\n")
    for title in ("Systems", "Changes from BM25", "Settings of FAIR-QR", "Refinements", "Costs"):
        assert f"\n## {title}\n" in page
    assert "\n## Why: gender\n" in page
    assert page.split("\n\n")[1].startswith("No language model is used: ")
    shown = fairtk("report", out, "-o", tmp_path / "page.html")  # its one attribute
    assert shown.exit_code == 0, shown.output
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h2>Systems</h2>" not in text  # the first table of the page
    for title in ("Refinements", "Costs", "Largest changes"):
        assert f"{title}</h2>" in text
    assert "AWRF(groups=" in text
    assert text.count("data:image/svg+xml") >= 3 and "No language model is used" in text
    assert f"fairtk qr {path}" in text
    facts = json.loads((out / "study.json").read_text())
    assert facts["settings"]["cutoff"] == 5 and facts["topics"] == 8
    exported_means(fairtk, out, tmp_path / "exported")

    # again: nothing is done, all is printed, and what is written is the same to the byte
    # but for manifests of pages, which have the digest of the command, too
    files = [p for p in out.rglob("*") if p.is_file() and p.name != "manifest.json"]
    written = {p: p.read_bytes() for p in files if "sqlite" not in p.name}
    again = fairtk("qr", path, "--format", "json")
    assert "gender:" not in again.stderr
    asked = b" --format json"  # the command is what was typed
    assert {p: p.read_bytes().replace(asked, b"") for p in written} == written
    table = pd.read_csv(out / "table.csv", keep_default_na=False)
    records = json.loads(again.stdout)
    assert [r["system"] for r in records] == table["system"].tolist() == ["bm25", "fair-qr"]
    assert [r["nDCG x AWRF"] for r in records] == table["nDCG x AWRF"].tolist()
    assert records[0]["AWRF p"] is None and records[1]["AWRF p"] < 0.05


# Dry runs and budgets ----------------------------------------------------------------------------


def test_the_first_line_says_that_no_language_model_is_used(fairtk, config):
    for model, is_used in (("", False), ("[llm]\nbackend = 'openai'\nmodel = 'toy'\n", True)):
        done = fairtk("qr", config(model), "--dry-run")
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith("Note: no language model is used") != is_used


@pytest.mark.slow
def test_a_run_goes_on_after_a_budget_and_is_replayed_offline(fairtk, config, tmp_path):
    prices = tmp_path / "prices.tsv"
    prices.write_text("model\tprompt\tcompletion\ntoy\t3\t10\n")

    def price():
        return pd.read_parquet("out/costs.parquet").set_index("system").loc["fair-qr", "price"]

    with serving(qr_world.adds_a_term) as server:
        command = ("qr", config(by_server(server)), "-o", "out")
        assert "max_calls=3 is reached" in one_line(fairtk(*command, "--max-calls", "3"), 1)
        assert len(server.requests) == 3
        assert {body["temperature"] for _, body, _ in server.requests} == {0.3}  # FairQR's
        assert "price of 'toy'" in one_line(fairtk(*command, "--max-cost", "1"), 2)
        priced = (*command, "--prices", prices)
        stopped = one_line(fairtk(*priced, "--max-cost", "0.001"), 1)
        assert "max_cost=0.001 could be exceeded" in stopped and len(server.requests) == 3
        plan = fairtk(*priced, "--dry-run", "--format", "json")
        assert 0 < json.loads(plan.stdout)[0]["price"] < 1
        done = fairtk(*priced, "--max-cost", "1")
        assert done.exit_code == 0, done.output
        total = len(server.requests)
        assert total == len(server.counts)  # nothing twice
        assert price() > 0
        assert fairtk(*command, "--offline").exit_code == 0
        assert math.isnan(price())  # without prices
        other = one_line(fairtk(*command, "--offline", "--llm", "openai:another"), 2)
        assert "'another'" in other and len(server.requests) == total


# Failures ----------------------------------------------------------------------------------------


def test_keys(fairtk, config, monkeypatch):
    with serving(qr_world.adds_a_term) as server:
        monkeypatch.delenv("OPENAI_API_KEY")
        command = ("qr", config(by_server(server, "temperature = 0.7\n")), "-o", "out")
        assert "'OPENAI_API_KEY', which is not set" in one_line(fairtk(*command), 2)
        text = one_line(fairtk(*command, "--api-key-env", KEY), 2)
        assert "never the key itself" in text and KEY not in text
        assert server.requests == []
        assert fairtk(*command, "--dry-run").exit_code == 0  # nothing is called: no key is needed
        done = fairtk(*command, "--api-key-env", "")  # a server without keys
        assert done.exit_code == 0 and server.requests
        assert {body["temperature"] for _, body, _ in server.requests} == {0.7}


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["trec-fair/2022/train/keywords", "--split", "eval"], "'split'"),
        (["{wiki}", "--base-url", "http://h/v1"], "KeywordRefiner setting 'base_url'"),
        (["{wiki}", "--offline"], "fair-qr-study"),
        (["{config}"], "backend of [llm]"),
    ],
)
def test_wrong_input_is_one_line(fairtk, wiki, config, tmp_path, words, place):
    places = {"{wiki}": wiki, "{config}": config("[llm]\nbackend = [4]")}
    result = fairtk("qr", *(places.get(word, word) for word in words))
    assert place in one_line(result, 2)
    assert not (tmp_path / "fair-qr-study").exists()


def test_an_output_that_cannot_be_written(fairtk, config, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in one_line(fairtk("qr", config(), "-o", "file/out"), 1)


def test_strict_sees_what_stands_in_the_report_alone(fairtk, config):
    """Warnings of measures, and those of an earlier run, are errors too."""
    with qr_world.installed(("toy", "doubts", False)):
        command = ("qr", config(first="systems = ['toy']\n"), "-o", "out")
        message = one_line(fairtk("--strict", *command), 2)
        assert "the toy has *doubts* (--strict)" in message
        again = fairtk(*command)  # the toy ranks nothing any more
        assert again.exit_code == 0 and "toy" not in again.stderr.partition("warning")[0]
        assert again.stderr.count("warning: data: the toy has *doubts*") == 1
        assert again.stderr.count("no ranking can reach") == 1
        assert "the toy has *doubts* (--strict)" in one_line(fairtk("--strict", *command), 2)
    plain = ("qr", config(first="systems = ['bm25']\n"), "-o", "plain")
    assert "no ranking can reach" in one_line(fairtk("--strict", *plain), 2)
