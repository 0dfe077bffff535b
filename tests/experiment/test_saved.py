"""Saved results: what was changed, damaged or is elsewhere is refused, and the file is named."""

import json
import random
import shutil
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import deepcopy

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_measures import nDCG

import fairtk
from fairtk.errors import DataWarning, FairtkError, FormatError, TruncationWarning
from fairtk.experiment import open_results, saved

TABLES = ("values", "means", "failures", "qrels", "notes")
OLDER = [f"{name}.parquet" for name in ("per_query", *TABLES[1:])]


class Noting(fairtk.transformers.FairTransformer):
    """A stage that leaves notes."""

    def transform_with_notes(self, inp):
        out = inp.assign(docno="d1", score=1.0, rank=0)
        return out, {qid: {"seconds": 1.5} for qid in inp["qid"]}

    def transform(self, inp):
        return self.transform_with_notes(inp)[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of saved results with all files that there can be."""
    qids = ["q1", "q2", "q3"]
    run = pd.DataFrame(
        [(q, f"d{i}", 9.0 - i) for q in qids for i in range(6)], columns=["qid", "docno", "score"]
    )
    topics = pd.DataFrame({"qid": qids, "query": qids})
    qrels = run[["qid", "docno"]].assign(label=[1, 0, 0, 1, 0, 0] * 3)
    measures = [fairtk.EE_D @ 3, fairtk.E(nDCG @ 3)]
    place = tmp_path_factory.mktemp("saved")
    systems = {"one": run, "two": run[::2], "noting": Noting()}
    with pytest.warns(TruncationWarning):  # of the one document that it gives
        fairtk.Experiment(systems, topics, qrels, measures).save(place)
    return place


@pytest.fixture
def copy(folder, tmp_path):
    """Return a copy, to be damaged."""
    return shutil.copytree(folder, tmp_path / "copy")


def older(place, form=2):
    """Make of a folder what fairtk saved before: form 3, or that of 0.2 without a manifest."""
    config = json.loads((place / "config.json").read_text())
    del config["credit"]
    (place / "config.json").write_text(json.dumps(config | {"form": form}))
    (place / "values.parquet").rename(place / "per_query.parquet")
    for path in place.glob("rankings/*.parquet"):
        pd.read_parquet(path).drop(columns="system").to_parquet(path)
    manifest = json.loads((place / "manifest.json").read_text())
    (place / "manifest.json").unlink()
    if form == 3:
        names = [name.replace("values", "per_query") for name in manifest["files"]]
        digests = {name: saved._file_digest(place / name) for name in names}
        (place / "manifest.json").write_text(json.dumps({"form": 3, "files": digests}))
    return place


def everything(place):
    """Read all that there is of saved results."""
    results = open_results(place)
    tables = [results.rankings(name) for name in results.systems]
    tables += [results.notes(name) for name in results.systems]
    return [results.means, results.per_query, results.failures, results.qrels, *tables]


def test_the_manifest_has_every_file(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert manifest["files"].keys() == files - {"manifest.json"}
    assert {f"{name}.parquet" for name in TABLES} <= files


def test_several_save_and_open_one_folder_at_the_same_time(folder, tmp_path, monkeypatch):
    """While one saves, two others wait: one that saves as well, and one that opens the folder."""
    place, begun, going_on = tmp_path / "one", threading.Event(), threading.Event()
    one, two = open_results(folder), open_results(folder)
    one.save(place)
    rows = one._rows

    def slowly(*given):
        begun.set()
        assert going_on.wait(300)
        return rows(*given)

    monkeypatch.setattr(one, "_rows", slowly)
    with ThreadPoolExecutor(3) as pool:
        saving = pool.submit(one.save, place)
        assert begun.wait(300)
        waiting = {pool.submit(two.save, place), pool.submit(open_results, place)}
        assert wait(waiting, timeout=0.5).not_done == waiting
        going_on.set()
        assert not wait({saving, *waiting}, timeout=300).not_done
        assert not [error for error in map(Future.exception, (saving, *waiting)) if error]
    assert {p.name for p in place.rglob("*")} == {p.name for p in folder.rglob("*")}
    for again, before in zip(everything(place), everything(folder), strict=True):
        pd.testing.assert_frame_equal(again, before)


def _edited_mean(place):
    table = pd.read_parquet(place / "means.parquet")
    table.loc[0, "mean"] += 0.25
    table.to_parquet(place / "means.parquet")
    return "means.parquet"


def _swapped_rankings(place):
    one, two = place / "rankings" / "000.parquet", place / "rankings" / "001.parquet"
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)
    return "rankings/000.parquet"


def _dropped_rows(place):
    pd.read_parquet(place / "values.parquet")[1:].to_parquet(place / "values.parquet")
    return "values.parquet"


def _configured_otherwise(place):
    text = (place / "config.json").read_text()
    (place / "config.json").write_text(text.replace("000.parquet", "001.parquet"))
    return "config.json"


def _of_an_older_form(place):
    text = (place / "config.json").read_text()
    (place / "config.json").write_text(text.replace('"form": 4', '"form": 2'))
    return "config.json"


def _without_notes(place):
    (place / "notes.parquet").unlink()
    return "notes.parquet"


def _without_a_manifest(place):
    (place / "manifest.json").unlink()
    return "manifest.json"


def _elsewhere(place):
    ranking = place / "rankings" / "001.parquet"
    ranking.rename(place.parent / "001.parquet")
    ranking.symlink_to(place.parent / "001.parquet")
    return "outside of the folder"


def _deep(place):
    (place / "manifest.json").write_text("[" * 100_000)
    return "manifest.json"


def _a_folder(place):
    (place / "environment.json").unlink()
    (place / "environment.json").mkdir()
    return "environment.json"


DAMAGE = (
    *(_edited_mean, _swapped_rankings, _dropped_rows, _configured_otherwise, _of_an_older_form),
    *(_without_notes, _without_a_manifest, _elsewhere, _deep, _a_folder),
)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_what_was_changed_is_refused(copy, damage):
    said = damage(copy)
    with pytest.raises(FormatError, match=said) as caught:
        open_results(copy)
    assert "\n" not in str(caught.value)


def test_a_ranking_is_checked_again_when_it_is_read(copy):
    results = open_results(copy)
    _swapped_rankings(copy)
    with pytest.raises(FormatError, match=r"000.parquet.*not what was saved"):
        results.rankings("one")


@pytest.mark.parametrize("place", ["../000.parquet", "rankings/../../000.parquet", "/etc/passwd"])
def test_rankings_are_in_the_folder(copy, place):
    older(copy)
    config = json.loads((copy / "config.json").read_text())
    config["systems"]["one"] = place
    (copy / "config.json").write_text(json.dumps(config))
    shutil.copy(copy / "rankings" / "000.parquet", copy.parent / "000.parquet")
    with (
        pytest.warns(DataWarning, match="without digests"),
        pytest.raises(FormatError, match="outside of the folder"),
    ):
        open_results(copy)


def test_results_of_earlier_versions_are_opened_and_newer_ones_refused(copy, folder):
    before = everything(folder)
    third = older(shutil.copytree(folder, copy.parent / "third"), form=3)
    for one, other in zip(before, everything(third), strict=True):
        pd.testing.assert_frame_equal(one, other)
    with pytest.warns(DataWarning, match="without digests.*save them again") as caught:
        after = everything(older(copy))
    assert len(caught) == 1
    for one, other in zip(before, after, strict=True):
        pd.testing.assert_frame_equal(one, other)
    with pytest.warns(DataWarning):
        open_results(copy).save(copy)
    everything(copy)
    assert not (copy / "per_query.parquet").exists()  # nobody reads what is not of these results
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"form": 5}))
    with pytest.raises(FormatError, match=r"config.json: .*form 5, which is newer .*\(4\)"):
        open_results(copy)


def test_no_flipped_bit_changes_a_number(copy, folder):
    expected = everything(folder)
    draw = random.Random(3)
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    refused = 0
    for _ in range(60):
        path = draw.choice(files)
        whole = path.read_bytes()
        raw = bytearray(whole)
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        path.write_bytes(raw)
        try:
            opened = everything(copy)
        except FairtkError:
            refused += 1
        else:  # white space, or a name that nobody asks for
            assert path.name == "manifest.json"
            for one, other in zip(expected, opened, strict=True):
                pd.testing.assert_frame_equal(one, other)
        path.write_bytes(whole)
    assert refused > 50


VALUES = st.sampled_from([None, 1, "x", [], [1], {"a": 1}, {"a": []}, 1.5, True])


@st.composite
def damages(draw):
    """Return a name, and what damages a folder of an earlier version."""
    table = draw(st.sampled_from([*OLDER, "rankings/000.parquet"]))
    text = draw(st.sampled_from(["config.json", "environment.json"]))
    kind = draw(st.sampled_from(["drop", "retype", "double", "folder", "gone", "deep", "json"]))
    number, value = draw(st.integers(0, 9)), draw(VALUES)
    inner = draw(st.booleans())

    def damage(place):
        path = place / (text if kind in ("deep", "json") else table)
        if kind in ("drop", "retype", "double"):
            frame = pd.read_parquet(path)
            column = frame.columns[number % len(frame.columns)]
            if kind == "drop":
                frame = frame.drop(columns=column)
            elif kind == "double":
                frame = pd.concat([frame, frame])
            else:
                frame[column] = value if value.__hash__ else [value] * len(frame)
            frame.to_parquet(path)
        elif kind == "deep":
            path.write_text(("[" if inner else '{"a":') * 100_000)
        elif kind == "json":
            content = json.loads(path.read_text()) if path.exists() else deepcopy(value)
            if isinstance(content, dict):
                target = content.get("experiment", content) if inner else content
                keys = sorted(target)
                target[keys[number % len(keys)]] = value
            path.write_text(json.dumps(content))
        else:
            path.unlink()
            if kind == "folder":
                path.mkdir()

    return damage


@pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(damage=damages())
def test_damaged_results_of_earlier_versions_end_in_our_errors(folder, tmp_path, damage):
    place = tmp_path / "place"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    damage(older(place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            everything(place)
        except FairtkError as error:
            assert str(place) in str(error) and "\n" not in str(error)
            return
        try:
            open_results(place).report(tmp_path / "page.html")
        except FairtkError as error:  # of a value that no column's kind shows
            assert "\n" not in str(error)
