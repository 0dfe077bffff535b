"""Standard output during the loading of plugins, and terminals."""

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
    """Redirect prints to stderr; threads may enter and leave in any order."""
    with _lock:
        _before.append(sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _lock:
            sys.stdout = _before.pop()


def on_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; `None` is a closed stream."""
    return stream is not None and stream.isatty()
