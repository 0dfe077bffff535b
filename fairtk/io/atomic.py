"""Writing a file in one step: complete, or not at all."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TextIO

from fairtk.errors import InputError


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside the target, which it replaces when the block ends well.

    The temporary file is in the same folder (so that replacing is one step for the file system),
    has the target's suffixes, is flushed to the disk before it takes the name, and is removed if
    the block raises. A link is followed. An existing file keeps its permissions.

        with atomic_write("run.txt") as temporary:
            temporary.write_text("...")

    Args:
        path: the file to write; its folder must exist.

    Yields:
        The path to write to. The block must create the file.

    Raises:
        InputError: the folder does not exist.
    """
    target = Path(path).resolve()
    temporary = target.with_name(f".{secrets.token_hex(6)}.part.{target.name[-100:]}")
    if not target.parent.is_dir():
        raise InputError(f"{path}: the folder does not exist")
    try:
        yield temporary
        put_in_place(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def put_in_place(temporary: Path, target: Path) -> None:
    """Let a finished file take the place of another in its folder, safe from a loss of power."""
    _flush(temporary)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(temporary, target.stat().st_mode & 0o7777)
    os.replace(temporary, target)
    # a rename is safe only once the folder is on the disk; Windows cannot open folders
    with contextlib.suppress(OSError):
        _flush(target.parent)


@contextlib.contextmanager
def atomic_text(path: str | PathLike[str]) -> Iterator[TextIO]:
    """Like `atomic_write`, but give an open text file (UTF-8), gzipped if the suffix is ``.gz``.

    Equal text gives equal bytes: the gzip header has no time and no name.
    """
    with atomic_write(path) as temporary:
        if temporary.suffix == ".gz":
            with (
                temporary.open("wb") as raw,
                gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
                io.TextIOWrapper(packed, encoding="utf-8", newline="") as stream,
            ):
                yield stream
        else:
            with temporary.open("w", encoding="utf-8", newline="") as stream:
                yield stream


def _flush(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
