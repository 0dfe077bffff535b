"""The values of a study's table at the size of TREC Fair Ranking 2022: 2.7 million labels.

Run manually: ``python benchmarks/bench_study_tables.py``. Eight runs, the three measures of
FAIR-QR's Table 1. Reading the labels once, as one measure of one run must, is the yardstick.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from fairtk_papers.fair_qr.values import measures, summary
from sizes import scale

from fairtk.experiment import Experiment
from fairtk.groups import Groups, Target

QUERIES, LABELS, PAGES, RUNS, DEPTH = scale((47, 57_500, 600_000, 8, 500), (3, 500, 2_000, 2, 500))


def frames() -> tuple[pd.DataFrame, dict[str, pd.DataFrame], pd.DataFrame]:
    """Return qrels, runs by name and the groups of all pages."""
    rng = np.random.default_rng(0)
    pages = (10_000 + np.arange(PAGES)).astype(str).astype(object)
    qids = np.arange(1, QUERIES + 1).astype(str).astype(object)
    judged = [rng.choice(PAGES, LABELS, replace=False) for _ in qids]
    qrels = pd.DataFrame(
        {
            "qid": np.repeat(qids, LABELS),
            "docno": pages[np.concatenate(judged)],
            "label": 1,
        }
    )
    runs = {}
    for number in range(RUNS):
        ranked = []
        for own in judged:
            found = np.concatenate([rng.choice(own, 350, False), rng.choice(PAGES, 250, False)])
            ranked.append(pd.unique(rng.permutation(found))[:DEPTH])
        runs[f"system {number}"] = pd.DataFrame(
            {
                "qid": np.repeat(qids, DEPTH),
                "docno": pages[np.concatenate(ranked)],
                "score": np.tile(np.arange(DEPTH, 0, -1.0), QUERIES),
                "rank": np.tile(np.arange(DEPTH), QUERIES),
            }
        )
    groups = pd.DataFrame({"docno": pages, "group": rng.choice(list("abcdefg"), PAGES)})
    return qrels, runs, groups


def main() -> None:
    """Print the seconds and their ratio to those of encoding the labels once."""
    from fairtk.frames import Qrels

    qrels, runs, pages = frames()
    groups = Groups.from_frame(pages, name="region")
    target = Target.from_qrels(qrels, groups)
    topics = pd.DataFrame({"qid": qrels["qid"].unique(), "query": "a query"})
    start = time.perf_counter()
    Qrels(qrels, "bench")
    once = time.perf_counter() - start
    print(f"{len(qrels):,} labels, encoded once: {once:.1f} s")
    for ndcg in ("trec_eval", "TREC"):
        asked = measures(groups, target, 20, ndcg)
        start, used = time.perf_counter(), time.process_time()
        results = Experiment(runs, topics, qrels, asked.values(), warn=False)
        names = dict(zip(results.measures, asked, strict=True))
        values = results.per_query.assign(measure=results.per_query["measure"].map(names))
        summary(values, {name: set() for name in runs}, "holm")
        took, used = time.perf_counter() - start, time.process_time() - used
        means = values.groupby("measure")["value"].mean()
        print(f"{RUNS} runs x {len(asked)} measures, nDCG of {ndcg}: {took:.1f} s", end="")
        print(f" ({used:.1f} s of one core)", end="; ")
        print(f"{took / once:.1f} times (wanted: below 20 s); checksum {means.sum():.9f}")


if __name__ == "__main__":
    main()
