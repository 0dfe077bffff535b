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

from fairtk import checks
from fairtk.errors import InputError


def real_path(path: str | PathLike[str]) -> Path:
    """Return the absolute path of a file or folder with links resolved; it need not exist.

    Raises:
        InputError: there is a symlink loop.
    """
    file = checks.path("path", path)
    real = Path(os.path.realpath(file))  # the error of `Path.resolve` differs by Python version
    if any(map(os.path.islink, (real, *real.parents))):
        raise InputError(f"{path}: symlink loop")
    return real


@contextlib.contextmanager
def atomic_write(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path whose file replaces the target when the block succeeds.

    If the block raises, the target stays as it was. The temporary file is in the target's folder
    and has its suffixes. Links are followed, and an existing file keeps its permissions. For
    example::

        with atomic_write("run.txt") as temporary:
            temporary.write_text("...")

    Args:
        path: the file to write; its folder must exist.

    Yields:
        The temporary path. The block must create the file.

    Raises:
        InputError: the folder does not exist, the path is a folder, or there is a symlink loop.
    """
    target = real_path(path)
    if not target.parent.is_dir():
        raise InputError(f"{path}: no such folder {str(target.parent)!r}; create it first")
    if target.is_dir():
        raise InputError(f"{path}: expected a file, got a folder")
    temporary = part_beside(target)
    try:
        yield temporary
        put_in_place(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def part_beside(target: Path) -> Path:
    """Return a hidden path for a temporary file in the folder of the target."""
    return target.with_name(f".{secrets.token_hex(4)}.part.{target.name[-100:]}")


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a complete file to its target; a power loss leaves the old or the new file."""
    _flush(temporary)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(temporary, target.stat().st_mode & 0o7777)
    os.replace(temporary, target)
    # a rename is safe once the folder is flushed; Windows cannot open folders
    with contextlib.suppress(OSError):
        _flush(target.parent)


@contextlib.contextmanager
def atomic_text(path: str | PathLike[str]) -> Iterator[TextIO]:
    """Yield an open text file (UTF-8; gzipped if the suffix is ``.gz``); see `atomic_write`.

    Equal texts give equal bytes: the gzip header has neither time nor name.

    Raises:
        InputError: see `atomic_write`; or the text has an unpaired surrogate.
    """
    try:
        with _open_text(path) as stream:
            yield stream
    except UnicodeEncodeError as error:
        near = error.object[max(error.start - 20, 0) : error.start + 20]
        raise InputError(
            f"{path}: unpaired surrogate in {near!r}; this text was decoded wrongly, read the data "
            "again"
        ) from None


@contextlib.contextmanager
def _open_text(path: str | PathLike[str]) -> Iterator[TextIO]:
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

    A `shared` lock excludes only exclusive ones. The system releases a lock when its process dies.
    Without support for locks, or without permission to read, this does nothing.
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


_known: dict[tuple[str, int, int], str] = {}


def file_digest(path: Path) -> str:
    """Return a digest of a file's bytes; an unchanged file is read once per process."""
    state = path.stat()
    key = (str(path.resolve()), state.st_size, state.st_mtime_ns)
    if key not in _known:
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
        _known[key] = content.hexdigest()
    return _known[key]


def folder_digest(folder: Path, patterns: tuple[str, ...] = ("**/*",)) -> str:
    """Return a digest of the names and bytes of a folder's files; hidden ones are ignored."""
    paths = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    content = hashlib.blake2b(digest_size=16)
    for path in sorted(paths):
        name = path.relative_to(folder).as_posix()
        if not any(part.startswith(".") for part in Path(name).parts):
            content.update(f"{name}\0{file_digest(path)}\0".encode())
    return content.hexdigest()
