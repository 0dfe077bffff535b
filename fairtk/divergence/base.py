"""`Divergence`: how far apart two distributions are, as an object with settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

from fairtk.divergence.rows import Distributions, SparseRows
from fairtk.errors import ParameterError
from fairtk.frames.arrays import FloatArray


@dataclass(frozen=True)
class Divergence:
    """Base of all divergences.

    A subclass is a frozen dataclass and gives `NAME` and `between`. It is printed, and read back
    from strings, as ``kl(smoothing=0.01)``.

    Attributes:
        NAME: what users write.
    """

    NAME: ClassVar[str]

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return how far each row shown is from the same row of the target; shape (n_rows,).

        Rows shown need not sum to 1. It is 0 for equal rows, NaN where either row is empty.
        """
        raise NotImplementedError(f"{type(self).__name__} must define between(shown, target)")

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"{self.NAME}({shown})" if shown else self.NAME


def log_of(base: float | str) -> float:
    """Return the natural logarithm of a base given as ``"e"``, ``"2"`` or a number above 1.

    Raises:
        ParameterError: it is neither.
    """
    try:
        value = math.e if base == "e" else float(base)
    except (TypeError, ValueError):
        value = 0.0
    if not 1 < value < math.inf:
        raise ParameterError(f"base must be 'e' or a number above 1, e.g. 2; found {base!r}")
    return 1.0 if base == "e" else math.log(value)
