"""Print or write the output of commands; progress bars for files."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import click

from fairtk.plugins.streams import on_terminal
from fairtk.wording import printable

TABLE = "table"
STDIN = STDOUT = "-"
COMMAND = "fairtk.command"
"""The key of the running command line in click's context."""
_PLAIN_WIDTH = 100


def command_line() -> str:
    """Return the running command line, quoted for a shell."""
    return str(click.get_current_context().meta[COMMAND])


def echo(text: str | Sequence[str], output: str | None = None) -> None:
    """Print a text or lines, or write them to a file (``-`` for standard output).

    Control characters are escaped only on a terminal.
    """
    if not isinstance(text, str):
        text = "\n".join(text)
    if output in (None, STDOUT):
        click.echo(printable(text) if on_terminal(sys.stdout) else text, nl=not text.endswith("\n"))
        return
    from fairtk.io.atomic import atomic_text

    with atomic_text(Path(str(output))) as file:
        file.write(text if text.endswith("\n") else text + "\n")


def echo_file(write: Callable[[Path], object], output: str) -> None:
    """Write a file; for ``-`` print its text."""
    if output != STDOUT:
        write(Path(output))
        return
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "file")
        write(file)
        echo(file.read_text(encoding="utf-8"))


def show(
    text: str | Sequence[str], table: Any, form: str = TABLE, output: str | None = None
) -> None:
    """Print a result: as text, or its table (a frame or a `Table`) in another format."""
    from fairtk.display import Table
    from fairtk.display.tables import TEXTS

    if form == TABLE:
        echo(text, output)
    elif isinstance(table, Table) and form in TEXTS:
        echo(TEXTS[form](table), output)
    else:
        echo_frame(form, table, output)


def wrapped_below(text: str) -> list[str]:
    """Return a table and its notes as lines, with the notes wrapped to 80 columns."""
    from fairtk.display.tables import WIDTH

    table, _, below = text.partition("\n\n")
    return [table, "", *(textwrap.fill(line, WIDTH) for line in below.splitlines())]


def echo_frame(form: str, frame: Any, output: str | None = None) -> None:
    """Print a frame; csv and json have all digits, a table has four decimals."""
    from fairtk.display.tables import RENDERED, frame_rows

    if form == TABLE:
        echo(frame_lines(frame), output)
    else:
        echo(RENDERED[form](list(frame.columns), frame_rows(frame)), output)


def frame_lines(frame: Any, digits: int = 4) -> list[str]:
    """Return a frame in aligned columns, numbers to the right; wrap the last one."""
    from fairtk.display.tables import frame_lines

    return frame_lines(frame, digits, _width())


def wrapped_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> list[str]:
    """Return rows in aligned columns, `numbers` to the right; wrap the last one."""
    from fairtk.display import Table
    from fairtk.display.tables import aligned_lines

    return aligned_lines(Table(list(columns), [list(row) for row in rows]), numbers, _width())


def wrapped_on_terminal(text: str, indent: str) -> list[str]:
    """Return a sentence as lines that fit a terminal; as one line for a pipe or a file."""
    if not on_terminal(sys.stdout):
        return [text]
    width = min(_PLAIN_WIDTH, _width())
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _width() -> int:
    return shutil.get_terminal_size().columns if on_terminal(sys.stdout) else _PLAIN_WIDTH


AFTER = 1.0
"""Seconds until a bar appears: most files are read before."""


@contextlib.contextmanager
def reading_bar(path: str | PathLike[str]) -> Iterator[Callable[[int], object]]:
    """Show a progress bar on stderr while a file is read; yield its update function."""
    from tqdm import tqdm

    size, label = os.path.getsize(path), f"reading {Path(path).name}"
    with tqdm(total=size, desc=label, unit="B", unit_scale=True, delay=AFTER) as bar:
        yield lambda position: bar.update(position - bar.n)
