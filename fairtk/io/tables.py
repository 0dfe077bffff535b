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
    """Write a frame with its column names, in one step.

    The suffix chooses: ``.parquet``, ``.jsonl``, ``.csv``, anything else is TSV; ``.gz`` behind the
    text formats packs. Lists of strings are JSON arrays in TSV and CSV. The index is not kept; the
    note comes back in `Rows.note` (JSON lines have no place for one).

    Raises:
        InputError: the folder does not exist, or a text could not be told from rows of the file.
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
                    f"{path}: a text has lines that look like rows of this file; write .jsonl or "
                    ".parquet"
                )
            stream.write(delimiter.join(cells) + "\n")


def strings_or_lists(rows: Rows, column: str) -> None:
    """Make a column of gold answers strings or lists of strings; a TSV list is a JSON array.

    ``["a", "b"]`` is a list; ``[1]`` is a string (LaMP-1's labels look so): only an array of
    strings counts.
    """
    values = [_plain(value) for value in rows.frame[column]]
    values = [(_json_strings(v) or v) if isinstance(v, str) else v for v in values]
    wrong = [not (isinstance(v, str) or _is_strings(v)) for v in values]
    rows.refuse_if(wrong, column, f"{column} must be a string or a list of strings; found {{}}")
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


def named_file(source: str | PathLike[str]) -> tuple[str | None, str]:
    """Return the name and the path in ``"NAME=FILE"``; of a path alone the name is `None`."""
    text = fspath(source)
    name, equals, path = text.partition("=")
    return (name, path) if equals and name and not Path(text).exists() else (None, text)


def check_weights(rows: Rows, columns: list[str], what: str) -> None:
    """Check the rows of a file of groups or of a target, and give its columns their types.

    Weights are numbers if all are; names are strings (or integers, in Parquet), and empty fields
    are missing. If `columns` has the weights alone, all other columns have names.
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
            rows.refuse_if(wrong, column, f"{column} must be a string; found {{}}")
        rows.refuse_flaws(column)
    if WEIGHT in rows.frame.columns:  # the caller says which weight is wrong, and of what
        rows.frame[WEIGHT] = numbers_in(rows.frame[WEIGHT])


def _check_note(rows: Rows) -> None:
    """Raise unless what the writer of groups noted has the types that `fairtk.Groups` takes."""
    levels, unknown = rows.note.get("levels", [""]), rows.note.get("unknown")
    names = [rows.note.get("name", ""), *([unknown] if unknown is not None else [])]
    if not (isinstance(levels, list) and {*map(type, [*names, *levels])} == {str}):
        raise FormatError(
            "the note must have a name, a list of levels and an unknown level (strings), found "
            f"{rows.note!r:.200}",
            rows.path,
            rows.head and 1,
        )


def _listed_evenly(frame: pd.DataFrame) -> pd.DataFrame:
    # Parquet columns have one type: where some values are lists, all become lists
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
        text = json.dumps([plain], ensure_ascii=False)  # else it would be read as a list
    else:
        text = str(plain)
    # csv.writer leaves a lone carriage return unquoted, and csv.reader ends the record there
    return '"' + text.replace('"', '""') + '"' if quoted.search(text) else text
