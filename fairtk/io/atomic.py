"""Atomic writing, locks, and digests of files."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import secrets
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TextIO

from fairtk.errors import InputError


def real_path(path: str | PathLike[str]) -> Path:
    """Return the absolute path of a file or folder, with links followed; it need not exist.

    Raises:
        InputError: there is a symlink loop.
    """
    real = Path(os.path.realpath(path))  # the error of `Path.resolve` differs by Python version
    if any(map(os.path.islink, (real, *real.parents))):
        raise InputError(f"{path}: symlink loop")
    return real


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[Path]:
    """Give a temporary path that replaces the target when the block ends without an error.

    The temporary file is in the target's folder, so that replacing is atomic, and has the target's
    suffixes. It is flushed to disk before it is renamed, and removed if the block raises. A link is
    followed. An existing file keeps its permissions.

        with atomic_write("run.txt") as temporary:
            temporary.write_text("...")

    Args:
        path: the file to write; its folder must exist.

    Yields:
        The path to write to. The block must create the file.

    Raises:
        InputError: the folder does not exist, or there is a symlink loop.
    """
    target = real_path(path)
    if not target.parent.is_dir():
        raise InputError(f"{path}: no such folder")
    temporary = part_beside(target)
    try:
        yield temporary
        put_in_place(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def part_beside(target: Path) -> Path:
    """Return a new hidden path in the folder of the target, for a temporary file."""
    return target.with_name(f".{secrets.token_hex(4)}.part.{target.name[-100:]}")


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a finished file to its target, safe against a power loss."""
    _flush(temporary)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(temporary, target.stat().st_mode & 0o7777)
    os.replace(temporary, target)
    # a rename is safe once the folder is flushed; Windows cannot open folders
    with contextlib.suppress(OSError):
        _flush(target.parent)


@contextlib.contextmanager
def atomic_text(path: str | PathLike[str]) -> Iterator[TextIO]:
    """Give an open text file (UTF-8, gzipped for ``.gz``) that is written as by `atomic_write`.

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


@contextlib.contextmanager
def file_lock(place: Path, shared: bool = False) -> Iterator[None]:
    """Lock an existing folder or file against other processes and threads.

    Several holders can have a `shared` lock at a time, but only while nobody has an exclusive one.
    The system releases the lock when a process dies. On systems that have no such locks, this does
    nothing.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        number = os.open(place, os.O_RDONLY)
    except OSError:  # no permission to read
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


# An unchanged file is read once per process.
_known: dict[tuple[str, int, int], str] = {}


def file_digest(path: Path) -> str:
    """Return the digest of a file's bytes."""
    state = path.stat()
    key = (str(path.resolve()), state.st_size, state.st_mtime_ns)
    if key not in _known:
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
        _known[key] = content.hexdigest()
    return _known[key]


def folder_digest(folder: Path, patterns: tuple[str, ...] = ("**/*",)) -> str:
    """Return one digest for the names and bytes of a folder's files, without hidden ones."""
    paths = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    content = hashlib.blake2b(digest_size=16)
    for path in sorted(paths):
        name = path.relative_to(folder).as_posix()
        if not any(part.startswith(".") for part in Path(name).parts):
            content.update(f"{name}\0{file_digest(path)}\0".encode())
    return content.hexdigest()
