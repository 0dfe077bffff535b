"""Speed of the measure AWRF as users call it, against pytrec_eval's nDCG: ratios in one run.

    python benchmarks/bench_awrf.py

50 topics x 27 runs x 500 documents (675,000 rows), one attribute of 21 levels over 6.5 million
documents in memory. Both go through ``ir_measures.evaluator(...).iter_calc(run)`` on the same
frames, one evaluator for all runs. Invented data.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import sys
import time
import warnings

import ir_measures
import numpy as np
import pandas as pd
from bench_groups import WORLD, attribute, ids, run_of
from ir_measures import nDCG
from sizes import scale

from fairtk import AWRF, Target

TOPICS, RUNS, REPEATS = scale((50, 27, 3), (3, 2, 1))
DEPTH, DOCUMENTS, POOL = scale((500, 6_500_000, 40_000), (400, 5_000, 2_000))
NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}


def seconds(evaluator: object, frames: list[pd.DataFrame]) -> float:
    """Return the time to measure all runs."""
    begin = time.perf_counter()
    for frame in frames:
        list(evaluator.iter_calc(frame))  # type: ignore[attr-defined]
    return time.perf_counter() - begin


def main() -> None:
    """Print the ratio; with ``--profile``, where the time goes."""
    rng = np.random.default_rng(8)
    docnos = ids(DOCUMENTS, rng)
    groups = attribute("sub-geo", docnos, rng)
    pool = docnos[rng.choice(DOCUMENTS, POOL, replace=False)].astype(str).astype(object)
    frames = [run_of(pool, TOPICS, DEPTH, rng).rename(columns=NAMES) for _ in range(RUNS)]
    qrels = run_of(pool, TOPICS, 300, rng)[["qid", "docno"]].assign(label=1)
    target = Target.from_qrels(qrels, groups, WORLD)
    labels = qrels.rename(columns=NAMES)
    begin = time.perf_counter()
    measure = AWRF(groups=groups, target=target) @ DEPTH
    print(f"{groups!r}; {measure!r} made in {time.perf_counter() - begin:.2f} s (digests, once)")
    evaluators = {
        "AWRF": ir_measures.evaluator([measure], labels),
        "nDCG": ir_measures.pytrec_eval.evaluator([nDCG @ DEPTH], labels),
    }
    for evaluator in evaluators.values():
        seconds(evaluator, frames[:1])  # warm up
    if "--profile" in sys.argv:
        profile = cProfile.Profile()
        profile.runcall(seconds, evaluators["AWRF"], frames)
        pstats.Stats(profile).sort_stats("tottime").print_stats(18)
    times: dict[str, list[float]] = {name: [] for name in evaluators}
    for _ in range(REPEATS):
        for name, evaluator in evaluators.items():
            times[name].append(seconds(evaluator, frames))
    ours, theirs = (float(np.median(times[name])) for name in ("AWRF", "nDCG"))
    rows = sum(map(len, frames))
    print(f"{rows:,} rows: AWRF@{DEPTH} {ours:.2f} s, pytrec_eval's nDCG@{DEPTH} {theirs:.2f} s")
    print(f"  ratio {ours / theirs:.2f} (must be 1 or less)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  peak memory, with making the data: {peak:.1f} GB")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
