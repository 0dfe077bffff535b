"""A LaMP folder as an ir_datasets dataset, for all seven tasks; bad files are named."""

from __future__ import annotations

import json

import pytest

from fairtk.datasets import get_answers, get_topics, lamp
from fairtk.datasets.lamp import dataset as lamp_dataset
from fairtk.datasets.lamp.records import DOC_TYPES, TASKS, LampQuery, LampQuestion
from fairtk.errors import FormatError, InputError, NotFoundError


@pytest.mark.parametrize("task", TASKS)
def test_all_tasks_load(lamp_folder, lamp_case, task):
    dataset = lamp.from_folder(lamp_folder(task), task=task)
    queries = list(dataset.queries_iter())
    expected = [
        LampQuery(
            qid, lamp_case["queries"][task], lamp_case["questions"][task], lamp_case["golds"][task]
        )
        for qid in ("31", "312")
    ]
    assert queries == expected
    assert queries[0].default_text() == lamp_case["queries"][task]
    docs = list(dataset.docs_iter())
    # "31" + "210" and "312" + "10" are the same string; the docnos are not
    docnos = ["31/210", "31/11", "31/12", "312/10", "312/210"]
    assert [d.doc_id for d in docs] == docnos
    assert all(type(d) is dataset.docs_cls() is DOC_TYPES[task] for d in docs)
    scored = [(s.query_id, s.doc_id, s.score) for s in dataset.scoreddocs_iter()]
    assert scored == [(d.split("/")[0], d, 0.0) for d in docnos]
    assert (dataset.docs_count(), dataset.queries_count(), dataset.scoreddocs_count()) == (5, 2, 5)


def test_docs_can_be_looked_up_and_sliced(lamp_folder):
    dataset = lamp.from_folder(lamp_folder())
    docs = list(dataset.docs_iter())
    store = dataset.docs_store()
    assert store.get("312/210") == docs[4]
    assert store.get_many(["312/10", "31/11", "nope/1", "31/nope"]) == {
        "312/10": docs[3],
        "31/11": docs[1],
    }
    ids = ["312/10", "31/11"]
    assert store.get_many(docno for docno in ids) == store.get_many(ids) != {}
    assert store.get("31/12", "title") == docs[2].title
    with pytest.raises(KeyError):
        store.get("312/11")
    assert dataset.docs_iter()[3] == docs[3]
    assert dataset.docs_iter()[-1] == docs[4]
    for cut in (slice(1, 4), slice(3, None), slice(None, None, 2), slice(4, 9), slice(2, 2)):
        assert list(dataset.docs_iter()[cut]) == docs[cut]
    assert list(dataset.docs_iter()[1:][1:3]) == docs[2:4]
    assert list(dataset.docs_iter()[: 2 / 5]) == docs[:2]
    with pytest.raises(IndexError):
        dataset.docs_iter()[5]
    with pytest.raises(ValueError, match="step"):
        dataset.docs_iter()[::-1]


def test_the_order_of_ir_datasets_interface(lamp_folder):
    dataset = lamp.from_folder(lamp_folder())
    assert len(dataset.docs) == 5
    assert dataset.docs.lookup("31/11").title == "News of kettle"
    assert dataset.queries.lookup("312").gold_answer == "River rises"
    assert (dataset.docs_lang(), dataset.queries_lang()) == ("en", "en")
    assert "Dataset(id='lamp/4/dev:" in repr(dataset)


def test_documentation_says_which_fields_do_what():
    for dataset_id in lamp.ids():
        text = lamp_dataset.build(dataset_id).documentation()
        assert {"pretty_name", "desc", "labels", "gold_answer", "citation"} <= set(text)
        assert "text =" in text["desc"] and "prompt reads" in text["desc"]
        assert ("split by time" in text["desc"]) == ("/time/" in dataset_id)


def test_topics_and_answers(lamp_folder):
    dataset = lamp.from_folder(lamp_folder())
    assert list(get_topics(dataset).columns) == ["qid", "query", "question"]
    assert get_answers(dataset).to_dict("list") == {
        "qid": ["31", "312"],
        "gold_answer": ["River rises", "River rises"],
    }


def test_without_golds_there_is_no_gold_answer(lamp_folder):
    folder = lamp_folder(split="test")
    (folder / "test_outputs.json").unlink()
    with pytest.raises(FormatError, match="test_outputs.json.*golds=False"):
        lamp.from_folder(folder, split="test")
    dataset = lamp.from_folder(folder, split="test", golds=False)
    assert dataset.queries_cls() is LampQuestion
    assert next(dataset.queries_iter())._fields == ("query_id", "query", "question")
    with pytest.raises(InputError):
        get_answers(dataset)


def test_files_in_a_subfolder_named_like_the_split(lamp_folder):
    folder = lamp_folder()
    (folder / "dev").mkdir()
    for path in folder.glob("*.json"):
        path.rename(folder / "dev" / path.name)
    assert lamp.from_folder(folder).queries_count() == 2


def test_use_date(lamp_folder):
    dataset = lamp.from_folder(lamp_folder(7), task=7, use_date=True)
    assert next(dataset.docs_iter()).text == "river again date: 2020-01-02"
    assert dataset.dataset_id().endswith(" with dates")


def test_no_folder_no_file(tmp_path):
    with pytest.raises(FormatError):
        lamp.from_folder(tmp_path / "none")
    (tmp_path / "train_questions.json").write_text("[]")
    with pytest.raises(FormatError, match=r"got \['train_questions.json'\]"):
        lamp.from_folder(tmp_path)
    with pytest.raises(NotFoundError, match="'lamp/4/dev'"):
        lamp_dataset.build("lamp/4/def")


def without(entry, key):
    return {k: v for k, v in entry.items() if k != key}


def spoil_question(raw):
    return [raw[0], without(raw[1], "input")]


def spoil_profile(raw):
    return [raw[0], {**raw[1], "profile": [raw[1]["profile"][0], "text"]}]


def spoil_key(raw):
    return [{**raw[0], "profile": [without(raw[0]["profile"][0], "title")]}, raw[1]]


def twice_query(raw):
    return [raw[0], raw[0]]


def twice_profile(raw):
    return [{**raw[0], "profile": [raw[0]["profile"][0]] * 2}]


def slash(raw):
    return [{**raw[0], "id": "3/1"}]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_question, r"dev_questions.json:1: entry 1 .*query '312' requires the key 'input'"),
        (spoil_profile, r"entry 1 .*query '312', profile entry number 1 must be an object"),
        (spoil_key, r"entry 0 .*query '31', profile entry '210' requires the key 'title'"),
        (twice_query, r"entry 1 .*duplicate id '31'"),
        (twice_profile, r"entry 0 .*duplicate profile entry.*'31/210'"),
        (slash, r"entry 0 .*the id '3/1' must not contain '/'"),
        (lambda raw: "[]", r"the file has no questions"),
    ],
)
def test_malformed_questions_are_named(lamp_folder, lamp_case, spoil, message):
    dataset = lamp.from_folder(lamp_folder(questions_=spoil(lamp_case["raw"](4))))
    with pytest.raises(FormatError, match=message):
        dataset.queries_count()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"task": "LaMP_4", "golds": [{"id": "31", "output": "x"}]}, r"1 of 2 questions \('312'\)"),
        ({"task": "LaMP_2", "golds": [{"id": "31", "output": "x"}]}, r"of task 'LaMP_2'"),
        (
            {"task": "LaMP_4", "golds": [{"id": "31"}]},
            r"golds entry 0: .*requires the key 'output'",
        ),
        (
            {"task": "LaMP_4", "golds": [{"id": "31", "output": None}]},
            r"golds entry 0: 'output' of query '31'",
        ),
        (
            {"task": "LaMP_4", "golds": [{"id": "31", "output": "x"}] * 2},
            r"entry 1: duplicate id '31'",
        ),
        ({"task": "LaMP_4", "golds": ["x"]}, r"golds entry 0: .*must be an object, got str 'x'"),
        ("[1, 2]", r"expected an object with the keys 'task' and 'golds'"),
        ('{"task": ', r"dev_outputs.json:1: invalid JSON"),
        ({"golds": [{"id": "31", "output": "\ud800"}]}, r"outputs.json:1: .*surrogate"),
        ('{"golds": [{"id": ' + "3" * 5000, r"outputs.json:1: .*thousands of digits"),
    ],
)
def test_malformed_outputs_are_named(lamp_folder, content, message):
    dataset = lamp.from_folder(lamp_folder(outputs_=content))
    with pytest.raises(FormatError, match=message):
        list(dataset.queries_iter())


def test_a_file_that_changes_is_read_again(lamp_folder):
    folder = lamp_folder(4)
    dataset = lamp.from_folder(folder, task=4)
    before = [doc.doc_id for doc in dataset.docs_iter()]
    path = folder / "dev_questions.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(entries[1:], indent=3), encoding="utf-8")
    after = [doc.doc_id for doc in dataset.docs_iter()]
    assert after == before[len(entries[0]["profile"]) :]
    assert dataset.docs_store().get(after[-1]).doc_id == after[-1]
