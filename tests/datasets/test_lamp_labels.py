"""The utility labels of Towards Fair RAG: folders with ids, qrels and gold answers."""

from __future__ import annotations

import json

import ir_datasets
import ir_measures
import pyterrier as pt
import pytest

import fairtk
from fairtk.datasets import lamp
from fairtk.errors import DownloadError, FormatError

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

QUESTION = "Generate a headline for the following article: the river rose again"


def entry(pid, word):
    return {"id": pid, "title": f"News of {word}", "text": f"the {word} was seen", "date": ""}


INPUTS = [
    {"id": "031", "input": QUESTION, "profile": [entry("007", "river"), entry("010", "kettle")]},
    {"id": "0312", "input": QUESTION, "profile": [entry("10", "tides"), entry("007", "river")]},
]
OUTPUTS = {
    "task": "LaMP_4",
    "golds": [{"id": "031", "output": "River"}, {"id": "0312", "output": "T"}],
}
MAPPING = "qid\tpid\trelevance_label\n031\t007\t1\n031\t010\t0\n0312\t10\t1\n0312\t007\t1\n"


@pytest.fixture
def archive(tmp_path):
    """Return a function that writes an archive's folder, with parts replaced or left out."""

    def write(name="flanT5Small", inputs=INPUTS, outputs=OUTPUTS, mapping=MAPPING, task=4):
        folder = tmp_path / name
        folder.mkdir()
        for file, content in (
            (f"{task}_user_dev_inputs.json", inputs),
            (f"{task}_user_dev_outputs.json", outputs),
            (f"{task}_relevance_mapping.tsv", mapping),
        ):
            if content is not None:
                text = content if isinstance(content, str) else json.dumps(content)
                (folder / file).write_text(text, encoding="utf-8")
        return folder

    return write


def labels(dataset):
    return [(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()]


EXPECTED = [
    ("031", "031/007", 1),
    ("031", "031/010", 0),
    ("0312", "0312/10", 1),
    ("0312", "0312/007", 1),
]


def test_a_folder(archive):
    dataset = lamp.from_folder(archive(), task=4)
    assert labels(dataset) == EXPECTED
    assert [d.doc_id for d in dataset.docs_iter()] == [docno for _, docno, _ in EXPECTED]
    assert [q.gold_answer for q in dataset.queries_iter()] == ["River", "T"]
    assert dataset.qrels_count() == 4 and set(dataset.qrels_defs()) == {0, 1}
    assert "Utility labels" in dataset.documentation()["labels"]


@pytest.mark.parametrize("where", ["own folder", "folder of the generator"])
def test_registered_ids_find_their_files(archive, tmp_path, monkeypatch, where):
    home = tmp_path / "home"
    monkeypatch.setenv("IR_DATASETS_HOME", str(home))
    (home / "lamp" / "4" / "dev").mkdir(parents=True)
    folder = archive()
    if where == "own folder":
        folder.rename(home / "lamp" / "4" / "dev" / "flan-t5-base")
    else:
        folder.rename(home / "lamp" / "flan-t5-base")
    assert labels(ir_datasets.load("lamp/4/dev/flan-t5-base")) == EXPECTED
    qrels = pt.get_dataset("fair:lamp/4/dev/flan-t5-base").get_qrels()
    assert qrels["docno"].tolist() == [docno for _, docno, _ in EXPECTED]
    with pytest.raises(DownloadError):
        ir_datasets.load("lamp/4/dev/flan-t5-xxl").queries_count()


@pytest.mark.filterwarnings("ignore:BM25Scorer. all scores:fairtk.errors.DataWarning")
def test_a_pipeline_over_them(archive):
    inputs = json.loads(json.dumps(INPUTS))
    # of two documents, BM25 gives a word that one of them has a weight of log(1.5 / 1.5) = 0
    inputs[0]["profile"].append(entry("012", "fog"))
    dataset = lamp.from_folder(archive(inputs=inputs), task=4)
    view = fairtk.datasets.FairDataset(dataset)
    run = (fairtk.Candidates(dataset) >> fairtk.BM25Scorer())(view.get_topics())
    value = ir_measures.calc_aggregate([fairtk.EE_R @ 1], view.get_qrels(), run)[fairtk.EE_R @ 1]
    # 031: the useful 007 has the query's word and is first: 1. 0312: one of two useful ones: the
    # ideal gives each 1/2, so a fixed choice has 1 * 1/2 of the ideal 2 * (1/2)^2 = 1/2: 1
    assert value == 1


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (MAPPING + "999\t1\t1\n", r"mapping.tsv:6: .*'999'.*different splits or tasks"),
        (MAPPING + "031\t999\t1\n", r":6: .*'031/999' is missing from the questions"),
        (MAPPING + "031\t007\t0\n", r":6: .*duplicate label"),
        ("qid\tpid\n1\t2\n", r"missing column 'label'"),
        (MAPPING.replace("1\n", "yes\n", 1), r":2: label must be"),
    ],
)
def test_bad_mappings_are_named(archive, mapping, message):
    dataset = lamp.from_folder(archive(mapping=mapping), task=4)
    with pytest.raises(FormatError, match=message):
        labels(dataset)


def test_folders_that_cannot_be_used(archive):
    folder = archive()
    with pytest.raises(FormatError, match="dev_questions.json.*5_user_dev_inputs.json"):
        lamp.from_folder(folder, task=5)
    (folder / "dev_questions.json").write_text("[]")
    with pytest.raises(FormatError):
        lamp.from_folder(folder, task=4)
