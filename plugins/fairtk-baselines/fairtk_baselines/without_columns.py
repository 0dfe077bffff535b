"""WithoutColumns: takes helper columns off the end of a pipeline."""

from __future__ import annotations

import pandas as pd

from fairtk.errors import ParameterError
from fairtk.transformers.base import FairTransformer


class WithoutColumns(FairTransformer):
    """Any frame -> the same rows and columns, except for some columns.

    For texts, vectors and features, which are large and nobody's result. Columns that a frame does
    not have are not missed.

    Args:
        columns: names of the columns to leave out.

    Raises:
        ParameterError: no name is given, or one is not a string.
    """

    SETTINGS = ("columns",)

    def __init__(self, *columns: str) -> None:
        super().__init__()
        if not columns or not all(isinstance(c, str) for c in columns):
            raise ParameterError(f"WithoutColumns takes names of columns; found {columns!r}")
        self.columns = columns

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the frame without the columns."""
        return inp.drop(columns=[c for c in self.columns if c in inp.columns])
