"""TREC Fair Ranking 2021, through ir_datasets, on small files of the track's form."""

from __future__ import annotations

from importlib.metadata import requires

import ir_datasets
import pytest
from packaging.requirements import Requirement
from trec_fair_2021_files import dataset_fixture  # noqa: F401

from fairtk.datasets import trec_fair
from fairtk.errors import FormatError, InputError
from fairtk.groups import background


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
