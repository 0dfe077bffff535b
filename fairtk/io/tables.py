"""Files whose columns have names: TSV or CSV with a header, JSON lines, Parquet."""

from __future__ import annotations

import json
import re
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError
from fairtk.files.atomic import atomic_text, atomic_write
from fairtk.files.content import first_line, is_parquet_name, kind_of
from fairtk.files.delimited import NOTE, looks_like_a_row, read_delimited
from fairtk.files.json_reading import json_objects, parse_json
from fairtk.files.rows import NUMBER, Rows, shown
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
_JSONL = (".jsonl", ".ndjson")


def has_header(path: str | PathLike[str]) -> bool:
    """Return whether the first line of a text file names columns (two known ones, no number)."""
    fields = [field.strip().strip('"') for field in _SEPARATOR.split(first_line(path))]
    return len(_KNOWN.intersection(fields)) >= 2 and not any(map(NUMBER.fullmatch, fields))


def read_table(path: str | PathLike[str]) -> Rows:
    """Read a file with named columns, whichever of the three formats it has.

    A TSV file has a header (with commas and no tab in it, the file is read as CSV) and follows
    csv's rules for quotes (a field with a tab, a line break or a leading quote is quoted), as
    pandas, R and spreadsheets write it. Columns with a name of `ALIASES` are renamed.
    """
    kind = kind_of(path)
    if kind == "parquet":
        frame, note = read_parquet(path)
        rows = Rows(frame, path, lambda row: None, note=note)
    else:
        rows = _read_jsonl(path) if kind == "jsonl" else read_delimited(path)
    columns = [ALIASES.get(str(c), str(c)) for c in rows.frame.columns]
    rows.frame.columns = pd.Index(columns, dtype="str")
    twice = rows.frame.columns[rows.frame.columns.duplicated()]
    if len(twice):
        raise FormatError(f"the column {twice[0]!r} occurs twice", path=path, line=rows.head)
    return rows


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
    dtype: Any = "str" if kinds == {str} else None if kinds <= {int, float} else object
    try:
        return pd.Series(values, dtype=dtype)
    except (UnicodeEncodeError, OverflowError):  # half a character, an int of hundreds of digits
        return pd.Series(values, dtype=object)  # as_strings and as_numbers say where


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


_NOTE = b"fairtk"


def read_parquet(
    path: str | PathLike[str], file: BinaryIO | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a Parquet file: the frame, and the note that `write_parquet` left.

    A file that is open already is given beside its name. A damaged one, or none, is a
    `FormatError`.
    """
    from pyarrow import parquet

    try:
        # one file, opened as such: pyarrow would make columns of folders named "alpha=1"
        with parquet.ParquetFile(
            path if file is None else file, page_checksum_verification=True
        ) as opened:
            table = opened.read()
        note = json.loads((table.schema.metadata or {}).get(_NOTE, b"{}"))
        frame = table.to_pandas()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except Exception as error:  # damaged files end in many kinds of errors, some of C++
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise FormatError(f"broken Parquet file ({reason}); make it again", path=path) from None
    if not isinstance(note, dict):
        raise FormatError("the note of this file is no JSON object", path=path)
    return frame, note


def write_parquet(
    frame: pd.DataFrame, path: str | PathLike[str] | BinaryIO, note: dict[str, Any] | None = None
) -> None:
    """Write a Parquet file in one step, or into an open file; the index of a frame is not kept.

    The note comes back with the frame. Values that Parquet cannot hold are an `InputError`.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"this frame cannot be written as Parquet: {reason}") from None
    if note is not None:
        metadata = {**(table.schema.metadata or {}), _NOTE: json.dumps(note)}
        table = table.replace_schema_metadata(metadata)
    if isinstance(path, str | PathLike):
        with atomic_write(path) as temporary:
            parquet.write_table(table, temporary, write_page_checksum=True)
    else:
        parquet.write_table(table, path, write_page_checksum=True)


def strings_or_lists(rows: Rows, column: str) -> None:
    """Make a column of gold answers strings or lists of strings; a TSV list is a JSON array.

    ``["a", "b"]`` is a list; ``[1]`` is a string (LaMP-1's labels look so): only an array of
    strings counts.
    """
    values = [_plain(value) for value in rows.frame[column]]
    for row, value in enumerate(values):
        if isinstance(value, str):
            values[row] = _json_strings(value) or value
        elif not (isinstance(value, list) and value and all(isinstance(v, str) for v in value)):
            found = "nothing" if not isinstance(value, list) and value != value else shown(value)
            rows.fail(row, f"{column} must be a string or a list of strings; found {found}")
    one_type = all(isinstance(value, str) for value in values)
    rows.frame[column] = pd.Series(
        values, dtype="str" if one_type else object, index=rows.frame.index
    )


def _json_strings(text: str) -> list[str] | None:
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        found = parse_json(text)
    except FormatError:
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
