"""Downloads data files so that a broken connection, a crash or a wrong page never leaves a bad one.

A file arrives under the name ``<name>.part``, is resumed with HTTP Range where it stopped (in this
process or a later one), is checked (length, checksum where one is known, valid JSON), written
through to the disk and only then renamed. A lock keeps other processes from the same file.

The environment variables of ir_datasets hold: ``IR_DATASETS_HOME`` (the folder),
``IR_DATASETS_DL_TRIES``, ``IR_DATASETS_DL_TIMEOUT`` and ``IR_DATASETS_DL_DISABLE_PBAR``. What is
made from data files is cached in a folder of its own (`cache_place`), never between them.
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
"""Dataset id -> file name -> ``url`` and ``sha256`` or ``md5``, or ``instructions``."""

LOADER = "fairtk.datasets.lamp.from_folder"

# what is lost when a connection breaks: requests hands out whole blocks only
_BLOCK = 1 << 14
_CHECKSUMS = {"sha256": "SHA-256", "md5": "MD5"}
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})


CACHE_HOME = "FAIRTK_HOME"
"""The environment variable of the folder of caches."""


def cache_place(source: Path, suffix: str) -> Path:
    """Return where what is made from a file is kept: in the folder of caches, by absolute path.

    That folder is ``$FAIRTK_HOME``, else ``.fairtk`` beside the data folder of ir_datasets.
    Whether a cache is of the file as it is now, its reader finds out.
    """
    import ir_datasets

    folder = os.environ.get(CACHE_HOME)
    home = Path(folder) if folder else Path(ir_datasets.util.home_path()).with_name(".fairtk")
    key = hashlib.blake2b(os.fsencode(source.resolve()), digest_size=16).hexdigest()
    return home / "caches" / f"{key}-{source.name[-60:]}{suffix}"


def can_be_written(place: Path) -> bool:
    """Return whether a file can be written; its folder is made if need be.

    A folder that nobody may write to is left alone, by the superuser too.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        allowed = place.parent.stat().st_mode & 0o222
    except OSError:
        return False
    return bool(allowed) and os.access(place.parent, os.W_OK)


@cache
def addresses() -> Table:
    """Return the package's table of addresses: dataset id, file name, ``url`` and ``sha256``."""
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
    """Return the path of a dataset's file, downloading it when it is not there.

    The dataset's id is also the subfolder of the data folder. `sources` is a table of addresses, by
    default `addresses`; `check` and `loader` are as for `download`. Where no checksum is known,
    JSON is checked.
    """
    import ir_datasets

    target = Path(ir_datasets.util.home_path()) / dataset_id / name
    if target.exists():
        return target
    source = (addresses() if sources is None else sources)[dataset_id][name]
    if "url" not in source:
        raise DownloadError(
            f"{dataset_id} cannot be downloaded: {source['instructions']}; put {name} into "
            f"{target.parent}, or load any folder with {loader}"
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
    """Download a file; nothing is at ``target`` before the file is complete and checked.

    Checksums are hex digits by kind, ``sha256`` or ``md5``. `check` raises `FormatError` on a bad
    file; `pause` is in seconds, and doubled after each try; `loader`, what loads a folder that has
    the file, is named in errors.

    Raises:
        DownloadError: names the address, what went wrong, and what to do instead.
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
                if attempt == tries - 1 or not error.again:
                    raise _failed(url, target, str(error), loader) from error.__cause__
                time.sleep(pause * 2**attempt)
        try:
            _check(part, checksums or {}, check)
        except FormatError as error:
            _discard(part)  # a wrong file would only be resumed
            why = f"the server sent a wrong file: {error}"
            raise _failed(url, target, why, loader) from None
        put_in_place(part, target)
        _discard(part)


def check_json(path: Path) -> None:
    """Raise `FormatError` unless the file is valid JSON; large arrays are read piece by piece."""
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
        raise FormatError(f"not JSON (it starts with {text!r}): {error.reason}") from None


class _TransferError(Exception):
    """One try failed; `again` says whether another can do better."""

    def __init__(self, message: str, again: bool = True) -> None:
        super().__init__(message)
        self.again = again


def _receive(url: str, part: Path) -> None:
    """Fetch the file's rest, or all of it, into the part file."""
    import requests

    have = part.stat().st_size if part.exists() else 0
    # identity: a compressed transfer would make lengths and ranges those of something else
    headers = {"User-Agent": "fairtk", "Accept-Encoding": "identity"}
    version = _version_file(part)
    if have and version.exists():
        # If-Range: a file that has changed on the server is sent from its start
        headers |= {"Range": f"bytes={have}-", "If-Range": version.read_text(encoding="utf-8")}
    timeout = float(os.environ.get("IR_DATASETS_DL_TIMEOUT", "15"))
    try:
        with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
            if _is_complete(response, part, have):
                return
            start = _start(response, have)
            tag = response.headers.get("ETag", "")
            # a weak tag does not promise the same bytes
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
        raise _TransferError(f"the transfer broke off at {size:,} of {total:,} bytes")


def _start(response: Any, have: int) -> int:
    """Return the byte that the answer starts with."""
    code = response.status_code
    if code == 200:  # all of it: nothing was asked for, or the server does not know ranges
        return 0
    if code == 206:
        range_sent = response.headers.get("Content-Range", "")
        if range_sent.startswith(f"bytes {have}-"):
            return have
        raise _TransferError(
            f"asked for bytes from {have}, got Content-Range {range_sent!r}", False
        )
    raise _TransferError(f"status {code} {response.reason}", code in _RETRIED)


def _is_complete(response: Any, part: Path, have: int) -> bool:
    """Tell whether the server says that there is nothing behind the part we have."""
    if response.status_code != 416:
        return False
    if response.headers.get("Content-Range", "") == f"bytes */{have}":
        return True
    _discard(part)
    raise _TransferError("the server's file is shorter than the part that was there")


def _check(part: Path, checksums: Mapping[str, str], check: Callable[[Path], None] | None) -> None:
    for kind, expected in checksums.items():
        with open(part, "rb") as stream:
            digest = hashlib.file_digest(stream, kind).hexdigest()
        if digest != expected.lower():
            raise FormatError(f"its {_CHECKSUMS[kind]} is {digest}, expected {expected}")
    if check is not None:
        try:
            check(part)
        except FormatError as error:
            # the part's path is gone by the time a user reads this
            raise FormatError(error.reason) from None


def _failed(url: str, target: Path, why: str, loader: str) -> DownloadError:
    return DownloadError(
        f"could not download {url}: {why}; try again (a broken transfer is resumed), or put the "
        f"file at {target} yourself, or load a folder that has it with {loader}"
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
    # disable=None: a bar on a terminal only
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
    """One element of the array that a JSON file is, at its 0-based `number`."""

    number: int
    start: int  # its first byte in the file
    end: int  # the byte behind its last
    value: Any


def iterate_array(path: str | PathLike[str]) -> Iterator[Element]:
    """Yield the elements of the JSON array that a file is, each with the bytes where it lies.

    LaMP's files are single arrays of up to a few GB: the file is mapped, and checked as a whole
    before the first element is given; one element at a time is in memory.

    Raises:
        FormatError: it is not a JSON array, or an element is longer than `JSON_ENTRY` bytes; names
            the line.
    """
    import msgspec

    with open(path, "rb") as stream:
        # an empty file cannot be mapped; what is mapped is closed with its last element
        content = (
            mmap(stream.fileno(), 0, access=ACCESS_READ)
            if os.fstat(stream.fileno()).st_size
            else b""
        )
    whole = np.frombuffer(content, np.uint8)
    first = 3 if content[:3] == BOM_UTF8 else 0
    try:
        elements = msgspec.json.decode(memoryview(content)[first:], type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        place = re.search(r"\(byte (\d+)\)", str(error))
        line = line_of(path, first + int(place[1])) if place else None
        raise FormatError(f"expected a JSON array: {error}", path, line) from None
    for number, raw in enumerate(elements):
        piece = np.frombuffer(raw, np.uint8)
        start = piece.ctypes.data - whole.ctypes.data
        if len(piece) > JSON_ENTRY:
            reason = f"element {number} is longer than {JSON_ENTRY >> 20} MiB"
            raise FormatError(reason, path, line_of(path, start))
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            reason = f"element {number} is not valid JSON: {error}"
            raise FormatError(reason, path, line_of(path, start)) from None
        yield Element(number, start, start + len(piece), value)


def line_of(path: str | PathLike[str], place: int) -> int:
    """Return the 1-based line of a byte of a file."""
    with open(path, "rb") as stream:
        blocks = iter(lambda: stream.read(min(1 << 20, place - stream.tell())), b"")
        return 1 + sum(block.count(b"\n") for block in blocks)
