"""Rows of weights over the levels of groups: stored (`SparseRows`), or computed (`FactoredRows`).

There can be millions of levels, so only weights above 0 are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairtk.errors import InputError
from fairtk.exposure import sum_by_index
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.groups.levels import LevelSpace


@dataclass(frozen=True, eq=False)
class SparseRows:
    """The weights above 0 of each row.

    Attributes:
        matrix: a ``scipy.sparse.csr_array`` of rows by levels, with increasing levels in a row.
    """

    matrix: Any

    @classmethod
    def collect(
        cls, row: IntArray, level: IntArray, weight: FloatArray, n_rows: int, n_levels: int
    ) -> SparseRows:
        """Return the nonzero sums of weights by row and level; shape (n_entries,), in any order."""
        from scipy import sparse

        entries = (np.asarray(weight, dtype=np.float64), (row, level))
        matrix = sparse.coo_array(entries, shape=(n_rows, n_levels)).tocsr()
        matrix.eliminate_zeros()
        return SparseRows(matrix)

    @classmethod
    def of_sizes(
        cls, size: IntArray, level: IntArray, weight: FloatArray, n_levels: int
    ) -> SparseRows:
        """Return rows of sorted entries, from the number of entries in each row."""
        from scipy import sparse

        start = np.concatenate([[0], np.cumsum(size)])
        return SparseRows(sparse.csr_array((weight, level, start), shape=(len(size), n_levels)))

    @classmethod
    def of_dense(cls, rows: FloatArray) -> SparseRows:
        """Return the nonzero weights of an array; shape (n_rows, n_levels)."""
        from scipy import sparse

        return SparseRows(sparse.csr_array(rows))

    @property
    def n_rows(self) -> int:
        """Number of rows, with or without weights."""
        return int(self.matrix.shape[0])

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return int(self.matrix.shape[1])

    @cached_property
    def start(self) -> IntArray:
        """First entry of each row, then the number of entries; shape (n_rows + 1,)."""
        return np.asarray(self.matrix.indptr, dtype=np.int64)

    @cached_property
    def size(self) -> IntArray:
        """Number of entries of each row; shape (n_rows,)."""
        return np.diff(self.start)

    @cached_property
    def row(self) -> IntArray:
        """Row of each entry, non-decreasing; shape (n_entries,)."""
        return np.repeat(np.arange(self.n_rows), self.size)

    @cached_property
    def level(self) -> IntArray:
        """Level of each entry, increasing inside a row; shape (n_entries,)."""
        return np.asarray(self.matrix.indices, dtype=np.int64)

    @property
    def weight(self) -> FloatArray:
        """Weight of each entry; shape (n_entries,)."""
        return np.asarray(self.matrix.data)

    def weighted(self, weight: FloatArray) -> SparseRows:
        """Return the same entries with other weights; shape (n_entries,)."""
        matrix = self.matrix
        entries = (weight, matrix.indices, matrix.indptr)
        return SparseRows(type(matrix)(entries, shape=matrix.shape))

    def per_row(self, values: FloatArray) -> FloatArray:
        """Return the sum of entries in each row; shape (n_rows,)."""
        return np.bincount(self.row, values, self.n_rows).astype(np.float64)

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.per_row(self.weight)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.per_row(self.weight**2)

    def lookup(self, row: IntArray, level: IntArray) -> FloatArray:
        """Return the weights of levels, 0 if not stored; shape of `row` and `level`."""
        return np.asarray(self.matrix[row, level]) if len(row) else np.zeros(0)

    def take(self, rows: IntArray) -> SparseRows:
        """Return the rows at these indices, in this order; index -1 gives an empty row."""
        present = rows >= 0
        part = self.matrix[rows[present]]
        size = np.zeros(len(rows), dtype=np.int64)
        size[present] = np.diff(part.indptr)
        return SparseRows.of_sizes(size, part.indices, part.data, self.n_levels)

    def expanded(self) -> SparseRows:
        """Return the rows; see `FactoredRows.expanded`."""
        return self

    def normalized(self) -> SparseRows:
        """Return each row divided by its sum; an empty row stays empty."""
        total = self.total()
        factor = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return self.weighted(self.weight * factor[self.row])

    def content(self) -> list[Any]:
        """Return the values for a digest."""
        return ["rows", self.row, self.level, self.weight, self.n_rows]

    def dense(self) -> FloatArray:
        """Return the rows as an array, for few levels; shape (n_rows, n_levels)."""
        return np.asarray(self.matrix.toarray())


def expand_runs(begin: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """Return the block and the position of each item, for blocks given by first item and size."""
    owner = np.repeat(np.arange(len(size), dtype=np.int64), size)
    ahead = np.cumsum(size) - size
    return owner, np.arange(len(owner), dtype=np.int64) + (begin - ahead)[owner]


def case_masses(space: LevelSpace, rows: SparseRows) -> FloatArray:
    """Return the sum of each row by case, the set of known attributes; (n_rows, n_cases)."""
    n_cases = 1 << len(space.names)
    cell = rows.row * n_cases + space.cases(rows.level)
    return sum_by_index(cell, rows.weight, rows.n_rows * n_cases).reshape(rows.n_rows, n_cases)


MOST_LEVELS = 5_000_000
"""The maximum number of weights to list."""


@dataclass(frozen=True)
class FactoredRows:
    """Rows over millions of levels: some weights are stored, the others are products.

    The attributes are split into heads and a tail. If the heads' levels are in `seen`, the weights
    are in `stored`. Otherwise a weight is the product of one share per head, the weight of the
    tail, and a scale, which may depend on the case (which heads are known).

    A uniform target, or one of independent attributes, has only heads, and `seen` is empty.

    A target from qrels and backgrounds (TREC Fair Ranking 2022) has a head per attribute with a
    background. Half of the mass of a case stays with the relevant documents. The other half follows
    the product of the backgrounds of the known heads; over the tail, it is spread like the relevant
    documents with the same heads (`stored`) or, if no document has these, like all relevant
    documents (the products).
    """

    space: LevelSpace  # all attributes
    heads: tuple[int, ...]  # the indices of the heads
    shares: tuple[FloatArray, ...]  # the shares of each head's levels
    scale: FloatArray  # per case, shape (n_rows, n_cases), bit i for head i; or (n_rows, 1)
    seen: SparseRows  # over the heads' levels; above 0 if the weights are stored
    stored: SparseRows  # over all levels
    tail: SparseRows  # over the levels of the other attributes

    @classmethod
    def product(cls, space: LevelSpace, shares: Sequence[FloatArray]) -> FactoredRows:
        """Return one row, the product of one distribution per attribute."""
        indices = tuple(range(len(shares)))
        none = SparseRows.of_sizes(np.zeros(1, int), np.zeros(0, int), np.zeros(0), space.size)
        one = np.ones((1, 1))
        return cls(space, indices, tuple(shares), one, none, none, SparseRows.of_dense(one))

    @property
    def is_product(self) -> bool:
        """Whether all weights are products."""
        return bool(self.scale.shape[1] == 1)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stored.n_rows

    @cached_property
    def head_space(self) -> LevelSpace:
        """The space of the heads."""
        return self.space.part(self.heads)

    @cached_property
    def tail_places(self) -> tuple[int, ...]:
        """The indices of the other attributes."""
        return tuple(i for i in range(len(self.space.names)) if i not in self.heads)

    def products(self, row: IntArray, head: IntArray) -> FloatArray:
        """Return the products of levels of the heads, without the tail."""
        space, result = self.head_space, np.ones(len(head))
        for index, share in enumerate(self.shares):
            result *= share[space.codes(head, index)]
        result *= self.scale[row, 0 if self.is_product else space.cases(head)]
        return result

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.stored.total() + self._unseen(1)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.stored.square() + self._unseen(2) * self.tail.square()

    def _unseen(self, power: int) -> FloatArray:
        """Return the sum of `products` to a power over the heads' levels that are not in `seen`."""
        everywhere = np.zeros(self.n_rows)
        for case, scale in enumerate(self.scale.T):
            norm = scale**power
            for index, share in enumerate(self.shares):
                known = self.head_space.known_levels(index)
                among = 1.0 if self.is_product else known if case >> index & 1 else 1 - known
                norm = norm * ((share * among) ** power).sum()
            everywhere += norm
        seen = self.products(self.seen.row, self.seen.level) ** power
        return np.maximum(everywhere - self.seen.per_row(seen), 0.0)

    def lookup(self, row: IntArray, level: IntArray) -> FloatArray:
        """Return the weights of levels; shape of `row` and `level`."""
        result = self.stored.lookup(row, level)
        left = np.flatnonzero(result == 0)
        row, level = row[left], level[left]
        head = self.space.project(level, self.heads)
        unseen = self.seen.lookup(row, head) == 0
        left, row, level, head = left[unseen], row[unseen], level[unseen], head[unseen]
        tail = self.tail.lookup(row, self.space.project(level, self.tail_places))
        result[left] = self.products(row, head) * tail
        return result

    def take(self, rows: IntArray) -> FactoredRows:
        """Return the rows at these indices; index -1 gives an empty row."""
        scale = np.vstack([self.scale, np.zeros_like(self.scale[:1])])[rows]
        seen, stored, tail = (part.take(rows) for part in (self.seen, self.stored, self.tail))
        return replace(self, scale=scale, seen=seen, stored=stored, tail=tail)

    def expanded(self) -> SparseRows:
        """Return all weights above 0 as stored rows; raise an `InputError` for too many."""
        size = self.tail.size
        count = math.prod(np.count_nonzero(share) for share in self.shares) * int(size.sum())
        if count > MOST_LEVELS:
            raise InputError(
                f"the target over {list(self.space.names)} has about {count} weights above 0, too "
                "many to list; use Target.for_qids or Target.marginal first"
            )
        # all levels of the heads in each row ...
        heads = np.zeros(1, dtype=np.int64)
        for share in self.shares:
            heads = (heads[:, None] * len(share) + np.flatnonzero(share)).ravel()
        row, head = np.repeat(np.arange(self.n_rows), len(heads)), np.tile(heads, self.n_rows)
        product = self.products(row, head)
        used = (product > 0) & (self.seen.lookup(row, head) == 0)
        row, head, product = row[used], head[used], product[used]
        # ... with each tail of the row
        owner, entry = expand_runs(self.tail.start[row], size[row])
        ahead = self.space.extend(head, self.heads)
        level = ahead[owner] + self.space.extend(self.tail.level, self.tail_places)[entry]
        return SparseRows.collect(
            np.concatenate([self.stored.row, row[owner]]),
            np.concatenate([self.stored.level, level]),
            np.concatenate([self.stored.weight, product[owner] * self.tail.weight[entry]]),
            self.n_rows,
            self.space.size,
        )

    def content(self) -> list[Any]:
        """Return the values for a digest."""
        if self.is_product:
            return ["product", list(self.shares), self.scale[:, 0] > 0]
        parts = [part.content() for part in (self.stored, self.seen, self.tail)]
        masses = case_masses(self.head_space, self.seen)
        return ["background", *parts, list(self.shares), masses]


Distributions = SparseRows | FactoredRows
"""Rows of non-negative weights over levels, stored or computed."""


def has_unknown(space: LevelSpace, rows: Distributions) -> BoolArray:
    """Return whether each row has weight on a level with an unknown attribute; (n_rows,)."""
    if isinstance(rows, FactoredRows) and rows.is_product:
        pairs = zip(rows.shares, space.unknown, strict=True)
        has = any(index >= 0 and share[index] > 0 for share, index in pairs)
        return np.full(rows.n_rows, has)
    # of a target with backgrounds, all unknown levels with weight are stored
    stored = rows.stored if isinstance(rows, FactoredRows) else rows
    unknown = np.asarray(~space.known(stored.level), dtype=np.float64)
    return stored.per_row(unknown) > 0
