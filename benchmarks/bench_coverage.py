"""Coverage of fairtk's intervals, and the error rate of its tests.

A script to run manually; it prints the table of docs/concepts/certain.md. Five laws of per-query
differences, 10, 30 and 100 queries, 95 % intervals. Coverage is over the samples that have an
interval; a column has the share without one. "rejects" is the share of p-values below .05 where the
true mean difference is 0.

    python benchmarks/bench_coverage.py [--runs 2000] [--curves 500]
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from fairtk_papers.fair_rag.figures import correlation
from sizes import scale

from fairtk.credit.amortized import drawn_weights, percentiles
from fairtk.statistics import curve_values, paired_test

SIZES = (10, 30, 100)
INTERVALS = {
    "t": "mean: Student's t (also the t-test)",
    "randomization": "mean: inverted randomization test",
    "percentile": "mean: percentile bootstrap (only `frontier`, `fairtk.credit`)",
    "wilcoxon": "pseudomedian: Wilcoxon",
}
Law = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def few(mean: float) -> Law:
    """Return a law of which 15 % differ, by N(mean, 1)."""
    return lambda rng, size: np.where(rng.random(size) < 0.15, rng.normal(mean, 1, size), 0.0)


LAWS: dict[str, tuple[Law, float]] = {  # and the true mean
    "normal": (lambda rng, size: rng.normal(0, 1, size), 0.0),
    "15 % differ, N(0, 1)": (few(0), 0.0),
    "15 % differ, N(1, 1)": (few(1), 0.15),
    "exponential - 1": (lambda rng, size: rng.exponential(1, size) - 1, 0.0),
    "lognormal - its mean": (lambda rng, size: rng.lognormal(0, 1, size) - math.exp(0.5), 0.0),
}


def pseudomedian(law: Law, draws: int = scale(4_000_000, 4_000)) -> float:
    """Return the median of the mean of two independent differences other than 0."""
    rng = np.random.default_rng(1)
    values = law(rng, (2, draws))
    values = [row[row != 0] for row in values]
    size = min(map(len, values))
    return float(np.median((values[0][:size] + values[1][:size]) / 2))


def tests(runs: int, resamples: int) -> Iterator[tuple[str, str, int, float, float, float]]:
    """Yield test, law, queries, coverage, share without an interval, share of rejections."""
    for name, (law, mean) in LAWS.items():
        truths = {"mean": mean, "pseudomedian": pseudomedian(law)}
        for test in ("t", "randomization", "wilcoxon"):
            for n in SIZES:
                rows = law(np.random.default_rng(n), (runs, n))
                none = np.zeros(n)
                results = [
                    paired_test(row, none, test, resamples=resamples, seed=seed)
                    for seed, row in enumerate(rows)
                ]
                ends = np.array([[r.low, r.high] for r in results])
                defined = ~np.isnan(ends[:, 0])
                truth = truths[results[0].estimand]
                inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
                rejected = np.mean([r.p < 0.05 for r in results])  # NaN is no rejection
                coverage = float(inside[defined].mean()) if defined.any() else math.nan
                yield test, name, n, coverage, float((~defined).mean()), float(rejected)


def bootstrap(runs: int, resamples: int) -> Iterator[tuple[str, str, int, float, float, float]]:
    """Yield the same of percentile intervals of means, which have no test."""
    for name, (law, mean) in LAWS.items():
        for n in SIZES:
            rows = law(np.random.default_rng(n), (runs, n))
            low, high = percentiles(drawn_weights(n, resamples, seed=n) @ rows.T / n, 0.95)
            defined = low < high  # where no query differs, there is no interval
            inside = (low <= mean) & (mean <= high)
            coverage, none = float(inside[defined].mean()), float((~defined).mean())
            yield "percentile", name, n, coverage, none, math.nan


def curves(runs: int, resamples: int) -> Iterator[tuple[str, int, float, float]]:
    """Yield statistic, queries, coverage and share without an interval, of trade-off curves.

    Four policies; each query has its own level of quality, and noise at each policy. The ratio is
    of the mean heights at the first and the last policy, the correlation that of all points.
    """
    x_mean = np.array([0.2, 0.4, 0.6, 0.9])
    y_mean = np.array([0.3, 0.5, 0.6, 0.65])

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        level = rng.normal(0, 0.05, (n, 1))
        x = np.clip(x_mean + rng.normal(0, 0.05, (n, 4)), 0, 1)
        return x, y_mean + level + 0.1 * (rng.exponential(1, (n, 4)) - 1)

    def intervals(
        x: np.ndarray, y: np.ndarray, resamples: int, seed: int
    ) -> dict[str, tuple[float, float, float]]:
        """Return each statistic with the ends of its interval."""
        curves_of = curve_values(x, y, resamples=resamples, seed=seed)
        result = {name: (v.value, v.low, v.high) for name, v in curves_of.items()}
        weight = drawn_weights(len(x), resamples, seed)
        low, high = percentiles(weight @ y[:, 0] / (weight @ y[:, 3]), 0.95)
        result["ratio of means"] = float(y[:, 0].mean() / y[:, 3].mean()), float(low), float(high)
        qids = pd.Index(np.repeat(np.arange(len(x)), 4), name="qid")
        wide = pd.DataFrame({"x": x.ravel(), "y": y.ravel()}, qids)
        result["correlation"] = correlation(wide, "x", "y", resamples, seed)
        return result

    truth = {
        k: v[0]
        for k, v in intervals(*draw(np.random.default_rng(0), scale(200_000, 200)), 2, 0).items()
    }
    for n in SIZES:
        rng = np.random.default_rng(n)
        values = [intervals(*draw(rng, n), resamples, seed) for seed in range(runs)]
        for name, value in truth.items():
            ends = np.array([f[name][1:] for f in values])
            defined = ~np.isnan(ends[:, 0])
            inside = (ends[:, 0] <= value) & (value <= ends[:, 1])
            yield name, n, float(inside[defined].mean()), float((~defined).mean())


def decimals(value: float, digits: int) -> str:
    """Return a number without the 0 in front of the point; empty for NaN."""
    return "" if math.isnan(value) else f"{value:.{digits}f}".removeprefix("0")


def main() -> None:
    """Simulate and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=scale(2000, 3))
    parser.add_argument("--curves", type=int, default=scale(500, 2), help="runs of curves")
    parser.add_argument("--resamples", type=int, default=scale(1999, 39))
    options = parser.parse_args()
    print("| interval | distribution | n = 10 | n = 30 | n = 100 | ", end="")
    print("no interval (n = 10, 30, 100) | ", end="")
    print("rejects a true mean of 0, n = 100 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for test, law, _, *cells in itertools.chain(
        tests(options.runs, options.resamples), bootstrap(options.runs, options.resamples)
    ):
        rejected = cells.pop() if LAWS[law][1] == 0 else math.nan
        rows.setdefault((INTERVALS[test], law), []).append((*cells[:2], rejected))
    for name, _, coverage, none in curves(options.curves, options.resamples):
        key = (f"percentile bootstrap: {name}", "curves")
        rows.setdefault(key, []).append((coverage, none, math.nan))
    first = [*INTERVALS.values()]
    for (interval, law), row in sorted(
        rows.items(), key=lambda item: first.index(item[0][0]) if item[0][0] in first else 9
    ):
        covered = " | ".join(decimals(c, 3) for c, _, _ in row)
        missing = ", ".join(decimals(n, 2) for _, n, _ in row)
        print(f"| {interval} | {law} | {covered} | {missing} | {decimals(row[-1][2], 3)} |")


if __name__ == "__main__":
    main()
