"""What the fairness model is trained for: groups, and the exposure that they should have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fairtk.errors import InputError, ParameterError
from fairtk.frames import BoolArray, FloatArray, ObjectArray
from fairtk.groups import Groups, Target

_Kind = TypeVar("_Kind", Groups, Target)

MOST_GROUPS = 1 << 10
UNLABELED = ("drop", "unknown", "uniform")
UNKNOWN = ("keep", "drop")


@dataclass(frozen=True)
class Aim:
    """One attribute (or several crossed ones) and its target; see `DLF` for the settings."""

    groups: Groups
    target: Target
    unlabeled: str
    unknown: str

    def memberships(self, docnos: ObjectArray) -> FloatArray:
        """Return how much each document belongs to each group; shape (n, n_groups)."""
        found = self.groups.memberships(docnos, self.unlabeled)
        document = np.repeat(np.arange(len(docnos)), found.size)
        table = np.zeros((len(docnos), self.groups.space.size))
        table[document, found.cell] = found.weight
        return table * self._counted()

    def shares(self, qids: ObjectArray) -> FloatArray:
        """Return each query's target; shape (n, n_groups), 0 for a query without one."""
        shares = self.target.for_qids(qids).expanded().dense() * self._counted()
        total = shares.sum(axis=1, keepdims=True)
        result: FloatArray = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
        return result

    def _counted(self) -> BoolArray:
        space = self.groups.space
        if self.unknown == "keep":
            return np.ones(space.size, dtype=bool)
        return space.known(np.arange(space.size, dtype=np.int64))


def checked_aims(
    groups: Groups | Sequence[Groups],
    target: Target | Sequence[Target],
    unlabeled: str,
    unknown: str,
) -> tuple[Aim, ...]:
    """Return the aims that a user's groups and targets make."""
    every = _several(groups, Groups, "groups")
    targets = _several(target, Target, "target")
    if len(every) != len(targets):
        raise ParameterError(
            f"DLF: every groups needs its target, in the same order; found {len(every)} groups "
            f"and {len(targets)} targets"
        )
    twice = [g.name for i, g in enumerate(every) if g.name in [o.name for o in every[:i]]]
    if twice:
        raise ParameterError(f"DLF: the groups {twice[0]!r} are given twice")
    aims = []
    for one, wanted in zip(every, targets, strict=True):
        if one.space.size > MOST_GROUPS:
            raise ParameterError(
                f"DLF: {one.name!r} has {one.space.size} groups, and at most {MOST_GROUPS} can be "
                "trained for: give the attributes one by one, groups=[a, b]"
            )
        try:
            fitting = wanted.for_groups(one)
        except InputError as error:
            raise InputError(f"DLF: groups {one.name!r}: {error}") from None
        aim = Aim(one, fitting, unlabeled, unknown)
        if not aim._counted().any():
            raise ParameterError(
                f"DLF: {one.name!r} has no known level, so unknown='drop' leaves nothing"
            )
        aims.append(aim)
    return tuple(aims)


def _several(given: object, kind: type[_Kind], name: str) -> list[_Kind]:
    items = [given] if isinstance(given, kind) else given
    if not (isinstance(items, list | tuple) and items and all(isinstance(i, kind) for i in items)):
        raise ParameterError(
            f"DLF: {name} must be a {kind.__name__} or a list of them; found {given!r}"
        )
    return list(items)
