"""The tables of a report, and sentences on how to read its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fairtk.display import Table
from fairtk.display.tables import interval_text, number_text, shorten
from fairtk.frames import QID, FloatArray
from fairtk.measures.info import MeasureInfo
from fairtk.remarks import STUDY_NOTE, STUDY_WARNING, shown_texts
from fairtk.statistics.intervals import mean_intervals, no_interval
from fairtk.statistics.tests import PSEUDOMEDIAN
from fairtk.wording import count_text, printable

if TYPE_CHECKING:
    from fairtk.experiment.comparison import SystemComparison
    from fairtk.experiment.results import Results
    from fairtk.report.queries import SystemRankings

CONFIDENCE = 0.95
DIGITS = 3
"""The number of decimals in the first tables of a page."""
LEVEL = 0.05
"""The significance level of the marks."""
TEST_NAMES = {
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test of the pseudomedian",
    "randomization": "randomization test",
}
NO_TEST = "No test was possible"
_CORRECTED = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "fdr_bh": "Benjamini and Hochberg's correction",
}


def bias_text(bias: pd.DataFrame) -> str:
    """Return the sampling bias of plain EE_D and EE_L in words, for captions.

    Args:
        bias: rows of `fairtk.Results.sampling_bias`.
    """
    texts = []
    for measure, rows in bias.groupby("measure", sort=False):
        if rows["bias"].isna().all():
            texts.append(f"{measure}: unknown with one sample per query")
            continue
        parts = ", ".join(
            f"{system} {number_text(bias, sign='+')}"
            for system, bias in zip(rows["system"], rows["bias"], strict=True)
        )
        texts.append(f"{measure}: {parts}")
    if not texts:
        return ""
    return (
        "Sampling bias, which intervals do not cover (plain minus unbiased estimate): "
        f"{'; '.join(texts)}."
    )


def mean_intervals_of(
    results: Results, measure: MeasureInfo
) -> tuple[FloatArray, FloatArray, FloatArray, list[str]]:
    """Return the means of a measure with the ends of their intervals over queries.

    With checked labels, the means are corrected.

    Args:
        results: the results.
        measure: the measure.

    Returns:
        Means, lower ends and upper ends, each of shape (systems,); and the reasons for ends that
        are NaN, otherwise ``""``.
    """
    if results.checked is not None:
        rows = results.corrected[results.corrected["measure"] == measure]
        ends = (rows[name].to_numpy() for name in ("corrected", "low", "high"))
        return *ends, rows["note"].tolist()
    means = results.values.means
    values = results.values.per_query
    values = values[values["measure"] == measure]
    table = values.pivot(index="system", columns=QID, values="value").loc[means.index]
    clusters = None if results.clusters is None else results.clusters.loc[table.columns].to_numpy()
    table = table.to_numpy()
    low, high = mean_intervals(
        table, confidence=CONFIDENCE, bounds=measure.limits, clusters=clusters
    )
    center = means[measure.label].to_numpy()
    reasons = []
    for index, (mean, row) in enumerate(zip(center, table, strict=True)):
        reason = no_interval(row, clusters) if math.isnan(low[index]) else ""
        # a sum, or a comparison of groups of queries, is another quantity
        if not reason and (measure.compares_queries or not math.isclose(mean, np.nanmean(row))):
            low[index] = high[index] = math.nan
            reason = "not a mean over queries"
        reasons.append(reason)
    return center, low, high, reasons


class MeanCell(NamedTuple):
    """A mean in the first table of a page.

    Attributes:
        text: the mean with three decimals.
        interval: the interval over queries, or the reason for a missing one.
        is_best: whether no other system has a better rounded mean.
        mark: `SIGNIFICANT` if the system differs significantly from the baseline, otherwise ``""``.
    """

    text: str
    interval: str
    is_best: bool
    mark: str


SIGNIFICANT = "*"


def caption_texts(results: Results) -> list[str]:
    """Return the texts of remarks below tables; the warnings of a study are on its page only.

    The first one is on clusters of queries or on checked labels, if any.
    """
    texts = shown_texts(remark for remark in results.remarks if remark.kind != STUDY_WARNING)
    return [*filter(None, [_clusters_text(results), _checked_text(results)]), *texts]


def _clusters_text(results: Results) -> str:
    clusters = results.clusters
    if clusters is None:
        return ""
    return (
        f"Intervals and tests: {clusters.nunique()} clusters of {len(clusters)} queries "
        f"({printable(str(clusters.name))})."
    )


def _checked_text(results: Results) -> str:
    if results.checked is None:
        return ""
    checked, total = (part[QID].nunique() for part in (results.checked, results.per_query))
    return (
        f"Corrected: by the checked labels of {checked} of {total} queries (prediction-powered "
        "inference)."
    )


def means_of(results: Results, measure: MeasureInfo) -> pd.Series:
    """Return the means of systems, corrected with checked labels."""
    if results.checked is None:
        return results.values.means[measure.label]
    rows = results.corrected[results.corrected["measure"] == measure]
    return rows.set_index("system")["corrected"].rename(measure.label)


def corrected_table(results: Results, system: str = "system", digits: int = 4) -> Table:
    """Return the means that checked labels correct, a row per measure and system."""
    heads = [system, "measure", "mean", "mean checked", "corrected", "95% interval"]
    rows = []
    for row in results.corrected.to_dict("records"):
        means = [number_text(row[name], digits) for name in ("mean", "mean_checked", "corrected")]
        ends = f"({row['note']})" if row["note"] else interval_text(row["low"], row["high"], digits)
        numbers = [str(row["n"]), str(row["checked"])]
        rows.append([row["system"], row["measure"], *means, ends, *numbers])
    return Table([*heads, "queries", "checked"], rows, " ".join(caption_texts(results)))


def failure_texts(results: Results) -> list[str]:
    """Return the text on failed queries, if queries failed."""
    if not len(results.failures):
        return []
    return [
        "Failed queries get the worst value of each measure; with a save_dir, the next run retries "
        "them."
    ]


def mean_cells(results: Results, compared: pd.DataFrame | None) -> list[list[MeanCell]]:
    """Return the cells of the first table of a page, a row per system.

    Args:
        results: the results.
        compared: the comparisons with the baseline; `None` if there is only one system.
    """
    marks = {} if compared is None else marks_of(compared)
    columns = []
    for measure in results.measures:
        means, low, high, reasons = mean_intervals_of(results, measure)
        columns.append(
            [
                MeanCell(
                    number_text(mean, DIGITS),
                    f"({why})" if why else interval_text(a, b, DIGITS),
                    system in best_systems(results, measure, DIGITS),
                    marks.get((measure, system), ""),
                )
                for system, mean, a, b, why in zip(
                    results.systems, means, low, high, reasons, strict=True
                )
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def interval_table(results: Results, cells: list[list[MeanCell]], remarks: str) -> Table:
    """Return the means with their intervals over queries, a row per system.

    Args:
        results: the results.
        cells: the cells of `mean_cells`.
        remarks: remarks for the caption.
    """
    rows = [
        [name, *(f"{cell.text} {cell.interval}".strip() for cell in row)]
        for name, row in zip(results.systems, cells, strict=True)
    ]
    caption = (
        f"Means over the queries for which a measure is defined, with {CONFIDENCE:.0%} intervals "
        "over queries (Student's t). Failed and missing queries get the worst value."
    )
    return Table(["system", *results.measures], rows, f"{caption} {remarks}".strip())


def best_systems(results: Results, measure: MeasureInfo, digits: int) -> list[str]:
    """Return the systems with the best rounded mean; an empty list if all are equal."""
    means = means_of(results, measure).dropna().round(digits)
    if means.nunique() < 2:
        return []
    best = means.min() if measure.better == "lower" else means.max()
    return [str(system) for system in means.index[means == best]]


def marks_of(compared: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the marks of significance, by measure and system.

    Args:
        compared: the result of `fairtk.Results.compare`.
    """
    significant = compared[compared["p_corrected"] < LEVEL]
    return dict.fromkeys(
        zip(significant["measure"], significant["system"], strict=True), SIGNIFICANT
    )


def is_tested(compared: pd.DataFrame) -> bool:
    """Return whether a result of `fairtk.Results.compare` has a p-value."""
    return bool(compared.filter(regex="^p").notna().any(axis=None))


def difference_table(
    results: Results, compared: pd.DataFrame, baseline: str, test: str, correction: str
) -> Table:
    """Return the differences from the baseline, systems by measures, with marks of significance.

    Args:
        results: the results.
        compared: the comparisons with the baseline.
        baseline: the name of the baseline.
        test: the name of the paired test.
        correction: the correction of the p-values.
    """
    marks = marks_of(compared)
    differences = compared.set_index(["system", "measure"])["difference"]
    rows = [
        [
            system,
            *(
                number_text(differences[system, m], DIGITS, sign="+") + marks.get((m, system), "")
                for m in results.measures
            ),
        ]
        for system in results.systems
        if system != baseline
    ]
    how = "" if correction == "none" else f", {_CORRECTED[correction]} over the systems"
    tests = f"{NO_TEST}."
    if is_tested(compared):
        tests = (
            f"{SIGNIFICANT} significant: p < {LEVEL} ({TEST_NAMES[test]} over queries, two-sided"
            f"{how}). A difference without {SIGNIFICANT} may be real, and a difference with "
            f"{SIGNIFICANT} may be too small to matter."
        )
    caption = " ".join([tests, *caption_texts(results)])
    return Table(["system", *results.measures], rows, caption)


def baseline_table(
    compared: pd.DataFrame,
    baseline: str,
    test: str,
    correction: str,
    confidence: float = CONFIDENCE,
    digits: int = 4,
) -> Table:
    """Return the comparisons with a baseline, a row per measure and system.

    With the Wilcoxon test, interval and p-values are labeled as those of the pseudomedian.

    Args:
        compared: the result of `fairtk.Results.compare` or `fairtk.compare`, or some of its
            columns; the first column has the systems.
        baseline: the name of the baseline.
        test: the name of the paired test.
        correction: the correction of the p-values.
        confidence: the level of the intervals.
        digits: the number of decimals of means and differences.
    """
    systems = str(compared.columns[0])
    label = f" ({PSEUDOMEDIAN})" if test == "wilcoxon" else ""
    excluded = ["low", "high", "estimand", "undefined", "failed", *([] if label else ["estimate"])]
    names = [n for n in compared.columns if n not in excluded]
    before_interval = "estimate" if label else "difference"
    heads: list[str] = []
    for name in names:
        head = PSEUDOMEDIAN if name == "estimate" else name.replace("_", " ")
        heads.append(head + (label if name in ("p", "p_corrected") else ""))
        heads += [f"{confidence:.0%} interval{label}"] if name == before_interval else []
    rows = []
    for row in compared.to_dict("records"):
        cells: list[str] = []
        for name in names:
            cells.append(_cell(name, row[name], digits))
            cells += [interval(row["low"], row["high"], digits)] if name == before_interval else []
        if row[systems] == baseline:
            first = names.index("difference")
            cells[first:] = ["baseline", *[""] * (len(heads) - first - 1)]
        rows.append(cells)
    how = "not corrected"
    if correction != "none":
        how = f"{correction}, over the {systems}s of a measure"
    effect = "; effect: Cohen's dz" if "effect" in names else ""
    tests, tested = "no test was possible.", "Means are"
    if is_tested(compared):
        tests = f"{TEST_NAMES[test]}, two-sided; p corrected: {how}{effect}."
        tested = "Means and tests are"
    caption = (
        f"Differences from {shorten(printable(baseline), 40)}; {tests}{not_corrected(compared)} "
        f"{tested} over the queries for which a measure is defined for all {systems}s."
    )
    return Table(heads, rows, caption)


def not_corrected(compared: pd.DataFrame) -> str:
    """Return the sentence on intervals next to corrected p-values."""
    counts = compared.groupby("measure", sort=False)["p_corrected"].count()
    most = int(counts.max()) if len(compared) else 0
    return f" Intervals are not corrected for {most} comparisons." if most > 1 else ""


def corrected_for(correction: str, counts: Mapping[str, int], n: int, letters: bool) -> str:
    """Return the correction and its number of tests, by measure if they differ."""
    if correction == "none":
        return "not corrected"
    most = max(counts.values())
    over = f"the {most} pairs of systems" if letters else f"the {most} systems"
    if most < 2:
        over = f"the one {'pair of systems' if letters else 'system'}"
    is_partial = min(counts.values()) < (n * (n - 1) // 2 if letters else n - 1)
    fewer = ", ".join(f"{k or 'none'} for {m}" for m, k in counts.items() if k < most)
    which = f" that can be tested{fewer and f' ({fewer})'}" if is_partial else ""
    return f"{_CORRECTED[correction]} over {over} of a measure{which}"


def queries_tested(compared: SystemComparison) -> str:
    """Return the number of tested queries, by measure if the numbers differ."""
    tables = compared.tables
    tested = [m for m in tables if not compared.measures[m].compares_queries] or list(tables)
    numbers = {m: int((~np.isnan(tables[m].to_numpy()).any(axis=0)).sum()) for m in tested}
    most = max(numbers.values())
    fewer = ", ".join(f"{n} for {name}" for name, n in numbers.items() if n < most)
    return f"n = {count_text(most, 'query', 'queries')}{fewer and f' ({fewer})'}"


def _cell(name: str, value: Any, digits: int) -> str:
    if name.startswith("p"):
        return p_text(value)
    if name in ("difference", "estimate"):
        return number_text(value, digits, sign="+")
    if name == "effect":
        return number_text(value, 2, sign="+")
    return number_text(value, digits) if isinstance(value, float) else str(value)


def coverage_table(results: Results, covered: Mapping[str, SystemRankings]) -> Table:
    """Return the counts of rankings, answers, and missing, failed and undefined queries.

    If answers have a status, there is a column with their numbers by status.
    """
    statuses = results.answer_status
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
        system = covered[name]
        errors = failed.get(name, set())
        rows.append(
            [
                name,
                str(len(system.qids)),
                str(len(labeled - system.qids - errors)),
                str(len(errors)),
                undefined.get(name, "0"),
                system.samples,
                str(system.rankings),
                str(system.distinct),
                str(system.answers) if system.answered else "none",
            ]
        )
        if len(statuses):
            numbers = statuses.loc[name] if name in statuses.index else statuses.iloc[0] * 0
            texts = [f"{status}: {number}" for status, number in numbers.items() if number]
            rows[-1].append(", ".join(texts) or "none")
    heads = ["system", "queries", "missing", "failed", "undefined"]
    heads += ["rankings per query", "rankings", "distinct rankings", "distinct answers"]
    heads += ["answer status"] if len(statuses) else []
    caption = (
        "Queries: with a ranking or an answer; missing: with labels but without rows; failed: the "
        "pipeline raised an error; undefined: excluded from means and tests. Distinct rankings (to "
        "the depth of this page) and answers are counted within each query."
        + (" Answer status: the number of answers with each status." if len(statuses) else "")
    )
    return Table(heads, rows, caption)


def interval(low: float, high: float, digits: int = 4) -> str:
    """Return the interval of a difference."""
    return interval_text(low, high, digits, sign="+")


def p_text(value: float) -> str:
    """Return a p-value."""
    return "<0.0001" if value < 0.0001 else number_text(value)


def axis_text(measure: MeasureInfo) -> str:
    """Return the title of an axis: the name of a measure, its label and the better direction."""
    name = measure.full_name
    text = f"{name} ({measure})" if name not in ("", measure) else str(measure)
    return f"{text}, {measure.better} is better"


def reading(measure: MeasureInfo) -> str:
    """Return one sentence on how to read the values of a measure."""
    caveat = f"; {measure.caveat}" if measure.caveat else ""
    return f"{measure.better} is better: {measure.about}{caveat}."


def overview(results: Results, rankings: Mapping[str, SystemRankings]) -> str:
    """Return one sentence on the compared systems."""
    queries = set(results.per_query[QID])
    if not results.measures:
        queries = queries.union(*(system.qids for system in rankings.values()))
    parts = [
        f"{count_text(len(results.systems), 'system')} on "
        f"{count_text(len(queries), 'query', 'queries')}"
        + (f", by {count_text(len(results.measures), 'measure')}" if results.measures else "")
    ]
    samples = [system.samples for system in rankings.values() if system.samples not in ("0", "1")]
    if samples:
        verb = "samples" if len(samples) == 1 else "sample"
        counts = " or ".join(sorted(set(samples)))
        systems = count_text(len(samples), "system")
        parts.append(f"{systems} {verb} {counts} rankings per query")
    answered = sum(system.answered for system in rankings.values())
    if answered:
        verb = "generates" if answered == 1 else "generate"
        parts.append(f"{answered} {verb} an answer from each ranking")
    if not results.measures:
        parts.append("no measures")
    return "; ".join(parts) + "."


LIMITS = (
    "No number shows that a system is fair. The numbers do not answer whether documents should "
    "get equal exposure, or whether the labels are right.",
    "Intervals and tests are over these queries. They do not cover other collections, errors "
    "in labels, other seeds or other models.",
    "If you choose the best of several systems on these queries, its values here are too good.",
)
"""The limits of all numbers."""


def limits(results: Results, rankings: Mapping[str, SystemRankings]) -> list[str]:
    """Return sentences on the limits of the numbers."""
    sampled = [s.samples for s in rankings.values() if s.samples not in ("0", "1")]
    sentences = list(LIMITS)
    parts = [part for measure in results.measures for part in measure.with_parts()]
    if sampled and any(part.has_sampling_bias for part in parts):
        sentences.append(
            "The plain estimate of EE_D from N sampled rankings is too large by (1 - EE_D) / N "
            f"in expectation (N here: {' or '.join(sorted(set(sampled)))}). The lowest EE_D is "
            "not 0 but the share of the documents that a ranking shows."
        )
    if any(measure.reads_groups for measure in results.measures):
        sentences.append(
            "Groups are labels of documents, made by people or rules, and often missing. The "
            "target of exposure is a choice."
        )
    return sentences


def page_warnings(results: Results, rankings: Mapping[str, SystemRankings]) -> list[str]:
    """Return the warnings of a page."""
    texts = shown_texts(remark for remark in results.remarks if remark.kind != STUDY_NOTE)
    counts = results.counts
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        most = int(part["undefined"].max())
        texts.append(
            f"{measure} is undefined for up to {count_text(most, 'query', 'queries')}, which are "
            "excluded from its means and tests."
        )
    if len(results.failures):
        texts.append(
            f"{count_text(len(results.failures), 'result')} failed and got the worst value of "
            f"each measure, e.g. {results.failures['system'].iloc[0]}, query "
            f"{results.failures[QID].iloc[0]}: {results.failures['error'].iloc[0]}"
        )
    labeled = set(results.per_query[QID])
    failed = results.failures.groupby("system")[QID].agg(set).to_dict()
    for name, system in rankings.items():
        missing = len(labeled - system.qids - failed.get(name, set()))
        if missing:
            texts.append(
                f"{name} has no rows for {count_text(missing, 'query', 'queries')} with labels, "
                "which get the worst value of each measure."
            )
    return texts
