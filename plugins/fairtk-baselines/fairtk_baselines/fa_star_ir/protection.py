"""Which levels of the documents are protected, and the minimum shares asked for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtk.divergence import SparseRows
from fairtk.errors import InputError, ParameterError, listed
from fairtk.frames import IntArray, ObjectArray
from fairtk.groups import Groups, Target
from fairtk.groups.levels import Level
from fairtk_baselines.fa_star_ir.significance import check_share

Share = float | dict[Level, float] | Target
"""A minimum share: of all protected documents, of each level, or each query's own."""


@dataclass(frozen=True)
class Protection:
    """What FA*IR protects.

    Attributes:
        groups: the groups of the documents.
        p: a number, shares by level, or a target over the levels of `groups`.
        levels: the protected levels; None: in each query all known levels but the one with the
            most exposure.
    """

    groups: Groups
    p: Share
    levels: tuple[Level, ...] | None

    @classmethod
    def of(cls, groups: Any, p: Any, protected: Any, where: str) -> Protection:
        """Return checked settings.

        Raises:
            InputError: there is no such level, or fewer than two known ones.
            ParameterError: a share is out of range, or levels are given twice.
        """
        if not isinstance(groups, Groups):
            raise ParameterError(f"{where}: groups must be Groups; found {type(groups).__name__}")
        space = groups.space
        known = math.prod(int(space.known_levels(place).sum()) for place in range(len(space.names)))
        levels = None if protected is None else _levels(groups, protected, where)
        if isinstance(p, Target):
            p = p.for_groups(groups)
        elif isinstance(p, Mapping):
            if levels is not None:
                raise ParameterError(
                    f"{where}: shares by level say what is protected; give protected=None with them"
                )
            levels = _levels(groups, list(p), where, "p")
            p = _shares(p, groups, where)
        else:
            p = check_share("p", p, where)
        if levels is None and known < 2:
            raise InputError(
                f"{where}: {groups.name!r} has {known} known level{'s' * (known != 1)}; every "
                "level but the one with the most exposure is protected, so at least two are needed"
            )
        return cls(groups, p, levels)

    @property
    def cells(self) -> IntArray | None:
        """The numbers of the protected levels."""
        if self.levels is None:
            return None
        return np.array([self.groups.space.cell(level) for level in self.levels], dtype=np.int64)

    @property
    def number(self) -> float:
        """The share of all protected documents; NaN: `p` is by level."""
        return self.p if isinstance(self.p, float) else math.nan

    def shares(self, qids: ObjectArray) -> SparseRows | None:
        """Return the shares of the levels in each query, empty where there is no target.

        A target's rows sum to 1, with the unknown level. None: `p` is a number.

        Args:
            qids: the queries; shape (n_queries,).
        """
        size = self.groups.space.size
        if isinstance(self.p, Target):
            return self.p.for_qids(qids).expanded().normalized()
        if isinstance(self.p, dict):
            cell = np.array([self.groups.space.cell(level) for level in self.p], dtype=np.int64)
            share = np.array(list(self.p.values()))
            return SparseRows.collect(
                np.repeat(np.arange(len(qids)), len(cell)),
                np.tile(cell, len(qids)),
                np.tile(share, len(qids)),
                len(qids),
                size,
            )
        return None


def _levels(
    groups: Groups, protected: Any, where: str, name: str = "protected"
) -> tuple[Level, ...]:
    space = groups.space
    # a tuple is one level of crossed attributes; whatever else holds several is a list of levels
    one = isinstance(protected, str) or (space.crossed and isinstance(protected, tuple))
    several = [protected] if one or not isinstance(protected, Iterable) else list(protected)
    if not several:
        raise ParameterError(f"{where}: {name} must name at least one level; found none")
    cells = []
    for level in several:
        try:
            cells.append(space.cell(level))
        except (InputError, TypeError) as error:
            raise InputError(f"{where}: {name} has the level {level!r}: {error}") from None
    unknown = [level for level, cell in zip(several, cells, strict=True)
               if not space.known(np.array([cell]))[0]]  # fmt: skip
    if unknown:
        raise ParameterError(
            f"{where}: {unknown[0]!r} in {name} stands for documents whose group is not known and "
            "cannot be protected"
        )
    twice = [level for i, level in enumerate(several) if cells[i] in cells[:i]]
    if twice:
        raise ParameterError(f"{where}: {name} names {listed(twice)} twice")
    return tuple(space.label(cell) for cell in sorted(cells))


def _shares(p: Mapping[Any, Any], groups: Groups, where: str) -> dict[Level, float]:
    given = {level: check_share(f"p[{level!r}]", share, where) for level, share in p.items()}
    total = math.fsum(given.values())
    if total > 1 + 1e-9:
        raise ParameterError(f"{where}: the shares in p must be at most 1 in sum; found {total:g}")
    return dict(sorted(given.items(), key=lambda item: groups.space.cell(item[0])))
