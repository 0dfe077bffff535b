"""What fitting finds: a linear model, and its files: a record in JSON, and the groups beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.frames import ByContent, FloatArray, ObjectArray, digest
from fairtk.groups import Groups, Level
from fairtk_baselines.deltr.division import Division, as_features
from fairtk_baselines.model_folder import Folder, ModelFolder

FOLDER = ModelFolder(
    what="a DELTR model",
    record="deltr.json",
    kind="fairtk-baselines DELTR",
    keys=("settings", "groups", "model", "digest"),
    data="groups-*.tsv.gz",
)

_ARRAYS = ("weights", "group_weights", "mean", "deviation", "neutral")


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(ByContent):
    """Scores are sums of standardized features times weights."""

    weights: FloatArray  # of the features, after standardization; shape (n_features,)
    group_weights: FloatArray  # of belonging to each protected group; empty: that is no feature
    mean: FloatArray  # subtracted from each feature
    deviation: FloatArray  # each feature is divided by it
    neutral: FloatArray  # see `neutral_shares`, of the training documents; shape (n_columns,)
    division: Division  # who is protected, and compared with whom
    summary: Mapping[str, float]
    """Of training: ``queries``, ``queries_left_out``, ``queries_with_both_groups``, ``documents``,
    ``iterations``; ``loss``, the minimum found; means over queries of its parts ``ranking_loss``
    and ``exposure_loss`` (without gamma), and of ``gap``, see `DELTR.gaps`."""

    def score(self, features: FloatArray, groups: Groups, docnos: ObjectArray) -> FloatArray:
        """Return the score of each document, by its features as they come; shape (n_rows,)."""
        # sums along rows, not a product of matrices: that one's rounding depends on their size
        result = (((features - self.mean) / self.deviation) * self.weights).sum(axis=1)
        if len(self.group_weights):
            members = as_features(*self.division.sides(groups, docnos), self.neutral)
            result = result + (members * self.group_weights).sum(axis=1)
        return np.asarray(result)

    def digest(self) -> str:
        """Return a digest of the content."""
        return digest(self.as_json())

    def __repr__(self) -> str:
        return f"<linear model of {len(self.weights)} features #{self.digest()[:8]}>"

    def as_json(self) -> dict[str, Any]:
        """Return the model as JSON values; floats keep all their digits."""
        return {
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            "columns": self.division.columns,
            "reference": self.division.reference,
            "unknown": self.division.unknown,
            "summary": dict(self.summary),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LinearModel:
        """Return the model that `as_json` gave; a Key-, Type- or ValueError if it is another."""
        arrays = {}
        for name in _ARRAYS:
            arrays[name] = np.array(record[name], dtype=np.float64)
            if arrays[name].ndim != 1 or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} must be a list of finite numbers")
        if not len(arrays["weights"]) == len(arrays["mean"]) == len(arrays["deviation"]) > 0:
            raise ValueError("weights, mean and deviation must have one length, of at least 1")
        division = Division(
            tuple(tuple(_level(level) for level in c) for c in record["columns"]),
            None if record["reference"] is None else _level(record["reference"]),
            str(record["unknown"]),
        )
        if len(arrays["group_weights"]) not in (0, division.width):
            raise ValueError("group_weights must be empty or have one weight per column")
        if len(arrays["neutral"]) != division.width:
            raise ValueError("neutral must have one share per column")
        return cls(**arrays, division=division, summary=dict(record["summary"]))


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
        settings["protected"] = [_level(level) for level in settings["protected"]]
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


def _level(value: Any) -> Level:
    """Return a level from its JSON form."""
    return value if isinstance(value, str) else tuple(str(part) for part in value)
