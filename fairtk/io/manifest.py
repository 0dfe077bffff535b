"""Manifests: files that name the other files of a folder, with their digests and their format."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from fairtk.errors import FormatError

MANIFEST = "manifest.json"


def read_manifest(folder: Path, form: int, content: str, remedy: str) -> dict[str, str]:
    """Return the digest of each file of a folder.

    Args:
        folder: the folder.
        form: the version of the format that is expected.
        content: what the folder has, for errors.
        remedy: what to do if a file is missing, for errors.

    Raises:
        FormatError: the manifest is missing, damaged or of another version.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise FormatError(f"missing file of {content}; {remedy}", path)
    try:
        manifest = json.loads(path.read_bytes())
        found, digests = manifest["form"], dict(manifest["files"])
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"not a manifest of {content} ({reason})", path) from None
    if found != form:
        newer = isinstance(found, int) and found > form
        remedy = "a newer version of fairtk" if newer else "the fairtk that wrote it"
        raise FormatError(
            f"{content}: expected format {form}, got format {found}; install {remedy}",
            path,
        )
    return digests


def file_digest(path: Path) -> str:
    """Return the digest of a file."""
    with path.open("rb") as stream:
        content = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16))
    return content.hexdigest()


def checked_file(path: Path, expected: str | None, content: str, remedy: str) -> Path:
    """Return the path of a file if it has the digest of the manifest.

    Raises:
        FormatError: the file is missing, cannot be read, or has another digest.
    """
    try:
        digest = file_digest(path)
    except FileNotFoundError:
        raise FormatError(f"missing file of {content}; {remedy}", path) from None
    except OSError as error:
        raise FormatError(f"the file cannot be read ({error.strerror})", path) from None
    if digest != expected:
        raise FormatError(
            f"the file was changed or damaged: its digest is not that in {MANIFEST}; {remedy}",
            path,
        )
    return path
