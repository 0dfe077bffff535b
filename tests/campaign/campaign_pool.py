"""Runs cases in disposable workers; a worker that dies or hangs is replaced and the case named."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from campaign_case import ABORT, HANG, Verdict

SECONDS = 900
"""How long a case may take; the machine may be busy, or stand still."""

CASES_PER_WORKER = 600
WORKER = Path(__file__).parent / "campaign_worker.py"
# Arrow's own allocator sets a gigabyte aside, and another one when threads want it, which would
# leave a case with little of the memory that it is allowed, depending on the machine
PLAIN_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system"}


class Worker:
    """A process that runs cases."""

    def __init__(self, folder: Path) -> None:
        read, write = os.pipe()
        self.errors = (folder / f"worker-{id(self)}.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(write)],
            stdin=subprocess.PIPE,
            stdout=self.errors,
            stderr=self.errors,
            pass_fds=[write],
            env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder)} | PLAIN_MEMORY,
            text=True,
        )
        os.close(write)
        self.results = os.fdopen(read)
        self.left = CASES_PER_WORKER
        self.hung = False

    def run(self, family: str, seed: int) -> Verdict | None:
        """Return the verdict of a case; None: the worker died."""
        self.left -= 1
        timer = threading.Timer(SECONDS, self._kill)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps({"family": family, "seed": seed}) + "\n")
                self.process.stdin.flush()
            line = self.results.readline()
        finally:
            timer.cancel()
        return Verdict(**json.loads(line)) if line else None

    def _kill(self) -> None:
        self.hung = True
        self.process.kill()

    def death(self) -> tuple[str, str]:
        """Return what the worker died of: an outcome and its last words."""
        code = self.process.wait()
        if self.hung:
            return HANG, f"no answer within {SECONDS} s"
        self.errors.seek(0)
        words = self.errors.read()[-1500:]
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return ABORT, f"{name}: {words}"

    def close(self) -> None:
        """End the worker."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.results.close()
        try:
            self.process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def run_all(cases: list[tuple[str, int]], folder: Path, workers: int = 2) -> list[Verdict]:
    """Run cases and return their verdicts.

    Args:
        cases: family and seed of each.
        folder: for the workers' files.
        workers: the number of processes.
    """
    waiting = iter(cases)
    lock = threading.Lock()
    verdicts: list[Verdict] = []
    broken: list[BaseException] = []

    def serve() -> None:
        try:
            for verdict in _served(waiting, lock, folder):
                verdicts.append(verdict)
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return sorted(verdicts, key=lambda v: (v.family, v.seed))


def _served(waiting: Iterator[tuple[str, int]], lock: Any, folder: Path) -> Iterator[Verdict]:
    worker: Worker | None = None
    try:
        while True:
            with lock:
                case = next(waiting, None)
            if case is None:
                return
            if worker is None:
                worker = Worker(folder)
            verdict = worker.run(*case)
            if verdict is None:
                outcome, detail = worker.death()
                verdict = Verdict(*case, outcome=outcome, detail=detail)
                worker.left = 0
            yield verdict
            if worker.left == 0:
                worker.close()
                worker = None
    finally:
        if worker is not None:
            worker.close()
