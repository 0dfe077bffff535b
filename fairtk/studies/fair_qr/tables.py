"""The tables of a study in the form that papers and terminals show."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.io import Table, latex_text
from fairtk.studies.fair_qr.systems import BM25, RANDOM, TUNED
from fairtk.studies.fair_qr.values import LEAST_KEPT, LEAST_OVERLAP, MEASURES, PRODUCT, TIMES

if TYPE_CHECKING:
    from fairtk.studies.fair_qr.results import StudyResults

UNKNOWN = "-"
"""In place of a price or a count that nobody knows; 0 is one that is known."""

HIGHER, LOWER = "+", "-"
"""Marks of values that differ from BM25's by more than chance makes likely."""


def comparison(results: StudyResults) -> Table:
    """Return the paper's Table 1: systems by rows, the three measures for each attribute."""
    settings, table = results.settings, results.table
    attributes = list(dict.fromkeys(table["attribute"]))
    heads = [f"{a} {m}@{settings.cutoff}" for a in attributes for m in MEASURES]
    rows = []
    for system in dict.fromkeys(table["system"]):
        cells, lost = [system], []
        for attribute in attributes:
            found = table[(table["attribute"] == attribute) & (table["system"] == system)]
            if found.empty:
                cells += [""] * len(MEASURES)
                continue
            row = found.iloc[0]
            cells += [_mean(row, m, settings.level) for m in MEASURES]
            if row["missing"]:
                lost.append(f"{attribute}: {row['missing']} of {len(results.data.topics)} missing")
        if lost:
            cells[0] += f" ({', '.join(lost)})"
        rows.append(cells)
    test = "paired t-test against BM25"
    if settings.correction != "none":
        tuned = ", tuned ones apart" if table["system"].str.endswith(TUNED).any() else ""
        test += f", {settings.correction} over the systems of an attribute{tuned}"
    caption = (
        f"Means over {len(results.data.topics)} topics. {HIGHER} or {LOWER}: above or below BM25, "
        f"p < {settings.level:g} ({test}). nDCG as in "
        f"{'the track (ranks 1 and 2 weigh alike)' if settings.ndcg == 'TREC' else 'trec_eval'}. "
        f"Queries without a result have the worst value.{results.pairs}{_on_missing(table)}"
    )
    return Table(["system", *heads], rows, caption)


def interval_table(results: StudyResults) -> Table:
    """Return the changes from BM25 with their bootstrap intervals."""
    settings, table = results.settings, results.table
    rows = []
    for _, row in table.iterrows():
        if row["system"] == BM25:
            continue
        changes = [_change(row, m) for m in MEASURES]
        rows.append([row["attribute"], row["system"], *changes, f"{row['product of means']:.4f}"])
    caption = (
        f"Changes from BM25 with {settings.confidence:.0%} bootstrap intervals over topics "
        f"({settings.resamples} resamples, percentiles). The product of the means is not the mean "
        "of the products."
    )
    return Table(["attribute", "system", *MEASURES, "product of means"], rows, caption)


def variation_table(results: StudyResults) -> Table:
    """Return FAIR-QR with one setting varied, and how often queries were refined."""
    table, counts = results.variations, results.iterations
    counts = counts[counts["count"] == "kept"]
    rows = []
    for _, row in table.iterrows():
        same = counts
        for name in ("attribute", "variation", "setting"):
            same = same[same[name] == row[name]]
        kept = f"{same['mean'].iloc[0]:.2f}" if len(same) else ""
        means = [_mean(row, m, results.settings.level) for m in MEASURES]
        change = _change(row, PRODUCT)
        rows.append([row["attribute"], row["variation"], row["setting"], *means, change, kept])
    caption = (
        "FAIR-QR with one setting varied; the others as configured. "
        f"{HIGHER} or {LOWER}: above or below BM25, p < {results.settings.level:g} (paired t-test, "
        "not corrected for the number of settings). Change: of the product, from BM25, with its "
        f"{results.settings.confidence:.0%} bootstrap interval.{_on_missing(table)}"
    )
    heads = ["attribute", "setting", "value", *MEASURES, "change", "refinements kept"]
    return Table(heads, rows, caption)


def control_table(results: StudyResults) -> Table:
    """Return FAIR-QR against its placebo, and both against BM25."""
    rows = []
    for (attribute, system, against), part in results.controls.groupby(
        ["attribute", "system", "against"], sort=False
    ):
        cells = [
            f"{row.difference:+.4f} [{row.low:+.4f}, {row.high:+.4f}]" for row in part.itertuples()
        ]
        rows.append([str(attribute), str(system), str(against), *cells])
    caption = (
        f"Paired differences, {results.settings.confidence:.0%} bootstrap intervals over topics. "
        f"{RANDOM} is FAIR-QR's loop with as many words as the model added, of middle frequency, "
        "drawn by chance from the collection: what it gains over BM25 is noise."
    )
    return Table(["attribute", "system", "against", *MEASURES], rows, caption)


def drift_table(results: StudyResults) -> Table:
    """Return how far systems are from the first lists, and what fairness costs them."""
    rows = [
        [
            *(row["attribute"], row["system"]),
            *("" if math.isnan(row[n]) else f"{row[n]:.2f}" for n in ("words kept", "overlap")),
            *(f"{row[n]:+.4f}" for n in ("AWRF gained", "nDCG lost")),
            "" if math.isnan(row["lost per gained"]) else f"{row['lost per gained']:.2f}",
        ]
        for _, row in results.drift.iterrows()
    ]
    caption = (
        "Against BM25. Words kept: share of the original words in the last kept query; overlap: "
        f"share of the first list's top {results.settings.cutoff} that is in the top; both over "
        "topics with a kept refinement, if a system refines. Lost per gained: nDCG lost per AWRF "
        "gained (empty: none gained). Below "
        f"{LEAST_KEPT:.0%} of the words or {LEAST_OVERLAP:.0%} of the list is warned of."
    )
    heads = ["attribute", "system", "words kept", "overlap", "AWRF gained", "nDCG lost"]
    return Table([*heads, "lost per gained"], rows, caption)


def tuning_table(results: StudyResults) -> Table:
    """Return what tuning chose for each fold."""
    rows = [
        [
            *(str(row[name]) for name in ("attribute", "system", "fold")),
            ", ".join(f"{k}={v}" for k, v in json.loads(row["settings"]).items()),
            f"{row['value']:.4f}",
            *(str(row["topics"]), f"{row['seconds']:.1f}", str(row["calls"])),
        ]
        for _, row in results.tuning.iterrows()
    ]
    caption = (
        f"Settings with the best mean {PRODUCT} over the topics of the other folds, with which the "
        "topics of a fold are ranked. Calls: that tuning paid for; recorded answers are not paid "
        "for again."
    )
    heads = ["attribute", "system", "fold", "settings", f"{PRODUCT} there", "topics", "seconds"]
    return Table([*heads, "calls"], rows, caption)


def iteration_table(results: StudyResults) -> Table:
    """Return how often queries were refined in the main comparison."""
    frame = results.iterations
    frame = frame[frame["variation"] == ""]
    rows = [
        [
            *(str(row[name]) for name in ("attribute", "system", "count")),
            f"{row['mean']:.2f}",
            *(f"{row[name]:g}" for name in ("25%", "50%", "75%", "largest")),
        ]
        for _, row in frame.iterrows()
    ]
    heads = ["attribute", "system", "refinements", "mean", "25%", "median", "75%", "most"]
    caption = (
        "Refinements per query: asked of the model, and kept. The paper reports a mean of 2 and a "
        "75th percentile of 4."
    )
    return Table(heads, rows, caption)


def cost_table(results: StudyResults) -> Table:
    """Return what a query costs: calls, tokens, price and latency."""
    frame = results.costs
    frame = frame[frame["variation"] == ""]
    rows = []
    for _, row in frame.iterrows():
        price = UNKNOWN if math.isnan(row["price"]) else f"{row['price']:.6f}"
        rows.append(
            [
                *(row["attribute"], row["system"], f"{row['calls']:.2f}"),
                *(_count(row[name]) for name in ("prompt_tokens", "completion_tokens")),
                price,
                *(f"{row[n]:.3f}" for n in TIMES[:4]),
                f"{row['training seconds']:.1f}",
            ]
        )
    caption = (
        "Per query. Model seconds: waits for the model one after another, as recorded when the "
        "answers were made; own seconds: retrieval, reranking, exposure, of all queries side by "
        "side; alone: the same of one query by itself, as measured; latency: model and alone, what "
        f"one query takes. Training seconds: all folds together; indexes, too. {UNKNOWN}: unknown."
    )
    heads = ["attribute", "system", "calls", "prompt tokens", "answer tokens", "price"]
    heads += ["model s", "own s", "alone s", "latency s", "training s"]
    return Table(heads, rows, caption)


def change_table(results: StudyResults, attribute: str, count: int = 5) -> Table:
    """Return the topics whose product fell and rose most under FAIR-QR, and why."""
    frame = results.changes(attribute)
    shown = pd.concat([frame.head(count), frame.tail(count)]).drop_duplicates("qid")
    rows = [
        [
            str(row["qid"]),
            str(row["query"]),
            *(f"{row[n]:+.3f}" for n in (*MEASURES, "by AWRF", "by nDCG")),
            str(row.get("groups", "")),
            str(row.get("note", "")),
        ]
        for _, row in shown.iterrows()
    ]
    up, down = int((frame[MEASURES[2]] > 0).sum()), int((frame[MEASURES[2]] < 0).sum())
    caption = (
        f"FAIR-QR against BM25 by {attribute}, topic by topic: the product rose for {up} of "
        f"{len(frame)} topics and fell for {down}. Its mean change, "
        f"{frame[MEASURES[2]].mean():+.4f}, is {frame['by AWRF'].mean():+.4f} by AWRF and "
        f"{frame['by nDCG'].mean():+.4f} by nDCG. Shown: the largest losses and gains; groups in "
        "brackets were asked for, but the list was not kept."
    )
    heads = ["qid", "query", *MEASURES, "by AWRF", "by nDCG", "groups asked for", "end of the loop"]
    return Table(heads, rows, caption)


def _mean(row: Any, measure: str, level: float) -> str:
    """Return a mean with its mark; with queries missing, both means and no mark."""
    if not row["missing"]:
        return f"{row[measure]:.4f}{_mark(row, measure, level)}"
    answered = row[f"{measure} answered"]
    return f"{row[measure]:.4f} ({'none' if math.isnan(answered) else f'{answered:.4f}'})"


def _change(row: Any, measure: str) -> str:
    change, low, high = (row[f"{measure} change{end}"] for end in ("", " low", " high"))
    return f"{change:+.4f} [{low:+.4f}, {high:+.4f}]"


def _on_missing(table: pd.DataFrame) -> str:
    if table.empty or not table["missing"].any():
        return ""
    return (
        " In brackets, where some are missing: the mean over the queries with a result; such means "
        "have no mark, as the test would compare failed calls."
    )


def _mark(row: Any, measure: str, level: float) -> str:
    if not row[f"{measure} p"] < level:
        return " "
    return HIGHER if row[f"{measure} change"] > 0 else LOWER


def _count(value: float) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.1f}"


def latex(table: Table) -> str:
    """Return a table in LaTeX, the measures with their sign of multiplication."""
    return latex_text(table).replace(PRODUCT, PRODUCT.replace(" x ", r" $\times$ "))


def all_tables(results: StudyResults) -> dict[str, Table]:
    """Return the tables of a study by name; those without rows are left out."""
    tables = {
        "comparison": comparison(results),
        "intervals": interval_table(results),
        "variations": variation_table(results),
        "controls": control_table(results),
        "drift": drift_table(results),
        "tuning": tuning_table(results),
        "iterations": iteration_table(results),
        "costs": cost_table(results),
    }
    return {name: table for name, table in tables.items() if table.rows}
