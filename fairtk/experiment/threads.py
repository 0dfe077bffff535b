"""How many threads a model may use: logits depend on it, in their last digits."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from fairtk.backends.hugging_face import HuggingFaceBackend

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What libraries read when they are loaded."""


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def allowed_threads() -> int:
    """Return the threads of a model that may use this whole machine: OMP_NUM_THREADS, or cores."""
    given = os.environ.get(VARIABLES[0], "")
    return int(given) if given.isdecimal() and int(given) else cores()


@contextlib.contextmanager
def limited_threads(number: int, backend: Any = None) -> Iterator[None]:
    """Let torch, which is loaded if the backend needs it, use so many threads within the block."""
    if isinstance(backend, HuggingFaceBackend):
        with contextlib.suppress(ImportError):  # said by the backend, better
            import torch  # noqa: F401
    torch_module: Any = sys.modules.get("torch")
    if not hasattr(torch_module, "set_num_threads"):
        yield
        return
    before = torch_module.get_num_threads()
    torch_module.set_num_threads(number)
    try:
        yield
    finally:
        torch_module.set_num_threads(before)
