"""Write files with named columns; read groups and gold answers."""

from __future__ import annotations

import json
import re
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError
from fairtk.frames import WEIGHT
from fairtk.frames.accepted import accepts_dataframes, column_of
from fairtk.frames.schema import is_text
from fairtk.io.atomic import atomic_text
from fairtk.io.lines import PIPED, is_parquet_name, parse_json
from fairtk.io.parquet import write_parquet
from fairtk.io.rows import NOTE, Rows, looks_like_a_row, numbers_in

_JSONL = (".jsonl", ".ndjson")


@accepts_dataframes
def write_table(
    frame: pd.DataFrame, path: str | PathLike[str], note: dict[str, Any] | None = None
) -> None:
    """Write a frame with its column names, atomically.

    The suffix chooses the format: ``.parquet``, ``.jsonl``, ``.csv``, or TSV for any other; ``.gz``
    compresses text. Lists of strings are JSON arrays in TSV and CSV. The index is not written. The
    note, which JSON lines cannot hold, is read back as `Rows.note`.

    Raises:
        InputError: the folder does not exist, or a text looks like rows of the file.
    """
    if is_parquet_name(path):
        write_parquet(_listed_evenly(frame), path, note)
        return
    name = str(path).removesuffix(".gz")
    columns = [frame[c].tolist() for c in frame.columns]
    names = [str(c) for c in frame.columns]
    with atomic_text(path) as stream:
        if name.endswith(_JSONL):
            for record in zip(*columns, strict=True):
                row = dict(zip(names, map(_plain, record), strict=True))
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            return
        delimiter = "," if name.endswith(".csv") else "\t"
        quoted = re.compile(rf'[\r\n"{delimiter}]')
        if note:
            stream.write(NOTE + json.dumps(note, ensure_ascii=False) + "\n")
        for record in [tuple(names), *zip(*columns, strict=True)]:
            cells = [_cell(value, quoted) for value in record]
            if any(looks_like_a_row(cell, len(names)) for cell in cells):
                raise InputError(
                    f"{path}: a text must not have lines that look like rows; write .jsonl or "
                    ".parquet instead"
                )
            stream.write(delimiter.join(cells) + "\n")


def strings_or_lists(rows: Rows, column: str) -> None:
    """Convert a column of gold answers to strings or lists of strings.

    In text, a JSON array of strings is a list; ``[1]`` stays a string, because answers of LaMP-1
    look like this.
    """
    values = [_plain(value) for value in rows.frame[column]]
    values = [(_json_strings(v) or v) if isinstance(v, str) else v for v in values]
    wrong = [not (isinstance(v, str) or _is_strings(v)) for v in values]
    rows.refuse_if(wrong, column, f"{column} must be a string or a list of strings, got {{}}")
    rows.frame[column] = column_of(values).set_axis(rows.frame.index)


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
    if path == PIPED:
        return "stdin"
    return re.sub(r"\.(tsv|csv|txt|jsonl|parquet|pq)$", "", Path(path).name.removesuffix(".gz"))


def name_and_path(source: str | PathLike[str]) -> tuple[str | None, str]:
    """Return the name and the path in ``"NAME=FILE"``; the name is `None` for a path alone."""
    text = fspath(source)
    name, equals, path = text.partition("=")
    return (name, path) if equals and name and not Path(text).exists() else (None, text)


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
            wrong = [not (is_missing or is_text(value)) for value, is_missing in pairs]
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


def _listed_evenly(frame: pd.DataFrame) -> pd.DataFrame:
    # Parquet columns have one type: if some values are lists, all become lists
    changed = {}
    for name in frame.columns:
        if frame[name].dtype == object:
            values = [_plain(v) for v in frame[name]]
            if any(isinstance(v, list) for v in values):
                changed[name] = [v if isinstance(v, list) else [v] for v in values]
    return frame.assign(**changed) if changed else frame


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, np.ndarray | tuple) else value


def _cell(value: Any, quoted: re.Pattern[str]) -> str:
    plain = _plain(value)
    if isinstance(plain, list):
        text = json.dumps(plain, ensure_ascii=False)
    elif isinstance(plain, str) and _json_strings(plain) is not None:
        text = json.dumps([plain], ensure_ascii=False)  # otherwise it would be read as a list
    else:
        text = str(plain)
    # csv.writer does not quote a lone carriage return, at which csv.reader ends the record
    return '"' + text.replace('"', '""') + '"' if quoted.search(text) else text
