"""Results as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from fairtk.display import Table
from fairtk.display.figures import draw_histogram
from fairtk.display.tables import aligned_lines, as_texts, html_text
from fairtk.report.tables import caption_texts, corrected_table

if TYPE_CHECKING:
    from fairtk.experiment.results import Results

_WIDEST = 100
"""The maximum width of means by measure; wider tables have a row per system and measure."""


def results_text(results: Results) -> str:
    """Return the means in aligned columns, and the remarks."""
    table = summary_table(results)
    lines = aligned_lines(table, numbers=range(1, len(table.columns)))
    if results.checked is None and max(map(len, lines)) > _WIDEST:
        long = results.counts[["system", "measure", "mean", "n"]]
        lines = aligned_lines(as_texts(long), numbers=(2, 3))
    lines += textwrap.wrap(table.caption, _WIDEST, break_long_words=False)
    return "\n".join(lines)


def results_html(results: Results) -> str:
    """Return the means with a histogram of the values of each system and measure."""
    table = summary_table(results)
    if results.checked is not None:
        return html_text(table)
    padding = [""] * (len(table.columns) - 1 - len(results.measures))  # the column ``failed``
    return html_text(table, [[*row, *padding] for row in histograms(results)])


def summary_table(results: Results) -> Table:
    """Return the means, with the remarks as its caption."""
    caption = " ".join(summary_texts(results))
    if results.checked is not None:
        return corrected_table(results)._replace(caption=caption)
    return as_texts(results.means.reset_index(), caption)


def summary_texts(results: Results) -> list[str]:
    """Return the texts on undefined values, failed queries, and remarks."""
    texts = []
    counts = results.counts
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        numbers = ", ".join(
            f"{s}: {u}" for s, u in zip(part["system"], part["undefined"], strict=True)
        )
        if len(part) == len(results.systems) and part["undefined"].nunique() == 1:
            numbers = str(part["undefined"].iloc[0])
        texts.append(f"Queries excluded because {measure} is undefined: {numbers}.")
    if len(results.failures):
        texts.append(
            "Failed queries get the worst value of each measure; with a save_dir, the next run "
            "retries them."
        )
    return [*texts, *caption_texts(results)]


def histograms(results: Results) -> list[list[str]]:
    """Return a histogram of the per-query values for each system and measure."""
    by_measure = results.per_query.groupby("measure")["value"]
    low, high = by_measure.min().to_dict(), by_measure.max().to_dict()
    values = dict(iter(results.per_query.groupby(["system", "measure"])["value"]))

    def cell(system: str, measure: str) -> str:
        if (system, measure) not in values:
            return ""
        return draw_histogram(values[system, measure], low[measure], high[measure])

    return [["", *(cell(system, m) for m in results.measures)] for system in results.systems]
