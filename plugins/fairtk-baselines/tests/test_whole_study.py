"""Whole studies with all systems of this plugin, on an invented collection."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections import defaultdict
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("fairtk_papers")

from fairtk_papers.fair_qr import from_trec_fair

from fairtk.cli.group import cli
from fairtk.demo.invented_people import write_invented_folder
from fairtk.plugins import registry

BASELINES = ("vector-search", "dlf", "deltr", "fa*ir", "mmr")
SYSTEMS = {"bm25", *BASELINES, "fair-qr", "fair-qr (no re-ranking)"}
SYSTEMS |= {"fair-qr + exposure re-ranking", "random-terms"}
ATTRIBUTES = ("gender", "geography")
QIDS, PER_TOPIC = list("123456"), 24

pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """Keep what ir_datasets writes out of the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("invented") / "wiki"
    write_invented_folder(folder, PER_TOPIC * len(QIDS))
    return folder


@pytest.fixture(scope="module")
def data(collection, place):
    return from_trec_fair(collection)


def fairtk(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def cells(folder):
    """Return what the store has: a row per chain and query."""
    with contextlib.closing(sqlite3.connect(folder / "experiment.sqlite")) as database:
        return set(database.execute("SELECT chain, qid, frame FROM cells"))


# --- all systems, from the command line


OPTIONS = """
folder = {folder!r}
output = {output!r}
[tuning]
[variations]
[options.vector-search]
dimensions = 9
[options.dlf]
weight = 0.75
epochs = 2
dimensions = 8
[options.deltr]
gamma = 7
max_iterations = 2000
[options."fa*ir"]
alpha = 0.15
adjust = "below"
[options.mmr]
lambda = 0.3
"""
BUILT = {
    "vector-search": ["num_results=100"],
    "dlf": ["weight=0.75", "epochs=2", "cutoff=20"],
    "deltr": ["gamma=7.0", "max_iterations=2000", "exposure='relative'"],
    "fa*ir": ["alpha=0.15", "adjust='below'", "test='multinomial'", "cutoff=20"],
    "mmr": ["lambda_=0.3", "cutoff=20"],
}


def watched(built, load, name):
    """Return a function that builds a system and keeps it."""

    def build(setting):
        built[name].append(load(name)(setting))
        return built[name][-1]

    return build


@pytest.fixture(scope="module")
def whole(collection, tmp_path_factory):
    """Return a study's file and folder, what was said, and the systems that were built."""
    config = tmp_path_factory.mktemp("whole") / "study.toml"
    folder, built = config.parent / "out", defaultdict(list)
    config.write_text(OPTIONS.format(folder=str(collection), output=str(folder)))
    with pytest.MonkeyPatch.context() as patch:
        load = registry.study_systems.load
        patch.setattr(registry.study_systems, "load", functools.partial(watched, built, load))
        result = fairtk("qr", config, "--format", "csv")
    assert result.exit_code == 0, result.output
    return SimpleNamespace(config=config, folder=folder, result=result, built=built)


def test_every_system_ranks_for_every_topic(whole, data):
    table = whole.result.stdout.splitlines()
    for attribute in ATTRIBUTES:
        for system in SYSTEMS:
            assert any(line.startswith(f"{attribute},{system},") for line in table)
    rankings = pd.read_parquet(whole.folder / "rankings.parquet")
    assert set(rankings.columns) == {
        *("attribute", "target", "system", "variation", "setting"),
        *("qid", "docno", "score", "rank"),
    }
    documents = {document["docno"] for document in data.documents()}
    sizes = defaultdict(dict)
    for (attribute, system, qid), rows in rankings.groupby(["attribute", "system", "qid"]):
        assert rows["rank"].tolist() == list(range(len(rows)))
        assert (rows["score"].diff().dropna() <= 0).all()
        assert set(rows["docno"]) <= documents and rows["docno"].is_unique
        sizes[attribute, system][qid] = len(rows)
    assert set(sizes) == {(a, s) for a in ATTRIBUTES for s in SYSTEMS}
    for found in sizes.values():
        assert set(found) == set(QIDS)
        # 24 documents name a topic's words: more than the cutoff of 20
        assert min(found.values()) >= 20
    reranked = rankings[rankings["system"].isin(["dlf", "deltr", "fa*ir", "mmr"])]
    assert (reranked.groupby(["attribute", "system", "qid"]).size() == PER_TOPIC).all()
    # no two systems do the same, and the two attributes differ where groups matter
    orders = rankings.groupby(["attribute", "system"])["docno"].agg(tuple)
    assert orders["gender"].nunique() == len(SYSTEMS)
    for system in ("dlf", "deltr", "fa*ir", "fair-qr"):
        assert orders["gender", system] != orders["geography", system]
    for system in ("bm25", "mmr", "vector-search"):
        assert orders["gender", system] == orders["geography", system]


def test_a_second_run_computes_nothing(whole):
    before = cells(whole.folder)
    assert len(before) > len(SYSTEMS) * len(QIDS)
    again = fairtk("qr", whole.config, "--format", "csv")
    assert again.exit_code == 0 and again.stdout == whole.result.stdout
    assert cells(whole.folder) == before
    assert "gender: deltr" in whole.result.stderr and "gender: deltr" not in again.stderr


def test_options_of_a_file_reach_each_system(whole):
    assert set(whole.built) == set(BASELINES)
    for name, expected in BUILT.items():
        built = whole.built[name]
        for text in expected:
            assert all(text in repr(system) for system in built), (name, text)
    # the encoder prints its settings as a digest; it is kept under their number of dimensions
    for name, size in (("vector-search", 9), ("dlf", 8)):
        assert (whole.folder / "systems" / name / "vectors" / f"lsa-{size}").is_dir()
