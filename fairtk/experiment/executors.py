"""Executors: run tasks in this process, in worker processes, or on a cluster."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import os
import pickle
import platform
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from fairtk import checks, stage_context
from fairtk.errors import (
    FairtkError,
    MissingExtraError,
    NotFoundError,
    ParameterError,
    StageError,
    WorkerError,
)
from fairtk.experiment.work import (
    VARIABLES,
    allowed_threads,
    error_line,
    from_parent,
    text_of,
    to_worker,
)
from fairtk.interpreters import ENDED, Interpreter, cores
from fairtk.wording import short

Function = Callable[[Mapping[str, Any], Any], Any]
"""A function that runs a task; it gets the stages of ``task.needs`` by key, and the task."""


class WorkerWarning(NamedTuple):
    """A warning in a worker, with the arguments of `warnings.warn_explicit`."""

    message: str
    category: type[Warning]
    filename: str
    lineno: int


class WorkerTraceback(Exception):
    """The traceback of an error in a worker.

    Attributes:
        reason: the cause of the error, or `None`.
    """

    reason: Exception | None = None


class Session:
    """A running executor; this one runs tasks one by one in this process."""

    def __init__(self, stages: Mapping[str, Any]) -> None:
        self.stages = stages

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result, in order of completion.

        Tasks are taken one by one, in the caller's thread, when a worker is free.

        Raises:
            WorkerError: a task ended several workers.
        """
        for task in tasks:
            yield task, function(self.stages, task)


class RemoteSession(Session):
    """An executor that runs ``capacity()`` tasks at a time in other processes.

    `submit` starts a task; its future has the result of `answer`. The capacity is updated when a
    task ends, and each second, because workers may join and leave. A task that needs one of the
    stages `here` runs in the caller's thread.
    """

    def __init__(
        self,
        submit: Callable[[Function, Any], Future[Any]],
        capacity: Callable[[], int],
        stages: Mapping[str, Any] | None = None,
        here: Collection[str] = (),
    ) -> None:
        super().__init__(stages or {})
        self.submit = submit
        self.capacity = capacity
        self._issued: set[WorkerWarning] = set()
        self.here = frozenset(here)

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result, in order of completion.

        Each distinct warning of the workers is issued once.
        """
        pending = iter(tasks)
        running: dict[Future[Any], Any] = {}
        while True:
            n_here = 0
            for task in islice(pending, max(0, self.capacity() - len(running))):
                if self.here and self.here.intersection(task.needs):
                    n_here += 1
                    yield task, function(self.stages, task)
                else:
                    running[self.submit(function, task)] = task
            if not running and not n_here:
                return
            for future in wait(running, 1, FIRST_COMPLETED).done:
                kind, value, worker_warnings = future.result()
                for warning in worker_warnings:
                    if warning not in self._issued:
                        self._issued.add(warning)
                        warnings.warn_explicit(*warning)
                if kind == "failed":
                    error, traceback_text, reason = value
                    trace = WorkerTraceback(f"\n{traceback_text}")
                    trace.reason = reason
                    raise error from trace
                yield running.pop(future), value


class SerialExecutor:
    """Runs tasks one by one in this process; a model may use all cores."""

    @property
    def default_threads(self) -> int:
        """OMP_NUM_THREADS, or the number of cores."""
        return allowed_threads()

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[Session]:
        """Yield a session; nothing is started, and tasks limit their threads."""
        yield Session(stages)

    def __repr__(self) -> str:
        return "SerialExecutor()"


class Executor(Protocol):
    """Runs tasks."""

    @property
    def default_threads(self) -> int:
        """The default number of threads per model."""

    def open(self, stages: Mapping[str, Any], threads: int) -> AbstractContextManager[Session]:
        """Start a session, which ends with the block.

        Stages (transformers and models by key) are sent to a worker when it needs them.
        """


def make_worker() -> Callable[[tuple[Function, Any, Mapping[str, bytes]]], tuple[str, Any, Any]]:
    """Return the function that a worker calls for each task and its new stages."""
    stages: dict[str, Any] = {}

    def work(call: tuple[Function, Any, Mapping[str, bytes]]) -> tuple[str, Any, Any]:
        function, task, fresh = call
        try:
            stages.update({key: _stage(task, key, data) for key, data in fresh.items()})
        except Exception as error:
            return "failed", make_picklable(error), []
        return answer(function, stages, task)

    return work


def _stage(task: Any, key: str, data: bytes) -> Any:
    """Return a stage of a task from its bytes."""
    try:
        return from_parent(data)
    except (Exception, SystemExit) as error:
        line = f"{task.who(key)} cannot be loaded in a worker: {error_line(error)}"
        raise (_ours(error, line) or WorkerError(line)) from error


def answer(function: Function, stages: Mapping[str, Any], task: Any) -> tuple[str, Any, Any]:
    """Return the result or the error of a task, and its distinct warnings, as data."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kind, value = "done", function(stages, task)
        except Exception as error:
            kind, value = "failed", make_picklable(error)
        except SystemExit as error:  # otherwise it looks as if the worker was killed
            who = ", ".join(getattr(error, "__notes__", ["a task"]))
            exit_error = StageError(f"{who} called sys.exit({error.code!r}) in a worker")
            kind, value = "failed", make_picklable(exit_error)
    raised = (WorkerWarning(str(w.message), w.category, w.filename, w.lineno) for w in caught)
    return kind, value, list(map(_picklable, dict.fromkeys(raised)))


def _picklable(warning: WorkerWarning) -> WorkerWarning:
    """Return the warning, in the class `UserWarning` if its class cannot be pickled."""
    try:
        pickle.dumps(warning)
    except Exception:  # the code of a class that cannot be pickled raises anything
        return warning._replace(category=UserWarning)
    return warning


def make_picklable(error: Exception) -> tuple[Exception, str, Exception | None]:
    """Return an error that can be pickled, its traceback, and its cause."""
    cause = error.__cause__
    reason = _pickled(cause) if isinstance(cause, Exception) else None
    return _pickled(error), "".join(traceback.format_exception(error)), reason


def _pickled(error: Exception) -> Exception:
    """Return the error, or its message in a class of fairtk if it cannot be pickled."""
    with contextlib.suppress(Exception):  # some classes cannot be unpickled
        if str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    text = text_of(error)
    text = text if isinstance(error, FairtkError) else f"{type(error).__name__}: {text}"
    return _ours(error, text) or FairtkError(text)


def _ours(error: BaseException, text: str) -> Exception | None:
    """Return an error of the same class of fairtk with a new message; `None` for other classes."""
    for cls in type(error).__mro__:
        if cls.__module__ == FairtkError.__module__ and "__init__" not in vars(cls):
            plain: Exception = cls(text)
            return plain
    return None


VISIBLE = "CUDA_VISIBLE_DEVICES"
"""CUDA's variable for the GPUs of a process."""

ATTEMPTS = 3
"""The number of workers that a task may end before it fails."""


class ProcessExecutor:
    """Runs tasks in processes on this machine; each loads a model once and uses one thread.

    It works in notebooks and in scripts without a main guard. A worker that dies is replaced, and
    its task is retried. If there are several GPUs, each worker uses one of them.

    Args:
        workers: the number of processes; `None` for one per GPU, or per core without GPUs.

    Raises:
        ParameterError: `workers` is not an integer of at least 1.
    """

    default_threads = 1

    def __init__(self, workers: int | None = None) -> None:
        self.workers = checked_workers(workers, len(gpus()) or None)

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[RemoteSession]:
        """Yield a session; processes start with their first task and end with the block."""
        pool = _Pool(stages, threads)
        # one waiting thread per worker, so that this thread can be interrupted
        with ThreadPoolExecutor(self.workers) as waiting:
            try:
                yield RemoteSession(
                    lambda function, task: waiting.submit(pool.run, function, task),
                    lambda: self.workers,
                )
            finally:
                pool.close()

    def __repr__(self) -> str:
        return f"ProcessExecutor({self.workers})"


def checked_workers(workers: Any, default: int | None = None) -> int:
    """Check the number of workers; `None` for the default, or one per core."""
    if workers is None:
        return default or cores()
    return checks.integer("workers", workers)


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as in CUDA's variable.

    This does not call CUDA, which would allocate memory on each GPU.
    """
    names = os.environ.get(VISIBLE)
    if names is None:
        return [str(number) for number in range(len(list(Path("/dev").glob("nvidia[0-9]*"))))]
    # CUDA reads names up to the first invalid one
    return list(takewhile(lambda name: name and name != "-1", map(str.strip, names.split(","))))


def gpu_of(worker: int) -> dict[str, str]:
    """Return the variables that assign a GPU to a worker, empty for fewer than two GPUs."""
    devices = gpus()
    return {VISIBLE: devices[worker % len(devices)]} if len(devices) > 1 else {}


class _Pool:
    def __init__(self, stages: Mapping[str, Any], threads: int) -> None:
        self.stages = stages
        self.environment = {**os.environ, **dict.fromkeys(VARIABLES, str(threads))}
        self._packed: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._local = threading.local()
        self._numbers = itertools.count()
        self._processes: list[Interpreter] | None = []  # None once the pool is closed

    def run(self, function: Function, task: Any) -> Any:
        """Return the result of `answer` in the process of this thread."""
        local = self._local
        for _ in range(ATTEMPTS):
            if getattr(local, "process", None) is None:
                if not hasattr(local, "number"):
                    local.number = next(self._numbers)
                local.process, local.loaded = self._started(local.number), set()
            fresh = {key: self._bytes(key) for key in task.needs if key not in local.loaded}
            try:
                outcome = local.process.ask((function, task, fresh))
                local.loaded |= set(fresh)
                return outcome
            except ENDED:
                local.process = None
        raise WorkerError(
            f"a task ended {ATTEMPTS} worker processes, maybe for lack of memory; use fewer "
            "workers, a smaller batch_size, or executor='serial' for details"
        )

    def close(self) -> None:
        """End all processes and the threads that wait for them."""
        with self._lock:
            processes, self._processes = self._processes or [], None
        for process in processes:
            process.interrupt()
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
            process = Interpreter("fairtk.experiment.executors:make_worker", env=environment)
            self._processes.append(process)
        return process


class DaskExecutor:
    """Runs tasks on a Dask cluster; each worker process loads a model once and uses one thread.

    Workers need this version of fairtk, the packages of the pipelines, and the models and indexes
    at the same paths; only the calling process uses the store. Workers may join and leave: tasks of
    dead workers are run again, and the experiment waits while there is no worker. The calling
    process calls paid models, and runs the stages that use them. A worker runs one task at a time,
    however many threads it has. Assign a GPU to each ``dask worker`` with CUDA_VISIBLE_DEVICES; on
    one machine, use ``"processes"``. The extra ``dask`` is required.

    Args:
        scheduler: a running cluster, e.g. on SLURM or Kubernetes: its address, e.g.
            ``"tcp://10.0.0.1:8786"``; the path of its scheduler file, ``"….json"``; a
            ``distributed.Client``, which stays open; or a cluster object.

    Raises:
        ParameterError: the scheduler is missing or invalid.
        MissingExtraError: distributed is not installed.
    """

    default_threads = 1

    def __init__(self, scheduler: Any = None) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise MissingExtraError("distributed", "dask", "executor='dask'") from None
        is_valid = isinstance(scheduler, str | os.PathLike) or hasattr(scheduler, "scheduler_info")
        if not is_valid or getattr(scheduler, "asynchronous", False):
            raise ParameterError(
                "scheduler must be the address of a Dask scheduler, the path of a scheduler file, "
                f"or a client or cluster that is not asynchronous, got {short(scheduler)}; on one "
                "machine, use executor='processes'"
            )
        self.scheduler = scheduler

    @contextlib.contextmanager
    def open(
        self, stages: Mapping[str, Any], threads: int, here: Collection[str] = ()
    ) -> Iterator[RemoteSession]:
        """Yield a session; the cluster stays open.

        Tasks that need a stage of the keys `here` run in this process.

        Raises:
            WorkerError: the scheduler is unreachable.
        """
        with contextlib.ExitStack() as stack:
            cluster = _ClusterStages(self._client(stack), stages)
            waiting = stack.enter_context(ThreadPoolExecutor(_MOST_TASKS))
            stack.callback(cluster.close)
            yield RemoteSession(
                lambda function, task: waiting.submit(cluster.run, function, task),
                cluster.capacity,
                stages,
                here,
            )

    def _client(self, stack: contextlib.ExitStack) -> Any:
        from distributed import Client

        scheduler: Any = self.scheduler
        if isinstance(scheduler, Client):
            if scheduler.status != "running":
                raise WorkerError(
                    f"expected a running Dask client, got {scheduler!r} ({scheduler.status})"
                )
            return scheduler
        settings = {"address": scheduler}
        if str(scheduler).endswith(".json"):
            if not Path(scheduler).is_file():
                raise WorkerError(
                    f"missing scheduler file {scheduler}; start a scheduler with `dask scheduler "
                    "--scheduler-file`"
                )
            settings = {"scheduler_file": str(scheduler)}
        try:
            client = cast(Any, Client)(**settings, set_as_default=False, timeout=30)
            return stack.enter_context(client)
        except (OSError, ValueError) as error:
            raise WorkerError(
                f"no Dask scheduler at {self.scheduler} ({error}); start one, or use "
                "executor='processes' on one machine"
            ) from error

    def __repr__(self) -> str:
        address = self.scheduler
        if not isinstance(address, str | os.PathLike):
            client = getattr(address, "scheduler", None)  # `None` once it is closed
            other = getattr(client, "address", address)
            address = getattr(address, "scheduler_address", None) or other
        return f"DaskExecutor(scheduler={str(address)!r})"


_MOST_TASKS = 2**12  # running at a time, each with a waiting thread
_LARGE = 2**20  # bytes; larger tasks are scattered instead of sent with the graph
_PATIENCE = 30.0  # seconds without a worker until a message


class _ClusterStages:
    """The stages on a cluster, each sent once, and again if its holders died."""

    def __init__(self, client: Any, stages: Mapping[str, Any]) -> None:
        self.client = client
        self.address = client.scheduler.address
        self.stages = stages
        self.names: set[str] = set()
        self._packed: dict[str, tuple[str, bytes]] = {}
        self._scattered: dict[str, tuple[str, Any]] = {}
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._ended = False
        self._has_lost_stages = False  # all workers with the stages of a task died
        self._workers, self._checked, self._last_worker = 0, -1.0, time.monotonic()

    def run(self, function: Function, task: Any) -> Any:
        """Return the result of `run_in_worker`.

        The scheduler moves the task of a dead worker to another one. If that worker was the only
        one with the bytes of a stage, the scheduler cancels the task, which is then sent again.
        """
        from distributed import KilledWorker

        from fairtk import __version__

        data = pickle.dumps((function, task))
        for _ in range(ATTEMPTS):
            stages = {key: self._stage(key) for key in task.needs}
            payload = self._scatter(data, False) if len(data) > _LARGE else data
            future = self.client.submit(run_in_worker, __version__, payload, stages, pure=False)
            self._running.add(future)
            try:
                return future.result()
            except CancelledError:
                if self._ended:
                    raise
                self._forget(stages)
            except KilledWorker as error:
                raise WorkerError(_killed(str(error))) from error
            except Exception as error:  # errors of tasks are data, so this is one of Dask
                raise WorkerError(
                    f"a worker of the Dask cluster cannot run a task ({type(error).__name__}: "
                    f"{error}); install fairtk {__version__} and the packages of the pipelines"
                ) from error
            finally:
                self._running.discard(future)
        raise WorkerError(_killed(f"{ATTEMPTS} times all workers with its stages"))

    def capacity(self) -> int:
        """Return the number of tasks to submit: a running and a waiting one per worker."""
        return min(_MOST_TASKS, 2 * max(1, self._alive()))

    def close(self) -> None:
        """Cancel running tasks, and remove the stages from the cluster."""
        self._ended = True
        with contextlib.suppress(Exception):  # the scheduler or the client may be closed
            self.client.cancel(list(self._running))
            # does not wait for workers that do not respond
            self.client.run(unload, self.names, on_error="ignore", callback_timeout=5)

    def _alive(self) -> int:
        """Return the number of workers, updated each second; print a line while it is 0."""
        now = time.monotonic()
        if now >= self._checked + 1:
            self._checked = now
            try:
                self._workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
            except (OSError, KeyError):  # raised once the client stops reconnecting
                raise self._scheduler_error() from None
            if self._workers:
                self._last_worker = now
            elif now > self._last_worker + _PATIENCE:
                self._last_worker = math.inf  # print once
                line = f"the Dask scheduler at {self.address} has no workers: waiting for one"
                if self._has_lost_stages:
                    line += " (the last ones ended in a task, maybe for lack of memory)"
                print(line, file=sys.stderr, flush=True)
        return self._workers

    def _scheduler_error(self) -> WorkerError:
        return WorkerError(
            f"lost the Dask scheduler at {self.address}; results are kept in save_dir, so run "
            "again with another scheduler"
        )

    def _stage(self, key: str) -> tuple[str, Any]:
        """Return the name of a stage on the cluster, and the future of its bytes."""
        with self._lock:
            if key not in self._packed:
                data = to_worker(self.stages[key])
                name = hashlib.blake2b(data, digest_size=16).hexdigest()
                self._packed[key] = name, data
                self.names.add(name)
            if key not in self._scattered:
                name, data = self._packed[key]
                self._scattered[key] = name, self._scatter(data, broadcast=True)
            return self._scattered[key]

    def _forget(self, stages: Mapping[str, tuple[str, Any]]) -> None:
        with self._lock:
            self._has_lost_stages = True
            for key, stage in stages.items():
                if self._scattered.get(key) is stage:  # otherwise another thread has sent it again
                    del self._scattered[key]

    def _scatter(self, data: bytes, broadcast: bool) -> Any:
        for attempt in range(ATTEMPTS):
            while not self._ended and not self._alive():
                time.sleep(0.2)
            if self._ended:
                raise CancelledError
            try:
                return self.client.scatter(data, hash=False, broadcast=broadcast)
            except (RuntimeError, AttributeError):  # the client is closed
                raise self._scheduler_error() from None
            except OSError as error:  # the worker has just died
                if attempt == ATTEMPTS - 1:
                    raise WorkerError(f"cannot send data to the Dask cluster ({error})") from error
                time.sleep(1)


def _killed(how: str) -> str:
    return (
        f"a task ended several workers of the Dask cluster ({how}), maybe for lack of memory; use "
        "fewer workers per machine or a smaller batch_size"
    )


# The stages of this worker process by digest, so that each model is loaded once.
_loaded: dict[str, Any] = {}
_turn = threading.Lock()


def run_in_worker(version: str, payload: bytes, packed: Mapping[str, tuple[str, bytes]]) -> Any:
    """Run a task in a Dask worker; errors are returned as data, so that Dask does not retry it.

    Tasks run one at a time, because models and transformers are not thread-safe.
    """
    with _turn:
        try:
            _refuse_other_version(version)
            function, task = from_parent(payload)
            for key, (name, data) in packed.items():
                if name not in _loaded:
                    _loaded[name] = _stage(task, key, data)
        except Exception as error:
            return "failed", make_picklable(error), []
        stages = {key: _loaded[name] for key, (name, _) in packed.items()}
        with stage_context.changed(refuses_ledgers=True):
            return answer(function, stages, task)


def _refuse_other_version(version: str) -> None:
    from fairtk import __version__

    if version != __version__:
        raise WorkerError(
            f"expected fairtk {version} on the Dask worker {platform.node()}, got {__version__}; "
            "install the same version everywhere"
        )


def unload(names: Iterable[str]) -> None:
    """Remove the stages of a finished experiment from a Dask worker."""
    for name in names:
        _loaded.pop(name, None)


NAMES = ("serial", "processes", "dask")


def as_executor(choice: Any, workers: int | None, scheduler: Any = None) -> Executor:
    """Return the executor for a name, a Dask client or an executor.

    Args:
        choice: ``"serial"``, ``"processes"``, ``"dask"``, a Dask client or an executor.
        workers: the number of workers; `None` for one per core.
        scheduler: the scheduler for ``"dask"``; see `DaskExecutor`.

    Raises:
        NotFoundError: the name is unknown.
        ParameterError: the object is not an executor, or `workers` or `scheduler` is not valid
            with it.
    """
    if hasattr(choice, "scheduler_info") and scheduler is None:
        choice, scheduler = "dask", choice
    if scheduler is not None and choice != "dask":
        raise ParameterError(f"scheduler is only valid with executor='dask', got {short(choice)}")
    if not isinstance(choice, str):
        if not hasattr(choice, "open") or not hasattr(choice, "default_threads"):
            raise ParameterError(
                f"executor must be one of {list(NAMES)} or an executor, got {short(choice)}"
            )
        if workers is not None:
            raise ParameterError(
                f"workers={workers!r} is not valid with an executor object; use "
                f"{type(choice).__name__}(workers={workers!r})"
            )
        executor: Executor = choice
        return executor
    if choice == "serial":
        if workers not in (None, 1):
            raise ParameterError(
                f"executor='serial' has one worker, got workers={workers!r}; use "
                "executor='processes'"
            )
        return SerialExecutor()
    if choice == "processes":
        return ProcessExecutor(workers)
    if choice == "dask":
        if workers is not None:
            raise ParameterError(
                f"workers={workers!r} is not valid with executor='dask'; start more `dask worker` "
                "processes instead"
            )
        return DaskExecutor(scheduler)
    raise NotFoundError("executor", choice, NAMES)
