"""LaMP queries with labels, written in the published form and read again."""

import pandas as pd
import pytest

from fairtk import demo
from fairtk.datasets import lamp
from fairtk.datasets.lamp.records import TASKS, to_doc, to_entry
from fairtk.errors import InputError


def labeled(dataset, qids):
    pairs = [(s.query_id, s.doc_id) for s in dataset.scoreddocs_iter() if s.query_id in qids]
    frame = pd.DataFrame(pairs, columns=["qid", "docno"])
    return frame.assign(label=[i % 2 for i in range(len(frame))])


@pytest.mark.parametrize("task", TASKS)
def test_entries_go_there_and_back(task):
    keys = {"description", "tag", "text", "score", "title", "abstract"}
    entry = {"id": "007", "date": "2020-01-02", **{key: f"the {key}" for key in keys}}
    doc = to_doc(task, "12", entry)
    back = to_entry(task, doc)
    assert back.items() <= entry.items()
    assert to_doc(task, "12", back) == doc
    undated = doc._replace(date="")
    assert "date" not in to_entry(task, undated)


def test_what_is_written_is_read_as_the_same_collection(tmp_path):
    dataset = demo.load().dataset
    qids = [q.query_id for q in dataset.queries_iter()][3:6]
    qrels = labeled(dataset, qids)
    lamp.write_folder(dataset, qrels, tmp_path / "new")
    again = lamp.from_folder(tmp_path / "new", task=2)
    assert list(again.queries_iter()) == [q for q in dataset.queries_iter() if q.query_id in qids]
    wanted = [d for d in dataset.docs_iter() if d.doc_id.partition("/")[0] in qids]
    assert list(again.docs_iter()) == wanted
    found = [(q.query_id, q.doc_id, q.relevance) for q in again.qrels_iter()]
    assert found == list(qrels.itertuples(index=False, name=None))
    assert len(list(again.scoreddocs_iter())) == len(wanted)


def test_bad_input(tmp_path):
    dataset = demo.load().dataset
    strange = pd.DataFrame({"qid": ["nobody"], "docno": ["nobody/1"], "label": [1]})
    with pytest.raises(InputError, match="'nobody'"):
        lamp.write_folder(dataset, strange, tmp_path)
    import ir_datasets

    with pytest.raises(InputError, match="LaMP"):
        lamp.get_task(ir_datasets.load("vaswani"))
