"""Tables on the terminal, and the same rows as CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import click

FORMATS = ("table", "csv", "json")
_PLAIN_WIDTH = 100

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="csv and json have all digits.",
)
"""The option ``--format``, the same for all commands."""


def echo_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows as CSV with a header; numbers with all digits, NaN as ``nan``."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    click.echo(buffer.getvalue(), nl=False)


def echo_json(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows as a JSON array of objects; NaN is null, infinity a string."""
    records = [dict(zip(columns, map(_json_value, row), strict=True)) for row in rows]
    inside = ",\n  ".join(json.dumps(r, ensure_ascii=False, allow_nan=False) for r in records)
    click.echo(f"[\n  {inside}\n]" if records else "[]")


def echo_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> None:
    """Print rows in aligned columns; the last column is wrapped to the terminal.

    Args:
        columns: the header.
        rows: the cells.
        numbers: the columns that are aligned to the right.
    """
    for line in table_lines(columns, rows, numbers, width=_terminal_width()):
        click.echo(line)


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
    width: int | None = None,
) -> list[str]:
    """Return the lines of a table, wrapped to a width if one is given."""
    cells = [list(map(str, columns)), *[list(map(str, row)) for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    before = sum(widths[:-1]) + 2 * len(widths[:-1])
    room = widths[-1] if width is None else max(24, width - before)
    cells.insert(1, ["-" * w for w in [*widths[:-1], min(widths[-1], room)]])
    lines = []
    for row in cells:
        padded = [
            cell.rjust(widths[i]) if i in numbers else cell.ljust(widths[i])
            for i, cell in enumerate(row)
        ]
        last = textwrap.wrap(row[-1], room) if len(row[-1]) > room else [padded[-1]]
        lines.append("  ".join([*padded[:-1], last[0]]).rstrip())
        lines += [" " * before + more for more in last[1:]]
    return lines


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PLAIN_WIDTH


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
