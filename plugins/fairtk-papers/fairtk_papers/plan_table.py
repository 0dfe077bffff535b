"""The plan of a study as its command prints it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from fairtk.cli.output import echo_frame, echo_table

if TYPE_CHECKING:
    from fairtk_papers import StudyPlan


def echo_plan(plan: StudyPlan, form: str) -> None:
    """Print a plan; as a table with the sums of what servers are asked, and its note."""
    if form != "table":
        echo_frame(form, plan.rows)
        return
    from fairtk_papers.studies import COUNTS

    columns = list(plan.rows.columns)
    if rows := plan.rows.to_dict("records"):
        sums = {columns[0]: "all", **{name: plan.total[name] for name in COUNTS}}
        lines = [[_text(name, row.get(name, "")) for name in columns] for row in [*rows, sums]]
        numbers = [i for i, name in enumerate(columns) if not isinstance(rows[0][name], str)]
        heads = [name.replace("completion", "answer").replace("_", " ") for name in columns]
        echo_table(heads, lines, numbers)
    click.echo(plan.note)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "unknown"
    return f"{value:.4f}" if name == "price" else f"{value:,.0f}"
