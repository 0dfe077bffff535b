"""The results of a system in a store: those of its latest chain and topics, everywhere."""

import json
import shutil
import warnings
from contextlib import closing, suppress

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner
from earlier_formats import ARCHIVES, CHANGED
from hypothesis import given, settings
from hypothesis import strategies as st

import fairtk
from fairtk.cli.group import cli
from fairtk.errors import DataWarning, InputError, NotFoundError, StageError, StoreError
from fairtk.experiment import export, open_results, prune, stored_results
from fairtk.experiment.store import FILE
from fairtk.llm.store import FORMAT, Database


class Texts(pt.Transformer):
    """Q -> R: two documents for each query, an error for texts with "bad"."""

    def transform(self, inp):
        if inp["query"].str.contains("bad").any():
            raise RuntimeError("bad text")
        rows = [(q, t, f"{q}-d{i}", 2.0 - i, i) for q, t in inp.to_numpy() for i in range(2)]
        return pd.DataFrame(rows, columns=["qid", "query", "docno", "score", "rank"])


def system(version):
    return fairtk.identified(Texts(), f"texts, v{version}")


def run(versions, texts, folder):
    """Run systems of these versions over topics with these texts."""
    topics = pd.DataFrame({"qid": list(texts), "query": list(texts.values())})
    systems = {name: system(version) for name, version in versions.items()}
    with warnings.catch_warnings(), suppress(StageError):  # all queries may fail
        warnings.simplefilter("ignore", DataWarning)
        fairtk.Experiment(systems, topics, save_dir=folder)


def contents(results):
    """Return the text of each query by system, `None` for a failed query."""
    records = {}
    for name in results.systems:
        rows = results.rankings(name)
        assert len(rows) == 2 * rows["qid"].nunique()
        records[name] = dict(zip(rows["qid"], rows.get("query", ()), strict=True))
    for name, qid, error in results.failures.itertuples(index=False):
        assert "bad text" in error and qid not in records[name]
        records[name][qid] = None
    return records


TEXT = st.sampled_from(["one", "two", "bad"])
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("ab"), st.integers(1, 2), min_size=1),
        st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), TEXT, min_size=1),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=8)
@given(steps=STEPS)
def test_any_sequence_of_runs(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("store")
    texts, latest = {}, {}
    for versions, topics in steps:
        run(versions, topics, folder / "store")
        for name, version in versions.items():
            latest[name] = version
            texts.setdefault((name, version), {}).update(topics)
    expected = {
        name: {q: None if t == "bad" else t for q, t in texts[name, version].items()}
        for name, version in latest.items()
    }
    assert contents(open_results(folder / "store")) == expected
    [exported] = export(folder / "store", folder / "exported")
    assert contents(open_results(exported)) == expected
    listed = stored_results(folder / "store")
    for name, version in latest.items():
        [row] = listed[listed["systems"].str.contains(name)].to_dict("records")
        assert row["stages"] == f"texts, v{version}"
        shared = [key for key in texts if key[1] == version]
        if len(shared) == 1:
            failed = list(expected[name].values()).count(None)
            assert row["queries"] == len(expected[name]) - failed and row["failed"] == failed
    earlier = {key for key in texts if latest[key[0]] != key[1]}
    for name, version in earlier:
        [row] = listed[listed["earlier"].str.contains(name)].to_dict("records")
        assert row["stages"] == f"texts, v{version}"
        opened = contents(open_results(folder / "store", chains=[row["chain"]]))
        assert opened[name] == {
            q: None if t == "bad" else t for q, t in texts[name, version].items()
        }
    prune(folder / "store", systems=[next(iter(latest))])
    del expected[next(iter(latest))]
    if expected:
        assert contents(open_results(folder / "store")) == expected


def test_a_changed_topic_and_a_system_that_failed(tmp_path):
    """Everything reads the store; it was unreadable (a duplicate document of q1)."""
    run({"a": 1}, {"q1": "one", "q2": "two"}, tmp_path / "store")
    run({"a": 1}, {"q1": "other"}, tmp_path / "store")
    run({"lost": 1}, {"q1": "bad", "q2": "bad"}, tmp_path / "store")
    results = open_results(tmp_path / "store", {"q1": {"q1-d0": 1}, "q2": {"q2-d1": 1}}, ["nDCG@1"])
    assert contents(results) == {
        "a": {"q1": "other", "q2": "two"},
        "lost": {"q1": None, "q2": None},
    }
    # q1-d0 is first and useful: 1; q2-d1 is second: 0; failed queries have the worst value
    assert results.means["nDCG@1"].to_dict() == {"a": 0.5, "lost": 0.0}
    assert results.counts.set_index("system")["failed"].to_dict() == {"a": 0, "lost": 2}
    page = tmp_path / "page.html"
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "store"), "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert "lost" in page.read_text(encoding="utf-8")


def test_a_shared_chain_is_kept_until_its_last_system_is_pruned(tmp_path):
    run({"a": 1, "b": 1}, {"q1": "one"}, tmp_path)
    assert prune(tmp_path, systems=["a"]) == 0
    assert contents(open_results(tmp_path)) == {"b": {"q1": "one"}}
    assert prune(tmp_path, systems=["b"]) == 1
    assert stored_results(tmp_path).empty
    with pytest.raises(InputError):
        open_results(tmp_path)


def test_chains_to_open(tmp_path):
    for version in (1, 2):
        run({"a": version}, {"q1": str(version)}, tmp_path / "store")
    run({"b": 3}, {"q1": "3"}, tmp_path / "store")
    [old, new, _] = stored_results(tmp_path / "store")["chain"]
    assert contents(open_results(tmp_path / "store", chains=[old])) == {"a": {"q1": "1"}}
    both = open_results(tmp_path / "store", chains=[old, new])
    assert contents(both) == {f"a ({old})": {"q1": "1"}, f"a ({new})": {"q1": "2"}}
    options = ["-o", str(tmp_path / "out"), "--chain", old]
    done = CliRunner().invoke(cli, ["export", str(tmp_path / "store"), *options])
    assert done.exit_code == 0, done.output
    assert contents(open_results(tmp_path / "out")) == {"a": {"q1": "1"}}
    with pytest.raises(NotFoundError, match="'zz'"):
        open_results(tmp_path / "store", chains=["zz"])
    with pytest.raises(InputError, match="chains"):
        open_results(tmp_path / "out", chains=[old])


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")  # stored remarks
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_files_of_earlier_formats_are_upgraded(tmp_path, archive):
    shutil.unpack_archive(archive, tmp_path)
    expected = json.loads((tmp_path / "expected.json").read_text(encoding="utf-8"))["server"]
    results = open_results(tmp_path / "server")
    for name, rows in expected["rankings"].items():
        records = json.loads(results.rankings(name).to_json(orient="records"))
        names = {name for row in rows for name in row}  # later formats have more columns
        records = [{k: v for k, v in r.items() if k in names and v is not None} for r in records]
        assert records == rows
    failed = results.failures[["system", "qid"]].to_numpy().tolist()
    assert sorted(failed) == sorted(expected["failures"])
    parts = results.rankings("in parts")
    assert sorted(parts["qid"].unique()) == CHANGED["qid"].tolist()
    file = Database(tmp_path / "server" / FILE)
    assert file.read("PRAGMA user_version") == [(FORMAT,)]
    file.close()


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_read_only_file_is_read(tmp_path, monkeypatch, upgraded):
    shutil.unpack_archive(ARCHIVES[0], tmp_path)
    folder = tmp_path / "server"
    expected = contents_of_server(shutil.copytree(folder, tmp_path / "copy"))
    if upgraded:
        stored_results(folder)
    before = (folder / FILE).read_bytes()
    monkeypatch.setattr("os.access", lambda place, mode: False)  # the tests may run as root
    assert contents_of_server(folder) == expected
    with pytest.raises(StoreError, match=FILE):
        prune(folder, failed=True)
    assert (folder / FILE).read_bytes() == before


def contents_of_server(folder):
    """Return all rows by system, the failures and the content of a store."""
    results = open_results(folder)
    rows = {name: results.rankings(name).to_csv() for name in results.systems}
    return rows, results.failures.to_csv(), stored_results(folder).to_csv()


def test_open_results_after_prune_never_have_rows_of_others(tmp_path):
    topics = pd.DataFrame({"qid": ["q1"], "query": ["one"]})
    before = fairtk.Experiment({"a": system(1)}, topics, save_dir=tmp_path)
    prune(tmp_path, systems=["a"])
    assert stored_results(tmp_path).empty
    run({"b": 2}, {"q1": "two"}, tmp_path)
    with pytest.raises(StoreError, match="prune"):
        before.rankings("a")
    assert contents(open_results(tmp_path)) == {"b": {"q1": "two"}}
    prune(tmp_path, systems=["b"])
    with closing(Database(tmp_path / FILE)) as database:
        assert database.read("SELECT sum(length(data)) FROM frames") == [(0,)]
