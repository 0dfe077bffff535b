"""Tables of evaluated runs and of comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.display import Table
from fairtk.display.tables import fitted_lines, html_text, number_text, wrapped
from fairtk.frames import QID
from fairtk.report.tables import (
    LEVEL,
    NO_TEST,
    baseline_table,
    best_systems,
    bias_text,
    caption_texts,
    corrected_table,
    is_tested,
    marks_of,
)

if TYPE_CHECKING:
    from fairtk.experiment.compare_runs import Comparison
    from fairtk.experiment.results import Results


def means_table(results: Results) -> Table:
    """Return the means as a table with a row per run, with checked labels per measure and run."""
    if results.checked is not None:
        table = corrected_table(results, "run")
        return table._replace(caption=f"{table.caption} {directions_text(results)}".strip())
    columns = [mean_texts(part) for _, part in results.counts.groupby("measure", sort=False)]
    n = str(results.config["queries"])
    rows = [[name, n, *cells] for name, *cells in zip(results.systems, *columns, strict=True)]
    header = ["run", "queries", *results.measures]
    return Table(
        header, rows, " ".join([directions_text(results), *caption_texts(results)]).strip()
    )


def means_text(results: Results) -> str:
    """Return the means in aligned columns, the best runs, and the caption."""
    table = means_table(results)
    keys = 1 if results.checked is None else 2
    lines = fitted_lines(table, range(keys, len(table.columns)), keys=keys)
    return with_caption([*lines, *paragraph(best_text(results))], table.caption)


def best_text(results: Results) -> str:
    """Return one line on the systems with the best means, ``""`` if no means differ."""
    measures: dict[str, list[str]] = {}
    for measure in results.measures:
        best = " and ".join(best_systems(results, measure, 4))
        measures.setdefault(best, []).append(measure)
    parts = [f"{best} in {', '.join(names)}" for best, names in measures.items() if best]
    return f"Best mean: {'; '.join(parts)}." if parts else ""


def significant_text(comparison: Comparison) -> str:
    """Return one line on the runs that differ significantly from the baseline."""
    if not is_tested(comparison.table):
        return f"{NO_TEST}."
    measures: dict[str, list[str]] = {}
    for measure, system in marks_of(comparison.table.rename(columns={"run": "system"})):
        measures.setdefault(system, []).append(measure)
    parts = [f"{system} in {', '.join(names)}" for system, names in measures.items()]
    systems = "; ".join(parts) or "no run"
    return f"Significantly different from {comparison.baseline} (p < {LEVEL}): {systems}."


def queries_text(results: Results) -> str:
    """Return a table of values with a row per run and query."""
    values = results.per_query["value"].to_numpy()
    values = values.reshape(len(results.systems), len(results.measures), -1)
    qids = results.per_query[QID].tolist()[: values.shape[2]]
    rows = [
        [name, qid, *map(number_text, of_query)]
        for name, of_run in zip(results.systems, values, strict=True)
        for qid, of_query in zip(qids, of_run.T, strict=True)
    ]
    header = ["run", "qid", *results.measures]
    return "\n".join(fitted_lines(Table(header, rows), range(2, len(header)), keys=2))


def comparison_table(comparison: Comparison, digits: int) -> Table:
    """Return a comparison as a table, with the test in its caption."""
    settings = comparison.settings
    excluded = ["effect"] if settings["correction"] == "none" else ["effect", "p"]
    rows = comparison.table.drop(columns=excluded)
    if settings["levels"] and (rows["error_samples"].dropna() == 0).all():  # no run is sampled
        rows = rows.drop(columns=["error_samples", "low_samples", "high_samples"])
    options = {name: settings[name] for name in ("test", "correction", "confidence")}
    table = baseline_table(rows, str(comparison.baseline), **options, digits=digits)
    bias = bias_text(comparison.sampling_bias())
    caption = [table.caption, bias, directions_text(comparison), *caption_texts(comparison)]
    if settings["queries"] == "common":
        caption.append("Queries: those with results in all runs.")
    if settings["margin"] is not None:
        caption.append(
            f"Margin: {_margins(settings['margin'])}; p < {LEVEL}: the difference is within it."
        )
    return table._replace(caption=" ".join(filter(None, caption)))


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison in aligned columns, with a line on significant differences."""
    return table_text(comparison_table(comparison, 4), significant_text(comparison))


def comparison_html(comparison: Comparison) -> str:
    """Return a comparison as HTML for a notebook."""
    return html_text(comparison_table(comparison, 4))


def _margins(margin: Any) -> str:
    if not isinstance(margin, Mapping):
        return f"{margin:g}"
    return ", ".join(f"{measure} {value:g}" for measure, value in margin.items())


def plan_table(plan: pd.DataFrame, caption: str, digits: int) -> Table:
    """Return the numbers of queries needed, a row per run and measure.

    Numbers of samples are omitted if no run is sampled.
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
    return "unknown" if math.isnan(queries) else f"{queries:.0f}"


def table_text(table: Table, standout: str = "") -> str:
    """Return a table in aligned columns, a line that summarizes it, and its caption."""
    lines = fitted_lines(table, range(2, len(table.columns)), keys=2)
    return with_caption([*lines, *paragraph(standout)], table.caption)


def mean_texts(counts: pd.DataFrame) -> list[str]:
    """Return the cells of one column with aligned decimals."""
    ends = [
        f" ({row.n}/{row.n + row.undefined})" if row.undefined else ""
        for row in counts.itertuples()
    ]
    width = max(map(len, ends))
    means = map(number_text, counts["mean"])
    return [mean + end.ljust(width) for mean, end in zip(means, ends, strict=True)]


def directions_text(results: Results) -> str:
    """Return the measures whose lower values are better, ``""`` without any."""
    lower = [m for m in results.measures if m.better == "lower"]
    return f"Lower is better: {', '.join(lower)}." if lower else ""


def paragraph(text: str) -> list[str]:
    """Return an empty line and the lines of a text; no lines if it is empty."""
    lines = wrapped(text)
    return ["", *lines] if lines else []


def with_caption(lines: list[str], caption: str) -> str:
    """Return the lines of a table and its caption as a text."""
    return "\n".join([*lines, *paragraph(caption)])
