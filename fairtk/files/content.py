"""Opening a file by what is in it, and Parquet."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Literal

import pandas as pd

from fairtk.errors import FormatError, InputError, MissingExtraError
from fairtk.files.atomic import atomic_write

Kind = Literal["parquet", "jsonl", "text"]
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
# a lone brace may be an id of a text file, so a key must follow
_JSON_OBJECT = re.compile(rb'\s*\{\s*"[^"\s]*"\s*:')


@contextlib.contextmanager
def opened(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Open a plain or gzipped file for reading bytes; what cannot be read is an `InputError`."""
    file = Path(path)
    try:
        with file.open("rb") as raw:
            if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                raise InputError(
                    f"{path}: this is a pipe or a device, which can be read only once; save its "
                    "content to a file first"
                )
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=raw) as stream:
                    yield io.BufferedReader(stream)
            else:
                yield raw
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: this is a folder; a file is needed") from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read this file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"broken gzip file ({error}); fetch it again", path=path) from None


@contextlib.contextmanager
def opened_text(path: str | PathLike[str]) -> Iterator[io.TextIOWrapper]:
    """Open a plain or gzipped UTF-8 file for reading text, line ends kept as they are."""
    with opened(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        try:
            yield text
        finally:
            text.detach()


def kind_of(path: str | PathLike[str]) -> Kind:
    """Return what the file is, judged by its first bytes."""
    with opened(path) as stream:
        start = stream.read(4)
        if start == _PARQUET:
            return "parquet"
        start = (start + stream.read(4096)).removeprefix(b"\xef\xbb\xbf")
        return "jsonl" if _JSON_OBJECT.match(start) else "text"


def first_line(path: str | PathLike[str]) -> str:
    """Return the first line that has something in it, or an empty string."""
    with opened(path) as stream:
        for line in stream:
            if line.strip():
                return decoded(line, path, None).removeprefix("\ufeff").strip("\r\n")
    return ""


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
    """Return whether a writer should write Parquet, by the suffix."""
    return Path(path).suffix in {".parquet", ".pq"}


def read_parquet(path: str | PathLike[str]) -> pd.DataFrame:
    """Read a Parquet file."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", f"reading {path}") from None
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (pyarrow.ArrowException, OSError) as error:
        raise FormatError(f"broken Parquet file ({error})", path=path) from None


def write_parquet(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write a Parquet file in one step."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", f"writing {path}") from None
    with atomic_write(path) as temporary:
        frame.to_parquet(temporary, engine="pyarrow", index=False)
