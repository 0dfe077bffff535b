"""The files of an `LsaEncoder`: a JSON file, and a safetensors file that it names.

The JSON file is written last and names its tensors by content, so that a folder always holds a
whole encoder, the old one or the new one, wherever the writing was killed.
"""

from __future__ import annotations

import contextlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from fairtk.digest import digest
from fairtk.errors import FormatError
from fairtk.io import atomic_write

NAME = "lsa.json"
LOCK = ".lock"
_KIND = "fairtk-baselines LSA encoder"
_VERSION = 1

FloatArray = npt.NDArray[np.float32]


def has_encoder(folder: str | PathLike[str]) -> bool:
    """Return whether the folder claims to hold an encoder."""
    return (Path(folder) / NAME).is_file()


def check_free(folder: str | PathLike[str]) -> None:
    """Raise unless an encoder may be written to the folder.

    Raises:
        FormatError: it is a file, or holds something else than an encoder.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise FormatError("expected a folder for an LSA encoder; found a file", path)
    if path.is_dir() and not has_encoder(path):
        other = sorted(p.name for p in path.iterdir() if not _ours(p.name))
        if other:
            raise FormatError(
                f"expected an empty folder, or one with an LSA encoder ({NAME}); found "
                f"{other[0]!r}: give another folder, nothing here is overwritten",
                path,
            )


def write(
    folder: str | PathLike[str],
    terms: list[str],
    idf: FloatArray,
    components: FloatArray,
    settings: dict[str, Any],
) -> None:
    """Write an encoder; see `LsaEncoder.save`."""
    check_free(folder)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    content = digest([idf, components])
    tensors = f"lsa-{content}.safetensors"
    with atomic_write(path / tensors) as temporary:
        temporary.write_bytes(save({"idf": idf, "components": components}))
    record = {
        "kind": _KIND,
        "version": _VERSION,
        "settings": settings,
        "tensors": tensors,
        "digest": content,
        "terms": terms,
    }
    with atomic_write(path / NAME) as temporary:
        temporary.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    for old in path.glob("lsa-*.safetensors"):
        if old.name != tensors:
            with contextlib.suppress(OSError):  # another process may read it
                old.unlink()


def read_settings(folder: str | PathLike[str]) -> dict[str, Any]:
    """Return the settings of the encoder in a folder."""
    settings: dict[str, Any] = _record(Path(folder))["settings"]
    return settings


def read(
    folder: str | PathLike[str],
) -> tuple[list[str], FloatArray, FloatArray, dict[str, Any]]:
    """Return terms, idf, components and settings; see `LsaEncoder.load`."""
    path = Path(folder)
    record = _record(path)
    name = record["tensors"]
    advice = "remove the folder's files and fit again"
    if Path(name).name != name or not name.endswith(".safetensors"):
        raise FormatError(f"expected the name of a safetensors file; found {name!r}", path / NAME)
    try:
        tensors = load_file(path / name)
        idf, components = tensors["idf"], tensors["components"]
    except (OSError, SafetensorError, KeyError) as error:
        first = " ".join(str(error).split())[:120]
        raise FormatError(
            f"expected the tensors of an LSA encoder; found none that can be read ({first}): "
            f"{advice}",
            path / name,
        ) from None
    terms = record["terms"]
    if digest([idf, components]) != record["digest"] or len(idf) != len(terms):
        raise FormatError(
            f"expected the tensors that {NAME} was written with; found others: {advice}",
            path / name,
        )
    return terms, idf, components, record["settings"]


def _record(folder: Path) -> dict[str, Any]:
    path = folder / NAME
    if not path.is_file():
        found = "an empty folder" if folder.is_dir() else "no folder"
        if folder.is_dir() and any(folder.iterdir()):
            found = f"{sorted(p.name for p in folder.iterdir())[0]!r}"
        raise FormatError(f"expected an LSA encoder ({NAME}); found {found}", folder)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        known = record["kind"] == _KIND
        complete = {"version", "settings", "tensors", "digest", "terms"} <= set(record)
    except (ValueError, KeyError, TypeError):
        known = complete = False
    if not known or not complete:
        raise FormatError(
            "expected the description of an LSA encoder; found something else, or a broken file: "
            "give another folder, or remove this one",
            path,
        )
    if record["version"] != _VERSION:
        raise FormatError(
            f"expected version {_VERSION} of the description of an LSA encoder; found "
            f"{record['version']!r}: remove the folder and fit again",
            path,
        )
    return dict(record)


def _ours(name: str) -> bool:
    # ".part." is in the name of a file that was being written when its process was killed
    own = name.startswith("lsa-") and name.endswith(".safetensors")
    return own or name == LOCK or (name.startswith(".") and ".part." in name)
