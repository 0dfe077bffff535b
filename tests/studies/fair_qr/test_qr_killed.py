"""SIGKILL in the middle of a study, and of an index: what is resumed is what would have been."""

from __future__ import annotations

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
from chat_server import serving

pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
pytest.importorskip("openai")
pytest.importorskip("matplotlib")

pytestmark = pytest.mark.slow

CONFIG = """
folder = "{folder}"
attributes = ["gender", "geography"]
systems = ["fair-qr", "fair-qr (no re-ranking)"]
cutoff = 5
candidates = 10
resamples = 99
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
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def slowly(prompt, count):
    return {"text": qr_world.adds_a_term(prompt), "sleep": 0.05}


def test_killed_studies_end_as_uninterrupted_ones(wiki, tmp_path):
    config = tmp_path / "study.toml"
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with serving(slowly) as server:
        config.write_text(CONFIG.format(folder=wiki, url=server.url))
        begin = time.monotonic()
        csv = finished(start(config, whole))
        took = time.monotonic() - begin
        total = len(server.requests)
        assert total == len(server.counts) >= 20
        server.requests.clear()
        server.counts.clear()
        known, stops = set(), 0
        # in the first round of calls, in a later one, and while results are written
        for wanted in (2, total // 2, None, total - 3):
            written = qr_world.kept(killed)
            process = start(config, killed)
            if wanted is None:
                wait_for(lambda n=written: qr_world.kept(killed) > n + 3, process, took)
            else:
                wait_for(lambda n=wanted: len(server.counts) >= n, process, took)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            stops += 1
            time.sleep(0.2)  # requests that run are answered into the void
            requests = Counter(prompt for prompt, *_ in server.requests)
            assert all(requests[prompt] == before for prompt, before in known)
            known = {(p, requests[p]) for p in qr_world.paid(killed / "ledger.sqlite")}
        assert stops == 4 and 0 < len(known) < total
        again = finished(start(config, killed))
        requests = Counter(prompt for prompt, *_ in server.requests)
        # what had been paid for was not asked for again; what was under way was, 3 at a time
        assert all(requests[prompt] == before for prompt, before in known)
        assert set(requests) == set(qr_world.paid(whole / "ledger.sqlite"))
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


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_studies_killed_beside_their_workers_end_as_serial_ones(wiki, tmp_path, executor):
    if executor == "dask":
        pytest.importorskip("distributed")
    config, whole, killed = tmp_path / "study.toml", tmp_path / "whole", tmp_path / "killed"
    with serving(slowly) as server:
        text = SMALL.format(folder=wiki, url=server.url)
        config.write_text(text)
        begin = time.monotonic()
        csv = finished(start(config, whole))
        took, total = time.monotonic() - begin, len(server.requests)
        server.requests.clear()
        server.counts.clear()
        config.write_text(f'{text}[engine]\nexecutor = "{executor}"\nworkers = 2\n')
        for wanted in (2, total // 2):
            process = start(config, killed)
            wait_for(lambda n=wanted: len(server.counts) >= n, process, took)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            time.sleep(2)  # workers end, and what they asked for is answered into the void
            requests = Counter(prompt for prompt, *_ in server.requests)
            known = {(p, requests[p]) for p in qr_world.paid(killed / "ledger.sqlite")}
        assert finished(start(config, killed)) == csv
        requests = Counter(prompt for prompt, *_ in server.requests)
        assert known and all(requests[prompt] == before for prompt, before in known)
        assert set(requests) == set(qr_world.paid(whole / "ledger.sqlite"))
        # each of two workers makes three calls at a time
        assert sum(requests.values()) <= total + 2 * 3 * 2
    for name in FRAMES:
        one, two = (pd.read_parquet(folder / f"{name}.parquet") for folder in (whole, killed))
        pd.testing.assert_frame_equal(one, two)
    one, two = qr_world.sums(whole), qr_world.sums(killed)
    assert qr_world.differences(one, two) == []


def test_two_commands_on_one_folder_pay_each_prompt_once(wiki, tmp_path):
    config = tmp_path / "study.toml"
    with serving(slowly) as server:
        config.write_text(SMALL.format(folder=wiki, url=server.url))
        csv = finished(start(config, tmp_path / "alone"))
        prompts = dict.fromkeys(server.counts, 1)
        server.counts.clear()
        both = [start(config, tmp_path / "shared") for _ in range(2)]
        assert [finished(process) for process in both] == [csv, csv]
        assert server.counts == prompts
    alone, shared = (qr_world.sums(tmp_path / name) for name in ("alone", "shared"))
    assert qr_world.differences(alone, shared) == []


def test_twenty_kills_at_random_points(wiki, tmp_path):
    rng, config, killed = random.Random(1), tmp_path / "study.toml", tmp_path / "killed"
    with serving(lambda *given: slowly(*given) | {"sleep": 0.2}) as server:
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


def wait_for(happened, process, most):
    end = time.monotonic() + 10 * most + 60
    while not happened():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.002)


INDEXER = """
import sys, time
import pandas as pd
from fairtk.transformers import CollectionBM25, candidates

candidates._BATCH = 5  # so that PISA writes before it has all documents

def documents():
    for number in range(40):
        if number == 20:
            print("halfway", flush=True)
            time.sleep(float(sys.argv[2]))
        yield {"docno": f"d{number}", "text": f"common word{number}"}

bm25 = CollectionBM25(sys.argv[1], documents)
found = bm25(pd.DataFrame({"qid": ["1"], "query": ["common"]}))
print(len(found), flush=True)
"""


def test_an_index_of_a_killed_process_is_never_used(tmp_path):
    place = tmp_path / "indexes" / "index"
    command = [sys.executable, "-c", INDEXER, str(place)]
    process = subprocess.Popen([*command, "60"], stdout=subprocess.PIPE, text=True)
    # PISA's own output is silenced at the level of the process, and "halfway" with it
    wait_for(lambda: list(tmp_path.rglob("*.part.*")), process, 10)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list(tmp_path.rglob("*.part.*"))  # left behind, under a name that nobody reads
    done = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "40"
    assert not list(tmp_path.rglob("*.part.*"))  # and cleared away by who builds the index


def test_two_processes_may_build_one_index(tmp_path):
    command = [sys.executable, "-c", INDEXER, str(tmp_path / "index"), "1"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = []
    readers = [
        threading.Thread(target=lambda p=p: outputs.append(p.communicate()[0])) for p in both
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [p.returncode for p in both] == [0, 0]
    assert [output.split()[-1] for output in outputs] == ["40", "40"]
    assert not list(tmp_path.rglob("*.part.*"))
