"""An experiment that is killed again and again ends with the bytes of one that was not.

Its scheduler and workers end with it.
"""

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

import pandas as pd
import pytest

pytest.importorskip("torch")
psutil = pytest.importorskip("psutil")

# sizes that the gate has time for; by hand 66 queries, 100 samples and 20 kills
QUERIES = int(os.environ.get("FAIRTK_KILL_QUERIES", "12"))
SAMPLES = int(os.environ.get("FAIRTK_KILL_SAMPLES", "10"))
KILLS = int(os.environ.get("FAIRTK_KILLS", "4"))

SCRIPT = """
import sys, time
from pathlib import Path
import fairtk
from fairtk import BM25Scorer, Candidates, FairSampler, FlanT5, OracleSampler, demo
from fairtk import EE_D, EE_R, EU, E
from ir_measures import nDCG

folder, executor, queries, samples = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
data = demo.load()
useful = data.qrels.groupby("qid", sort=False)["label"].max()
qids = useful.index[useful > 0][:queries]
topics = data.topics[data.topics["qid"].isin(qids)].drop(columns="gold_answer")
qrels = data.qrels[data.qrels["qid"].isin(qids)]
scored = Candidates(data.dataset) >> BM25Scorer()
answer = FlanT5(
    model=demo.model_folder(), prompt="lamp-2", cutoff=5, device="cpu", max_new_tokens=8,
    batch_tokens=4096,
)
systems = {
    f"alpha {a}": scored >> FairSampler(alpha=a, n_samples=samples, cutoff=5) >> answer
    for a in (0, 1, 2, 4, 8)
}
systems["oracle"] = scored >> OracleSampler(qrels, n_samples=samples, cutoff=5) >> answer
systems["deterministic"] = scored % 5 >> answer
results = fairtk.Experiment(
    systems, topics, qrels, [EE_D@5, EE_R@5, E(nDCG@5), EU(utility="accuracy")],
    save_dir=folder + "/store", executor=executor, threads=1, batch_size=6,
    workers=None if executor == "serial" else 2,
)
if len(sys.argv) > 5:  # this run is to be killed, however late that comes
    Path(sys.argv[5]).touch()
    time.sleep(3600)
results.save(folder + "/results")
"""


def start(folder, executor, *waiting):
    """Start it; a file that is named appears when all is done, and then it waits to be killed."""
    numbers = [str(QUERIES), str(SAMPLES)]
    call = [sys.executable, "-c", SCRIPT, str(folder), executor, *numbers, *map(str, waiting)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        call, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def hashes(folder):
    """Return the sha256 of every table's rows: Parquet's own bytes hold versions and more."""
    tables = {}
    for path in sorted((folder / "results").rglob("*.parquet")):
        rows = pd.read_parquet(path).to_csv(index=False).encode()
        tables[str(path.relative_to(folder))] = hashlib.sha256(rows).hexdigest()
    return tables


def commits(folder):
    """Return how many results and answers are committed."""
    path = folder / "store" / "experiment.sqlite"
    statement = "SELECT (SELECT count(*) FROM cells) + (SELECT count(*) FROM answers)"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(statement).fetchone()[0]
    except sqlite3.Error:  # not made yet
        return 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the tables of a run that nobody disturbed, and its number of commits."""
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder, "serial").wait() == 0
    return hashes(folder), commits(folder)


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param("serial", marks=pytest.mark.slow),
        pytest.param("processes", marks=pytest.mark.nightly),
        pytest.param("dask", marks=pytest.mark.nightly),
    ],
)
def test_killed_and_resumed_it_gives_the_same_bytes(whole, tmp_path, executor):
    if executor == "dask":
        pytest.importorskip("distributed")
    expected, total = whole
    assert len(expected) == 7 + 5  # rankings; answers, failures, means, qrels, values
    rng = random.Random(executor)
    kills = []
    # each after a commit of its own
    for point in sorted(rng.uniform(0, 0.8 * total) for _ in range(KILLS)):
        before, waiting = commits(tmp_path), tmp_path / f"waits for kill {len(kills)}"
        process = start(tmp_path, executor, waiting)
        try:
            while commits(tmp_path) < max(point, before + 1) and not waiting.exists():
                assert process.poll() is None, "it ended before it was killed"
                time.sleep(0.01)
            if executor != "serial":
                kill_a_worker(process.pid, rng)
            time.sleep(rng.uniform(0, 0.2))
            children = psutil.Process(process.pid).children(recursive=True)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills.append(commits(tmp_path))
        assert not psutil.wait_procs(children, timeout=300)[1]
    print(f"commits at each of {len(kills)} kills: {kills}; all need {total}")
    assert start(tmp_path, executor).wait() == 0
    assert hashes(tmp_path) == expected


def kill_a_worker(parent, rng):
    """Kill one of the processes under another."""
    children = psutil.Process(parent).children(recursive=True)
    if children:
        with suppress(psutil.NoSuchProcess):  # it has ended since
            rng.choice(children).kill()
