"""Targets over millions of cells, kept as factors and computed where they are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairtk.divergence import Distributions, SparseRows, spread
from fairtk.errors import InputError
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.groups.levels import LevelSpace

MOST_CELLS = 5_000_000
"""So many weights may be written out at once."""

_FEW_CELLS = 1 << 12


@dataclass(frozen=True)
class ProductRows:
    """The same product of one distribution per attribute in every row."""

    space: LevelSpace  # the attributes
    shares: tuple[FloatArray, ...]  # the weights of each attribute's levels
    present: BoolArray  # whether each row has the product, or is empty; shape (n_rows,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.present)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.space.size

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return np.where(self.present, math.prod(float(s.sum()) for s in self.shares), 0.0)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return np.where(self.present, math.prod(float((s**2).sum()) for s in self.shares), 0.0)

    def lookup(self, row: IntArray, cell: IntArray) -> FloatArray:
        """Return the weights of cells; shape of `row` and `cell`."""
        result = self.present[row].astype(np.float64)
        for place, share in enumerate(self.shares):
            result *= share[self.space.codes(cell, place)]
        return result

    def take(self, rows: IntArray) -> ProductRows:
        """Return the rows at these indices; index -1 gives an empty row."""
        return replace(self, present=np.append(self.present, False)[rows])

    def expanded(self) -> SparseRows:
        """Return all weights above 0; too many are an `InputError`."""
        used = [np.flatnonzero(s) for s in self.shares]
        count = math.prod(len(u) for u in used) * int(self.present.sum())
        check_size(count, self.space)
        cell, weight = np.zeros(1, dtype=np.int64), np.ones(1)
        for levels, share, stride in zip(used, self.shares, self.space.strides, strict=True):
            cell = (cell[:, None] + levels * stride).ravel()
            weight = (weight[:, None] * share[levels]).ravel()
        rows = np.flatnonzero(self.present)
        return SparseRows(
            np.repeat(rows, len(cell)),
            np.tile(cell, len(rows)),
            np.tile(weight, len(rows)),
            self.n_rows,
            self.n_cells,
        )


@dataclass(frozen=True)
class BackgroundRows:
    """Distributions of relevant documents, averaged half and half with backgrounds.

    The cells fall into cases: which of the averaged attributes are known. A case keeps its mass c;
    half of it stays where the relevant documents are, half goes to c x (product of the backgrounds
    of the known attributes), spread over the attributes that are not averaged (the tail) as the
    relevant documents of the same averaged levels are, or, where there are none, as all relevant
    documents are. The first kind of cell is stored, the second computed (TREC Fair Ranking 2022).
    """

    space: LevelSpace  # all attributes
    averaged: tuple[int, ...]  # the places of the averaged ones
    shares: tuple[FloatArray, ...]  # background of each averaged attribute, 1 for unknown
    stored: SparseRows  # final weights of cells whose averaged levels occur in relevant documents
    seen: SparseRows  # mass of relevant documents by averaged levels, before averaging
    tail: SparseRows  # distribution of relevant documents over the levels of the tail
    mass: FloatArray  # of each case, (n_rows, n_cases); bit i: attribute i is known

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stored.n_rows

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.space.size

    @cached_property
    def tail_places(self) -> tuple[int, ...]:
        """The places of the attributes that are not averaged."""
        return tuple(i for i in range(len(self.space.names)) if i not in self.averaged)

    @cached_property
    def head_space(self) -> LevelSpace:
        """The space of the averaged attributes."""
        return self.space.part(self.averaged)

    def _half(self, row: IntArray, head: IntArray) -> FloatArray:
        """Return what the backgrounds give to averaged levels, were they not seen."""
        return half_of_background(self.head_space, self.shares, self.mass, row, head)

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.stored.total() + self._unseen(1)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.stored.square() + self._unseen(2) * self.tail.square()

    def _unseen(self, power: int) -> FloatArray:
        """Return the sum over averaged levels that are not seen of what backgrounds give them."""
        everywhere = np.zeros(self.n_rows)
        for case in range(1, self.mass.shape[1]):
            known = [i for i in range(len(self.averaged)) if case >> i & 1]
            shares = [self.shares[i] * self.head_space.known_levels(i) for i in known]
            norm = math.prod(float((s**power).sum()) for s in shares)
            everywhere += (0.5 * self.mass[:, case]) ** power * norm
        seen = self._half(self.seen.row, self.seen.cell) ** power
        return np.maximum(everywhere - self.seen.per_row(seen), 0.0)

    def lookup(self, row: IntArray, cell: IntArray) -> FloatArray:
        """Return the weights of cells; shape of `row` and `cell`."""
        result = self.stored.lookup(row, cell)
        left = np.flatnonzero(result == 0)
        row, cell = row[left], cell[left]
        head = self.space.project(cell, self.averaged)
        unseen = self.seen.lookup(row, head) == 0
        left, row, cell, head = left[unseen], row[unseen], cell[unseen], head[unseen]
        tail = self.tail.lookup(row, self.space.project(cell, self.tail_places))
        result[left] = self._half(row, head) * tail
        return result

    def take(self, rows: IntArray) -> BackgroundRows:
        """Return the rows at these indices; index -1 gives an empty row."""
        mass = np.vstack([self.mass, np.zeros((1, self.mass.shape[1]))])[rows]
        stored, seen, tail = (part.take(rows) for part in (self.stored, self.seen, self.tail))
        return replace(self, stored=stored, seen=seen, tail=tail, mass=mass)

    def expanded(self) -> SparseRows:
        """Return all weights above 0; too many are an `InputError`."""
        heads = np.arange(self.head_space.size)
        size = np.diff(self.tail.start)
        check_size(len(heads) * int(size.sum()), self.space)
        # every averaged level of every row ...
        row = np.repeat(np.arange(self.n_rows), len(heads))
        head = np.tile(heads, self.n_rows)
        half = self._half(row, head)
        used = (half > 0) & (self.seen.lookup(row, head) == 0)
        row, head, half = row[used], head[used], half[used]
        # ... with every tail of its row
        owner, entry = spread(self.tail.start[row], size[row])
        cell = self._join(head[owner], self.tail.cell[entry])
        weight = half[owner] * self.tail.weight[entry]
        return SparseRows.collect(
            np.concatenate([self.stored.row, row[owner]]),
            np.concatenate([self.stored.cell, cell]),
            np.concatenate([self.stored.weight, weight]),
            self.n_rows,
            self.n_cells,
        )

    def _join(self, head: IntArray, tail: IntArray) -> IntArray:
        result = np.zeros(len(head), dtype=np.int64)
        for places, part in ((self.averaged, head), (self.tail_places, tail)):
            space = self.space.part(places)
            for i, place in enumerate(places):
                result += space.codes(part, i) * self.space.strides[place]
        return result


def half_of_background(
    head: LevelSpace,
    shares: tuple[FloatArray, ...],
    mass: FloatArray,
    row: IntArray,
    cell: IntArray,
) -> FloatArray:
    """Return half of a case's mass times the backgrounds of its known attributes; 0 if none is.

    The cells are those of `head`, the averaged attributes; see `BackgroundRows` for the others.
    """
    case = np.zeros(len(cell), dtype=np.int64)
    result = np.full(len(cell), 0.5)
    for place, share in enumerate(shares):
        level = head.codes(cell, place)
        case |= (level != head.unknown[place]).astype(np.int64) << place
        result *= share[level]
    return result * np.where(case > 0, mass[row, case], 0.0)


def written_out(rows: ProductRows | BackgroundRows) -> Distributions:
    """Return distributions over few cells with all weights written out, others as they are."""
    return rows.expanded() if rows.space.size <= _FEW_CELLS else rows


def check_size(count: int, space: LevelSpace) -> None:
    """Raise an `InputError` if so many weights are too many to write out."""
    if count > MOST_CELLS:
        raise InputError(
            f"the target over {list(space.names)} has about {count} weights above 0; write it "
            "out for fewer queries (Target.for_qids) or attributes (Target.marginal)"
        )


def content(rows: Distributions) -> list[Any]:
    """Return what a digest of distributions is made of."""
    if isinstance(rows, SparseRows):
        return ["rows", rows.row, rows.cell, rows.weight, rows.n_rows]
    if isinstance(rows, ProductRows):
        return ["product", list(rows.shares), rows.present]
    if isinstance(rows, BackgroundRows):
        parts = [content(part) for part in (rows.stored, rows.seen, rows.tail)]
        return ["background", *parts, list(rows.shares), rows.mass]
    raise TypeError(f"unknown distributions: {type(rows).__name__}")
