"""Which GPU a worker process has: each its own, in turn."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"


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
    """Return the variables of a worker's process that give it one GPU; none if there are not two.

    Args:
        worker: its number, from 0.
    """
    found = gpus()
    return {VISIBLE: found[worker % len(found)]} if len(found) > 1 else {}
