"""The files of a fitted DELTR: settings and model in JSON, and the groups beside it."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from fairtk.errors import InputError, ParameterError
from fairtk.frames import digest
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
    files, data = [], {}
    for one in settings["groups"].attributes:
        key, place = one.digest(), one.space.unknown[0]
        unknown = one.space.levels[0][place] if place >= 0 else None
        name = f"groups-{key}.tsv.gz"
        files.append({"file": name, "name": one.name, "unknown": unknown, "digest": key})
        data[name] = one.write
    record = {"settings": given, "groups": files, "model": model.as_json()}
    FOLDER.write(folder, {**record, "digest": digest([given, files, model])}, data)


def read(folder: Folder, groups: Groups | None) -> tuple[dict[str, Any], LinearModel]:
    """Return settings and model; see `DELTR.load`."""
    record = FOLDER.read(folder)
    try:
        model = LinearModel.from_json(record["model"])
        settings = dict(record["settings"])
        files = list(record["groups"])
    except (KeyError, TypeError, ValueError) as error:
        raise FOLDER.broken(folder, error) from None
    if digest([settings, files, model]) != record["digest"]:
        raise FOLDER.broken(folder, "settings, groups or weights are not those that were saved")
    if groups is None:
        groups = reduce(mul, [_groups(folder, file) for file in files])
    for level in model.division.levels:
        if level not in groups.levels:
            raise ParameterError(
                f"DELTR: the model tells apart {level!r}, which is no level of {groups.name!r}; "
                "give groups with the levels of training"
            )
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
