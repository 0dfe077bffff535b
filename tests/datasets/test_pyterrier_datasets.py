"""PyTerrier's view: the providers `irds:` and `fair:`, also without importing fairtk."""

from __future__ import annotations

import subprocess
import sys

import pyterrier as pt
import pytest

import fairtk  # noqa: F401
from fairtk.datasets import lamp
from fairtk.datasets.lamp.records import Lamp3Doc
from fairtk.datasets.provider import FairDataset, FairDatasetProvider

# PyTerrier 1.1.2 renames in place, which pandas 3.1 announces to drop
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


@pytest.fixture
def home(tmp_path, monkeypatch, lamp_folder):
    """A data folder in which lamp/4/dev lies."""
    place = tmp_path / "home" / "lamp" / "4" / "dev"
    place.mkdir(parents=True)
    for path in lamp_folder(4).iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))


def test_fair_dataset_from_a_folder(lamp_folder):
    dataset = FairDataset(lamp.from_folder(lamp_folder()))
    assert list(dataset.get_topics().columns) == ["qid", "query", "question"]
    assert list(dataset.get_topics("question").columns) == ["qid", "query"]
    assert dataset.get_answers()["gold_answer"].tolist() == ["River rises"] * 2
    results = dataset.get_results()
    assert set(results.columns) == {"qid", "docno", "score", "query", "question"}
    assert len(results) == 5 and set(results["score"]) == {0.0}
    loaded = dataset.text_loader()(results[["qid", "docno"]])
    assert {"text", "title", "article", "date"} <= set(loaded.columns)
    rows = list(dataset.get_corpus_iter(verbose=False))
    assert rows[0]["docno"] == "31/210" and len(rows) == 5
    assert [r["docno"] for r in dataset.get_corpus_iter(verbose=False, start=3)] == [
        "312/10",
        "312/210",
    ]
    assert repr(dataset).startswith("FairDataset('lamp/4/dev:")


def test_irds_candidates_are_the_profiles(home, capsys):
    dataset = pt.get_dataset("irds:lamp/4/dev")
    results = dataset.get_results()
    assert {"qid", "docno", "score", "query", "question", "gold_answer"} == set(results.columns)
    assert sorted(results["docno"]) == ["31/11", "31/12", "31/210", "312/10", "312/210"]
    assert results["score"].eq(0).all()
    capsys.readouterr()  # PyTerrier prints that there are several query fields


def test_provider_knows_names():
    provider = FairDatasetProvider()
    assert set(lamp.ids()) <= set(provider.list_dataset_names())
    assert provider.get_dataset("lamp/time/3/train").irds_ref().docs_cls() is Lamp3Doc
    with pytest.raises(KeyError, match="'lamp/4/dev'"):
        provider.get_dataset("lamp/4/def")


@pytest.mark.parametrize("prefix", ["irds", "fair"])
def test_without_importing_fairtk(home, prefix):
    code = (
        "import pyterrier as pt\n"
        f"dataset = pt.get_dataset('{prefix}:lamp/4/dev')\n"
        "print(len(dataset.get_results()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5"
