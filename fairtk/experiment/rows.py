"""The rows that results are about: rankings and answers of each system, read when asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from fairtk.experiment.cells import StoredCell
from fairtk.experiment.packing import unpack
from fairtk.experiment.store import Store
from fairtk.frames.columns import DOCNO, QID, SCORE

_EMPTY = {QID: "str", DOCNO: "str", SCORE: "float64"}


class SystemRows(Protocol):
    """Gives the rows of systems by name."""

    def frame(self, system: str, columns: Collection[str] | None = None) -> pd.DataFrame:
        """Return a system's rows, queries in the order of the topics.

        Args:
            system: its name.
            columns: the columns wanted; those that are not there are left out. None: all.
        """


class StoredRows:
    """Rows in a store, and frames that the user gave as systems.

    Args:
        store: the store.
        cells: the cells of each pipeline, in the order of the topics; failed ones too.
        given: frames by system.
    """

    def __init__(
        self,
        store: Store,
        cells: Mapping[str, Sequence[StoredCell]],
        given: Mapping[str, pd.DataFrame],
    ) -> None:
        self.store = store
        self.cells = cells
        self.given = given

    def frame(self, system: str, columns: Collection[str] | None = None) -> pd.DataFrame:
        """Return a system's rows."""
        if system in self.given:
            return _some(self.given[system], columns)
        wanted = None if columns is None else sorted(columns)
        found = [cell for cell in self.cells[system] if cell.error is None]
        table = self.store.read(found, wanted)
        if table is None:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _EMPTY.items()})
        return unpack(table)


class SavedRows:
    """Rows in Parquet files.

    Args:
        files: the file of each system.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files

    def frame(self, system: str, columns: Collection[str] | None = None) -> pd.DataFrame:
        """Return a system's rows."""
        from fairtk.files import read_parquet

        return _some(read_parquet(self.files[system])[0], columns)


def _some(frame: pd.DataFrame, columns: Collection[str] | None) -> pd.DataFrame:
    if columns is None:
        return frame.copy()
    return frame[[name for name in frame.columns if name in columns]]
