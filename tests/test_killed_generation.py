"""A parallel run of a local model that is killed at any moment ends with the same bytes."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import killed_generation
import tiny_models

psutil = pytest.importorskip("psutil")

KILLS = 20


def start(folder, model):
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *sys.path]))
    program = Path(killed_generation.__file__)
    environment = {**os.environ, "PYTHONPATH": path, "FAIRTK_PLUGINS": "", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, str(program), str(folder), model], env=environment)


def rows(folder, query):
    path = folder / "experiment.sqlite"
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(path, timeout=120)) as database:
            return database.execute(query).fetchall()
    except sqlite3.OperationalError:  # the tables are not there yet
        return []


def contents(folder):
    """Return all answers with their keys, and all rows of results, as stored bytes."""
    answers = rows(folder, "SELECT key, prompt, answer, finish FROM answers ORDER BY key")
    cells = rows(folder, "SELECT qid, size, error, data FROM cells JOIN frames USING (frame)")
    return answers, sorted(cells)


@pytest.mark.nightly
def test_parallel_generation_resumes_with_identical_bytes(tmp_path):
    model = str(tiny_models.save_t5(tmp_path / "model"))
    assert start(tmp_path / "whole", model).wait() == 0
    expected = contents(tmp_path / "whole")
    assert len(expected[0]) == 60 and len({answer for _, _, answer, _ in expected[0]}) > 1
    stored = []
    for number in range(KILLS):
        folder, rng = tmp_path / str(number), random.Random(number)
        goal = rng.randrange(1, 30)  # the process stores more before it is killed
        process = start(folder, model)
        while len(rows(folder, "SELECT 1 FROM answers")) < goal and process.poll() is None:
            time.sleep(0.001)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not psutil.wait_procs(children, timeout=300)[1]
        stored.append(len(rows(folder, "SELECT 1 FROM answers")))
        assert start(folder, model).wait() == 0
        assert contents(folder) == expected, f"killed with {stored[-1]} of 60 answers"
    assert min(stored) < 60
    print(f"{KILLS} kills, with {stored} of 60 answers stored; all bytes equal")
