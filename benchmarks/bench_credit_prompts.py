"""The number of prompts for exact Shapley values of credit, if equal prompts are sent once.

    python benchmarks/bench_credit_prompts.py [FOLDER --task 4]

FOLDER has LaMP's files; the default is the packaged collection. No model is needed: a prompt is a
query and an ordered list of documents.
Per alpha: the lists of all subsets of all sampled rankings (naive), the distinct lists, and those
that no smaller alpha has.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairtk_papers.fair_rag.credit import list_subsets
from sizes import scale

from fairtk import BM25Scorer, Candidates, FairSampler, demo
from fairtk.datasets import get_topics, lamp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=demo.collection_folder())
    parser.add_argument("--task", type=int, default=2)
    parser.add_argument("--samples", type=int, default=scale(100, 2))
    parser.add_argument("--cutoff", type=int, default=5)
    parser.add_argument("--alphas", type=float, nargs="+", default=[1, 2, 4, 8])
    args = parser.parse_args()
    dataset = lamp.from_folder(args.folder, task=args.task)
    run = BM25Scorer()(Candidates(dataset)(get_topics(dataset)))
    print(f"{run['qid'].nunique()} queries, {args.samples} samples, k = {args.cutoff}")
    asked: set[tuple[str, tuple[str, ...]]] = set()
    naive = 0
    for alpha in args.alphas:
        sampler = FairSampler(alpha=alpha, n_samples=args.samples, cutoff=args.cutoff)
        sampled = sampler(run).sort_values("rank")
        rankings = sampled.groupby(["qid", "sample"])["docno"].agg(tuple)
        qids = rankings.index.get_level_values("qid")
        lists = sum(1 << len(docnos) for docnos in rankings)
        own = list_subsets(zip(qids, rankings, strict=True), "shapley")
        new = len(own - asked)
        asked |= own
        naive += lists
        print(
            f"alpha {alpha:g}: {lists:,} lists, {len(own):,} differ ({len(own) / lists:.3f}), "
            f"{new:,} of them new ({new / lists:.3f})"
        )
    print(f"together: {naive:,} lists, {len(asked):,} prompts ({len(asked) / naive:.3f})")


if __name__ == "__main__":
    main()
