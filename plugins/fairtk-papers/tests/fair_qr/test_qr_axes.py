"""Several models and retrievers in one study and its tables."""

from __future__ import annotations

import csv
import io
import json
import math

import pyterrier as pt
import pytest
import qr_world
from fairtk_papers.fair_qr import QrStudy
from fairtk_papers.fair_qr.report import comparison
from fairtk_papers.fair_qr.systems import make_retriever, table_names

from fairtk import identified
from fairtk.errors import FairtkError, NotFoundError, ParameterError
from fairtk.llm import KeywordRefiner
from fairtk.transformers import CollectionBM25

ONLY = {**qr_world.SMALL, "systems": ("fair-qr",), "variations": {}, "tuning": {}}


class Unrelated(KeywordRefiner):
    """The same two words for every topic: a model that drifts."""

    @property
    def name(self):
        return "unrelated"

    def outcomes(self, chats):
        from fairtk.llm import Completion

        for place, _ in enumerate(chats):
            yield place, Completion("zot zotzot", 3, 2, 0.01)


def both(data, folder, **changed):
    index = folder / "index"
    retrievers = {
        "bm25": CollectionBM25(index, data.documents),
        "bm25 (b=.9)": CollectionBM25(index, data.documents, b=0.9),
    }
    models = {"words": KeywordRefiner(), "drift": Unrelated()}
    settings = qr_world.settings(**{**ONLY, **changed})
    return QrStudy(data, folder / "study", models, settings, retriever=retrievers)


@pytest.mark.filterwarnings("ignore:.*share no word:fairtk.errors.DataWarning")
def test_each_pair_is_in_the_table_and_is_what_a_study_of_its_own_gives(gender, tmp_path):
    study = both(gender, tmp_path)
    progress = []
    results = study.run(progress.append)
    assert set(results.table["system"]) == {
        *("bm25", "fair-qr", "bm25 (b=.9)"),
        *("fair-qr [drift]", "fair-qr [bm25 (b=.9)]", "fair-qr [bm25 (b=.9), drift]"),
    }
    # numbers without gaps, what waits for a model last
    assert [text.split()[0] for text in progress] == [f"{n}/6" for n in range(1, 7)]
    assert [text.split(": ")[1] for text in progress[:2]] == ["bm25", "bm25 (b=.9)"]
    assert "all others use words and bm25" in comparison(results).caption
    alone = qr_world.study(gender, tmp_path / "alone", Unrelated(), **ONLY)
    alone.retriever.b = 0.9
    values = alone.run().per_query.query("system == 'fair-qr'")["value"].tolist()
    there = results.per_query.query("system == 'fair-qr [bm25 (b=.9), drift]'")["value"].tolist()
    assert values == there
    # the cost of each is by its own model
    costs = results.costs.set_index("system")
    told_tokens = costs["completion_tokens"]
    assert told_tokens["fair-qr"] == 0.0 < told_tokens["fair-qr [drift]"]
    again = []
    both(gender, tmp_path).run(again.append)
    assert again == [] and study.plan().total["done"] == study.plan().total["systems"] == 6


@pytest.mark.slow
def test_a_configuration_with_both_and_flags(fairtk, wiki, tmp_path):
    config = tmp_path / "study.toml"
    config.write_text(
        f'folder = "{wiki}"\ncutoff = 5\ncandidates = 10\n'
        '[[retriever]]\nkind = "bm25"\nthreads = 2\n'
        '[[retriever]]\nname = "flat"\nkind = "bm25"\nb = 0.1\n'
        '[[llm]]\nname = "three"\n[[llm]]\nname = "one"\nterms = 1\n',
        encoding="utf-8",
    )
    options = ["qr", config, "-s", "fair-qr", "--attribute", "gender*geography"]
    options += ["--no-variations", "--no-tuning", "--split", "eval"]
    options += ["--seed", "7", "-o", "here", "--format", "csv"]
    plan = fairtk(*options, "--dry-run")
    assert plan.exit_code == 0 and "fair-qr [flat, one]" in plan.output, plan.output
    done = fairtk(*options)
    assert done.exit_code == 0, done.output
    records = list(csv.DictReader(io.StringIO(done.stdout)))
    names = ["bm25", "fair-qr", "fair-qr [one]", "flat", "fair-qr [flat]", "fair-qr [flat, one]"]
    assert {r["system"] for r in records} == set(names) and len(records) == 6
    assert {r["attribute"] for r in records} == {"gender*geography"}
    assert all(float(r["AWRF"]) > 0 for r in records)
    assert json.loads((tmp_path / "here" / "study.json").read_text())["settings"]["seed"] == 7
    assert "wiki (eval topics)" in (tmp_path / "here" / "report.md").read_text()


class Broken(pt.Transformer):
    """Fails, or finds what it is told to."""

    def __init__(self, found=None):
        self.found = found

    def transform(self, inp):
        if self.found is None:
            raise OSError("the disk is gone")
        return inp.assign(**self.found)


def test_names_of_models_and_retrievers():
    assert table_names([{"model": "a/b"}, {"name": "x"}], "llm", "model") == ["b", "x"]
    with pytest.raises(ParameterError, match="'x'"):
        table_names([{"name": "x"}, {"name": "x"}], "llm", "model")
    with pytest.raises(ParameterError):
        table_names([{"name": "a [b]"}], "llm", "model")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"kind": "bm26"}, NotFoundError, "kind 'bm26'; did you mean 'bm25'"),
        ({"kb": 1}, NotFoundError, "setting of the retriever 'r': 'kb'"),
    ],
)
def test_retrievers_that_cannot_be_made(gender, tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        make_retriever("r", given, gender, tmp_path, qr_world.settings())


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "OSError: the disk is gone"),
        (
            {"docno": "a", "score": math.nan, "rank": 0},
            "score must be a .*got nan .qid '1', docno 'a'",
        ),
    ],
)
def test_a_second_retriever_that_fails_is_named_and_nothing_of_it_is_kept(
    gender, tmp_path, found, message
):
    index = CollectionBM25(tmp_path / "index", gender.documents)
    retrievers = {"bm25": index, "second": identified(Broken(found), "broken, v1")}
    settings = qr_world.settings(**{**ONLY, "systems": ("bm25",)})
    study = QrStudy(gender, tmp_path, KeywordRefiner(), settings, retriever=retrievers)
    with pytest.raises(FairtkError, match=f"system 'second' for 'gender': .*{message}"):
        study.run()
    assert qr_world.finished_systems(study) == ["bm25"]


def test_a_retriever_has_no_name_of_a_system(gender, tmp_path):
    index = CollectionBM25(tmp_path, gender.documents)
    retrievers = {"bm25": index, "fair-qr": index}
    with pytest.raises(ParameterError, match="'fair-qr'"):
        QrStudy(gender, tmp_path, KeywordRefiner(), qr_world.settings(**ONLY), retriever=retrievers)
