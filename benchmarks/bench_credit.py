"""How long credit takes: Shapley values and expected credit of a million rows, AE_D next to EE_D;
and CreditGap and AE_D of two known readers by the number of samples.

python benchmarks/bench_credit.py
"""

from __future__ import annotations

import time

import ir_measures
import numpy as np
import pandas as pd
from sizes import scale

from fairtk import EE_D
from fairtk.credit import AE_D, CreditGap, shapley
from fairtk.credit.frame import CreditShares
from fairtk.exposure import expected_attention
from fairtk.measures import LabeledRun

QUERIES, SAMPLES, CUTOFF = scale(2000, 20), scale(100, 5), 5
READER_QUERIES, TIMES = scale(400, 10), scale(5, 1)


def fastest(action, times=TIMES):
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
    judged = LabeledRun.of(qrels, frame, "bench")  # ids are coded, as for every measure of a run
    print(f"expected credit of {n:,} rows: {fastest(lambda: expected(judged)):.2f} s")
    from_frame = fastest(lambda: expected(LabeledRun.of(qrels, frame, "bench")))
    print(f"checked from the frame, too: {from_frame:.2f} s")
    times = {
        str(m): fastest(lambda m=m: ir_measures.calc_aggregate([m], qrels, frame))
        for m in (EE_D @ CUTOFF, AE_D @ CUTOFF)
    }
    exposure, attributed = times.values()
    for name, seconds in times.items():
        print(f"{name}: {seconds:.2f} s")
    print(f"AE_D by EE_D: {attributed / exposure:.2f} (at most 1.5)")
    readers()


def readers(queries=READER_QUERIES, documents=20):
    """Print plain and unbiased values of a proportional reader and of one that reads the first.

    Each answer depends on one document: drawn with probability equal to its exposure share in the
    ranking, or the first. Plackett-Luce draws the rankings, with the weight 1 / d for document d.
    The expected credit of the first reader's documents is the probability to be drawn first; that
    of the other reader's is their expected exposure share, so that its exact CreditGap is 0.
    """
    rng = np.random.default_rng(7)
    weight = 1 / np.arange(1, documents + 1)
    gaps = -np.diff(np.log(weight), prepend=0.0)
    exposure = expected_attention(gaps, np.array([0, documents]), np.full(CUTOFF, 1 / CUTOFF))
    expected = {"proportional": exposure, "first": weight / weight.sum()}
    measures = [m(estimator=e) @ CUTOFF for m in (AE_D, CreditGap) for e in ("plain", "unbiased")]
    qrels = pd.DataFrame({"qid": np.arange(queries).astype(str), "docno": "d0", "label": 1})
    print(f"\nmeans of {queries} queries, with their standard errors")
    print("| reader | N | " + " | ".join(f"{m.NAME} {m['estimator']}" for m in measures) + " |")
    print("| --- " * (2 + len(measures)) + "|")
    for reader, credited in expected.items():
        for n in (2, 10, 100):
            race = rng.exponential(size=(queries * n, documents)) / weight
            order = np.argsort(race, axis=1)[:, :CUTOFF]
            read = rng.integers(0, CUTOFF, len(order)) if reader == "proportional" else 0
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
            values = pd.DataFrame(
                [(str(m.measure), m.value) for m in ir_measures.iter_calc(measures, qrels, frame)],
                columns=["measure", "value"],
            ).groupby("measure")["value"]
            mean, error = values.mean(), values.sem()
            cells = " | ".join(f"{mean[str(m)]:.4f} ({error[str(m)]:.4f})" for m in measures)
            print(f"| {reader} | {n} | {cells} |")
        exact = ((credited**2).sum(), ((credited - exposure) ** 2).sum())
        cells = " | ".join(f"{value:.4f}" for value in np.repeat(exact, 2))
        print(f"| {reader} | exact | {cells} |")


def expected(judged):
    return CreditShares(judged, share=True, negative="zero").means


if __name__ == "__main__":
    main()
