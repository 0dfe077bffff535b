"""FairSampler against the full Gumbel matrix. Run manually.

Prints ratios of times taken in one run. The baseline is what a straightforward implementation does
for every query: a full matrix of Gumbel noise, ``argpartition`` for the top, and a sort of it.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
from sizes import scale

from fairtk.exposure import draw_rankings, score_gaps
from fairtk.transformers.samplers import FairSampler, OracleSampler

CANDIDATES = scale(1000, 60)
SAMPLES = scale(100, 5)
CUTOFF = 5

Scores = npt.NDArray[np.float64]


def gumbel_matrix(
    weights: Scores, n_samples: int, cutoff: int, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return the top of one query's rankings, the straightforward way."""
    perturbed = weights + generator.gumbel(size=(n_samples, len(weights)))
    top = np.argpartition(-perturbed, cutoff, axis=1)[:, :cutoff]
    within = np.argsort(-np.take_along_axis(perturbed, top, axis=1), axis=1)
    return np.take_along_axis(top, within, axis=1)


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """Return the shortest of several wall-clock times in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def invented_scores(kind: str, n_queries: int, generator: np.random.Generator) -> Scores:
    """Return scores, descending within each query; shape (n_queries, CANDIDATES)."""
    shape = (n_queries, CANDIDATES)
    scores = {
        "uniform": generator.random,
        "normal": generator.standard_normal,
        "exponential": generator.standard_exponential,
    }[kind](shape)
    return -np.sort(-scores, axis=1)


def invented_run(scores: Scores, own_documents: bool) -> pd.DataFrame:
    """Return a run; every query has documents of its own, or all share one collection."""
    n_queries = len(scores)
    generator = np.random.default_rng(1)
    if own_documents:
        docnos = [f"q{q}/{d}" for q in range(n_queries) for d in range(CANDIDATES)]
    else:
        collection = np.array([f"d{d}" for d in range(50_000)], dtype=object)
        docnos = np.concatenate(
            [generator.choice(collection, CANDIDATES, replace=False) for _ in range(n_queries)]
        ).tolist()
    return pd.DataFrame(
        {
            "qid": np.repeat([f"q{q}" for q in range(n_queries)], CANDIDATES),
            "query": np.repeat([f"words of query {q}" for q in range(n_queries)], CANDIDATES),
            "docno": docnos,
            "score": scores.ravel(),
            "rank": np.tile(np.arange(CANDIDATES), n_queries),
        }
    )


def log_weights(scores: Scores, alpha: float) -> Scores:
    """Return scores scaled to [1, 2], to the power of alpha."""
    return (1 + (scores - scores.min()) / (scores.max() - scores.min())) ** alpha


def bench_kernel(n_queries: int) -> None:
    """Compare the kernels, gaps from scores included."""
    print(f"kernel: {CANDIDATES} candidates, N={SAMPLES}, cutoff {CUTOFF}, {n_queries} queries")
    generator = np.random.default_rng(0)
    start = np.arange(n_queries + 1) * CANDIDATES
    keys = [f"q{q}" for q in range(n_queries)]
    for kind in ("uniform", "normal", "exponential"):
        scores = invented_scores(kind, n_queries, generator)
        for alpha in (1, 2, 4, 8, 64):
            weights = [log_weights(row, alpha) for row in scores]

            def plain(weights: list[Scores] = weights) -> None:
                for row in weights:
                    gumbel_matrix(row, SAMPLES, CUTOFF, generator)

            def ours(scores: Scores = scores, alpha: int = alpha) -> None:
                gaps = score_gaps(scores.ravel(), start, alpha)
                draw_rankings(gaps, start, keys, SAMPLES, CUTOFF, 42)

            slow, fast = best_of(3, plain), best_of(3, ours)
            print(
                f"  {kind:<12} alpha {alpha:<3} per query: full matrix "
                f"{slow / n_queries * 1e3:6.3f} ms, fairtk {fast / n_queries * 1e3:6.3f} ms: "
                f"{slow / fast:5.1f} times"
            )


def bench_transform(n_queries: int) -> None:
    """Compare `transform`, frames included, with the baseline's kernel alone."""
    rows = n_queries * CANDIDATES
    print(f"transform: {n_queries} queries, {rows} rows, against the baseline's kernel alone")
    generator = np.random.default_rng(0)
    scores = invented_scores("normal", n_queries, generator)
    for alpha in (1, 4, 8):
        weights = [log_weights(row, alpha) for row in scores]
        slow = best_of(
            2, lambda w=weights: [gumbel_matrix(row, SAMPLES, CUTOFF, generator) for row in w]
        )
        for own_documents in (False, True):
            run = invented_run(scores, own_documents)
            sampler = FairSampler(alpha, SAMPLES, CUTOFF)
            fast = best_of(3, lambda s=sampler, r=run: s(r))
            kind = "own documents " if own_documents else "one collection"
            print(f"  alpha {alpha}, {kind}: {slow:.2f} s, {fast:.2f} s: {slow / fast:4.1f} times")
    run = invented_run(scores, own_documents=True)
    shuffled = run.sample(frac=1, random_state=0)
    qrels = run[["qid", "docno"]].iloc[::50].assign(label=1)
    others: list[tuple[str, Callable[[], pd.DataFrame]]] = [
        ("rows shuffled", lambda: FairSampler(1, SAMPLES, CUTOFF)(shuffled)),
        ("all scores equal", lambda: FairSampler(1, SAMPLES, CUTOFF)(run.assign(score=0.0))),
        ("n_samples=1, no cutoff", lambda: FairSampler(1, 1)(run)),
        ("OracleSampler", lambda: OracleSampler(qrels, SAMPLES, CUTOFF)(run)),
    ]
    for name, work in others:
        seconds = best_of(1, work)
        print(f"  {name}: {seconds:.2f} s for {len(work())} rows")


def main() -> None:
    """Run both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--queries", type=int, default=scale(1000, 3), help="queries of the transform part"
    )
    arguments = parser.parse_args()
    bench_kernel(min(100, arguments.queries))
    bench_transform(arguments.queries)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
