"""``fairtk rag`` with a local model that is killed, loses a worker or runs twice at once.

It makes the same tables. With a server: tests/test_studies_killed.py.
"""

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pandas as pd
import pytest

from fairtk import demo

pytest.importorskip("torch")
pytestmark = pytest.mark.nightly

DIES = """
import os, signal
from fairtk.experiment import executors
from fairtk.llm.store import Database

answers, life = os.environ["DIES"].split(" ", 1)
write, answer, tasks = Database.write, executors.answer, []

def last():
    try:
        os.unlink(life)
        return True
    except FileNotFoundError:  # one has died
        return False

def write_and_die(self, *given, **options):
    done = write(self, *given, **options)
    if answers and os.path.exists(life):
        if self.read("SELECT count(*) FROM answers")[0][0] >= float(answers) and last():
            os.kill(os.getpid(), signal.SIGKILL)
    return done

def answer_and_die(*given):
    outcome = answer(*given)
    tasks.append(outcome)
    if len(tasks) == 2 and not answers and last():
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome

Database.write, executors.answer = write_and_die, answer_and_die
"""


def dying(folder, answers=""):
    """Return variables with which one process kills itself: the command, once it has committed so
    many answers; without a number a worker, with the outcome of its second task.
    """
    place, life = folder / "sitecustomize", folder / "life"
    place.mkdir(parents=True, exist_ok=True)
    (place / "sitecustomize.py").write_text(DIES)
    life.touch()
    path = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "DIES": f"{answers} {life}"}


def command(folder, *options):
    """Return the study of the packaged folder as LaMP-2."""
    call = [sys.executable, "-m", "fairtk", "rag", demo.collection_folder(), "-t", "2"]
    call += ["-g", f"t5:{demo.model_folder()}", "-n", "10", "-a", "0", "-a", "2", "-a", "8"]
    return list(map(str, [*call, "--limit", "10", "-o", folder / "out", *options]))


def start(folder, *options, **variables):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command(folder, *options), env=environment, **quiet)


def hashes(folder):
    """Return the sha256 of every table."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "out").glob("settings/*/tables/*"))
    }


def count(folder):
    """Return how many answers are committed."""
    with closing(sqlite3.connect(folder / "out" / "experiment.sqlite")) as database:
        return database.execute("SELECT count(*) FROM answers").fetchone()[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the tables of a run that nobody disturbed, and how many answers it has."""
    folder = tmp_path_factory.mktemp("whole-rag")
    assert start(folder).wait() == 0
    found = hashes(folder)
    # tables, each as CSV, Markdown and LaTeX; and without CSV those that the paper has
    assert len(found) == 5 * 3 + 4 * 2
    return found, count(folder)


def test_utility_falls_from_the_fixed_ranking_to_uniform(whole, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "whole-rag0"
    [path] = folder.glob("out/settings/*/tables/means.csv")
    utility = pd.read_csv(path).set_index("policy")["EU"]
    assert utility["deterministic"] >= utility["alpha 8"] > utility["alpha 2"] > utility["alpha 0"]
    assert utility["deterministic"] - utility["alpha 0"] > 0.2


def test_a_study_of_shapley_values_goes_on_where_it_was_killed(tmp_path):
    options = ["--limit", "2", "-n", "2", "--credit", "shapley"]
    one, other = tmp_path / "one", tmp_path / "other"
    assert start(one, *options).wait() == 0
    expected, answers = hashes(one), count(one)
    assert len(expected) == 7 * 3 + 4 * 2 and "credit.csv" in expected
    for share in (0.6, 0.9):  # labels and whole rankings are a quarter
        variables = dying(other, share * answers)
        assert start(other, *options, **variables).wait() == -signal.SIGKILL
    assert 0 < count(other) < answers
    assert start(other, *options).wait() == 0
    assert (hashes(other), count(other)) == (expected, answers)


def test_a_lost_worker_changes_nothing(whole, tmp_path):
    variables = dying(tmp_path)
    assert start(tmp_path, "--executor", "processes", "--workers", "2", **variables).wait() == 0
    assert not (tmp_path / "life").exists()
    assert hashes(tmp_path) == whole[0]


def test_two_at_once_in_one_folder(whole, tmp_path):
    both = [start(tmp_path) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert hashes(tmp_path) == whole[0]
    assert count(tmp_path) == whole[1]
