"""Tables in files of each format, with the line of each row.

Quoting follows csv's rules. pandas does not report a field such as ``"a"b`` or a missing field. So
its result is used only if the file has no quotes and each line has as many fields as the header;
any other file is read again, record by record.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Number
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError
from fairtk.frames import (
    ANSWER_STATUS,
    DOCNO,
    GOLD_ANSWER,
    LABEL,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    IntArray,
)
from fairtk.frames.accepted import as_frame, column_of, swapped_message
from fairtk.frames.columns import as_numbers
from fairtk.frames.ids import SURROGATE, Coded, are_ids, categories, find_flaw
from fairtk.frames.schema import (
    NumberRule,
    Refuse,
    RowProblem,
    check_ids,
    check_numbers,
    check_unique,
    combined,
    is_text,
    problem_text,
    short_repr,
)
from fairtk.io.formats import BEIR, QRELS_LAYOUTS, RUN_LAYOUTS, likely_kinds, may_be_colbert
from fairtk.io.lines import (
    JSON_ENTRY,
    JSON_NESTED,
    JSON_OBJECT,
    MARK,
    PARQUET,
    Source,
    objects_of,
    parse_json,
    source,
)
from fairtk.io.parquet import read_parquet
from fairtk.wording import format_list, missing_columns, rename_hint

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A number in a file; unlike ``float``, without ``1_000`` and digits of other scripts."""

_NUMERIC = frozenset("0123456789+-.eE")


@dataclass
class Rows:
    """The table of a file; checks convert its columns."""

    frame: pd.DataFrame  # its index is the rows of the file
    path: str | PathLike[str]  # the file, for messages
    line_of: Callable[[int], int | None]  # the 1-based line of a row, slow; `None` in Parquet
    head: int | None = None  # the line of the header, if the file has one
    note: dict[str, Any] = field(default_factory=dict)  # the note of fairtk's writer
    format: str = ""  # "msmarco" or "beir", if its columns have other meanings
    ids: dict[str, Coded] = field(default_factory=dict)  # the checked ids, by column

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise a `FormatError` with file and line (or row)."""
        row = int(self.frame.index[row])
        line = self.line_of(row)
        place = f"row {row}: " if line is None else ""
        raise FormatError(place + message, path=self.path, line=line)

    def refuse(self, problem: RowProblem) -> NoReturn:
        """Raise the problem as a `FormatError` with file and line (or row)."""
        before = ""
        if problem.before is not None:
            first = int(self.frame.index[problem.before])
            line = self.line_of(first)
            before = f", first in {f'row {first}' if line is None else f'line {line}'}"
        try:
            self.fail(int(problem.rows[0]), problem_text(problem, self.frame, before))
        except FormatError as error:
            error.rows, error.check = problem.rows.tolist(), problem.check
            raise

    def refuse_if(self, wrong: Any, column: str, message: str, check: str = "bad-values") -> None:
        """Refuse the rows of a mask, if any; ``{}`` in the message is the first row's value."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            value = short_repr(self.frame[column].iloc[int(rows[0])])
            self.refuse(RowProblem(rows, message.replace("{}", value, 1), check=check))

    def without(self, rows: Sequence[int]) -> Rows:
        """Return the table without some rows."""
        return replace(self, frame=self.frame.drop(index=self.frame.index[list(rows)]))

    def require(self, columns: Sequence[str], what: str) -> None:
        """Raise a `FormatError` if a column is missing or the header is repeated."""
        missing = [c for c in columns if c not in self.frame.columns]
        if missing:
            expected = f"{what} with {format_list(columns, 9)}"
            message = missing_columns(missing, expected, self.frame.columns)
            message += rename_hint(missing, expected, self.frame.columns)
            if self.head is not None and len(missing) == len(columns) > 1:
                message += "; the first line must have the names of the columns"
            for value in {LABEL, SCORE}.intersection(missing):
                message = swapped_message(self.frame.columns, value) or message
            raise FormatError(message, path=self.path, line=self.head)
        if self.head is not None:
            names = set(self.frame.columns)
            again = self.frame.iloc[:, 0].isin({*names, *ALIASES}).to_numpy(dtype=bool, copy=True)
            for row in np.flatnonzero(again):
                again[row] = {ALIASES.get(v, v) for v in self.frame.iloc[row]} == names
            self.refuse_if(again, columns[0], "duplicate header; were files concatenated?")

    def ordered(self, *names: str) -> pd.DataFrame:
        """Return the frame with some columns first; missing ones are ignored."""
        first = [name for name in names if name in self.frame.columns]
        return self.frame[[*first, *self.frame.columns.drop(first)]]

    def as_ids(self, *columns: str) -> None:
        """Convert columns to categorical ids; `fairtk.frames.ids.decode_ids` makes them text."""
        for column in columns:
            self.ids[column] = check_ids(self.frame[column], column, self.refuse)
            self.frame[column] = categories(self.ids[column])

    def as_numbers(self, *columns: str, rule: NumberRule | None = None) -> None:
        """Convert columns of numbers or their text to numbers; missing columns are ignored."""
        for column in columns:
            if column in self.frame.columns:
                numbers = numbers_in(self.frame[column])
                self.frame[column] = check_numbers(numbers, column, self.refuse, rule)

    def as_strings(self, column: str) -> None:
        """Convert a column to strings, which may be empty."""
        self.frame[column] = check_texts(self.frame[column], column, self.refuse)

    def refuse_flaws(self, column: str) -> None:
        """Refuse names that are not valid ids, except for tabs, which files quote.

        Missing and empty names are ignored.
        """
        values = self.frame[column].tolist()
        names = [v.replace("\t", "_") if isinstance(v, str) and v else "-" for v in values]
        flaws = [] if are_ids(names) else [find_flaw(name) for name in names]
        rows = [row for row, flaw in enumerate(flaws) if flaw]
        if rows:
            message = f"{column} {short_repr(values[rows[0]])} {flaws[rows[0]]}"
            self.refuse(RowProblem(np.array(rows), message))

    def codes(self, columns: Sequence[str]) -> IntArray:
        """Return one number per row, equal for rows that agree in all the columns."""
        codes = np.zeros(len(self.frame), dtype=np.int64)
        for column in columns:
            values = self.frame[column]
            if isinstance(values.dtype, pd.CategoricalDtype):
                part = values.cat.codes.to_numpy(np.int64)
            else:
                part = pd.factorize(values)[0]
            codes = combined(codes, part)
        return codes

    def unique(self, columns: Sequence[str], what: str) -> None:
        """Refuse rows that agree with an earlier row in all the columns."""
        groups, items = self.codes(columns[:-1]), self.codes(columns[-1:])
        check_unique(groups, items, what, self.refuse)


def rows_of_frame(frame: pd.DataFrame, where: str, **fields: Any) -> Rows:
    """Return the rows of a frame, for the same checks as those of a file."""
    return Rows(frame.reset_index(drop=True), where, lambda row: None, **fields)


def check_texts(values: pd.Series, column: str, refuse: Refuse) -> pd.Series:
    """Return a column as strings, which may be empty; refuse missing and other values."""
    if isinstance(values.dtype, pd.StringDtype) and not values.hasnans:
        return values
    wrong = [not is_text(v) or SURROGATE.search(str(v)) is not None for v in values]
    if any(wrong):
        rows = np.flatnonzero(wrong)
        message = f"{column} must be text, got {short_repr(values.iloc[int(rows[0])])}"
        refuse(RowProblem(rows, message))
    return values.astype(str)


def with_numbers(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the frame with checked columns of booleans or objects as floats, for readers."""
    there = [c for c in columns if c in frame.columns and frame[c].dtype.kind not in "iuf"]
    return frame.assign(**{c: as_numbers(frame[c]) for c in there}) if there else frame


# Numbers in text -------------------------------------------------------------------------------


def numbers_in(values: pd.Series) -> pd.Series:
    """Return a column with numbers and their text as numbers; other values become text."""
    kinds = pd.api.types
    if kinds.is_numeric_dtype(values.dtype) and not kinds.is_bool_dtype(values.dtype):
        return values
    each = values.tolist()
    with suppress(TypeError, ValueError):
        # made of these characters, float and NUMBER accept the same texts
        if _NUMERIC.issuperset("".join(each)):
            return pd.Series([*map(float, each)], index=values.index, dtype=np.float64)
    numbers = map(number_of, each)
    mixed = [str(v) if number is None else number for v, number in zip(each, numbers, strict=True)]
    return pd.Series(mixed, index=values.index, dtype=object)


def number_of(value: Any) -> float | None:
    """Return a number, or its text (`NUMBER`), as a float; `None` for other values."""
    if isinstance(value, str):
        # "nan" and "inf" are numbers; the rules refuse them
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


# Fields separated by white space ---------------------------------------------------------------

_UNFIT = re.compile(r"[\s\ufeff]|^$")
_BLANKS = re.compile(r"[ \t]+")
_QUERY = ("qid", "query_id")  # names of columns, not of queries


def wrong_width(layouts: Sequence[Sequence[str]], fields: list[str]) -> str:
    """Return the message for a line with too few or too many fields."""
    forms = " or ".join(f"{len(c)} columns ({' '.join(c)[:200]})" for c in layouts)
    return f"expected {forms}, got {len(fields)}: {' '.join(fields)[:60]!r}"


def fields_of(line: str) -> list[str]:
    """Return the fields of a line."""
    return [field for field in _BLANKS.split(line.strip(" \t\r\n")) if field]


def refuse_spaces(where: str, remedy: str = "", **names: Any) -> None:
    """Raise an `InputError` for names that TREC's format cannot hold: empty or with spaces."""
    for what, texts in names.items():
        wrong = [text for text in map(str, texts) if _UNFIT.search(text) or "\0" in text]
        if wrong:
            raise InputError(
                f"{where}: in TREC's format, a {what} must not be empty or have spaces, got "
                f"{format_list(wrong, 3)}{remedy}"
            )


def check_first_line(where: str, line: str) -> None:
    """Raise an `InputError` for a line that readers take for another format or a header."""
    start, names = line.encode("utf-8", "replace"), _SEPARATOR.split(line)
    if (
        start.startswith(PARQUET)
        or JSON_OBJECT.match(start)
        or fields_of(line)[0] in _QUERY
        or not _KNOWN.isdisjoint(names)
    ):
        raise InputError(
            f"{where}: the first line {line[:60]!r} would be read as another format; rename the "
            "query or write .parquet"
        )


def read_whitespace(
    file: Source, layouts: Sequence[Sequence[str]], types: Mapping[str, str]
) -> Rows:
    """Read a plain or gzipped text file without a header.

    The layout is the one with as many columns as line 1 or, if errors are collected, as most lines.
    Columns in `types` may still be text, if pandas would misread a line.

    Raises:
        FormatError: a line fits no layout, or has another number of columns than line 1; names the
            line.
    """
    first = fields_of(file.first_line)
    _refuse_other_files(file, layouts, first)
    by_width = {len(layout): list(layout) for layout in layouts}
    columns = by_width.get(len(first)) if first else list(layouts[0])
    frame = None if columns is None else file.parsed(columns, types)
    if frame is not None:
        return Rows(frame, file.path, file.line_of)
    entries: Iterable[tuple[int, list[str]]] = _entries(file)
    if file.errors is not None:
        entries = list(entries)
        widths = Counter(len(fields) for _, fields in entries if len(fields) in by_width)
        columns = by_width[widths.most_common(1)[0][0]] if widths else None
    rows = []
    for number, fields in entries:
        if columns is not None and len(fields) == len(columns):
            rows.append((number, fields))
        else:
            kinds = "" if columns else likely_kinds(_value_of(layouts), fields)
            file.refuse(wrong_width([columns] if columns else layouts, fields) + kinds, number)
        # an empty file, or one with only a byte order mark, has the first layout
    records = [fields for _, fields in rows]
    frame = pd.DataFrame(records, columns=columns or list(layouts[0]), dtype="str")
    return Rows(frame, file.path, lambda row: rows[row][0])


def _refuse_other_files(file: Source, layouts: Sequence[Sequence[str]], first: list[str]) -> None:
    """Refuse a run instead of qrels, or the reverse, and an unknown header."""
    if first and first[0] in _QUERY and file.errors is None:
        names = " ".join(first)[:60]
        raise FormatError(
            f"invalid header ({names}): a column is missing or unknown; fix or remove this line",
            file.path,
            1,
        )
    value = _value_of(layouts)
    for columns in {LABEL: RUN_LAYOUTS, SCORE: QRELS_LAYOUTS}.get(value, []):
        if len(first) == len(columns):
            number = first[columns.index(SCORE if value == LABEL else LABEL)]
            if NUMBER.fullmatch(number) and not may_be_colbert(first):
                raise FormatError(swapped_message(columns, value), file.path, 1)


def _value_of(layouts: Sequence[Sequence[str]]) -> str:
    """Return the column of numbers of TREC's qrels or runs; `""` for other layouts."""
    return next((name for name in (LABEL, SCORE) if name in layouts[0]), "")


def _entries(file: Source) -> Iterator[tuple[int, list[str]]]:
    for number, line in file.lines():
        if MARK in line:
            file.refuse("unexpected byte order mark (U+FEFF); were files concatenated?", number)
        elif "\r" in line.removesuffix("\r\n"):
            file.refuse(_CARRIAGE_RETURN, number)
        elif fields := fields_of(line):
            yield number, fields


# Named columns ---------------------------------------------------------------------------------

NOTE = "# fairtk: "
"""The start of the first line, before the header, if it has the note of fairtk's writer."""

ALIASES = {
    "query_id": QID,
    "doc_id": DOCNO,
    "docid": DOCNO,
    "pid": DOCNO,
    "relevance": LABEL,
    "relevance_label": LABEL,
    "rel": LABEL,
    "sim": SCORE,
    "query-id": QID,
    "corpus-id": DOCNO,
}
"""Column names of other tools (ir_measures, expeval, Fair-RAG, BEIR), and PyTerrier's."""


def refuse_aliases(where: str, columns: Iterable[Any]) -> None:
    """Raise an `InputError` for names of columns that would be read as others."""
    for name in columns:
        if name in ALIASES:
            raise InputError(
                f"{where}: the column {name!r} would be read as {ALIASES[name]!r}; rename or drop "
                "it"
            )


_KNOWN = {
    *(QID, DOCNO, LABEL, SCORE, RANK, SAMPLE, QANSWER, ANSWER_STATUS, GOLD_ANSWER),
    *ALIASES,
}
_SEPARATOR = re.compile(r"[\t,]")
_QUOTES = "; if a field starts with a quote, quote the whole field and double the quotes inside"
_CARRIAGE_RETURN = "unexpected carriage return within a line; lines must end with \\n or \\r\\n"


def has_header(file: Source) -> bool:
    """Return whether the first line has at least two known column names and no number."""
    fields = [field.strip().strip('"') for field in _SEPARATOR.split(file.first_line)]
    return len(_KNOWN.intersection(fields)) >= 2 and not any(map(NUMBER.fullmatch, fields))


def read_table(path: str | PathLike[str], errors: list[FormatError] | None = None) -> Rows:
    """Read a file with named columns: TSV or CSV, JSON lines, or Parquet.

    Text has a header; without a tab in it, the file is CSV. A field with a separator, a line break
    or a leading quote is quoted, as in pandas, R and spreadsheets. Columns in `ALIASES` are
    renamed.
    """
    with source(path, errors) as file:
        return read_named(file)


def read_named(file: Source) -> Rows:
    """Return the rows of a file with named columns; see `read_table`."""
    if file.kind == "parquet":
        frame, note = read_parquet(file.path, file.raw)
        rows = Rows(frame.reset_index(drop=True), file.path, lambda row: None, note=note)
    else:
        rows = _read_jsonl(file) if file.kind == "jsonl" else _read_delimited(file)
    names = [*map(str, rows.frame.columns)]
    if {*BEIR} <= {*names} and {LABEL, RANK}.isdisjoint(names):
        rows.format = "beir"
    rows.frame.columns = pd.Index([ALIASES.get(name, name) for name in names], dtype="str")
    twice = rows.frame.columns[rows.frame.columns.duplicated()]
    if len(twice):
        raise FormatError(f"duplicate column {twice[0]!r}", path=file.path, line=rows.head)
    return rows


def _read_delimited(file: Source) -> Rows:
    """Return the rows of a TSV or CSV file, all columns as strings."""
    note, head, delimiter = _opening(file)
    entries = delimited_records(file)
    _, names = next(entries, (head, []))
    frame = file.parsed(names, {}, delimiter, head) if names else None
    line_of: Callable[[int], int] = lambda row: row + head + 1  # noqa: E731
    if frame is None:
        lines, records = [], []
        for line, record in entries:
            if len(record) != len(names):
                file.refuse(wrong_width([names], record), line)
            elif any(looks_like_a_row(text, len(names)) for text in record):
                file.refuse(f"stray quotes join this line with the next{_QUOTES}", line)
            else:
                records.append(record)
                lines.append(line)
        frame = pd.DataFrame(records, columns=range(len(names)), dtype="str")
        frame.columns = pd.Index(names)
        line_of = lines.__getitem__
    spaced = [name for name in names if name != name.strip()]
    if spaced:
        message = f"the column name {spaced[0]!r} must not have surrounding spaces"
        raise FormatError(message, file.path, head)
    return Rows(frame, file.path, line_of, head, note)


def _opening(file: Source) -> tuple[dict[str, Any], int, str]:
    """Return the note of fairtk's writer, the line of the header, and the delimiter."""
    note = {}
    for number, text in file.strict_lines():
        if number == 1 and text.startswith(NOTE):
            note = parse_json(text.removeprefix(NOTE), file.path, 1)
            if not isinstance(note, dict):
                raise FormatError("the note on this line must be a JSON object", file.path, 1)
        elif not text.isspace():
            return note, number, "\t" if "\t" in text else ","
    return note, 1, ","


def delimited_records(file: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of each record, including the header, by strict csv rules."""
    _, head, delimiter = _opening(file)
    texts = (text for number, text in file.lines() if number >= head)
    reader = csv.reader(texts, delimiter=delimiter, strict=True)
    while True:
        line = head + reader.line_num
        try:
            record = next(reader, None)
        except csv.Error as error:
            file.stop(FormatError(_explained(error), path=file.path, line=line))
            return
        if record is None:
            return
        if record:
            yield line, record


def looks_like_a_row(text: str, width: int) -> bool:
    """Return whether a later line of a field looks like a row of the file, by its tabs.

    If so, two stray quotes are likelier than such a text.
    """
    if width < 3 or "\n" not in text:
        return False
    return any(line.count("\t") == width - 1 for line in text.split("\n")[1:])


def _explained(error: csv.Error) -> str:
    text = str(error)
    if "field limit" in text:
        return f"a field must have at most {csv.field_size_limit():,} characters{_QUOTES}"
    if "new-line" in text:
        return _CARRIAGE_RETURN
    return f"invalid quotes ({text}){_QUOTES}"


def read_json_rows(file: Source, value: str) -> Rows:
    """Return the rows of JSON lines, or of one object ``{qid: {docno: value}}``."""
    if not _is_nested(file):
        return read_named(file)
    data = parse_json("".join(text for _, text in file.strict_lines(JSON_ENTRY)), file.path, 1)
    try:
        frame = as_frame(data, value, "the file")
    except InputError as error:
        raise FormatError(str(error), file.path) from None
    return Rows(frame, file.path, lambda row: None)


def refuse_nested_json(file: Source, value: str, remedy: str) -> None:
    """Refuse one object of objects, ``{qid: {docno: value}}``, without the name of its format."""
    if file.kind == "jsonl" and _is_nested(file):
        raise FormatError(
            f"expected one JSON object with the keys qid, docno and {value} per line, got "
            f"{{qid: {{docno: {value}}}}}; read it with {remedy}",
            file.path,
            1,
        )


def _is_nested(file: Source) -> bool:
    """Return whether a JSON file starts with an object of objects, in one or several lines."""
    if not JSON_NESTED.match(file.start):
        return False
    try:
        first = next(text for _, text in file.strict_lines(JSON_ENTRY) if not text.isspace())
        record: dict[str, Any] = parse_json(first.strip())
    except FormatError:
        return True  # the object has several lines
    return all(isinstance(value, dict) for value in record.values())


def _read_jsonl(file: Source) -> Rows:
    entries: Iterable[tuple[int, dict[str, Any]]] = objects_of(file)
    names: list[str] | None = None
    if file.errors is not None:
        entries = list(entries)
        forms = Counter(tuple(record) for _, record in entries)
        names = [*forms.most_common(1)[0][0]] if forms else None
    lines: list[int] = []
    records: list[dict[str, Any]] = []
    for number, record in entries:
        names = list(record) if names is None else names
        if record.keys() == set(names):
            records.append(record)
            lines.append(number)
        else:
            keys = sorted(record.keys() ^ set(names))
            message = f"expected the keys of the first line; missing or unknown: {keys}"
            file.refuse(message, number)
    frame = pd.DataFrame({n: column_of([r[n] for r in records]) for n in names or ()})
    return Rows(frame, file.path, lines.__getitem__)
