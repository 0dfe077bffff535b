"""The protected group of each document of a run, and the minimum shares of groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import TREC, attention, sum_by_index
from fairtk.frames import BoolArray, FloatArray, IntArray, ObjectArray, Run
from fairtk.groups import Groups, Level, Target, document_attention, group_exposure
from fairtk_baselines.levels import checked_groups, levels_of, number_of_known, shown

_HALF = 0.5 - 1e-12


@dataclass(frozen=True)
class Protection:
    """The protected groups of FA*IR."""

    groups: Groups
    p: float | dict[Level, float] | Target  # minimum shares: of all levels, by level, or by query
    levels: tuple[Level, ...] | None  # `None` for all known levels except the most exposed

    @classmethod
    def of(cls, groups: Any, p: Any, protected: Any, where: str) -> Protection:
        """Return checked settings."""
        groups = checked_groups(groups, where)
        levels = None if protected is None else _known_levels(groups, protected, where, "protected")
        if isinstance(p, Target):
            p = p.for_groups(groups)
        elif isinstance(p, Mapping):
            if levels is not None:
                raise ParameterError(f"{where}: protected must be None if p has shares by level")
            levels = _known_levels(groups, list(p), where, "p")
            p = {level: checks.share(f"p[{level!r}]", p[level], where) for level in levels}
            if (whole := math.fsum(p.values())) > 1 + 1e-9:
                raise ParameterError(
                    f"{where}: the shares in p must be at most 1 in sum, got {whole:g}"
                )
        else:
            p = checks.share("p", p, where)
        known = number_of_known(groups)
        if levels is None and known < 2:
            raise InputError(
                f"{where}: {groups.name!r} has {known} known level{'s' * (known != 1)}; every "
                "level but the one with the most exposure is protected, so at least two are needed"
            )
        return cls(groups, p, levels)

    def shares(self, qids: ObjectArray) -> sparse.csr_array | None:
        """Return the levels' shares in each query, `None` if `p` is a number."""
        if isinstance(self.p, Target):
            return self.p.for_qids(qids).expanded().normalized().matrix
        if isinstance(self.p, float):
            return None
        n, cell = len(qids), _cells(self.groups, self.p)
        row, weight = np.repeat(np.arange(n), len(cell)), np.tile(list(self.p.values()), n)
        entries, shape = (weight, (row, np.tile(cell, n))), (n, self.groups.space.size)
        return sparse.csr_array(sparse.coo_array(entries, shape=shape))


@dataclass(frozen=True)
class Counted:
    """The protected groups of a run, per query."""

    group: IntArray  # the group of each row of the run, from 1; 0 if not protected
    p: list[tuple[float, ...] | None]  # the minimum shares of the groups; `None` without a target
    names: Sequence[tuple[str, ...]]


def count_together(run: Run, protection: Protection, k: int) -> Counted:
    """Return one group per query: the documents of all protected levels.

    A document counts if at least half of its memberships, including the unknown level, are in
    protected levels. A document without memberships does not count.
    """
    scene = _Scene.of(run, protection, k)
    n = len(run.qids)
    p: list[tuple[float, ...] | None]
    if isinstance(protection.p, float):
        p = [(protection.p,)] * n
    else:
        target = scene.target_shares()
        target_sum = sum_by_index(_rows(target), target.data, n)
        sums = zip(target_sum.tolist(), scene.defined, strict=True)
        p = [(min(share, 1.0),) if has_target else None for share, has_target in sums]
    if protection.levels is None:
        names = [(f"all but {shown(scene.groups.levels[int(cell)])}",) for cell in scene.top]
    else:
        names = [(_joined(list(map(shown, protection.levels))),)] * n
    return Counted(scene.counts(len(run.doc)).astype(np.int64), p, names)


def count_apart(run: Run, protection: Protection, k: int, merge_below: float) -> Counted:
    """Return one group per protected level of a query, and one for all levels with a small share.

    A document that counts (see `count_together`) counts for the level of its largest membership, or
    if several are equal, for the one with the smallest share in the query.
    """
    scene = _Scene.of(run, protection, k)
    target = scene.target_shares()
    row, n = _rows(target), target.shape[0]
    own = target.data >= merge_below
    n_own = np.bincount(row[own], minlength=n)
    numbers = target.copy()  # of the levels with a group of their own in each query, from 1
    numbers.data = own * (np.cumsum(own) - (np.cumsum(n_own) - n_own)[row])
    merged = sum_by_index(row, target.data * ~own, n)
    last = np.where(merged > 0, n_own + 1, 0)  # the group of all rare levels

    counts = np.flatnonzero(
        scene.protects(scene.query, scene.cell) & scene.counts(len(run.doc))[scene.item]
    )
    item, query, level = scene.item[counts], scene.query[counts], scene.cell[counts]
    share = _entries(target, query, level)
    order = np.lexsort((level, share, -np.round(scene.weight[counts], 12), item))
    first = order[np.unique(item[order], return_index=True)[1]]
    single = _entries(numbers, query[first], level[first])
    group = np.zeros(len(run.doc), dtype=np.int64)
    group[item[first]] = np.where(single > 0, single, last[query[first]])

    p: list[tuple[float, ...] | None] = []
    names: list[tuple[str, ...]] = []
    for i, (begin, end) in enumerate(itertools.pairwise(target.indptr)):
        levels = [shown(scene.groups.levels[int(cell)]) for cell in target.indices[begin:end]]
        alone = own[begin:end]
        labels = list(itertools.compress(levels, alone))
        values = target.data[begin:end][alone].tolist()
        if last[i]:
            labels.append(_joined(list(itertools.compress(levels, ~alone))))
            values.append(float(merged[i]))
        p.append(tuple(values) if scene.defined[i] else None)
        names.append(tuple(labels))
    return Counted(group, p, names)


@dataclass(frozen=True)
class _Scene:
    """The levels in a run and their minimum shares, with an entry per row and membership."""

    groups: Groups
    shares: sparse.csr_array | None  # `None` for one number for all levels
    defined: BoolArray  # whether each query has a target
    top: IntArray  # the unprotected level of each query; -1 if `cells` are protected
    cells: IntArray | None
    item: IntArray  # row of the run of each entry
    query: IntArray
    cell: IntArray
    weight: FloatArray  # its share of the document

    @classmethod
    def of(cls, run: Run, protection: Protection, k: int) -> _Scene:
        shares = protection.shares(run.qids.text)
        defined, top = np.ones(len(run.qids), dtype=bool), np.full(len(run.qids), -1)
        if shares is not None and isinstance(protection.p, Target):
            defined = np.diff(shares.indptr) > 0
        if protection.levels is None:
            cells, top = None, _most_exposed(run, protection.groups, shares, k)
        else:
            cells = _cells(protection.groups, protection.levels)
        rows = protection.groups.memberships(run.docnos, "drop").take(run.doc)
        item, weight = rows.row, rows.weight / rows.total()[rows.row]
        return cls(
            protection.groups,
            shares,
            defined,
            top,
            cells,
            item,
            run.query[item],
            rows.level,
            weight,
        )

    def protects(self, query: IntArray, cell: IntArray) -> BoolArray:
        """Return whether levels are protected in queries."""
        if self.cells is not None:
            return np.asarray(np.isin(cell, self.cells))
        return np.asarray(self.groups.space.known(cell) & (cell != self.top[query]))

    def target_shares(self) -> sparse.csr_array:
        """Return the shares of the protected levels."""
        shares = self.shares
        if shares is None:  # the transformer refuses a number where levels are apart
            raise TypeError("shares by level are needed")
        target = shares.copy()
        target.data = target.data * self.protects(_rows(target), target.indices)
        target.eliminate_zeros()
        return target

    def counts(self, n_rows: int) -> BoolArray:
        """Return whether each row of the run counts as protected."""
        inside = self.protects(self.query, self.cell)
        return np.asarray(sum_by_index(self.item[inside], self.weight[inside], n_rows) >= _HALF)


def _most_exposed(run: Run, groups: Groups, shares: sparse.csr_array | None, k: int) -> IntArray:
    """Return the known level with the most exposure in the first k ranks of each query.

    Ties, also those without any exposure, go to the level with the largest target, then to the
    first level.
    """
    memberships, space = groups.memberships(run.docnos, "drop"), groups.space
    seen = group_exposure(document_attention(run, attention(run, TREC(), k)), memberships)
    row, cell = seen.row, seen.level
    if shares is not None:
        row = np.concatenate([row, _rows(shares)])
        cell = np.concatenate([cell, shares.indices])
    known = space.known(cell)
    row, cell = row[known], cell[known]
    exposure = np.round(seen.lookup(row, cell), 12)
    target = _entries(shares, row, cell) if shares is not None else np.zeros(len(row))
    order = np.lexsort((cell, -target, -exposure, row))[::-1]
    first = sum(
        int(np.argmax(space.known_levels(place))) * stride
        for place, stride in enumerate(space.strides)
    )
    result = np.full(seen.n_rows, first, dtype=np.int64)
    result[row[order]] = cell[order]  # the last assignment of a row is the best one
    return result


def _rows(matrix: sparse.csr_array) -> IntArray:
    """Return the row of each entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _entries(matrix: sparse.csr_array, row: IntArray, cell: IntArray) -> FloatArray:
    return np.asarray(matrix[row, cell]) if len(row) else np.zeros(0)


def _cells(groups: Groups, levels: Any) -> IntArray:
    return np.array([groups.space.number(level) for level in levels], dtype=np.int64)


def _known_levels(groups: Groups, given: Any, where: str, name: str) -> tuple[Level, ...]:
    levels = levels_of(groups, given, where, name)
    known = groups.space.known(_cells(groups, levels))
    if not known.all():
        raise ParameterError(
            f"{where}: {levels[int(np.argmin(known))]!r} in {name} stands for documents whose "
            "group is not known and cannot be protected"
        )
    return levels


def _joined(levels: list[str]) -> str:
    return " + ".join(levels) if len(levels) <= 4 else f"{len(levels)} others"
