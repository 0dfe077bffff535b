"""What a study does with data, settings and plugins that are wrong: one line that says so."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import qr_world

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")

from fairtk_papers.fair_qr import QrConfiguration, QrData, QrSettings, QrStudy

from fairtk import Groups, Target
from fairtk.errors import (
    ColumnError,
    DataWarning,
    DuplicateError,
    FairtkError,
    FormatError,
    InputError,
    NotFoundError,
    ParameterError,
)
from fairtk.llm import KeywordRefiner
from fairtk.transformers import CollectionBM25


def run(data, folder, **changed):
    return qr_world.study(data, folder, KeywordRefiner(terms=1), **changed).run()


# Data --------------------------------------------------------------------------------------------


def test_topics_without_relevant_documents_are_left_out(gender, tmp_path):
    qrels = gender.qrels[~gender.qrels["qid"].isin(["3", "5"])]
    unjudged = pd.DataFrame({"qid": ["5"], "docno": ["1000"], "label": [0]})
    with pytest.warns(DataWarning, match="2 of 8.*'3'.*'5'"):
        data = replace(gender, qrels=pd.concat([qrels, unjudged]))
    assert data.topics["qid"].tolist() == list("124678") and "5" not in set(data.qrels["qid"])
    results = run(data, tmp_path, systems=("bm25",))
    assert results.per_query["qid"].nunique() == 6
    with pytest.raises(InputError):
        replace(gender, qrels=gender.qrels.assign(qid="q" + gender.qrels["qid"]))
    with pytest.raises(InputError):
        replace(gender, qrels=gender.qrels.assign(label=0))


def test_frames_that_are_wrong(gender):
    with pytest.raises(DuplicateError, match="qid '1'"):
        replace(gender, topics=pd.concat([gender.topics, gender.topics.head(1)]))
    with pytest.raises(ColumnError):
        replace(gender, topics=gender.topics.drop(columns="query"))
    with pytest.raises(InputError):
        replace(gender, attributes={})
    none = Groups.from_frame(pd.DataFrame({"docno": [], "group": []}), name="g", levels=("a", "b"))
    with pytest.raises(InputError, match="'g'"):
        replace(gender, attributes={"g": (none, Target.uniform(none))})


def test_qids_may_be_numbers(gender):
    topics = gender.topics.astype({"qid": int})
    data = replace(gender, topics=topics, qrels=gender.qrels.astype({"qid": int}))
    assert data.key == gender.key


@pytest.mark.slow
def test_no_document_that_is_retrieved_has_a_label(gender, tmp_path):
    other = pd.DataFrame({"docno": ["elsewhere", "nowhere"], "group": ["female", "male"]})
    groups = Groups.from_frame(other, name="gender")
    data = replace(gender, attributes={"gender": (groups, Target.uniform(groups))})
    with pytest.warns(DataWarning):
        results = run(data, tmp_path, variations={"k": (6,)})
    assert (results.traces["note"] == "no document of the top 5 has a group").all()
    table = results.table
    assert (table["nDCG change"] == 0).all()  # the first ranking is kept
    assert table["AWRF"].isna().all() and table["AWRF p"].isna().all()
    # the report can be made, and says why
    page = results.save(tmp_path).read_text()
    assert "no document of the top 5 has a group for 8 of 8" in page
    assert "is undefined (NaN) for 8 of 8 queries" in page


def test_a_target_with_one_group_asks_nothing(gender, tmp_path):
    groups = gender.attributes["gender"][0]
    only = Target.from_frame(pd.DataFrame({"group": ["male"], "weight": [1.0]}), groups=groups)
    results = run(replace(gender, attributes={"gender": (groups, only)}), tmp_path)
    assert results.costs["calls"].eq(0).sum() >= 1 and results.missing.empty
    # only documents about men are near to it, and BM25 shows nothing else
    assert results.table["AWRF"].iloc[0] > 0.9


def test_a_query_for_which_nothing_is_found_and_few_documents(gender, tmp_path):
    topics = gender.topics.copy()
    topics.loc[0, "query"] = "unheardof"
    topics.loc[1, "query"] = "?!"
    data = replace(gender, topics=topics)
    results = run(data, tmp_path, cutoff=50, candidates=50, fair_qr={"max_iterations": 2})
    for system in ("bm25", "fair-qr"):
        values = results.per_query[results.per_query["system"] == system]
        values = values.pivot(index="qid", columns="measure", values="value")
        assert (values.loc[["1", "2"]] == 0).all(axis=None)
        assert (values.loc[list("345678")] > 0).all(axis=None)
        assert values.shape == (8, 3)
    found = results.traces[results.traces["qid"].isin(["1", "2"])]
    assert (found["note"] == "nothing was retrieved").all() and (found["retrieved"] == 0).all()
    assert results.missing.empty  # done: there is nothing to find
    others = results.traces[~results.traces["qid"].isin(["1", "2"])]
    assert others["retrieved"].between(1, 50).all() and (others["iteration"] > 0).any()
    assert (others["retrieved"] < 50).any()


@pytest.mark.slow
def test_what_is_wrong_with_the_input_is_said_alike_by_workers(gender, tmp_path):
    """So that the exit code is 2 with and without them."""

    def documents():
        from fairtk.errors import FormatError

        yield {"docno": "1", "text": "a"}
        raise FormatError("invalid JSON", "corpus", 3)

    data = replace(gender, documents=documents)
    texts = []
    for engine in ({}, {"executor": "processes", "workers": 1}):
        settings = qr_world.settings(systems=("bm25",))
        study = QrStudy(data, tmp_path / str(len(texts)), KeywordRefiner(), settings, **engine)
        with pytest.raises(InputError) as error:
            study.run()
        texts.append(str(error.value))
    assert texts == ["system 'bm25' for 'gender': corpus:3: invalid JSON"] * 2


def test_documents_that_cannot_be_read_leave_no_index(gender, tmp_path):
    def documents():
        yield {"docno": "1", "text": "a"}
        yield {"docno": "2", "text": "b"}
        raise FormatError("invalid JSON", "corpus", 3)

    queries = pd.DataFrame({"qid": ["1"], "query": ["a"]})
    with pytest.raises(FormatError):
        CollectionBM25(tmp_path / "index", documents)(queries)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    with pytest.raises(InputError, match="'bm25'.*'gender'"):
        run(replace(gender, documents=documents), tmp_path / "study")
    with pytest.raises(InputError):
        CollectionBM25(tmp_path / "index", lambda: iter(()))(queries)


# Settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"options": {"toy": {}}}, "'toy'"),
        ({"options": {"fair-qr": {"k": 3}}}, r"\[fair-qr\]"),
        ({"options": {"bm25": {"k1": 3}}}, r"\[bm25\]"),
        ({"bm25": {"k2": 1}}, r"\[bm25\]: 'k2'"),
        ({"bm25": {"b": 2}}, "b must .* 2"),
        ({"fair_qr": {"threshold": -1}}, "threshold"),
        ({"fair_qr": {"llm": "x"}}, "FairQR setting 'llm'"),
        ({"variations": {"depht": (1,)}}, "'depht'"),
        ({"variations": {"depth": 5}}, "depth must be a list"),
        ({"variations": {"pool": ("last", "both")}}, "pool"),
        ({"folds": 1}, "folds"),
        ({"candidates": 3}, "candidates .* 5, got 3"),
        ({"ndcg": "dcg"}, "ndcg"),
    ],
)
def test_settings_that_are_wrong_are_said_before_anything_is_done(gender, tmp_path, changed, place):
    with pytest.raises((ParameterError, NotFoundError), match=place) as found:
        qr_world.study(gender, tmp_path, KeywordRefiner(), **changed)
    assert "\n" not in str(found.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "'folder' or 'dataset'"),
        ("folder = 'a'\ndataset = 'b'", "'folder' or 'dataset'"),
        ("folder = 'a'\n[bm25]\n1 = 3", r"\[bm25\]: '1'"),
        ("folder = '\xff'", "TOML"),
    ],
)
def test_configurations_that_are_wrong(tmp_path, text, place):
    path = tmp_path / "study.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=place) as found:
        QrConfiguration.read(path)
    assert str(path) in str(found.value) and "\n" not in str(found.value)
    with pytest.raises(FormatError):
        QrConfiguration.read(tmp_path / "none.toml")


def test_a_configuration_that_is_right(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        "folder = 'wiki'\noutput = '../out'\nattributes = ['gender']\nsystems = ['bm25']\n"
        "cutoff = 10\n[fair-qr]\nmax-iterations = 3\n[variations]\ndepth = [5, 10]\n"
        "[llm]\nbackend = 'keyword'\n[ledger]\npath = 'l.sqlite'\nprices = {m = [1, 2.5]}\n"
    )
    file = QrConfiguration.read(path)
    assert file.data == {"folder": str(tmp_path / "wiki"), "attributes": ("gender",)}
    assert file.output == str(tmp_path / "../out")
    assert file.settings == QrSettings(
        systems=("bm25",), cutoff=10, fair_qr={"max_iterations": 3}, variations={"depth": [5, 10]}
    )
    assert file.ledger["path"] == str(tmp_path / "l.sqlite")
    assert file.models == [{"backend": "keyword"}]
    changed = file.with_changes({"seed": 3, "systems": None})
    assert changed == replace(file, settings=replace(file.settings, seed=3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attributes": "gender"}, "attributes must be a list of names"),
        ({"split": "tain"}, "split 'tain'.*'train'"),
        ({"query": "titel"}, "unknown topic field 'titel'; did you mean 'title'"),
        ({"keywords": "no/such/file"}, "no/such/file: no such file"),
    ],
)
def test_parts_of_a_folder_that_are_not_there(wiki, options, message):
    with pytest.raises(InputError, match=message):
        qr_world.read(wiki, **options)


def test_what_a_folder_gives(wiki, gender):
    crossed = qr_world.read(wiki, attributes=["gender*geography"], split="eval", query="title")
    assert list(crossed.attributes) == ["gender*geography"] and crossed.name == "wiki (eval topics)"
    assert len(crossed.attributes["gender*geography"][0].levels) == 4 * 21
    assert crossed.topics["query"].tolist() != gender.topics["query"].tolist()
    text = crossed.texts(pd.DataFrame({"docno": ["1000"]}))["text"].iloc[0]
    assert len(text.split()) > 20
    assert dict(next(iter(crossed.documents())), docno="1000") == {"docno": "1000", "text": text}
    with pytest.raises(InputError, match="'7'"):
        crossed.texts(pd.DataFrame({"docno": ["7"]}))
    assert crossed.texts(pd.DataFrame({"docno": []})).columns.tolist() == ["docno", "text"]


# Systems and packages ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        ("broken", FairtkError, "system 'toy' for 'gender': RuntimeError: no luck"),
        ("refuses", InputError, "system 'toy' for 'gender': the toy needs an option"),
        ("unbuilt", FairtkError, r"""system 'toy' for 'gender': KeyError: "option \['a'\]"""),
        ("absent", FairtkError, "system 'toy' for 'gender': .*absent"),
    ],
)
def test_systems_that_raise_are_named(gender, tmp_path, build, kind, message):
    with qr_world.installed(("toy", build, False)):
        settings = {"options": {"toy": {"a": 1}}, "systems": ("toy",)}
        study = None
        with pytest.raises(kind, match=message) as found:
            study = qr_world.study(gender, tmp_path, KeywordRefiner(), **settings)
            study.run()
        assert isinstance(found.value, InputError) == (kind is InputError)
        assert (study is None) == (build in ("unbuilt", "absent"))  # before its cost is shown
        if study is not None:
            assert qr_world.finished_systems(study) == ["bm25"]  # what was done is kept
    with qr_world.installed(("toy", "same", False)):
        assert len(run(gender, tmp_path, **settings).table) == 2


def test_training_needs_two_topics(gender, tmp_path):
    with qr_world.installed(("toy", "memory", True)):
        with pytest.raises(InputError, match="'toy'.*'gender'"):
            run(qr_world.first_topics(gender, 1), tmp_path, systems=("toy",))
        results = run(qr_world.first_topics(gender, 1), tmp_path / "one", systems=("fair-qr",))
    assert np.isnan(results.table["AWRF low"]).all()  # one topic has no interval, and no test
    assert np.isnan(results.table["AWRF p"]).all()


def test_a_package_that_is_missing(gender, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyterrier_pisa", None)
    with pytest.raises(FairtkError, match="'pyterrier-pisa'") as found:
        run(gender, tmp_path)
    assert "\n" not in str(found.value) and not isinstance(found.value, InputError)


def test_study_data_can_be_made_by_hand(tmp_path):
    docs = [{"docno": str(n), "text": f"alpha {'woman' if n % 2 else 'man'} {n}"} for n in range(8)]
    labels = pd.DataFrame({"docno": map(str, range(8)), "group": ["male", "female"] * 4})
    groups = Groups.from_frame(labels, name="gender")
    data = QrData(
        pd.DataFrame({"qid": ["a", "b"], "query": ["alpha", "alpha man"]}),
        pd.DataFrame({"qid": ["a", "b"], "docno": ["1", "2"], "label": [1, 1]}),
        {"gender": (groups, Target.uniform(groups))},
        lambda: iter(docs),
        None,
        "mine",
    )
    results = run(data, tmp_path, cutoff=2, candidates=2)
    assert len(results.table) == 5 and (results.table["missing"] == 0).all()
