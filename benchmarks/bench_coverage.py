"""Coverage of fairtk's intervals, and the error rate of its tests.

A script to run manually; it prints the tables of docs/concepts/certain.md. The first table has 95 %
intervals for 5, 10, 30 and 100 queries. Coverage is over the samples that have an interval; a
column has the share of the others. "rejects" is the share of p-values below .05 where the true mean
difference is 0. The second table has statistics that chance alone moves away from their boundary.

    python benchmarks/bench_coverage.py [--runs 2000] [--curves 500]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from fairtk_papers.fair_rag.figures import correlation
from sizes import scale

from fairtk import EU
from fairtk.analysis.alpha_sweep import price
from fairtk.credit import providers, query_gain
from fairtk.credit.readers import _fitted, _share
from fairtk.statistics import bootstrap_counts, curve_values, paired_test, percentile_interval

SIZES = (5, 10, 30, 100)
INTERVALS = {
    "t": "mean: Student's t (also the t-test)",
    "randomization": "mean: inverted randomization test",
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
    "1 or -1": (lambda rng, size: rng.choice([-1.0, 1.0], size), 0.0),
    "1 in 5 %, else 0": (lambda rng, size: (rng.random(size) < 0.05).astype(float), 0.05),
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
        weight = bootstrap_counts(len(x), resamples, seed) / len(x)
        ratio = weight @ y[:, 0] / (weight @ y[:, 3])
        result["ratio of means"] = ratio[0], *percentile_interval(ratio[0], ratio[1:])[:2]
        # the same curve, with more noise and a larger x
        x_other = 0.05 + x + 0.05 * np.random.default_rng(seed).normal(size=x.shape)
        means = [weight @ table for table in (x, x_other, y)]
        gap = np.subtract(*(price(means[i], means[2], 0.55, [True, False]) for i in (1, 0)))
        result["x at equal y"] = gap[0], *percentile_interval(gap[0], gap[1:])[:2]
        qids = pd.Index(np.repeat(np.arange(len(x)), 4), name="qid")
        wide = pd.DataFrame({"x": x.ravel(), "y": y.ravel()}, qids)
        result["correlation"] = correlation(wide, "x", "y", resamples, seed)[:3]
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


def readers(runs: int, resamples: int) -> Iterator[tuple[str, str, int, float, float]]:
    """Yield the same for `order_audit` and `fit_browsing`, with the distribution."""
    for name, between in (("shares of .5", 0.5), ("shares of 1", 0.0)):
        for n in SIZES:
            rng, ends = np.random.default_rng(n), []
            for seed in range(runs):
                value = rng.normal(0, math.sqrt(between), (n, 1)) + rng.normal(
                    0, math.sqrt(0.5), (n, 20)
                )
                weight = bootstrap_counts(n, resamples, seed)
                share = _share(
                    weight, value.var(axis=1, ddof=1), value.mean(axis=1), np.ones(n, bool), 20
                )
                ends.append(percentile_interval(share[0], share[1:])[:2])
            yield (
                "percentile bootstrap: utility share",
                name,
                n,
                *_covered(ends, 0.5 / (0.5 + between)),
            )
    for n in SIZES:
        rng, ends = np.random.default_rng(n), []
        for _ in range(runs):
            top = rng.exponential(1, n)
            here = 0.6 * top + 0.3 * (rng.exponential(1, n) - 1)
            table = _fitted(
                np.stack([top, here], 1), np.stack([top, top], 1), np.array([n, n]), {}, ""
            ).table
            ends.append((table["low"][1], table["high"][1]))
        yield "weight of a rank: Student's t", "exponential", n, *_covered(ends, 0.6)


def _covered(ends: list[tuple[float, float]], truth: float) -> tuple[float, float]:
    """Return coverage and the share without an interval."""
    low, high = np.array(ends).T
    defined = ~np.isnan(low)
    inside = (low <= truth) & (truth <= high)
    return float(inside[defined].mean()) if defined.any() else math.nan, float((~defined).mean())


def noisy(runs: int) -> Iterator[tuple[str, str, float, int, float, float, float, float]]:
    """Yield statistic, case, truth, queries, mean value, mean by chance, coverage, no interval.

    Eight providers have one document each per query; the first document is read. Each is useful
    with probability 1/2. Three groups of queries have exact answers.
    """
    names = [f"p{i}" for i in range(8)]
    owners = pd.DataFrame({"docno": names, "group": names})
    for case, weights in (("alike", np.ones(8)), ("unlike", np.array([8, 4, 2, 1, 1, 1, 1, 1.0]))):
        share = weights / weights.sum()
        ranks = 2 * np.arange(1, 9) - 9
        truths = {
            "amortized": float(np.abs(share - 1 / 8).sum()),
            "gini": float(np.sort(share) @ ranks / 8),
            "top": float(share.max()),
            "minimum": float(share.min()),
        }
        for n in SIZES:
            rng, tables = np.random.default_rng(n), []
            qids = np.repeat(np.arange(n).astype(str), 8)
            for seed in range(runs):
                score = rng.gumbel(size=(n, 8)) + np.log(share)
                frame = pd.DataFrame({"qid": qids, "docno": names * n, "score": score.ravel()})
                label = rng.random((n, 8)) < 0.5
                label[np.arange(n), rng.integers(0, 8, n)] = True
                qrels = pd.DataFrame(
                    {"qid": qids, "docno": names * n, "label": label.ravel().astype(int)}
                )
                result = providers(qrels, frame, owners, cutoff=1, seed=seed)
                tables.append(result.summary.set_index("name"))
            for name, truth in truths.items():
                yield f"providers: {name}", case, truth, n, *_averages(tables, name, truth)
    for case, shift in (("alike", 0.0), ("unlike", 0.3)):
        for n in (10, 30, 100):
            rng, tables = np.random.default_rng(n), []
            qids = [str(i) for i in range(n)]
            groups = pd.DataFrame({"qid": qids, "group": np.arange(n) % 3})
            groups["group"] = groups["group"].astype(str)
            for seed in range(runs):
                better = 0.6 + shift * (np.arange(n) % 3 == 2)
                with_documents, without = rng.random(n) < better, rng.random(n) < 0.3
                frame = pd.DataFrame({"qid": qids, "docno": "d", "score": 1.0, "rank": 0})
                qrels = pd.DataFrame({"qid": qids, "docno": "d", "label": 1, "gold_answer": "yes"})
                gain = query_gain(
                    qrels,
                    frame.assign(qanswer=np.where(with_documents, "yes", "no")),
                    frame.assign(qanswer=np.where(without, "yes", "no")),
                    groups,
                    EU(utility="em"),
                    seed=seed,
                )
                tables.append(gain.comparison.set_index("name"))
            yield "query_gain: difference", case, shift, n, *_averages(tables, "difference", shift)


def _averages(
    tables: list[pd.DataFrame], name: str, truth: float
) -> tuple[float, float, float, float]:
    rows = pd.DataFrame([table.loc[name] for table in tables])
    ends = list(zip(rows["low"].astype(float), rows["high"].astype(float), strict=True))
    return float(rows["value"].mean()), float(rows["chance"].mean()), *_covered(ends, truth)


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
    print("| interval | distribution | n = 5 | n = 10 | n = 30 | n = 100 | ", end="")
    print("no interval | rejects a true mean of 0 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    rows: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for test, law, _, *cells in tests(options.runs, options.resamples):
        rejected = cells.pop() if LAWS[law][1] == 0 else math.nan
        rows.setdefault((INTERVALS[test], law), []).append((*cells[:2], rejected))
    for name, _, coverage, none in curves(options.curves, options.resamples):
        key = (f"percentile bootstrap: {name}", "curves")
        rows.setdefault(key, []).append((coverage, none, math.nan))
    for name, law, _, coverage, none in readers(options.curves, options.resamples):
        rows.setdefault((name, law), []).append((coverage, none, math.nan))
    first = [*INTERVALS.values()]
    for (interval, law), row in sorted(
        rows.items(), key=lambda item: first.index(item[0][0]) if item[0][0] in first else 9
    ):
        covered = " | ".join(decimals(c, 3) for c, _, _ in row)
        missing = ", ".join(decimals(n, 2) for _, n, _ in row)
        rejects = ", ".join(filter(None, (decimals(r, 3) for _, _, r in row)))
        print(f"| {interval} | {law} | {covered} | {missing} | {rejects} |")
    print()
    print("| value | true value | n | mean value | by chance | coverage | no interval |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, case, truth, n, value, chance, coverage, none in noisy(options.curves):
        numbers = [decimals(x, 3) for x in (value, chance, coverage)]
        print(
            f"| {name} ({case}) | {decimals(truth, 3)} | {n} | {' | '.join(numbers)} | "
            f"{decimals(none, 2)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
