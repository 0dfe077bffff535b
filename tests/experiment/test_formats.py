"""Results for others: read without fairtk, as the schema says, and equal when they come back."""

import json
import math
from dataclasses import replace

import jsonschema
import numpy as np
import pandas as pd
import pytest
import yaml
from experiment_stages import FailsFor, Retriever
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, FairSampler
from fairtk.credit import Citations
from fairtk.errors import DataWarning, InputError, NotFoundError, StoreError
from fairtk.experiment import export, open_results, results_schema
from fairtk.io import read_qrels, read_run
from fairtk.report.exports import file_names
from fairtk.transformers import FairTransformer, leave_notes

QIDS = ["q0", "frage é", "問い3", "q4"]
MEASURES = [EE_D @ 3, EE_R @ 3, fairtk.E(nDCG @ 3)]


class Cites(FairTransformer):
    """Answers each ranking with a citation of its second document."""

    def transform(self, inp):
        ranking = inp["qid"] + " " + inp["sample"].astype(str)
        return inp.assign(qanswer="Señor " + ranking + " said so [2].")


class Notes(FairTransformer):
    """Leaves a note of each query."""

    leaves_notes = True

    def transform(self, inp):
        leave_notes(self, {qid: {"seconds": 0.5, "of": [qid]} for qid in inp["qid"].unique()})
        return inp


@pytest.fixture(scope="module")
def world():
    """Return topics and labels; one query has no useful document."""
    topics = pd.DataFrame({"qid": QIDS, "query": [f"words of {q}" for q in QIDS]})
    topics["user"] = ["ä", "b", "ä", "b"]
    rows = [(q, f"{q}-d{j}", int(j == 1 and q != "q4")) for q in QIDS for j in range(4)]
    return topics, pd.DataFrame(rows, columns=["qid", "docno", "label"])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def results(world, store):
    """Return results that have everything: samples, answers, credit, notes, NaN, a failure."""
    topics, qrels = world
    (store / "bad").write_text("q0")
    sampled = Retriever(4) >> FairSampler(n_samples=3)
    systems = {
        "plain": Retriever(4),
        "answers «é»": sampled >> Cites(),
        "fails": Retriever(4) >> FailsFor(store / "bad"),
        "notes": Retriever(4) >> Notes(),
    }
    with pytest.warns(fairtk.errors.FairtkWarning):
        made = fairtk.Experiment(systems, topics, qrels, MEASURES, save_dir=store, baseline="plain")
    answers = made.rankings("answers «é»")
    return replace(made, credits={"answers «é»": Citations(cutoff=3)(answers)})


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    place = tmp_path_factory.mktemp("out") / "results"
    results.save(place)
    return place


def same(one, other):
    """Hold two results to be equal in all that they have."""
    for name in ("systems", "measures", "baseline", "config", "environment"):
        assert getattr(one, name) == getattr(other, name), name
    frames = ["means", "counts", "per_query", "undefined", "failures", "qrels"]
    pairs = [(getattr(one, name), getattr(other, name)) for name in frames]
    assert one.credits.keys() == other.credits.keys()
    for system in one.systems:
        pairs.append((one.rankings(system), other.rankings(system)))
        pairs.append((one.notes(system), other.notes(system)))
        if "qanswer" in one.rankings(system):
            pairs.append((one.answers(system), other.answers(system)))
    pairs += [(one.credit(name), other.credit(name)) for name in one.credits]
    for ours, theirs in pairs:
        pd.testing.assert_frame_equal(ours, theirs)


def as_object(place):
    """Return a folder as the one object that the schema describes, read without fairtk."""
    content = {}
    for path in place.rglob("*.*"):
        name = path.relative_to(place).as_posix()
        if path.suffix == ".json":
            content[name] = json.loads(path.read_text(encoding="utf-8"))
        else:
            frame = pd.read_parquet(path)
            content[name] = json.loads(frame.to_json(orient="records"))
            for row in content[name]:  # what a column lacks is absent in JSON's rows
                row.update({k: v for k, v in row.items() if v is not None})
    return content


# ---------------------------------------------------------------------------------- equal again


def test_what_is_saved_comes_back_equal(results, folder):
    same(results, open_results(folder))


def test_saving_what_was_opened_gives_the_same_files(folder, tmp_path):
    open_results(folder).save(tmp_path)
    for path in folder.rglob("*.*"):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_a_smaller_save_leaves_no_tables_of_the_earlier_one(results, tmp_path, world):
    results.save(tmp_path)
    (tmp_path / "mine.txt").write_text("stays")
    topics, qrels = world
    fairtk.Experiment({"one": Retriever(4)}, topics, qrels, [EE_D @ 3]).save(tmp_path)
    names = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*")}
    assert {n for n in names if "rankings" in n} == {"rankings/000.parquet"}
    assert not {"answers.parquet", "credit.parquet", "notes.parquet"} & names
    assert "mine.txt" in names


TEXTS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=6)


@st.composite
def anything(draw):
    """Return systems as frames, and labels, with ids of all scripts and optional columns."""
    qids = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
    docnos = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
    numbers = st.floats(-5, 5, allow_nan=False, width=32)
    frames = {}
    for name in draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True)):
        samples = draw(st.sampled_from([None, 1, 3]))
        rows = [(q, s, d) for q in qids for s in range(samples or 1) for d in docnos]
        frame = pd.DataFrame(rows, columns=["qid", "sample", "docno"])
        frame["score"] = [draw(numbers) for _ in rows]
        if samples is None:
            del frame["sample"]
        if draw(st.booleans()):
            number = frame.get("sample", pd.Series("", frame.index))
            frame["qanswer"] = frame["qid"] + number.astype(str)
        if draw(st.booleans()):
            frame["credit"] = [draw(st.one_of(numbers, st.just(math.nan))) for _ in rows]
        if draw(st.booleans()):
            frame["system"] = "a word of the user's own"
        frames[name] = frame
    labels = pd.DataFrame([(q, d, draw(st.integers(0, 2))) for q in qids for d in docnos])
    return frames, labels.set_axis(["qid", "docno", "label"], axis=1)


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@settings(max_examples=5)
@given(anything())
def test_results_of_any_frames_come_back_equal(tmp_path_factory, data):
    frames, labels = data
    made = fairtk.Experiment(frames, None, labels, [EE_R @ 2])
    place = tmp_path_factory.mktemp("any")
    made.save(place)
    same(made, open_results(place))
    check(as_object(place))


# ------------------------------------------------------------------------------------ the schema


def check(content):
    schema = results_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(content)


def test_the_folder_is_what_the_schema_says(folder):
    content = as_object(folder)
    check(content)
    assert results_schema()["version"] == content["config.json"]["form"]
    described = results_schema()["properties"].keys() - {"sections.json", "checked.parquet"}
    assert {name for name in content if "/" not in name} == described


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c["config.json"].update(form=4),
        lambda c: c["config.json"]["measures"][0].pop("better"),
        lambda c: c["config.json"]["systems"].update(plain="../../plain.parquet"),
        lambda c: c["values.parquet"][0].update(value="0.5"),
        lambda c: c["values.parquet"][0].update(more=1),
        lambda c: c["answers.parquet"][0].update(sample=-1),
        lambda c: c["credit.parquet"][0].pop("docno"),
        lambda c: c["rankings/000.parquet"][0].pop("system"),
        lambda c: c["manifest.json"]["files"].update({"values.parquet": "?"}),
        lambda c: c.pop("means.parquet"),
        lambda c: c.update({"more.parquet": []}),
    ],
)
def test_the_schema_refuses_what_is_otherwise(folder, damage):
    content = as_object(folder)
    damage(content)
    with pytest.raises(jsonschema.ValidationError):
        check(content)


# ------------------------------------------------------------------------------ read without fairtk


def test_plain_pandas_finds_the_means(results, folder):
    values = pd.read_parquet(folder / "values.parquet")
    means = values.groupby(["system", "measure"])["value"].mean().unstack()
    expected = results.means.drop(columns="failed")
    np.testing.assert_allclose(means.loc[results.systems, results.measures], expected, rtol=1e-12)
    assert values["value"].isna().sum() == len(results.systems)  # EE_R of q4, for each
    rankings = pd.concat(map(pd.read_parquet, sorted(folder.glob("rankings/*.parquet"))))
    assert rankings["system"].unique().tolist() == results.systems
    credit = pd.read_parquet(folder / "credit.parquet")
    # one citation, of the second of three documents, has all credit of its ranking
    assert credit.groupby("rank")["credit"].mean().tolist() == [0, 1, 0]


# ------------------------------------------------------------------------------------- the export


def test_a_store_with_and_without_measures(store, results, world, tmp_path):
    assert export(store, tmp_path / "bare") == [tmp_path / "bare"]
    bare = open_results(tmp_path / "bare")
    assert bare.measures == [] and set(bare.systems) == set(results.systems)
    content = as_object(tmp_path / "bare")
    check(content)
    types = pd.read_parquet(tmp_path / "bare" / "values.parquet").dtypes.astype(str)
    assert types.to_dict() == {
        "system": "str",
        "qid": "str",
        "measure": "str",
        "value": "float64",
    } | {"reason": "str"}
    export(store, tmp_path / "full", qrels=world[1], measures=["EE_D@3"])
    full = open_results(tmp_path / "full").means.loc[results.systems, "EE_D@3"]
    assert full.tolist() == pytest.approx(results.means["EE_D@3"].tolist())


def test_saved_results_of_an_earlier_form_are_exported_in_this_one(folder, tmp_path):
    export(folder, tmp_path / "again")
    same(open_results(folder), open_results(tmp_path / "again"))


def test_a_folder_that_has_files_or_no_results_is_refused(folder, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for target in (folder, tmp_path, tmp_path / "file"):
        with pytest.raises(InputError):
            export(folder, target)
    with pytest.raises(InputError):
        export(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(InputError):
        export(tmp_path / "file", tmp_path / "out")
    with pytest.raises(InputError):
        export(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(StoreError):
        export(folder, tmp_path / "file" / "out")
    with pytest.raises(InputError, match="form"):
        export(folder, tmp_path / "out", form="csv")
    assert not (tmp_path / "out").exists()


# -------------------------------------------------------------------------------- forms of others


@pytest.fixture
def simple(world, tmp_path):
    topics, qrels = world
    keep = topics["qid"].isin(["q0", "q4"])
    systems = {"bm25 (k1=1)": Retriever(4), "fair": Retriever(4) >> FairSampler(n_samples=3)}
    labels = qrels[qrels["qid"].isin(["q0", "q4"])]
    with pytest.warns(fairtk.errors.UndefinedWarning):
        return fairtk.Experiment(
            *(systems, topics[keep], labels, MEASURES),
            baseline="bm25 (k1=1)",
            save_dir=tmp_path / "store",
        )


def test_trec_runs_and_qrels(simple, tmp_path):
    tmp_path /= "trec"
    files = simple.to_trec(tmp_path)
    assert [path.name for path in files] == [
        *("bm25-k1-1.run", "bm25-k1-1.ir-metadata.yml"),
        *("fair.run", "fair.ir-metadata.yml", "qrels.txt"),
    ]
    for file, system in (("bm25-k1-1.run", "bm25 (k1=1)"), ("fair.run", "fair")):
        ours, theirs = simple.rankings(system), read_run(tmp_path / file)
        columns = [c for c in ("qid", "sample", "docno", "rank") if c in ours.columns]
        key = [c for c in columns if c != "docno"]
        pd.testing.assert_frame_equal(
            ours[columns].sort_values(key, ignore_index=True),
            theirs[columns].sort_values(key, ignore_index=True),
            check_dtype=False,
        )
    pd.testing.assert_frame_equal(read_qrels(tmp_path / "qrels.txt"), simple.qrels)
    again = fairtk.evaluate(tmp_path / "qrels.txt", [tmp_path / "fair.run"], ["EE_D@3"])
    assert again.means.iloc[0, 0] == pytest.approx(simple.means.loc["fair", "EE_D@3"], rel=1e-12)


def test_what_has_no_place_in_trec_files_is_said(results, tmp_path):
    with pytest.raises(InputError):
        results.to_trec(tmp_path)
    answers = pd.DataFrame({"qid": ["q"], "qanswer": ["yes"]})
    only = fairtk.Experiment({"reader": answers}, pd.DataFrame({"qid": ["q"]}))
    with pytest.warns(DataWarning, match="'reader'.*column 'docno'"):
        assert only.to_trec(tmp_path) == []


def test_ir_metadata_says_what_is_known(simple):
    text = simple.to_ir_metadata("fair", {"actor": {"team": "we"}})
    content = yaml.safe_load(text)
    assert content["tag"] == "fair" and content["actor"] == {"team": "we"}
    assert content["method"]["automatic"] is True
    first, second = content["method"]["retrieval"]
    assert second["n_samples"] == 3 and second["reranks"] == first["name"]
    assert content["research goal"]["evaluation"]["reported measures"] == simple.measures
    assert content["research goal"]["evaluation"]["baseline"] == ["bm25 (k1=1)"]
    assert f"fairtk=={fairtk.__version__}" in content["platform"]["software"]["libraries"]["python"]
    with pytest.raises(NotFoundError, match="'fare'.*'fair'"):
        simple.to_ir_metadata("fare")


def test_file_names_differ():
    names = file_names(["a b", "a/b", "A-B", "***", "é"])
    assert list(names.values()) == ["a-b", "a-b-2", "A-B-3", "unnamed", "é"]
