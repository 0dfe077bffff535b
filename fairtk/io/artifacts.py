"""Artifacts of PyTerrier: objects that are shared as one file, the package of a folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar, Self
from urllib.error import HTTPError
from urllib.parse import urlparse

import pyterrier as pt

from fairtk.errors import DownloadError, FormatError, InputError
from fairtk.io.atomic import file_lock

METADATA = "pt_meta.json"
"""PyTerrier's file with the type of an artifact."""

_LZ4 = b"\x04\x22\x4d\x18"  # the first bytes of a file


class Artifact(pt.Artifact):  # type: ignore[misc]
    """An object that can be shared at Hugging Face, at Zenodo, or at a URL.

    `pt.Artifact.from_hf`, `from_zenodo` and `from_url` of PyTerrier open it, too. A package has
    only the files that `_write_files` writes.
    """

    ARTIFACT_TYPE: ClassVar[str]
    ARTIFACT_FORMAT = "fairtk"
    ARTIFACT_PACKAGE_HINT = "fairtk"

    path = pt.Artifact.NO_PATH

    def _write_files(self, folder: Path) -> None:
        """Write the files of a package to an existing folder."""
        raise NotImplementedError

    @classmethod
    def metadata(cls) -> dict[str, str]:
        """Return the content of PyTerrier's file with the type of the artifact."""
        return {
            "type": cls.ARTIFACT_TYPE,
            "format": cls.ARTIFACT_FORMAT,
            "package_hint": cls.ARTIFACT_PACKAGE_HINT,
        }

    @classmethod
    def from_url(
        cls, url: str | PathLike[str], *, expected_sha256: str | None = None, **settings: Any
    ) -> Self:
        """Download a package, check it, and open it.

        The package is stored in PyTerrier's folder of artifacts, and downloaded again if its digest
        has changed. With `expected_sha256`, a stored package is opened without a connection.
        Packages with links, devices, or files outside their folder are refused.

        Args:
            url: an address, e.g. ``https://...``, ``hf:owner/name`` or ``zenodo:1234``, a package
                on this machine, or a folder.
            expected_sha256: the digest that the package must have; `None` for the published one.
            settings: other arguments of `load`.

        Raises:
            DownloadError: the package or its digest cannot be downloaded.
            FormatError: it is no package of this type, a file is missing or was changed, or its
                format is newer than this version of fairtk.
        """
        if Path(url).is_dir():
            return cls.load(url, **settings)  # type: ignore[no-any-return]
        folder = _downloaded(str(url), expected_sha256)
        try:
            if artifact_type(folder) != cls.ARTIFACT_TYPE:
                raise FormatError(
                    f"expected a package of type {cls.ARTIFACT_TYPE!r}, got "
                    f"{artifact_type(folder)!r}; pt.Artifact.from_url opens all types",
                    url,
                )
            return cls.load(folder, **settings)  # type: ignore[no-any-return]
        except FormatError:
            shutil.rmtree(folder)  # so that a corrected package is downloaded
            raise

    def build_package(self, package_path: str | PathLike[str] | None = None, **options: Any) -> str:
        """Write the package, and ``PATH.json`` with its digest.

        To share it at any address, upload both files.

        Args:
            package_path: the file; `None` for ``TYPE.tar.lz4`` in the current folder.
            options: options of `pt.Artifact.build_package`, e.g. ``verbose=False``.

        Returns:
            The path of the file.

        Raises:
            InputError: the folder of the file does not exist.
        """
        path = Path(f"{self.ARTIFACT_TYPE}.tar.lz4" if package_path is None else package_path)
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder; create it first")
        with self._in_folder() as artifact:
            return str(artifact.build_package(str(path), **options))

    def to_p2p(self) -> None:
        """Send the package to a person who calls `from_p2p`; see `pt.Artifact.to_p2p`."""
        with self._in_folder() as artifact:
            artifact.to_p2p()

    @contextmanager
    def _in_folder(self) -> Iterator[pt.Artifact]:
        """Yield a temporary folder with the files of the package."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / self.ARTIFACT_TYPE
            folder.mkdir()
            self._write_files(folder)
            (folder / METADATA).write_text(json.dumps(self.metadata()), encoding="utf-8")
            yield pt.Artifact(folder)


def artifact_type(folder: Path) -> str | None:
    """Return the type of the artifact in a folder, `None` if PyTerrier's file is missing."""
    path = folder / METADATA
    if not path.exists():
        return None
    try:
        return json.loads(path.read_bytes())["type"]  # type: ignore[no-any-return]
    except (ValueError, TypeError, KeyError):
        raise FormatError("expected a JSON object with the key 'type'", path) from None


def _downloaded(url: str, expected: str | None) -> Path:
    """Return the folder of an extracted package, in PyTerrier's folder of artifacts."""
    address, headers = _resolved(url)
    expected = (expected or "").lower()
    cache = Path(pt.io.pyterrier_home()) / "artifacts"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / hashlib.sha256(address.encode()).hexdigest()
    with file_lock(cache):  # another process may be downloading it
        if expected and _is_stored(folder, address, expected):
            return folder
        published = _published(address, headers)
        expected = expected or (published.get("expected_sha256") or "").lower()
        if not _is_stored(folder, address, expected):
            sha256 = _store(address, headers, published, expected, folder, url)
            record = json.dumps({"url": address, "sha256": sha256})
            Path(f"{folder}.json").write_text(record, encoding="utf-8")
    return folder


def _is_stored(folder: Path, address: str, expected: str) -> bool:
    """Return whether a folder has the package with the expected digest."""
    record = Path(f"{folder}.json")
    if Path(address).is_file() or not (folder.is_dir() and record.exists()):
        return False
    return expected in ("", json.loads(record.read_bytes()).get("sha256"))


def _store(
    address: str,
    headers: Mapping[str, str],
    published: Mapping[str, Any],
    expected: str,
    folder: Path,
    url: str,
) -> str:
    """Download a package, extract it to a folder, and return its digest."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        package, new = Path(place) / "package", Path(place) / "folder"
        segments = [f"{address}.{i}" for i in range(len(published.get("segments", ())))]
        with package.open("wb") as out:
            for part in segments or [address]:
                _copy(part, headers, out)
        with package.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if expected and sha256 != expected:
            raise FormatError(
                f"the package was changed or damaged: its SHA-256 digest is {sha256}, expected "
                f"{expected}",
                url,
            )
        _extract(package, new, url)
        shutil.rmtree(folder, ignore_errors=True)
        new.replace(folder)
    return sha256


def _resolved(url: str) -> tuple[str, dict[str, str]]:
    """Return the address that a protocol of PyTerrier's extensions stands for, and its headers."""
    resolvers = {
        entry.name: entry
        for entry in pt.utils.entry_points("pyterrier.artifact.url_protocol_resolver")
    }
    headers: dict[str, str] = {}
    while entry := resolvers.pop(urlparse(url).scheme, None):
        resolved = entry.load()(urlparse(url))
        if isinstance(resolved, str):
            url = resolved
        elif resolved is not None:
            url, more = resolved
            headers |= more
    return url, headers


def _published(address: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return what is published about a package; an empty dict if nothing is."""
    url = f"{address}.json"
    if not url.startswith(("http://", "https://")) and not Path(url).exists():
        return {}
    try:
        with pt.io.open_or_download_stream(url, headers=dict(headers), verbose=False) as stream:
            content = json.load(stream)
    except OSError as error:
        if isinstance(error, HTTPError) and error.code == 404:
            return {}
        raise DownloadError(
            f"{url}: the digest of the package cannot be read ({_reason(error)}); try again later, "
            "or give expected_sha256 to open a package that was downloaded before"
        ) from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise FormatError("expected a JSON object with the digest of a package", url)
    return content


def _copy(address: str, headers: Mapping[str, str], out: IO[bytes]) -> None:
    try:
        with pt.io.open_or_download_stream(
            address, headers=dict(headers), verbose=sys.stderr.isatty()
        ) as stream:
            shutil.copyfileobj(stream, out)
    except (OSError, ValueError) as error:
        raise DownloadError(
            f"{address}: the package cannot be downloaded ({_reason(error)})"
        ) from None


def _reason(error: Exception) -> str:
    return f"HTTP {error.code}" if isinstance(error, HTTPError) else str(error)


def _extract(package: Path, folder: Path, url: str) -> None:
    """Write the files of a package; all members must be plain files and folders inside it."""
    folder.mkdir()
    try:
        with _unpacked(package) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _check_member(member, url)
                target = folder / member.name
                if member.isfile():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("xb") as out:
                        shutil.copyfileobj(archive.extractfile(member), out)  # type: ignore[arg-type]
    except FormatError:
        raise
    except (tarfile.TarError, OSError, EOFError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"not a readable package, a .tar.lz4 file ({reason})", url) from None


@contextmanager
def _unpacked(package: Path) -> Iterator[Any]:
    from lz4.frame import LZ4FrameFile

    with package.open("rb") as stream:
        is_lz4 = stream.read(len(_LZ4)) == _LZ4
        stream.seek(0)
        yield LZ4FrameFile(stream) if is_lz4 else stream


def _check_member(member: tarfile.TarInfo, url: str) -> None:
    path = PurePosixPath(member.name)
    if not (member.isfile() or member.isdir()):
        problem = "a link or a device"
    elif path.is_absolute() or ".." in path.parts or set("\\:") & set(member.name):
        problem = "outside of its folder"
    else:
        return
    raise FormatError(f"unsafe package: {member.name!r} is {problem}; nothing was opened", url)
