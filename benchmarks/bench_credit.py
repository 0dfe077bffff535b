"""How long credit takes: Shapley values and expected credit of a million rows, AE_D next to EE_D;
and CreditGap and AE_D of two known readers by the number of samples.

python benchmarks/bench_credit.py
"""

from __future__ import annotations

import time

import ir_measures
import numpy as np
import pandas as pd

from fairtk import EE_D
from fairtk.credit import shapley
from fairtk.frames import Credit, Run
from fairtk.measures import AE_D, CreditGap

QUERIES, SAMPLES, CUTOFF = 2000, 100, 5


def fastest(action, times=5):
    """Return the shortest of some runs, in seconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main():
    rng = np.random.default_rng(1)
    n = QUERIES * SAMPLES * CUTOFF
    query = np.repeat(np.arange(QUERIES), SAMPLES * CUTOFF)
    sample = np.tile(np.repeat(np.arange(SAMPLES), CUTOFF), QUERIES)
    rank = np.tile(np.arange(CUTOFF), QUERIES * SAMPLES)
    doc = np.argsort(rng.random((QUERIES * SAMPLES, 20)), axis=1)[:, :CUTOFF].ravel()
    frame = pd.DataFrame(
        {
            "qid": query.astype(str),
            "docno": [f"{q}-{d}" for q, d in zip(query.tolist(), doc.tolist(), strict=True)],
            "sample": sample,
            "rank": rank,
            "score": -rank.astype(float),
            "credit": rng.random(n),
        }
    )
    pairs = [(str(q), f"{q}-{d}", d % 2) for q in range(QUERIES) for d in range(20)]
    qrels = pd.DataFrame(pairs, columns=["qid", "docno", "label"])
    values = rng.random((QUERIES * SAMPLES, 1 << CUTOFF))
    print(f"shapley of {len(values):,} lists of {CUTOFF}: {fastest(lambda: shapley(values)):.2f} s")
    run = Run(frame, "bench")
    credit = Credit(run)  # ids are coded, as for every measure of a run
    print(f"expected credit of {n:,} rows: {fastest(lambda: credit.expected(True, 'zero')):.2f} s")
    print(f"checked from the frame, too: {fastest(lambda: whole(frame)):.2f} s")
    times = {
        str(m): fastest(lambda m=m: ir_measures.calc_aggregate([m], qrels, frame))
        for m in (EE_D @ CUTOFF, AE_D @ CUTOFF)
    }
    exposure, attributed = times.values()
    for name, seconds in times.items():
        print(f"{name}: {seconds:.2f} s")
    print(f"AE_D by EE_D: {attributed / exposure:.2f} (at most 1.5)")
    readers()


def readers(queries=400, documents=20):
    """Print plain and unbiased values of a reader in proportion to exposure, and of a first one.

    Each answer depends on one document: drawn with probability equal to its exposure share in the
    ranking, or the first. Rankings are drawn uniformly, so that the exact AE_D of both is 1 / 20
    and the exact CreditGap of both is 0.
    """
    rng = np.random.default_rng(7)
    measures = [m(estimator=e) @ CUTOFF for m in (AE_D, CreditGap) for e in ("plain", "unbiased")]
    print("reader, N: " + ", ".join(map(str, measures)))
    for reader in ("proportional", "first"):
        for n in (2, 10, 100):
            order = np.argsort(rng.random((queries * n, documents)), axis=1)[:, :CUTOFF]
            read = rng.integers(0, CUTOFF, queries * n) if reader == "proportional" else 0
            credit = np.zeros(order.shape)
            credit[np.arange(len(order)), read] = 1.0
            frame = pd.DataFrame(
                {
                    "qid": np.repeat(np.arange(queries), n * CUTOFF).astype(str),
                    "sample": np.tile(np.repeat(np.arange(n), CUTOFF), queries),
                    "docno": [f"d{d}" for d in order.ravel()],
                    "rank": np.tile(np.arange(CUTOFF), len(order)),
                    "credit": credit.ravel(),
                }
            )
            qrels = pd.DataFrame({"qid": np.arange(queries).astype(str), "docno": "d0", "label": 1})
            means = ir_measures.calc_aggregate(measures, qrels, frame)
            print(f"{reader:12} {n:3}: " + ", ".join(f"{means[m]:.4f}" for m in measures))


def whole(frame):
    Credit(Run(frame, "bench")).expected(True, "zero")


if __name__ == "__main__":
    main()
