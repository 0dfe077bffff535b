"""Text files without a header, columns separated by spaces or tabs (TREC's formats)."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError, listed
from fairtk.files.content import CHUNK, MARK, Watched, first_line, opened, text_lines
from fairtk.files.rows import NUMBER, Rows, shown

Type = Literal["int64", "float64"]
_UNFIT = re.compile(r"[\s\ufeff]|^$")
_BLANKS = re.compile(r"[ \t]+")
_WORDS = (b"rue", b"RUE", b"als", b"ALS")  # true and false, as pandas knows them
_QUERY = ("qid", "query_id")  # no query has such a name
_MARKS = re.compile(rb"\xef\xbb\xbf|\r[^\n]")


def fields_of(line: str) -> list[str]:
    """Return the fields of a line."""
    return [field for field in _BLANKS.split(line.strip(" \t\r\n")) if field]


def refuse_spaces(names: Any, what: str, where: str, remedy: str = "") -> None:
    """Raise an `InputError` for names that such a file cannot hold: empty ones, or with spaces."""
    wrong = [name for name in pd.Series(names, dtype="str").tolist() if _UNFIT.search(str(name))]
    if wrong:
        raise InputError(
            f"{where}: TREC's format separates columns by spaces, so a {what} cannot be empty or "
            f"have spaces; found {listed(wrong, 3)}{remedy}"
        )


def read_whitespace(
    path: str | PathLike[str],
    layouts: Sequence[Sequence[str]],
    types: Mapping[str, Type],
) -> Rows:
    """Read a plain or gzipped text file without a header.

    The columns are the layout that has as many as line 1; those without a type are text. pandas' C
    parser reads the file; only when it, or a check of its result, finds something wrong is the file
    read again line by line, to say where.

    Raises:
        FormatError: a line has another number of columns than line 1 or than any layout, or a
            field is no number where one is needed; names the line.
    """
    first = fields_of(first_line(path))
    if first and first[0] in _QUERY:
        raise FormatError(
            f"this looks like a header ({' '.join(first)[:60]}), but not like one with the names "
            "of all columns; mend or remove it",
            path,
            1,
        )
    width = len(first)
    columns = next((list(layout) for layout in layouts if len(layout) == width), None)
    if columns is None:
        if width:
            _look_through(path, layouts, types)
        columns = list(layouts[0])
    marks = _Marks()
    # older versions of pandas read numbers exactly on request only, newer ones always
    old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact = {"float_precision": "round_trip"} if old else {}
    try:
        # pandas casts numbers that are no integers, and looks afterwards
        with opened(path) as stream, np.errstate(invalid="ignore"):
            frame = pd.read_csv(
                io.BufferedReader(Watched(stream, marks), CHUNK),
                sep=r"\s+",
                header=None,
                names=columns,
                index_col=False,
                dtype={column: types.get(column, "str") for column in columns},
                na_filter=False,  # "NA" and "null" are good ids
                quoting=3,  # csv.QUOTE_NONE: quotes are part of ids
                encoding="utf-8-sig",
                **exact,
            )
    except (ValueError, OverflowError) as error:  # ParserError and UnicodeDecodeError are, too
        if isinstance(error, FormatError):
            raise
        _look_through(path, layouts, types)
        raise FormatError(str(error), path=path) from None
    short = columns[-1] not in types and bool((frame[columns[-1]] == "").any())
    if short or marks.found:  # a line with fewer fields is filled up with ""
        _look_through(path, layouts, types)
        raise FormatError("it cannot be read", path=path)
    if marks.words:  # where all of a piece of the file are "True", pandas reads 1
        _look_through(path, layouts, types)
    return Rows(frame, path, lambda row: _line_of(path, row), plain=marks.ascii)


def _look_through(
    path: str | PathLike[str], layouts: Sequence[Sequence[str]], types: Mapping[str, Type]
) -> None:
    """Raise a `FormatError` for the first line that is wrong, if one is."""
    columns: Sequence[str] | None = None
    for number, line in text_lines(path):
        if MARK in line:
            message = "a byte order mark (U+FEFF) inside the file; were files joined?"
            raise FormatError(message, path, number)
        if "\r" in line.removesuffix("\r\n"):
            message = "a carriage return within a line; line ends must be \\n or \\r\\n"
            raise FormatError(message, path, number)
        fields = fields_of(line)
        if not fields:
            continue
        if columns is None:
            columns = next((c for c in layouts if len(c) == len(fields)), None)
        if columns is None or len(fields) != len(columns):
            wanted = [columns] if columns is not None else layouts
            forms = " or ".join(f"{len(c)} columns ({' '.join(c)})" for c in wanted)
            raise FormatError(
                f"expected {forms}, found {len(fields)}: {line.strip()[:60]!r}",
                path=path,
                line=number,
            )
        for column, field in zip(columns, fields, strict=True):
            if column in types:
                _check(column, field, types[column], path, number)


def _check(column: str, field: str, kind: Type, path: str | PathLike[str], number: int) -> None:
    wanted = "an integer" if kind == "int64" else "a finite number"
    value = float(field) if NUMBER.fullmatch(field) else math.nan
    if not math.isfinite(value) or kind == "int64" and not _is_int64(field, value):
        message = f"{column} must be {wanted}; found {shown(field)}"
        raise FormatError(message, path=path, line=number)


def _is_int64(field: str, value: float) -> bool:
    # below, pandas takes 1.0 and 1e5, too; above, floats no longer tell integers apart
    return value.is_integer() and abs(value) < (2.0**63 if "." not in field else 2.0**53)


def _line_of(path: str | PathLike[str], row: int) -> int:
    seen = -1
    for number, text in text_lines(path):
        seen += bool(text.strip())
        if seen == row:
            return number
    return row + 1


class _Marks:
    """Looks for byte order marks behind the start, lone carriage returns, and words of truth."""

    def __init__(self) -> None:
        self.found = False
        self.ascii = True
        self.words = False
        self._before = b""
        self._start = 1

    def __call__(self, chunk: bytes) -> None:
        whole = self._before + chunk
        self.ascii &= chunk.isascii()  # other scripts have spaces that separate no columns
        self.words |= any(part in whole for part in _WORDS)
        if b"\xef" in whole or b"\r" in whole:
            self.found |= _MARKS.search(whole, self._start) is not None
        self._before, self._start = whole[-3:], 0
