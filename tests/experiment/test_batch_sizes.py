"""The default batches: what a kill costs, and that a resumed run has the same ones."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import killed_stages
import pandas as pd
import pyterrier as pt
import pytest

import fairtk
from fairtk.experiment import stored_results


@pytest.mark.parametrize(
    ("n", "size"),
    [(1, 1), (16, 1), (17, 2), (24, 2), (33, 3), (1000, 63), (1024, 64), (1025, 64)],
)
def test_a_batch_is_a_sixteenth_of_the_topics(n, size):
    topics = pd.DataFrame({"qid": [f"q{i}" for i in range(n)], "query": "words"})
    sizes = []
    stage = pt.apply.generic(lambda inp: sizes.append(len(inp)) or inp)
    results = fairtk.Experiment({"a": stage}, topics)
    assert results.config["batch_size"] == max(sizes) == size and sum(sizes) == n


def killed_at(step, folder, name, log):
    """Run a system in a process that kills itself at a step."""
    paths = [str(Path(killed_stages.__file__).parent), *filter(None, sys.path)]
    at = {"KILL_AT": str(step), "KILL_BY": "SIGKILL"}
    environment = {**os.environ, **at, "PYTHONPATH": os.pathsep.join(paths)}
    program = "import sys, killed_stages; killed_stages.run(*sys.argv[1:])"
    call = [sys.executable, "-c", program, str(folder), name, str(log)]
    assert subprocess.run(call, env=environment).returncode == -signal.SIGKILL


def interrupted_at(step, *run):
    """Run a system that is interrupted at a step."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setenv("KILL_AT", str(step))
        patch.setenv("KILL_BY", "SIGINT")
        killed_stages.run(*run)


def contents(results):
    return [results.rankings(name).to_csv(index=False) for name in results.systems]


@pytest.mark.slow
def test_a_kill_costs_one_batch_of_a_stage(tmp_path):
    uninterrupted = killed_stages.run(tmp_path / "whole", "stage", tmp_path / "whole.log")
    killed_at(15, tmp_path / "killed", "stage", tmp_path / "killed.log")
    # 15 of 24 queries were done: 7 batches of two, and one of the eighth
    [queries] = stored_results(tmp_path / "killed").query("systems == 'a'")["queries"]
    assert queries == 14
    resumed = killed_stages.run(tmp_path / "killed", "stage", tmp_path / "killed.log")
    log = Counter((tmp_path / "killed.log").read_text().split())
    assert log == Counter({f"q{i}": 2 if i == 14 else 1 for i in range(24)})
    assert contents(resumed) == contents(uninterrupted)


@pytest.mark.parametrize(
    ("ended_at", "step"),
    [
        (interrupted_at, 3),
        *(pytest.param(killed_at, step, marks=pytest.mark.nightly) for step in range(4)),
    ],
)
def test_a_resumed_run_has_the_same_batches_of_prompts(tmp_path, ended_at, step):
    """Two systems with two levels of prompts to one model: 48 prompts, then 48 others."""
    uninterrupted = killed_stages.run(tmp_path / "whole", "model", tmp_path / "whole.log")
    batches = (tmp_path / "whole.log").read_text().splitlines()
    assert len(batches) == 4
    ended_at(step, tmp_path / "killed", "model", tmp_path / "killed.log")
    resumed = killed_stages.run(tmp_path / "killed", "model", tmp_path / "killed.log")
    assert (tmp_path / "killed.log").read_text().splitlines() == batches
    assert contents(resumed) == contents(uninterrupted)
