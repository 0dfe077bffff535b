"""Faults of the machine: full disks, folders that cannot be written, kills, several processes.

What was there stays whole, what was said to be done is done, and a command says in one line what
happened. Parts that need the right to mount a small disk say where they were skipped.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time

import campaign_paying
import pandas as pd
import pytest
from campaign_folder_world import trec_fair
from campaign_machine import (
    answered,
    echoed,
    fairtk_command,
    paying,
    python,
    small_disk,
    until,
)

import fairtk.datasets
import fairtk.io
from fairtk.errors import FairtkError
from fairtk.llm import Ledger

pytestmark = pytest.mark.slow

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


# Full and read-only disks -----------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(tmp_path, name):
    with small_disk(tmp_path / "disk") as disk:
        path = disk / name
        path.write_bytes(b"what was there")
        (disk / "filler").write_bytes(b"x" * 56_000)
        with pytest.raises((OSError, FairtkError)) as caught:
            WRITERS[name](path)
        assert "space" in str(caught.value).lower() or "28" in str(caught.value)
        assert path.read_bytes() == b"what was there"
        assert sorted(p.name for p in disk.iterdir()) == sorted(["filler", name])
        (disk / "filler").unlink()
        if name != "run.parquet":
            WRITERS[name](path)
            assert path.read_bytes() != b"what was there"


def test_a_folder_that_cannot_be_written(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        (disk / "run.txt").write_bytes(b"what was there")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for name, write in WRITERS.items():
            with pytest.raises((OSError, FairtkError)) as caught:
                write(disk / name)
            assert name in str(caught.value) or str(disk) in str(caught.value)
        assert [p.name for p in disk.iterdir()] == ["run.txt"]
        code, _, err = fairtk_command("qr", tmp_path, "-o", disk / "out")
        assert code in (1, 2) and "Traceback" not in err and err.count("Error") == 1


def test_a_ledger_on_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk, Ledger(disk / "answers.sqlite") as ledger:
        llm = ledger.wrap(campaign_paying.echo)
        kept = [number for number in range(5) if campaign_paying.ask(llm, number)]
        free = os.statvfs(disk)
        (disk / "filler").write_bytes(b"x" * (free.f_bavail - 1) * free.f_frsize)
        with pytest.raises((FairtkError, OSError)) as caught:
            for number in range(5, 400):
                campaign_paying.ask(llm, number)
                kept.append(number)
        assert "\n" not in str(caught.value)
        (disk / "filler").unlink()
        calls = ledger.spent.calls
        assert [campaign_paying.ask(llm, n) for n in kept] == [echoed(n) for n in kept]
        assert ledger.spent.calls == calls  # what was said to be kept is not paid for again
        assert campaign_paying.ask(llm, 1000) == echoed(1000)


# Kills --------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("name", ["run.txt", "run.parquet"])
def test_a_killed_writer_leaves_a_whole_file(tmp_path, name):
    path = tmp_path / name
    rng = random.Random(7)
    for _ in range(5):
        with python(WRITING, path) as process:
            process.stdout.readline()
            until(path.exists)
            time.sleep(rng.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            process.wait()
        check_whole(path)


def test_two_writers_of_one_file_leave_a_whole_one(tmp_path):
    path = tmp_path / "run.txt"
    with python(WRITING, path), python(WRITING, path):
        until(path.exists)
        for _ in range(30):
            check_whole(path)


def check_whole(path):
    """Check that a file is one of the two that were written."""
    run = fairtk.io.read_run(path)
    assert len(run) == 3000
    assert len({docno.rstrip("0123456789") for docno in run["docno"]}) == 1


def test_what_a_killed_process_was_told_is_kept(tmp_path):
    path = tmp_path / "answers.sqlite"
    rng = random.Random(11)
    told = []
    for attempt in range(6):
        with paying(path, attempt * 1000, attempt * 1000 + 1000) as process:
            assert process.stdout.readline() == "ready\n"
            told.append(int(process.stdout.readline()))
            time.sleep(rng.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            told += map(int, process.stdout)
    assert answered(path, told) == told


def test_four_processes_that_open_a_new_ledger_lose_nothing(tmp_path):
    for attempt in range(4):
        path = tmp_path / str(attempt) / "answers.sqlite"
        path.parent.mkdir()
        with contextlib.ExitStack() as stack:
            shares = [(20 * n, 20 * n + 20) for n in range(4)]
            for process in [stack.enter_context(paying(path, *share)) for share in shares]:
                _, err = process.communicate(timeout=600)
                assert process.returncode == 0, err
        assert answered(path, range(80)) == list(range(80))


def test_an_interrupted_process_keeps_what_it_was_told(tmp_path):
    path = tmp_path / "answers.sqlite"
    with paying(path, 0, 5000) as process:
        assert process.stdout.readline() == "ready\n"
        assert process.stdout.readline() == "0\n"
        process.send_signal(signal.SIGINT)
        told = [0, *map(int, process.stdout)]
    assert answered(path, told) == told


LONG = """
    import os
    import time
    from ir_measures.providers import compat_provider
    from fairtk.cli import main

    def rbo(*_):
        os.write(1, b"computing\\n")
        while True:
            time.sleep(0.01)

    compat_provider.rbo = rbo
    main()
"""


def test_an_interrupted_command_says_so(tmp_path):
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("".join(f"q1 0 d{i} {i} {-i} t\n" for i in range(10)))
    qrels.write_text("".join(f"q1 0 d{i} 1\n" for i in range(10)))
    with python(LONG, "evaluate", qrels, run, "-m", "E(Compat)") as process:
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in err and len(err.strip().splitlines()) <= 1, err


# Damaged files ------------------------------------------------------------------------------------


def test_damaged_ledgers_alter_no_answer(tmp_path):
    """A bit of the file is flipped: at least 95 % of the answers are served, none is altered."""
    whole = tmp_path / "whole.sqlite"
    with paying(whole, 0, 200) as process:
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    raw = whole.read_bytes()
    rng = random.Random(3)
    for attempt in range(25):
        damaged = bytearray(raw)
        damaged[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        folder = tmp_path / str(attempt)
        folder.mkdir()
        for beside in tmp_path.glob("whole.sqlite*"):
            (folder / beside.name).write_bytes(beside.read_bytes())
        (folder / whole.name).write_bytes(bytes(damaged))
        kept = answered(folder / whole.name, range(200))
        assert len(kept) >= 190, attempt


def test_damaged_caches_are_made_anew(tmp_path, monkeypatch):
    """What was kept of the metadata is made again when a byte of it is another one."""
    monkeypatch.setenv("FAIRTK_HOME", str(tmp_path / "home"))
    files = trec_fair(random.Random(5))
    for name, raw in files.items():
        (tmp_path / name).write_bytes(raw)
    expected = groups_of(tmp_path)
    caches = [p for p in tmp_path.rglob("*.parquet")]
    assert caches
    rng = random.Random(6)
    for _ in range(15):
        for path in caches:
            raw = bytearray(path.read_bytes())
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(raw) if rng.random() < 0.8 else bytes(raw[: len(raw) // 2]))
        pd.testing.assert_frame_equal(groups_of(tmp_path), expected)


def groups_of(folder):
    """Return the groups of a folder's pages by gender, as a frame."""
    dataset = fairtk.datasets.trec_fair.from_folder(folder)
    return fairtk.datasets.trec_fair.groups(dataset, "gender").to_frame()
