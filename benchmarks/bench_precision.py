"""Sampled EE-D and EE-R against exact ones: bias, coverage of intervals, and the samplers' methods.

Run manually. The script repeats the sampling of all queries of a LaMP folder (by default the
packaged demo), all repetitions at once, and compares the first with `precision`. It prints, for
each alpha and number of samples,

* the exact mean, the mean error of the unbiased EE-D and of EE-R, and the error (1 - D) / N of the
  plain EE-D;
* how often the 95 % interval of the mean over the queries contains the exact mean, and that of a
  single query (Student's) the exact value;
* with --differences, how often the interval of `fairtk.compare(levels=True)` has the difference
  of alpha 2 and 1 for these queries, for runs of one seed and of two;
* with --methods, the variance of means with independent samples over that with stratified ones.

An earlier item is useful if its headline or tag shares a word with the gold answer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import norm, t
from sizes import scale

import fairtk
from fairtk import EE_D, EE_R, BM25Scorer, Candidates, FairSampler, PlackettLuceExposure, precision
from fairtk.analysis import Precision
from fairtk.datasets import lamp
from fairtk.exposure import draw_rankings, score_gaps
from fairtk.frames.columns import FloatArray, IntArray

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
        yield precision(qrels, rankings, list(MEASURES.values()))


def repeated(places: IntArray, worth: FloatArray, n_samples: int) -> dict[str, FloatArray]:
    """Return what one query has, by measure; shape (3, n_repetitions).

    These are values, their estimated variances, and those that a query's own error is made of.

    All repetitions at once, by the formulas of `fairtk.analysis.precision`.

    Args:
        places: documents of the rankings, `n_samples` for each repetition; shape (n, CUTOFF).
        worth: what each document adds to EE-R; shape (n_documents,).
        n_samples: of each repetition.
    """
    n, width = n_samples, places.shape[1]
    values = worth[places].sum(axis=1).reshape(-1, n)
    relevance = np.stack([values.mean(axis=1), values.var(axis=1, ddof=1) / n])
    parts, block = [], max(1, (1 << 22) // (n * len(worth)))
    groups = places.reshape(-1, n, width)
    for first in range(0, len(groups), block):
        own = groups[first : first + block]
        shown = np.zeros((len(own), n, len(worth)), dtype=np.float32)
        np.put_along_axis(shown, own, 1.0, axis=2)
        total = shown.sum(axis=1)
        # inner products with all other samples; those of pairs, squared, from documents' products
        inner = np.matmul(shown, total[:, :, None])[:, :, 0].astype(np.float64) - width
        squares = np.matmul(shown.transpose(0, 2, 1), shown).astype(np.float64)
        square = (squares**2).sum(axis=(1, 2)) - n * width**2
        pairs, triples = n * (n - 1), n * (n - 1) * (n - 2)
        whole = inner.sum(axis=1)
        mean = whole / pairs
        square -= pairs * mean**2
        chains = ((inner - (n - 1) * mean[:, None]) ** 2).sum(axis=1) - square
        variance = (4 * chains + 2 * square) / (triples * (n - 3))
        one, two = chains / triples + variance, square / pairs + variance
        of_mean = 2 * (2 * (n - 2) * one + two) / (n * (n - 1))
        floored = 2 * (2 * (n - 2) * np.maximum(one, 0) + np.maximum(two, 0)) / (n * (n - 1))
        parts.append(np.stack([mean / width, of_mean / width**2, floored / width**2]))
    disparity = np.concatenate(parts, axis=1)
    return {"EE-D": disparity, "EE-R": np.append(relevance, relevance[1:], axis=0)}


def simulated(
    run: pd.DataFrame, qrels: pd.DataFrame, alpha: float, sizes: list[tuple[int, int]]
) -> dict[tuple[str, int], FloatArray]:
    """Return values, variances and those of one query; by measure and size, (3, queries, reps)."""
    found: dict[tuple[str, int], list[FloatArray]] = {}
    most = max(n * repetitions for n, repetitions in sizes)
    labels = qrels.set_index(["qid", "docno"])["label"]
    for qid, own in run.groupby("qid", sort=False):
        own = own.sort_values(["score", "docno"], ascending=[False, True])
        gaps = score_gaps(own["score"].to_numpy(), np.array([0, len(own)]), alpha)
        draws = draw_rankings(gaps, np.array([0, len(own)]), [str(qid)], most, CUTOFF, 0)
        places = draws.row.reshape(most, CUTOFF)
        useful = labels.loc[qid].loc[own["docno"]].to_numpy() > 0
        m, n = int(useful.sum()), len(own)
        target = np.where(useful, min(1, CUTOFF / m), max(0, CUTOFF - m) / max(1, n - m))
        worth = target / (target**2).sum()
        for size, repetitions in sizes:
            values = repeated(places[: size * repetitions], worth, size)
            for name, value in values.items():
                found.setdefault((name, size), []).append(value)
    return {key: np.stack(parts, axis=1) for key, parts in found.items()}


def coverage(run: pd.DataFrame, qrels: pd.DataFrame, alphas: list[float], sizes: list[str]) -> None:
    """Print bias and coverage."""
    wanted = [(int(n), int(repetitions)) for n, repetitions in (s.split("x") for s in sizes)]
    qids = run["qid"].unique()
    print("alpha    N  reps measure  exact     bias  (1-D)/N  holds the mean  the query")
    for alpha in alphas:
        start = time.process_time()
        exposure = PlackettLuceExposure(alpha=alpha, cutoff=CUTOFF)(run)
        exact = fairtk.evaluate(qrels, {"exact": exposure}, list(MEASURES.values())).per_query
        found = simulated(run, qrels, alpha, wanted)
        spent = time.process_time() - start
        for n, repetitions in wanted:
            (same,) = drawn(run, qrels, alpha, n, 1)  # the first repetition, by the library
            for name, measure in MEASURES.items():
                text = fairtk.measures.format_measure(measure)
                rows = exact[exact["measure"] == text].set_index("qid")["value"]
                truth = rows[qids].to_numpy()[:, None]
                value, variance, of_query = found[name, n]
                step = (2 if name == "EE-D" else 1) / (n + 1)
                error = np.where(of_query > 1e-18 * step**2, np.sqrt(of_query), step)
                said = same.per_query[same.per_query["measure"] == text].set_index("qid")
                said = said.loc[qids, ["value", "error"]].to_numpy().T
                np.testing.assert_allclose([value[:, 0], error[:, 0]], said, atol=1e-6)
                away = value.mean(axis=0) - truth.mean()
                half = norm.ppf(0.975) * np.sqrt(np.maximum(variance.sum(axis=0), 0)) / len(qids)
                np.testing.assert_allclose(
                    half[0], same.means.set_index("measure")["half_width"][text], atol=1e-6
                )
                inside = (np.abs(away) <= half).mean()
                by_query = (np.abs(value - truth) <= t.ppf(0.975, n - 1) * error).mean()
                expected = (1 - truth.mean()) / n if name == "EE-D" else 0.0
                print(
                    f"{alpha:5g} {n:4d} {repetitions:5d} {name:7s} {truth.mean():.4f} "
                    f"{away.mean():+.5f} {expected:8.5f} {inside:14.1%} {by_query:10.1%}"
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
            shown = (
                ratio[fairtk.measures.format_measure(measure)] for measure in MEASURES.values()
            )
            print(
                f"{alpha:5g} {n_samples:4d}  " + "  ".join(f"{v:6.1f}" for v in shown), flush=True
            )


def differences(run: pd.DataFrame, qrels: pd.DataFrame, repetitions: int) -> None:
    """Print errors and coverage of differences, by measure, samples and seeds."""
    measures = {fairtk.measures.format_measure(m): m for m in MEASURES.values()}
    policies = {a: PlackettLuceExposure(alpha=a, cutoff=CUTOFF)(run) for a in (1, 2)}
    exact = fairtk.evaluate(qrels, policies, list(measures.values())).per_query
    means = exact.groupby(["measure", "system"])["value"].mean().unstack("system")
    print("seeds   N  measure  spread of differences  error_samples  holds the difference")
    for n_samples in (10, 30):
        for seeds in ("one", "two"):
            tables = []
            for seed in range(repetitions):
                runs = {
                    str(alpha): FairSampler(alpha, n_samples, CUTOFF, 2 * seed + apart)(run)
                    for alpha, apart in ((1, 0), (2, int(seeds == "two")))
                }
                table = fairtk.compare(qrels, runs, list(measures.values()), levels=True).table
                tables.append(table[table["run"] == "2"])
            for text, own in pd.concat(tables).groupby("measure"):
                truth = means["2"][text] - means["1"][text]
                inside = ((own["low_samples"] <= truth) & (truth <= own["high_samples"])).mean()
                error = np.sqrt((own["error_samples"] ** 2).mean())
                print(f"{seeds} {n_samples:4d}  {text}  {own['difference'].std():.4f}  {error:.4f}"
                      f"  {inside:.1%}", flush=True)  # fmt: skip


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="of LaMP-4 files; default: the packaged demo")
    parser.add_argument("--alphas", type=float, nargs="+", default=scale([1, 2, 4, 8], [1]))
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=scale(["10x2000", "100x2000", "1000x200"], ["10x3"]),
        help="samples x reps",
    )
    parser.add_argument("--methods", type=int, default=0, metavar="REPETITIONS")
    parser.add_argument("--differences", type=int, default=0, metavar="REPETITIONS")
    options = parser.parse_args()
    run, qrels = load(options.folder)
    print(f"{run['qid'].nunique()} queries, {len(run)} candidates, {qrels['label'].sum()} useful")
    if options.differences:
        differences(run, qrels, options.differences)
    elif options.methods:
        methods(run, qrels, options.alphas, options.methods)
    else:
        coverage(run, qrels, options.alphas, options.sizes)


if __name__ == "__main__":
    main()
