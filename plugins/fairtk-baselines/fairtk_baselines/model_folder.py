"""Saved models: a folder with a JSON record and data files that are named by their content.

The record is written last and atomically, so it always describes a complete model.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fairtk.errors import FormatError
from fairtk.io import atomic_write, file_lock

LOCK = ".lock"

Folder = str | PathLike[str]
Writer = Callable[[Path], object]  # of a data file
Float32Array = npt.NDArray[np.float32]
Arrays = dict[str, Float32Array]


@dataclass(frozen=True)
class ModelFolder:
    """The file format of a kind of model.

    Methods raise a `FormatError` for an invalid folder.
    """

    what: str  # the model, for messages, such as "a DLF model"
    record: str  # name of the JSON file
    kind: str  # the name of the model in the record
    keys: tuple[str, ...]  # the keys of a record other than ``kind`` and ``version``
    data: str  # names of data files, with ``*`` for a digest of the content
    version: int = 1  # the version of the record's format

    def has_model(self, folder: Folder) -> bool:
        """Return whether the folder has a model."""
        return (Path(folder) / self.record).is_file()

    def check_free(self, folder: Folder) -> None:
        """Raise an error for a file, or a folder with other content."""
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise FormatError(f"expected a folder for {self.what}, got a file", path)
        names = [p.name for p in path.iterdir()] if path.is_dir() else []
        other = sorted(name for name in names if not self._ours(name))
        # after the listing, because another process may write its record meanwhile
        if other and not self.has_model(path):
            raise FormatError(
                f"expected an empty folder, or one with {self.what} ({self.record}), got "
                f"{other[0]!r}: use another folder",
                path,
            )

    def write(self, folder: Folder, record: Mapping[str, Any], data: Mapping[str, Writer]) -> None:
        """Write the values of `keys` and the data files, replacing an existing model."""
        self.check_free(folder)
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        with file_lock(path):  # another process would remove these files
            for name, write in data.items():
                with atomic_write(path / name) as temporary:
                    write(temporary)
            full_record = {"kind": self.kind, "version": self.version, **record}
            text = json.dumps(full_record, ensure_ascii=False, allow_nan=False, indent=1)
            with atomic_write(path / self.record) as temporary:
                temporary.write_text(text, encoding="utf-8")
            for old in path.glob(self.data):
                if old.name not in data:
                    with contextlib.suppress(OSError):  # another process may read it
                        old.unlink()

    def read(self, folder: Folder) -> dict[str, Any]:
        """Return the record."""
        path = Path(folder)
        if not self.has_model(path):
            names = sorted(repr(p.name) for p in path.iterdir()) if path.is_dir() else ["no folder"]
            content = names[0] if names else "an empty folder"
            raise FormatError(f"expected {self.what} ({self.record}), got {content}", path)
        try:
            record = json.loads((path / self.record).read_text(encoding="utf-8"))
        except ValueError as error:
            raise self.broken(path, f"no JSON: {error}") from None
        if not isinstance(record, dict) or record.get("kind") != self.kind:
            raise self.broken(path, f"its kind is not {self.kind!r}")
        if record.get("version") != self.version:
            raise self.broken(path, f"version {record.get('version')!r}, not {self.version}")
        for key in self.keys:
            if key not in record:
                raise self.broken(path, KeyError(key))
        return record

    def place(self, folder: Folder, name: object) -> Path:
        """Return the path of a data file in the record."""
        if not isinstance(name, str) or "/" in name or not fnmatchcase(name, self.data):
            raise self.broken(folder, f"{name!r} does not match {self.data}")
        return Path(folder) / name

    def write_arrays(
        self, folder: Folder, record: Mapping[str, Any], arrays: Arrays, content: str
    ) -> None:
        """Write a record and one data file in the format safetensors; see `write`.

        The name of the file, under the first of `keys`, and ``digest`` are added to the record.
        """
        name = self.data.replace("*", content)
        full_record = {**record, self.keys[0]: name, "digest": content}
        self.write(folder, full_record, {name: lambda path: path.write_bytes(save(arrays))})

    def read_arrays(
        self, folder: Folder, content: Callable[[Arrays], str]
    ) -> tuple[dict[str, Any], Arrays]:
        """Return the record and the arrays of `write_arrays`, checked by their digest."""
        record = self.read(folder)
        path = self.place(folder, record[self.keys[0]])
        try:
            arrays: Arrays = load(path.read_bytes())
            content_digest = content(arrays)
        except (OSError, SafetensorError, KeyError) as error:
            raise self.altered(path, error) from None
        if content_digest != record["digest"]:
            raise self.altered(path)
        return record, arrays

    def broken(self, folder: Folder, why: object) -> FormatError:
        """Return the error for an invalid record."""
        return FormatError(
            f"invalid description of {self.what} ({_line(why)}): fit and save the model again",
            Path(folder) / self.record,
        )

    def altered(self, path: Path, why: object = "other content") -> FormatError:
        """Return the error for a missing or changed data file."""
        return FormatError(
            f"the file is missing or does not match {self.record} ({_line(why)}): fit and save the "
            "model again",
            path,
        )

    def _ours(self, name: str) -> bool:
        # the name of an incomplete file of a killed process contains ".part."
        part = name.startswith(".") and ".part." in name
        return part or name == LOCK or fnmatchcase(name, self.data)


def _line(why: object) -> str:
    text = f"{why} is missing" if isinstance(why, KeyError) else str(why)
    return " ".join(text.split())[:160]
