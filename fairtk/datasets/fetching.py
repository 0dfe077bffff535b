"""Download data files; only complete and checked files get their final name.

A file is downloaded to ``<name>.part``, resumed with HTTP Range (also by a later process), checked
(length, checksum or valid JSON), and renamed. A lock excludes other processes.

The environment variables of ir_datasets apply: ``IR_DATASETS_HOME``, ``IR_DATASETS_DL_TRIES``,
``IR_DATASETS_DL_TIMEOUT`` and ``IR_DATASETS_DL_DISABLE_PBAR``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from mmap import ACCESS_READ, mmap
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairtk.errors import DownloadError, FormatError
from fairtk.io import file_lock
from fairtk.io.atomic import put_in_place
from fairtk.io.lines import JSON_ENTRY, read_json

Table = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By dataset id and file name: ``url`` and ``sha256`` or ``md5``, or ``instructions``."""

LOADER = "fairtk.datasets.lamp.from_folder"

# at most this is lost when a connection breaks, because requests returns full blocks only
_BLOCK = 1 << 14
_CHECKSUMS = {"sha256": "SHA-256", "md5": "MD5"}
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


CACHE_HOME = "FAIRTK_HOME"
"""The environment variable for the folder of caches."""


def cache_path(source: Path, suffix: str) -> Path:
    """Return the path of a file's cache.

    The folder of caches is in ``$FAIRTK_HOME``, by default ``.fairtk`` next to the data folder of
    ir_datasets. Readers must check whether the cache is up to date.
    """
    import ir_datasets

    folder = os.environ.get(CACHE_HOME)
    home = Path(folder) if folder else Path(ir_datasets.util.home_path()).with_name(".fairtk")
    key = hashlib.blake2b(os.fsencode(source.resolve()), digest_size=16).hexdigest()
    return home / "caches" / f"{key}-{source.name[-60:]}{suffix}"


def is_writable(path: Path) -> bool:
    """Return whether a file can be written; its folder is created if absent.

    A read-only folder is not written to, even by the superuser.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        allowed = path.parent.stat().st_mode & 0o222
    except OSError:
        return False
    return bool(allowed) and os.access(path.parent, os.W_OK)


@cache
def addresses() -> Table:
    """Return the packaged table of URLs."""
    text = (files("fairtk.datasets") / "downloads.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    del table["about"]
    return table


def fetch(
    dataset_id: str,
    name: str,
    sources: Table | None = None,
    check: Callable[[Path], None] | None = None,
    loader: str = LOADER,
) -> Path:
    """Return the path of a dataset's file, after downloading it if it does not exist.

    Args:
        dataset_id: the id, which is also the subfolder of the data folder.
        name: the file name.
        sources: a table of URLs; `None` for `addresses`.
        check: see `download`; used without a known checksum; `None` to check for JSON.
        loader: see `download`.

    Raises:
        DownloadError: the file cannot be downloaded.
    """
    import ir_datasets

    target = Path(ir_datasets.util.home_path()) / dataset_id / name
    if target.exists():
        return target
    source = (addresses() if sources is None else sources)[dataset_id][name]
    if "url" not in source:
        raise DownloadError(
            f"{dataset_id} cannot be downloaded: {source['instructions']}; put {name} into "
            f"{target.parent}, or load another folder with {loader}"
        )
    checksums = {kind: source[kind] for kind in _CHECKSUMS if kind in source}
    check = None if checksums else check or check_json
    download(source["url"], target, checksums=checksums, check=check, loader=loader)
    return target


def download(
    url: str,
    target: Path,
    *,
    checksums: Mapping[str, str] | None = None,
    check: Callable[[Path], None] | None = None,
    pause: float = 1.0,
    loader: str = LOADER,
) -> None:
    """Download a file to ``target``, which exists only once it is complete and checked.

    Args:
        url: the URL.
        target: the path of the file.
        checksums: hex digits by kind, ``sha256`` or ``md5``.
        check: raises a `FormatError` for an invalid file.
        pause: seconds before the first retry, doubled each time.
        loader: the function that loads a folder, for messages.

    Raises:
        DownloadError: the download failed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = target.with_name(target.name + ".lock")
    lock.touch()
    with file_lock(lock):
        if target.exists():  # another process was faster
            return
        part = target.with_name(target.name + ".part")
        tries = max(1, int(os.environ.get("IR_DATASETS_DL_TRIES", "3")))
        for attempt in range(tries):
            try:
                _receive(url, part)
                break
            except _TransferError as error:
                if attempt == tries - 1 or not error.can_retry:
                    raise _failed(url, target, str(error), loader) from error.__cause__
                time.sleep(pause * 2**attempt)
        try:
            _check(part, checksums or {}, check)
        except FormatError as error:
            _discard(part)  # otherwise the next call would resume it
            why = f"the server sent a wrong file: {error}"
            raise _failed(url, target, why, loader) from None
        put_in_place(part, target)
        _discard(part)


def check_json(path: Path) -> None:
    """Raise a `FormatError` unless the file is valid JSON; arrays are read in pieces."""
    with open(path, "rb") as stream:
        start = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"[":
        for _ in iterate_array(path):
            pass
        return
    try:
        read_json(path)
    except FormatError as error:
        text = start.decode("ascii", "replace")
        raise FormatError(f"expected JSON, got {text!r} at the start ({error.reason})") from None


class _TransferError(Exception):
    """An attempt failed."""

    def __init__(self, message: str, can_retry: bool = True) -> None:
        super().__init__(message)
        self.can_retry = can_retry


def _receive(url: str, part: Path) -> None:
    """Download the rest of the file, or all of it, into the part file."""
    import requests

    n_present = part.stat().st_size if part.exists() else 0
    # identity: a compressed transfer has other lengths and ranges than the file
    headers = {"User-Agent": "fairtk", "Accept-Encoding": "identity"}
    version = _version_file(part)
    if n_present and version.exists():
        # If-Range: the server sends a changed file from the start
        headers |= {"Range": f"bytes={n_present}-", "If-Range": version.read_text(encoding="utf-8")}
    timeout = float(os.environ.get("IR_DATASETS_DL_TIMEOUT", "15"))
    try:
        with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
            if _is_complete(response, part, n_present):
                return
            start = _start(response, n_present)
            tag = response.headers.get("ETag", "")
            # a weak tag does not guarantee identical bytes
            tag = response.headers.get("Last-Modified", "") if tag[:2] in ("", "W/") else tag
            if not start:
                _discard(version)
                if tag:
                    version.write_text(tag, encoding="utf-8")
            length = response.headers.get("Content-Length")
            total = None if length is None else start + int(length)
            with open(part, "r+b" if start else "wb") as out:
                out.truncate(start)
                out.seek(start)
                with _progress(part, start, total) as bar:
                    for block in response.iter_content(_BLOCK):
                        out.write(block)
                        bar(len(block))
    except requests.RequestException as error:
        raise _TransferError(f"{type(error).__name__}: {error}") from error
    size = part.stat().st_size
    if total is not None and size != total:
        raise _TransferError(f"the transfer stopped at {size:,} of {total:,} bytes")


def _start(response: Any, n_present: int) -> int:
    """Return the first byte of the response."""
    code = response.status_code
    if code == 200:  # the full file: no range was requested, or ranges are not supported
        return 0
    if code == 206:
        range_sent = response.headers.get("Content-Range", "")
        if range_sent.startswith(f"bytes {n_present}-"):
            return n_present
        raise _TransferError(
            f"expected bytes from {n_present}, got Content-Range {range_sent!r}", False
        )
    raise _TransferError(f"status {code} {response.reason}", code in _RETRIED)


def _is_complete(response: Any, part: Path, n_present: int) -> bool:
    """Return whether the server reports that the part file is complete."""
    if response.status_code != 416:
        return False
    if response.headers.get("Content-Range", "") == f"bytes */{n_present}":
        return True
    _discard(part)
    raise _TransferError("the server's file is shorter than the existing part")


def _check(part: Path, checksums: Mapping[str, str], check: Callable[[Path], None] | None) -> None:
    for kind, expected in checksums.items():
        with open(part, "rb") as stream:
            digest = hashlib.file_digest(stream, kind).hexdigest()
        if digest != expected.lower():
            raise FormatError(f"expected {_CHECKSUMS[kind]} {expected}, got {digest}")
    if check is not None:
        try:
            check(part)
        except FormatError as error:
            # without the path, because the part file is deleted
            raise FormatError(error.reason) from None


def _failed(url: str, target: Path, why: str, loader: str) -> DownloadError:
    return DownloadError(
        f"cannot download {url} ({why}); try again (a broken transfer is resumed), put the file at "
        f"{target}, or load a folder that contains it with {loader}"
    )


def _version_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _discard(path: Path) -> None:
    path.unlink(missing_ok=True)
    _version_file(path).unlink(missing_ok=True)


@contextlib.contextmanager
def _progress(part: Path, start: int, total: int | None) -> Iterator[Callable[[int], Any]]:
    from tqdm import tqdm

    off = os.environ.get("IR_DATASETS_DL_DISABLE_PBAR", "").lower() == "true"
    # disable=None: only on a terminal
    with tqdm(
        desc=part.name.removesuffix(".part"),
        initial=start,
        total=total,
        unit="B",
        unit_scale=True,
        disable=True if off else None,
    ) as bar:
        yield bar.update


class Element(NamedTuple):
    """One element of a JSON array in a file."""

    number: int  # 0-based
    start: int  # first byte in the file
    end: int  # byte after the last
    value: Any


def iterate_array(path: str | PathLike[str]) -> Iterator[Element]:
    """Yield the elements of a file with one JSON array, with their byte ranges.

    LaMP's files have up to a few GB. The file is memory-mapped and checked first; only one element
    at a time is in memory.

    Raises:
        FormatError: the file is not a JSON array, or an element is longer than `JSON_ENTRY` bytes;
            names the line.
    """
    import msgspec

    with open(path, "rb") as stream:
        # an empty file cannot be mapped; the map is closed with its last element
        content = (
            mmap(stream.fileno(), 0, access=ACCESS_READ)
            if os.fstat(stream.fileno()).st_size
            else b""
        )
    file_bytes = np.frombuffer(content, np.uint8)
    first = 3 if content[:3] == BOM_UTF8 else 0
    try:
        elements = msgspec.json.decode(memoryview(content)[first:], type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        position = re.search(r"\(byte (\d+)\)", str(error))
        line = line_of(path, first + int(position[1])) if position else None
        reason = str(error).removeprefix("JSON is malformed: ")
        raise FormatError(f"expected a JSON array ({reason})", path, line) from None
    for number, raw in enumerate(elements):
        piece = np.frombuffer(raw, np.uint8)
        start = piece.ctypes.data - file_bytes.ctypes.data
        if len(piece) > JSON_ENTRY:
            reason = f"element {number} is longer than {JSON_ENTRY >> 20} MiB"
            raise FormatError(reason, path, line_of(path, start))
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            reason = f"element {number} is not valid JSON: {error}"
            raise FormatError(reason, path, line_of(path, start)) from None
        yield Element(number, start, start + len(piece), value)


def line_of(path: str | PathLike[str], position: int) -> int:
    """Return the 1-based line of a position in a file."""
    with open(path, "rb") as stream:
        blocks = iter(lambda: stream.read(min(1 << 20, position - stream.tell())), b"")
        return 1 + sum(block.count(b"\n") for block in blocks)
