"""Datasets known to ir_datasets: lazily, without taking anybody's id."""

from __future__ import annotations

import pickle

import ir_datasets
import pytest

from fairtk.datasets.lamp import dataset as lamp_dataset
from fairtk.datasets.lamp.records import Lamp4Doc
from fairtk.datasets.registration import LazyDataset, listen
from fairtk.plugins.registry import DatasetSpec

BUILT = []


def build(dataset_id):
    BUILT.append(dataset_id)
    return lamp_dataset.build("lamp/4/dev")


def bare(dataset_id):
    return ir_datasets.Dataset(ir_datasets.load("antique/test").queries_handler())


@pytest.fixture
def spec():
    BUILT.clear()
    yield DatasetSpec("fairtk-test/one", f"{__name__}:build", "a test")
    listen("fairtk-test/one", None)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def test_nothing_is_built_before_it_is_asked_for(spec):
    listen(spec.name, spec)
    dataset = ir_datasets.load("fairtk-test/one")
    assert "fairtk-test/one" in list(ir_datasets.registry)
    assert dataset.dataset_id() == "fairtk-test/one"
    assert BUILT == []
    assert dataset.has_docs() and not dataset.has_qrels()
    assert dataset.docs_cls() is Lamp4Doc
    assert "docs_iter" in dir(dataset)
    assert BUILT == ["fairtk-test/one"]
    assert set(dataset.metadata()) == {"docs", "queries", "scoreddocs"}
    with pytest.raises(AttributeError):
        dataset.qrels_iter()


def test_an_id_is_registered_once(spec):
    listen(spec.name, spec)
    first = ir_datasets.load(spec.name)
    listen(spec.name, spec)
    assert ir_datasets.load(spec.name) is first


def test_ir_datasets_own_ids_stay():
    own = ir_datasets.load("antique/test")
    listen("antique/test", DatasetSpec("antique/test", f"{__name__}:build", "a test"))
    listen("antique/test", None)
    assert ir_datasets.load("antique/test") is own


def test_it_follows_the_plugins(spec):
    listen(spec.name, spec)
    assert isinstance(ir_datasets.load(spec.name), LazyDataset)
    listen(spec.name, None)
    with pytest.raises(KeyError):
        ir_datasets.load(spec.name)


def test_a_target_without_metadata_gets_them():
    dataset = LazyDataset(DatasetSpec("fairtk-test/bare", f"{__name__}:bare", "a test"))
    assert dataset.metadata() == {"queries": {}}


def test_a_lazy_dataset_can_be_pickled(spec):
    copy = pickle.loads(pickle.dumps(LazyDataset(spec)))
    assert BUILT == []
    assert copy.has_queries() and copy.dataset_id() == spec.name
