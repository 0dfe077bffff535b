"""Names of groups and bands of ranks in the tables of an explanation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.analysis.contributions import ABSENT, REST
from fairtk.frames import GROUP, IntArray
from fairtk.groups.levels import LevelSpace

LABELS = ("useful", "not useful", "not judged")
"""The groups of documents by label, if no groups are given."""
NOT_SHOWN = "(groups not shown)"
UNSEEN = "(neither judged nor retrieved)"
NOT_IN_RUN = "(query not in the run)"
NO_GROUP = "(no group)"
OUTSIDE = "(not in the run)"
"""The band of costs that belong to no rank."""


def band_names(ends: tuple[int, ...]) -> list[str]:
    """Return ``"1-5"``, ``"6-10"``, ... for bands by their last ranks, and `OUTSIDE`."""
    first = [1, *(end + 1 for end in ends)]
    spans = zip(first, ends, strict=False)
    return [*(f"{a}-{b}" if a < b else str(a) for a, b in spans), OUTSIDE]


def group_columns(space: LevelSpace, rest: str, level: IntArray) -> pd.DataFrame:
    """Return the names of levels in ``group``, or in one column per crossed attribute.

    Columns are categorical, in the order of the levels; `rest` is the name of the level `REST`.
    """
    special = [level == ABSENT, level == REST, level == space.size]
    columns = {}
    for attribute, name in enumerate(space.names):
        names = [NOT_IN_RUN, rest, *space.levels[attribute], NO_GROUP]
        plain = space.codes(np.where(np.any(special, axis=0), 0, level), attribute) + 2
        index = np.select(special, [0, 1, len(names) - 1], plain)
        codes, categories = pd.factorize(np.array(names, dtype=object))
        column = pd.Categorical.from_codes(codes[index], categories, ordered=True)
        columns[name if space.crossed else GROUP] = column
    return pd.DataFrame(columns)


def join_names(names: pd.DataFrame) -> list[str]:
    """Return the names of each row as one text: ``female x Eastern Asia``."""
    rows = names.to_numpy(dtype=object).tolist()
    # names in brackets are the same in each column
    return [" x ".join(dict.fromkeys(row) if row[0].startswith("(") else row) for row in rows]
