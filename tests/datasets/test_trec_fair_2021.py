"""TREC Fair Ranking 2021, through ir_datasets, on small files of the track's form."""

from __future__ import annotations

import contextlib
import json
from importlib.metadata import requires

import ir_datasets
import pytest
from fairtk_papers.fair_qr import from_trec_fair
from ir_datasets.datasets.trec_fair import (
    FairTrecDocs,
    FairTrecEvalQuery,
    FairTrecQrels,
    FairTrecQueries,
)
from packaging.requirements import Requirement

from fairtk import AWRF
from fairtk.datasets import trec_fair
from fairtk.errors import FormatError, InputError, NotFoundError
from fairtk.groups import background

PLACES = {
    1: ["Europe"],
    2: ["Europe", "Asia"],
    3: [],
    4: ["Africa"],
    5: ["Oceania", "Oceania"],
}
TOPICS = [
    {
        "id": 101,
        "title": "Bridges",
        "keywords": ["bridge", "tunnel"],
        "scope": "s",
        "rel_docs": [1, 2, 3, 2],
    },
    {"id": 102, "title": "Chess", "keywords": ["chess"], "scope": "s", "rel_docs": [4]},
]


class Local:
    """A file as ir_datasets' downloads are read."""

    def __init__(self, path):
        self._path = path

    @contextlib.contextmanager
    def stream(self):
        with self._path.open("rb") as stream:
            yield stream

    def path(self, force=True):
        return self._path


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return Local(path)


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    docs = [
        {"id": n, "title": f"Page {n}", "text": f"the '''bridge''' [[tunnel]] {n}", "url": "u"}
        for n in PLACES
    ]
    pages = [
        {"page_id": n, "quality_score": 0.5, "quality_score_disc": "C", "geographic_locations": g}
        for n, g in PLACES.items()
    ]
    pages.append({**pages[0], "geographic_locations": ["Asia"]})  # a second record does not count
    topics = write(tmp_path / "topics.jsonl", TOPICS)
    made = ir_datasets.Dataset(
        FairTrecDocs(
            write(tmp_path / "docs.jsonl", docs), write(tmp_path / "metadata.jsonl", pages)
        ),
        FairTrecQueries(topics, FairTrecEvalQuery),
        FairTrecQrels(topics),
    )
    made._dataset_id = "trec-fair/2021/eval"
    monkeypatch.setattr(made, "dataset_id", lambda: "trec-fair/2021/eval", raising=False)
    return made


def test_continents_and_official_targets(dataset):
    groups = trec_fair.geography_2021(dataset)
    world = background("trec-2021-world-population")
    assert list(groups.levels) == list(world.index) and world.sum() == pytest.approx(1, abs=1e-12)
    assert groups.memberships(["2", "5", "3"]).size.tolist() == [2, 1, 0]
    frame = trec_fair.targets_2021(dataset).to_frame()
    found = frame.pivot(index="group", columns="qid", values="weight").fillna(0.0)
    # 101: Europe 1 + 1, Asia 1, of 3 (article 3 has no place, 2 counts once); half is the world's
    assert found["101"]["Europe"] == pytest.approx((2 / 3 + world["Europe"]) / 2, abs=1e-12)
    assert found["101"]["Asia"] == pytest.approx((1 / 3 + world["Asia"]) / 2, abs=1e-12)
    assert found["102"]["Africa"] == pytest.approx((1 + world["Africa"]) / 2, abs=1e-12)
    assert found["102"]["Asia"] == pytest.approx(world["Asia"] / 2, abs=1e-12)


def test_the_world_of_2021_is_that_of_2022_in_larger_parts():
    new, old = background("trec-2022-world-population"), background("trec-2021-world-population")
    africa = new[[level for level in new.index if "Africa" in level]].sum()
    assert africa == pytest.approx(old["Africa"], abs=1e-8)
    latin = new[["Caribbean", "Central America", "South America"]].sum()
    assert latin == pytest.approx(old["Latin America and the Caribbean"], abs=1e-8)


def test_a_study_of_2021(dataset):
    pytest.importorskip("pyautocorpus")
    data = from_trec_fair(dataset, targets={"geography": "uniform"}, query="title_keywords")
    assert data.topics["query"].tolist() == ["Bridges bridge tunnel", "Chess chess"]
    assert list(data.attributes) == ["geography", "geography (uniform)"]
    assert len(data.qrels) == 4  # the pair that stands twice counts once
    assert [d["text"] for d in data.documents()][0] == "Page 1 the bridge tunnel 1"
    groups, fixed = data.attributes["geography (uniform)"]
    assert set(fixed.to_frame()["weight"]) == {1 / 7}
    assert AWRF(groups=groups, target=fixed) @ 5
    with pytest.raises(NotFoundError, match="2021.*'gender'"):
        from_trec_fair(dataset, ["gender"])


def test_other_data_and_broken_lines(dataset, tmp_path):
    with pytest.raises(InputError, match="2021"):
        trec_fair.geography_2021(ir_datasets.load("vaswani"))
    (tmp_path / "metadata.jsonl").write_text('{"page_id": 1}\n', encoding="utf-8")
    with pytest.raises(FormatError, match="metadata.jsonl"):
        trec_fair.geography_2021(dataset)


def test_the_version_of_ir_datasets_that_is_recommended_is_one_that_fairtk_allows(
    dataset, monkeypatch
):
    monkeypatch.setattr(dataset.docs_handler(), "_mlc", None)
    with pytest.raises(InputError) as caught:
        trec_fair.geography_2021(dataset)
    words = str(caught.value).split()
    version = words[words.index("ir_datasets", words.index("install")) + 1]
    [needed] = [r for r in map(Requirement, requires("fairtk")) if r.name == "ir_datasets"]
    assert needed.specifier.contains(version)
