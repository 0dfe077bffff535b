"""Faults of the machine: full disks, folders without write permission, kills, several processes.

Old files stay complete, acknowledged answers are never lost, and a command reports a fault in one
line. Tests that need the right to mount a small disk are skipped without it.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time

import campaign_paying
import pandas as pd
import pytest

import fairtk.io
from fairtk.errors import FairtkError
from fairtk.llm import Ledger

pytestmark = pytest.mark.nightly

RUN = pd.DataFrame(
    {
        "qid": ["q1"] * 500 + ["q2"] * 500,
        "docno": [f"document-{i}" for i in range(1000)],
        "score": [float(-i) for i in range(1000)],
    }
)
QRELS = RUN[["qid", "docno"]].assign(label=1)
ANSWERS = RUN[["qid"]].drop_duplicates().assign(qanswer="x" * 20_000)
WRITERS = {
    "run.txt": lambda path: fairtk.io.write_run(RUN, path),
    "run.parquet": lambda path: fairtk.io.write_run(RUN, path),
    "run.txt.gz": lambda path: fairtk.io.write_run(RUN, path),
    "task.tsv": lambda path: fairtk.io.write_task_run(RUN, path),
    "qrels.txt": lambda path: fairtk.io.write_qrels(QRELS, path),
    "answers.jsonl": lambda path: fairtk.io.write_answers(ANSWERS, path),
}


@contextlib.contextmanager
def small_disk(folder, size="64k"):
    """Mount a small disk at a folder; skip the test without the right to do so."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no right to mount a small disk: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def python(*arguments):
    """Start Python; end it at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(path):
    """Wait until a file exists."""
    end = time.monotonic() + 600
    while not path.exists():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def paying(path, start, stop):
    """Start a process that pays for answers and prints their numbers."""
    return python(campaign_paying.__file__, path, start, stop)


def stored(path, numbers):
    """Return the numbers whose answers a ledger has."""
    with Ledger(path, offline=True) as ledger:
        llm = ledger.wrap(campaign_paying.echo)
        found = []
        for number in numbers:
            with contextlib.suppress(FairtkError):
                assert campaign_paying.ask(llm, number) == answer_to(number)
                found.append(number)
        return found


def answer_to(number):
    """Return the right answer to a numbered prompt."""
    return campaign_paying.echo([f"prompt {number}"])[0]


# Full and read-only disks -------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(tmp_path, name):
    with small_disk(tmp_path / "disk") as disk:
        path = disk / name
        path.write_bytes(b"old content")
        (disk / "filler").write_bytes(b"x" * 56_000)
        with pytest.raises((OSError, FairtkError), match="(?i)space|28"):
            WRITERS[name](path)
        assert path.read_bytes() == b"old content"
        assert sorted(p.name for p in disk.iterdir()) == sorted(["filler", name])
        (disk / "filler").unlink()
        if name != "run.parquet":
            WRITERS[name](path)
            assert path.read_bytes() != b"old content"


def test_a_read_only_folder(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        (disk / "run.txt").write_bytes(b"old content")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for write in WRITERS.values():
            with pytest.raises((OSError, FairtkError), match=str(disk)):
                write(disk / "run.txt")
        assert [p.name for p in disk.iterdir()] == ["run.txt"]
        command = ("-m", "fairtk", "measures", "-o", disk / "out")
        with python(*command) as process:
            _, err = process.communicate(timeout=600)
        assert process.returncode in (1, 2) and "Traceback" not in err and err.count("Error") == 1


def test_a_ledger_on_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk, Ledger(disk / "answers.sqlite") as ledger:
        llm = ledger.wrap(campaign_paying.echo)
        acknowledged = [number for number in range(5) if campaign_paying.ask(llm, number)]
        free = os.statvfs(disk)
        (disk / "filler").write_bytes(b"x" * (free.f_bavail - 1) * free.f_frsize)
        with pytest.raises((FairtkError, OSError)) as caught:
            for number in range(5, 400):
                campaign_paying.ask(llm, number)
                acknowledged.append(number)
        assert "\n" not in str(caught.value)
        (disk / "filler").unlink()
        calls = ledger.spent.calls
        answers = [campaign_paying.ask(llm, number) for number in acknowledged]
        assert answers == list(map(answer_to, acknowledged))
        assert ledger.spent.calls == calls  # acknowledged answers are not paid for again
        assert campaign_paying.ask(llm, 1000) == answer_to(1000)


# Kills and several processes ----------------------------------------------------------------------

WRITING = """
import sys
import pandas as pd
import fairtk.io
n = 3000
runs = [pd.DataFrame({"qid": ["q"] * n, "docno": [f"{word}{i}" for i in range(n)],
                      "score": [float(-i) for i in range(n)]}) for word in ("one", "two")]
print("ready", flush=True)
while True:
    for run in runs:
        fairtk.io.write_run(run, sys.argv[1])
"""


def check_complete(path):
    """Check that a file is one of the two that `WRITING` writes."""
    run = fairtk.io.read_run(path)
    assert len(run) == 3000
    assert len({docno.rstrip("0123456789") for docno in run["docno"]}) == 1


@pytest.mark.parametrize("name", ["run.txt", "run.parquet"])
def test_a_killed_writer_leaves_a_complete_file(tmp_path, name):
    path = tmp_path / name
    rng = random.Random(7)
    for _ in range(5):
        with python("-c", WRITING, path) as process:
            process.stdout.readline()
            wait_for(path)
            time.sleep(rng.uniform(0, 0.3))
            process.kill()
            process.wait()
        check_complete(path)


def test_two_writers_leave_a_complete_file(tmp_path):
    path = tmp_path / "run.txt"
    with python("-c", WRITING, path), python("-c", WRITING, path):
        wait_for(path)
        for _ in range(30):
            check_complete(path)


def test_a_killed_process_loses_no_acknowledged_answer(tmp_path):
    path = tmp_path / "answers.sqlite"
    rng = random.Random(11)
    acknowledged = []
    for start in range(0, 6000, 1000):
        with paying(path, start, start + 1000) as process:
            assert process.stdout.readline() == "ready\n"
            acknowledged.append(int(process.stdout.readline()))
            time.sleep(rng.uniform(0, 0.3))
            process.kill()
            acknowledged += map(int, process.stdout)
    assert stored(path, acknowledged) == acknowledged
