"""What plugins print while they are imported is no output: it goes to stderr."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pkgutil
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

from fairtk.starting.interrupts import is_command_line


class _Stdout:
    """Standard output sent to stderr while anybody is within; threads may enter in any order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._undo = contextlib.ExitStack()

    @contextlib.contextmanager
    def to_stderr(self) -> Iterator[None]:
        with self._lock:
            self._within += 1
            if self._within == 1:
                self._undo.enter_context(contextlib.redirect_stdout(sys.stderr))
                if is_command_line():
                    self._undo.enter_context(_file_descriptor())
        try:
            yield
        finally:
            with self._lock:
                self._within -= 1
                if not self._within:
                    self._undo.close()


to_stderr = _Stdout().to_stderr
"""A context: what is printed within goes to stderr.

In the process of the command line that holds for what C code writes, too (file descriptor 1). A
program that imports fairtk keeps its descriptors as they are: only ``sys.stdout`` is exchanged.
"""


@contextlib.contextmanager
def _file_descriptor() -> Iterator[None]:
    if sys.__stdout__ is None or sys.__stderr__ is None:  # closed by who started the process
        yield
        return
    _flush(sys.__stdout__)
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        _flush(sys.__stdout__)
        os.dup2(kept, 1)
        os.close(kept)


def _flush(stdout: TextIO) -> None:
    """Write out what Python and the C library hold back."""
    with contextlib.suppress(OSError):
        stdout.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


def on_terminal(stream: TextIO | None) -> bool:
    """Return whether a person reads `stream`, e.g. ``sys.stderr``; it may be closed, hence None."""
    return stream is not None and stream.isatty()


def load_target(target: str) -> Any:
    """Import ``"package.module:attribute"``, return the attribute; what is printed is no output."""
    with to_stderr():
        return pkgutil.resolve_name(target)
