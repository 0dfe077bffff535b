"""The rows that results are about: rankings and answers of each system, read when asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd

from fairtk.experiment.packing import unpack
from fairtk.experiment.store import Store, StoredCell
from fairtk.files import read_parquet
from fairtk.frames.columns import DOCNO, QID, SCORE

_EMPTY = {QID: "str", DOCNO: "str", SCORE: "float64"}


SystemRows = Callable[..., pd.DataFrame]
"""Returns a system's rows, queries in the order of the topics.

It takes the system's name, ``columns`` (None: all; those that are not there are left out), and
``codes``: whether ids may be categories, where that is cheaper.
"""


def stored_rows(
    store: Store, cells: Mapping[str, Sequence[StoredCell]], given: Mapping[str, pd.DataFrame]
) -> SystemRows:
    """Return what gives the rows of a store's cells, and frames that the user gave as systems."""

    def rows(
        system: str, columns: Collection[str] | None = None, codes: bool = False
    ) -> pd.DataFrame:
        if system in given:
            return _some(given[system], columns)
        table = store.read(cells[system], None if columns is None else sorted(columns))
        if table is None:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _EMPTY.items()})
        return unpack(table, codes=codes)

    return rows


def saved_rows(files: Mapping[str, Path]) -> SystemRows:
    """Return what gives the rows of Parquet files, by system."""

    def rows(
        system: str, columns: Collection[str] | None = None, codes: bool = False
    ) -> pd.DataFrame:
        return _some(read_parquet(files[system])[0], columns)

    return rows


def _some(frame: pd.DataFrame, columns: Collection[str] | None) -> pd.DataFrame:
    if columns is None:
        return frame.copy()
    return frame[[name for name in frame.columns if name in columns]]
