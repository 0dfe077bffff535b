"""Candidates: each query's own documents, with the topics' columns kept."""

from __future__ import annotations

import json

import ir_datasets
import pandas as pd
import pytest
from ir_datasets.formats import BaseDocs, BaseQueries, BaseScoredDocs, GenericDoc, GenericScoredDoc
from ir_datasets.indices import Docstore

from fairtk import BM25Scorer, Candidates
from fairtk.datasets import FairDataset, lamp
from fairtk.datasets.lamp import dataset as lamp_dataset
from fairtk.errors import DataWarning, DuplicateError, InputError

# small collections have equal scores
pytestmark = pytest.mark.filterwarnings("ignore:.*all scores of:fairtk.errors.DataWarning")


def article(pid, title):
    return {"id": pid, "title": title, "text": f"more on {title}", "date": "2020-01-01"}


PROFILES = {
    "31": [article("210", "rivers"), article("11", "kettles"), article("12", "robots")],
    "312": [article("10", "clouds"), article("210", "tides")],
    "5": [],
}


@pytest.fixture
def folder(tmp_path):
    asks = "Generate a headline for the following article: "
    questions = [
        {"id": qid, "input": f"{asks}text of {qid}", "profile": profile}
        for qid, profile in PROFILES.items()
    ]
    golds = {"task": "LaMP_4", "golds": [{"id": q, "output": f"gold {q}"} for q in PROFILES]}
    (tmp_path / "dev_questions.json").write_text(json.dumps(questions))
    (tmp_path / "dev_outputs.json").write_text(json.dumps(golds))
    return tmp_path


@pytest.fixture
def dataset(folder):
    return lamp.from_folder(folder, task=4)


def topics(*qids, **columns):
    return pd.DataFrame({"qid": list(qids), **columns})


def test_each_query_gets_its_own_profile_in_the_topics_order(dataset):
    out = Candidates(dataset)(topics("312", "31"))
    assert list(out.columns) == [
        "qid", "query", "question", "docno", "score", "rank", "text", "title", "article", "date",
    ]  # fmt: skip
    assert out["docno"].tolist() == ["312/10", "312/210", "31/210", "31/11", "31/12"]
    assert out["qid"].tolist() == ["312", "312", "31", "31", "31"]
    assert out["rank"].tolist() == [0, 1, 0, 1, 2]
    assert out["score"].eq(0).all()
    assert out["query"].tolist() == ["text of 312"] * 2 + ["text of 31"] * 3
    assert out["question"][0].endswith("article: text of 312")
    row = out.iloc[3]
    assert (row["text"], row["title"]) == ("kettles more on kettles", "kettles")
    assert row["article"] == "more on kettles"
    assert out.index.tolist() == list(range(5))


def test_columns_of_the_topics_are_kept_but_not_those_of_documents(dataset):
    given = topics("31", query="mine", question="also mine", fold=3, title="not this", score=9.0)
    out = Candidates(dataset)(given)
    assert set(out["query"]) == {"mine"} and set(out["question"]) == {"also mine"}
    assert set(out["fold"]) == {3} and list(out.columns)[-1] == "fold"
    assert out["title"].tolist() == ["rivers", "kettles", "robots"]
    assert out["score"].eq(0).all()


def test_all_forms_of_a_dataset_are_equal(dataset, folder):
    same = [
        Candidates(dataset),
        Candidates(lamp.from_folder(folder)),
        Candidates(FairDataset(dataset)),
    ]
    assert len({c.digest() for c in same}) == 1 and same[0] == same[1]
    assert same[0] != Candidates(lamp.from_folder(folder, use_date=True))
    assert same[0] != Candidates(lamp_dataset.build("lamp/4/dev"))
    assert repr(Candidates(lamp_dataset.build("lamp/4/dev"))) == "Candidates(dataset='lamp/4/dev')"
    for other in same[1:]:
        pd.testing.assert_frame_equal(other(topics("31")), same[0](topics("31")))


def test_ids_are_known_after_import(monkeypatch, tmp_path, folder):
    place = tmp_path / "home" / "lamp" / "4" / "dev"
    place.mkdir(parents=True)
    for path in folder.glob("*.json"):
        (place / path.name).write_bytes(path.read_bytes())
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    for name in ("lamp/4/dev", "irds:lamp/4/dev", "fair:lamp/4/dev"):
        assert len(Candidates(name)(topics("31"))) == 3
    assert Candidates("irds:lamp/4/dev") == Candidates("lamp/4/dev")


def test_queries_without_candidates_are_named(dataset):
    unknown, empty = "2 of 4 queries .'x', 'y'", "1 of 4 queries .'5'"
    with pytest.warns(DataWarning, match=unknown), pytest.warns(DataWarning, match=empty):
        out = Candidates(dataset)(topics("x", "31", "5", "y"))
    assert set(out["qid"]) == {"31"} and len(out) == 3
    with pytest.warns(DataWarning, match="1 of 1.*'031'.*'31'"):
        assert len(Candidates(dataset)(topics("031"))) == 0


def test_qids_are_text_or_whole_numbers(dataset):
    out = Candidates(dataset)(topics(31))
    assert out["docno"].tolist() == Candidates(dataset)(topics("31"))["docno"].tolist()
    assert out["qid"].tolist() == [31] * 3  # as in the topics
    with pytest.raises(InputError, match=r"Candidates: qid must be .* got 31.0"):
        Candidates(dataset)(topics(31.0))


def test_empty_topics_need_no_data():
    # the files do not exist; nothing is downloaded for an empty frame
    step = Candidates(lamp_dataset.build("lamp/3/train"))
    out = step(topics(query=[]))
    assert list(out.columns) == [
        "qid", "query", "question", "docno", "score", "rank", "text", "rating", "date",
    ]  # fmt: skip
    assert not len(out)
    assert not len((step >> BM25Scorer())(topics(query=[])))


def test_a_pipeline_scores_inside_each_profile(dataset):
    pipeline = Candidates(dataset) >> BM25Scorer()
    out = pipeline(topics("31", "312", query=["more kettles", "tides"]))
    best = out[out["rank"] == 0]
    assert best["docno"].tolist() == ["31/11", "312/210"]
    alone = pipeline(topics("312", query=["tides"]))
    expected = out[out["qid"] == "312"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, expected, check_exact=True)


def test_bad_topics(dataset):
    with pytest.raises(DuplicateError, match="qid '31'"):
        Candidates(dataset)(topics("31", "312", "31"))


def test_bad_datasets():
    with pytest.raises(InputError):
        Candidates("antique/test")
    with pytest.raises(InputError):
        Candidates(None)


class Docs(BaseDocs):
    def docs_iter(self):
        return iter([GenericDoc("d1", "one"), GenericDoc("d2", "two"), GenericDoc("d3", "three")])

    def docs_store(self):
        return Store(self)


class Store(Docstore):
    def __init__(self, docs):
        super().__init__(GenericDoc)
        self.docs = docs

    def get_many_iter(self, doc_ids):
        return (d for d in self.docs.docs_iter() if d.doc_id in set(doc_ids))


class Queries(BaseQueries):
    def queries_iter(self):
        return iter([ir_datasets.formats.GenericQuery("q", "two three")])


class Scored(BaseScoredDocs):
    def __init__(self, *rows):
        self.rows = rows

    def scoreddocs_iter(self):
        return (GenericScoredDoc("q", docno, score) for docno, score in self.rows)


def test_any_dataset_with_scoreddocs():
    source = ir_datasets.Dataset(Docs(), Queries(), Scored(("d3", 1.0), ("d1", 3.0), ("d2", 1.0)))
    step = Candidates(source)
    out = step(topics("q"))
    assert list(out.columns) == ["qid", "query", "docno", "score", "rank", "text"]
    assert out["docno"].tolist() == ["d1", "d3", "d2"]
    assert out["text"].tolist() == ["one", "three", "two"]
    assert set(out["query"]) == {"two three"}
    # without an id, only the same object is the same dataset
    again = ir_datasets.Dataset(Docs(), Queries(), Scored(("d1", 3.0)))
    assert step == Candidates(source) and step != Candidates(again)


def test_a_candidate_that_is_no_document():
    source = ir_datasets.Dataset(Docs(), Queries(), Scored(("d1", 1.0), ("gone", 3.0)))
    with pytest.raises(InputError, match="'gone'"):
        Candidates(source)(topics("q"))
