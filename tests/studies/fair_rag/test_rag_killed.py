"""``fairtk rag`` that is killed, loses a worker or runs twice at once makes the same tables."""

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pandas as pd
import pytest

from fairtk import demo

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

# sizes that the gate has time for; by hand FAIRTK_KILLS=10
KILLS = int(os.environ.get("FAIRTK_KILLS", "3"))
QUERIES = os.environ.get("FAIRTK_KILL_QUERIES", "10")
SAMPLES = os.environ.get("FAIRTK_KILL_SAMPLES", "10")


def start(folder, *options):
    """Begin the study of the packaged folder as LaMP-2."""
    call = [sys.executable, "-m", "fairtk", "rag", demo.collection_folder(), "-t", "2"]
    call += ["-g", f"t5:{demo.model_folder()}", "-n", SAMPLES, "-a", "0", "-a", "2", "-a", "8"]
    call += ["--limit", QUERIES, "-o", folder / "out", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(list(map(str, call)), env=environment, **quiet)


def hashes(folder):
    """Return the sha256 of every table."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "out").glob("settings/*/tables/*"))
    }


def count(folder, table="answers"):
    """Return how many rows of a table are committed."""
    path = folder / "out" / "experiment.sqlite"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    except sqlite3.Error:  # not made yet
        return 0


def wait_for(process, folder, answers):
    """Wait until so many answers are committed; return whether the process still runs."""
    while process.poll() is None and count(folder) < answers:
        time.sleep(0.01)
    return process.poll() is None


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the tables of a run that nobody disturbed, and its answers: of labels, of all."""
    folder = tmp_path_factory.mktemp("whole-rag")
    process = start(folder)
    of_labels = 0
    while process.poll() is None:
        if not count(folder, "systems WHERE name LIKE 'alpha%'"):
            of_labels = count(folder)
        time.sleep(0.01)
    assert process.wait() == 0
    found = hashes(folder)
    # tables, each as CSV, Markdown and LaTeX; and without CSV those that the paper has
    assert len(found) == 5 * 3 + 4 * 2
    assert 0 < of_labels < count(folder)
    return found, of_labels, count(folder)


def test_utility_falls_from_the_fixed_ranking_to_uniform(whole, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "whole-rag0"
    [path] = folder.glob("out/settings/*/tables/means.csv")
    utility = pd.read_csv(path).set_index("policy")["utility"]
    assert utility["deterministic"] >= utility["alpha 8"] > utility["alpha 2"] > utility["alpha 0"]
    assert utility["deterministic"] - utility["alpha 0"] > 0.2


def test_killed_and_resumed_it_gives_the_same_tables(whole, tmp_path):
    expected, of_labels, answers = whole
    rng = random.Random(KILLS)
    during_labels = [rng.uniform(0, 0.9 * of_labels) for _ in range((KILLS + 1) // 2)]
    later = [rng.uniform(of_labels, 0.9 * answers) for _ in range(KILLS // 2)]
    killed = []
    for point in sorted(during_labels + later):
        process = start(tmp_path)
        if wait_for(process, tmp_path, point):
            time.sleep(rng.uniform(0, 0.2))  # into what comes behind a commit
            process.send_signal(signal.SIGKILL)
            killed.append(count(tmp_path))
        process.wait()
    print(f"answers at each kill: {killed}; labels need {of_labels}, all {answers}")
    assert len(killed) >= KILLS - 1  # between the last point and the end there is little time
    assert start(tmp_path).wait() == 0
    assert hashes(tmp_path) == expected


def test_a_study_of_shapley_values_goes_on_where_it_was_killed(tmp_path):
    options = ["--limit", "2", "-n", "2", "--credit", "shapley"]
    one, other = tmp_path / "one", tmp_path / "other"
    assert start(one, *options).wait() == 0
    expected, answers = hashes(one), count(one)
    assert len(expected) == 7 * 3 + 4 * 2 and "credit.csv" in expected
    for share in (0.6, 0.9):  # labels and whole rankings are a quarter
        process = start(other, *options)
        assert wait_for(process, other, share * answers)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert 0 < count(other) < answers
    assert start(other, *options).wait() == 0
    assert (hashes(other), count(other)) == (expected, answers)


def test_a_lost_worker_changes_nothing(whole, tmp_path):
    pytest.importorskip("distributed")
    import psutil

    process = start(tmp_path, "--executor", "dask", "--workers", "2")
    assert wait_for(process, tmp_path, whole[1] / 2)
    # the deepest processes do the work; above them are their keepers
    children = psutil.Process(process.pid).children(recursive=True)
    leaves = [child for child in children if not child.children()]
    working = sorted(leaves, key=lambda child: sum(child.cpu_times()[:2]))
    working[-1].kill()
    assert process.wait() == 0
    assert hashes(tmp_path) == whole[0]


def test_two_at_once_in_one_folder(whole, tmp_path):
    both = [start(tmp_path) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert hashes(tmp_path) == whole[0]
    assert count(tmp_path) == whole[2]
