"""What the groups of an explanation are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.explanation.contributions import ABSENT, REST
from fairtk.explanation.parts import LABELS
from fairtk.frames.arrays import IntArray
from fairtk.frames.columns import GROUP
from fairtk.groups import Groups
from fairtk.groups.levels import LevelSpace

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
