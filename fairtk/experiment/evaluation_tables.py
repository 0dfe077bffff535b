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
from fairtk.frames import QID
from fairtk.report.tables import baseline_table, bias_text

if TYPE_CHECKING:
    from fairtk.experiment import Comparison, Results

LEVEL = 0.05
"""Of the tests against a margin."""


def means_table(results: Results) -> Table:
    """Return the means as a table with a row per run."""
    columns = [_means(part) for _, part in results.counts.groupby("measure", sort=False)]
    n = str(results.config["queries"])
    rows = [[name, n, *cells] for name, *cells in zip(results.systems, *columns, strict=True)]
    header = ["run", "queries", *results.measures]
    return Table(header, rows, " ".join(filter(None, [_remarks(results), results.note])))


def means_text(results: Results) -> str:
    """Return the means in aligned columns: a row per run and measure if a row per run is wide."""
    table = means_table(results)
    lines = aligned_lines(table, range(1, len(table.columns)))
    if max(map(len, lines)) > max(100, shutil.get_terminal_size().columns):
        long = [
            [
                row.system,
                row.measure,
                number_text(row.mean),
                f"{row.n}/{row.n + row.undefined}",
            ]
            for row in results.counts.itertuples()
        ]
        lines = aligned_lines(Table(["run", "measure", "mean", "queries"], long), (2, 3))
    return _with_caption(lines, table.caption)


def queries_text(results: Results) -> str:
    """Return the value of each query as a table: a row per run and query."""
    values = results.per_query["value"].to_numpy()
    values = values.reshape(len(results.systems), len(results.measures), -1)
    qids = results.per_query[QID].tolist()[: values.shape[2]]
    rows = [
        [name, qid, *map(number_text, of_query)]
        for name, of_run in zip(results.systems, values, strict=True)
        for qid, of_query in zip(qids, of_run.T, strict=True)
    ]
    header = ["run", "qid", *results.measures]
    return "\n".join(aligned_lines(Table(header, rows), range(2, len(header))))


def comparison_table(comparison: Comparison, digits: int) -> Table:
    """Return a comparison as a table; its caption says what was tested."""
    settings = comparison.settings
    rows = comparison.table.drop(columns="effect")
    if settings["levels"] and (rows["error_samples"].dropna() == 0).all():  # no run is sampled
        rows = rows.drop(columns=["error_samples", "low_samples", "high_samples"])
    names = comparison.systems * len(comparison.measures)
    rows = rows.assign(run=names)
    options = {name: settings[name] for name in ("test", "correction", "confidence")}
    table = baseline_table(rows, str(comparison.baseline), **options, digits=digits)
    bias = bias_text(comparison.sampling_bias())
    caption = [table.caption, bias, _remarks(comparison), comparison.note]
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


def _means(counts: pd.DataFrame) -> list[str]:
    """Return the cells of one column; the digits stay aligned."""
    ends = [
        f" ({row.n}/{row.n + row.undefined})" if row.undefined else ""
        for row in counts.itertuples()
    ]
    width = max(map(len, ends))
    means = map(number_text, counts["mean"])
    return [mean + end.ljust(width) for mean, end in zip(means, ends, strict=True)]


def _remarks(results: Results) -> str:
    """Return which measures are better when lower."""
    lower = [m for m in results.measures if results.better(m) == "lower"]
    return f"Lower is better: {', '.join(lower)}." if lower else ""


def _with_caption(lines: list[str], caption: str) -> str:
    wrapped = textwrap.wrap(printable(caption), 100)
    return "\n".join([*lines, *([""] if wrapped else []), *wrapped])
