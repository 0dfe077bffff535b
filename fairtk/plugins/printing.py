"""What plugins print while they are imported is no output: it goes to stderr."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO


def is_command_line() -> bool:
    """Return whether this process is the command ``fairtk`` or ``python -m fairtk``."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return False  # a worker has the arguments of who started it
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if sys.argv else ""
    if program not in ("-m", "__main__"):  # before and after Python has found the module
        return program == "fairtk"
    words = sys.orig_argv
    return "-m" in words and words[words.index("-m") + 1 :][:1] == ["fairtk"]


_lock = threading.Lock()
_before: list[TextIO] = []


@contextlib.contextmanager
def to_stderr() -> Iterator[None]:
    """Send what Python prints within to stderr; threads may enter and leave in any order."""
    with _lock:
        _before.append(sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _lock:
            sys.stdout = _before.pop()


def on_terminal(stream: TextIO | None) -> bool:
    """Return whether a person reads `stream`, e.g. ``sys.stderr``; it may be closed, hence None."""
    return stream is not None and stream.isatty()


def load_target(target: str) -> Any:
    """Import ``"package.module:attribute"``, return the attribute; what is printed is no output."""
    with to_stderr():
        return pkgutil.resolve_name(target)
