"""Worker processes of this machine: fresh interpreters."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Any

from fairtk.errors import ParameterError, WorkerError
from fairtk.experiment.executors.sessions import Function, RemoteSession
from fairtk.experiment.executors.worker import to_worker
from fairtk.experiment.threads import VARIABLES, cores
from fairtk.starting.interpreters import ENDED, Interpreter

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Which GPUs a process may use, by CUDA's own variable."""

ATTEMPTS = 3
"""How often a task is given to a worker before its death is taken for the task's fault."""


class ProcessExecutor:
    """Runs tasks in processes of this machine; each loads a model once, with one thread.

    A worker is a fresh interpreter that does not import the user's script, so it works from a
    notebook, from standard input and from a script without a main guard. A worker that dies is
    replaced, and its task tried again. Where there are several GPUs, each worker sees one of them.

    Args:
        workers: the processes; None: one per GPU, or per core where there is none.

    Raises:
        ParameterError: `workers` is no whole number from 1.
    """

    default_threads = 1

    def __init__(self, workers: int | None = None) -> None:
        self.workers = checked_workers(workers, len(gpus()) or None)

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[RemoteSession]:
        """Give the session; processes start with their first task and end with the block."""
        pool = _Pool(stages, threads)
        # a thread per worker waits for it, so that this one can be interrupted
        with ThreadPoolExecutor(self.workers) as waiting:
            try:
                yield RemoteSession(
                    lambda function, task: waiting.submit(pool.run, function, task), self.workers
                )
            finally:
                pool.close()

    def __repr__(self) -> str:
        return f"ProcessExecutor({self.workers})"


def checked_workers(workers: Any, default: int | None = None) -> int:
    """Return the number of workers; None is the default, or else one per core."""
    if workers is None:
        return default or cores()
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ParameterError(f"workers must be an integer from 1; found {workers!r}")
    return workers


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA's own variable names them.

    Nothing of CUDA is asked: that would take memory on each of them.
    """
    said = os.environ.get(VISIBLE)
    if said is None:
        return [str(number) for number in range(len(list(Path("/dev").glob("nvidia[0-9]*"))))]
    # CUDA reads names up to the first that is none
    return list(takewhile(lambda name: name and name != "-1", map(str.strip, said.split(","))))


def gpu_of(worker: int) -> dict[str, str]:
    """Return the variables that give a worker (from 0) one GPU; none if there are not two."""
    found = gpus()
    return {VISIBLE: found[worker % len(found)]} if len(found) > 1 else {}


class _Pool:
    """A worker process for each thread that asks for one."""

    def __init__(self, stages: Mapping[str, Any], threads: int) -> None:
        self.stages = stages
        self.environment = {**os.environ, **dict.fromkeys(VARIABLES, str(threads))}
        self._packed: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._own = threading.local()
        self._numbers = itertools.count()
        self._processes: list[Interpreter] | None = []  # None: no more of them

    def run(self, function: Function, task: Any) -> Any:
        """Return what `worker.answer` gives in this thread's process."""
        own = self._own
        for _ in range(ATTEMPTS):
            if getattr(own, "process", None) is None:
                if not hasattr(own, "number"):
                    own.number = next(self._numbers)
                own.process, own.there = self._started(own.number), set()
            fresh = {key: self._bytes(key) for key in task.needs if key not in own.there}
            try:
                found = own.process.ask((function, task, fresh))
                own.there |= set(fresh)
                return found
            except ENDED:
                own.process = None
        raise WorkerError(
            f"a worker process ended {ATTEMPTS} times over the same task; memory may not suffice: "
            "use fewer workers, a smaller batch_size, or executor='serial', which shows more"
        )

    def close(self) -> None:
        """End all processes; a thread that waits for one sees its output end."""
        with self._lock:
            processes, self._processes = self._processes or [], None
        for process in processes:
            process.end()

    def _bytes(self, key: str) -> bytes:
        with self._lock:
            if key not in self._packed:
                self._packed[key] = to_worker(self.stages[key])
            return self._packed[key]

    def _started(self, number: int) -> Interpreter:
        with self._lock:
            if self._processes is None:
                raise WorkerError("the experiment has ended")
            environment = self.environment | gpu_of(number)
            process = Interpreter("fairtk.experiment.executors.worker:working", env=environment)
            self._processes.append(process)
        return process
