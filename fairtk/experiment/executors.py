"""Executors: map a function of `fairtk.experiment.work` over tasks, here, in processes or on a
cluster.

Stages travel by cloudpickle, with reducers for what it cannot take.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import itertools
import os
import pickle
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Protocol, cast

from fairtk import checks
from fairtk.errors import FairtkError, MissingExtraError, NotFoundError, ParameterError, WorkerError
from fairtk.experiment import ending
from fairtk.experiment.work import VARIABLES, allowed_threads, cores
from fairtk.frames import identity_name
from fairtk.io import ENDED, Interpreter

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


_INDEX = ("text_field", "stemmer", "index_encoding", "batch_size", "stops", "threads")
_OPENAI = ("max_input_length", "max_new_tokens", "api", "timeout", "logprobs_topk", "verbose")
_RETRIEVER = (
    *("scorer", "num_results", "threads", "verbose", "stops", "query_algorithm"),
    *("query_weighted", "toks_scale", "precompute_impact"),
)


def to_worker(stage: Any) -> bytes:
    """Return a stage as bytes."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            reducer = _REDUCERS.get(identity_name(type(obj)))
            return super().reducer_override(obj) if reducer is None else reducer(obj)

    sink = io.BytesIO()
    try:
        Pickler(sink).dump(stage)
    except Exception as error:
        raise WorkerError(
            f"{type(stage).__name__} cannot travel to a worker ({error}): use executor='serial', "
            "or give the transformer a __getstate__ that leaves out what is open"
        ) from error
    return sink.getvalue()


def from_parent(data: bytes) -> Any:
    """Return the stage that `to_worker` packed: bytes of the run's own parent, never a file's."""
    return pickle.loads(data)


def _pisa_index(index: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(index, name) for name in _INDEX}
    return _made, ("pyterrier_pisa", "PisaIndex", (str(index.path),), settings)


def _pisa_retriever(stage: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(stage, name) for name in _RETRIEVER} | stage.retr_args
    return _made, ("pyterrier_pisa", "PisaRetrieve", (stage.index,), settings)


def _openai(backend: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # its connection stays here, and so does the key: a worker has its own in the environment
    settings = {name: getattr(backend, name) for name in _OPENAI} | {
        "generation_args": backend._generation_args,
        "base_url": str(backend.client.base_url),
        "max_retries": backend.client.max_retries,
        "parallel": backend.thread_pool._max_workers,
    }
    return _made, ("pyterrier_rag.backend", "OpenAIBackend", (backend.model_id,), settings)


def _template(template: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # its text is not kept, but what it was compiled to is
    parts = {
        "name": template.name,
        "__file__": template.filename,
        "root": template.root_render_func,
        "blocks": template.blocks,
        "debug_info": template._debug_info,
    }
    return _made_template, (template.environment, parts, template.globals)


def _made_template(environment: Any, parts: dict[str, Any], names: Any) -> Any:
    import jinja2

    return jinja2.Template._from_namespace(environment, parts, names)


def _made(module: str, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*args, **settings)


_REDUCERS: dict[str, Callable[[Any], Any]] = {
    "jinja2.environment.Template": _template,
    "pyterrier_pisa.PisaIndex": _pisa_index,
    "pyterrier_pisa.PisaRetrieve": _pisa_retriever,
    "pyterrier_rag.backend._openai.OpenAIBackend": _openai,
}
"""How objects that hold something open are made anew, by class."""


def working() -> Callable[[tuple[Function, Any, Mapping[str, bytes]]], tuple[str, Any, Any]]:
    """Return what does the tasks of a worker, which come with the stages that are new to it."""
    stages: dict[str, Any] = {}

    def work(call: tuple[Function, Any, Mapping[str, bytes]]) -> tuple[str, Any, Any]:
        function, task, fresh = call
        try:
            stages.update({key: from_parent(data) for key, data in fresh.items()})
        except Exception as error:
            return "failed", portable(error), []
        return answer(function, stages, task)

    return work


def answer(function: Function, stages: Mapping[str, Any], task: Any) -> tuple[str, Any, Any]:
    """Return what a task gave, as data: the result or the error, and the warnings of ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kind, value = "done", function(stages, task)
        except Exception as error:
            kind, value = "failed", portable(error)
    warnings_heard = [(w.category, str(w.message)) for w in caught]
    return kind, value, [s for s in warnings_heard if s[0].__module__.startswith("fairtk")]


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
    text = str(error) if isinstance(error, FairtkError) else f"{type(error).__name__}: {error}"
    for cls in type(error).__mro__:
        if cls.__module__ == FairtkError.__module__ and "__init__" not in vars(cls):
            plain: Exception = cls(text)
            return plain
    return FairtkError(text)


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
    return checks.whole("workers", workers, rule=checks.FROM_1)


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


class DaskExecutor:
    """Runs tasks on a Dask cluster; each worker process loads a model once, with one thread.

    Without a scheduler a cluster of fresh processes is started on 127.0.0.1 and ends with the
    experiment. Workers elsewhere need fairtk, the packages of the pipelines, and the models and
    indexes at the same paths; the store stays with the process that asks. Give each ``dask worker``
    its GPU by CUDA_VISIBLE_DEVICES; of one machine's, ``"processes"`` gives each worker one. It
    needs the extra ``dask``.

    Args:
        workers: the processes of the cluster that is started; None: one per core.
        scheduler: the address of a running cluster, e.g. ``"tcp://10.0.0.1:8786"``: whatever
            Dask starts on SLURM or Kubernetes.

    Raises:
        ParameterError: `workers` is no whole number from 1.
        MissingExtraError: distributed is not installed.
    """

    default_threads = 1

    def __init__(self, workers: int | None = None, scheduler: str | None = None) -> None:
        self.workers = checked_workers(workers)
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise MissingExtraError("distributed", "dask", "executor='dask'") from None
        self.scheduler = scheduler

    @contextlib.contextmanager
    def open(self, stages: Mapping[str, Any], threads: int) -> Iterator[RemoteSession]:
        """Give the session; a cluster that was started ends with the block.

        Raises:
            WorkerError: the scheduler cannot be reached.
        """
        from distributed import Client, KilledWorker

        with contextlib.ExitStack() as stack:
            address: Any = self.scheduler
            if address is None:
                address = stack.enter_context(_local_cluster(self.workers, threads))
            try:
                client = stack.enter_context(
                    cast(Any, Client)(address, set_as_default=False, timeout=30)
                )
            except OSError as error:
                raise WorkerError(
                    f"no Dask scheduler answers at {self.scheduler} ({error}); start one, or leave "
                    "scheduler out for a cluster on this machine"
                ) from error
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            try:
                yield RemoteSession(_Sent(client, stages).submit, 2 * max(1, workers))
            except KilledWorker as error:
                raise WorkerError(
                    "workers of the Dask cluster ended again and again over one task "
                    f"({error}); memory may not suffice: use fewer workers per machine or a "
                    "smaller batch_size"
                ) from error

    def __repr__(self) -> str:
        place = "" if self.scheduler is None else f", scheduler={self.scheduler!r}"
        return f"DaskExecutor({self.workers}{place})"


@contextlib.contextmanager
def _local_cluster(workers: int, threads: int) -> Iterator[Any]:
    """Start processes that do not import the user's script, as Dask's LocalCluster would."""
    from distributed.deploy import subprocess

    make_cluster: Any = subprocess.SubprocessCluster

    limits = dict.fromkeys(VARIABLES, str(threads))
    variables = {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        ending.STARTER: str(os.getpid()),
        LOGGING: os.environ.get(LOGGING, "warning"),  # or each start prints nine lines
        **limits,
    }
    with _environment(variables):
        cluster = make_cluster(
            host="127.0.0.1",
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            scheduler_kwargs={"preload": [ENDING]},
            # with a limit, the nanny would end a worker whose model takes more than its share
            worker_kwargs={
                "memory_limit": 0,
                "env": limits,
                "dashboard": False,
                "preload_nanny": [ENDING],
            },
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


class _Sent:
    """Stages on their way to a cluster: each is sent once."""

    def __init__(self, client: Any, stages: Mapping[str, Any]) -> None:
        self.client = client
        self.stages = stages
        self.places: dict[str, tuple[str, Any]] = {}
        # a worker's death is retried by the scheduler; what a task raises is not
        self.executor = client.get_executor(pure=False)

    def submit(self, function: Function, task: Any) -> Any:
        """Start a task."""
        packed = {key: self._there(key) for key in task.needs}
        return self.executor.submit(run_there, function, task, packed)

    def _there(self, key: str) -> tuple[str, Any]:
        """Return a stage's name on the cluster, and where its bytes are."""
        if key not in self.places:
            data = to_worker(self.stages[key])
            name = hashlib.blake2b(data, digest_size=16).hexdigest()
            self.places[key] = name, self._scattered(data)
        return self.places[key]

    def _scattered(self, data: bytes) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return self.client.scatter(data, hash=False)
            except OSError as error:  # it was to go to a worker that has just died
                if attempt == ATTEMPTS - 1:
                    raise WorkerError(f"the Dask cluster takes no data ({error})") from error
                time.sleep(1)


# The stages of this worker process by their bytes' digest, so that each model is loaded once.
_loaded: dict[str, Any] = {}


def run_there(function: Function, task: Any, packed: Mapping[str, tuple[str, bytes]]) -> Any:
    """Run a task in a worker of Dask; what it raises comes back as data, so it is not retried."""
    try:
        for name, data in packed.values():
            if name not in _loaded:
                _loaded[name] = from_parent(data)
    except Exception as error:
        return "failed", portable(error), []
    stages = {key: _loaded[name] for key, (name, _) in packed.items()}
    return answer(function, stages, task)


NAMES = ("serial", "processes", "dask")


def as_executor(choice: Any, workers: int | None) -> Executor:
    """Return the executor of a name, or the executor given.

    Args:
        choice: ``"serial"``, ``"processes"``, ``"dask"`` or an executor.
        workers: the number of workers; None: one per core.

    Raises:
        NotFoundError: there is no executor of that name.
        ParameterError: the object is none, or workers do not fit it.
    """
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
        return DaskExecutor(workers)
    raise NotFoundError("executor", choice, NAMES)
