"""What an executor is, and how its workers are kept busy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Protocol

Function = Callable[[Mapping[str, Any], Any], Any]
"""Takes stages by key and a task, which says in ``needs`` which of them."""


class Session:
    """An executor at work: here, one task after the other.

    Args:
        stages: transformers and backends by key.
    """

    def __init__(self, stages: Mapping[str, Any]) -> None:
        self.stages = stages

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result, as they end.

        Tasks are taken one by one, in the caller's thread, when a worker is free for them.

        Raises:
            WorkerError: workers end again and again over one task.
        """
        for task in tasks:
            yield task, function(self.stages, task)


class RemoteSession(Session):
    """An executor at work in other processes.

    Args:
        submit: starts a task; its future gives what `worker.answer` returns.
        room: how many tasks are under way at a time.
    """

    def __init__(self, submit: Callable[[Function, Any], Future[Any]], room: int) -> None:
        self.submit = submit
        self.room = room

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result, as they end, and warn of what was warned of there."""
        left = iter(tasks)
        running: dict[Future[Any], Any] = {}
        while True:
            for task in islice(left, self.room - len(running)):
                running[self.submit(function, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                kind, value, said = future.result()
                for category, text in said:
                    warnings.warn(text, category, stacklevel=2)
                if kind == "failed":
                    raise value
                yield running.pop(future), value


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
