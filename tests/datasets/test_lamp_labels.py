"""The label archives of Towards Fair RAG: folders and zips with ids, qrels and gold answers."""

from __future__ import annotations

import json
import warnings
import zipfile

import ir_datasets
import ir_measures
import pyterrier as pt
import pytest

import fairtk
from fairtk.datasets import lamp
from fairtk.errors import (
    DataWarning,
    DownloadError,
    FormatError,
    InputError,
    ParameterError,
    on_command_line,
)

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


def zipped(folder, path, prefix="lamp_utility_labels_flanT5Small/"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for file in sorted(folder.iterdir()):
            target.write(file, prefix + file.name)
            target.writestr("__MACOSX/" + prefix + "._" + file.name, b"\0")
    return path


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


def test_a_zip_is_unpacked_once_and_only_what_is_asked_for(archive, tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("IR_DATASETS_HOME", str(home))
    path = zipped(archive(), tmp_path / "labels.zip")
    assert labels(lamp.from_folder(path, task=4)) == EXPECTED
    unpacked = sorted(p.name for p in home.rglob("*") if p.is_file())
    assert unpacked == [
        "4_relevance_mapping.tsv",
        "4_user_dev_inputs.json",
        "4_user_dev_outputs.json",
    ]
    before = {p: p.stat().st_mtime_ns for p in home.rglob("*") if p.is_file()}
    assert labels(lamp.from_folder(path, task=4)) == EXPECTED
    assert before == {p: p.stat().st_mtime_ns for p in home.rglob("*") if p.is_file()}


@pytest.mark.parametrize("where", ["own folder", "folder of the generator", "zip"])
def test_registered_ids_find_their_files(archive, tmp_path, monkeypatch, where):
    home = tmp_path / "home"
    monkeypatch.setenv("IR_DATASETS_HOME", str(home))
    (home / "lamp" / "4" / "dev").mkdir(parents=True)
    folder = archive()
    if where == "zip":
        zipped(folder, home / "lamp" / "flan-t5-base.zip")
    elif where == "own folder":
        folder.rename(home / "lamp" / "4" / "dev" / "flan-t5-base")
    else:
        folder.rename(home / "lamp" / "flan-t5-base")
    assert labels(ir_datasets.load("lamp/4/dev/flan-t5-base")) == EXPECTED
    qrels = pt.get_dataset("fair:lamp/4/dev/flan-t5-base").get_qrels()
    assert qrels["docno"].tolist() == [docno for _, docno, _ in EXPECTED]
    with pytest.raises(
        DownloadError, match=r"lamp/4/dev/flan-t5-xxl is not in .*kimdanny/Fair-RAG"
    ):
        ir_datasets.load("lamp/4/dev/flan-t5-xxl").queries_count()


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
        (MAPPING + "031\t999\t1\n", r":6: .*'031/999' is labeled, and not among the questions"),
        (MAPPING + "031\t007\t0\n", r":6: .*labeled twice"),
        ("qid\tpid\n1\t2\n", r"missing: 'label'"),
        (MAPPING.replace("1\n", "yes\n", 1), r":2: label must be"),
    ],
)
def test_bad_mappings_are_named(archive, mapping, message):
    dataset = lamp.from_folder(archive(mapping=mapping), task=4)
    with pytest.raises(FormatError, match=message):
        labels(dataset)


def test_archives_that_cannot_be_used(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    folder = archive()
    with pytest.raises(FormatError, match=r"expected dev_questions.json.*5_user_dev_inputs.json"):
        lamp.from_folder(folder, task=5)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(zipped(folder, tmp_path / "good.zip").read_bytes()[:300])
    with pytest.raises(FormatError, match=r"broken.zip: expected a folder or a zip archive"):
        lamp.from_folder(broken, task=4)
    twice = tmp_path / "twice.zip"
    with zipfile.ZipFile(twice, "w") as target:
        for name in ("a", "../../b"):  # a path that leaves the folder is a name like any other
            target.writestr(f"{name}/4_user_dev_inputs.json", "[]")
    with pytest.raises(FormatError, match="in the archive 2 times"):
        lamp.from_folder(twice, task=4)
    flipped = bytearray((tmp_path / "good.zip").read_bytes())
    flipped[flipped.index(b"4_user_dev_inputs.json") + 60] ^= 1
    (tmp_path / "flipped.zip").write_bytes(flipped)
    with pytest.raises(InputError, match=r"flipped.zip"):
        lamp.from_folder(tmp_path / "flipped.zip", task=4)
    (folder / "dev_questions.json").write_text("[]")
    with pytest.raises(FormatError, match="only one can be meant"):
        lamp.from_folder(folder, task=4)


def spoiled():
    inputs = json.loads(json.dumps(INPUTS))
    inputs[0]["profile"] += [entry("007", "copy"), {**entry("011", "x"), "title": None}]
    inputs.append({"id": "5", "input": None, "profile": []})
    inputs.append({"id": "0312", "input": QUESTION, "profile": []})
    inputs.append({"id": "7", "input": QUESTION, "profile": [entry("1", "y")]})
    return inputs


def test_one_bad_entry_does_not_cost_the_file(archive):
    folder = archive(inputs=spoiled(), mapping=MAPPING + "031\t011\t1\n5\t1\t1\n7\t1\t1\n")
    with pytest.raises(FormatError, match=r"entry 0 .*'031/007'.*on_bad=\"skip\" leaves"):
        lamp.from_folder(folder, task=4).queries_count()
    dataset = lamp.from_folder(folder, task=4, on_bad="skip")
    with pytest.warns(DataWarning) as caught:
        assert dataset.queries_count() == 2
    texts = [str(w.message) for w in caught]
    assert len(texts) == 2
    by_kind = {t.split(" left out")[0].rsplit(": ", 1)[1]: t for t in texts}
    assert set(by_kind) == {"2 profile entries", "3 queries"}
    assert "'031/007'" in by_kind["2 profile entries"] and "'title'" in by_kind["2 profile entries"]
    for part in ("entry 2", "'0312' occurs twice", "query '7' has no gold output"):
        assert part in by_kind["3 queries"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert labels(dataset) == EXPECTED  # of what was left out, labels are, too
        assert [d.doc_id for d in dataset.docs_iter()] == [docno for _, docno, _ in EXPECTED]
        assert dataset.docs_store().get("031/007").text == "News of river the river was seen"
        assert [q.query_id for q in dataset.queries_iter()] == ["031", "0312"]
        assert dataset.scoreddocs_count() == 4


def test_bad_gold_outputs_are_left_out_with_their_queries(archive):
    golds = [{"id": "031", "output": None}, OUTPUTS["golds"][1], {"id": "0312", "output": "again"}]
    folder = archive(outputs={"task": "LaMP_4", "golds": golds})
    with pytest.raises(FormatError, match=r"golds entry 0: .*'output'.*on_bad"):
        list(lamp.from_folder(folder, task=4).queries_iter())
    with on_command_line(), pytest.raises(FormatError) as caught_error:
        list(lamp.from_folder(folder, task=4).queries_iter())
    assert "on_bad" not in str(caught_error.value)  # no command has such an option
    dataset = lamp.from_folder(folder, task=4, on_bad="skip")
    with pytest.warns(DataWarning, match="left out") as caught:
        assert [(q.query_id, q.gold_answer) for q in dataset.queries_iter()] == [("0312", "T")]
    assert len(caught) == 2
    assert labels(dataset) == EXPECTED[2:]


def test_on_bad_has_two_values(archive):
    with pytest.raises(ParameterError, match="on_bad must be one of"):
        lamp.from_folder(archive(), task=4, on_bad="ignore")
