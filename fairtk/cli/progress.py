"""How far the reading of a long file is: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import click

AFTER = 1.0
"""Seconds until a bar is shown: most files are read before."""


@contextlib.contextmanager
def reading_bar(
    path: str | PathLike[str], clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while a file is read; yield what is told the bytes that were read.

    Args:
        path: the file.
        clock: gives the time in seconds.
    """
    began = clock()
    bar: Any = None

    def told(position: int) -> None:
        nonlocal bar
        if bar is None:
            if clock() - began < AFTER:
                return
            size, label = os.path.getsize(path), f"reading {Path(path).name}"
            bar = click.progressbar(length=size, label=label, file=sys.stderr)
        bar.update(position - bar.pos)

    try:
        yield told
    finally:
        if bar is not None:
            bar.render_finish()
