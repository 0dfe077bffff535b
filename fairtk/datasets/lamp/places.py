"""Where the files of a LaMP task lie: a folder or a zip archive, under either of two namings.

LaMP's own files are ``{split}_questions.json`` and ``{split}_outputs.json``. The utility labels of
*Towards Fair RAG* come as ``{task}_user_{split}_inputs.json``, ``{task}_user_{split}_outputs.json``
and ``{task}_relevance_mapping.tsv`` (``time`` for the split by time), all tasks of a generator in
one archive.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from fairtk.errors import FormatError, InputError
from fairtk.files import atomic_write

_LARGEST = 16 << 30  # bytes; the largest official file has about 3 GB


class Places(NamedTuple):
    """The files of one task: questions with profiles and, if there are any, outputs and labels."""

    questions: Path
    outputs: Path | None
    labels: Path | None


def find(path: Path, task: int, split: str, golds: bool) -> Places:
    """Return where the files in a folder or zip archive are; the latter are unpacked once."""
    if not path.exists():
        raise FormatError(
            f"expected a folder or a zip archive with {split}_questions.json; there is no such "
            "folder and no such file",
            path,
        )
    place = _Folder(path, split) if path.is_dir() else _Archive(path)
    own = f"{split}_questions.json", f"{split}_outputs.json"
    labeled = [
        (f"{task}_{by}_{split}_inputs.json", f"{task}_{by}_{split}_outputs.json")
        for by in ("user", "time")
    ]
    there = [names for names in (own, *labeled) if place.has(names[0])]
    if not there:
        raise FormatError(
            f"expected {own[0]} (LaMP's name) or {labeled[0][0]} (with utility labels); found "
            f"{place.names()[:8]}",
            path,
        )
    if len(there) > 1:
        raise FormatError(
            f"found {' and '.join(names[0] for names in there)}, and only one can be meant: keep "
            "each in a folder of its own",
            path,
        )
    questions, outputs = there[0]
    if golds and not place.has(outputs):
        raise FormatError(
            f"expected {outputs} beside it; found {place.names()[:8]}; without gold outputs, load "
            "it with golds=False",
            path,
        )
    mapping = f"{task}_relevance_mapping.tsv"
    with_labels = (questions, outputs) != own and place.has(mapping)
    return Places(
        place.take(questions),
        place.take(outputs) if golds else None,
        place.take(mapping) if with_labels else None,
    )


class _Folder:
    """Files in a folder or its subfolder for the split."""

    def __init__(self, path: Path, split: str) -> None:
        self.path = path
        self._folders = (path, path / split)

    def _found(self, name: str) -> list[Path]:
        return [folder / name for folder in self._folders if (folder / name).is_file()][:1]

    def has(self, name: str) -> bool:
        return bool(self._found(name))

    def take(self, name: str) -> Path:
        return self._found(name)[0]

    def names(self) -> list[str]:
        return sorted(p.name for p in self.path.iterdir())


class _Archive:
    """A zip archive. Only members that are asked for are unpacked, under names of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = [
                    member
                    for member in archive.infolist()
                    if not member.is_dir() and not member.filename.startswith("__MACOSX/")
                ]
        except (zipfile.BadZipFile, OSError) as error:
            raise FormatError(f"expected a folder or a zip archive ({error})", path) from None

    def _found(self, name: str) -> list[zipfile.ZipInfo]:
        found = [m for m in self._members if m.filename.rsplit("/", 1)[-1] == name]
        if len(found) > 1:
            raise FormatError(
                f"{name} is in the archive {len(found)} times "
                f"({', '.join(m.filename for m in found[:3])}): unpack it and give one folder",
                self.path,
            )
        return found

    def has(self, name: str) -> bool:
        return bool(self._found(name))

    def names(self) -> list[str]:
        return sorted(m.filename for m in self._members)

    def take(self, name: str) -> Path:
        import ir_datasets

        member = self._found(name)[0]
        if member.file_size > _LARGEST:
            raise FormatError(f"{name} would unpack to {member.file_size:,} bytes", self.path)
        content = f"{self.path.resolve()}|{member.filename}|{member.CRC}|{member.file_size}"
        key = hashlib.sha256(content.encode()).hexdigest()[:16]
        target = Path(ir_datasets.util.home_path()) / "lamp" / "unpacked" / key / name
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with (
                zipfile.ZipFile(self.path) as archive,
                archive.open(member) as source,
                atomic_write(target) as temporary,
                temporary.open("wb") as out,
            ):
                shutil.copyfileobj(source, out, 1 << 20)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
            # a wrong checksum, a method Python lacks, a password
            raise InputError(f"{self.path}: cannot unpack {member.filename}: {error}") from None
        return target
