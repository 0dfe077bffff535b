"""Memory and seconds per row of an experiment with very many queries.

    python benchmarks/bench_many_queries.py [queries]

100,000 queries x 100 rows, and 1,000 queries x 100 rows for comparison, each in its own process.
Half of the documents have no group. `fairtk.Experiment` measures EE_D@10 and AWRF@10 of one run,
given as a frame. Seconds are those of the processor. Memory is the peak above that of the imports
and the input. Both should grow in proportion to the rows, at most: the last line has the ratios.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pandas as pd
import psutil
from sizes import scale

QUERIES = scale(100_000, 40)
BASELINE = scale(1_000, 20)
ROWS = 100
DOCUMENTS = scale(1_000_000, 2_000)
INTERVAL = 0.005


def world(n_queries: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return a run, labels, and groups of half of the documents."""
    rng = np.random.default_rng(0)
    docnos = np.char.add("d", np.arange(DOCUMENTS).astype(str)).astype(object)
    # a random start and distinct steps, so that no query has a document twice
    steps = np.arange(ROWS) * (DOCUMENTS // ROWS)
    documents = (rng.integers(0, DOCUMENTS, (n_queries, 1)) + steps).ravel() % DOCUMENTS
    qids = np.char.add("q", np.arange(n_queries).astype(str)).astype(object)
    run = pd.DataFrame({"qid": np.repeat(qids, ROWS), "docno": docnos[documents]})
    labels = run.assign(label=(rng.random(len(run)) < 0.1).astype(np.int64))
    run["score"] = rng.random(len(run))
    groups = pd.DataFrame({"docno": docnos[::2], "group": rng.choice(["a", "b"], DOCUMENTS // 2)})
    return run, labels, groups


class Peak(threading.Thread):
    """The largest resident memory of this process while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.process, self.ended = psutil.Process(), threading.Event()
        self.before = self.largest = self.process.memory_info().rss

    def run(self) -> None:
        while not self.ended.wait(INTERVAL):
            self.largest = max(self.largest, self.process.memory_info().rss)

    def above(self) -> float:
        """End, and return the megabytes above those of the start."""
        self.ended.set()
        self.join()
        return (self.largest - self.before) / 2**20


def main(n_queries: int) -> None:
    """Measure in this process; print seconds, and megabytes of the input and above it."""
    import fairtk
    from fairtk import AWRF, EE_D, Groups

    warnings.simplefilter("ignore")
    run, labels, memberships = world(n_queries)
    groups = Groups.from_frame(memberships, name="bench")
    measures = [EE_D @ 10, AWRF(groups=groups, target="uniform") @ 10]
    first = run["qid"].isin(["q0", "q1"])
    fairtk.Experiment({"run": run[first]}, None, labels[first], measures)  # imports
    data = sum(frame.memory_usage(deep=True).sum() for frame in (run, labels)) / 2**20
    peak = Peak()
    peak.start()
    begin = time.process_time()
    fairtk.Experiment({"run": run}, None, labels, measures)
    print(f"{time.process_time() - begin:.3f} {data:.1f} {peak.above():.1f}")


def report(n_queries: int) -> None:
    """Print the table and the ratios."""
    outcomes = {}
    for number in (BASELINE, n_queries):
        call = [sys.executable, __file__, "--one", str(number)]
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
        seconds, data, above = map(float, done.stdout.split())
        rows = number * ROWS
        outcomes[number] = seconds / rows, above / rows
        print(
            f"{number:7,} queries, {rows:10,} rows: {seconds:8.2f} s ({1e6 * seconds / rows:6.2f} "
            f"us per row), {above:8.0f} MB above {data:.0f} MB of input "
            f"({2**20 * above / rows:6.0f} bytes per row)",
            flush=True,
        )
    (time_before, memory_before), (time_after, memory_after) = outcomes.values()
    print(
        f"per row, {n_queries:,} queries against {BASELINE:,}: "
        f"{time_after / time_before:.2f} times the seconds, "
        f"{memory_after / max(memory_before, 1e-9):.2f} times the memory"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        main(int(sys.argv[2]))
    else:
        report(int(sys.argv[1]) if len(sys.argv) > 1 else QUERIES)
