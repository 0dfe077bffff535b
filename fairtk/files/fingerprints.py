"""Digests of what stands in files: weights of models, indexes, source code."""

from __future__ import annotations

import hashlib
from pathlib import Path

# A file that has not changed is read once per process.
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
    """Return one digest for the names and bytes of a folder's files, hidden ones left out."""
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    content = hashlib.blake2b(digest_size=16)
    for path in sorted(found):
        name = path.relative_to(folder).as_posix()
        if not any(part.startswith(".") for part in Path(name).parts):
            content.update(f"{name}\0{file_digest(path)}\0".encode())
    return content.hexdigest()
