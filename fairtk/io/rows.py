"""The rows of a file, with the way back from a row to its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Number
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, listed
from fairtk.files.content import MARK
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.columns import SAMPLE

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A number in a file; Python's ``float`` reads ``1_000`` and the digits of other scripts, too."""

_ODD = re.compile(rf"(?:^|\0)\s|\s(?:\0|$)|[\r\n{MARK}]")
_NUMERIC = frozenset("0123456789+-.eE")
_SHOWN = 60


@dataclass
class Rows:
    """What was read from a file, before its columns are checked."""

    frame: pd.DataFrame  # the columns, one row per row of the file
    path: str | PathLike[str]  # the file, for messages
    line_of: Callable[[int], int | None]  # 1-based line of a row, slow; None in Parquet
    head: int | None = None  # the line that names the columns, if one does
    note: dict[str, Any] = field(default_factory=dict)  # what fairtk's writer noted in the file
    plain: bool = False  # no room for spaces and line breaks in ids

    def fail(self, row: int, message: str, every: Sequence[int] = ()) -> NoReturn:
        """Raise a `FormatError` that names file and line (or row); `every`: all rows that are
        wrong.
        """
        line = self.line_of(int(row))
        place = f"row {int(row)}: " if line is None else ""
        error = FormatError(place + message, path=self.path, line=line)
        error.rows = every if len(every) else (int(row),)
        raise error

    def fail_at(self, wrong: BoolArray, message: str, column: str) -> None:
        """Raise for the first row that is wrong, if any; ``{}`` in the message is its value."""
        if wrong.any():
            rows = np.flatnonzero(wrong).tolist()
            found = shown(self.frame[column].iloc[rows[0]])
            self.fail(rows[0], message.replace("{}", found, 1), rows)

    def require(self, columns: list[str], what: str) -> None:
        """Raise a `FormatError` unless all the columns are there."""
        missing = [c for c in columns if c not in self.frame.columns]
        if missing:
            raise FormatError(
                f"{what} needs the columns {listed(columns, 9)}; missing: {listed(missing, 9)}, "
                f"found: {listed(self.frame.columns, 12) or 'none'}",
                path=self.path,
                line=self.head,
            )

    def as_ids(self, column: str) -> None:
        """Make a column ids: strings with something in them and no spaces around it."""
        values = self.as_strings(column)
        self.fail_at((values == "").to_numpy(dtype=bool), f"{column} is empty", column)
        self.refuse_odd(column)

    def refuse_odd(self, column: str) -> None:
        """Raise for a name that would match no other: with spaces around it, or of two lines."""
        if self.plain:
            return
        self.refuse_broken(column)
        names = self.frame[column].fillna("").tolist()
        together = "\0".join(names)
        # most ids have no space at all, which is seen at once
        if together.split(None, 1) in ([], [together]) and MARK not in together:
            return
        if _ODD.search(together) is None:
            return
        self.fail_at(
            np.array([_ODD.search(name) is not None for name in names], dtype=bool),
            f"{column} {{}} has spaces around it, or a line break or byte order mark in it (stray "
            "quotes join lines)",
            column,
        )

    def refuse_broken(self, column: str) -> None:
        """Raise for a name with a NUL or half a character; JSON and Parquet can hold such."""
        names = [name if isinstance(name, str) else "" for name in self.frame[column].tolist()]
        together = "".join(names)
        if "\0" not in together and not _lacks_utf8(together):
            return
        wrong = ["\0" in name or _lacks_utf8(name) for name in names]
        message = f"{column} {{}} has a NUL or half a character in it"
        self.fail_at(np.array(wrong, dtype=bool), message, column)

    def as_strings(self, column: str) -> pd.Series:
        """Make a column strings; integers are taken, anything else that is no string is wrong."""
        values = self.frame[column]
        self.fail_at(values.isna().to_numpy(), f"{column} is missing", column)
        if not isinstance(values.dtype, pd.StringDtype):
            wrong = [
                not isinstance(v, str | int | np.integer) or isinstance(v, bool) for v in values
            ]
            message = f"{column} must be a string; found {{}}"
            self.fail_at(np.array(wrong, dtype=bool), message, column)
            texts = [str(value) for value in values]
            wrong = [_lacks_utf8(text) for text in texts]
            self.fail_at(np.array(wrong, dtype=bool), f"{column} {{}} is not Unicode text", column)
            values = self.frame[column] = pd.Series(texts, dtype="str", index=values.index)
        return values

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
        wrong = (values > np.iinfo(np.int64).max).to_numpy(dtype=bool)  # unsigned, in Parquet
        self.fail_at(wrong, f"{column} must be a 64-bit integer; found {{}}", column)
        self.frame[column] = values.astype(np.int64)

    def as_samples(self) -> None:
        """Make the column ``sample`` integers of at least 0."""
        self.as_integers(SAMPLE)
        wrong = (self.frame[SAMPLE] < 0).to_numpy()
        self.fail_at(wrong, f"{SAMPLE} must not be negative; found {{}}", SAMPLE)

    def _numbers(self, column: str) -> FloatArray:
        values = self.frame[column]
        kinds = pd.api.types
        if kinds.is_numeric_dtype(values.dtype) and not kinds.is_bool_dtype(values.dtype):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        numbers = all_numbers(values)
        if numbers is None:
            found = [number_of(value) for value in values]
            wrong = np.array([number is None for number in found], dtype=bool)
            self.fail_at(wrong, f"{column} must be a number; found {{}}", column)
            numbers = np.array(found, dtype=np.float64)
        return numbers

    def codes(self, columns: list[str]) -> IntArray:
        """Return a number for each row, the same where two rows agree in all the columns."""
        codes = np.zeros(len(self.frame), dtype=np.int64)
        for column in columns:
            part, values = pd.factorize(self.frame[column])
            codes = codes * max(1, len(values)) + part
        return codes

    def unique(self, columns: list[str], what: str) -> None:
        """Raise a `FormatError` if two rows agree in all the columns."""
        codes = self.codes(columns)
        twice = pd.Series(codes).duplicated().to_numpy()
        if not twice.any():
            return
        row = int(np.flatnonzero(twice)[0])
        first = int(np.flatnonzero(codes == codes[row])[0])
        line = self.line_of(first)
        before = f"row {first}" if line is None else f"line {line}"
        names = ", ".join(f"{c} {shown(self.frame[c].iloc[row])}" for c in columns)
        more = int(twice.sum()) - 1
        tail = f"; {more} more such rows" if more else ""
        every = np.flatnonzero(twice).tolist()
        self.fail(row, f"{what}: {names} was in {before} already{tail}", every)


def all_numbers(values: pd.Series) -> FloatArray | None:
    """Return the numbers that strings are; None unless each of them is one (`NUMBER`)."""
    texts = values.tolist()
    try:
        # float does the rest: no text of these characters alone is read by it that is no NUMBER
        return np.array([*map(float, texts)]) if _NUMERIC.issuperset("".join(texts)) else None
    except (TypeError, ValueError):
        return None


def shown(value: Any) -> str:
    """Return a value as a message shows it: short, 1.0 and not np.float64(1.0)."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # an integer of thousands of digits
        text = f"an integer of {value.bit_length()} bits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def number_of(value: Any) -> float | None:
    """Return a value as a float; None: it is no number, nor the text of one (`NUMBER`)."""
    if isinstance(value, str):
        # "nan" and "inf" are numbers, though no good ones: the caller says which are
        words = value.strip("+-").lower() in ("nan", "inf", "infinity")
        return float(value) if words or NUMBER.fullmatch(value) else None
    if value is None:
        return np.nan
    if isinstance(value, bool | np.bool_ | complex) or not isinstance(value, Number):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return np.inf


def _lacks_utf8(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
