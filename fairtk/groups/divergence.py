"""Distributions over groups as sparse rows.

A "row" is one query (or one sampled ranking), a "cell" one group: a level of an attribute, or one
combination of levels of several attributes. Crossed attributes have millions of cells of which a
ranking touches hundreds, so only cells with weight are kept, and the divergences here visit the
cells of their first argument alone. Pure array arithmetic, for all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure.expected import total
from fairtk.frames.arrays import FloatArray, IntArray

_DENSE = 1 << 20  # so many sums are cheaper to keep in an array than to sort for
_MOST_KEYS = 1 << 62


class Distributions(Protocol):
    """One non-negative vector over the cells per row, stored or computed on demand.

    `SparseRows` stores it; the factored forms of `fairtk.groups` compute it, so that a target over
    millions of cells takes no memory.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_cells(self) -> int:
        """Number of cells, of which most are 0."""

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""

    def lookup(self, row: IntArray, cell: IntArray) -> FloatArray:
        """Return the weights of cells, 0 where nothing is stored; shape of `row` and `cell`."""

    def take(self, rows: IntArray) -> Distributions:
        """Return the rows at these indices; index -1 gives an empty row."""

    def expanded(self) -> SparseRows:
        """Return all weights above 0."""


@dataclass(frozen=True)
class SparseRows:
    """The weights above 0 of each row, sorted by row and cell.

    Attributes:
        row: row of each weight, non-decreasing; shape (n_entries,).
        cell: cell of each weight, increasing inside a row; shape (n_entries,).
        weight: the weights; shape (n_entries,).
        n_rows: number of rows, with or without weights.
        n_cells: number of cells.
    """

    row: IntArray
    cell: IntArray
    weight: FloatArray
    n_rows: int
    n_cells: int

    @classmethod
    def collect(
        cls, row: IntArray, cell: IntArray, weight: FloatArray, n_rows: int, n_cells: int
    ) -> SparseRows:
        """Return the sums of weights that share row and cell; sums of 0 are left out.

        Entries are in any order; shape (n_entries,) each.

        Raises:
            ParameterError: rows times cells do not fit into 62 bits.
        """
        if n_rows * n_cells >= _MOST_KEYS:
            raise ParameterError(
                f"{n_rows} rows of {n_cells} cells are too many to tell apart; cross fewer "
                "attributes"
            )
        key = row * np.int64(n_cells) + cell
        if n_rows * n_cells <= max(_DENSE, 2 * len(key)):
            sums: FloatArray = total(key, weight, n_rows * n_cells)
            keys = np.flatnonzero(sums)
            sums = sums[keys]
        else:
            order = np.argsort(key, kind="stable")
            key = key[order]
            first = np.flatnonzero(np.diff(key, prepend=-1))
            keys = key[first]
            sums = np.add.reduceat(weight[order], first) if len(first) else np.zeros(0)
            if not sums.all():
                keys, sums = keys[sums != 0], sums[sums != 0]
        # two divisions of a whole array cost more than these
        rows = keys // n_cells
        return cls(rows, keys - rows * n_cells, np.asarray(sums), n_rows, n_cells)

    @cached_property
    def key(self) -> IntArray:
        """Row and cell of each weight as one increasing number; shape (n_entries,)."""
        return self.row * np.int64(self.n_cells) + self.cell

    @cached_property
    def start(self) -> IntArray:
        """First entry of each row, and the number of entries; shape (n_rows + 1,)."""
        return np.searchsorted(self.row, np.arange(self.n_rows + 1)).astype(np.int64)

    def per_row(self, values: FloatArray) -> FloatArray:
        """Sum values of entries inside each row; shape (n_rows,)."""
        return total(self.row, values, self.n_rows)

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.per_row(self.weight)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.per_row(self.weight**2)

    def lookup(self, row: IntArray, cell: IntArray) -> FloatArray:
        """Return the weights of cells, 0 where nothing is stored; shape of `row` and `cell`."""
        if not len(self.weight):
            return np.zeros(len(row))
        wanted = row * np.int64(self.n_cells) + cell
        place = np.searchsorted(self.key, wanted)
        place[place == len(self.key)] = 0
        return np.where(self.key[place] == wanted, self.weight[place], 0.0)

    def take(self, rows: IntArray) -> SparseRows:
        """Return the rows at these indices, in this order; index -1 gives an empty row."""
        size = np.append(np.diff(self.start), 0)[rows]
        begin = np.append(self.start[:-1], 0)[rows]
        row, entry = spread(begin, size)
        return SparseRows(row, self.cell[entry], self.weight[entry], len(rows), self.n_cells)

    def expanded(self) -> SparseRows:
        """Return the rows themselves."""
        return self

    def scaled(self, factor: FloatArray | float) -> SparseRows:
        """Return each row times a factor: one for all rows, or one each."""
        factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), (self.n_rows,))
        return replace(self, weight=self.weight * factors[self.row])

    def normalized(self) -> SparseRows:
        """Return each row divided by its sum; an empty row stays empty."""
        total = self.total()
        return self.scaled(np.divide(1.0, total, out=np.zeros_like(total), where=total > 0))

    def dense(self) -> FloatArray:
        """Return the rows as a plain array; shape (n_rows, n_cells). For few cells only."""
        result = np.zeros((self.n_rows, self.n_cells))
        result[self.row, self.cell] = self.weight
        return result


def spread(begin: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """Return the run and the position of each item of consecutive runs.

    Runs are given by the position of their first item and by their number of items.
    """
    owner = np.repeat(np.arange(len(size), dtype=np.int64), size)
    ahead = np.cumsum(size) - size
    return owner, np.arange(len(owner), dtype=np.int64) + (begin - ahead)[owner]
