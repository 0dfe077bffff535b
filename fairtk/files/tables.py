"""Files whose columns have names: TSV with a header, JSON lines, Parquet."""

from __future__ import annotations

import csv
import json
import re
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import FormatError
from fairtk.files.atomic import atomic_text
from fairtk.files.content import (
    decoded,
    first_line,
    is_parquet_name,
    kind_of,
    opened,
    opened_text,
    read_parquet,
    write_parquet,
)
from fairtk.files.json_lines import json_objects
from fairtk.files.rows import Rows
from fairtk.frames.columns import DOCNO, GOLD_ANSWER, LABEL, QANSWER, QID, RANK, SAMPLE, SCORE

ALIASES = {
    "query_id": QID,
    "doc_id": DOCNO,
    "docid": DOCNO,
    "pid": DOCNO,
    "relevance": LABEL,
    "relevance_label": LABEL,
    "rel": LABEL,
    "sim": SCORE,
}
"""Names of columns in other people's files (ir_measures', expeval's and Fair-RAG's), to ours."""

_KNOWN = {QID, DOCNO, LABEL, SCORE, RANK, SAMPLE, QANSWER, GOLD_ANSWER, *ALIASES}
_SEPARATOR = re.compile(r"[\t,]")
_QUOTED = re.compile(r'[\t\r\n"]')


def has_header(path: str | PathLike[str]) -> bool:
    """Return whether the first line of a text file names columns (two known ones, no number)."""
    fields = [field.strip() for field in _SEPARATOR.split(first_line(path))]
    return len(_KNOWN.intersection(fields)) >= 2 and not any(map(_is_number, fields))


def read_table(path: str | PathLike[str]) -> Rows:
    """Read a file with named columns, whichever of the three formats it has.

    A TSV file has a header (with commas and no tab in it, the file is read as CSV) and follows
    csv's rules for quotes (a field with a tab, a line break or a leading quote is quoted), as
    pandas, R and spreadsheets write it. Columns with a name of `ALIASES` are renamed.

    Raises:
        FormatError: a line cannot be read; names it.
    """
    kind = kind_of(path)
    if kind == "parquet":
        rows = Rows(read_parquet(path), path, lambda row: None)
    else:
        rows = _read_jsonl(path) if kind == "jsonl" else _read_tsv(path)
    rows.frame.columns = pd.Index([ALIASES.get(str(c), str(c)) for c in rows.frame.columns])
    twice = rows.frame.columns[rows.frame.columns.duplicated()]
    if len(twice):
        raise FormatError(f"the column {twice[0]!r} occurs twice", path=path, line=1)
    return rows


def _read_tsv(path: str | PathLike[str]) -> Rows:
    lines: list[int] = []
    records: list[list[str]] = []
    delimiter = "\t" if "\t" in first_line(path) else ","
    with opened_text(path) as stream:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        header: list[str] = []
        try:
            for record in reader:
                if not header:
                    header = [name.strip() for name in record]
                elif len(record) == len(header):
                    records.append(record)
                    lines.append(reader.line_num)
                elif record:
                    raise FormatError(
                        f"expected {len(header)} columns ({' '.join(header)}), "
                        f"found {len(record)}: {' '.join(record)[:60]!r}",
                        path=path,
                        line=reader.line_num,
                    )
        except csv.Error as error:
            raise FormatError(
                f"{error}; a field that starts with a quote must be quoted as a whole, with "
                "quotes inside doubled",
                path=path,
                line=reader.line_num,
            ) from None
        except UnicodeDecodeError:
            _find_undecodable(path)
            raise
    columns = list(zip(*records, strict=True)) or [()] * len(header)
    frame = pd.DataFrame(dict(enumerate(pd.Series(list(c), dtype="str") for c in columns)))
    frame.columns = pd.Index(header)
    return Rows(frame, path, lines.__getitem__)


def _read_jsonl(path: str | PathLike[str]) -> Rows:
    lines: list[int] = []
    records: list[dict[str, Any]] = []
    for number, record in json_objects(path):
        if records and record.keys() != records[0].keys():
            different = sorted(record.keys() ^ records[0].keys())
            raise FormatError(
                f"the keys differ from the first line's in {different}", path=path, line=number
            )
        records.append(record)
        lines.append(number)
    names = list(records[0]) if records else []
    frame = pd.DataFrame({n: _column([r[n] for r in records]) for n in names})
    return Rows(frame, path, lines.__getitem__)


def _column(values: list[Any]) -> pd.Series:
    kinds = {type(v) for v in values}
    if kinds == {str}:
        return pd.Series(values, dtype="str")
    return pd.Series(values, dtype=None if kinds <= {int, float} else object)


def _find_undecodable(path: str | PathLike[str]) -> None:
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            decoded(raw, path, number)


def write_table(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write a frame with its column names, in one step.

    The suffix chooses: ``.parquet``, ``.jsonl``, anything else is TSV; ``.gz`` behind the last
    two packs. Lists of strings are JSON arrays in TSV.
    """
    if is_parquet_name(path):
        write_parquet(_listed_evenly(frame), path)
        return
    jsonl = str(path).removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    columns = [frame[c].tolist() for c in frame.columns]
    names = [str(c) for c in frame.columns]
    with atomic_text(path) as stream:
        if jsonl:
            for record in zip(*columns, strict=True):
                row = dict(zip(names, map(_plain, record), strict=True))
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            stream.write("\t".join(map(_cell, names)) + "\n")
            for record in zip(*columns, strict=True):
                stream.write("\t".join(map(_cell, record)) + "\n")


def strings_or_lists(rows: Rows, column: str) -> None:
    """Make a column of gold answers strings or lists of strings; a TSV list is a JSON array.

    ``["a", "b"]`` is a list; ``[1]`` is a string (LaMP-1's labels look so): only an array of
    strings counts.

    Raises:
        FormatError: a value is missing, empty list, or neither string nor strings; names the line.
    """
    values = [_plain(value) for value in rows.frame[column]]
    for row, value in enumerate(values):
        if isinstance(value, str):
            values[row] = _json_strings(value) or value
        elif not (isinstance(value, list) and value and all(isinstance(v, str) for v in value)):
            found = "nothing" if not isinstance(value, list) and value != value else repr(value)
            rows.fail(row, f"{column} must be a string or a list of strings; found {found}")
    one_type = all(isinstance(value, str) for value in values)
    rows.frame[column] = pd.Series(
        values, dtype="str" if one_type else object, index=rows.frame.index
    )


def _json_strings(text: str) -> list[str] | None:
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    return found if found and all(isinstance(v, str) for v in found) else None


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


def _cell(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, list):
        text = json.dumps(plain, ensure_ascii=False)
    elif isinstance(plain, str) and _json_strings(plain) is not None:
        text = json.dumps([plain], ensure_ascii=False)  # else it would be read as a list
    else:
        text = str(plain)
    # csv.writer leaves a lone carriage return unquoted, and csv.reader ends the record there
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
