"""TSV and CSV with a header: pandas' parser where every line is plain, csv's strict one elsewhere.

The rules of quotes are csv's. pandas reads a field like ``"a"b`` or a missing field without a word,
so its result is taken only for files without quotes that have as many fields in each line as in the
header, which is counted while it reads; any other file is read again, record by record.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from itertools import chain
from os import PathLike

import numpy as np
import pandas as pd

from fairtk.errors import FormatError
from fairtk.files.content import CHUNK, MARK, Watched, opened, text_lines
from fairtk.files.json_reading import parse_json
from fairtk.files.rows import Rows

NOTE = "# fairtk: "
"""What a line begins with in which fairtk's writer noted something; it stands before the header."""

_QUOTES = "; a field that starts with a quote must be quoted as a whole, with quotes inside doubled"


def read_delimited(path: str | PathLike[str]) -> Rows:
    """Read a TSV or CSV file (commas and no tab in the header); all columns are strings.

    A `FormatError` names the line that has another number of fields than the header, a stray quote,
    the header once more, or something that is no text.
    """
    with opened(path) as stream:
        rows = _read_plain(stream, path)
    if rows is None:
        rows = _read_records(path)
    _check_names(rows)
    return rows


def looks_like_a_row(text: str, width: int) -> bool:
    """Return whether a field has a line, not its first, that could be a row of the file.

    Then two stray quotes are likelier than such a text. Commas are no sign, tabs are.
    """
    if width < 3 or "\n" not in text:
        return False
    return any(line.count("\t") == width - 1 for line in text.split("\n")[1:])


def _read_plain(stream: io.BufferedReader, path: str | PathLike[str]) -> Rows | None:
    """Return the rows of a file in which every line is plain; None: it is another."""
    lines = [stream.readline().removeprefix(b"\xef\xbb\xbf")]
    if lines[0].startswith(NOTE.encode()):
        lines.append(stream.readline())
    try:
        *note, header = (line.decode("utf-8").rstrip("\r\n") for line in lines)
        delimiter = _delimiter(header)
        names = header.split(delimiter)
        if not header.strip() or '"' in header:
            return None
        frame = pd.read_csv(
            io.BufferedReader(Watched(stream, _Shape(delimiter, len(names))), CHUNK),
            sep=delimiter,
            header=None,
            names=range(len(names)),
            index_col=False,
            dtype="str",
            na_filter=False,  # "NA" and "null" are good ids
            skip_blank_lines=False,  # it takes spaces at the start of a line with them
            quoting=csv.QUOTE_NONE,
            encoding="utf-8",
        )
    except FormatError:
        raise
    except (ValueError, OverflowError):
        return None
    first = len(lines) + 1
    return _rows(frame, names, path, first - 1, note, lambda row: row + first)


def delimited_records(
    path: str | PathLike[str], note: list[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of each record, by csv's strict rules.

    The file is plain or gzipped; tabs separate, or commas if the first record has no tab. A line
    that notes something, at the start of the file, is appended to `note`.
    """
    numbered = text_lines(path)
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
            raise FormatError(_explained(error), path=path, line=line) from None
        if record is None:
            return
        if record:
            yield line, record


def _read_records(path: str | PathLike[str]) -> Rows:
    """Return the rows of any file by csv's strict rules."""
    note: list[str] = []
    found = delimited_records(path, note)
    head, header = next(found, (1, []))
    records: list[list[str]] = []
    lines: list[int] = []
    for line, record in found:
        if len(record) != len(header):
            raise FormatError(
                f"expected {len(header)} columns ({' '.join(header)[:200]}), "
                f"found {len(record)}: {' '.join(record)[:60]!r}",
                path=path,
                line=line,
            )
        if any(looks_like_a_row(text, len(header)) for text in record):
            raise FormatError(f"stray quotes join this line with others{_QUOTES}", path, line)
        records.append(record)
        lines.append(line)
    columns = list(zip(*records, strict=True)) or [()] * len(header)
    frame = pd.DataFrame(dict(enumerate(pd.Series(list(c), dtype="str") for c in columns)))
    return _rows(frame, header, path, head, note, lines.__getitem__)


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
    path: str | PathLike[str],
    head: int,
    note: list[str],
    line_of: Callable[[int], int],
) -> Rows:
    found = parse_json(note[0].removeprefix(NOTE), path, 1) if note else {}
    if not isinstance(found, dict):
        raise FormatError("what this line notes is no JSON object", path, 1)
    frame.columns = pd.Index(names)
    return Rows(frame, path, line_of, head, found)


def _check_names(rows: Rows) -> None:
    names = [str(name) for name in rows.frame.columns]
    spaced = [name for name in names if name != name.strip()]
    if spaced:
        message = f"the name of the column {spaced[0]!r} has spaces around it"
        raise FormatError(message, rows.path, rows.head)
    if not names:
        return
    for row in np.flatnonzero(rows.frame.iloc[:, 0].isin(names)):
        if set(rows.frame.iloc[row]) == set(names):
            rows.fail(int(row), "the header occurs again; were files joined?")


def _delimiter(header: str) -> str:
    return "\t" if "\t" in header else ","


class _NotPlainError(ValueError):
    """A file has quotes, blank lines, or lines of different widths."""


class _Shape:
    """Sees to it that all lines of a file are plain and have as many fields as the header."""

    def __init__(self, delimiter: str, width: int) -> None:
        self._delimiter = ord(delimiter)
        self._width = width
        self._begun = False
        self._rest = b""

    def __call__(self, chunk: bytes) -> None:
        if not self._begun and chunk.startswith(MARK.encode()):
            raise _NotPlainError  # pandas would leave it out
        self._begun = True
        whole = self._rest + (chunk or b"\n" * bool(self._rest))  # the last line may lack its end
        end = whole.rfind(b"\n") + 1
        self._rest = whole[end:]
        if not self._fits(whole[:end]):
            raise _NotPlainError

    def _fits(self, lines: bytes) -> bool:
        if b'"' in lines:
            return False
        if b"\r" in lines:
            lines = lines.replace(b"\r\n", b"\n")
            if b"\r" in lines:
                return False
        codes = np.frombuffer(lines, dtype=np.uint8)
        starts = np.flatnonzero(codes == ord("\n")) + 1
        if not len(starts):
            return True
        starts = np.concatenate([[0], starts[:-1]])
        fields = np.add.reduceat(codes == self._delimiter, starts, dtype=np.int64) + 1
        blank = codes[starts] == ord("\n")
        return bool(((fields == self._width) & ~blank).all())
