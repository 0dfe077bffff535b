"""Everything in this process, one task after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairtk.experiment.executors.protocol import Function
from fairtk.experiment.threads import allowed_threads


class SerialExecutor:
    """Runs tasks here, one by one; a model may use all cores."""

    @property
    def default_threads(self) -> int:
        """All cores, or what OMP_NUM_THREADS says."""
        return allowed_threads()

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[_Here]:
        """Give the session; nothing is started."""
        del threads  # the tasks say it themselves
        yield _Here(stages)

    def __repr__(self) -> str:
        return "SerialExecutor()"


class _Here:
    def __init__(self, stages: Mapping[str, Any]) -> None:
        self.stages = stages

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            yield task, function(self.stages, task)
