"""Where the output of commands goes: the terminal or a file, in the format that was asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from fairtk.cli.group import COMMAND
from fairtk.errors import printable
from fairtk.files.atomic import atomic_text
from fairtk.files.renderings import RENDERED, Table, aligned_lines

TABLE = "table"
FORMATS = (TABLE, *RENDERED)
_PLAIN_WIDTH = 100

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=TABLE,
    show_default=True,
    help="csv and json have all digits.",
)
"""The option ``--format``, the same for all commands."""

TARGET_HELP = (
    "What exposure is compared with: a target file (columns weight and group, or a column per "
    "crossed attribute; qid if it differs by query), `uniform` (equal shares of all levels), or "
    "`qrels` (the groups of each query's relevant documents)."
)


def said_command() -> str:
    """Return the command line that is carried out, as a shell takes it."""
    return str(click.get_current_context().meta[COMMAND])


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option ``--output FILE``: what the command prints goes there, in one step."""
    option = click.option(
        "--output", type=click.Path(dir_okay=False), help="Write to this file, not the terminal."
    )
    return option(command)


def echo(text: str, output: str | None = None) -> None:
    """Print a text, or write it to a file.

    Control characters are escaped on a terminal; a file or another program gets them as they are.
    """
    if output is not None:
        with atomic_text(Path(output)) as file:
            file.write(text if text.endswith("\n") else text + "\n")
        return
    click.echo(printable(text) if sys.stdout.isatty() else text, nl=not text.endswith("\n"))


def echo_rows(
    form: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], output: str | None = None
) -> None:
    """Print rows in a format other than a table of aligned columns."""
    echo(RENDERED[form](columns, rows), output)


def echo_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
    output: str | None = None,
) -> None:
    """Print rows in aligned columns; the last column is wrapped to the terminal.

    Args:
        columns: the header.
        rows: the cells.
        numbers: the columns that are aligned to the right.
        output: the file, if any.
    """
    echo("\n".join(table_lines(columns, rows, numbers, _terminal_width())), output)


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
    width: int | None = None,
) -> list[str]:
    """Return the lines of a table, control characters escaped, wrapped to a width if given."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    return aligned_lines(Table(list(columns), cells), numbers, width)


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PLAIN_WIDTH
