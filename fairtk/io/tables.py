"""Write files with named columns; read groups and gold answers."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from fairtk import checks
from fairtk.errors import FormatError, InputError
from fairtk.frames import GOLD_ANSWER, GROUP, WEIGHT
from fairtk.frames.accepted import column_of, frame_of
from fairtk.frames.ids import find_flaw
from fairtk.frames.schema import Refuse, RowProblem, is_text, short_repr
from fairtk.io.atomic import atomic_text
from fairtk.io.lines import LINE, PIPED, is_parquet_name, parse_json
from fairtk.io.parquet import write_parquet
from fairtk.io.rows import NOTE, NUMBER, Rows, looks_like_a_row, numbers_in

_JSONL = (".jsonl", ".ndjson")


def write_table(
    frame: pd.DataFrame, path: str | PathLike[str], note: dict[str, Any] | None = None
) -> None:
    """Write a frame with its column names, atomically.

    The suffix chooses the format: ``.parquet``, ``.jsonl``, ``.csv``, or TSV for any other; ``.gz``
    compresses text. In TSV and CSV, lists of gold answers are JSON arrays, and a reader returns
    other values as text. The index is not written. The note, which JSON lines cannot hold, is read
    back as `Rows.note`.

    Raises:
        InputError: the folder does not exist, or the format cannot hold a value or the name of a
            column.
    """
    frame = frame_of(frame)
    check_names(frame.columns, path)
    if is_parquet_name(path):
        write_parquet(listed_evenly(frame), path, note)
        return
    columns = {name: frame[name].tolist() for name in frame.columns}
    name = str(path).removesuffix(".gz")
    lines = _json_lines if name.endswith(_JSONL) else _delimited_lines
    with atomic_text(path) as stream:
        if note and lines is _delimited_lines:
            stream.write(NOTE + json.dumps(note, ensure_ascii=False) + "\n")
        stream.writelines(lines(columns, "," if name.endswith(".csv") else "\t", path))


_REMEDY = "; write .jsonl or .parquet instead"
_UNFIT_NAME = re.compile(r"[,\"]")


def check_names(columns: pd.Index, path: str | PathLike[str]) -> None:
    """Refuse names of columns that are read back as others."""
    for name in columns:
        flaw = find_flaw(name) if isinstance(name, str) else "is not text"
        if isinstance(name, str) and not is_parquet_name(path):
            if _UNFIT_NAME.search(name):
                flaw = "has a comma or a quote"
            elif NUMBER.fullmatch(name):
                flaw = "is a number"
        if flaw:
            raise InputError(f"{path}: the column name {name!r} {flaw}; rename the column")
    twice = columns[columns.duplicated()]
    if len(twice):
        raise InputError(f"{path}: duplicate column {twice[0]!r}; rename or drop it")


def _json_lines(
    columns: dict[str, list[Any]], delimiter: str, path: str | PathLike[str]
) -> Iterator[str]:
    if not all(columns.values()):
        raise InputError(f"{path}: JSON lines must have rows; write .tsv or .parquet instead")
    for row, record in enumerate(zip(*columns.values(), strict=True)):
        values = [None if is_missing(value) else _plain(value) for value in record]
        try:
            text = json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: row {row}: JSON cannot hold a value: {error}") from None
        yield text + "\n"


def _delimited_lines(
    columns: dict[str, list[Any]], delimiter: str, path: str | PathLike[str]
) -> Iterator[str]:
    quoted = re.compile(rf'[\r\n"{delimiter}]')
    yield delimiter.join(columns) + "\n"
    for row, record in enumerate(zip(*columns.values(), strict=True)):
        cells = []
        for column, value in zip(columns, record, strict=True):
            cell = _cell(value, column == GOLD_ANSWER)
            flaw = None
            if cell is None:
                flaw = f"{short_repr(value)} is not text or a number"
            elif "\0" in cell:
                flaw = "a text must not have a NUL byte"
            elif len(cell) > csv.field_size_limit():
                flaw = f"a text must have at most {csv.field_size_limit():,} characters"
            elif looks_like_a_row(cell, len(columns)):
                flaw = "a text must not have lines that look like rows"
            if cell is None or flaw:
                raise InputError(f"{path}: row {row}, column {column!r}: {flaw}{_REMEDY}")
            # csv.writer does not quote a lone carriage return, at which csv.reader ends the record
            cells.append('"' + cell.replace('"', '""') + '"' if quoted.search(cell) else cell)
        line = delimiter.join(cells) + "\n"
        if len(line) > LINE // 4 and len(line.encode("utf-8", "replace")) > LINE:
            raise InputError(f"{path}: row {row}: a row must be at most 1 MiB long{_REMEDY}")
        yield line


def strings_or_lists(rows: Rows, column: str) -> None:
    """Convert a column of gold answers to strings or lists of strings.

    In TSV and CSV, a JSON array of strings is a list; ``[1]`` stays a string, because answers of
    LaMP-1 look like this.
    """
    values = rows.frame[column].tolist()
    if rows.head is not None:
        values = [(_json_strings(v) or v) if isinstance(v, str) else v for v in values]
    answers = check_gold_answers(values, column, rows.refuse)
    rows.frame[column] = column_of(answers).set_axis(rows.frame.index)


def check_gold_answers(values: Iterable[Any], column: str, refuse: Refuse) -> list[Any]:
    """Return gold answers as strings and lists of strings; refuse other values."""
    answers = [_plain(value) for value in values]
    wrong = [row for row, v in enumerate(answers) if not (isinstance(v, str) or _is_strings(v))]
    if wrong:
        value = short_repr(answers[wrong[0]])
        message = f"{column} must be a string or a list of strings, got {value}"
        refuse(RowProblem(np.array(wrong), message))
    return answers


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and value != [] and {*map(type, value)} == {str}


def _json_strings(text: str) -> list[str] | None:
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        value = parse_json(text)
    except FormatError:
        return None
    return value if _is_strings(value) else None


def stem(path: str | PathLike[str]) -> str:
    """Return a file's name without its suffixes."""
    name = checks.path("path", path).name
    if name == PIPED:
        return "stdin"
    return re.sub(r"\.(tsv|csv|txt|jsonl|parquet|pq)$", "", name.removesuffix(".gz"))


def name_and_path(source: str | PathLike[str]) -> tuple[str | None, str]:
    """Return the name and the path in ``"NAME=FILE"``; the name is `None` for a path alone."""
    text = fspath(source)
    name, equals, path = text.partition("=")
    return (name, path) if equals and name and not Path(text).exists() else (None, text)


_LISTS = (list, tuple, set, frozenset, np.ndarray)


def check_weights(rows: Rows, columns: list[str], what: str) -> None:
    """Check the rows of a file of groups or of a target, and convert its columns.

    Names are strings (or integers, in Parquet); empty fields are missing. Weights are converted to
    numbers if possible. If `columns` is only the weight, all other columns are names.
    """
    rows.require(columns, what)
    _check_note(rows)
    for column in rows.frame.columns if columns == [WEIGHT] else columns:
        values = rows.frame[column]
        if column == WEIGHT:
            continue
        if isinstance(values.dtype, pd.StringDtype):
            rows.frame[column] = values.mask(values == "")
        else:
            pairs = zip(values, values.isna(), strict=True)
            may_be_list = column == GROUP and column in columns
            wrong = [
                not (missing or is_text(value) or (may_be_list and isinstance(value, _LISTS)))
                for value, missing in pairs
            ]
            rows.refuse_if(wrong, column, f"{column} must be a string, got {{}}")
        rows.refuse_flaws(column)
    if WEIGHT in rows.frame.columns:  # the caller reports which weight is invalid
        rows.frame[WEIGHT] = numbers_in(rows.frame[WEIGHT])


def _check_note(rows: Rows) -> None:
    """Raise a `FormatError` if the note of a groups file has values of the wrong type."""
    levels, unknown = rows.note.get("levels", [""]), rows.note.get("unknown")
    names = [rows.note.get("name", ""), *([unknown] if unknown is not None else [])]
    if not (isinstance(levels, list) and {*map(type, [*names, *levels])} == {str}):
        raise FormatError(
            "the note must have a name, a list of levels and an unknown level (strings), got "
            f"{rows.note!r:.200}",
            rows.path,
            rows.head and 1,
        )


def listed_evenly(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with lists only, in columns with lists and other values.

    Columns of Parquet have one type. A list of one gold answer is the same as the answer itself.
    Missing values stay missing.
    """
    changed = {}
    for name in frame.columns:
        if frame[name].dtype == object and infer_dtype(frame[name]) != "string":
            values = [_plain(v) for v in frame[name]]
            if any(isinstance(v, list) for v in values):
                changed[name] = [v if isinstance(v, list) or is_missing(v) else [v] for v in values]
    return frame.assign(**changed) if changed else frame


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or ``pandas.NA``."""
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def _cell(value: Any, is_gold_answer: bool) -> str | None:
    """Return the text of a value in TSV and CSV; `None` if it has none."""
    plain = _plain(value)
    if is_gold_answer and (
        _is_strings(plain) or (isinstance(plain, str) and _json_strings(plain) is not None)
    ):
        # as a text, such a string would be read as a list
        return json.dumps(plain if isinstance(plain, list) else [plain], ensure_ascii=False)
    if isinstance(plain, str):
        return str(plain)
    is_number = isinstance(plain, int | float) and not is_missing(plain)
    return str(plain) if is_number else None
