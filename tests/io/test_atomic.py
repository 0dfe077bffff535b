import os
import stat

import pandas as pd
import pytest

import fairtk
from fairtk.errors import InputError
from fairtk.io import atomic_write, write_run
from fairtk.io.atomic import real_path
from fairtk.llm import Ledger


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_file_appears_complete(tmp_path):
    target = tmp_path / "out.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == target.parent
        assert temporary.suffix == ".txt"
        assert not target.exists()
    assert target.read_text() == "new"
    assert names(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(error), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_a_block_that_writes_nothing(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "out.txt"):
        pass
    assert names(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and links")
def test_permissions_and_links_stay(tmp_path):
    target, link = tmp_path / "out.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic_write(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_missing_folder(tmp_path):
    with (
        pytest.raises(InputError, match="out.txt"),
        atomic_write(tmp_path / "no" / "out.txt"),
    ):
        pytest.fail("nothing is worked out for a folder that is not there")


def test_links_in_a_circle_are_one_line_at_every_door(tmp_path):
    (tmp_path / "x").symlink_to(tmp_path / "y")
    (tmp_path / "y").symlink_to(tmp_path / "x")
    run = pd.DataFrame({"qid": ["q"], "docno": ["d"], "score": [1.0]})
    topics = pd.DataFrame({"qid": ["q"], "query": ["a"], "docno": "d", "text": "a"})
    for place in (tmp_path / "x", tmp_path / "x" / "below"):
        for door in (
            lambda place: Ledger(place),
            lambda place: fairtk.Experiment([fairtk.BM25Scorer()], topics, save_dir=place),
            lambda place: fairtk.evaluate(run.assign(label=1), place, ["P@1"]),
            lambda place: write_run(run, place),
        ):
            with pytest.raises(InputError, match=f"^{place}: symlink loop"):
                door(place)
    assert real_path(tmp_path / "not" / "there") == tmp_path.resolve() / "not" / "there"
