"""Groups as frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.frames.arrays import IntArray
from fairtk.frames.columns import DOCNO, GROUP, WEIGHT
from fairtk.groups.attribute import Attribute
from fairtk.groups.crossed import Crossed
from fairtk.groups.levels import LevelSpace


def attribute_frame(attribute: Attribute) -> pd.DataFrame:
    """Return ``docno``, ``group`` and ``weight`` of one attribute, page ids as integers."""
    owner = np.repeat(np.arange(len(attribute.documents)), np.diff(attribute.start))
    return pd.DataFrame(
        {
            DOCNO: attribute.documents.values[owner],
            GROUP: pd.Categorical.from_codes(attribute.level, list(attribute.levels)),
            WEIGHT: attribute.all_weights(),
        }
    )


def level_counts(attribute: Attribute) -> pd.DataFrame:
    """Return ``group``, ``documents`` and ``weight`` of each level of an attribute, in order."""
    n = len(attribute.levels)
    weight = np.bincount(attribute.level, weights=attribute.all_weights(), minlength=n)
    documents = np.bincount(attribute.level, minlength=n)
    return pd.DataFrame({GROUP: attribute.levels, "documents": documents, WEIGHT: weight})


def groups_frame(groups: Crossed) -> pd.DataFrame:
    """Return the memberships as a frame; see `fairtk.Groups.to_frame`."""
    if len(groups.factors) == 1:
        return attribute_frame(groups.factors[0]).astype({DOCNO: "str", GROUP: "str"})
    found = groups.memberships(groups.docnos)
    owner = np.repeat(np.arange(len(groups)), found.size)
    return pd.DataFrame(
        {
            DOCNO: pd.Series(groups.docnos[owner], dtype="str"),
            **level_columns(groups.space, found.cell),
            WEIGHT: found.weight,
        }
    )


def level_columns(space: LevelSpace, cell: IntArray) -> dict[str, pd.Series]:
    """Return the levels of cells as columns: ``group``, or one for each crossed attribute."""
    columns = {}
    for place, name in enumerate(space.names):
        levels = np.array(space.levels[place], dtype=object)
        values: Any = levels[space.codes(cell, place)] if len(cell) else []
        columns[name if space.crossed else GROUP] = pd.Series(values, dtype="str")
    return columns
