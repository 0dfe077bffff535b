"""What plugins print while they are imported is no output: it goes to stderr; and Ctrl-C meanwhile.

The command line's script imports the package, which takes most of a second. An exception raised in
an import may be swallowed, or printed from a place where none can be raised; as nothing is under
way that could be lost, the process ends at once. Once a command runs, Ctrl-C is an exception, so
that the command can save what it has. What Python does before the first line of fairtk (its own
start, the script's first imports) is out of reach: there it shows a traceback of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 and the number of the signal, as shells have it."""
SAID = "Aborted."


def is_command_line() -> bool:
    """Return whether this process is the command ``fairtk`` or ``python -m fairtk``."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return False  # a worker has the arguments of who started it
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if sys.argv else ""
    if program not in ("-m", "__main__"):  # before and after Python has found the module
        return program == "fairtk"
    given = sys.orig_argv
    return "-m" in given and given[given.index("-m") + 1 :][:1] == ["fairtk"]


def end_at_once() -> None:
    """Let Ctrl-C end this process, if it is the command line; one that ignores it goes on to."""
    if is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise a KeyboardInterrupt again, as in any Python program."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, f"{SAID}\n".encode())
    os._exit(INTERRUPTED)


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
