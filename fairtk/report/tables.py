"""The tables of a report, and what results say and do not say in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np
import pandas as pd

from fairtk.display import Table
from fairtk.display.tables import number_text
from fairtk.errors import InputError
from fairtk.frames import QID
from fairtk.measures.base import value_bounds
from fairtk.measures.parsing import known_names, parse
from fairtk.report.statistics import PSEUDOMEDIAN, mean_intervals

if TYPE_CHECKING:
    from fairtk.experiment import Results
    from fairtk.report.page import SystemRankings

CONFIDENCE = 0.95
TEST_NAMES = {
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test of the pseudomedian",
    "randomization": "randomization test",
}
_CORRECTED = {
    "holm": "Holm's correction",
    "bonferroni": "Bonferroni's correction",
    "fdr_bh": "correction of Benjamini and Hochberg",
}


def compares_queries(label: str) -> bool:
    """Return whether a measure has no value of a single query: ByGroup of groups of queries."""
    return label.startswith("ByGroup(") and "by='query'" in label


def bias_text(bias: pd.DataFrame) -> str:
    """Return the sampling bias of plain EE_D and EE_L, for captions next to intervals.

    Args:
        bias: of `fairtk.Results.sampling_bias`, or the rows of some measures.
    """
    texts = []
    for measure, rows in bias.groupby("measure", sort=False):
        if rows["bias"].isna().all():
            texts.append(f"{measure}: it cannot be estimated from one sample per query")
            continue
        parts = ", ".join(
            f"{system} {bias:+.4f}"
            for system, bias in zip(rows["system"], rows["bias"], strict=True)
        )
        texts.append(f"{measure}: {parts}")
    if not texts:
        return ""
    return (
        "Sampling bias, which intervals do not hold (plain minus unbiased estimate): "
        f"{'; '.join(texts)}."
    )


def target_text(results: Results) -> str:
    """Return the target of a study's groups in a sentence, or ``""``."""
    target = results.config.get("target")
    return f"Target: {target}." if target else ""


def mean_table(results: Results, remarks: str = "") -> Table:
    """Return the means, a row per system, each with its interval over the queries.

    Args:
        results: the results.
        remarks: for the caption: the note of the results, sampling bias.
    """
    columns = []
    for measure in results.measures:
        values = results.per_query[results.per_query["measure"] == measure]
        table = values.pivot(index="system", columns=QID, values="value").loc[results.systems]
        value = table.to_numpy() * (math.nan if compares_queries(measure) else 1.0)
        bounds = label_bounds(measure)
        low, high = mean_intervals(value, confidence=CONFIDENCE, bounds=bounds)
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
    text = " ".join(filter(None, [caption, remarks]))
    return Table(["system", *heads], rows, text)


def baseline_table(
    compared: pd.DataFrame,
    baseline: str,
    test: str,
    correction: str,
    confidence: float = CONFIDENCE,
    digits: int = 4,
) -> Table:
    """Return systems beside a baseline, a row per measure and system; its caption says the test.

    With the Wilcoxon test, interval and p-values are those of the pseudomedian, and labeled so.

    Args:
        compared: what `fairtk.Results.compare` and `fairtk.compare` return, or some of its columns:
            the first has the systems, in the words of the table.
        baseline: what others are compared with; its own row says so.
        test: the name of the paired test.
        correction: of the p-values, or ``"none"``.
        confidence: of the intervals.
        digits: behind the point, of means and differences.
    """
    systems = str(compared.columns[0])
    label = f" ({PSEUDOMEDIAN})" if test == "wilcoxon" else ""
    left_out = ["low", "high", "estimand", "undefined", "failed", *([] if label else ["estimate"])]
    names = [n for n in compared.columns if n not in left_out]
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
            cells[_TESTED_FROM:] = ["baseline", *[""] * (len(heads) - _TESTED_FROM - 1)]
        rows.append(cells)
    how = "not corrected"
    if correction != "none":
        how = f"{correction} over the {systems}s of a measure"
    effect = "; effect: Cohen's dz" if "effect" in names else ""
    caption = (
        f"Differences from {baseline}; {TEST_NAMES[test]}, two-sided; p corrected: {how}{effect}."
        f"{not_corrected(compared)} "
        f"Means and tests are over the queries where the measure is defined for all {systems}s."
    )
    return Table(heads, rows, caption)


def not_corrected(compared: pd.DataFrame) -> str:
    """Return the sentence on intervals that are printed next to corrected p-values."""
    most = int(compared.groupby("measure", sort=False)["p"].count().max()) if len(compared) else 0
    return f" Intervals are not corrected for {most} comparisons." if most > 1 else ""


def corrected_for(correction: str, counts: Mapping[str, int], n: int, letters: bool) -> str:
    """Return over how many tests p was corrected, by measure if it is not the same for all."""
    if correction == "none":
        return "not corrected"
    most = max(counts.values())
    if not most:
        return "nothing can be tested"
    over = f"the {most} pairs of systems" if letters else f"the {most} systems"
    if most < 2:
        over = f"the one {'pair of systems' if letters else 'system'}"
    some = min(counts.values()) < (n * (n - 1) // 2 if letters else n - 1)
    fewer = ", ".join(f"{k or 'none'} for {m}" for m, k in counts.items() if k < most)
    which = f" that can be tested{fewer and f' ({fewer})'}" if some else ""
    return f"{_CORRECTED[correction]} over {over} of a measure{which}"


def queries_tested(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return the number of queries that are tested, by measure if it is not the same for all."""
    tested = [m for m in tables if not compares_queries(m)] or list(tables)
    numbers = {m: int((~np.isnan(tables[m].to_numpy()).any(axis=0)).sum()) for m in tested}
    most = max(numbers.values())
    fewer = ", ".join(f"{n} for {name}" for name, n in numbers.items() if n < most)
    return f"n = {most} queries{fewer and f' ({fewer})'}"


def tables_by_measure(table: Table) -> tuple[str, list[tuple[str, Table]]]:
    """Return a table of `baseline_table` as one for each measure, and its caption apart.

    Returns:
        The caption, and titles with tables of systems; those of one system stay a single table of
        measures, without a title.
    """
    systems, measures = table.columns[0], [row[1] for row in table.rows]
    names = {row[0] for row in table.rows}
    if len(names) == 1 and len(measures) > 1:
        rows = [row[1:] for row in table.rows]
        caption = f"{systems.capitalize()} {names.pop()}. {table.caption}"
        return caption, [("", Table(table.columns[1:], rows))]
    heads = [systems, *table.columns[2:]]
    return table.caption, [
        (name, Table(heads, [[row[0], *row[2:]] for row in table.rows if row[1] == name]))
        for name in dict.fromkeys(measures)
    ]


_TESTED_FROM = 4
"""How many cells of a row say nothing of the baseline: system, measure, mean and queries."""


def _cell(name: str, value: Any, digits: int) -> str:
    if name.startswith("p"):
        return p_text(value)
    if name in ("difference", "estimate"):
        return signed(value, digits)
    if name == "effect":
        return "undefined" if math.isnan(value) else f"{value:+.2f}"
    return number_text(value, digits) if isinstance(value, float) else str(value)


def coverage_table(results: Results, covered: Mapping[str, SystemRankings]) -> Table:
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
        system = covered[name]
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


def interval(low: float, high: float, digits: int = 4) -> str:
    """Return an interval of a difference."""
    ends = f"[{signed(low, digits)}, {signed(high, digits)}]"
    return "undefined" if math.isnan(low) else ends


def signed(value: float, digits: int = 4) -> str:
    """Return a difference with its sign."""
    return "undefined" if math.isnan(value) else f"{value:+.{digits}f}"


def p_text(value: float) -> str:
    """Return a p-value."""
    if math.isnan(value):
        return "undefined"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


LEVEL = 0.05
FOR_WHOM = {
    **dict.fromkeys(
        ("EE_D", "EE_R", "EE_L"),
        "for the documents, and for those who made them: who gets seen by the reader of a ranking",
    ),
    **dict.fromkeys(
        ("AWRF", "ByGroup"), "for the groups that documents belong to: which of them get seen"
    ),
    "EU": "for those who read the generated answers",
    "Product": "for both sides that its factors stand for",
    "nDCG_AWRF": "for the readers of rankings and for the groups that documents belong to",
}
READERS = "for the readers of rankings"


@dataclass(frozen=True)
class MeasureSummary:
    """What one measure says.

    Attributes:
        name: the measure, as people read it.
        about: what it measures, for whom, and which direction is better.
        findings: sentences.
    """

    name: str
    about: str
    findings: list[str] = field(default_factory=list)


def overview(results: Results, rankings: Mapping[str, SystemRankings]) -> list[str]:
    """Return what was run, in sentences."""
    queries = results.per_query[QID].nunique() if results.measures else len(
        set().union(*(system.qids for system in rankings.values()))
    )  # fmt: skip
    sentences = [
        f"{_number(len(results.systems), 'system')} on {_number(queries, 'query', 'queries')}"
        + (f", by {_number(len(results.measures), 'measure')}." if results.measures else ".")
    ]
    samples = {name: system.samples for name, system in rankings.items() if system.samples != "1"}
    if samples:
        several = sorted(set(samples.values()))
        sentences.append(
            f"{_number(len(samples), 'system')} of these {'is' if len(samples) == 1 else 'are'} "
            f"stochastic: {' or '.join(several)} sampled rankings per query."
        )
    answered = sum(system.answered for system in rankings.values())
    if answered:
        sentences.append(f"{_number(answered, 'system')} generated an answer from each ranking.")
    if not results.measures:
        sentences.append("Nothing was measured: there are rankings to look at, and no values.")
    return sentences


def measured(
    results: Results, compared: pd.DataFrame | None, baseline: str | None
) -> list[MeasureSummary]:
    """Return what each measure says: the best system, the next one, and the tests of both.

    All verdicts are those of the table of comparisons.

    Args:
        results: the results.
        compared: all systems with the baseline; `None` if there is one system.
        baseline: the system that others are compared with.
    """
    summaries = []
    for measure in results.measures:
        lower = results.better(measure) == "lower"
        means = results.means.loc[results.systems, measure].dropna()
        means = means.sort_values(ascending=lower, kind="stable")
        about = _about(measure, results.better(measure))
        if means.empty:
            findings = ["It is undefined for every query, so it says nothing here."]
        elif compared is None or len(means) == 1:
            findings = [f"{means.index[0]}: {number_text(means.iloc[0])}."]
        else:
            findings = _best(means, compared[compared["measure"] == measure], str(baseline))
        summaries.append(MeasureSummary(measure, about, findings))
    return summaries


def _best(means: pd.Series, compared: pd.DataFrame, baseline: str) -> list[str]:
    """Return sentences on the best system and the next one, each against the baseline."""
    rows = compared.set_index("system")
    sentences = []
    for system, verb in zip(
        map(str, means.index[:2]), ("is best with", "is next with"), strict=True
    ):
        mean = number_text(means[system])
        if system == baseline:
            sentences.append(f"{system} {verb} a mean of {mean}; it is the baseline.")
            continue
        row = rows.loc[system]
        distance = _distance(row["difference"], f"the baseline {baseline}")
        sentences.append(f"{system} {verb} a mean of {mean}, {distance} ({_tested(row)}).")
    return sentences


def _distance(difference: float, other: str) -> str:
    if math.isnan(difference):
        return f"on no query that also has a value for {other}"
    if difference == 0:
        return f"the same as {other}"
    return f"{abs(difference):.4f} {'higher' if difference > 0 else 'lower'} than {other}"


def _tested(row: Mapping[str, Any]) -> str:
    """Return the verdict of a test, which is that of the table."""
    if math.isnan(row["p_corrected"]):
        return "not tested"
    p = p_text(row["p_corrected"])
    verdict = "significant" if row["p_corrected"] < LEVEL else "not significant"
    label = f", {PSEUDOMEDIAN}" if "estimand" in row else ""
    return f"{verdict}, p {f'< {p[1:]}' if p.startswith('<') else f'= {p}'}{label}"


def label_bounds(measure: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure; infinite where none is known."""
    parsed = _parsed(measure)
    return (-math.inf, math.inf) if parsed is None else value_bounds(parsed)


def _parsed(measure: str) -> Any:
    """Return a measure, without its settings where its groups are not at hand; None: unknown."""
    try:
        return parse(measure)
    except InputError:
        known_names()
        name = measure.split("(")[0].split("@")[0]
        return None if " * " in measure else ir_measures.measures.registry.get(name)


def _about(measure: str, better: str) -> str:
    direction = f"{better.capitalize()} is better."
    parsed = _parsed(measure)
    if parsed is None:
        return direction
    inner = getattr(parsed, "inner", parsed) if parsed.NAME == "E" else parsed
    pretty = str(getattr(inner, "PRETTY_NAME", None) or inner.NAME)
    short = str(getattr(inner, "SHORT_DESC", None) or "").strip()
    short = f"{short.rstrip('.')}." if short else ""
    if parsed.NAME == "E":
        short = f"{short} In the mean over the sampled rankings of each query.".strip()
    whom = FOR_WHOM.get(parsed.NAME, READERS)
    return f"{pretty}, {whom}. {short} {direction}".replace("  ", " ")


def tested(baseline: str, test: str, how: str) -> str:
    """Return how the differences of the summary were tested."""
    corrected = "not corrected" if how == "none" else f"corrected ({how}) for the systems compared"
    return (
        f"Differences are paired by query, from the baseline {baseline}; p-values are of a "
        f"two-sided {TEST_NAMES[test]}, {corrected}."
    )


def unsaid(results: Results, rankings: Mapping[str, SystemRankings]) -> list[str]:
    """Return what the numbers do not say."""
    names = {measure.split("(")[0].split("@")[0] for measure in results.measures}
    sampled = [s.samples for s in rankings.values() if s.samples not in ("0", "1")]
    sentences = [
        "None of the numbers says that a system is fair: whether documents ought to get equal "
        "exposure, whether the labels are right, and whether people behind the documents are "
        "treated alike are other questions.",
        "Intervals and tests are over these queries. They know nothing of other collections, of "
        "errors in labels, nor of other seeds and models.",
        "A small p-value says that a difference is hard to explain by chance, not that it is large "
        "or matters. The best of several systems, chosen on the queries it is measured on, looks "
        "somewhat better than it is.",
    ]
    if names & {"EE_D", "EE_L"} and sampled:
        sentences.append(
            f"EE_D and EE_L are estimated from {' or '.join(sorted(set(sampled)))} sampled "
            "rankings. From N rankings EE_D comes out too large by (1 - EE_D) / N in expectation, "
            "and its floor is the share of documents that a ranking shows, not 0."
        )
    if any(
        "roups" in m or m.startswith(("AWRF", "nDCG_AWRF", "ByGroup")) for m in results.measures
    ):
        sentences.append(
            "Groups are labels of documents, given by people or rules with known limits, and "
            "missing for many. The target that exposure is compared with is somebody's choice."
        )
    if "EU" in names:
        sentences.append(
            "EU compares strings with a gold answer: it says nothing of truth, tone or harm, nor "
            "whether an answer rests on the documents that were read."
        )
    return sentences


def warned(results: Results, rankings: Mapping[str, SystemRankings]) -> list[str]:
    """Return what a reader should know before believing a table."""
    texts = [str(text) for text in results.config.get("warnings", [])]
    counts = results.counts
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        most = int(part["undefined"].max())
        texts.append(
            f"{measure} is undefined for up to {_number(most, 'query', 'queries')}, which are left "
            "out of its means and tests."
        )
    if len(results.failures):
        texts.append(
            f"{_number(len(results.failures), 'result')} failed and count with the worst value of "
            f"each measure, e.g. {results.failures['system'].iloc[0]}, query "
            f"{results.failures[QID].iloc[0]}: {results.failures['error'].iloc[0]}"
        )
    labeled = set(results.per_query[QID])
    failed = results.failures.groupby("system")[QID].agg(set).to_dict()
    for name, system in rankings.items():
        missing = len(labeled - system.qids - failed.get(name, set()))
        if missing:
            texts.append(
                f"{name} lacks {_number(missing, 'query', 'queries')} that have labels; they count "
                "with the worst value of each measure."
            )
    return texts


def _number(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
