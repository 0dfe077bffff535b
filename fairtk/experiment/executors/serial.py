"""Everything in this process, one task after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from fairtk.experiment.executors.sessions import Session
from fairtk.experiment.threads import allowed_threads


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
