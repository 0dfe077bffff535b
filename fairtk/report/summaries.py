"""Results as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairtk.display import Table
from fairtk.display.figures import draw_histogram
from fairtk.display.tables import fitted_lines, html_text
from fairtk.frames import QID
from fairtk.report.evaluation_tables import (
    best_text,
    directions_text,
    mean_texts,
    paragraph,
    with_caption,
)
from fairtk.report.tables import caption_texts, corrected_table, failure_texts
from fairtk.wording import count_text

if TYPE_CHECKING:
    from fairtk.experiment.results import Results


def results_text(results: Results) -> str:
    """Return the means in aligned columns, the best systems, and what to know about the values."""
    table = summary_table(results)
    keys = 1 if results.checked is None else 2
    lines = fitted_lines(table, range(keys, len(table.columns)), keys=keys)
    return with_caption([*lines, *paragraph(table.note)], table.caption)


def results_html(results: Results) -> str:
    """Return the same with a histogram of the values of each system and measure."""
    table = summary_table(results)
    if results.checked is not None:
        return html_text(table)
    padding = [""] * (len(table.columns) - 1 - len(results.measures))  # the column ``failed``
    return html_text(table, [[*row, *padding] for row in histograms(results)])


def summary_table(results: Results) -> Table:
    """Return the means, systems by measures, with the remarks as its caption."""
    groups = results.counts.groupby("measure", sort=False)
    columns = [mean_texts(part) for _, part in groups]
    heads = ["system", *results.measures]
    if len(results.failures):
        heads.append("failed")
        columns.append([str(n) for n in results.means["failed"]])
    rows = [list(row) for row in zip(results.systems, *columns, strict=True)]
    n = results.per_query[QID].nunique() or results.config["queries"]  # no values, no measures
    texts = [directions_text(results), *failure_texts(results), *caption_texts(results)]
    defined = " (with a defined value: in parentheses)" if len(results.undefined) else ""
    n_text = f"n = {count_text(n, 'query', 'queries')}{defined}."
    caption = " ".join([n_text, *filter(None, texts)])
    if results.checked is not None:
        return corrected_table(results)._replace(caption=caption)
    return Table(heads, rows, caption, best_text(results))


def histograms(results: Results) -> list[list[str]]:
    """Return a histogram of the per-query values for each system and measure."""
    by_measure = results.per_query.groupby("measure")["value"]
    low, high = by_measure.min().to_dict(), by_measure.max().to_dict()
    values = dict(iter(results.per_query.groupby(["system", "measure"])["value"]))

    def cell(system: str, measure: str) -> str:
        if math.isnan(low.get(measure, math.nan)):
            return ""
        return draw_histogram(values[system, measure], low[measure], high[measure])

    return [["", *(cell(system, m) for m in results.measures)] for system in results.systems]
