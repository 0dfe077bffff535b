"""Tables of evaluated runs and of comparisons, for people."""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.display import Table
from fairtk.display.tables import aligned_lines, number_text
from fairtk.errors import printable
from fairtk.experiment.evaluate_runs import EvaluatedRuns, RunValues
from fairtk.measures import format_measure
from fairtk.measures.parsing import short_names
from fairtk.report import baseline_table
from fairtk.report.tables import bias_text

if TYPE_CHECKING:
    from fairtk.experiment import Comparison

LEVEL = 0.05
"""Of the tests against a margin."""


def means_table(values: EvaluatedRuns) -> Table:
    """Return the means as a table with a row per run."""
    header = ["run", "queries", *headings(values).values()]
    columns = [_means(values.runs, m) for m in values.measures]
    rows = [
        [run.name, str(len(values.qids)), *[column[i] for column in columns]]
        for i, run in enumerate(values.runs)
    ]
    return Table(header, rows, " ".join(filter(None, [_remarks(values), values.note])))


def means_text(values: EvaluatedRuns) -> str:
    """Return the means in aligned columns: a row per run and measure if a row per run is wide."""
    table = means_table(values)
    lines = aligned_lines(table, range(1, len(table.columns)))
    if max(map(len, lines)) > max(100, shutil.get_terminal_size().columns):
        names = headings(values)
        long = [
            [
                run.name,
                names[m],
                number_text(run.mean(m)),
                f"{run.defined(m)}/{run.total(m)}",
            ]
            for run in values.runs
            for m in values.measures
        ]
        lines = aligned_lines(Table(["run", "measure", "mean", "queries"], long), (2, 3))
    return _with_caption(lines, table.caption)


def queries_text(values: EvaluatedRuns) -> str:
    """Return the value of each query as a table: a row per run and query."""
    rows = [
        [run.name, qid, *[number_text(run.values[m][qid]) for m in values.measures]]
        for run in values.runs
        for qid in values.qids
    ]
    header = ["run", "qid", *headings(values).values()]
    return "\n".join(aligned_lines(Table(header, rows), range(2, len(header))))


def comparison_table(comparison: Comparison, digits: int) -> Table:
    """Return a comparison as a table; its caption says what was tested."""
    runs, measures = comparison.evaluation.runs, comparison.evaluation.measures
    names = [run.name for _ in measures for run in runs]
    heads = {format_measure(m): head for m, head in headings(comparison.evaluation).items()}
    settings = comparison.settings
    rows = comparison.table.drop(columns="effect")
    if settings["levels"] and (rows["error_samples"].dropna() == 0).all():  # no run is sampled
        rows = rows.drop(columns=["error_samples", "low_samples", "high_samples"])
    rows = rows.assign(run=names, measure=rows["measure"].map(heads))
    options = {name: settings[name] for name in ("test", "correction", "confidence")}
    table = baseline_table(rows, comparison.baseline, **options, digits=digits)
    bias = bias_text(comparison.sampling_bias(), heads)
    caption = [table.caption, bias, _remarks(comparison.evaluation), comparison.evaluation.note]
    if settings["queries"] == "common":
        caption.append("Queries: those that all runs have results for.")
    if settings["margin"] is not None:
        caption.append(f"Margin: {_margins(settings['margin'])}; p below {LEVEL}: it is within.")
    return table._replace(caption=" ".join(filter(None, caption)))


def _margins(margin: Any) -> str:
    if not isinstance(margin, Mapping):
        return f"{margin:g}"
    return ", ".join(f"{measure} {value:g}" for measure, value in margin.items())


def plan_table(plan: pd.DataFrame, caption: str, digits: int) -> Table:
    """Return how many queries are needed: a row per run and measure.

    Where no run is sampled, the number of samples changes nothing and is left out.
    """
    keys = ["run", "measure"]
    order = pd.MultiIndex.from_frame(plan[keys].drop_duplicates())
    needed = plan.pivot(index=keys, columns="n_samples", values="queries").loc[order]
    deviation = plan.drop_duplicates(keys)["deviation_queries"]
    heads = [f"queries (n={n:,})" for n in needed.columns]
    if (plan["deviation"] == plan["deviation_queries"]).all():
        needed, heads = needed.iloc[:, :1], ["queries"]
    rows = [
        [*pair, number_text(spread, digits), *map(_count, counts)]
        for pair, spread, counts in zip(order, deviation, needed.to_numpy(), strict=True)
    ]
    return Table([*keys, "deviation", *heads], rows, caption)


def _count(queries: float) -> str:
    return "not known" if math.isnan(queries) else f"{queries:.0f}"


def table_text(table: Table) -> str:
    """Return a table in aligned columns, its caption below."""
    lines = aligned_lines(table, range(2, len(table.columns)))
    return _with_caption(lines, table.caption)


def headings(values: EvaluatedRuns) -> dict[Any, str]:
    """Return what tables call the measures: as they were written, where options completed them,
    else their short names.
    """
    short = short_names([format_measure(m) for m in values.measures])
    return {m: values.written.get(m) or short[format_measure(m)] for m in values.measures}


def _means(runs: list[RunValues], measure: Any) -> list[str]:
    """Return the cells of one column; the digits stay aligned."""
    parts = [(run.defined(measure), run.total(measure)) for run in runs]
    counts = [f" ({some}/{every})" if some < every else "" for some, every in parts]
    room = max(map(len, counts))
    return [
        number_text(run.mean(measure)) + count.ljust(room)
        for run, count in zip(runs, counts, strict=True)
    ]


def _remarks(values: EvaluatedRuns) -> str:
    """Return which measures are better when lower."""
    names = headings(values)
    lower = [name for m, name in names.items() if getattr(m, "better", "higher") == "lower"]
    return f"Lower is better: {', '.join(lower)}." if lower else ""


def _with_caption(lines: list[str], caption: str) -> str:
    wrapped = textwrap.wrap(printable(caption), 100)
    return "\n".join([*lines, *([""] if wrapped else []), *wrapped])
