"""FAIR-QR's study of TREC Fair Ranking 2021."""

import pytest
from fairtk_papers.fair_qr import from_trec_fair
from trec_fair_2021_files import dataset_fixture  # noqa: F401

from fairtk import AWRF
from fairtk.errors import InputError, NotFoundError


def test_a_study_of_2021(dataset):
    pytest.importorskip("pyautocorpus")
    data = from_trec_fair(dataset, target={"geography": "uniform"}, query="title_keywords")
    assert data.topics["query"].tolist() == ["Bridges bridge tunnel", "Chess chess"]
    assert list(data.attributes) == ["geography", "geography (uniform)"]
    assert len(data.qrels) == 4  # the pair that stands twice counts once
    assert [d["text"] for d in data.documents()][0] == "Page 1 the bridge tunnel 1"
    groups, fixed = data.attributes["geography (uniform)"]
    assert set(fixed.to_frame()["weight"]) == {1 / 7}
    assert AWRF(groups=groups, target=fixed) @ 5
    with pytest.raises(NotFoundError, match="2021.*'gender'"):
        from_trec_fair(dataset, ["gender"])


def test_a_dataset_without_qrels_is_refused():
    with pytest.raises(InputError, match="^from_trec_fair: trec-fair/2022 "):
        from_trec_fair("trec-fair/2022")
