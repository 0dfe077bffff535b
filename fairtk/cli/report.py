"""How the values of `fairtk evaluate` are printed."""

from __future__ import annotations

import math
import shutil
from typing import Any

import click

from fairtk.cli.evaluation import RunValues, Values
from fairtk.cli.output import echo_csv, echo_json, echo_table, table_lines


def echo_means(values: Values, form: str) -> None:
    """Print the mean of each run and measure, with the number of queries it is over.

    Args:
        values: what was measured.
        form: ``"table"`` (one row per run; one per run and measure if that is too wide),
            ``"csv"`` or ``"json"`` (one record per run and measure).
    """
    if form == "table":
        _echo_mean_table(values)
        return
    columns = ["run", "measure", "mean", "defined", "queries"]
    rows = [
        [run.name, repr(m), run.mean(m), run.defined(m), run.total(m)]
        for run in values.runs
        for m in values.measures
    ]
    (echo_csv if form == "csv" else echo_json)(columns, rows)


def echo_queries(values: Values, form: str) -> None:
    """Print the value of each query.

    Args:
        values: what was measured.
        form: ``"table"`` (one row per run and query), ``"csv"`` or ``"json"`` (one record per run,
            measure and query).
    """
    if form == "table":
        rows = [
            [run.name, qid, *[number(run.values[m][qid]) for m in values.measures]]
            for run in values.runs
            for qid in values.qids
        ]
        header = ["run", "qid", *(heading(values, m) for m in values.measures)]
        echo_table(header, rows, range(2, len(header)))
        return
    columns = ["run", "qid", "measure", "value"]
    records = [
        [run.name, qid, repr(m), run.values[m][qid]]
        for run in values.runs
        for m in values.measures
        for qid in values.qids
    ]
    (echo_csv if form == "csv" else echo_json)(columns, records)


def _echo_mean_table(values: Values) -> None:
    header = ["run", "queries", *(heading(values, m) for m in values.measures)]
    columns = [_means(values.runs, m) for m in values.measures]
    rows = [
        [run.name, str(len(values.qids)), *[column[i] for column in columns]]
        for i, run in enumerate(values.runs)
    ]
    wide = max(map(len, table_lines(header, rows)))
    if wide <= max(100, shutil.get_terminal_size().columns):
        echo_table(header, rows, range(1, len(header)))
    else:
        long = [
            [run.name, heading(values, m), number(run.mean(m)), f"{run.defined(m)}/{run.total(m)}"]
            for run in values.runs
            for m in values.measures
        ]
        echo_table(["run", "measure", "mean", "queries"], long, (2, 3))
    lower = [
        heading(values, m) for m in values.measures if getattr(m, "better", "higher") == "lower"
    ]
    if lower:
        click.echo(f"\nLower is better: {', '.join(lower)}.")


def _means(runs: list[RunValues], measure: Any) -> list[str]:
    """Return the cells of one column; the digits stay aligned."""
    parts = [(run.defined(measure), run.total(measure)) for run in runs]
    counts = [f" ({some}/{every})" if some < every else "" for some, every in parts]
    room = max(map(len, counts))
    return [
        number(run.mean(measure)) + count.ljust(room)
        for run, count in zip(runs, counts, strict=True)
    ]


def heading(values: Values, measure: Any) -> str:
    """Return what a table calls a measure: as written, where options completed it."""
    return values.written.get(measure) or label(measure)


def label(measure: Any) -> str:
    """Return a measure as it is written on the command line: ``E(nDCG@5)``, ``P@5 * EE_R@5``."""
    if hasattr(measure, "inner"):
        return f"{measure.NAME}({label(measure.inner)})"
    if hasattr(measure, "factors"):
        left, right = measure.factors
        tail = f"({label(right)})" if hasattr(right, "factors") else label(right)
        return f"{label(left)} * {tail}"
    return repr(measure)


def number(value: float) -> str:
    """Return a value for a table, or the word for a value that is not defined."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"
