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
from fairtk.frames import DOCNO, GROUP, WEIGHT
from fairtk.frames.columns import accepts_dataframes
from fairtk.frames.ids import uncoded
from fairtk.io.atomic import atomic_text
from fairtk.io.lines import PIPED, is_parquet_name, parse_json
from fairtk.io.parquet import write_parquet
from fairtk.io.rows import NOTE, Rows, looks_like_a_row, numbers_in, read_table

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
    right = [isinstance(v, str) or bool(v) and _is_strings(v) for v in values]
    message = f"{column} must be a string or a list of strings; found {{}}"
    rows.refuse_if(~np.array(right, dtype=bool), column, message)
    one_type = all(isinstance(value, str) for value in values)
    rows.frame[column] = pd.Series(
        values, dtype="str" if one_type else object, index=rows.frame.index
    )


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _json_strings(text: str) -> list[str] | None:
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        value = parse_json(text)
    except FormatError:
        return None
    return value if value and _is_strings(value) else None


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


def read_groups(path: str | PathLike[str]) -> pd.DataFrame:
    """Read the groups of documents, as `fairtk.Groups.read` does.

    Args:
        path: TSV, CSV, JSON lines or Parquet with named columns; may be gzipped.

    Returns:
        ``docno``, ``group`` (missing: unknown) and ``weight`` if the file has one. Its ``attrs``
        have the attribute's ``name``, which is the file's, and what else its writer noted:
        `fairtk.Groups.of` and all that takes groups read them.

    Raises:
        FormatError: a column is missing or a value is none; names file and line.
    """
    rows = read_table(path)
    check_weights(rows, [DOCNO, GROUP], "a groups file")
    frame = uncoded(rows.frame)
    frame.attrs = {"name": stem(path), **rows.note}
    return frame


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
            rows.refuse_flaws(column)
            rows.frame[column] = values.mask(values == "")
        elif not _holds_names(values):
            wrong = np.array([not _is_name(value) for value in values], dtype=bool)
            rows.refuse_if(wrong, column, f"{column} must be a string; found {{}}")
            rows.refuse_flaws(column)
    if WEIGHT in rows.frame.columns:  # the caller says which weight is wrong, and of what
        rows.frame[WEIGHT] = numbers_in(rows.frame[WEIGHT])


def _check_note(rows: Rows) -> None:
    """Raise unless what the writer of groups noted has the types that `fairtk.Groups` takes."""
    note = {"name": "", "levels": [], "unknown": None, **rows.note}
    if not (
        isinstance(note["name"], str)
        and _is_strings(note["levels"])
        and isinstance(note["unknown"], str | None)
    ):
        raise FormatError(
            "the note must have a name, a list of levels and an unknown level (strings), found "
            f"{rows.note!r:.200}",
            rows.path,
            rows.head and 1,
        )


def _holds_names(values: pd.Series) -> bool:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return isinstance(values.dtype.categories.dtype, pd.StringDtype)
    return bool(pd.api.types.is_integer_dtype(values.dtype))


def _is_name(value: Any) -> bool:
    missing = value is None or value is pd.NA or value != value
    return missing is True or isinstance(value, str | int) and not isinstance(value, bool)


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
