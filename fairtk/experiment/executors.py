"""Executors: map a function of `fairtk.experiment.work` over tasks, here or in workers."""

from __future__ import annotations

from typing import Any

from fairtk.errors import NotFoundError, ParameterError
from fairtk.experiment.executors.cluster import DaskExecutor
from fairtk.experiment.executors.processes import ProcessExecutor
from fairtk.experiment.executors.sessions import Executor, SerialExecutor, Session

NAMES = ("serial", "processes", "dask")

__all__ = [
    "DaskExecutor",
    "Executor",
    "NAMES",
    "ProcessExecutor",
    "SerialExecutor",
    "Session",
    "as_executor",
]


def as_executor(given: Any, workers: int | None) -> Executor:
    """Return the executor of a name, or the executor given.

    Args:
        given: ``"serial"``, ``"processes"``, ``"dask"`` or an executor.
        workers: the number of workers; None: one per core.

    Raises:
        NotFoundError: there is no executor of that name.
        ParameterError: the object is none, or workers do not fit it.
    """
    if not isinstance(given, str):
        if not hasattr(given, "open") or not hasattr(given, "default_threads"):
            raise ParameterError(
                f"executor must be one of {list(NAMES)} or an executor; found {given!r}"
            )
        if workers is not None:
            raise ParameterError(
                f"workers={workers!r} does not change an executor that is given as an object; "
                f"say it there: {type(given).__name__}(workers={workers!r})"
            )
        executor: Executor = given
        return executor
    if given == "serial":
        if workers not in (None, 1):
            raise ParameterError(
                f"executor='serial' has one worker; found workers={workers!r}: "
                "executor='processes' has several"
            )
        return SerialExecutor()
    if given == "processes":
        return ProcessExecutor(workers)
    if given == "dask":
        return DaskExecutor(workers)
    raise NotFoundError("executor", given, NAMES)
