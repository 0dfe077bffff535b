"""Everything but generation: sampling, measuring, storing.

    python benchmarks/bench_experiment.py [queries]

1,000 queries x 6 systems x 100 samples at cutoff 5, EE_D, EE_R and E(nDCG@5): fairtk.Experiment
without and with a store, a second run with all results stored, pt.Experiment for comparison, and
250 to 4,000 queries.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd
from sizes import scale

ALPHAS = (0, 0.5, 1, 2, 4, 8)
DOCUMENTS = scale(100, 20)


def world(n_queries: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return topics, a run and labels."""
    rng = np.random.default_rng(0)
    qids = np.array([f"q{i}" for i in range(n_queries)])
    rows = np.repeat(qids, DOCUMENTS)
    docs = np.char.add("d", rng.integers(0, 10**6, len(rows)).astype(str))
    run = pd.DataFrame({"qid": rows, "docno": docs, "score": rng.gamma(2, 1, len(rows))})
    run = run.drop_duplicates(["qid", "docno"], ignore_index=True)
    labels = run[["qid", "docno"]].assign(label=(rng.random(len(run)) < 0.1).astype(int))
    return pd.DataFrame({"qid": qids, "query": qids}), run, labels


def main(what: str, n_queries: int, folder: str) -> None:
    """Time one way in this process, and print seconds, those of the processor, and megabytes."""
    import pyterrier as pt
    from ir_measures import nDCG

    import fairtk
    from fairtk import EE_D, EE_R, E, FairSampler

    topics, run, labels = world(n_queries)
    retriever = pt.Transformer.from_df(run)
    systems = {f"alpha {a}": retriever >> FairSampler(alpha=a, cutoff=5) for a in ALPHAS}
    measures = [EE_D @ 5, EE_R @ 5, E(nDCG @ 5)]
    warnings.simplefilter("ignore")
    fairtk.Experiment(
        {"a": retriever >> FairSampler(n_samples=2, cutoff=5)}, topics.head(2), labels, measures
    )  # imports
    begin, worked = time.perf_counter(), time.process_time()
    if what == "pt":
        names = list(systems)
        pt.Experiment(
            list(systems.values()), topics, labels, measures, names, plan="tree", verbose=False
        )
    else:
        save_dir = None if what == "plain" else folder
        fairtk.Experiment(systems, topics, labels, measures, save_dir=save_dir)
    seconds, worked = time.perf_counter() - begin, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{seconds:.2f} {worked:.2f} {peak:.0f}")


def measured(what: str, n_queries: int, folder: str) -> list[float]:
    """Return seconds, those of the processor, and megabytes of one way in its own process."""
    call = [sys.executable, __file__, what, str(n_queries), folder]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def report(n_queries: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"{n_queries} queries x {len(ALPHAS)} systems x 100 samples at 5")
        for what, name in (
            ("pt", "pt.Experiment(plan='tree')"),
            ("plain", "fairtk.Experiment"),
            ("stored", "fairtk.Experiment, save_dir"),
            ("resumed", "... a second run"),
        ):
            seconds, worked, peak = measured(what, n_queries, folder)
            print(f"{name:28} {seconds:7.2f} s {worked:7.2f} s of work {peak:7.0f} MB")
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
        print(f"{'store':28} {size:7.0f} MB")
    print("seconds of work per 1,000 queries, the better of two:")
    for number in scale((250, 500, 1000, 2000, 4000), (5,)):
        _, worked, peak = min(
            (measured("plain", number, "") for _ in range(scale(2, 1))), key=itemgetter(1)
        )
        print(f"{number:6} {1000 * worked / number:7.2f} {peak:7.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        report(int(sys.argv[1]) if len(sys.argv) > 1 else scale(1000, 5))
