"""The fitted linear model, the protected groups, and their files: a JSON record and the groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import BoolArray, EqualByContent, FloatArray, ObjectArray, digest
from fairtk.groups import Groups, Level
from fairtk_baselines.levels import levels_of, number_of_known, shown
from fairtk_baselines.model_folder import Folder, ModelFolder

ALL_BUT_MOST = "all-but-most"
LEAST_EXPOSED = "least-exposed"
RULES = (ALL_BUT_MOST, LEAST_EXPOSED)


def protected_setting(value: Any, groups: Groups, where: str) -> str | tuple[Level, ...]:
    """Return the setting ``protected``: one of `RULES`, or levels in the groups' order."""
    if isinstance(value, str) and value in RULES and value not in groups.levels:
        return value
    levels = levels_of(groups, value, where, rules=RULES)
    cells = np.array([groups.space.number(level) for level in levels])
    if groups.space.known(cells).sum() == number_of_known(groups):
        raise ParameterError(
            f"{where}: protected must not have all {number_of_known(groups)} known levels of "
            f"{groups.name!r}; omit at least one"
        )
    return levels


@dataclass(frozen=True)
class Division:
    """The protected groups, and the documents that they are compared with.

    Attributes:
        columns: the levels of each protected group; empty for one group of all known levels except
            `reference`.
        reference: the level to compare with; `None` for all known levels that are in no column.
        unknown: the side of documents without a known level, ``"neither"`` or ``"unprotected"``.
    """

    columns: tuple[tuple[Level, ...], ...]
    reference: Level | None
    unknown: str

    @property
    def width(self) -> int:
        """Number of columns."""
        return max(1, len(self.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each column for messages and tables."""
        if not self.columns:
            return (f"all but {shown(self.reference or ())}",)
        return tuple(", ".join(map(shown, column)) for column in self.columns)

    @property
    def levels(self) -> list[Level]:
        """All levels that are named."""
        named = [level for column in self.columns for level in column]
        return named if self.reference is None else [*named, self.reference]

    def sides(self, groups: Groups, docnos: ObjectArray) -> tuple[FloatArray, FloatArray]:
        """Return the membership of documents in each column, and in the side to compare with.

        Memberships are in [0, 1], with shapes (n, `width`) and (n,). A document in several levels
        of a side counts once; a document on both sides counts for both.
        """
        memberships = groups.memberships(docnos, unlabeled="drop")
        space, owner, cell = groups.space, memberships.row, memberships.level
        known = space.known(cell)

        def share(chosen: BoolArray) -> FloatArray:
            inside = sum_by_index(owner[chosen], memberships.weight[chosen], len(docnos))
            return np.asarray(np.minimum(1.0, inside))

        columns = [np.array([space.number(level) for level in c]) for c in self.columns]
        if self.reference is None:
            inside = [np.isin(cell, column) for column in columns]
            rest = known & ~np.logical_or.reduce(inside)
        else:
            rest = cell == space.number(self.reference)
            inside = [np.isin(cell, c) for c in columns] if columns else [known & ~rest]
        beside = np.zeros(len(docnos))
        if self.unknown == "unprotected":
            rest |= ~known & ~np.logical_or.reduce(inside)
            beside[memberships.size == 0] = 1.0
        protected = np.stack([share(chosen) for chosen in inside], axis=1)
        return protected, np.minimum(1.0, share(rest) + beside)


def neutral_shares(protected: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the mean share in each column over the documents of both sides; shape (n_columns,)."""
    placed = _placed(protected, rest).sum()
    return np.asarray(protected.sum(axis=0) / placed if placed > 0 else np.zeros(len(protected.T)))


def as_features(protected: FloatArray, rest: FloatArray, neutral: FloatArray) -> FloatArray:
    """Return shares in the columns as features, with neutral values for documents on no side.

    With 0, these documents would be scored like documents that are known not to be protected.
    """
    return np.asarray(protected + (1.0 - _placed(protected, rest))[:, None] * neutral)


def _placed(protected: FloatArray, rest: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(1.0, protected.sum(axis=1) + rest))


def divide(
    groups: Groups,
    docnos: ObjectArray,
    attention: FloatArray,
    settings: Mapping[str, Any],
    where: str,
) -> Division:
    """Return the two sides, according to the settings of `DELTR`.

    Args:
        groups: the groups.
        docnos: the documents of the training rankings, with repetitions; shape (n,).
        attention: the attention of each document; shape (n,).
        settings: the settings of `DELTR`.
        where: the name of the transformer, for messages.
    """
    protected, unknown = settings["protected"], settings["unknown"]
    groups_apart = settings["groups_apart"]
    if not isinstance(protected, str):
        columns = tuple((level,) for level in protected) if groups_apart == "each" else (protected,)
        return Division(columns, None, unknown)
    memberships = groups.memberships(docnos, unlabeled="drop")
    known = groups.space.known(memberships.level)
    cells, code = np.unique(memberships.level[known], return_inverse=True)
    exposure = sum_by_index(
        code, (memberships.weight * attention[memberships.row])[known], len(cells)
    )
    if len(cells) < 2:
        levels = f"only {groups.levels[int(cells[0])]!r}" if len(cells) else "none"
        raise InputError(
            f"{where}: protected={protected!r} requires documents of at least two groups of "
            f"{groups.name!r} in the training rankings, got {levels}; name the protected levels, "
            "or check that the groups use the same docnos"
        )
    if protected == LEAST_EXPOSED:
        return Division(((groups.levels[int(cells[np.argmin(exposure)])],),), None, unknown)
    most = int(cells[np.argmax(exposure)])
    rest = [groups.levels[int(cell)] for cell in cells if cell != most]
    columns = tuple((level,) for level in rest) if groups_apart == "each" else ()
    return Division(columns, groups.levels[most], unknown)


FOLDER = ModelFolder(
    what="a DELTR model",
    record="deltr.json",
    kind="fairtk-baselines DELTR",
    keys=("settings", "groups", "model", "digest"),
    data="groups-*.tsv.gz",
)

_ARRAYS = ("weights", "group_weights", "mean", "deviation", "neutral")


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(EqualByContent):
    """A linear model, whose scores are sums of standardized features times weights."""

    identity_name = "fairtk_baselines.LinearModel"
    output_version = 1
    weights: FloatArray  # of the features, after standardization; shape (n_features,)
    group_weights: FloatArray  # of membership in each protected group; empty if not a feature
    mean: FloatArray  # subtracted from each feature
    deviation: FloatArray  # divides each feature
    neutral: FloatArray  # `neutral_shares` of the training documents; shape (n_columns,)
    division: Division
    summary: Mapping[str, float]
    """The numbers of ``queries``, ``queries_left_out``, ``queries_with_both_groups``, ``documents``
    and ``iterations`` of training; the final ``loss``; and the means over queries of its parts
    ``ranking_loss`` and ``exposure_loss`` (without gamma), and of ``gap`` (see `DELTR.gaps`)."""

    def score(self, features: FloatArray, groups: Groups, docnos: ObjectArray) -> FloatArray:
        """Return the score of each document from its raw features; shape (n_rows,)."""
        # sums along rows, because the rounding of a matrix product depends on its size
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
        """Return the model of `as_json`; raise a Key-, Type- or ValueError if it is invalid."""
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
                f"DELTR: the level {level!r} of the model is missing from {groups.name!r}: "
                "use groups with the levels of training"
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
