"""Names of groups and bands of ranks in the tables of an explanation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairtk.frames import GROUP, IntArray
from fairtk.groups.distances import LevelSpace
from fairtk.measures.contributions import ABSENT, REST

LABELS = ("useful", "not useful", "not judged")
"""The groups of documents by label, where no others are given."""
NOT_SHOWN = "(groups not shown)"
UNSEEN = "(neither judged nor retrieved)"
NOT_IN_RUN = "(query not in the run)"
NO_GROUP = "(no group)"
OUTSIDE = "(not in the run)"
"""The band of what no rank can be held responsible for."""


def band_names(ends: tuple[int, ...]) -> list[str]:
    """Return ``"1-5"``, ``"6-10"``, ... for bands by their last ranks, and the one of no rank."""
    first = [1, *(end + 1 for end in ends)]
    spans = zip(first, ends, strict=False)
    return [*(f"{a}-{b}" if a < b else str(a) for a, b in spans), OUTSIDE]


@dataclass(frozen=True)
class GroupNames:
    """The names of levels: attributes and levels, and the name of what is not listed one by one."""

    space: LevelSpace
    rest: str

    @property
    def columns(self) -> list[str]:
        """The columns that name a group: ``group``, or one for each crossed attribute."""
        return list(self.space.names) if self.space.crossed else [GROUP]

    def frame(self, level: IntArray) -> pd.DataFrame:
        """Return the names of levels, in `columns`."""
        special = {REST: self.rest, ABSENT: NOT_IN_RUN, self.space.size: NO_GROUP}
        plain = (level >= 0) & (level < self.space.size)
        frame = pd.DataFrame(self.space.columns(np.where(plain, level, 0)))
        for number, text in special.items():
            frame[level == number] = text
        return frame

    def joined(self, frame: pd.DataFrame) -> list[str]:
        """Return the names in a frame as one string each: ``female x Eastern Asia``."""
        rows = frame[self.columns].to_numpy(dtype=object).tolist()
        # what is no group has the same text in each column
        return [" x ".join(dict.fromkeys(row) if row[0].startswith("(") else row) for row in rows]

    def part(self, attribute: int) -> GroupNames:
        """Return the names of one of the crossed attributes."""
        return GroupNames(self.space.part((attribute,)), self.rest)

    def levels_of_part(self, level: IntArray, attribute: int) -> IntArray:
        """Return the level of one attribute of levels; special ones stay as they are."""
        plain = (level >= 0) & (level < self.space.size)
        codes = self.space.codes(np.where(plain, level, 0), attribute)
        special = np.where(level == self.space.size, self.space.shape[attribute], level)
        return np.where(plain, codes, special)
