"""What an executor is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

Function = Callable[[Mapping[str, Any], Any], Any]
"""Takes stages by key and a task, which says in ``needs`` which of them."""


class Session(Protocol):
    """An executor at work."""

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result, as they end.

        Tasks are taken one by one, in the caller's thread, when a worker is free for them.

        Raises:
            WorkerError: workers end again and again over one task.
        """


class Executor(Protocol):
    """Runs tasks, somewhere."""

    @property
    def default_threads(self) -> int:
        """Threads of a model where the user says nothing."""

    def open(self, stages: Mapping[str, Any], threads: int) -> AbstractContextManager[Session]:
        """Start work; what was started ends with the block.

        Args:
            stages: transformers and backends by key; they travel to a worker when it needs them.
            threads: the threads of a model.
        """
