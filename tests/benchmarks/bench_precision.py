"""Sampled EE-D and EE-R against exact ones: bias, coverage of intervals, and the samplers' methods.

A script to run by hand. It repeats the sampling of all queries of a LaMP folder (by default the
packaged demo) with one seed after the other. It prints, for each alpha and number of samples,

* the exact mean, the mean error of the unbiased EE-D and of EE-R, and what (1 - D) / N says of the
  plain EE-D;
* how often the 95 % interval of the mean over the queries holds the exact mean, and that of a
  single query (Student's) the exact value;
* with --methods, the variance of means with independent samples over that with stratified ones.

Useful are earlier items whose headline or tag shares a word with the wanted one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import pandas as pd
from scipy.stats import t

import fairtk
from fairtk import EE_D, EE_R, BM25Scorer, Candidates, FairSampler, PlackettLuceExposure, precision
from fairtk.certainty import Precision
from fairtk.datasets import lamp

CUTOFF = 5
MEASURES = {"EE-D": EE_D(estimator="unbiased") @ CUTOFF, "EE-R": EE_R @ CUTOFF}


def load(folder: str | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return BM25's run and labels of the queries that have a useful item."""
    task = 4 if folder else 2
    dataset = lamp.from_folder(folder, task=task) if folder else fairtk.demo.load().dataset
    topics = pd.DataFrame(dataset.queries_iter()).rename(columns={"query_id": "qid"})
    gold = topics.set_index("qid")["gold_answer"]
    candidates = Candidates(dataset)(topics.drop(columns="gold_answer"))
    run = BM25Scorer()(candidates)
    field = "title" if folder else "tag"
    words = [set(str(text).lower().split()) for text in run[field]]
    wanted = {qid: {w for w in text.lower().split() if len(w) > 1} for qid, text in gold.items()}
    label = [int(bool(own & wanted[qid])) for own, qid in zip(words, run["qid"], strict=True)]
    qrels = run[["qid", "docno"]].assign(label=label)
    useful = qrels.groupby("qid")["label"].transform("sum")
    small = run.groupby("qid")["docno"].transform("size") <= CUTOFF
    kept = (useful > 0).to_numpy() & ~small.to_numpy()
    return run[kept][["qid", "docno", "score"]], qrels[kept]


def drawn(
    run: pd.DataFrame, qrels: pd.DataFrame, alpha: float, n_samples: int, repetitions: int,
    method: str = "independent",
) -> Iterator[Precision]:  # fmt: skip
    """Yield what each repetition, a seed, gives."""
    for seed in range(repetitions):
        rankings = FairSampler(alpha, n_samples, CUTOFF, seed, method)(run)
        yield precision(rankings, qrels, list(MEASURES.values()))


def coverage(run: pd.DataFrame, qrels: pd.DataFrame, alphas: list[float], sizes: list[str]) -> None:
    """Print bias and coverage."""
    print("alpha    N  reps measure  exact     bias  (1-D)/N  holds the mean  the query")
    for alpha in alphas:
        exposure = PlackettLuceExposure(alpha=alpha, cutoff=CUTOFF)(run)
        exact = fairtk.evaluate(qrels, {"exact": exposure}, list(MEASURES.values())).per_query
        for size in sizes:
            n_samples, repetitions = map(int, size.split("x"))
            start = time.process_time()
            found = list(drawn(run, qrels, alpha, n_samples, repetitions))
            spent = time.process_time() - start
            factor = t.ppf(0.975, n_samples - 1)
            for name, measure in MEASURES.items():
                text = fairtk.measures.written(measure)
                truth = exact[exact["measure"] == text].set_index("qid")["value"]
                means = pd.concat([f.means[f.means["measure"] == text] for f in found])
                away = means["value"] - truth.mean()
                inside = (away.abs() <= means["half_width"] + 1e-12).mean()
                queries = pd.concat([f.per_query[f.per_query["measure"] == text] for f in found])
                far = (queries["value"] - queries["qid"].map(truth)).abs()
                by_query = (far <= factor * queries["error"] + 1e-12).mean()
                said = (1 - truth.mean()) / n_samples if name == "EE-D" else 0.0
                print(
                    f"{alpha:5g} {n_samples:4d} {repetitions:5d} {name:7s} {truth.mean():.4f} "
                    f"{away.mean():+.5f} {said:8.5f} {inside:14.1%} {by_query:10.1%}"
                    f"   ({len(truth)} queries, {spent:.0f} s)",
                    flush=True,
                )


def methods(run: pd.DataFrame, qrels: pd.DataFrame, alphas: list[float], repetitions: int) -> None:
    """Print how much less means over stratified samples vary, summed over the queries."""
    print("alpha    N  variance of independent / stratified samples: EE-D (plain)  EE-R")
    for alpha in alphas:
        for n_samples in (10, 100):
            spread = {}
            for method in ("independent", "stratified"):
                found = drawn(run, qrels, alpha, n_samples, repetitions, method)
                # the plain EE-D is the unbiased one times (N - 1) / N and a constant
                table = pd.concat([one.per_query for one in found])
                variances = table.groupby(["measure", "qid"])["value"].var()
                spread[method] = variances.groupby(level="measure").sum()
            ratio = spread["independent"] / spread["stratified"]
            shown = (ratio[fairtk.measures.written(measure)] for measure in MEASURES.values())
            print(
                f"{alpha:5g} {n_samples:4d}  " + "  ".join(f"{v:6.1f}" for v in shown), flush=True
            )


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="of LaMP-4 files; default: the packaged demo")
    parser.add_argument("--alphas", type=float, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--sizes", nargs="+", default=["10x200", "100x200"], help="samples x reps")
    parser.add_argument("--methods", type=int, default=0, metavar="REPETITIONS")
    options = parser.parse_args()
    run, qrels = load(options.folder)
    print(f"{run['qid'].nunique()} queries, {len(run)} candidates, {qrels['label'].sum()} useful")
    if options.methods:
        methods(run, qrels, options.alphas, options.methods)
    else:
        coverage(run, qrels, options.alphas, options.sizes)


if __name__ == "__main__":
    main()
