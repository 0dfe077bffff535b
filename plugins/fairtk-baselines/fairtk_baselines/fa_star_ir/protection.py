"""Which levels of the documents are protected, and the minimum shares asked for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtk.divergence import SparseRows
from fairtk.errors import InputError, ParameterError
from fairtk.frames import IntArray, ObjectArray
from fairtk.groups import Groups, Level, Target
from fairtk_baselines.levels import checked_groups, levels_of, number_of_known
from fairtk_baselines.settings import share

Share = float | dict[Level, float] | Target
"""A minimum share: of all protected documents, of each level, or each query's own."""


@dataclass(frozen=True)
class Protection:
    """What FA*IR protects."""

    groups: Groups
    p: Share
    levels: tuple[Level, ...] | None  # None: in each query all known but the most exposed one

    @classmethod
    def of(cls, groups: Any, p: Any, protected: Any, where: str) -> Protection:
        """Return checked settings.

        Raises:
            InputError: there is no such level, or fewer than two known ones.
            ParameterError: a share is out of range, or levels are given twice.
        """
        groups = checked_groups(groups, where)
        levels = None if protected is None else _known_levels(groups, protected, where, "protected")
        if isinstance(p, Target):
            p = p.for_groups(groups)
        elif isinstance(p, Mapping):
            if levels is not None:
                raise ParameterError(
                    f"{where}: shares by level say what is protected; give protected=None with them"
                )
            levels = _known_levels(groups, list(p), where, "p")
            p = {level: share(f"p[{level!r}]", p[level], where) for level in levels}
            if (total := math.fsum(p.values())) > 1 + 1e-9:
                raise ParameterError(
                    f"{where}: the shares in p must be at most 1 in sum; found {total:g}"
                )
        else:
            p = share("p", p, where)
        known = number_of_known(groups)
        if levels is None and known < 2:
            raise InputError(
                f"{where}: {groups.name!r} has {known} known level{'s' * (known != 1)}; every "
                "level but the one with the most exposure is protected, so at least two are needed"
            )
        return cls(groups, p, levels)

    @property
    def cells(self) -> IntArray | None:
        """The numbers of the protected levels."""
        return None if self.levels is None else _cells(self.groups, self.levels)

    @property
    def number(self) -> float:
        """The share of all protected documents; NaN: `p` is by level."""
        return self.p if isinstance(self.p, float) else math.nan

    def shares(self, qids: ObjectArray) -> SparseRows | None:
        """Return the shares of the levels in each query, empty where there is no target.

        A target's rows sum to 1, with the unknown level. None: `p` is a number.
        """
        if isinstance(self.p, Target):
            return self.p.for_qids(qids).expanded().normalized()
        if isinstance(self.p, float):
            return None
        n, cell = len(qids), _cells(self.groups, self.p)
        row, weight = np.repeat(np.arange(n), len(cell)), np.tile(list(self.p.values()), n)
        return SparseRows.collect(row, np.tile(cell, n), weight, n, self.groups.space.size)


def _cells(groups: Groups, levels: Any) -> IntArray:
    return np.array([groups.space.cell(level) for level in levels], dtype=np.int64)


def _known_levels(groups: Groups, given: Any, where: str, name: str) -> tuple[Level, ...]:
    levels = levels_of(groups, given, where, name)
    known = groups.space.known(_cells(groups, levels))
    if not known.all():
        raise ParameterError(
            f"{where}: {levels[int(np.argmin(known))]!r} in {name} stands for documents whose "
            "group is not known and cannot be protected"
        )
    return levels
