"""The rows of a file, with the way back from a row to its line; TREC's formats, separated by
blanks.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from os import PathLike
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError, listed
from fairtk.frames import (
    IS_EMPTY,
    SAMPLE,
    BoolArray,
    FloatArray,
    IntArray,
    are_ids,
    code_text,
    flaw_of,
)
from fairtk.io.lines import MARK, Flaw, Marks, Source

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A number in a file; Python's ``float`` reads ``1_000`` and the digits of other scripts, too."""

_HALF = re.compile("[\ud800-\udfff]")
_NUMERIC = frozenset("0123456789+-.eE")
_SHOWN = 60

Kind = Literal["id", "number", "integer"]
"""What a column holds."""


@dataclass
class Rows:
    """What was read from a file, before its columns are checked."""

    frame: pd.DataFrame  # the columns, one row per row of the file
    path: str | PathLike[str]  # the file, for messages
    line_of: Callable[[int], int | None]  # 1-based line of a row, slow; None in Parquet
    head: int | None = None  # the line that names the columns, if one does
    note: dict[str, Any] = field(default_factory=dict)  # what fairtk's writer noted in the file
    errors: list[Flaw] | None = None  # where what is wrong is noted; None: it is raised

    def error(self, row: int, message: str) -> FormatError:
        """Return a `FormatError` that names file and line (or row)."""
        line = self.line_of(int(row))
        place = f"row {int(row)}: " if line is None else ""
        return FormatError(place + message, path=self.path, line=line)

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise a `FormatError` that names file and line (or row)."""
        raise self.error(row, message)

    def fail_at(
        self, wrong: BoolArray, message: str, column: str, check: str = "bad-values"
    ) -> None:
        """Refuse rows that are wrong, if any; ``{}`` in the message is the first one's value."""
        if wrong.any():
            value = shown(self.frame[column].iloc[int(np.flatnonzero(wrong)[0])])
            self.refuse(wrong, message.replace("{}", value, 1), check)

    def refuse(self, wrong: BoolArray, message: str, check: str) -> None:
        """Raise for the first row that is wrong, or note it and leave all of them out."""
        error = self.error(int(np.flatnonzero(wrong)[0]), message)
        if self.errors is None:
            raise error
        self.errors.append(Flaw(check, error, int(wrong.sum())))
        left, line_of = np.flatnonzero(~wrong), self.line_of
        self.frame = self.frame.iloc[left].reset_index(drop=True)
        self.line_of = lambda row: line_of(int(left[row]))

    def typed(self, what: str, needs: Sequence[str], kinds: Mapping[str, Kind]) -> None:
        """Raise a `FormatError` unless the columns are there, and make those of each kind it."""
        self.require(needs, what)
        for column, kind in kinds.items():
            if column not in self.frame.columns:
                continue
            if kind == "id":
                self.as_ids(column)
            elif kind == "number":
                self.as_numbers(column)
            else:
                self.as_integers(column)

    def require(self, columns: Sequence[str], what: str) -> None:
        """Raise a `FormatError` unless all the columns are there."""
        missing = [c for c in columns if c not in self.frame.columns]
        if missing:
            verb = "need" if what.endswith("s") else "needs"  # qrels, answers
            noun = "column" if len(columns) == 1 else "columns"
            raise FormatError(
                f"{what} {verb} the {noun} {listed(columns, 9)}; missing: {listed(missing, 9)}, "
                f"found: {listed(self.frame.columns, 12) or 'none'}",
                path=self.path,
                line=self.head,
            )

    def as_ids(self, column: str) -> None:
        """Make a column ids, coded (`fairtk.frames.uncoded` has them as text); see `flaw_of`."""
        self.as_strings(column)
        coded, flaws = code_text(self.frame[column], column)
        if flaws:
            self._refuse_flaws(flaws, coded.cat.codes.to_numpy(), column)
            self.as_ids(column)  # those that are left
        else:
            self.frame[column] = coded

    def refuse_flaws(self, column: str) -> None:
        """Refuse names that are no ids (`flaw_of`), but for tabs, which are quoted in files.

        Missing and empty ones are passed over.
        """
        values = self.frame[column].tolist()
        names = [v.replace("\t", "_") if isinstance(v, str) and v else "-" for v in values]
        if not are_ids(names):
            flaws = {row: flaw for row, name in enumerate(names) if (flaw := flaw_of(name))}
            self._refuse_flaws(flaws, np.arange(len(names)), column)

    def _refuse_flaws(self, flaws: Mapping[int, str], codes: IntArray, column: str) -> None:
        wrong = np.isin(codes, list(flaws))
        flaw = flaws[int(codes[np.argmax(wrong)])]
        self.fail_at(wrong, f"{column} {'' if flaw == IS_EMPTY else '{} '}{flaw}", column)

    def as_strings(self, column: str) -> None:
        """Make a column strings; integers are taken, anything else that is no string is wrong."""
        self.fail_at(self.frame[column].isna().to_numpy(), f"{column} is missing", column)
        if isinstance(self.frame[column].dtype, pd.StringDtype):
            return
        wrong = [
            not isinstance(v, str | int | np.integer) or isinstance(v, bool)
            for v in self.frame[column]
        ]
        message = f"{column} must be a string; found {{}}"
        self.fail_at(np.array(wrong, dtype=bool), message, column)
        wrong = [_HALF.search(str(value)) is not None for value in self.frame[column]]
        message = f"{column} {{}} is not Unicode text"
        self.fail_at(np.array(wrong, dtype=bool), message, column)
        texts = [str(value) for value in self.frame[column]]
        self.frame[column] = pd.Series(texts, dtype="str", index=self.frame.index)

    def as_numbers(self, column: str, *, gaps: bool = False) -> None:
        """Make a column finite floats; with `gaps`, NaN where it is NaN or empty."""
        if gaps:
            empty = self.frame[column].astype(object).isin([""])
            self.frame[column] = self.frame[column].mask(empty, "nan")
        numbers = self._numbers(column)
        finite = np.isfinite(numbers) | (np.isnan(numbers) & gaps)
        self.fail_at(~finite, f"{column} must be a finite number; found {{}}", column)
        self.frame[column] = numbers[finite]

    def as_integers(self, column: str) -> None:
        """Make a column integers."""
        if self.frame[column].dtype != np.int64:
            numbers = self._numbers(column)
            whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) <= 2.0**53)
            self.fail_at(~whole, f"{column} must be an integer; found {{}}", column)
            self.frame[column] = numbers[whole].astype(np.int64)

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
            each = [number_of(value) for value in values]
            wrong = np.array([number is None for number in each], dtype=bool)
            self.fail_at(wrong, f"{column} must be a number; found {{}}", column)
            numbers = np.array([n for n in each if n is not None], dtype=np.float64)
        return numbers

    def codes(self, columns: list[str]) -> IntArray:
        """Return a number for each row, the same where two rows agree in all the columns."""
        codes = np.zeros(len(self.frame), dtype=np.int64)
        for column in columns:
            values = self.frame[column]
            if isinstance(values.dtype, pd.CategoricalDtype):
                part, size = values.cat.codes.to_numpy(), len(values.cat.categories)
            else:
                part, distinct = pd.factorize(values)
                size = len(distinct)
            codes = codes * max(1, size) + part
        return codes

    def unique(self, columns: list[str], what: str) -> None:
        """Raise a `FormatError` if two rows agree in all the columns; the first is right."""
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
        self.refuse(twice, f"{what}: {names} was in {before} already{tail}", "duplicates")


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
    text = repr(value.item() if isinstance(value, np.generic) else value)
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


Type = Literal["int64", "float64"]
_UNFIT = re.compile(r"[\s\ufeff]|^$")
_BLANKS = re.compile(r"[ \t]+")
_QUERY = ("qid", "query_id")  # no query has such a name


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
    file: Source, layouts: Sequence[Sequence[str]], types: Mapping[str, Type]
) -> Rows:
    """Read a plain or gzipped text file without a header.

    The columns are the layout that has as many as line 1; those without a type are text. pandas' C
    parser reads the file; only when it, or a check of its result, finds something wrong is the file
    read again line by line, to say where.

    Raises:
        FormatError: a line has another number of columns than line 1 or than any layout, or a
            field is no number where one is needed; names the line. Where errors are noted, numbers
            stay texts, and the layout is the one that fits most lines.
    """
    first = fields_of(file.first_line)
    if first and first[0] in _QUERY and file.errors is None:
        names = " ".join(first)[:60]
        raise FormatError(
            f"this looks like a header ({names}), but not like one with the names of all columns; "
            "mend or remove it",
            file.path,
            1,
        )
    fitting = [list(layout) for layout in layouts if len(layout) == len(first)]
    if first and not fitting:
        return _read_lines(file, layouts, types)
    return _read_plain(file, fitting[0] if fitting else list(layouts[0]), types) or _read_lines(
        file, layouts, types
    )


def _read_plain(file: Source, columns: list[str], types: Mapping[str, Type]) -> Rows | None:
    """Return the rows of a file in which every line is plain; None: it is another."""
    marks = Marks()
    # older versions of pandas read numbers exactly on request only, newer ones always
    old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact = {"float_precision": "round_trip"} if old else {}
    dtype = {column: types.get(column, "str") for column in columns}
    frame = file.parsed(
        marks, 0, sep=r"\s+", names=columns, dtype=dtype, encoding="utf-8-sig", **exact
    )
    if frame is None or marks.wrong:
        return None
    if columns[-1] not in types and bool((frame[columns[-1]] == "").any()):
        return None  # a line with fewer fields is filled up with ""
    return Rows(frame, file.path, file.line_of, errors=file.errors)


def _read_lines(file: Source, layouts: Sequence[Sequence[str]], types: Mapping[str, Type]) -> Rows:
    """Return the rows of a file line by line; all are texts."""
    entries: Iterable[tuple[int, str]] = _entries(file)
    width = len(fields_of(file.first_line))
    if file.errors is not None:
        entries = list(entries)
        widths = Counter(len(fields_of(line)) for _, line in entries)
        width = max((n for n in map(len, layouts) if widths[n]), key=lambda n: widths[n], default=0)
    columns = next((list(layout) for layout in layouts if len(layout) == width), None)
    records: list[list[str]] = []
    lines: list[int] = []
    for number, line in entries:
        fields = fields_of(line)
        if columns is None or len(fields) != len(columns):
            forms = [columns] if columns is not None else layouts
            file.refuse_fields(forms, len(fields), line.strip(), number)
            continue
        for column, text in zip(columns, fields, strict=True) if file.errors is None else ():
            if column in types:
                _check(column, text, types[column], file.path, number)
        records.append(fields)
        lines.append(number)
    # a file of blank lines, or of a byte order mark alone, has the first layout
    frame = pd.DataFrame(records, columns=columns or list(layouts[0]), dtype="str")
    return Rows(frame, file.path, lines.__getitem__, errors=file.errors)


def _entries(file: Source) -> Iterator[tuple[int, str]]:
    for number, line in file.lines():
        if MARK in line:
            file.refuse("a byte order mark (U+FEFF) inside the file; were files joined?", number)
        elif "\r" in line.removesuffix("\r\n"):
            message = "a carriage return within a line; line ends must be \\n or \\r\\n"
            file.refuse(message, number)
        elif line.strip(" \t\r\n"):
            yield number, line


def _check(column: str, field: str, kind: Type, path: str | PathLike[str], number: int) -> None:
    name = "an integer" if kind == "int64" else "a finite number"
    value = float(field) if NUMBER.fullmatch(field) else math.nan
    if not math.isfinite(value) or kind == "int64" and not _is_int64(field, value):
        message = f"{column} must be {name}; found {shown(field)}"
        raise FormatError(message, path=path, line=number)


def _is_int64(field: str, value: float) -> bool:
    # below, pandas takes 1.0 and 1e5, too; above, floats no longer tell integers apart
    return value.is_integer() and abs(value) < (2.0**63 if "." not in field else 2.0**53)
