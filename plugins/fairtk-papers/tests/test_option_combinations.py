"""``fairtk qr`` and ``fairtk rag`` print tables or a reason for every subset of their options."""

from __future__ import annotations

import json
import shutil
from itertools import combinations

import pandas as pd
import pytest
import qr_world
import trec_fair_files as files
from chat_server import serving
from command_options import option_words, pairs_of_options, single_options, unexpected
from fairtk_papers.fair_qr.report import FRAMES
from fairtk_papers.fair_qr.systems import BUILT_IN, REFINING
from fairtk_papers.fair_qr.values import DRIFT

from fairtk import demo
from fairtk.plugins import registry

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("matplotlib")
pytest.importorskip("openai")

MODELS = ("keyword", "keyword:x", "t5:none", "unknown:x", "unknown", "")
VALUES = {
    "output": ("elsewhere", ""),
    "workers": ("-1", "0", "2"),
    "scheduler": ("tcp://127.0.0.1:9", "unknown"),
    "attributes": ("gender", "geography", "gender*geography", "occ", "unknown", ""),
    "runs": ("mine=mine.run", "mine=none.run", "mine=empty.run", "bm25=mine.run", "mine", "=x"),
    "model": MODELS,
    "base_url": ("http://127.0.0.1:9/v1", "unknown", ""),
    "api_key_env": ("NONE", ""),
    "server_settings": ("temperature=none", "unknown=1", "max_tokens=x", "x"),
    "prices": ("prices.tsv", "mine.run", "none.tsv"),
    "alphas": ("1", "8", "-1", "nan"),
    "n_samples": ("-1", "0", "1", "3"),
    "limit": ("-1", "0", "1", "2"),
    "tasks": ("2", "0", "4", "8"),
    "retrievers": ("bm25", "mine=demo.run", "mine=mine.run", "splade:none", "unknown", ""),
    "generators": MODELS,
}


@pytest.fixture
def world(tmp_path, wiki):
    """The files of `VALUES`, next to each other."""
    rows = [f"{topic} Q0 {1000 + 37 * rank % 997} {rank} {9 - rank} mine\n"
            for topic in range(1, 9) for rank in range(3)]  # fmt: skip
    (tmp_path / "mine.run").write_text("".join(rows))
    (tmp_path / "empty.run").write_text("")
    candidates = demo.load().candidates.groupby("qid").head(3)
    rows = [f"{row.qid} Q0 {row.docno} {i % 3} {9 - i % 3} demo\n"
            for i, row in enumerate(candidates.itertuples())]  # fmt: skip
    (tmp_path / "demo.run").write_text("".join(rows))
    (tmp_path / "prices.tsv").write_text("model\tprompt\tcompletion\ntoy\t3\t10\n")
    return tmp_path


def _base(command, wiki):
    """Return arguments and options that a command can run with, and quickly."""
    if command == "qr":
        return [str(wiki), *SMALL, "-s", "bm25", "-o", "out"]
    model = ["-g", f"t5:{demo.model_folder()}"]
    small = ["-n", "2", "-a", "0", "-a", "8", "--limit", "2", "--no-rankings"]
    return [str(demo.collection_folder()), "-t", "2", *model, *small, "-o", "out"]


def _failures(fairtk, command, cases):
    """Return the command lines of cases that end neither with tables nor with a reason."""
    failures = {}
    for words in cases:
        if problem := unexpected(fairtk(command, *words)):
            failures[" ".join([command, *words])] = problem
    return failures


def _words(command):
    systems = (*BUILT_IN, *registry.study_systems.names(), "unknown", "")
    return option_words(command, {**VALUES, "systems": systems})


SMALL = ["--no-variations", "--no-tuning", "--attribute", "gender"]


def test_bm25_alone(fairtk, wiki, tmp_path):
    result = fairtk("qr", wiki, *SMALL, "-s", "bm25", "-o", "out")
    assert result.exit_code == 0, result.output
    # empty frames have the columns of other studies
    read = {name: pd.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in FRAMES}
    empty = [name for name, frame in read.items() if frame.empty]
    assert {"drift", "controls", "tuning", "variations"} <= set(empty)
    assert all(list(read[name].columns[:3]) == ["attribute", "target", "system"] for name in empty)
    assert list(read["drift"].columns[3:]) == DRIFT[2:]
    header = pd.read_csv(tmp_path / "out" / "variations.csv").columns
    assert {"variation", "setting", "nDCG change", "AWRF"} <= set(header)


@pytest.mark.slow
@pytest.mark.parametrize("system", [*REFINING, *registry.study_systems.names()])
def test_each_system_alone(fairtk, wiki, system):
    result = fairtk("qr", wiki, *SMALL, "-s", system)
    assert unexpected(result) == "" and result.exit_code == 0, result.output
    assert system in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "last",
    [
        *(pytest.param(last, marks=pytest.mark.nightly) for last in ([], ["--status"])),
        ["--dry-run"],
    ],
)
def test_single_options_of_qr(fairtk, wiki, world, last):
    cases = [[*_base("qr", wiki), *words, *last] for words in single_options(_words("qr"))]
    assert _failures(fairtk, "qr", cases) == {}


@pytest.mark.slow
def test_single_options_of_rag_without_a_run(fairtk, wiki, world):
    options = single_options(_words("rag"))
    cases = [[*_base("rag", wiki), *words, "--status"] for words in options]
    assert _failures(fairtk, "rag", cases) == {}


def test_a_negative_seed_is_refused_before_the_run(fairtk, wiki, tmp_path):
    for command in ("qr", "rag"):
        result = fairtk(command, *_base(command, wiki), "--seed", "-1")
        assert unexpected(result) == "" and result.exit_code == 2
        assert "--seed" in result.stderr and "-1" in result.stderr
        assert not (tmp_path / "out" / "experiment.sqlite").exists()


@pytest.mark.nightly
def test_single_options_of_rag(fairtk, wiki, world):
    cases = [[*_base("rag", wiki), *words] for words in single_options(_words("rag"))]
    assert _failures(fairtk, "rag", cases) == {}


def _of_systems(wiki, chosen, attributes):
    words = [word for name in chosen for word in ("-s", name)]
    words += [word for name in attributes for word in ("--attribute", name)]
    # all systems: their tuning takes minutes
    flags = ["--no-variations", "--no-tuning"] if not chosen else ["--no-tuning"]
    return [str(wiki), *words, *flags, "-o", "out"]


CROSSED = ("geography", "gender*geography")


@pytest.mark.slow
def test_systems_without_another_that_tables_compare_with(fairtk, wiki):
    assert _failures(fairtk, "qr", [_of_systems(wiki, ("mmr", "random-terms"), CROSSED)]) == {}


@pytest.mark.nightly
def test_subsets_of_systems_and_attributes(fairtk, wiki):
    systems = ("bm25", "mmr", "fair-qr", "random-terms")
    cases = []
    for size in range(len(systems) + 1):
        for chosen in combinations(systems, size):
            cases += [_of_systems(wiki, chosen, names) for names in (("gender",), CROSSED)]
    assert _failures(fairtk, "qr", cases) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(8))  # together they take more than half an hour
@pytest.mark.parametrize("command", ["qr", "rag"])
def test_pairs_of_options(fairtk, wiki, world, command, part):
    pairs = list(pairs_of_options(_words(command)))[part::8]
    cases = [[*_base(command, wiki), *words] for words in pairs]
    assert _failures(fairtk, command, cases) == {}


def with_topics(wiki, folder, change):
    """Copy the collection with other topics: `change(number, keywords, relevant)`."""
    shutil.copytree(wiki, folder)
    topics, _, _ = qr_world.collection()
    changed = {}
    for number, (title, keywords, relevant) in topics.items():
        topic = change(number, keywords, relevant)
        if topic is not None:
            changed[number] = (title, *topic)
    files.write(folder / "train_topics_meta.jsonl", files.columns(changed))
    return folder


SYSTEMS = ["-s", "bm25", "-s", "fair-qr", "-s", "random-terms"]


@pytest.mark.nightly
def test_one_topic(fairtk, wiki, tmp_path):
    def first(number, keywords, relevant):
        return (keywords, relevant) if number == 1 else None

    folder = str(with_topics(wiki, tmp_path / "one", first))
    systems = [["-s", name] for name in (*BUILT_IN, *registry.study_systems.names())]
    cases = [[folder, *SMALL, *words, "-o", "out"] for words in (SYSTEMS, *systems)]
    cases.append([folder, "--attribute", "gender", *SYSTEMS, "-o", "out"])
    assert _failures(fairtk, "qr", cases) == {}


def test_topics_for_which_bm25_finds_nothing(fairtk, wiki, tmp_path):
    def unknown_words(numbers):
        return lambda number, keywords, relevant: (
            ["qqqq"] if number in numbers else keywords,
            relevant,
        )

    nothing = with_topics(wiki, tmp_path / "nothing", unknown_words(range(1, 9)))
    result = fairtk("qr", nothing, *SMALL, *SYSTEMS, "-o", "none")
    assert unexpected(result) == "" and result.exit_code == 2
    assert "bm25" in result.stderr and "8 topics" in result.stderr and "'qqqq'" in result.stderr
    assert "2/3" not in result.stderr  # no other system runs
    again = fairtk("qr", nothing, *SMALL, *SYSTEMS, "-o", "none")
    assert again.exit_code == 2 and "1/" not in again.stderr

    folder = with_topics(wiki, tmp_path / "some", unknown_words((2, 5)))
    result = fairtk("qr", folder, *SMALL, "-s", "bm25", "-s", "random-terms", "-o", "some-out")
    assert result.exit_code == 0
    [line] = [line for line in result.stderr.splitlines() if "no document" in line]
    assert "2 topics ('2', '5')" in line and line.endswith(": bm25, random-terms")
    assert "no document is retrieved" in (tmp_path / "some-out" / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 500])
def test_a_model_that_always_fails(fairtk, wiki, status):
    reply = {"status": status, "body": json.dumps({"error": {"message": "no"}}).encode()}
    with serving(lambda prompt: reply) as server:
        by_server = ["--base-url", server.url, "--set", "backoff=0.01", "--set", "retries=1"]
        cases = [
            ("qr", [*_base("qr", wiki), "-s", "fair-qr", "--llm", "openai:toy", *by_server]),
            ("rag", [*_base("rag", wiki), "-g", "openai:toy", "--set", "max_tokens=5", *by_server]),
        ]
        for command, words in cases:
            result = fairtk(command, *words)
            assert unexpected(result) == "" and result.exit_code in (1, 2), result.output
