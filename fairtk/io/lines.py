"""Text files: plain or gzipped, with bounds that hold while unpacking; line by line, as a whole by
pandas' C parser where every line is plain, and JSON in them.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError, ParameterError

Kind = Literal["parquet", "jsonl", "text"]

LINE = 1 << 20
"""How many bytes a line of a text file may have: 1 MiB."""

JSON_ENTRY = 256 << 20
"""How many bytes an entry of a JSON file may have: 256 MiB."""

MARK = "\ufeff"
"""The byte order mark, which may stand at the start of a file."""

CHUNK = 1 << 18
"""How many bytes are read at a time."""

STDIN, PIPED = "-", "standard input"
"""How standard input is given as a file, and what messages call it."""

FOLLOWED: ContextVar[Callable[[Any], AbstractContextManager[Callable[[int], object]]] | None]
FOLLOWED = ContextVar("followed", default=None)
"""What follows the reading of files, if anything does: a function of the path that returns a
context, which is told how many bytes of the file were read so far."""

_unseen = contextlib.nullcontext(lambda position: None)
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_MARK = MARK.encode()
# a lone brace may be an id of a text file, so a key must follow
_JSON_OBJECT = re.compile(rb'\s*\{\s*"[^"\s]*"\s*:')


@dataclass(frozen=True)
class Flaw:
    """Something wrong in a file that a reader noted instead of raising it.

    Attributes:
        check: ``"line"`` (left out; ``"cut"``: the last one, without its end), ``"stopped"``
            (nothing can be read from there on), ``"order"``, or what is wrong with rows, which
            were left out: ``"duplicates"``, ``"samples"`` or ``"bad-values"``.
        error: what would have been raised; it names the first place.
        count: how many rows are concerned.
    """

    check: str
    error: FormatError
    count: int = 1


Look = Callable[[bytes], object]
"""What sees each chunk of a file; it may raise."""


class Source:
    """A file that is open for reading: opened once, read from its start as often as needed.

    Attributes:
        path: the file, for messages.
        place: the file as it was given, to open it again.
        kind: what it is, judged by its first bytes (and a Parquet file's name).
        errors: where problems are noted; None: the first one is raised.
    """

    def __init__(
        self,
        place: str | PathLike[str],
        raw: BinaryIO,
        errors: list[Flaw] | None,
        told: Callable[[int], object],
    ) -> None:
        self.path = PIPED if place == STDIN else place
        self.place = place
        self.errors = errors
        self._raw = raw
        self._told = told
        self._packed = raw.read(2) == _GZIP
        self._unended = 0  # the line without an end, once it is read
        start = self._start(lambda chunk: None).read(4100) or b""
        self.kind: Kind = "jsonl" if _JSON_OBJECT.match(start.removeprefix(_MARK)) else "text"
        if start.startswith(_PARQUET) or is_parquet_name(place):
            self.kind = "parquet"

    @property
    def raw(self) -> BinaryIO:
        """The bytes as they are in the file, from the start on."""
        self._raw.seek(0)
        return self._raw

    def _start(self, look: Look) -> Watched:
        plain = gzip.GzipFile(fileobj=self.raw) if self._packed else self.raw
        return Watched(plain, look, self.path)

    def stream(self, longest: int = LINE) -> io.BufferedReader:
        """Return the bytes from the start on, unpacked, in lines of at most `longest` bytes.

        Lines that are too long, NUL bytes and broken gzip files are `FormatError`s, while reading.
        """
        bounds = _Bounds(self.path, longest)

        def look(chunk: bytes) -> None:
            bounds(chunk)
            self._told(self._raw.tell())

        return io.BufferedReader(self._start(look), CHUNK)

    def parsed(self, look: Look, skip: int, **options: Any) -> pd.DataFrame | None:
        """Return what pandas' C parser reads behind the first lines, with options for it.

        None: pandas refuses a line, or `look` does with a ValueError, which sees each chunk.
        """
        stream = self.stream()
        for _ in range(skip):
            stream.readline()
        try:
            # pandas casts numbers that are no integers, and looks afterwards
            with np.errstate(invalid="ignore"):
                return pd.read_csv(
                    io.BufferedReader(Watched(stream, look), CHUNK),
                    header=None,
                    index_col=False,
                    na_filter=False,  # "NA" and "null" are good ids
                    quoting=csv.QUOTE_NONE,  # quotes are part of ids
                    **options,
                )
        except FormatError:
            if self.errors is None:
                raise
            return None
        except (ValueError, OverflowError) as error:  # ParserError and UnicodeDecodeError are, too
            # so pandas says of Ctrl-C in `Watched`, which has no value before Python 3.12
            if "Calling read(nbytes) on source failed" in str(error):
                raise KeyboardInterrupt from None
            return None

    def start(self, many: int) -> list[str]:
        """Return the first lines, whatever their characters; empty ones where errors are noted."""
        stream = self.stream()
        try:
            raw = [stream.readline() for _ in range(many)]
        except FormatError:
            if self.errors is None:
                raise
            raw = [b""] * many
        return [line.decode("utf-8", "replace").removeprefix(MARK) for line in raw]

    def line_of(self, row: int) -> int:
        """Return the 1-based line of a row of a file that has one in each line that is not blank.

        Slow; the file is opened again.
        """
        seen = -1
        for number, text in text_lines(self.place):
            seen += bool(text.strip())
            if seen == row:
                return number
        return row + 1

    def lines(self, longest: int = LINE) -> Iterator[tuple[int, str]]:
        """Yield the 1-based number and the text of each line, with its line end, as `stream` does.

        A byte order mark at the start is left out; a line that is not UTF-8 is an error.
        """
        try:
            yield from self._lines(longest)
        except FormatError as error:
            self.stop(error)

    def _lines(self, longest: int) -> Iterator[tuple[int, str]]:
        for number, raw in enumerate(self.stream(longest), start=1):
            text = decoded(raw, self.path, number)
            if not self._packed and not text.endswith("\n"):
                self._unended = number
            yield number, text.removeprefix(MARK) if number == 1 else text

    @cached_property
    def first_line(self) -> str:
        """The first line that has something in it, or an empty string; errors are raised."""
        return next((text.strip("\r\n") for _, text in self._lines(LINE) if text.strip()), "")

    def refuse(self, message: str, line: int) -> None:
        """Raise a `FormatError` for a line, or note it: the reader leaves the line out."""
        error = FormatError(message, self.path, line)
        if self.errors is None:
            raise error
        self.errors.append(Flaw("cut" if line == self._unended else "line", error))

    def refuse_fields(
        self, layouts: Sequence[Sequence[str]], width: int, text: str, line: int
    ) -> None:
        """Refuse a line of another number of fields; several layouts: no line fits any."""
        strict = self.errors is None or len(layouts) > 1
        word = "columns" if strict else "fields"
        forms = " or ".join(f"{len(c)} {word} ({' '.join(c)[:200]})" for c in layouts)
        message = f"expected {forms}, found {width}"
        if strict:
            raise FormatError(f"{message}: {text[:60]!r}", self.path, line)
        self.refuse(message, line)

    def stop(self, error: FormatError) -> None:
        """Raise an error behind which nothing can be read, or note it."""
        if self.errors is None:
            raise error
        self.errors.append(Flaw("stopped", error))


@contextlib.contextmanager
def source(path: str | PathLike[str], errors: list[Flaw] | None = None) -> Iterator[Source]:
    """Open a plain, gzipped or Parquet file for reading, once; see `Source`.

    ``-`` is standard input; what it gave is kept, so that it can be read again.
    """
    follow = FOLLOWED.get()
    file = _kept_stdin() if path == STDIN else path
    with _regular(file) as raw, follow(file) if follow else _unseen as told:
        yield Source(path, raw, errors, told)


@contextlib.contextmanager
def opened(path: str | PathLike[str], longest: int = LINE) -> Iterator[io.BufferedReader]:
    """Open a plain or gzipped text file for reading bytes, as `Source.stream` does."""
    with source(path) as file:
        yield file.stream(longest)


def text_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the 1-based number and the text of each line of a file, as `Source.lines` does."""
    with source(path) as file:
        yield from file.lines()


class Watched(io.RawIOBase):
    """A stream that shows a function each chunk that is read from it, in order; it may raise."""

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
            message = f"broken gzip file ({error}); fetch it again"
            raise FormatError(message, path=self._path) from None
        self._look(chunk)
        memoryview(buffer).cast("B")[: len(chunk)] = chunk
        return len(chunk)


class _Bounds:
    """Refuses NUL bytes and lines that are too long, whatever they would unpack to."""

    def __init__(self, path: str | PathLike[str], longest: int) -> None:
        self.path = path
        self.longest = longest
        self.lines = 0
        self.length = 0  # of the line that is not at its end

    def __call__(self, chunk: bytes) -> None:
        if b"\0" in chunk:
            line = self.lines + chunk.count(b"\n", 0, chunk.index(b"\0")) + 1
            raise FormatError(
                "a NUL byte: this is not UTF-8 text (is it UTF-16? convert it, e.g. with iconv)",
                self.path,
                line,
            )
        end = chunk.find(b"\n")
        if self.length + (len(chunk) if end < 0 else end) > self.longest:
            size = f"{self.longest >> 20} MiB"
            raise FormatError(f"this line is longer than {size}", self.path, self.lines + 1)
        self.length = self.length + len(chunk) if end < 0 else len(chunk) - chunk.rfind(b"\n") - 1
        self.lines += chunk.count(b"\n")


_MARKS = re.compile(rb"\xef\xbb\xbf|\r[^\n]")


class Marks:
    """Looks for byte order marks behind the start, and lone carriage returns."""

    def __init__(self) -> None:
        self.wrong = False
        self._before = b""
        self._start = 1

    def __call__(self, chunk: bytes) -> None:
        """Look at one chunk."""
        whole = self._before + chunk
        if b"\xef" in whole or b"\r" in whole:
            self.wrong |= _MARKS.search(whole, self._start) is not None
        self._before, self._start = whole[-3:], 0


class Shape:
    """Sees to it that all lines of a file are plain and have as many fields as the header."""

    def __init__(self, delimiter: str, width: int) -> None:
        self._delimiter = ord(delimiter)
        self._width = width
        self._begun = False
        self._rest = b""

    def __call__(self, chunk: bytes) -> None:
        """Look at one chunk; a ValueError: it is not plain."""
        if not self._begun and chunk.startswith(MARK.encode()):
            raise ValueError("a byte order mark")  # pandas would leave it out
        self._begun = True
        whole = self._rest + (chunk or b"\n" * bool(self._rest))  # the last line may lack its end
        end = whole.rfind(b"\n") + 1
        self._rest = whole[end:]
        if not self._fits(whole[:end]):
            raise ValueError("quotes, or lines of other widths")

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


_kept: list[Any] = []  # standard input, and the file that keeps what it gave


def _kept_stdin() -> str:
    if not _kept or _kept[0] is not sys.stdin:
        file = tempfile.NamedTemporaryFile(prefix="fairtk-")  # noqa: SIM115 - as long as stdin
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        _kept[:] = sys.stdin, file
    return str(_kept[1].name)


@contextlib.contextmanager
def _regular(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    try:
        raw = Path(path).open("rb")  # noqa: SIM115 - closed below; only opening is tried
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: this is a folder; a file is needed") from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read this file") from None
    except (OSError, ValueError) as error:  # a name that no file can have
        raise InputError(f"{path}: this file cannot be opened ({error})") from None
    with raw:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise InputError(
                f"{path}: this is a pipe or a device, which can be read only once; save its "
                "content to a file first"
            )
        yield raw


def decoded(line: bytes, path: str | PathLike[str], number: int | None) -> str:
    """Decode UTF-8; anything else is a `FormatError` with the line number."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"this is not UTF-8 text (byte {error.object[error.start]:#04x}); "
            "convert it, e.g. with iconv",
            path=path,
            line=number,
        ) from None


def is_parquet_name(path: str | PathLike[str]) -> bool:
    """Return whether a file is written as Parquet, by the suffix."""
    return Path(path).suffix in {".parquet", ".pq"}


@contextlib.contextmanager
def naming(path: str | PathLike[str]) -> Iterator[None]:
    """Put the file's name in front of what is wrong with its content.

    A `FormatError` names its file already; a `ParameterError` is not about the file.
    """
    try:
        yield
    except (FormatError, ParameterError):
        raise
    except InputError as error:
        raise FormatError(str(error), path) from None


_BLANK = " \t\r\n"
"""What JSON knows as white space."""


def parse_json(text: str, path: str | PathLike[str] | None = None, line: int | None = None) -> Any:
    """Return the value of a JSON text; file, and the line that it starts on, are for messages.

    Raises:
        FormatError: it is not JSON, is nested too deep, or has a number of thousands of digits, an
            unpaired surrogate, or a duplicate key in an object.
    """
    try:
        value = json.loads(text.rstrip(_BLANK), object_pairs_hook=_object)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        reason = "a string has an unpaired surrogate, \\ud800 to \\udfff"
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at character {error.colno - 1}"
        line = None if line is None else line + error.lineno - 1
    except RecursionError:
        reason = "it is nested too deep"
    except FormatError as error:
        reason = error.reason
    except ValueError:
        reason = "it has a number with thousands of digits"
    raise FormatError(f"this is not JSON that can be read ({reason})", path=path, line=line)


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise FormatError(f"the key {twice!r} occurs twice in an object")
    return record


def described(value: Any) -> str:
    """Return what a JSON value is, for messages."""
    if isinstance(value, dict):
        return f"an object with the keys {sorted(value)[:8]}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


def json_objects(path: str | PathLike[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the 1-based line number and the object of each line; empty lines are passed over."""
    with source(path) as file:
        yield from objects_of(file)


def objects_of(file: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield lines and objects of a file that is open, as `json_objects` does."""
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
            file.refuse(f"expected a JSON object, found a {type(record).__name__}", number)


def read_json(path: str | PathLike[str]) -> Any:
    """Return the value of a JSON file, plain or gzipped, of at most `JSON_ENTRY` bytes."""
    with opened(path, JSON_ENTRY) as stream:
        raw = stream.read(JSON_ENTRY + 1)
    if len(raw) > JSON_ENTRY:
        raise FormatError(f"this JSON file is larger than {JSON_ENTRY >> 20} MiB", path=path)
    return parse_json(decoded(raw.removeprefix(_MARK), path, None), path, 1)
