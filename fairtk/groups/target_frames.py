"""Targets from frames, files and populations, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from fairtk.divergence import Distributions, SparseRows
from fairtk.errors import ColumnError, DuplicateError, InputError, listed
from fairtk.files.content import naming
from fairtk.files.tables import read_table
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import GROUP, QID, WEIGHT
from fairtk.frames.ids import as_strings, encode_ids
from fairtk.groups.building import (
    Fail,
    checked_weights,
    failing,
    first,
    level_order,
    level_places,
    row_name,
)
from fairtk.groups.crossed import Crossed
from fairtk.groups.factored import BackgroundRows, ProductRows
from fairtk.groups.files import check_weights
from fairtk.groups.levels import UNKNOWN, LevelSpace, only

TOLERANCE = 1e-6
"""How far from 1 the weights of a query may sum."""


@dataclass(eq=False)
class TargetWeights:
    """The parts of a `fairtk.Target`, of which it takes the attributes."""

    space: LevelSpace
    distributions: Distributions
    qids: ObjectArray | None = None
    undefined: dict[str, str] = field(default_factory=dict)


def target_from_frame(
    frame: pd.DataFrame, groups: Crossed | None, fail: Fail | None = None
) -> TargetWeights:
    """Return the target of a frame; see `fairtk.Target.from_frame`."""
    where = "Target"
    fail = fail or failing(where)
    columns = _attribute_columns(frame, groups, where)
    row, qids = _queries(frame, where, fail)
    if not len(frame):
        raise InputError(
            f"{where}: there are no rows, so the weights sum to 0; give each level its weight"
        )
    space, cell = _cells(frame, columns, groups, fail)
    names = [column for column in (QID, *columns) if column in frame.columns]
    weight = checked_weights(frame, names, fail)
    key = row * np.int64(space.size) + cell
    twice = pd.Series(key).duplicated().to_numpy()
    if twice.any():
        at = first(twice)
        fail(at, f"{row_name(frame, names, at)} is listed twice", DuplicateError)
    n = 1 if qids is None else len(qids)
    total = np.bincount(row, weights=weight, minlength=n)
    wrong = np.abs(total - 1) > TOLERANCE
    if wrong.any() and len(frame):
        at = first(wrong)
        query = "" if qids is None else f" of qid {qids[at]!r}"
        fail(
            first(row == at),
            f"the weights{query} must sum to 1; found {total[at]:.8g} "
            "(Target.population divides counts by their sum)",
            InputError,
        )
    rows = SparseRows.collect(row, cell, weight, n, space.size)
    return TargetWeights(space, rows, qids)


def read_target(path: str | PathLike[str], groups: Crossed | None) -> TargetWeights:
    """Read a target; see `fairtk.Target.read`."""
    rows = read_table(path)
    check_weights(rows, [WEIGHT], "a target file")
    with naming(path):
        return target_from_frame(rows.frame, groups, lambda row, text, kind: rows.fail(row, text))


def population(shares: Any, groups: Crossed | None) -> TargetWeights:
    """Return shares of a population as a target; see `fairtk.Target.population`."""
    where = "Target.population"
    if not isinstance(shares, Mapping | pd.Series):
        raise InputError(f"{where} needs a series or mapping; found {type(shares).__name__}")
    items: dict[Any, Any] = dict(shares)
    if items and all(isinstance(v, Mapping | pd.Series) for v in items.values()):
        return _independent(items, groups, where)
    series = pd.Series(items, dtype="float64") if items else pd.Series(dtype="float64")
    wrong = ~np.isfinite(series.to_numpy()) | (series.to_numpy() < 0)
    if wrong.any():
        level = list(items)[first(wrong)]
        raise InputError(
            f"{where}: the share of {level!r} must be 0 or above; found {items[level]}"
        )
    if not series.sum() > 0:
        raise InputError(f"{where}: the shares sum to {series.sum():g}; some must be above 0")
    names = list(getattr(getattr(shares, "index", None), "names", [None]))
    if any(isinstance(level, tuple) for level in items):
        names = list(groups.space.names) if groups is not None and None in names else names
        parts = list(zip(*items, strict=True))
        if len(parts) != len(names) or None in names:
            raise InputError(f"{where}: name the levels of the series' index after the attributes")
        frame = pd.DataFrame({n: [str(v) for v in p] for n, p in zip(names, parts, strict=True)})
    else:
        frame = pd.DataFrame({GROUP: [str(v) for v in items]})
    frame[WEIGHT] = series.to_numpy() / series.sum()
    return target_from_frame(frame, groups, failing(where))


def realigned(target: TargetWeights, space: LevelSpace) -> TargetWeights:
    """Return a target over another space; see `fairtk.Target.for_groups`."""
    ours = target.space
    if ours == space:
        return target
    places = _matched(ours, space)
    tables = [
        np.array([space.levels[there].index(v) if v in space.levels[there] else -1
                  for v in ours.levels[here]], dtype=np.int64)
        for here, there in enumerate(places)
    ]  # fmt: skip
    rows = target.distributions
    if isinstance(rows, ProductRows):
        shares: list[FloatArray] = [np.zeros(n) for n in space.shape]
        for here, there in enumerate(places):
            lost = (tables[here] < 0) & (rows.shares[here] > 0)
            _refuse(lost, ours, here, space)
            kept = tables[here] >= 0
            shares[there][tables[here][kept]] = rows.shares[here][kept]
        return TargetWeights(space, ProductRows(space, tuple(shares), rows.present), target.qids)
    if isinstance(rows, BackgroundRows):
        raise InputError(
            f"the target was made for the attributes {list(ours.names)} with other levels or in "
            f"another order than {list(space.names)}; make it from these groups"
        )
    stored = rows.expanded()
    cell = np.zeros(len(stored.cell), dtype=np.int64)
    for here, there in enumerate(places):
        level = tables[here][ours.codes(stored.cell, here)]
        lost = np.zeros(ours.shape[here], dtype=bool)
        lost[ours.codes(stored.cell[level < 0], here)] = True
        _refuse(lost, ours, here, space)
        cell += level * space.strides[there]
    moved = SparseRows.collect(stored.row, cell, stored.weight, stored.n_rows, space.size)
    return TargetWeights(space, moved, target.qids, target.undefined)


def _matched(ours: LevelSpace, space: LevelSpace) -> list[int]:
    if len(ours.names) == len(space.names) == 1 and GROUP in (*ours.names, *space.names):
        return [0]
    if sorted(ours.names) != sorted(space.names):
        raise InputError(
            f"the target is over the attributes {list(ours.names)}, the groups are over "
            f"{list(space.names)}"
        )
    return [space.index(name) for name in ours.names]


def _refuse(lost: BoolArray, ours: LevelSpace, place: int, space: LevelSpace) -> None:
    if lost.any():
        names = [ours.levels[place][i] for i in np.flatnonzero(lost)]
        there = _matched(ours, space)[place]
        raise InputError(
            f"the target has weight on {listed(names)}, which the groups lack; the levels of "
            f"{space.names[there]!r} are {only(space.levels[there])}"
        )


def _independent(items: dict[Any, Any], groups: Crossed | None, where: str) -> TargetWeights:
    singles = [population(shares, None) for shares in items.values()]
    space = LevelSpace(
        tuple(str(name) for name in items),
        tuple(t.space.levels[0] for t in singles),
        tuple(t.space.unknown[0] for t in singles),
    )
    shares = tuple(t.distributions.expanded().dense()[0] for t in singles)
    whole = TargetWeights(space, ProductRows(space, shares, np.ones(1, dtype=bool)))
    return whole if groups is None else realigned(whole, groups.space)


def _attribute_columns(frame: pd.DataFrame, groups: Crossed | None, where: str) -> list[str]:
    found = [str(c) for c in frame.columns if c not in (QID, WEIGHT)]
    if WEIGHT not in frame.columns:
        raise ColumnError(f"{where} needs the column {WEIGHT!r}; found: {list(frame.columns)}")
    if groups is None:
        if GROUP in found:
            return [GROUP]
        if not found:
            raise ColumnError(f"{where} needs the column {GROUP!r}; found: {list(frame.columns)}")
        return found
    names = list(groups.space.names)
    if len(names) == 1 and GROUP in found:
        return [GROUP]
    missing = [n for n in names if n not in found]
    if missing:
        wanted = f"{GROUP!r}" if len(names) == 1 else f"{names}"
        raise ColumnError(
            f"{where} needs the columns {wanted} for the groups {groups.name!r}; found: "
            f"{list(frame.columns)}"
        )
    return names


def _queries(frame: pd.DataFrame, where: str, fail: Fail) -> tuple[IntArray, ObjectArray | None]:
    if QID not in frame.columns:
        return np.zeros(len(frame), dtype=np.int64), None
    missing = frame[QID].isna().to_numpy()
    if missing.any():
        fail(first(missing), "qid is missing", InputError)
    return encode_ids(frame[QID], QID, where)


def _cells(
    frame: pd.DataFrame, columns: list[str], groups: Crossed | None, fail: Fail
) -> tuple[LevelSpace, IntArray]:
    coded = []
    for column in columns:
        codes, values = pd.factorize(frame[column])
        if (codes < 0).any():
            fail(first(codes < 0), f"{column} is missing", InputError)
        coded.append((codes.astype(np.int64), list(as_strings(values))))
    if groups is not None:
        space = groups.space
    else:
        levels = tuple(level_order(found, UNKNOWN) for _, found in coded)
        unknown = tuple(v.index(UNKNOWN) if UNKNOWN in v else -1 for v in levels)
        space = LevelSpace(tuple(columns), levels, unknown)
    cell = np.zeros(len(frame), dtype=np.int64)
    for place, (codes, found) in enumerate(coded):
        message = (
            f"the groups lack the level {{}} of {space.names[place]!r}; they have "
            f"{only(space.levels[place])}"
        )
        cell += (
            level_places(codes, found, space.levels[place], message, fail) * space.strides[place]
        )
    return space, cell
