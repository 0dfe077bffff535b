"""Saved results: what was changed or damaged is refused, and the file is named."""

import json
import random
import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import pandas as pd
import pytest
from ir_measures import nDCG

import fairtk
from fairtk.errors import FairtkError, FormatError, TruncationWarning
from fairtk.experiment import open_results


class Noting(fairtk.transformers.FairTransformer):
    """A stage that leaves notes."""

    leaves_notes = True

    def transform(self, inp):
        fairtk.transformers.leave_notes(self, {qid: {"seconds": 1.5} for qid in inp["qid"]})
        return inp.assign(docno="d1", score=1.0, rank=0)


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


def test_several_save_and_open_one_folder_at_the_same_time(folder, tmp_path):
    """While one saves, two others wait: one that saves as well, and one that opens the folder."""
    place, begun, going_on = tmp_path / "one", threading.Event(), threading.Event()
    one, two = open_results(folder), open_results(folder)
    one.save(place)
    rows = one._rows

    def slowly(*given):
        begun.set()
        assert going_on.wait(300)
        return rows(*given)

    one = replace(one, _rows=slowly)
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


def _swapped_rankings(place):
    one, two = place / "rankings" / "000.parquet", place / "rankings" / "001.parquet"
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)
    return "rankings/000.parquet"


def _without_notes(place):
    (place / "notes.parquet").unlink()
    return "notes.parquet"


def _without_a_manifest(place):
    (place / "manifest.json").unlink()
    return "manifest.json"


def _deep(place):
    (place / "manifest.json").write_text("[" * 100_000)
    return "manifest.json"


def _a_folder(place):
    (place / "environment.json").unlink()
    (place / "environment.json").mkdir()
    return "environment.json"


@pytest.mark.parametrize(
    "damage", [_swapped_rankings, _without_notes, _without_a_manifest, _deep, _a_folder]
)
def test_what_was_changed_is_refused(copy, damage):
    message = damage(copy)
    with pytest.raises(FormatError, match=message) as caught:
        open_results(copy)
    assert "\n" not in str(caught.value)


def test_a_ranking_is_checked_again_when_it_is_read(copy):
    results = open_results(copy)
    _swapped_rankings(copy)
    with pytest.raises(FormatError, match="000.parquet"):
        results.rankings("one")


def test_another_form_is_refused(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"form": 4}))
    with pytest.raises(FormatError, match="manifest.json: .*format 5, got format 4"):
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
