"""The files of a fitted DELTR: settings and model in JSON, and the groups beside it.

The JSON file is written last and names the groups by content, so that a folder always holds a whole
model, the old one or the new one, wherever the writing was stopped.
"""

from __future__ import annotations

import json
from functools import reduce
from operator import mul
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk.digest import digest as digest_of
from fairtk.errors import FormatError, InputError, ParameterError
from fairtk.groups import Groups
from fairtk.io.atomic import atomic_text
from fairtk_baselines.deltr.model import LinearModel, level_of

NAME = "deltr.json"
_KIND = "fairtk-baselines DELTR"
_VERSION = 1


def write(folder: str | PathLike[str], settings: dict[str, Any], model: LinearModel) -> None:
    """Write a model; see `DELTR.save`."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise FormatError("expected a folder for a DELTR model; found a file", path)
    if path.is_dir() and not (path / NAME).is_file() and any(path.iterdir()):
        other = sorted(p.name for p in path.iterdir())[0]
        if not _ours(other):
            raise FormatError(
                f"expected an empty folder, or one with a DELTR model ({NAME}); found {other!r}: "
                "give another folder, nothing here is overwritten",
                path,
            )
    path.mkdir(parents=True, exist_ok=True)
    given = {k: v for k, v in settings.items() if k not in ("groups", "model")}
    groups: Groups = settings["groups"]
    files = []
    for attribute in groups.attributes:
        name = f"groups-{attribute.digest()}.tsv.gz"
        attribute.write(path / name)
        files.append(
            {
                "file": name,
                "name": attribute.name,
                "unknown": _unknown(attribute),
                "digest": attribute.digest(),
            }
        )
    record = {
        "kind": _KIND,
        "version": _VERSION,
        "settings": given,
        "groups": files,
        "model": model.as_json(),
        "digest": _digest(given, files, model),
    }
    with atomic_text(path / NAME) as stream:
        json.dump(record, stream, ensure_ascii=False, allow_nan=False, indent=1)
    kept = {file["file"] for file in files}
    for old in path.glob("groups-*.tsv.gz"):
        if old.name not in kept:
            old.unlink()


def read(folder: str | PathLike[str], groups: Groups | None) -> tuple[dict[str, Any], LinearModel]:
    """Return settings and model; see `DELTR.load`."""
    path = Path(folder) / NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError("there is no DELTR model here; DELTR.save makes one", path) from None
    except NotADirectoryError:
        raise FormatError("expected the folder of a DELTR model; found a file", folder) from None
    except OSError as error:
        raise FormatError(f"cannot be read ({error.strerror})", path) from None
    except ValueError as error:
        raise FormatError(
            f"damaged: this is no JSON ({error}); save the model again", path
        ) from None
    if not isinstance(record, dict) or record.get("kind") != _KIND:
        raise FormatError("this is no DELTR model; give the folder that DELTR.save wrote", path)
    if record.get("version") != _VERSION:
        raise FormatError(
            f"the model is of version {record.get('version')!r}, this fairtk-baselines reads "
            f"{_VERSION}; fit it again",
            path,
        )
    try:
        model = LinearModel.from_json(record["model"])
        settings = dict(record["settings"])
        files = list(record["groups"])
        digest = record["digest"]
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"damaged: {_said(error)}; save the model again", path) from None
    if _digest(settings, files, model) != digest:
        raise FormatError(
            "damaged: settings or weights are not those that were saved; save the model again",
            path,
        )
    if groups is None:
        groups = reduce(mul, [_groups(path.parent, file) for file in files])
    _check_levels(groups, model)
    if isinstance(settings.get("protected"), list):
        settings["protected"] = [level_of(level) for level in settings["protected"]]
    return {"groups": groups, **settings}, model


def _groups(folder: Path, file: Any) -> Groups:
    place = folder / Path(file["file"]).name
    if not place.is_file():
        raise FormatError("the file of the groups is missing; save the model again", place)
    try:
        groups = Groups.read(place, name=file["name"], unknown=file["unknown"])
    except InputError as error:
        raise FormatError(f"the groups cannot be read: {error}", place) from None
    if groups.digest() != file["digest"]:
        raise FormatError(
            "damaged: the groups are not those that were saved; save the model again", place
        )
    return groups


def _check_levels(groups: Groups, model: LinearModel) -> None:
    division = model.division
    wanted = [level for column in division.columns for level in column]
    if division.reference is not None:
        wanted.append(division.reference)
    for level in wanted:
        if level not in groups.levels:
            raise ParameterError(
                f"DELTR: the model tells apart {level!r}, which is no level of {groups.name!r}; "
                "give groups with the levels of training"
            )


def _digest(settings: dict[str, Any], files: list[Any], model: LinearModel) -> str:
    return digest_of([settings, files, model])


def _unknown(attribute: Groups) -> str | None:
    place = attribute.space.unknown[0]
    return attribute.space.levels[0][place] if place >= 0 else None


def _ours(name: str) -> bool:
    return name.startswith("groups-") and name.endswith(".tsv.gz") or ".part." in name


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
