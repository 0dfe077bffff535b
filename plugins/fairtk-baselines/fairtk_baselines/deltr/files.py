"""The files of a fitted DELTR: settings and model in JSON, and the groups beside it."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from fairtk.errors import InputError, ParameterError
from fairtk.frames.content import digest as digest_of
from fairtk.groups import Groups
from fairtk_baselines.deltr.model import LinearModel, level_of
from fairtk_baselines.model_folder import Folder, ModelFolder

FOLDER = ModelFolder(
    what="a DELTR model",
    record="deltr.json",
    kind="fairtk-baselines DELTR",
    keys=("settings", "groups", "model", "digest"),
    data="groups-*.tsv.gz",
)


def write(folder: Folder, settings: dict[str, Any], model: LinearModel) -> None:
    """Write a model; see `DELTR.save`."""
    given = {k: v for k, v in settings.items() if k not in ("groups", "model")}
    groups: Groups = settings["groups"]
    files: list[dict[str, Any]] = [
        {
            "file": f"groups-{attribute.digest()}.tsv.gz",
            "name": attribute.name,
            "unknown": _unknown(attribute),
            "digest": attribute.digest(),
        }
        for attribute in groups.attributes
    ]
    record = {
        "settings": given,
        "groups": files,
        "model": model.as_json(),
        "digest": _digest(given, files, model),
    }
    writers = [attribute.write for attribute in groups.attributes]
    FOLDER.write(folder, record, {f["file"]: w for f, w in zip(files, writers, strict=True)})


def read(folder: Folder, groups: Groups | None) -> tuple[dict[str, Any], LinearModel]:
    """Return settings and model; see `DELTR.load`."""
    record = FOLDER.read(folder)
    try:
        model = LinearModel.from_json(record["model"])
        settings = dict(record["settings"])
        files = list(record["groups"])
    except (KeyError, TypeError, ValueError) as error:
        raise FOLDER.broken(folder, error) from None
    if _digest(settings, files, model) != record["digest"]:
        raise FOLDER.broken(folder, "settings, groups or weights are not those that were saved")
    if groups is None:
        groups = reduce(mul, [_groups(folder, file) for file in files])
    _check_levels(groups, model)
    if isinstance(settings.get("protected"), list):
        settings["protected"] = [level_of(level) for level in settings["protected"]]
    return {"groups": groups, **settings}, model


def _groups(folder: Folder, file: Any) -> Groups:
    place = FOLDER.place(folder, file["file"])
    try:
        groups = Groups.read(place, name=file["name"], unknown=file["unknown"])
    except (OSError, InputError) as error:
        raise FOLDER.altered(place, str(error).removeprefix(f"{place}: ")) from None
    if groups.digest() != file["digest"]:
        raise FOLDER.altered(place)
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
