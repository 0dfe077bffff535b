"""Files whose columns have names: TSV or CSV with a header, JSON lines, Parquet.

The rules of quotes are csv's. pandas reads a field like ``"a"b`` or a missing field without a word,
so its result is taken only for files without quotes that have as many fields in each line as in the
header, which is counted while it reads; any other file is read again, record by record.

PyTerrier saves TREC runs by default, which have no place for ``sample`` and ``qanswer``: a run that
is reused would be another one. It passes open binary files to a reader and a writer, and does so in
its linear plan without ``batch_size`` only; `fairtk.Experiment` keeps results whatever the plan.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from pandas.api.types import is_object_dtype

from fairtk.errors import FormatError, InputError
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    GROUP,
    LABEL,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    WEIGHT,
    takes_tables,
    uncoded,
)
from fairtk.io.atomic import atomic_text, atomic_write
from fairtk.io.lines import (
    PIPED,
    Flaw,
    Shape,
    Source,
    is_parquet_name,
    objects_of,
    parse_json,
    source,
)
from fairtk.io.rows import NUMBER, Rows, all_numbers, shown

NOTE = "# fairtk: "
"""What a line begins with in which fairtk's writer noted something; it stands before the header."""

_QUOTES = "; a field that starts with a quote must be quoted as a whole, with quotes inside doubled"


def read_delimited(file: Source) -> Rows:
    """Read a TSV or CSV file (commas and no tab in the header); all columns are strings.

    A `FormatError` names the line that has another number of fields than the header, a stray quote,
    the header once more, or something that is no text.
    """
    rows = _read_plain(file) or _read_records(file)
    _check_names(rows)
    return rows


def looks_like_a_row(text: str, width: int) -> bool:
    """Return whether a field has a line, not its first, that could be a row of the file.

    Then two stray quotes are likelier than such a text. Commas are no sign, tabs are.
    """
    if width < 3 or "\n" not in text:
        return False
    return any(line.count("\t") == width - 1 for line in text.split("\n")[1:])


def _read_plain(file: Source) -> Rows | None:
    """Return the rows of a file in which every line is plain; None: it is another."""
    first = file.start(2)
    note = first[:1] if first[0].startswith(NOTE) else []
    header = first[len(note)].rstrip("\r\n")
    delimiter = _delimiter(header)
    names = header.split(delimiter)
    if not header.strip() or '"' in header or "\ufffd" in "".join(first):
        return None
    frame = file.parsed(
        Shape(delimiter, len(names)),
        len(note) + 1,
        sep=delimiter,
        names=range(len(names)),
        dtype="str",
        skip_blank_lines=False,  # it takes spaces at the start of a line with them
        encoding="utf-8",
    )
    head = len(note) + 1
    return None if frame is None else _rows(frame, names, file, head, note, lambda n: n + head + 1)


def delimited_records(
    file: Source, note: list[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of each record, by csv's strict rules.

    The file is plain or gzipped; tabs separate, or commas if the first record has no tab. A line
    that notes something, at the start of the file, is appended to `note`.
    """
    numbered = file.lines()
    number, text = next(numbered, (1, ""))
    if text.startswith(NOTE):
        if note is not None:
            note.append(text)
        number, text = next(numbered, (1, ""))
    while text.isspace():
        number, text = next(numbered, (number, ""))
    texts = chain([text], (text for _, text in numbered))
    reader = csv.reader(texts, delimiter=_delimiter(text), strict=True)
    while True:
        line = number + reader.line_num
        try:
            record = next(reader, None)
        except csv.Error as error:
            file.stop(FormatError(_explained(error), path=file.path, line=line))
            return
        if record is None:
            return
        if record:
            yield line, record


def _read_records(file: Source) -> Rows:
    """Return the rows of any file by csv's strict rules."""
    note: list[str] = []
    entries = delimited_records(file, note)
    head, header = next(entries, (1, []))
    records: list[list[str]] = []
    lines: list[int] = []
    for line, record in entries:
        if len(record) != len(header):
            file.refuse_fields([header], len(record), " ".join(record), line)
        elif any(looks_like_a_row(text, len(header)) for text in record):
            file.refuse(f"stray quotes join this line with others{_QUOTES}", line)
        else:
            records.append(record)
            lines.append(line)
    columns = list(zip(*records, strict=True)) or [()] * len(header)
    frame = pd.DataFrame(dict(enumerate(pd.Series(list(c), dtype="str") for c in columns)))
    return _rows(frame, header, file, head, note, lines.__getitem__)


def _explained(error: csv.Error) -> str:
    text = str(error)
    if "field limit" in text:
        return f"a field has more than {csv.field_size_limit():,} characters{_QUOTES}"
    if "new-line" in text:
        return "a carriage return within a line; line ends must be \\n or \\r\\n"
    return text + _QUOTES


def _rows(
    frame: pd.DataFrame,
    names: list[str],
    file: Source,
    head: int,
    note: list[str],
    line_of: Callable[[int], int],
) -> Rows:
    content = parse_json(note[0].removeprefix(NOTE), file.path, 1) if note else {}
    if not isinstance(content, dict):
        raise FormatError("what this line notes is no JSON object", file.path, 1)
    frame.columns = pd.Index(names)
    return Rows(frame, file.path, line_of, head, content, errors=file.errors)


def _check_names(rows: Rows) -> None:
    names = [str(name) for name in rows.frame.columns]
    spaced = [name for name in names if name != name.strip()]
    if spaced:
        message = f"the name of the column {spaced[0]!r} has spaces around it"
        raise FormatError(message, rows.path, rows.head)
    if not names:
        return
    again = rows.frame.iloc[:, 0].isin(names).to_numpy(dtype=bool, copy=True)
    for row in np.flatnonzero(again):
        again[row] = set(rows.frame.iloc[row]) == set(names)
    if again.any():
        rows.refuse(again, "the header occurs again; were files joined?", "bad-values")


def _delimiter(header: str) -> str:
    return "\t" if "\t" in header else ","


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


def has_header(file: Source) -> bool:
    """Return whether the first line of a text file names columns (two known ones, no number)."""
    fields = [field.strip().strip('"') for field in _SEPARATOR.split(file.first_line)]
    return len(_KNOWN.intersection(fields)) >= 2 and not any(map(NUMBER.fullmatch, fields))


def read_table(path: str | PathLike[str], errors: list[Flaw] | None = None) -> Rows:
    """Read a file with named columns, whichever of the three formats it has.

    A TSV file has a header (with commas and no tab in it, the file is read as CSV) and follows
    csv's rules for quotes (a field with a tab, a line break or a leading quote is quoted), as
    pandas, R and spreadsheets write it. Columns with a name of `ALIASES` are renamed.
    """
    with source(path, errors) as file:
        return read_named(file)


def read_named(file: Source) -> Rows:
    """Return the rows of a file with named columns; see `read_table`."""
    if file.kind == "parquet":
        frame, note = read_parquet(file.path, file.raw)
        rows = Rows(frame, file.path, lambda row: None, note=note, errors=file.errors)
    else:
        rows = _read_jsonl(file) if file.kind == "jsonl" else read_delimited(file)
    columns = [ALIASES.get(str(c), str(c)) for c in rows.frame.columns]
    rows.frame.columns = pd.Index(columns, dtype="str")
    twice = rows.frame.columns[rows.frame.columns.duplicated()]
    if len(twice):
        raise FormatError(f"the column {twice[0]!r} occurs twice", path=file.path, line=rows.head)
    return rows


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
            file.refuse(f"the keys differ from the first line's in {keys}", number)
    frame = pd.DataFrame({n: _column([r[n] for r in records]) for n in names or ()})
    return Rows(frame, file.path, lines.__getitem__, errors=file.errors)


def _column(values: list[Any]) -> pd.Series:
    kinds = {type(v) for v in values}
    dtype: Any = "str" if kinds == {str} else None if kinds <= {int, float} else object
    try:
        return pd.Series(values, dtype=dtype)
    except (UnicodeEncodeError, OverflowError):  # half a character, an int of hundreds of digits
        return pd.Series(values, dtype=object)  # as_strings and as_numbers say where


@takes_tables
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


@takes_tables
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
    values = [(_json_strings(v) or v) if isinstance(v, str) else v for v in values]
    right = [isinstance(v, str) or bool(v) and _is_strings(v) for v in values]
    wrong = ~np.array(right, dtype=bool)
    if wrong.any():
        value = values[int(np.flatnonzero(wrong)[0])]
        text = "nothing" if not isinstance(value, list) and value != value else shown(value)
        message = f"{column} must be a string or a list of strings; found {text}"
        rows.refuse(wrong, message, "bad-values")
        values = [value for value, good in zip(values, right, strict=True) if good]
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
    are missing. Where `columns` are the weights alone, all others have names, too.
    """
    rows.require(columns, what)
    _check_note(rows)
    frame = rows.frame
    if WEIGHT in frame.columns and not pd.api.types.is_numeric_dtype(frame[WEIGHT].dtype):
        numbers = all_numbers(frame[WEIGHT])
        if numbers is not None:  # else the caller says which is none, and of what
            frame[WEIGHT] = numbers
    for column in frame.columns if columns == [WEIGHT] else columns:
        values = rows.frame[column]
        if column != WEIGHT and isinstance(values.dtype, pd.StringDtype):
            rows.refuse_flaws(column)
            rows.frame[column] = rows.frame[column].mask(lambda names: names == "")
        elif column != WEIGHT and not _holds_names(values):
            wrong = np.array([not _is_name(value) for value in values], dtype=bool)
            rows.fail_at(wrong, f"{column} must be a string; found {{}}", column)
            rows.refuse_flaws(column)


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


def _read(file: BinaryIO) -> pd.DataFrame:
    """Read a frame; a half-written or damaged file is a `FormatError` that names it."""
    frame, _ = read_parquet(getattr(file, "name", "the saved results"), file)
    for name in frame.columns:
        if is_object_dtype(frame[name].dtype):  # Parquet gives lists back as arrays
            frame[name] = [v.tolist() if isinstance(v, np.ndarray) else v for v in frame[name]]
    return frame


save_format = (_read, write_parquet)
"""A reader and a writer for ``pt.Experiment(save_dir=..., save_format=fairtk.io.save_format)``."""
