"""Workers of this machine: one GPU each (the logic needs none), and their end."""

import pickle

import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.experiment import ProcessExecutor
from fairtk.experiment.executors import VISIBLE, _Pool, gpu_of, gpus
from fairtk.interpreters import cores


@pytest.mark.parametrize(
    ("said", "found"),
    [("0,1", ["0", "1"]), ("GPU-a, GPU-b", ["GPU-a", "GPU-b"]), ("", []), ("2,-1,3", ["2"])],
)
def test_the_variable_says_which(monkeypatch, said, found):
    monkeypatch.setenv(VISIBLE, said)
    assert gpus() == found
    assert ProcessExecutor().workers == (len(found) or cores())
    assert ProcessExecutor(3).workers == 3


def test_workers_take_them_in_turn(monkeypatch):
    monkeypatch.setenv(VISIBLE, "4,6")
    assert [gpu_of(number)[VISIBLE] for number in range(3)] == ["4", "6", "4"]
    monkeypatch.setenv(VISIBLE, "4")
    assert gpu_of(0) == {}  # as it is


@pytest.mark.slow
def test_each_process_sees_its_own(monkeypatch, tmp_path):
    folder = str(tmp_path)

    def which(topics):
        """Wait for the other worker, so that both get some."""
        import os
        import time
        from pathlib import Path

        own, end = os.environ["CUDA_VISIBLE_DEVICES"], time.monotonic() + 600
        Path(folder, own).touch()
        while len(os.listdir(folder)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return topics.assign(docno=own, score=1.0, rank=0)

    monkeypatch.setenv(VISIBLE, "4,6")
    topics = pd.DataFrame({"qid": [str(i) for i in range(4)], "query": "q"})
    results = fairtk.Experiment(
        {"a": pt.apply.generic(which)}, topics, executor="processes", batch_size=1
    )
    assert set(results.rankings("a")["docno"]) == {"4", "6"}


@pytest.mark.slow
def test_what_a_stage_reads_from_standard_input_is_not_its_calls():
    def reads(topics):
        import subprocess
        import sys

        there = subprocess.run(["cat"], stdout=subprocess.PIPE, timeout=300, check=True).stdout
        text = f"{there.decode()}{sys.stdin.read()}."
        return topics.assign(docno=text, score=1.0, rank=0)

    topics = pd.DataFrame({"qid": list("abcd"), "query": "q"})
    results = fairtk.Experiment(
        {"a": pt.apply.generic(reads)}, topics, executor="processes", workers=1, batch_size=1
    )
    assert results.rankings("a")["docno"].tolist() == ["."] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(slice(5000), 0), (slice(None), 1)])
def test_a_worker_ends_with_its_parent_whatever_that_has_sent(sent, code, capfd):
    """A part of a call, or all of one that cannot be read here."""
    call = pickle.dumps(b"x" * 10_000) if code == 0 else b"cno_such_module\nname\n."
    worker = _Pool({}, 1)._started(0)
    try:
        worker.process.stdin.write(call[sent])
        worker.process.stdin.close()
        assert worker.process.wait(300) == code
    finally:
        worker.end()
    assert ("No module named 'no_such_module'" in capfd.readouterr().err) == (code == 1)
