"""Standard output: what a plugin prints must not go there; who reads it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_lock = threading.Lock()
_before: list[TextIO] = []


@contextmanager
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
