"""Ctrl-C on the command line: no traceback, nothing on stdout, exit code 130."""

import signal
import subprocess
import sys

import pandas as pd
import pytest

from fairtk.io import read_run, write_run
from fairtk.io.lines import Watched


def test_while_a_command_waits_for_its_input(tmp_path):
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 d1 1\n")
    command = [sys.executable, "-m", "fairtk", "evaluate", str(qrels), "-", "-m", "nDCG@5"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:
        # more than a pipe holds, so this returns when the command reads, and then it waits for more
        process.stdin.writelines(f"q1 Q0 d{i} {i + 1} {-i} toy\n" for i in range(20_000))
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err.strip()) == (130, "", "Aborted.")


@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz", "run.tsv", "run.jsonl"])
def test_while_a_file_is_read(tmp_path, monkeypatch, name):
    """pandas, which asks for each chunk, has other words for it; the file is not read anew then."""
    path, n = tmp_path / name, 30_000
    docnos = [f"d{i}" for i in range(n)]
    write_run(pd.DataFrame({"qid": "q", "docno": docnos, "score": range(n)}), path)
    read, calls = Watched.readinto, []

    def interrupted(self, buffer):
        calls.append(0)
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)
        return read(self, buffer)

    monkeypatch.setattr(Watched, "readinto", interrupted)
    at = 0
    assert len(read_run(path)) == n
    for at in range(1, len(calls) + 1):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            read_run(path)
        assert len(calls) == at
