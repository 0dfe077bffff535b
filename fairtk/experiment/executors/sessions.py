"""What an executor is, and how its workers are kept busy."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Protocol

from fairtk.experiment.threads import allowed_threads

Function = Callable[[Mapping[str, Any], Any], Any]
"""Takes stages by key and a task, which says in ``needs`` which of them."""


class WorkerTraceback(Exception):
    """What Python would have printed of an error where it was raised."""


class Session:
    """An executor at work: here, one task after the other, with transformers and backends by
    key.
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
    """An executor at work in other processes, with `room` tasks under way at a time.

    `submit` starts a task; its future gives what `worker.answer` returns.
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
                    error, told = value
                    raise error from WorkerTraceback(f"\n{told}")
                yield running.pop(future), value


class SerialExecutor:
    """Runs tasks here, one by one; a model may use all cores."""

    @property
    def default_threads(self) -> int:
        """All cores, or what OMP_NUM_THREADS says."""
        return allowed_threads()

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[Session]:
        """Give the session; nothing is started, and tasks say their threads themselves."""
        yield Session(stages)

    def __repr__(self) -> str:
        return "SerialExecutor()"


class Executor(Protocol):
    """Runs tasks, somewhere."""

    @property
    def default_threads(self) -> int:
        """Threads of a model where the user says nothing."""

    def open(self, stages: Mapping[str, Any], threads: int) -> AbstractContextManager[Session]:
        """Start work; what was started ends with the block.

        Stages, transformers and backends by key, travel to a worker when it needs them.
        """
