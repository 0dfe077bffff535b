"""Bands of ranks, such as 1-5 and 6-10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairtk.errors import ParameterError
from fairtk.frames.arrays import IntArray

_LAST = (5, 10, 20, 50, 100, 200, 500, 1000)
_ALONE = 10
OUTSIDE = "(not in the run)"
"""The band of what no rank can be held responsible for."""


@dataclass(frozen=True)
class Bands:
    """Consecutive bands of ranks, by their last ranks, and one more for what belongs to no rank."""

    last: tuple[int, ...]

    @classmethod
    def make(cls, last: Sequence[int] | None, depth: int) -> Bands:
        """Return the bands that were asked for, or sensible ones; the last ends at the depth.

        Without last ranks: each rank alone down to 10 ranks, otherwise bands that end at 5, 10, 20,
        50, 100, 200, 500 and 1000. Last ranks that do not increase from 1 or above are a
        `ParameterError`.
        """
        depth = max(depth, 1)
        if last is None:
            last = range(1, depth + 1) if depth <= _ALONE else _LAST
        ends = list(last)
        if not ends or any(
            isinstance(end, bool) or not isinstance(end, int | np.integer) or end <= before
            for before, end in zip([0, *ends], ends, strict=False)
        ):
            raise ParameterError(
                f"explain: bands must be increasing last ranks, e.g. [5, 10, 20]; found {last!r}"
            )
        return cls((*(int(end) for end in ends if end < depth), depth))

    def __len__(self) -> int:
        return len(self.last) + 1

    @property
    def outside(self) -> int:
        """The number of the band of what belongs to no rank."""
        return len(self.last)

    def of(self, position: IntArray) -> IntArray:
        """Return the band of 0-based ranks; shape of `position`."""
        return np.minimum(np.searchsorted(self.last, position + 1), len(self.last) - 1)

    @property
    def names(self) -> list[str]:
        """The bands in words: ``"1-5"``, ``"6-10"``, and the one of no rank."""
        first = [1, *(end + 1 for end in self.last)]
        spans = zip(first, self.last, strict=False)
        return [*(f"{a}-{b}" if a < b else str(a) for a, b in spans), OUTSIDE]
