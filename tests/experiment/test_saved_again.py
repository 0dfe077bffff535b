"""A save over an older save: at every moment, the folder has all of the old or of the new one."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import fairtk
from fairtk.errors import FairtkError, InputError
from fairtk.experiment import Results, open_results, saved

TOPICS = pd.DataFrame({"qid": ["q1", "q2"], "query": ["a", "b"]})
GOLDS = [["x", "y"], "z", "z", None]
"""Gold answers of two documents each of two queries."""


def results_of(score=1.0, golds=None, more=False):
    """Return results of one system, or of two with `more`."""
    rows = [(qid, f"d{i}", score - i) for qid in TOPICS["qid"] for i in range(2)]
    run = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    qrels = run[["qid", "docno"]].assign(label=[1, 0, 0, 1])
    if golds is not None:
        qrels["gold_answer"] = pd.Series(golds, dtype=object)
    systems = {"one": run, "two": run[::-1]} if more else {"one": run}
    return fairtk.Experiment(systems, TOPICS, qrels, ["nDCG@2"])


def files(folder):
    """Return the names of all files."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def score_of(folder):
    """Return the highest score, after all files are checked."""
    results = open_results(folder)
    return max(results.rankings(name)["score"].max() for name in results.systems)


def test_gold_answers_of_both_types_are_saved(tmp_path):
    results_of().save(tmp_path)
    results_of(golds=GOLDS).save(tmp_path)
    golds = open_results(tmp_path).qrels["gold_answer"].tolist()
    assert golds[:3] == [["x", "y"], ["z"], ["z"]]
    assert golds[3] is None


def test_a_save_that_fails_leaves_the_older_one(tmp_path):
    results_of().save(tmp_path)
    before = files(tmp_path)
    odd = results_of(2.0)
    note = pd.Series([1, "a", b"c", {}], dtype=object)
    odd = replace(odd, _labels=odd.qrels.assign(note=note))
    with pytest.raises(InputError):
        odd.save(tmp_path)
    assert files(tmp_path) == before
    assert score_of(tmp_path) == 1.0


def test_only_the_files_of_the_last_save_stay(tmp_path):
    results_of(more=True).save(tmp_path)
    (tmp_path / "mine.parquet").write_bytes(b"of the user")
    results_of(2.0).save(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert files(tmp_path) == {*manifest["files"], "manifest.json", "mine.parquet"}
    assert score_of(tmp_path) == 2.0


def test_results_are_saved_over_themselves(tmp_path):
    results_of(more=True).save(tmp_path)
    Results.load(tmp_path).save(tmp_path)
    assert score_of(tmp_path) == 1.0


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from test_saved_again import results_of
from fairtk.experiment import saved
left = int(sys.argv[2])
replace = os.replace

def dying(source, target):
    global left
    if not left:
        os._exit(9)
    left -= 1
    replace(source, target)

os.replace = dying
results_of(2.0, {golds}, more=True).save(sys.argv[1])
"""


def killed_save(folder, steps):
    """Save in a process that dies before it replaces another file; return its exit status."""
    code = KILLED.format(tests=str(Path(__file__).parent), golds=GOLDS)
    command = [sys.executable, "-c", code, str(folder), str(steps)]
    return subprocess.run(command, env=os.environ, check=False).returncode


def steps_of_a_save(folder):
    """Return the number of files that are replaced: each twice, and the manifest."""
    results_of(2.0, GOLDS, more=True).save(folder)
    return 2 * (len(files(folder)) - 1) + 1


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_killed_save_leaves_the_old_or_the_new_one(tmp_path, place):
    manifest_at = steps_of_a_save(tmp_path / "new") // 2
    folder = tmp_path / "saved"
    results_of().save(folder)
    assert killed_save(folder, manifest_at + (place == "after")) == 9
    assert (folder / saved._NEW).is_dir()
    assert score_of(folder) == (1.0 if place == "before" else 2.0)
    results_of(3.0).save(folder)
    assert score_of(folder) == 3.0
    assert files(folder) == {
        *json.loads((folder / "manifest.json").read_text())["files"],
        "manifest.json",
    }


@pytest.mark.nightly
def test_a_save_may_be_killed_at_every_step(tmp_path):
    """Killed twice in a row, too: the second one first finishes what the first one began."""
    n_steps = steps_of_a_save(tmp_path / "new")
    scores = []
    for steps in range(n_steps):
        folder = tmp_path / str(steps)
        results_of().save(folder)
        assert killed_save(folder, steps) == 9
        scores.append(score_of(folder))
        assert killed_save(folder, 1) == 9
        assert score_of(folder) == scores[-1]
    assert scores == sorted(scores)
    assert {*scores} == {1.0, 2.0}


@pytest.mark.slow
def test_a_first_save_that_is_killed_is_no_save(tmp_path):
    assert killed_save(tmp_path / "saved", 3) == 9
    with pytest.raises(FairtkError):
        open_results(tmp_path / "saved")
    results_of(2.0).save(tmp_path / "saved")
    assert score_of(tmp_path / "saved") == 2.0
