"""What the groups of an explanation, and the bands of ranks such as 1-5 and 6-10, are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError
from fairtk.explanation.contributions import ABSENT, REST
from fairtk.frames.arrays import IntArray
from fairtk.frames.columns import GROUP
from fairtk.groups import Groups
from fairtk.groups.levels import LevelSpace

LABELS = ("useful", "not useful", "not judged")
"""The groups of documents by label, where no others are given."""
NOT_SHOWN = "(groups not shown)"
UNSEEN = "(neither judged nor retrieved)"
NOT_IN_RUN = "(query not in the run)"
NO_GROUP = "(no group)"


@dataclass(frozen=True)
class Names:
    """The names of cells: attributes and levels, and the name of what is not listed one by one."""

    space: LevelSpace
    rest: str

    @classmethod
    def of(cls, measure: Any, groups: Groups | None) -> Names:
        """Return the names that belong to a measure."""
        own = measure["groups"]
        if own is not None:
            return cls(own.space, NOT_SHOWN)
        if groups is not None:
            return cls(groups.space, UNSEEN)
        return cls(LevelSpace(("label",), (LABELS,), (-1,)), UNSEEN)

    @property
    def columns(self) -> list[str]:
        """The columns that name a group: ``group``, or one for each crossed attribute."""
        return list(self.space.names) if self.space.crossed else [GROUP]

    def frame(self, cell: IntArray) -> pd.DataFrame:
        """Return the names of cells, in `columns`."""
        special = {REST: self.rest, ABSENT: NOT_IN_RUN, self.space.size: NO_GROUP}
        plain = (cell >= 0) & (cell < self.space.size)
        frame = pd.DataFrame(self.space.columns(np.where(plain, cell, 0)))
        for number, text in special.items():
            frame[cell == number] = text
        return frame

    def level(self, cell: IntArray, place: int) -> IntArray:
        """Return the level of one attribute of cells; special cells stay as they are."""
        plain = (cell >= 0) & (cell < self.space.size)
        codes = self.space.codes(np.where(plain, cell, 0), place)
        special = np.where(cell == self.space.size, self.space.shape[place], cell)
        return np.where(plain, codes, special)

    def part(self, place: int) -> Names:
        """Return the names of one of the crossed attributes."""
        return Names(self.space.part((place,)), self.rest)


def joined(names: pd.DataFrame) -> list[str]:
    """Return the names of groups as one string each: ``female x Eastern Asia``."""
    rows = names.to_numpy(dtype=object).tolist()
    # what is no group has the same text in each column
    return [" x ".join(dict.fromkeys(row) if row[0].startswith("(") else row) for row in rows]


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
