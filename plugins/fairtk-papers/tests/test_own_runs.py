"""One's own runs in the studies, and what a newcomer types first: prices, missing plugins."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil

import ir_measures
import pandas as pd
import pytest
import qr_world
import rag_world
from chat_server import serving
from fairtk_papers.fair_qr import QrStudy
from fairtk_papers.fair_rag import RagConfiguration, RagStudy, make_generator
from fairtk_papers.fair_rag.settings import make_retriever
from fairtk_papers.studies import RunRetriever

from fairtk import BM25Scorer, Candidates, ContrieverScorer, demo
from fairtk.errors import (
    DataWarning,
    InputError,
    MissingWarning,
    NotFoundError,
    ParameterError,
)
from fairtk.io import read_run, write_run
from fairtk.llm import KeywordRefiner, Ledger
from fairtk.measures import nDCG_TREC

FOLDER, MODEL = str(demo.collection_folder()), f"t5:{demo.model_folder()}"
SMALL = ("-t", 2, "-n", 2, "-a", 8, "--limit", 3)
RAG = ("rag", FOLDER, *SMALL, "-g", MODEL)
QR = ("--attribute", "gender", "-s", "fair-qr", "--no-variations", "--no-tuning")


def rows(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(result, *words):
    """Hold a command to be refused in one line that has all of these words."""
    assert result.exit_code == 2, result.output
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("Error: "))
    assert all(word in line for word in words), line
    return line


@pytest.fixture(scope="module")
def bm25():
    """Return BM25's run over the packaged collection."""
    data = demo.load()
    return (Candidates(data.dataset) >> BM25Scorer())(data.topics)


@pytest.fixture
def mine(bm25, tmp_path):
    """Write BM25's rankings as a user's run."""
    path = tmp_path / "runs" / "mine.run"
    path.parent.mkdir()
    write_run(bm25, path)
    return path


# Towards Fair RAG --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_is_a_retriever_of_rag_and_its_content_is_its_identity(
    finished_rag, mine, bm25, tmp_path
):
    shutil.copytree(finished_rag, tmp_path / "out")

    def study(path):
        own = rag_world.study(tmp_path / "out", limit=2)
        own.retrievers["mine"] = RunRetriever(str(path))
        return own

    def missing(path):
        status = study(path).status()
        return set(status.loc[status["stage"].str.startswith("mine, "), "missing"])

    means = study(mine).run().means
    one, two = (part.drop(columns="retriever") for _, part in means.groupby("retriever"))
    assert set(means["retriever"]) == {"BM25", "mine"}
    pd.testing.assert_frame_equal(one.reset_index(drop=True), two.reset_index(drop=True))
    moved = mine.rename(mine.with_name("other.run"))
    assert missing(moved) == {0}  # wherever the file is, it is done
    write_run(bm25.assign(score=-bm25["score"]).drop(columns="rank"), mine)
    assert missing(mine) == {2}  # another file of the same name finds no result of the old one
    other = study(mine).run().means.query("retriever == 'mine'")
    fixed = [frame.set_index("policy")["nDCG"]["deterministic"] for frame in (other, two)]
    assert fixed[0] < fixed[1] and missing(mine) == {0}


@pytest.mark.slow
def test_queries_missing_from_a_run_have_the_worst_values(finished_rag, bm25, tmp_path):
    shutil.copytree(finished_rag, tmp_path / "out")
    own = rag_world.study(tmp_path / "out")
    first = own.tasks[0].topics["qid"].iloc[0]
    write_run(bm25[bm25["qid"] != first], tmp_path / "mine.run")
    run = RunRetriever(str(tmp_path / "mine.run"))
    with pytest.warns(DataWarning, match=f"1 of 3 topics .*'{first}'"):
        own.check_run(run)
    own.retrievers = {"mine": run}
    with pytest.warns(MissingWarning, match=f"1 of 3 .*'{first}'"):
        values = own.run().values.query("qid == @first and alpha != 'oracle'")
    by_measure = values.groupby("measure")["value"].agg(["min", "max"])
    assert by_measure.loc["EE_D"].tolist() == [1.0, 1.0]
    for measure in ("EE_R", "nDCG", "EU", "normalized EU"):
        assert by_measure.loc[measure].tolist() == [0.0, 0.0], measure


def test_what_stays_a_scorer(mine):
    assert isinstance(make_retriever("contriever:models/a=b"), ContrieverScorer)
    assert isinstance(make_retriever(f"a:b={mine}"), RunRetriever)
    with pytest.raises(NotFoundError, match="NAME=RUNFILE"):
        make_retriever(str(mine))


def test_runs_of_a_rag_configuration_are_relative_to_it(mine, tmp_path):
    text = f'folder = "{FOLDER}"\ntasks = [2]\nlimit = 3\ngenerators = ["{MODEL}"]\n'
    text += 'retrievers = ["bm25", "mine=runs/mine.run"]\n'
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    configuration = RagConfiguration.read(path)
    assert configuration.retrievers == ("bm25", f"mine={mine}")
    study = RagStudy.from_configuration(configuration)
    assert list(study.retrievers) == ["BM25", "mine"]
    path.write_text(f"{text}[options.'mine={mine}']\nk1 = 2\n", encoding="utf-8")
    with pytest.raises(InputError, match="study.toml.*'k1'"):
        RagStudy.from_configuration(RagConfiguration.read(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("qid\tdocno\tscore\tsample\n1001\t1001/100\t1\t0\n", ("samples",)),
        ("qid\tdocno\trank\n1001\t1001/100\t1\n", ("'score'",)),
        ("1001\t100\n", ("expected 6 columns",)),  # a list of TREC Fair Ranking has no header
        ("id\tpage_id\n1001\t100\n", ("document '100'",)),  # it has other ids
        ("elsewhere Q0 1 1 1 x\n", ("topic 'elsewhere'",)),
    ],
)
def test_files_that_are_no_runs_with_scores(fairtk, tmp_path, text, words):
    path = tmp_path / "x.tsv"
    path.write_text(text, encoding="utf-8")
    refused(fairtk(*RAG, "-r", f"x={path}", "--dry-run"), "x.tsv", *words)


def test_runs_that_a_newcomer_names_otherwise(fairtk, mine):
    refused(fairtk(*RAG, "-r", "mine=nowhere.run", "--dry-run"), "nowhere.run")
    text = f"folder = '{FOLDER}'\n[[retriever]]\nname = 'mine'\nrun = '{mine}'\n"
    mine.with_suffix(".toml").write_text(text, encoding="utf-8")
    refused(fairtk("rag", mine.with_suffix(".toml")), "'retriever'", "did you mean 'retrievers'?")


# Prices ------------------------------------------------------------------------------------------


def test_the_price_of_rag_before_it_runs(fairtk, tmp_path):
    prices = tmp_path / "prices.tsv"
    prices.write_text("model\tprompt\tcompletion\nm\t3\t10\n", encoding="utf-8")
    priced = ("rag", FOLDER, *SMALL, "-g", "openai:m", "--set", "max_tokens=20", "-o", "out")
    plan = rows(fairtk(*priced, "--dry-run", "--prices", prices, "--format", "json"))
    assert [row["retriever"] for row in plan] == ["labels", "BM25"]
    for row in plan:
        assert row["calls"] == row["prompts"] > 0
        assert row["completion_tokens"] == row["calls"] * 20
        paid = (row["prompt_tokens"] * 3 + row["completion_tokens"] * 10) / 1e6
        assert row["price"] == pytest.approx(paid, abs=1e-5)
    table = fairtk(*priced, "--dry-run", "--prices", prices)
    assert f"{sum(row['price'] for row in plan):.4f}" in table.stdout
    assert not (tmp_path / "out").exists()
    unknown = rows(fairtk(*priced, "--dry-run", "--format", "json"))
    assert [row["price"] for row in unknown] == [None, None]
    assert "unknown" in fairtk(*priced, "--dry-run").stdout
    local = rows(fairtk(*RAG, "--dry-run", "--format", "json"))
    assert {(row["calls"], row["price"]) for row in local} == {(0, 0.0)}
    assert all(row["prompt_tokens"] > row["prompts"] > 0 for row in local)


@pytest.mark.slow
def test_the_tokens_of_labels_are_those_of_their_prompts(fairtk, tmp_path):
    with serving(lambda prompt, _: "comedy") as server:
        words = ("rag", FOLDER, *SMALL, "-g", "openai:m", "--base-url", server.url, "-o", "out")
        words += ("--set", "timeout=600", "--format", "json")
        before = rows(fairtk(*words, "--dry-run"))
        done = fairtk(*words, "--max-calls", before[0]["calls"])
        assert len(server.requests) == before[0]["calls"], done.output
        sent = [body["messages"][0]["content"] for _, body, _ in server.requests]
        assert before[0]["prompt_tokens"] == sum(math.ceil(len(text) / 4) + 4 for text in sent)


def test_a_ledger_gives_a_study_its_prices(tmp_path):
    with Ledger(tmp_path / "answers.sqlite", prices={"m": (1.0, 2.0)}) as ledger:
        make = make_generator("openai:m", ledger=ledger, max_tokens=7)
        total = rag_world.study(tmp_path / "out", make=make).plan().total
    assert total["completion_tokens"] == 7 * total["calls"] > 0
    paid = (total["prompt_tokens"] + 2 * total["completion_tokens"]) / 1e6
    assert total["price"] == pytest.approx(paid, abs=1e-5)


# FAIR-QR -----------------------------------------------------------------------------------------


@pytest.fixture
def bm25_run(gender, tmp_path):
    """Write the first documents of a small study's BM25, best last, as a user's run."""
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    study = qr_world.study(gender, tmp_path / "first", KeywordRefiner(), systems=("bm25",))
    run = study.retriever(gender.topics).query("rank < 10")
    path = tmp_path / "mine.run"
    write_run(run.assign(score=run["rank"].astype(float)).drop(columns="rank"), path)
    return path


def own_study(gender, folder, path, **changed):
    retrievers = {"bm25": None, "mine": RunRetriever(str(path))}
    given = {"systems": ("fair-qr",), **changed}
    models = given.pop("models", KeywordRefiner())
    return qr_world.study(gender, folder, models, retriever=retrievers, **given)


@pytest.mark.slow
def test_a_run_is_a_system_of_qr_measured_and_tested(fairtk, wiki, gender, bm25_run, tmp_path):
    words = ("qr", wiki, *QR, "-o", "out", "--format", "json")
    table = {row["system"]: row for row in rows(fairtk(*words, "-r", f"mine={bm25_run}"))}
    assert list(table) == ["bm25", "fair-qr", "mine"]
    measure = nDCG_TREC @ 20
    mean = ir_measures.calc_aggregate([measure], gender.qrels, read_run(bm25_run))[measure]
    assert table["mine"]["nDCG"] == pytest.approx(mean) and 0 < table["mine"]["nDCG p"] <= 1
    page = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "mine" in page and "Brackets name" not in page

    def left(path):
        status = rows(fairtk(*words, "-r", f"mine={path}", "--status"))
        return {row["system"]: row["missing"] for row in status}

    assert left(bm25_run) == {"bm25": 0, "fair-qr": 0, "mine": 0}
    run = bm25_run.read_text(encoding="utf-8")
    bm25_run.write_text(run.replace(" 9.0", " 9.5"), encoding="utf-8")
    assert left(bm25_run) == {"bm25": 0, "fair-qr": 0, "mine": 8}  # its content, not its name
    without = rows(fairtk(*words))
    assert [row["AWRF"] for row in without] == [table[row["system"]]["AWRF"] for row in without]


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on(gender, bm25_run, tmp_path):
    expected = own_study(gender, tmp_path / "whole", bm25_run).run().per_query
    study = own_study(gender, tmp_path / "stopped", bm25_run)
    study.run()
    qr_world.forget(tmp_path / "stopped", "gender: mine", "1")
    again = own_study(gender, tmp_path / "stopped", bm25_run)
    assert [len(again.pending(cell)) for cell in again.cells] == [0, 0, 1]
    progress = []
    pd.testing.assert_frame_equal(again.run(progress.append).per_query, expected)
    assert progress == ["1/1 gender: mine"]
    assert qr_world.sums(tmp_path / "stopped") == qr_world.sums(tmp_path / "whole")


def test_nothing_is_built_on_a_run(gender, bm25_run, tmp_path):
    models = {"words": KeywordRefiner(), "one": KeywordRefiner(terms=1)}
    study = own_study(gender, tmp_path, bm25_run, models=models)
    names = [cell.label for cell in study.cells]
    assert names == ["bm25", "fair-qr", "fair-qr [one]", "mine"]
    for wrong in (
        {"systems": ("bm25", "fair-qr [mine]")},
        {"systems": ("mine",)},
        {"tuning": {"mine": {"k": [1]}}},
        {"tuning": {"fair-qr [mine]": {"k": [1]}}},
    ):
        with pytest.raises(ParameterError, match="rankings of a run are fixed"):
            own_study(gender, tmp_path, bm25_run, **wrong)
    with pytest.raises(ParameterError, match="rankings of a run are fixed"):
        QrStudy(gender, tmp_path, KeywordRefiner(), retriever=RunRetriever(str(bm25_run)))


def test_runs_of_a_qr_configuration(fairtk, wiki, bm25_run, tmp_path):
    config = tmp_path / "study.toml"
    own = "[[retriever]]\nname = 'mine'\nrun = 'mine.run'\n"

    def dry_run(text, *more):
        config.write_text(f"folder = '{wiki}'\nattributes = ['gender']\n{text}", encoding="utf-8")
        return fairtk("qr", config, "-s", "fair-qr", "--status", "--format", "json", *more)

    tables = "[tuning]\n[variations]\n[[retriever]]\nkind = 'bm25'\n"
    systems = [row["system"] for row in rows(dry_run(tables + own, "-r", f"two={bm25_run}"))]
    assert systems == ["bm25", "fair-qr", "mine", "two"]
    refused(dry_run(f"{tables}{own}k = 3\n"), "'k'", "name, run")
    refused(dry_run(tables + own, "-r", f"mine={bm25_run}"), "'mine'")
    refused(dry_run(f"[tuning.mine]\nk = [1]\n{tables[9:]}{own}"), "rankings of a run are fixed")


def test_a_run_may_have_topics_without_a_relevant_document(bm25_run, gender):
    judged = gender.qrels[gender.qrels["qid"] != "1"]
    with pytest.warns(DataWarning, match="1 of 8 topics .* have no relevant"):
        fewer = dataclasses.replace(gender, qrels=judged)
    assert fewer.unjudged == ("1",)
    fewer.check_run(RunRetriever(str(bm25_run)))
    lines = bm25_run.read_text(encoding="utf-8").splitlines(keepends=True)
    bm25_run.write_text("".join(line for line in lines if line.split()[0] == "1"), "utf-8")
    with pytest.raises(InputError, match="no query in common with the measured topics"):
        fewer.check_run(RunRetriever(str(bm25_run)))


# Missing plugins, and the dry run ----------------------------------------------------------------


def test_the_dry_run_lists_each_system_once(fairtk, wiki):
    pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
    words = ("qr", wiki, "-s", "fair-qr", "-s", "fair-qr + exposure re-ranking")
    plan = rows(fairtk(*words, "--dry-run", "--format", "json"))
    names = [(row["attribute"], name) for row in plan for name in row["systems"].split("; ")]
    assert len(names) == len(set(names))
    status = rows(fairtk(*words, "--status", "--format", "json"))
    assert set(names) <= {(row["attribute"], row["system"]) for row in status}
    tuned = [row for row in plan if "(tuned)" in row["systems"]]
    assert len(tuned) == 2 and all(row["topics"] == 8 for row in tuned)
    plain = rows(fairtk(*words, "--no-tuning", "--dry-run", "--format", "json"))
    assert plan[: len(plain)] == plain


def test_a_missing_plugin_is_installed_from_a_checkout(fairtk, wiki, monkeypatch):
    from fairtk.plugins import registry

    monkeypatch.setattr(registry.study_systems, "names", list)
    for words in (("-s", "mmr"), ("-s", "dlf")):
        line = refused(fairtk("qr", wiki, *words, "--dry-run"), words[1])
        assert "pip install ./plugins/fairtk-baselines in a checkout" in line
        assert "pip install fairtk-baselines" not in line
