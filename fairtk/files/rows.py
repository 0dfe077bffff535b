"""The rows of a file, with the way back from a row to its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, listed
from fairtk.frames.arrays import BoolArray, FloatArray


@dataclass
class Rows:
    """What was read from a file, before its columns are checked.

    Attributes:
        frame: the columns, one row per row of the file.
        path: the file, for messages.
        line_of: gives the 1-based line of a row, or ``None`` if the format has no lines (Parquet);
            may be slow, since it is only asked when something is wrong.
    """

    frame: pd.DataFrame
    path: str | PathLike[str]
    line_of: Callable[[int], int | None]

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise a `FormatError` that names the line (or the row) and the file."""
        line = self.line_of(int(row))
        place = f"row {int(row)}: " if line is None else ""
        raise FormatError(place + message, path=self.path, line=line)

    def fail_at(self, wrong: BoolArray, message: str, column: str) -> None:
        """Raise for the first row that is wrong, if any; ``{}`` in the message is its value."""
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            value = self.frame[column].iloc[row]
            self.fail(row, message.format(repr(value.item() if hasattr(value, "item") else value)))

    def require(self, columns: list[str], what: str) -> None:
        """Raise a `FormatError` unless all the columns are there."""
        missing = [c for c in columns if c not in self.frame.columns]
        if missing:
            raise FormatError(
                f"{what} needs the columns {listed(columns, 9)}; missing: {listed(missing, 9)}, "
                f"found: {listed(self.frame.columns, 12) or 'none'}",
                path=self.path,
            )

    def as_strings(self, column: str, empty: bool = False) -> None:
        """Make a column strings; integers are taken, anything else that is no string is wrong.

        Args:
            column: the column.
            empty: whether an empty string may be.
        """
        values = self.frame[column]
        self.fail_at(values.isna().to_numpy(), f"{column} is missing", column)
        if not isinstance(values.dtype, pd.StringDtype):
            wrong = [
                not isinstance(v, str | int | np.integer) or isinstance(v, bool) for v in values
            ]
            self.fail_at(
                np.array(wrong, dtype=bool), f"{column} must be a string; found {{}}", column
            )
            values = self.frame[column] = values.astype(object).map(str).astype("str")
        if not empty:
            self.fail_at((values == "").to_numpy(dtype=bool), f"{column} is empty", column)

    def as_numbers(self, column: str) -> None:
        """Make a column finite floats."""
        numbers = self._numbers(column)
        self.fail_at(~np.isfinite(numbers), f"{column} must be a finite number; found {{}}", column)
        self.frame[column] = numbers

    def as_integers(self, column: str) -> None:
        """Make a column integers."""
        values = self.frame[column]
        if not pd.api.types.is_integer_dtype(values.dtype):
            numbers = self._numbers(column)
            wrong = (numbers != np.trunc(numbers)) | ~(np.abs(numbers) <= 2.0**53)
            self.fail_at(wrong, f"{column} must be an integer; found {{}}", column)
            values = pd.Series(numbers)
        self.fail_at(values.isna().to_numpy(), f"{column} is missing", column)
        self.frame[column] = values.astype(np.int64)

    def _numbers(self, column: str) -> FloatArray:
        values = self.frame[column]
        if pd.api.types.is_numeric_dtype(values.dtype):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        numbers = np.empty(len(values))
        for row, value in enumerate(values):
            try:
                numbers[row] = float(value)
            except (TypeError, ValueError):
                self.fail(row, f"{column} must be a number; found {value!r}")
        return numbers

    def unique(self, columns: list[str], what: str) -> None:
        """Raise a `FormatError` if two rows agree in all the columns."""
        codes = np.zeros(len(self.frame), dtype=np.int64)
        for column in columns:
            part, values = pd.factorize(self.frame[column])
            codes = codes * max(1, len(values)) + part
        twice = pd.Series(codes).duplicated().to_numpy()
        if not twice.any():
            return
        row = int(np.flatnonzero(twice)[0])
        first = int(np.flatnonzero(codes == codes[row])[0])
        line = self.line_of(first)
        before = f"row {first}" if line is None else f"line {line}"
        names = ", ".join(f"{c} {_plain(self.frame[c].iloc[row])!r}" for c in columns)
        more = int(twice.sum()) - 1
        tail = f"; {more} more such rows" if more else ""
        self.fail(row, f"{what}: {names} was in {before} already{tail}")


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
