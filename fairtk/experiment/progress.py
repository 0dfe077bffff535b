"""Progress: a bar on a terminal for work that takes more than two seconds, or who listens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

Listener = Callable[[str, int, int], None]
"""Called with a stage's name, how much of it is done, and how much there is."""

_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextlib.contextmanager
def telling(listener: Listener) -> Iterator[None]:
    """Tell a listener how experiments within the block go on, instead of drawing bars."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextlib.contextmanager
def progress_bar(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much more is done; it moves a bar, or tells a listener."""
    from tqdm import tqdm

    listener, done = _listener.get(), 0
    # disable=None: on a terminal only
    shown: Any = True if listener else None
    with tqdm(total=total, desc=what, unit=unit, delay=2, disable=shown, leave=False) as bar:

        def add(number: int) -> None:
            nonlocal done
            done += number
            if listener is None:
                bar.update(number)
            else:
                listener(what, done, total)

        add(0)
        yield add
