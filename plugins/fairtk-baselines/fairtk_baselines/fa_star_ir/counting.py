"""Which protected group each document of a run counts for, and what is asked for that group."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from fairtk.divergence import SparseRows, spread
from fairtk.exposure import TREC, attention, total
from fairtk.frames import BoolArray, FloatArray, IntArray, Rankings
from fairtk.groups import Level, LevelSpace, Memberships, group_exposure, shown_documents
from fairtk_baselines import levels as naming
from fairtk_baselines.fa_star_ir.protection import Protection

_HALF = 0.5 - 1e-12


@dataclass(frozen=True)
class Counted:
    """The protected groups of a run, per query."""

    group: IntArray  # that each row of the run counts for, from 1; 0: none
    p: list[tuple[float, ...] | None]  # the minimum shares of the groups; None: no target
    names: list[tuple[str, ...]]


@dataclass(frozen=True)
class _Scene:
    """Levels in a run, and what is asked for them; one entry per row and membership."""

    space: LevelSpace
    shares: SparseRows | None  # None: a number for all levels
    top: IntArray  # the level that is not protected in each query; -1: `cells` are protected
    cells: IntArray | None
    item: IntArray  # row of the run of each entry
    query: IntArray
    cell: IntArray
    weight: FloatArray  # its share of the document

    def protects(self, query: IntArray, cell: IntArray) -> BoolArray:
        """Return whether levels are protected in queries."""
        if self.cells is not None:
            return np.asarray(np.isin(cell, self.cells))
        return np.asarray(self.space.known(cell) & (cell != self.top[query]))


def count_together(run: Rankings, protection: Protection, k: int) -> Counted:
    """Return one group per query: the documents of all protected levels.

    A document counts if at least half of it belongs to protected levels, the unknown level in the
    whole of it; a document without a row does not. Where no level is named, the exposure of the
    first k ranks decides which one is not protected.
    """
    scene = _scene(run, protection, k)
    group = _protected_rows(scene, len(run.doc)).astype(np.int64)
    n = len(run.qids)
    p: list[tuple[float, ...] | None]
    if scene.shares is None:
        p = [(protection.number,)] * n
    else:
        inside = scene.protects(scene.shares.row, scene.shares.cell)
        asked = scene.shares.per_row(scene.shares.weight * inside)
        defined = _defined(scene.shares, protection)
        p = [(min(float(share), 1.0),) if there else None
             for share, there in zip(asked, defined, strict=True)]  # fmt: skip
    names: list[tuple[str, ...]]
    if protection.levels is None:
        names = [(f"all but {naming.shown(scene.space.label(int(cell)))}",) for cell in scene.top]
    else:
        names = [(_joined(protection.levels),)] * n
    return Counted(group, p, names)


def count_apart(run: Rankings, protection: Protection, k: int, merge_below: float) -> Counted:
    """Return a group per protected level of a query, and one for all rare levels.

    A document that counts (see `count_together`) counts for the level that it belongs to most; of
    several, for the one with the smallest share in the query. Levels whose share is below
    `merge_below` make one group together.
    """
    scene = _scene(run, protection, k)
    shares = scene.shares
    if shares is None:  # the transformer has turned the number into shares by level
        raise TypeError("shares by level are needed")
    kept = scene.protects(shares.row, shares.cell)
    row, cell, share = shares.row[kept], shares.cell[kept], shares.weight[kept]
    own = share >= merge_below
    n = len(run.qids)
    n_own = np.bincount(row[own], minlength=n)
    slot = np.arange(int(own.sum())) - (np.cumsum(n_own) - n_own)[row[own]] + 1
    merged = total(row[~own], share[~own], n)
    last = np.where(merged > 0, n_own + 1, 0)  # the group of all rare levels

    counts = np.flatnonzero(
        scene.protects(scene.query, scene.cell) & _protected_rows(scene, len(run.doc))[scene.item]
    )
    item, asker, level = scene.item[counts], scene.query[counts], scene.cell[counts]
    asked = shares.lookup(asker, level)
    order = np.lexsort((level, asked, -np.round(scene.weight[counts], 12), item))
    first = order[np.append(True, np.diff(item[order]) > 0)] if len(order) else order
    key = row[own] * np.int64(scene.space.size) + cell[own]
    wanted = asker[first] * np.int64(scene.space.size) + level[first]
    place = np.searchsorted(key, wanted)
    found = np.append(key, -1)[place] == wanted
    group = np.zeros(len(run.doc), dtype=np.int64)
    group[item[first]] = np.where(found, np.append(slot, 0)[place], last[asker[first]])

    defined = _defined(shares, protection)
    p: list[tuple[float, ...] | None] = []
    names: list[tuple[str, ...]] = []
    bounds = np.searchsorted(row, np.arange(n + 1))
    for query, (begin, end) in enumerate(itertools.pairwise(bounds)):
        levels = [scene.space.label(int(c)) for c in cell[begin:end]]
        alone = own[begin:end]
        labels = [
            naming.shown(level) for level, is_own in zip(levels, alone, strict=True) if is_own
        ]
        values = share[begin:end][alone].tolist()
        if last[query]:
            rare = [level for level, single in zip(levels, alone, strict=True) if not single]
            labels.append(_joined(rare))
            values.append(float(merged[query]))
        p.append(tuple(values) if defined[query] else None)
        names.append(tuple(labels))
    return Counted(group, p, names)


def _scene(run: Rankings, protection: Protection, k: int) -> _Scene:
    memberships = protection.groups.memberships(run.docnos, "drop")
    shares = protection.shares(run.qids)
    space = protection.groups.space
    cells = protection.cells
    top = np.full(len(run.qids), -1, dtype=np.int64)
    if cells is None:
        top = _most_exposed(run, memberships, space, shares, k)
    owner = np.repeat(np.arange(len(memberships.size)), memberships.size)
    whole = total(owner, memberships.weight, len(memberships.size))
    item, entry = spread(memberships.start[run.doc], memberships.size[run.doc])
    weight = memberships.weight[entry] / whole[run.doc[item]]
    return _Scene(space, shares, top, cells, item, run.query[item], memberships.cell[entry], weight)


def _protected_rows(scene: _Scene, n_rows: int) -> BoolArray:
    inside = scene.protects(scene.query, scene.cell)
    return np.asarray(total(scene.item[inside], scene.weight[inside], n_rows) >= _HALF)


def _defined(shares: SparseRows, protection: Protection) -> BoolArray:
    if isinstance(protection.p, dict):
        return np.ones(shares.n_rows, dtype=bool)
    return np.asarray(shares.total() > 0)


def _most_exposed(
    run: Rankings,
    memberships: Memberships,
    space: LevelSpace,
    shares: SparseRows | None,
    k: int,
) -> IntArray:
    """Return the known level with the most exposure in the first k ranks of each query.

    Exposure is TREC Fair Ranking 2022's, 1 / log2(max(rank, 2)). Of several, or where no document
    shows a level: the one that the target gives most; then the first.
    """
    weight = attention(run, TREC(), k)
    seen = group_exposure(shown_documents(run, weight), memberships)
    parts = [seen] if shares is None else [seen, shares]
    row = np.concatenate([part.row for part in parts])
    cell = np.concatenate([part.cell for part in parts])
    every = SparseRows.collect(row, cell, np.ones(len(row)), seen.n_rows, space.size)
    known = space.known(every.cell)
    row, cell = every.row[known], every.cell[known]
    exposure = np.round(seen.lookup(row, cell), 12)
    asked = shares.lookup(row, cell) if shares is not None else np.zeros(len(row))
    order = np.lexsort((cell, -asked, -exposure, row))
    first = sum(
        int(np.argmax(space.known_levels(place))) * stride
        for place, stride in enumerate(space.strides)
    )
    result = np.full(seen.n_rows, first, dtype=np.int64)
    row, cell = row[order][::-1], cell[order][::-1]
    result[row] = cell  # the last assignment of a row stays: its first in the order
    return result


def _joined(levels: list[Level] | tuple[Level, ...]) -> str:
    if len(levels) > 4:
        return f"{len(levels)} others"
    return " + ".join(naming.shown(level) for level in levels)
