"""Text files without a header, columns separated by spaces or tabs (TREC's formats)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, NoReturn

import pandas as pd

from fairtk.errors import FormatError
from fairtk.files.content import decoded, first_line, opened
from fairtk.files.rows import Rows

Type = Literal["str", "int", "float"]
_BLANKS = re.compile(r"[ \t]+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def fields_of(line: str) -> list[str]:
    """Return the fields of a line."""
    return [field for field in _BLANKS.split(line.strip(" \t\r\n")) if field]


def read_whitespace(
    path: str | PathLike[str],
    layouts: Sequence[Sequence[str]],
    types: Mapping[str, Type],
) -> Rows:
    """Read a text file without a header.

    pandas' C parser reads the file; only when it, or a check of its result, finds something wrong
    is the file read again line by line, to say where.

    Args:
        path: a plain or gzipped file.
        layouts: the possible lists of columns, of different lengths; line 1 decides which.
        types: the type of each column.

    Raises:
        FormatError: a line has another number of columns than line 1 or than any layout, or a
            field is no number where one is needed; names the line.
    """
    width = len(fields_of(first_line(path)))
    columns = next((list(layout) for layout in layouts if len(layout) == width), None)
    if columns is None:
        if width:
            _locate(path, layouts, types)
        columns = list(layouts[0])
    dtypes = {"str": "str", "int": "int64", "float": "float64"}
    # older versions of pandas read numbers exactly on request only, newer ones always
    exact = {} if _version() >= (3, 1) else {"float_precision": "round_trip"}
    try:
        with opened(path) as stream:
            frame = pd.read_csv(
                stream,
                sep=r"\s+",
                header=None,
                names=columns,
                index_col=False,
                dtype={column: dtypes[types[column]] for column in columns},
                na_filter=False,  # "NA" and "null" are good ids
                quoting=3,  # csv.QUOTE_NONE: quotes are part of ids
                encoding="utf-8-sig",
                **exact,
            )
    except (ValueError, OverflowError) as error:  # ParserError and UnicodeDecodeError are, too
        if isinstance(error, FormatError):
            raise
        _locate(path, layouts, types, str(error))
    if frame[columns].eq("").iloc[:, -1].any():  # a line with fewer fields is filled up with ""
        _locate(path, layouts, types)
    return Rows(frame, path, lambda row: _line_of(path, row))


def _locate(
    path: str | PathLike[str],
    layouts: Sequence[Sequence[str]],
    types: Mapping[str, Type],
    reason: str = "it cannot be read",
) -> NoReturn:
    """Raise a `FormatError` for the first line that is wrong."""
    columns: Sequence[str] | None = None
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            line = decoded(raw, path, number)
            fields = fields_of(line.removeprefix("\ufeff") if number == 1 else line)
            if not fields:
                continue
            if columns is None:
                columns = next((c for c in layouts if len(c) == len(fields)), None)
            if columns is None or len(fields) != len(columns):
                wanted = [columns] if columns is not None else layouts
                forms = " or ".join(f"{len(c)} columns ({' '.join(c)})" for c in wanted)
                shown = line.strip()[:60]
                raise FormatError(
                    f"expected {forms}, found {len(fields)}: {shown!r}", path=path, line=number
                )
            for column, field in zip(columns, fields, strict=True):
                _check(column, field, types[column], path, number)
    raise FormatError(reason, path=path)


def _check(column: str, field: str, kind: Type, path: str | PathLike[str], number: int) -> None:
    if kind == "int" and not _INTEGER.fullmatch(field):
        raise FormatError(f"{column} must be an integer; found {field!r}", path=path, line=number)
    if kind == "float" and not (_NUMBER.fullmatch(field) and math.isfinite(float(field))):
        raise FormatError(
            f"{column} must be a finite number; found {field!r}", path=path, line=number
        )


def _line_of(path: str | PathLike[str], row: int) -> int:
    seen = -1
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            seen += bool(raw.strip())
            if seen == row:
                return number
    return row + 1


def _version() -> tuple[int, int]:
    major, minor = pd.__version__.split(".")[:2]
    return int(major), int(minor)
