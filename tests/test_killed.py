"""Experiments with a server's model that are killed, or that run twice at once; see `killing`."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest
from chat_server import serving, wait_until
from dask_cluster import settings_of
from killing import (
    CONCURRENCY,
    answered,
    check_killed_and_resumed,
    check_two_at_once,
    of,
    rows,
    sent,
    start,
    stored,
    tables,
)
from ledger_files import change


def experiment(folder, url, executor):
    """Return the program and arguments of an experiment; an address is an executor of Dask."""
    return Path(__file__).with_name("killed_experiment.py").read_text(), folder, url, executor


def answer(prompt):
    return f"answer {len(prompt)}"


@pytest.mark.parametrize(
    ("kind", "executor", "kills"),
    [
        of(experiment, "serial"),
        of(experiment, "serial", often=True),
        of(experiment, "processes", often=True),
        of(experiment, "dask", often=True),
    ],
)
def test_killed_and_resumed_it_makes_the_same_tables(tmp_path, kind, executor, kills):
    with settings_of(executor, tmp_path) as settings:
        address = settings.get("scheduler", executor)
        check_killed_and_resumed(tmp_path, kind, answer, address, kills)


@pytest.mark.nightly
def test_two_at_once_send_each_prompt_once(tmp_path):
    check_two_at_once(tmp_path, experiment, answer)


@pytest.mark.nightly
def test_a_lost_worker_costs_the_calls_it_was_making(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    owners, query = [], "SELECT name FROM claims JOIN owners USING (owner)"
    with serving(partial(answered, answer)) as server:
        assert start(experiment(whole, server.url, "serial"), "whole").wait() == 0
        process = start(experiment(killed, server.url, "processes"), "killed")
        wait_until(lambda: owners.extend(rows(killed, query)) or owners)
        worker = int(owners[0][0].split()[1])  # "process 1 on elsewhere"
        assert worker != process.pid
        os.kill(worker, signal.SIGKILL)
        before = stored(killed)
        lapsed = "UPDATE owners SET expires = 0 WHERE name = ?"
        change(killed / "experiment.sqlite", lapsed, owners[0])
        assert process.wait() == 0
        again = sent(server, "killed") - sent(server, "whole")
    assert set(again.values()) <= {1} and not again.keys() & before
    assert len(again) <= CONCURRENCY and tables(killed) == tables(whole)


@pytest.mark.slow
def test_workers_store_what_they_have_paid_for_before_they_end(tmp_path):
    told, folder = threading.Event(), tmp_path / "interrupted"

    def rule(prompt, count):
        told.wait(600)
        return answer(prompt)

    with serving(rule) as server:
        process = start(experiment(folder, server.url, "processes"), "key")
        wait_until(lambda: server.running > 1)
        process.send_signal(signal.SIGINT)
        told.set()
        assert process.wait() != 0
        assert stored(folder) == set(sent(server, "key"))
    assert rows(folder, "SELECT * FROM claims") == []
