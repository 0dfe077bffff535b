"""Dask: workers of this machine, or of any cluster that Dask starts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from fairtk.errors import MissingExtraError, WorkerError
from fairtk.experiment.executors import ending
from fairtk.experiment.executors.processes import ATTEMPTS, checked_workers
from fairtk.experiment.executors.sessions import Function, RemoteSession
from fairtk.experiment.executors.worker import answer, from_parent, portable, to_worker
from fairtk.experiment.threads import VARIABLES

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
    wanted = {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        ending.STARTER: str(os.getpid()),
        LOGGING: os.environ.get(LOGGING, "warning"),  # or each start prints nine lines
        **limits,
    }
    with _environment(wanted):
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
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
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
        self.known: dict[str, tuple[str, Any]] = {}
        # a worker's death is retried by the scheduler; what a task raises is not
        self.executor = client.get_executor(pure=False)

    def submit(self, function: Function, task: Any) -> Any:
        """Start a task."""
        packed = {key: self._there(key) for key in task.needs}
        return self.executor.submit(run_there, function, task, packed)

    def _there(self, key: str) -> tuple[str, Any]:
        """Return a stage's name on the cluster, and where its bytes are."""
        if key not in self.known:
            data = to_worker(self.stages[key])
            name = hashlib.blake2b(data, digest_size=16).hexdigest()
            self.known[key] = name, self._scattered(data)
        return self.known[key]

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
