"""Which documents are protected, and which they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.exposure import total
from fairtk.frames import BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.groups import Groups, Level, Memberships
from fairtk_baselines.settings import levels_of, number_of_known, shown

ALL_BUT_MOST = "all-but-most"
LEAST_EXPOSED = "least-exposed"
RULES = (ALL_BUT_MOST, LEAST_EXPOSED)


def protected_setting(value: Any, groups: Groups, where: str) -> str | tuple[Level, ...]:
    """Return the setting ``protected``: one of `RULES`, or levels in the groups' order."""
    if isinstance(value, str) and value in RULES and value not in groups.levels:
        return value
    levels = levels_of(groups, value, where, rules=RULES)
    cells = np.array([groups.space.cell(level) for level in levels])
    if groups.space.known(cells).sum() == number_of_known(groups):
        raise ParameterError(
            f"{where}: protected lists all {number_of_known(groups)} known levels of "
            f"{groups.name!r}: there is no other group to compare with; leave at least one out"
        )
    return levels


@dataclass(frozen=True)
class Division:
    """Two sides: the protected groups, and the documents they are compared with.

    Each protected group that is told apart is a column, the tuple of its levels; without any there
    is one of all known levels but `reference`, the level that protected groups are compared with.
    Where that is None, they are compared with every known level that is in no column.
    """

    columns: tuple[tuple[Level, ...], ...]
    reference: Level | None
    unknown: str  # documents without a known level: "neither" or "unprotected"

    @property
    def width(self) -> int:
        """Number of columns."""
        return max(1, len(self.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """What each column is called in messages and tables."""
        if not self.columns:
            return (f"all but {shown(self.reference or ())}",)
        return tuple(", ".join(map(shown, column)) for column in self.columns)

    @property
    def levels(self) -> list[Level]:
        """All levels that are named."""
        named = [level for column in self.columns for level in column]
        return named if self.reference is None else [*named, self.reference]

    def sides(self, groups: Groups, docnos: ObjectArray) -> tuple[FloatArray, FloatArray]:
        """Return how much documents belong to each column, and to what these are compared with.

        Shares from 0 to 1, shapes (n, `width`) and (n,). A document in several levels of one side
        counts once there; a document on both sides counts on both, with its shares.
        """
        found, owner = _memberships(groups, docnos)
        space, cell = groups.space, found.cell
        known = space.known(cell)

        def share(chosen: BoolArray) -> FloatArray:
            inside = total(owner[chosen], found.weight[chosen], len(docnos))
            return np.asarray(np.minimum(1.0, inside))

        columns = [np.array([space.cell(level) for level in c]) for c in self.columns]
        if self.reference is None:
            inside = [np.isin(cell, column) for column in columns]
            rest = known & ~np.logical_or.reduce(inside)
        else:
            rest = cell == space.cell(self.reference)
            inside = [np.isin(cell, c) for c in columns] if columns else [known & ~rest]
        beside = np.zeros(len(docnos))
        if self.unknown == "unprotected":
            rest |= ~known & ~np.logical_or.reduce(inside)
            beside[found.size == 0] = 1.0
        protected = np.stack([share(chosen) for chosen in inside], axis=1)
        return protected, np.minimum(1.0, share(rest) + beside)


def neutral_shares(protected: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the mean share in each column among what is on some side; shape (n_columns,)."""
    placed = _placed(protected, rest).sum()
    return np.asarray(protected.sum(axis=0) / placed if placed > 0 else np.zeros(len(protected.T)))


def as_features(protected: FloatArray, rest: FloatArray, neutral: FloatArray) -> FloatArray:
    """Return shares in the columns as features, where what is on no side has neutral ones.

    With 0 there, it would be scored like what is known not to be protected, and fall with that.
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
    """Return the two sides, by the settings of `DELTR`; a rule looks at the training rankings.

    These are given by their documents, with repetitions, and the attention each gets; shapes (n,).
    """
    protected, unknown = settings["protected"], settings["unknown"]
    groups_apart = settings["groups_apart"]
    if not isinstance(protected, str):
        columns = tuple((level,) for level in protected) if groups_apart == "each" else (protected,)
        return Division(columns, None, unknown)
    found, owner = _memberships(groups, docnos)
    known = groups.space.known(found.cell)
    cells, code = np.unique(found.cell[known], return_inverse=True)
    exposure = total(code, (found.weight * attention[owner])[known], len(cells))
    if len(cells) < 2:
        levels = f"only {groups.space.label(int(cells[0]))!r}" if len(cells) else "none"
        raise InputError(
            f"{where}: protected={protected!r} needs documents of at least two groups of "
            f"{groups.name!r} in the training rankings; found {levels}: name the protected levels, "
            "or check that the groups use the same docnos"
        )
    if protected == LEAST_EXPOSED:
        return Division(((groups.space.label(int(cells[np.argmin(exposure)])),),), None, unknown)
    most = int(cells[np.argmax(exposure)])
    rest = [groups.space.label(int(cell)) for cell in cells if cell != most]
    columns = tuple((level,) for level in rest) if groups_apart == "each" else ()
    return Division(columns, groups.space.label(most), unknown)


def _memberships(groups: Groups, docnos: ObjectArray) -> tuple[Memberships, IntArray]:
    """Return the levels of documents, and whose each is; one without a row is as if unknown."""
    found = groups.memberships(docnos, unlabeled="drop")
    return found, np.repeat(np.arange(len(docnos)), found.size)
