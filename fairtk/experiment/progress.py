"""Progress: a bar on a terminal, for work that takes more than two seconds."""

from __future__ import annotations

from types import TracebackType


class ProgressBar:
    """A bar; nothing is shown where no one looks.

    Args:
        what: what is done.
        total: how much of it there is.
        unit: one piece of it.
    """

    def __init__(self, what: str, total: int, unit: str) -> None:
        from tqdm import tqdm

        # disable=None: on a terminal only
        self._bar = tqdm(total=total, desc=what, unit=unit, delay=2, disable=None, leave=False)

    def add(self, number: int) -> None:
        """Say that so much more is done."""
        self._bar.update(number)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
