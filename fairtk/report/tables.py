"""The tables that every report has: means, comparisons, coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from fairtk.files.renderings import Table, number_text
from fairtk.frames.columns import QID
from fairtk.report.queries import SystemRankings
from fairtk.report.reported import Reported
from fairtk.statistics import mean_intervals

CONFIDENCE = 0.95
TESTS = {
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "randomization": "randomization test",
    "bootstrap": "studentized bootstrap test",
}


def mean_table(results: Reported) -> Table:
    """Return the means, a row per system, each with its interval over the queries."""
    columns = []
    for measure in results.measures:
        values = results.per_query[results.per_query["measure"] == measure]
        table = values.pivot(index="system", columns=QID, values="value").loc[results.systems]
        low, high = mean_intervals(table.to_numpy(), method="t", confidence=CONFIDENCE)
        means = results.means.loc[results.systems, measure]
        columns.append(
            [
                number_text(m) + ("" if math.isnan(a) else f" [{a:.4f}, {b:.4f}]")
                for m, a, b in zip(means, low, high, strict=True)
            ]
        )
    heads = [f"{m} ({results.better(m)} is better)" for m in results.measures]
    rows = [[name, *cells] for name, *cells in zip(results.systems, *columns, strict=True)]
    caption = (
        f"Means over the queries where a measure is defined, with {CONFIDENCE:.0%} intervals over "
        "queries (Student's t). Queries that failed or are missing count with the worst value."
    )
    return Table(["system", *heads], rows, caption)


def comparison_table(compared: pd.DataFrame, baseline: str, test: str, correction: str) -> Table:
    """Return the differences from a baseline, a row per measure and system."""
    rows = [
        [
            row["system"],
            row["measure"],
            number_text(row["mean"]),
            str(row["n"]),
            signed(row["difference"]),
            interval(row["low"], row["high"]),
            p_text(row["p"]),
            p_text(row["p_corrected"]),
            "undefined" if math.isnan(row["effect"]) else f"{row['effect']:+.2f}",
        ]
        for row in compared.to_dict("records")
        if row["system"] != baseline
    ]
    heads = ["system", "measure", "mean", "queries", "difference", f"{CONFIDENCE:.0%} interval"]
    how = "not corrected" if correction == "none" else f"{correction} over the systems of a measure"
    caption = (
        f"Differences from {baseline}; {TESTS[test]}, two-sided; p corrected: {how}; effect: "
        "Cohen's dz. Means and tests are over the queries where the measure is defined for all "
        "systems."
    )
    return Table([*heads, "p", "p corrected", "effect"], rows, caption)


def coverage_table(results: Reported, found: Mapping[str, SystemRankings]) -> Table:
    """Return what each system covers: rankings, answers, queries missing, failed or undefined."""
    labeled = set(results.per_query[QID])
    failed = results.failures.groupby("system")[QID].agg(set).to_dict()
    counts = results.counts[results.counts["undefined"] > 0]
    undefined = {
        name: ", ".join(
            f"{m}: {n}" for m, n in zip(rows["measure"], rows["undefined"], strict=True)
        )
        for name, rows in counts.groupby("system")
    }
    rows = []
    for name in results.systems:
        system = found[name]
        lost = failed.get(name, set())
        rows.append(
            [
                name,
                str(len(system.qids)),
                str(len(labeled - system.qids - lost)),
                str(len(lost)),
                undefined.get(name, "0"),
                system.samples,
                str(system.rankings),
                str(system.distinct),
                str(system.answers) if system.answered else "none",
            ]
        )
    heads = ["system", "queries", "missing", "failed", "undefined"]
    heads += ["rankings per query", "rankings", "distinct rankings", "distinct answers"]
    caption = (
        "Queries: with a ranking or an answer; missing: with labels, and no row; failed: their "
        "pipeline ended with an error; undefined: left out of mean and test. Distinct rankings and "
        "answers are counted query by query, rankings to the depth that is shown."
    )
    return Table(heads, rows, caption)


def interval(low: float, high: float) -> str:
    """Return an interval of a difference."""
    return "undefined" if math.isnan(low) else f"[{low:+.4f}, {high:+.4f}]"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return "undefined" if math.isnan(value) else f"{value:+.4f}"


def p_text(value: float) -> str:
    """Return a p-value."""
    if math.isnan(value):
        return "undefined"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"
