"""Runs with a server's model that are killed, or that run twice at once.

They end with the tables of one that nobody disturbed. A prompt is sent twice only if it was under
way at a kill: it was sent before, and its answer was not stored when the next run began. A kind of
run is a function of folder, address of the server and executor; it returns a program and its
arguments, which are run with concurrency `CONCURRENCY` on `WORKERS` workers.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from chat_server import serving, wait_until
from ledger_files import lapse

psutil = pytest.importorskip("psutil")
pytest.importorskip("openai")

KILLS = int(os.environ.get("FAIRTK_KILLS", "14"))  # of each nightly test
CONCURRENCY, WORKERS = 3, 2
WAIT = """
import os, pathlib, time
if "WAITS" in os.environ:  # this run is to be killed, however late that is
    pathlib.Path(os.environ["WAITS"]).touch()
    time.sleep(3600)
"""


def answered(answer, prompt, count):
    """Answer a prompt, after a while."""
    return {"text": answer(prompt), "sleep": random.uniform(0.02, 0.2)}


def start(call, key, **variables):
    """Start a program; its requests have the key."""
    program, *arguments = call
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "FAIRTK_PLUGINS": "",
        "NO_PROXY": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "OPENAI_API_KEY": key,
        "PYTHONPATH": os.pathsep.join(paths),
        **variables,
    }
    command = [sys.executable, "-c", program + WAIT, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def rows(folder, query):
    """Return what a query finds in the file of a folder; nothing before it exists."""
    path = folder / "experiment.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=120)) as database:
        return database.execute(query).fetchall()


def stored(folder):
    """Return the prompts of which an answer is stored."""
    return {
        json.loads(prompt)[-1][1]
        for (prompt,) in rows(folder, "SELECT prompt FROM answers WHERE model = 'toy'")
    }


def progress(server, folder):
    """Return how much was sent and stored."""
    both = "SELECT 1 FROM answers UNION ALL SELECT 1 FROM cells"
    return len(server.requests) + len(rows(folder, both))


def sent(server, key):
    """Return how often each prompt was sent with a key."""
    return Counter(
        prompt
        for prompt, _, headers in list(server.requests)
        if headers["Authorization"] == f"Bearer {key}"
    )


def tables(folder):
    """Return the sha256 of all tables without times.

    Of Parquet files it is that of the rows: their bytes hold versions. A kill may leave the hidden
    temporary file of an atomic write.
    """
    hashes = {}
    for path in sorted(folder.rglob("[!.]*.*")):
        timed = path.stem in ("costs", "report")
        timed = timed or (path.stem == "tuning" and path.suffix != ".parquet")
        if path.suffix in (".csv", ".md", ".parquet", ".tex") and not timed:
            data = path.read_bytes()
            if path.suffix == ".parquet":
                frame = pd.read_parquet(path).drop(columns="seconds", errors="ignore")
                if path.stem == "notes":
                    frame["note"] = frame["note"].map(without_seconds)
                data = frame.to_csv(index=False).encode()
            hashes[str(path.relative_to(folder))] = hashlib.sha256(data).hexdigest()
    return hashes


def without_seconds(note):
    """Return the JSON of a note without the seconds of its calls."""
    value = json.loads(note)
    return json.dumps({k: v for k, v in value.items() if k != "seconds"}, sort_keys=True)


def kill(process):
    """Kill a process; its workers end with it."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not psutil.wait_procs(children, timeout=300)[1]


def of(kind, executor, often=False):
    """Return a kind of run, and how often it is killed: often in the nightly tests alone."""
    mark = pytest.mark.nightly if often else pytest.mark.slow
    name = f"{kind.__name__}-{executor}-{'often' if often else 'once'}"
    return pytest.param(kind, executor, KILLS if often else 1, marks=mark, id=name)


def check_killed_and_resumed(tmp_path, kind, answer, executor, kills):
    """Hold a run that is killed so often, and resumed, to make the same tables."""
    rng = random.Random(f"{kind.__name__} {executor}")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with serving(partial(answered, answer)) as server:
        assert start(kind(whole, server.url, "serial"), "whole").wait() == 0
        prompts, total = sent(server, "whole"), progress(server, whole)
        assert set(prompts) == stored(whole) and set(prompts.values()) == {1}
        call, in_flight, complete = kind(killed, server.url, executor), [], 0
        for number in range(kills):
            before, begin = stored(killed), progress(server, killed)
            key, done = f"run {number}", tmp_path / f"run {number} is done"
            process = start(call, key, WAITS=str(done))
            goal = begin + rng.randint(1, total // kills)
            wait_until(
                lambda p=process, w=goal, d=done: (
                    progress(server, killed) >= w or d.exists() or p.poll() is not None
                )
            )
            time.sleep(rng.uniform(0, 0.2))
            kill(process)
            complete += done.exists()
            requests = sent(server, key)
            assert set(requests.values()) <= {1} and not requests.keys() & before
            in_flight.append(requests.keys() - stored(killed))
            lapse(killed / "experiment.sqlite")
        before = stored(killed)
        assert start(call, "last run").wait() == 0
        requests = sent(server, "last run")
        assert set(requests.values()) <= {1} and not requests.keys() & before
    calls = CONCURRENCY * (1 if executor == "serial" else WORKERS)
    assert max(map(len, in_flight)) <= calls
    assert stored(killed) == set(prompts)
    assert rows(killed, "SELECT count(*) FROM payments") == [(len(prompts),)]
    assert rows(killed, "SELECT * FROM claims") == []
    assert tables(killed) == tables(whole)
    twice = {prompt for prompt, count in server.counts.items() if count > 2}  # and in `whole`
    assert twice <= set().union(*in_flight)
    lengths = list(map(len, in_flight))
    print(f"{kills} kills, {complete} of them when all was done; in flight at each: {lengths}")
    print(f"{len(prompts)} prompts, {len(twice)} of them sent twice")


def check_two_at_once(tmp_path, kind, answer):
    """Hold two runs at once to send each prompt once."""
    whole, shared = tmp_path / "whole", tmp_path / "shared"
    with serving(partial(answered, answer)) as server:
        for place, keys in ((whole, ["whole"]), (shared, ["one", "other"])):
            both = [start(kind(place, server.url, "serial"), key) for key in keys]
            assert [process.wait() for process in both] == [0] * len(both)
        prompts = sent(server, "whole")
        assert sent(server, "one") + sent(server, "other") == prompts
    assert tables(shared) == tables(whole)
