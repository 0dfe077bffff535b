"""The output of the studies' commands: tables and texts of at most 80 columns."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import click

from fairtk.cli import echo_frame
from fairtk.display import Table, fitted_lines, number_text

if TYPE_CHECKING:
    from fairtk_papers import StudyPlan

_WIDTH = 80


def echo_text(text: str) -> None:
    """Print a text in lines of at most 80 columns."""
    click.echo(textwrap.fill(text, _WIDTH))


def echo_table(table: Table, keys: int = 1) -> None:
    """Print a table of at most 80 columns, with its caption.

    Args:
        table: the table.
        keys: the number of columns with names; all columns after them are numbers.
    """
    click.echo("\n".join(fitted_lines(table, range(keys, len(table.columns)), keys)))
    if table.caption:
        echo_text(table.caption)


def echo_plan(plan: StudyPlan, form: str) -> None:
    """Print a plan; the format ``"table"`` also has a row of totals and the note."""
    if form != "table":
        echo_frame(form, plan.rows)
        return
    from fairtk_papers.studies import COUNTS

    columns = [name for name in plan.rows.columns if name != "systems"]
    if rows := plan.rows.to_dict("records"):
        sums = {columns[0]: "all", **{name: plan.total[name] for name in COUNTS}}
        lines = [[_text(name, row.get(name, "")) for name in columns] for row in [*rows, sums]]
        heads = [name.replace("completion", "answer").replace("_", " ") for name in columns]
        numbers = [i for i, name in enumerate(columns) if not isinstance(rows[0][name], str)]
        click.echo("\n".join(fitted_lines(Table(heads, lines), numbers, numbers[0])))
        for row in rows if "systems" in plan.rows else ():
            echo_text(f"{row[columns[0]]}: {row['systems']}")
    echo_text(plan.note)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "unknown"
    return number_text(value) if name == "price" else f"{value:,.0f}"
