"""EE-D and EE-R against nDCG, the array kernel alone, memory, and the time to import fairtk.

Run manually: ``python benchmarks/bench_measures.py``. All numbers are ratios within one run.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import nDCG
from sizes import scale

from fairtk import EE_D, EE_R
from fairtk.exposure.browsing import MU
from fairtk.exposure.expected import RankWeights, expected_exposure, make_grades, values_and_bounds
from fairtk.measures import LabeledRun

QUERIES, REPEATS = scale((1000, 5), (4, 1))
SAMPLES, CUTOFF, CANDIDATES = 100, 5, 200


def frames() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return qrels, a sampled run and a plain run, the runs of 500,000 rows each."""
    rng = np.random.default_rng(0)
    names = np.array([f"q{q}/d{d}" for q in range(QUERIES) for d in range(500)], dtype=object)
    names = names.reshape(QUERIES, 500)
    qids = np.array([f"q{q}" for q in range(QUERIES)], dtype=object)
    qrels = pd.DataFrame(
        {
            "query_id": np.repeat(qids, CANDIDATES),
            "doc_id": names[:, :CANDIDATES].ravel(),
            "relevance": (rng.random(QUERIES * CANDIDATES) < 0.3).astype(int),
        }
    )
    picks = np.argsort(rng.random((QUERIES * SAMPLES, CANDIDATES)), axis=1)[:, :CUTOFF]
    query = np.repeat(np.arange(QUERIES), SAMPLES * CUTOFF)
    sampled = pd.DataFrame(
        {
            "query_id": qids[query],
            "doc_id": names[query, picks.ravel()],
            "score": np.tile(np.arange(CUTOFF, 0, -1.0), QUERIES * SAMPLES),
            "rank": np.tile(np.arange(CUTOFF), QUERIES * SAMPLES),
            "sample": np.tile(np.repeat(np.arange(SAMPLES), CUTOFF), QUERIES),
        }
    )
    plain = pd.DataFrame(
        {
            "query_id": np.repeat(qids, 500),
            "doc_id": names.ravel(),
            "score": rng.random(QUERIES * 500),
        }
    )
    return qrels, sampled, plain


def seconds(function: object, *args: object) -> float:
    """Return the median time of some calls."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function(*args)  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def import_seconds(code: str) -> float:
    """Return the median time of a fresh interpreter that runs the code, without its own start."""
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", timed], capture_output=True, check=True).stdout)
        for _ in range(REPEATS)
    ]
    return float(np.median(runs))


def main() -> None:
    """Print the ratios."""
    qrels, sampled, plain = frames()
    reference = seconds(ir_measures.calc_aggregate, [nDCG @ 5], qrels, plain)
    both = seconds(ir_measures.calc_aggregate, [EE_D @ 5, EE_R @ 5], qrels, sampled)
    judged = LabeledRun.of(qrels, sampled, "bench")
    ranked = judged.run
    grade = np.nan_to_num(judged.pair_label)
    n_samples = ranked.n_samples[ranked.query]

    def kernel() -> None:
        ranks = RankWeights.of(MU(), 5, 5)
        weight = ranks.attention(ranked, grade[judged.pair_of_row] > 0)
        exposure = expected_exposure(weight, judged.pair_of_row, judged.n_pairs, n_samples)
        n = np.bincount(judged.pair_query, minlength=QUERIES)
        grades = make_grades(judged.pair_query, grade, QUERIES, n)
        values_and_bounds(exposure, judged.pair_query, grades, ranks, 5, exact=False)

    alone = seconds(kernel)
    print(f"nDCG@5, plain run of {len(plain):,} rows: {reference:.3f} s")
    print(f"EE_D@5 + EE_R@5, sampled run of {len(sampled):,} rows: {both:.3f} s")
    print(f"  ratio {both / reference:.2f} (wanted: at most 0.3)")
    print(f"array kernel alone: {alone:.3f} s, ratio {alone / reference:.3f} (wanted: below 0.1)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of this process: {peak:.2f} GB (wanted: below 1.5)")
    base = import_seconds("import pandas, ir_measures, ir_datasets")
    ours = import_seconds("import fairtk")
    print(f"import fairtk: {ours:.3f} s, ratio {ours / base:.2f} (wanted: at most 1.2)")


if __name__ == "__main__":
    main()
