"""Executors: map a function of `fairtk.experiment.work` over tasks, here, in processes or on a
cluster.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import math
import os
import pickle
import platform
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Protocol, cast

from fairtk import checks
from fairtk.errors import (
    FairtkError,
    MissingExtraError,
    NotFoundError,
    ParameterError,
    StageError,
    WorkerError,
)
from fairtk.experiment import ending
from fairtk.experiment.work import (
    VARIABLES,
    allowed_threads,
    from_parent,
    said,
    text_of,
    to_worker,
)
from fairtk.interpreters import ENDED, Interpreter, cores

Function = Callable[[Mapping[str, Any], Any], Any]
"""Takes stages by key and a task, which says in ``needs`` which of them."""


class WorkerTraceback(Exception):
    """What Python would have printed of an error where it was raised.

    Attributes:
        reason: the error's own cause, as it was raised there; None: it had none.
    """

    reason: Exception | None = None


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
    """An executor at work in other processes, with ``room()`` tasks under way at a time.

    `submit` starts a task; its future gives what `answer` returns. The room is asked for whenever a
    task ends, and each second: workers come and go.
    """

    def __init__(
        self, submit: Callable[[Function, Any], Future[Any]], room: Callable[[], int]
    ) -> None:
        self.submit = submit
        self.room = room

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result, as they end, and warn of what was warned of there."""
        left = iter(tasks)
        running: dict[Future[Any], Any] = {}
        while True:
            for task in islice(left, max(0, self.room() - len(running))):
                running[self.submit(function, task)] = task
            if not running:
                return
            for future in wait(running, 1, FIRST_COMPLETED).done:
                kind, value, warnings_heard = future.result()
                for category, text in warnings_heard:
                    warnings.warn(text, category, stacklevel=2)
                if kind == "failed":
                    error, told, reason = value
                    trace = WorkerTraceback(f"\n{told}")
                    trace.reason = reason
                    raise error from trace
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


def working() -> Callable[[tuple[Function, Any, Mapping[str, bytes]]], tuple[str, Any, Any]]:
    """Return what does the tasks of a worker, which come with the stages that are new to it."""
    stages: dict[str, Any] = {}

    def work(call: tuple[Function, Any, Mapping[str, bytes]]) -> tuple[str, Any, Any]:
        function, task, fresh = call
        try:
            stages.update({key: _stage(task, key, data) for key, data in fresh.items()})
        except Exception as error:
            return "failed", portable(error), []
        return answer(function, stages, task)

    return work


def _stage(task: Any, key: str, data: bytes) -> Any:
    """Return a stage of a task from its bytes."""
    try:
        return from_parent(data)
    except (Exception, SystemExit) as error:
        line = f"{task.who(key)} cannot be loaded in a worker: {said(error)}"
        raise (_ours(error, line) or WorkerError(line)) from error


def answer(function: Function, stages: Mapping[str, Any], task: Any) -> tuple[str, Any, Any]:
    """Return what a task gave, as data: the result or the error, and the warnings of ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kind, value = "done", function(stages, task)
        except Exception as error:
            kind, value = "failed", portable(error)
        except SystemExit as error:  # or it would look like a worker that was killed
            who = ", ".join(getattr(error, "__notes__", ["a task"]))
            left = StageError(f"{who} called sys.exit({error.code!r}) in a worker")
            kind, value = "failed", portable(left)
    ours = [w for w in caught if w.category.__module__.startswith("fairtk")]
    return kind, value, [(w.category, str(w.message)) for w in ours]


def portable(error: Exception) -> tuple[Exception, str, Exception | None]:
    """Return an error that can travel, what Python would print of it, and its cause, which an
    error does not take along.
    """
    cause = error.__cause__
    reason = _pickled(cause) if isinstance(cause, Exception) else None
    return _pickled(error), "".join(traceback.format_exception(error)), reason


def _pickled(error: Exception) -> Exception:
    """Return the error itself, or its message in one of our classes."""
    with contextlib.suppress(Exception):  # some cannot be made from their arguments
        if str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    text = text_of(error)
    text = text if isinstance(error, FairtkError) else f"{type(error).__name__}: {text}"
    return _ours(error, text) or FairtkError(text)


def _ours(error: BaseException, text: str) -> Exception | None:
    """Return an error of the class of ours that another is of; None: of none."""
    for cls in type(error).__mro__:
        if cls.__module__ == FairtkError.__module__ and "__init__" not in vars(cls):
            plain: Exception = cls(text)
            return plain
    return None


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
                    lambda function, task: waiting.submit(pool.run, function, task),
                    lambda: self.workers,
                )
            finally:
                pool.close()

    def __repr__(self) -> str:
        return f"ProcessExecutor({self.workers})"


def checked_workers(workers: Any, default: int | None = None) -> int:
    """Return the number of workers; None is the default, or else one per core."""
    if workers is None:
        return default or cores()
    return checks.integer("workers", workers, rule=checks.FROM_1)


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA's own variable names them.

    Nothing of CUDA is asked: that would take memory on each of them.
    """
    names = os.environ.get(VISIBLE)
    if names is None:
        return [str(number) for number in range(len(list(Path("/dev").glob("nvidia[0-9]*"))))]
    # CUDA reads names up to the first that is none
    return list(takewhile(lambda name: name and name != "-1", map(str.strip, names.split(","))))


def gpu_of(worker: int) -> dict[str, str]:
    """Return the variables that give a worker (from 0) one GPU; none if there are not two."""
    devices = gpus()
    return {VISIBLE: devices[worker % len(devices)]} if len(devices) > 1 else {}


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
                outcome = own.process.ask((function, task, fresh))
                own.there |= set(fresh)
                return outcome
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
            process = Interpreter("fairtk.experiment.executors:working", env=environment)
            self._processes.append(process)
        return process


ENDING = str(Path(ending.__file__))
LOGGING = "DASK_LOGGING__DISTRIBUTED"
CONNECTING = "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"


class DaskExecutor:
    """Runs tasks on a Dask cluster; each worker process loads a model once, with one thread.

    Without a scheduler a cluster of fresh processes is started on 127.0.0.1 and ends with the
    experiment. Workers elsewhere need this version of fairtk, the packages of the pipelines, and
    the models and indexes at the same paths; the store stays with the process that asks. Workers
    may join, be slow, and die: what a dead one had is done again by others, and as long as there
    is none, the experiment waits. A worker does one task at a time, however many threads it has.
    Give each ``dask worker`` its GPU by CUDA_VISIBLE_DEVICES; of one machine's, ``"processes"``
    gives each worker one. It needs the extra ``dask``.

    Args:
        workers: the processes of the cluster that is started; None: one per core.
        scheduler: a running cluster, whatever Dask starts on SLURM or Kubernetes: its address,
            e.g. ``"tcp://10.0.0.1:8786"``; the path of its scheduler file, ``"….json"``; a
            ``distributed.Client``, which stays open; or a cluster object.

    Raises:
        ParameterError: `workers` is no whole number from 1, or given with a scheduler; the
            scheduler is none of these.
        MissingExtraError: distributed is not installed.
    """

    default_threads = 1

    def __init__(self, workers: int | None = None, scheduler: Any = None) -> None:
        self.workers = checked_workers(workers)
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise MissingExtraError("distributed", "dask", "executor='dask'") from None
        if scheduler is not None and workers is not None:
            raise ParameterError(
                f"workers={workers!r} does not change a cluster that runs already, at {scheduler}: "
                "leave it out, and start as many `dask worker` as there should be"
            )
        own = isinstance(scheduler, str | os.PathLike) or hasattr(scheduler, "scheduler_info")
        if scheduler is not None and (not own or getattr(scheduler, "asynchronous", False)):
            raise ParameterError(
                "scheduler must be the address of a Dask scheduler, the path of a scheduler file, "
                f"or a client or cluster that is not asynchronous; found {scheduler!r}"
            )
        self.scheduler = scheduler

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[RemoteSession]:
        """Give the session; a cluster that was started ends with the block.

        Raises:
            WorkerError: the scheduler cannot be reached.
        """
        with contextlib.ExitStack() as stack:
            sent = _Sent(self._client(stack, threads), stages)
            waiting = stack.enter_context(ThreadPoolExecutor(_MOST_TASKS))
            stack.callback(sent.close, self.scheduler is not None)
            yield RemoteSession(
                lambda function, task: waiting.submit(sent.run, function, task), sent.room
            )

    def _client(self, stack: contextlib.ExitStack, threads: int) -> Any:
        from distributed import Client

        place: Any = self.scheduler
        if isinstance(place, Client):
            if place.status != "running":
                raise WorkerError(f"the Dask client is {place.status}, not running: {place!r}")
            return place
        if place is None:
            place = stack.enter_context(_local_cluster(self.workers, threads))
        patience = _STARTING if self.scheduler is None else 30
        settings = {"address": place}
        if str(place).endswith(".json"):
            if not Path(place).is_file():
                raise WorkerError(
                    f"there is no scheduler file {place}: `dask scheduler --scheduler-file` writes "
                    "one when it is up"
                )
            settings = {"scheduler_file": str(place)}
        try:
            client = cast(Any, Client)(**settings, set_as_default=False, timeout=patience)
            return stack.enter_context(client)
        except (OSError, ValueError) as error:
            raise WorkerError(
                f"no Dask scheduler answers at {self.scheduler} ({error}); start one, or leave "
                "scheduler out for a cluster on this machine"
            ) from error

    def __repr__(self) -> str:
        place = self.scheduler
        if place is None:
            return f"DaskExecutor({self.workers})"
        if not isinstance(place, str | os.PathLike):
            client = getattr(place, "scheduler", None)  # None once it is closed
            place = getattr(place, "scheduler_address", None) or getattr(client, "address", place)
        return f"DaskExecutor(scheduler={str(place)!r})"


@contextlib.contextmanager
def _local_cluster(workers: int, threads: int) -> Iterator[Any]:
    """Start processes that do not import the user's script, as Dask's LocalCluster would."""
    import dask
    from distributed.deploy import spec, subprocess

    limits = dict.fromkeys(VARIABLES, str(threads))
    variables = {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        ending.STARTER: str(os.getpid()),
        LOGGING: os.environ.get(LOGGING, "warning"),  # or each start prints nine lines
        CONNECTING: os.environ.get(CONNECTING, f"{_STARTING}s"),
        **limits,
    }
    own = {"host": "127.0.0.1", "dashboard": False}
    scheduler = {**own, "port": 0, "dashboard_address": None, "preload": [ENDING]}
    # with a limit, the nanny would end a worker whose model takes more than its share
    worker = {**own, "nthreads": 1, "memory_limit": 0, "env": limits, "preload_nanny": [ENDING]}
    worker["silence_logs"] = logging.WARNING
    a_worker = {"cls": subprocess.SubprocessWorker, "options": {"worker_kwargs": worker}}
    # as SubprocessCluster, which gives a scheduler half a minute to start
    begun = {"scheduler_kwargs": scheduler, "timeout": _STARTING}
    patience = {"distributed.comm.timeouts.connect": variables[CONNECTING]}
    with _environment(variables), dask.config.set(patience):
        cluster = cast(Any, spec.SpecCluster)(
            workers=dict.fromkeys(range(workers), a_worker),
            scheduler={"cls": subprocess.SubprocessScheduler, "options": begun},
            silence_logs=logging.WARNING,
        )
    with cluster:
        yield cluster


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_MOST_TASKS = 2**12  # under way at a time, each with a thread that waits for it
_LARGE = 2**20  # bytes of a task beyond which they do not go through the scheduler's graph
_STARTING = 600  # seconds for each part of a cluster of ours, on a machine that is busy
_PATIENCE = 30.0  # seconds without a worker after which that is said


class _Sent:
    """Stages on their way to a cluster, each sent once, and again where its holders died."""

    def __init__(self, client: Any, stages: Mapping[str, Any]) -> None:
        self.client = client
        self.place = client.scheduler.address
        self.stages = stages
        self.names: set[str] = set()
        self._packed: dict[str, tuple[str, bytes]] = {}
        self._places: dict[str, tuple[str, Any]] = {}
        self._lock = threading.Lock()
        self._running: set[Any] = set()
        self._ended = False
        self._lost = False  # a task, with all workers that had its stages
        self._workers, self._looked, self._some = 0, -1.0, time.monotonic()

    def run(self, function: Function, task: Any) -> Any:
        """Return what `run_there` gives.

        The scheduler gives the task of a worker that died to another; but where the worker was the
        only one with a stage's bytes, it forgets the task, which is then sent anew.
        """
        from distributed import KilledWorker

        from fairtk import __version__

        data = pickle.dumps((function, task))
        for _ in range(ATTEMPTS):
            places = {key: self._there(key) for key in task.needs}
            payload = self._scattered(data, False) if len(data) > _LARGE else data
            future = self.client.submit(run_there, __version__, payload, places, pure=False)
            self._running.add(future)
            try:
                return future.result()
            except CancelledError:
                if self._ended:
                    raise
                self._forget(places)
            except KilledWorker as error:
                raise WorkerError(_killed(str(error))) from error
            except Exception as error:  # what a task raises is data, so this is of Dask
                raise WorkerError(
                    f"a worker of the Dask cluster cannot do a task ({type(error).__name__}: "
                    f"{error}): each needs fairtk {__version__} and the packages of the pipelines"
                ) from error
            finally:
                self._running.discard(future)
        raise WorkerError(_killed(f"each of {ATTEMPTS} times with all copies of its stages"))

    def room(self) -> int:
        """Return how many tasks are to be under way: one to do and one to come of each worker."""
        return min(_MOST_TASKS, 2 * max(1, self._alive()))

    def close(self, stays: bool) -> None:
        """End what is under way; a cluster that `stays` loses the stages."""
        self._ended = True
        with contextlib.suppress(Exception):  # the scheduler may be gone, the client closed
            self.client.cancel(list(self._running))
            if stays:  # a worker that does not answer is not waited for
                self.client.run(unload, self.names, on_error="ignore", callback_timeout=5)

    def _alive(self) -> int:
        """Return the number of workers, looked up each second; say if there are none for long."""
        now = time.monotonic()
        if now >= self._looked + 1:
            self._looked = now
            try:
                self._workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
            except (OSError, KeyError):  # as long as the client tries, it gives what it knew
                raise self._gone() from None
            if self._workers:
                self._some = now
            elif now > self._some + _PATIENCE:
                self._some = math.inf  # said once
                line = f"no worker is there for the Dask scheduler at {self.place}: waiting for one"
                if self._lost:
                    line += " (the last ones ended over a task; memory may not suffice)"
                print(line, file=sys.stderr, flush=True)
        return self._workers

    def _gone(self) -> WorkerError:
        return WorkerError(
            f"the Dask scheduler at {self.place} is gone; what was done is kept in save_dir, so "
            "run it again with another"
        )

    def _there(self, key: str) -> tuple[str, Any]:
        """Return a stage's name on the cluster, and where its bytes are."""
        with self._lock:
            if key not in self._packed:
                data = to_worker(self.stages[key])
                name = hashlib.blake2b(data, digest_size=16).hexdigest()
                self._packed[key] = name, data
                self.names.add(name)
            if key not in self._places:
                name, data = self._packed[key]
                self._places[key] = name, self._scattered(data, broadcast=True)
            return self._places[key]

    def _forget(self, places: Mapping[str, tuple[str, Any]]) -> None:
        with self._lock:
            self._lost = True
            for key, place in places.items():
                if self._places.get(key) is place:  # else another thread has sent it again
                    del self._places[key]

    def _scattered(self, data: bytes, broadcast: bool) -> Any:
        for attempt in range(ATTEMPTS):
            while not self._ended and not self._alive():
                time.sleep(0.2)
            if self._ended:
                raise CancelledError
            try:
                return self.client.scatter(data, hash=False, broadcast=broadcast)
            except (RuntimeError, AttributeError):  # Dask's, once its client is closed
                raise self._gone() from None
            except OSError as error:  # it was to go to a worker that has just died
                if attempt == ATTEMPTS - 1:
                    raise WorkerError(f"the Dask cluster takes no data ({error})") from error
                time.sleep(1)


def _killed(how: str) -> str:
    return (
        f"workers of the Dask cluster ended again and again over one task ({how}); memory may not "
        "suffice: use fewer workers per machine or a smaller batch_size"
    )


# The stages of this worker process by their bytes' digest, so that each model is loaded once.
_loaded: dict[str, Any] = {}
_turn = threading.Lock()


def run_there(version: str, payload: bytes, packed: Mapping[str, tuple[str, bytes]]) -> Any:
    """Run a task in a worker of Dask; what it raises comes back as data, so it is not retried.

    One task at a time: models and transformers know nothing of the threads that a worker may have.
    """
    with _turn:
        try:
            _refuse_other_version(version)
            function, task = from_parent(payload)
            for key, (name, data) in packed.items():
                if name not in _loaded:
                    _loaded[name] = _stage(task, key, data)
        except Exception as error:
            return "failed", portable(error), []
        stages = {key: _loaded[name] for key, (name, _) in packed.items()}
        return answer(function, stages, task)


def _refuse_other_version(version: str) -> None:
    from fairtk import __version__

    if version != __version__:
        raise WorkerError(
            f"a worker of the Dask cluster on {platform.node()} has fairtk {__version__}, this "
            f"process {version}: install one version everywhere, or results may differ"
        )


def unload(names: Iterable[str]) -> None:
    """Let go of the stages of an experiment that has ended, in a worker of Dask."""
    for name in names:
        _loaded.pop(name, None)


NAMES = ("serial", "processes", "dask")


def as_executor(choice: Any, workers: int | None, scheduler: Any = None) -> Executor:
    """Return the executor of a name, or the executor given.

    Args:
        choice: ``"serial"``, ``"processes"``, ``"dask"``, a client of Dask or an executor.
        workers: the number of workers; None: one per core.
        scheduler: of ``"dask"``; see `DaskExecutor`.

    Raises:
        NotFoundError: there is no executor of that name.
        ParameterError: the object is none, or workers or scheduler do not fit it.
    """
    if hasattr(choice, "scheduler_info") and scheduler is None:
        choice, scheduler = "dask", choice
    if scheduler is not None and choice != "dask":
        raise ParameterError(f"scheduler is of executor='dask'; found executor={choice!r}")
    if not isinstance(choice, str):
        if not hasattr(choice, "open") or not hasattr(choice, "default_threads"):
            raise ParameterError(
                f"executor must be one of {list(NAMES)} or an executor; found {choice!r}"
            )
        if workers is not None:
            raise ParameterError(
                f"workers={workers!r} does not change an executor that is given as an object; "
                f"say it there: {type(choice).__name__}(workers={workers!r})"
            )
        executor: Executor = choice
        return executor
    if choice == "serial":
        if workers not in (None, 1):
            raise ParameterError(
                f"executor='serial' has one worker; found workers={workers!r}: "
                "executor='processes' has several"
            )
        return SerialExecutor()
    if choice == "processes":
        return ProcessExecutor(workers)
    if choice == "dask":
        return DaskExecutor(workers, scheduler)
    raise NotFoundError("executor", choice, NAMES)
