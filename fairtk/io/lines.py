"""Read text files, plain or gzipped: by line, as JSON, or with pandas' C parser.

Size limits are checked during decompression, too.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import FormatError, InputError, ParameterError

Kind = Literal["parquet", "jsonl", "text"]

LINE = 1 << 20
"""The maximum size of a line of a text file: 1 MiB."""

JSON_ENTRY = 256 << 20
"""The maximum size of an entry of a JSON file: 256 MiB."""

MARK = "\ufeff"
"""The byte order mark, which may start a file."""

CHUNK = 1 << 18
"""The number of bytes to read at a time."""

STDIN, PIPED = "-", "standard input"
"""Standard input as a path, and its name in messages."""

READ_PROGRESS: Callable[[Any], AbstractContextManager[Callable[[int], object]]] | None = None
"""Reports the progress of reading, e.g. by a bar: a function of the path that returns a context
manager, which yields a function of the number of bytes read so far. The command line sets it."""

_unseen = contextlib.nullcontext(lambda position: None)
_GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
_MARK = MARK.encode()
# in a text file, an id may start with a brace, so a key must follow
JSON_OBJECT = re.compile(rb'\s*(\[\s*)?\{\s*"[^"\s]*"\s*:')
JSON_NESTED = re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*\{')


Look = Callable[[bytes], object]
"""A function that checks a chunk of a file; it may raise."""


class Source:
    """An open file, which can be read several times.

    Attributes:
        path: the file, for messages.
        place: the path for opening it again.
        kind: the format, by the first bytes or the suffix of Parquet.
        errors: a list that collects errors while their lines are skipped; `None` to raise them.
        start: the first bytes.
    """

    def __init__(
        self,
        place: str | PathLike[str],
        raw: BinaryIO,
        errors: list[FormatError] | None,
        told: Callable[[int], object],
    ) -> None:
        self.path = PIPED if place == STDIN else place
        self.place = place
        self.errors = errors
        self._raw = raw
        self._told = told
        self._packed = raw.read(2) == _GZIP
        self._unended = 0  # the number of the last line if it has no line end
        start = self._start(lambda chunk: None).read(4100) or b""
        self.start = start.removeprefix(_MARK)
        self.kind: Kind = "jsonl" if JSON_OBJECT.match(self.start) else "text"
        if start.startswith(PARQUET) or is_parquet_name(place):
            self.kind = "parquet"

    @property
    def raw(self) -> BinaryIO:
        """The raw bytes of the file, from the start."""
        self._raw.seek(0)
        return self._raw

    def _start(self, look: Look) -> Watched:
        plain = gzip.GzipFile(fileobj=self.raw) if self._packed else self.raw
        return Watched(plain, look, self.path)

    def stream(self, longest: int = LINE) -> io.BufferedReader:
        """Return the decompressed bytes from the start, in lines of at most `longest` bytes.

        Reading raises a `FormatError` for a longer line, a NUL byte or a broken gzip file.
        """
        lines = length = 0  # the number of complete lines, and the length of the current one

        def look(chunk: bytes) -> None:
            nonlocal lines, length
            if b"\0" in chunk:
                raise FormatError(
                    "a NUL byte, so this is not UTF-8 text; if it is UTF-16, convert it, e.g. with "
                    "iconv",
                    self.path,
                    lines + chunk.count(b"\n", 0, chunk.index(b"\0")) + 1,
                )
            end = chunk.find(b"\n")
            if length + (len(chunk) if end < 0 else end) > longest:
                reason = f"a line must be at most {longest >> 20} MiB long"
                raise FormatError(reason, self.path, lines + 1)
            length = length + len(chunk) if end < 0 else len(chunk) - chunk.rfind(b"\n") - 1
            lines += chunk.count(b"\n")
            self._told(self._raw.tell())

        return io.BufferedReader(self._start(look), CHUNK)

    def parsed(
        self,
        names: Sequence[str],
        types: Mapping[str, str],
        delimiter: str | None = None,
        skip: int = 0,
    ) -> pd.DataFrame | None:
        """Return a table read with pandas' C parser; `None` if it would misread a line.

        Args:
            names: the columns.
            types: the types of columns; the others are text.
            delimiter: the separator of fields; `None` for white space, with blank lines skipped.
            skip: the number of lines before the first row.
        """
        stream = self.stream()
        for _ in range(skip):
            stream.readline()
        options: dict[str, Any] = {"sep": r"\s+", "encoding": "utf-8-sig"}
        if delimiter is not None:  # with spaces at its start, a line is blank for pandas
            options = {"sep": delimiter, "encoding": "utf-8", "skip_blank_lines": False}
        if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
            options["float_precision"] = "round_trip"  # the default in later versions
        look = _plain_lines(delimiter, len(names))
        try:
            # pandas warns if it casts a fraction to an integer
            with np.errstate(invalid="ignore"):
                frame = pd.read_csv(
                    io.BufferedReader(Watched(stream, look), CHUNK),
                    header=None,
                    names=range(len(names)),
                    dtype={number: types.get(name, "str") for number, name in enumerate(names)},
                    index_col=False,
                    na_filter=False,  # "NA" and "null" are valid ids
                    quoting=csv.QUOTE_NONE,  # quotes are part of ids
                    **options,
                )
        except FormatError:
            if self.errors is None:
                raise
            return None
        except (ValueError, OverflowError) as error:  # ParserError and UnicodeDecodeError are, too
            # before Python 3.12, pandas reports Ctrl-C in `Watched` as this error
            if "Calling read(nbytes) on source failed" in str(error):
                raise KeyboardInterrupt from None
            return None
        frame.columns = pd.Index(names)
        if names[-1] not in types and delimiter is None and bool((frame[names[-1]] == "").any()):
            return None  # pandas pads lines with fewer fields
        return frame

    def line_of(self, row: int) -> int:
        """Return the 1-based line of a row, if each nonblank line has one row; slow."""
        seen = -1
        for number, text in text_lines(self.place):
            seen += bool(text.strip())
            if seen == row:
                return number
        return row + 1

    def lines(self, longest: int = LINE) -> Iterator[tuple[int, str]]:
        """Yield the 1-based number and the text of each line, with its line end; see `stream`.

        A byte order mark at the start is removed. A line that is not UTF-8 is an error.
        """
        try:
            yield from self.strict_lines(longest)
        except FormatError as error:
            self.stop(error)

    def strict_lines(self, longest: int = LINE) -> Iterator[tuple[int, str]]:
        """Yield the same as `lines`, but raise all errors."""
        for number, raw in enumerate(self.stream(longest), start=1):
            text = decode_line(raw, self.path, number)
            if not self._packed and not text.endswith("\n"):
                self._unended = number
            yield number, text.removeprefix(MARK) if number == 1 else text

    @cached_property
    def first_line(self) -> str:
        """The first nonblank line, or ``""``; errors are raised."""
        return next((text.strip("\r\n") for _, text in self.strict_lines() if text.strip()), "")

    def refuse(self, message: str, line: int) -> None:
        """Raise a `FormatError` for a line, or collect it, so that the caller skips the line."""
        error = FormatError(message, self.path, line)
        if self.errors is None:
            raise error
        error.check = "cut" if line == self._unended else "line"
        self.errors.append(error)

    def stop(self, error: FormatError) -> None:
        """Raise, or collect, an error after which nothing more can be read."""
        if self.errors is None:
            raise error
        error.check = "stopped"
        self.errors.append(error)


@contextlib.contextmanager
def source(path: str | PathLike[str], errors: list[FormatError] | None = None) -> Iterator[Source]:
    """Open a plain, gzipped or Parquet file for reading; see `Source`.

    ``-`` is standard input; its content is saved to a temporary file.
    """
    checks.path("path", path)
    follow = READ_PROGRESS
    file = _kept_stdin() if path == STDIN else path
    with _regular(file) as raw, follow(file) if follow else _unseen as told:
        yield Source(path, raw, errors, told)


@contextlib.contextmanager
def open_bytes(path: str | PathLike[str], longest: int = LINE) -> Iterator[io.BufferedReader]:
    """Open a plain or gzipped text file for reading bytes; see `Source.stream`."""
    with source(path) as file:
        yield file.stream(longest)


def text_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the 1-based number and the text of each line of a file; see `Source.lines`."""
    with source(path) as file:
        yield from file.lines()


class Watched(io.RawIOBase):
    """A stream that passes each chunk to a function, which may raise."""

    def __init__(self, stream: Any, look: Look, path: str | PathLike[str] | None = None) -> None:
        self._stream = stream
        self._look = look
        self._path = path

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read one chunk."""
        try:
            chunk = self._stream.read(min(memoryview(buffer).nbytes, CHUNK))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            message = f"broken gzip file ({error}); download or create it again"
            raise FormatError(message, path=self._path) from None
        self._look(chunk)
        memoryview(buffer).cast("B")[: len(chunk)] = chunk
        return len(chunk)


def _plain_lines(delimiter: str | None, width: int) -> Look:
    """Return a check that raises a ValueError for lines that pandas would misread.

    These have carriage returns, byte order marks or, with a delimiter, quotes or another number of
    fields.
    """
    rest, begun = b"", False

    def look(chunk: bytes) -> None:
        nonlocal rest, begun
        read = rest + (chunk or b"\n" * bool(rest))  # the last line may have no line end
        end = read.rfind(b"\n") + 1
        lines, rest = read[:end], read[end:]
        if b"\r" in lines:
            lines = lines.replace(b"\r\n", b"\n")
        # pandas drops a byte order mark at the start of a file without a header
        marks = lines.find(_MARK, 0 if begun or delimiter is not None else len(_MARK)) >= 0
        if b"\r" in lines or marks or (delimiter is not None and not fits(lines)):
            raise ValueError("this is not plain")
        begun |= end > 0

    def fits(lines: bytes) -> bool:
        codes = np.frombuffer(lines, dtype=np.uint8)
        starts = np.flatnonzero(codes == ord("\n")) + 1
        if b'"' in lines or not len(starts):
            return b'"' not in lines
        starts = np.concatenate([[0], starts[:-1]])
        fields = np.add.reduceat(codes == ord(delimiter or ""), starts, dtype=np.int64) + 1
        return bool(((fields == width) & (codes[starts] != ord("\n"))).all())

    return look


_kept: list[Any] = []  # standard input and the file with its content


def _kept_stdin() -> str:
    if not _kept or _kept[0] is not sys.stdin:
        file = tempfile.NamedTemporaryFile(prefix="fairtk-")  # noqa: SIM115 - as long as stdin
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        _kept[:] = sys.stdin, file
    return str(_kept[1].name)


_REASONS: Mapping[type, str] = {
    FileNotFoundError: "no such file",
    IsADirectoryError: "expected a file, got a folder",
    PermissionError: "no permission to read this file",
}


@contextlib.contextmanager
def _regular(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    try:
        raw = Path(path).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:  # ValueError: an invalid file name
        reason = _REASONS.get(type(error), f"cannot open the file ({error})")
        raise InputError(f"{path}: {reason}") from None
    with raw:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise InputError(
                f"{path}: expected a file, got a pipe or device, which can be read only once; "
                "save its content to a file"
            )
        yield raw


def decode_line(line: bytes, path: str | PathLike[str], number: int | None) -> str:
    """Return a line decoded as UTF-8; raise a `FormatError` with the line number."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"expected UTF-8 text, got the byte {error.object[error.start]:#04x}; "
            "convert it, e.g. with iconv",
            path=path,
            line=number,
        ) from None


def is_parquet_name(path: str | PathLike[str]) -> bool:
    """Return whether a file is written as Parquet, by its suffix."""
    return checks.path("path", path).suffix in {".parquet", ".pq"}


@contextlib.contextmanager
def file_errors(path: str | PathLike[str]) -> Iterator[None]:
    """Prefix an `InputError` about a file's content with its name."""
    try:
        yield
    except (FormatError, ParameterError):  # has the name; is not about the file
        raise
    except InputError as error:
        raise FormatError(str(error), path) from None


_BLANK = " \t\r\n"
"""White space in JSON."""


def parse_json(text: str, path: str | PathLike[str] | None = None, line: int | None = None) -> Any:
    """Return the value of a JSON text; `path` and `line`, its first line, are for messages.

    Raises:
        FormatError: the text is invalid JSON, is nested too deep, or has a number with thousands of
            digits, an unpaired surrogate or a duplicate key.
    """
    try:
        value = json.loads(text.rstrip(_BLANK), object_pairs_hook=_object)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        reason = "unpaired surrogate, \\ud800 to \\udfff, in a string"
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at character {error.colno - 1}"
        line = None if line is None else line + error.lineno - 1
    except RecursionError:
        reason = "nested too deep"
    except FormatError as error:
        reason = error.reason
    except ValueError:
        reason = "a number with thousands of digits"
    raise FormatError(f"invalid JSON ({reason})", path=path, line=line)


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise FormatError(f"duplicate key {twice!r} in an object")
    return record


def describe_json(value: Any) -> str:
    """Return a short description of a JSON value, for messages."""
    if isinstance(value, dict):
        return f"an object with the keys {sorted(value)[:8]}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


def objects_of(file: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the 1-based line number and the object of each line; empty lines are skipped."""
    start = JSON_OBJECT.match(file.start)
    if start and start[1]:
        raise FormatError(
            "expected one JSON object per line, got a list; pandas writes lines with "
            "to_json(path, orient='records', lines=True)",
            file.path,
            1,
        )
    for number, text in file.lines(JSON_ENTRY):
        if text.isspace():
            continue
        try:
            record = parse_json(text.strip(_BLANK), file.path, number)
        except FormatError as error:
            file.refuse(error.reason, error.line or number)
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            file.refuse(f"expected a JSON object, got a {type(record).__name__}", number)


def read_json(path: str | PathLike[str]) -> Any:
    """Return the value of a JSON file, plain or gzipped, of at most `JSON_ENTRY` bytes."""
    with open_bytes(path, JSON_ENTRY) as stream:
        raw = stream.read(JSON_ENTRY + 1)
    if len(raw) > JSON_ENTRY:
        raise FormatError(f"a JSON file must be at most {JSON_ENTRY >> 20} MiB", path=path)
    return parse_json(decode_line(raw.removeprefix(_MARK), path, None), path, 1)
