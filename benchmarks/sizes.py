"""The size of a benchmark: full, or tiny with the environment variable BENCH_TINY=1.

Tiny runs show in seconds that a script works; their numbers mean nothing.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")


def scale(full: T, tiny: T) -> T:
    """Return the size for this run."""
    return tiny if os.environ.get("BENCH_TINY") == "1" else full
