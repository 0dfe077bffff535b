"""SIGKILL in the middle of a study, and of an index: what is resumed is what would have been."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pandas as pd
import pytest
import qr_world
from chat_server import serving, wait_until

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("openai")
pytest.importorskip("matplotlib")

CONFIG = """
folder = "{folder}"
attributes = ["gender", "geography"]
systems = ["fair-qr", "fair-qr (no re-ranking)"]
cutoff = 5
candidates = 10
[tuning]
[variations]
max_iterations = [1, 10]
[llm]
backend = "openai"
model = "toy"
base_url = "{url}"
concurrency = 3
backoff = 0.01
retries = 1
timeout = 900
"""
FRAMES = ("table", "per_query", "variations", "rankings")


def start(config, output):
    """Begin ``fairtk qr`` as a process of its own."""
    env = os.environ | {"FAIRTK_PLUGINS": "", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "fairtk", "qr", str(config), "-o", str(output), "--format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
    )


def finished(process):
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    return out


class Gate:
    """A rule that answers so many calls; those that come later wait until it is opened."""

    def __init__(self):
        self.left, self.held, self.changed = math.inf, 0, threading.Condition()

    def __call__(self, prompt, count):
        with self.changed:
            self.held += 1
            self.changed.wait_for(lambda: self.left > 0)
            self.held -= 1
            self.left -= 1
        return {"text": qr_world.adds_a_term(prompt), "sleep": 0.05}

    def let(self, calls):
        with self.changed:
            self.left = calls
            self.changed.notify_all()

    @property
    def waiting(self):
        with self.changed:
            return self.held


def paid(folder):
    """Return what the ledger of a study has; nothing if there is none yet."""
    path = folder / "experiment.sqlite"
    return qr_world.paid(path) if path.exists() else []


@pytest.mark.nightly
def test_killed_studies_end_as_uninterrupted_ones(wiki, tmp_path):
    config, gate = tmp_path / "study.toml", Gate()
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with serving(gate) as server:
        config.write_text(CONFIG.format(folder=wiki, url=server.url))
        csv = finished(start(config, whole))
        total = len(server.requests)
        assert total == len(server.counts) >= 20
        server.requests.clear()
        server.counts.clear()
        known, stops = set(), 0
        # in the first round of calls, in a later one, while results are written, near the end
        for moment in ("first", "later", "written", "last"):
            left, written = total - len(known), qr_world.kept(killed)
            gate.let({"first": 1, "last": left - 3}.get(moment, left // 2))
            process = start(config, killed)
            wait_for(
                lambda m=moment, n=written: (
                    gate.waiting or (m == "written" and qr_world.kept(killed) > n + 3)
                ),
                process,
            )
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            stops += 1
            now = paid(killed)
            gate.let(math.inf)  # into the void
            wait_until(lambda: not server.running)
            requests = Counter(prompt for prompt, *_ in server.requests)
            assert all(requests[prompt] == before for prompt, before in known)
            known = {(p, requests[p]) for p in now}
        assert stops == 4 and 0 < len(known) < total
        again = finished(start(config, killed))
        requests = Counter(prompt for prompt, *_ in server.requests)
        # what had been paid for was not asked for again; what was under way was, 3 at a time
        assert all(requests[prompt] == before for prompt, before in known)
        assert set(requests) == set(qr_world.paid(whole / "experiment.sqlite"))
        assert sum(requests.values()) <= total + 3 * stops
        assert again == csv
        before = len(server.requests)
        assert finished(start(config, killed)) == csv
        assert len(server.requests) == before
    for name in FRAMES:
        one, two = (pd.read_parquet(folder / f"{name}.parquet") for folder in (whole, killed))
        pd.testing.assert_frame_equal(one, two)
    for name in ("table.csv", "per_query.csv", "tables/comparison.tex", "tables/variations.tex"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes()
    one, two = qr_world.sums(whole), qr_world.sums(killed)
    assert qr_world.differences(one, two) == []


SMALL = CONFIG.replace('["gender", "geography"]', '["gender"]').replace("[1, 10]", "[1, 2]")


@pytest.mark.nightly
@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_studies_killed_beside_their_workers_end_as_serial_ones(wiki, tmp_path, executor):
    if executor == "dask":
        pytest.importorskip("distributed")
    config, whole, killed = tmp_path / "study.toml", tmp_path / "whole", tmp_path / "killed"
    gate = Gate()
    with serving(gate) as server:
        text = SMALL.format(folder=wiki, url=server.url)
        config.write_text(text)
        csv = finished(start(config, whole))
        total = len(server.requests)
        server.requests.clear()
        server.counts.clear()
        config.write_text(f'{text}[engine]\nexecutor = "{executor}"\nworkers = 2\n')
        for calls in (1, total // 2):
            gate.let(calls)
            process = start(config, killed)
            wait_for(lambda n=calls: gate.waiting and (n == 1 or paid(killed)), process)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            now = paid(killed)  # before who asked for it is counted: a worker may still ask
            gate.let(math.inf)  # workers end, and what they asked for is answered into the void
            wait_until(lambda: not server.running)
            requests = Counter(prompt for prompt, *_ in server.requests)
            known = {(p, requests[p]) for p in now}
        assert finished(start(config, killed)) == csv
        requests = Counter(prompt for prompt, *_ in server.requests)
        assert known and all(requests[prompt] == before for prompt, before in known)
        assert set(requests) == set(qr_world.paid(whole / "experiment.sqlite"))
        # each of two workers makes three calls at a time
        assert sum(requests.values()) <= total + 2 * 3 * 2
    for name in FRAMES:
        one, two = (pd.read_parquet(folder / f"{name}.parquet") for folder in (whole, killed))
        pd.testing.assert_frame_equal(one, two)
    one, two = qr_world.sums(whole), qr_world.sums(killed)
    assert qr_world.differences(one, two) == []


@pytest.mark.nightly
def test_two_commands_on_one_folder_pay_each_prompt_once(wiki, tmp_path):
    config = tmp_path / "study.toml"
    with serving(Gate()) as server:
        config.write_text(SMALL.format(folder=wiki, url=server.url))
        csv = finished(start(config, tmp_path / "alone"))
        prompts = dict.fromkeys(server.counts, 1)
        server.counts.clear()
        both = [start(config, tmp_path / "shared") for _ in range(2)]
        assert [finished(process) for process in both] == [csv, csv]
        assert server.counts == prompts
    alone, shared = (qr_world.sums(tmp_path / name) for name in ("alone", "shared"))
    assert qr_world.differences(alone, shared) == []


@pytest.mark.nightly
def test_twenty_kills_at_random_points(wiki, tmp_path):
    rng, config, killed = random.Random(1), tmp_path / "study.toml", tmp_path / "killed"
    gate = Gate()
    with serving(lambda *given: gate(*given) | {"sleep": 0.2}) as server:
        config.write_text(SMALL.format(folder=wiki, url=server.url).replace("= 3", "= 1"))
        csv = finished(start(config, tmp_path / "whole"))
        total, stops = len(server.requests), 0
        server.requests.clear()
        server.counts.clear()
        while stops < 20:
            begin = progress(server, killed)
            process = start(config, killed)
            # from importing to the last table, mostly where calls are made and results written
            wanted = begin + rng.choice([0, 1, 1, 2])
            while process.poll() is None and progress(server, killed) < wanted:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.2)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            stops += 1
        assert finished(start(config, killed)) == csv
        # of each process at most the call under way was paid for in vain
        assert total == len(server.counts) and len(server.requests) <= total + stops
    whole, again = (qr_world.sums(tmp_path / name) for name in ("whole", "killed"))
    assert qr_world.differences(whole, again) == []


def progress(server, folder):
    return len(server.requests) + qr_world.kept(folder)


def wait_for(happened, process):
    end = time.monotonic() + 900
    while not happened():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.002)


INDEXER = """
import sys, time
from pathlib import Path
import pandas as pd
from fairtk.transformers import CollectionBM25, candidates

candidates._BATCH = 5  # so that PISA writes before it has all documents
begun, awaited = Path(sys.argv[2]), [Path(path) for path in sys.argv[3:]]

def documents():
    for number in range(40):
        if number == 20:
            Path(f"{begun}-half").touch()
            while not all(path.exists() for path in awaited):
                time.sleep(0.01)
        yield {"docno": f"d{number}", "text": f"common word{number}"}

bm25 = CollectionBM25(sys.argv[1], documents)
begun.touch()
found = bm25(pd.DataFrame({"qid": ["1"], "query": ["common"]}))
print(len(found), flush=True)
"""


@pytest.mark.slow
def test_an_index_of_a_killed_process_is_never_used(tmp_path):
    place, begun = tmp_path / "indexes" / "index", tmp_path / "begun"
    command = [sys.executable, "-c", INDEXER, str(place), str(begun)]
    process = subprocess.Popen([*command, str(tmp_path / "never")], stdout=subprocess.PIPE)
    half = tmp_path / "begun-half"
    wait_for(lambda: half.exists() and list(tmp_path.rglob("*.part.*")), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(tmp_path.rglob("*.part.*"))  # left behind, under a name that nobody reads
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "40"
    assert not list(tmp_path.rglob("*.part.*"))  # and cleared away by who builds the index


@pytest.mark.slow
def test_two_processes_may_build_one_index(tmp_path):
    """One is in the middle of it when the other comes."""
    begun = [str(tmp_path / name) for name in ("one", "other")]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", INDEXER, str(tmp_path / "index"), own, *begun],
            stdout=subprocess.PIPE,
            text=True,
        )
        for own in begun
    ]
    outputs = [process.communicate()[0] for process in both]
    assert [p.returncode for p in both] == [0, 0]
    assert [output.split()[-1] for output in outputs] == ["40", "40"]
    assert not list(tmp_path.rglob("*.part.*"))
