"""The files of a trained `DLF`: a JSON file, and a safetensors file that it names.

The JSON file is written last and names the weights by content: a folder always holds one whole
model, the old one or the new one, wherever the writing was killed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fairtk.digest import digest
from fairtk.errors import FormatError
from fairtk.io import atomic_write

NAME = "dlf.json"
_KIND = "fairtk-baselines DLF"
_VERSION = 1
_KEYS = {"kind", "version", "settings", "dimension", "weights", "digest"}

Arrays = dict[str, npt.NDArray[np.float32]]


def write(
    folder: str | PathLike[str], settings: Mapping[str, Any], dimension: int, weights: Arrays
) -> None:
    """Write a model.

    Args:
        folder: is made where there is none; a model that is there is replaced.
        settings: what JSON can hold.
        dimension: of the vectors.
        weights: by name.

    Raises:
        FormatError: the folder is a file, or holds other things than a model.
    """
    path = Path(folder)
    _check_free(path)
    path.mkdir(parents=True, exist_ok=True)
    content = digest(weights)
    name = f"dlf-{content}.safetensors"
    with atomic_write(path / name) as temporary:
        temporary.write_bytes(save(weights))
    record = {
        "kind": _KIND,
        "version": _VERSION,
        "settings": dict(settings),
        "dimension": dimension,
        "weights": name,
        "digest": content,
    }
    with atomic_write(path / NAME) as temporary:
        temporary.write_text(json.dumps(record, indent=1, ensure_ascii=False), encoding="utf-8")
    for old in path.glob("dlf-*.safetensors"):
        if old.name != name:
            with contextlib.suppress(OSError):
                old.unlink()


def read(folder: str | PathLike[str]) -> tuple[dict[str, Any], int, Arrays]:
    """Return settings, dimension and weights.

    Raises:
        FormatError: there is no model, or a broken one.
    """
    path = Path(folder)
    record = _record(path)
    name = record["weights"]
    advice = "remove the folder, and fit and save the model again"
    if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
        raise FormatError(f"expected the name of a safetensors file; found {name!r}", path / NAME)
    try:
        weights = load((path / name).read_bytes())
    except (OSError, SafetensorError) as error:
        raise FormatError(
            "expected the weights of a DLF model; found none that can be read "
            f"({' '.join(str(error).split())[:120]}): {advice}",
            path / name,
        ) from None
    if digest(weights) != record["digest"]:
        raise FormatError(
            f"expected the weights that {NAME} was written with; found others: {advice}",
            path / name,
        )
    return record["settings"], record["dimension"], weights


def broken(folder: str | PathLike[str], what: str) -> FormatError:
    """Return the error for a description that can be read and makes no model."""
    return FormatError(
        f"expected the description of a DLF model; found a broken one ({what}): remove the folder, "
        "and fit and save the model again",
        Path(folder) / NAME,
    )


def _record(folder: Path) -> dict[str, Any]:
    path = folder / NAME
    if not path.is_file():
        kind = "a folder without it" if folder.is_dir() else "no folder"
        raise FormatError(f"expected a saved DLF model ({NAME}); found {kind}", folder)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if not isinstance(record, dict) or record.get("kind") != _KIND or not set(record) >= _KEYS:
        raise broken(folder, "not JSON, or with other keys")
    if record["version"] != _VERSION:
        raise FormatError(
            f"expected version {_VERSION} of a DLF model's description; found "
            f"{record['version']!r}: fit and save the model again",
            path,
        )
    return record


def _check_free(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise FormatError("expected a folder for a DLF model; found a file", path)
    if path.is_dir() and not (path / NAME).is_file():
        other = sorted(p.name for p in path.iterdir() if not p.name.endswith(".safetensors"))
        if other:
            raise FormatError(
                f"expected an empty folder, or one with a DLF model ({NAME}); found {other[0]!r}: "
                "give another folder, nothing here is overwritten",
                path,
            )
