"""Progress: a bar on a terminal for work that takes more than two seconds, or who listens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
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


class ProgressBar:
    """A bar, which nobody sees but on a terminal; or a listener is told.

    Args:
        what: what is done.
        total: how much of it there is.
        unit: one piece of it.
    """

    def __init__(self, what: str, total: int, unit: str) -> None:
        from tqdm import tqdm

        self.what = what
        self.total = total
        self.done = 0
        self.listener = _listener.get()
        # disable=None: on a terminal only
        shown: Any = True if self.listener else None
        self._bar = tqdm(total=total, desc=what, unit=unit, delay=2, disable=shown, leave=False)
        self.add(0)

    def add(self, number: int) -> None:
        """Say that so much more is done."""
        self.done += number
        if self.listener is None:
            self._bar.update(number)
        else:
            self.listener(self.what, self.done, self.total)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
