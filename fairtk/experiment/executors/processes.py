"""Worker processes of this machine: fresh interpreters that are spoken to through pipes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairtk.errors import ParameterError, WorkerError
from fairtk.experiment.executors.protocol import Function
from fairtk.experiment.executors.travel import to_worker
from fairtk.experiment.executors.worker import read_message, write_message
from fairtk.experiment.threads import VARIABLES, cores

ATTEMPTS = 3
"""How often a task is given to a worker before its death is taken for the task's fault."""

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fairtk.experiment.executors.worker import main; main()"
)
_NOTHING = object()


class ProcessExecutor:
    """Runs tasks in processes of this machine; each loads a model once, with one thread.

    A worker is a fresh interpreter that does not import the user's script, so it works from a
    notebook, from standard input and from a script without a main guard. A worker that dies is
    replaced, and its task tried again.

    Args:
        workers: the processes; None: one per core.

    Raises:
        ParameterError: `workers` is no whole number from 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = checked_workers(workers)

    @property
    def default_threads(self) -> int:
        """One."""
        return 1

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[_Pool]:
        """Give the session; processes start with their first task and end with the block."""
        pool = _Pool(stages, self.workers, threads)
        try:
            yield pool
        finally:
            pool.close()

    def __repr__(self) -> str:
        return f"ProcessExecutor({self.workers})"


def checked_workers(workers: Any) -> int:
    """Return the number of workers; None is one per core.

    Raises:
        ParameterError: it is no whole number from 1.
    """
    if workers is None:
        return cores()
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ParameterError(f"workers must be an integer from 1; found {workers!r}")
    return workers


class _Pool:
    def __init__(self, stages: Mapping[str, Any], workers: int, threads: int) -> None:
        packed = _Packed(stages)
        self.workers = [_Worker(packed, threads) for _ in range(workers)]

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        left = iter(tasks)
        free = list(self.workers)
        ended: queue.Queue[tuple[_Worker, Any, Any]] = queue.Queue()
        busy = 0
        while True:
            while free:
                task = next(left, _NOTHING)
                if task is _NOTHING:
                    break
                busy += 1
                call = (free.pop(), function, task, ended)
                # a thread per call waits for the worker, so that this one can be interrupted
                threading.Thread(target=_call, args=call, daemon=True).start()
            if not busy:
                return
            worker, task, result = ended.get()
            busy -= 1
            free.append(worker)
            if isinstance(result, Exception):
                raise result
            value, said = result
            for category, text in said:
                warnings.warn(text, category, stacklevel=2)
            yield task, value

    def close(self) -> None:
        for worker in self.workers:
            worker.end()


def _call(worker: _Worker, function: Function, task: Any, ended: queue.Queue[Any]) -> None:
    try:
        result: Any = worker.run(function, task)
    except Exception as error:
        result = error
    ended.put((worker, task, result))


class _Packed:
    """Stages as bytes, each packed once, when it is first needed."""

    def __init__(self, stages: Mapping[str, Any]) -> None:
        self.stages = stages
        self._bytes: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def __getitem__(self, key: str) -> bytes:
        with self._lock:
            if key not in self._bytes:
                self._bytes[key] = to_worker(self.stages[key])
            return self._bytes[key]


class _Worker:
    """One process, which is started when there is something to do."""

    def __init__(self, packed: _Packed, threads: int) -> None:
        self.packed = packed
        self.threads = threads
        self.process: subprocess.Popen[bytes] | None = None
        self.ended = False
        self.there: set[str] = set()

    def run(self, function: Function, task: Any) -> tuple[Any, list[Any]]:
        """Return a task's result and the warnings that came with it.

        Raises:
            WorkerError: the process died over the task again and again.
        """
        for _ in range(ATTEMPTS):
            if self.ended:
                break
            try:
                kind, value, said = self._ask(function, task)
            except (EOFError, BrokenPipeError, ConnectionResetError, ValueError):
                self._stop()
                continue
            if kind == "failed":
                raise value
            return value, said
        raise WorkerError(
            f"a worker process ended {ATTEMPTS} times over the same task; memory may not suffice: "
            "use fewer workers, a smaller batch_size, or executor='serial', which shows more"
        )

    def _ask(self, function: Function, task: Any) -> Any:
        process: Any = self._started()
        fresh = {key: self.packed[key] for key in task.needs if key not in self.there}
        write_message(process.stdin, (function, task, fresh))
        self.there |= set(fresh)
        return read_message(process.stdout)

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **dict.fromkeys(VARIABLES, str(self.threads))},
                # Ctrl-C is for the parent, which ends its workers in order
                start_new_session=True,
            )
        return self.process

    def _stop(self) -> None:
        process, self.process = self.process, None
        self.there = set()
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def end(self) -> None:
        """End the process for good; a thread that waits for it sees its output end."""
        self.ended = True
        self._stop()
