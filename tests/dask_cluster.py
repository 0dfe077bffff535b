"""A Dask cluster in processes of its own, over TCP."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


class Cluster:
    """A scheduler and workers, each a process of its own on 127.0.0.1."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes = {}
        self.start("scheduler", "dask_scheduler", "--port", "0", "--scheduler-file", str(self.file))
        until(lambda: self.file.exists() and self.file.read_text().endswith("}"), "the scheduler")
        self.address = json.loads(self.file.read_text())["address"]

    def start(self, name, command, *arguments):
        paths = [str(Path(__file__).parent), *filter(None, sys.path)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "WORKER": name,
            "WAITS_FOR": "last" if name == "slow" else "go",
            "OMP_NUM_THREADS": "1",
        }
        call = [sys.executable, "-m", f"distributed.cli.{command}", *arguments]
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(
                [*call, "--host", "127.0.0.1", "--no-dashboard"], env=environment, stderr=log
            )

    def worker(self, name, threads=1, nanny="--no-nanny"):
        """Start a worker, which nothing restarts but a nanny."""
        more = ("--nthreads", str(threads), nanny, "--name", name)
        self.start(name, "dask_worker", self.address, *more)

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


def until(condition, what, seconds=120):
    """Wait for a condition, and say what did not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come in {seconds} s"
        time.sleep(0.05)


@contextlib.contextmanager
def settings_of(executor, folder, workers=2):
    """Yield the settings of an executor; a cluster for Dask ends with the block."""
    if executor == "serial":
        yield {"executor": executor}
    elif executor == "processes":
        yield {"executor": executor, "workers": workers}
    else:
        pytest.importorskip("distributed")
        (folder / "cluster").mkdir()
        cluster = Cluster(folder / "cluster")
        try:
            for number in range(workers):
                cluster.worker(f"worker-{number}")
            yield {"executor": executor, "scheduler": cluster.address}
        finally:
            cluster.end()
