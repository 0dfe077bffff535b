"""What each group adds to the cost of a query, rank band by rank band.

The cost of a group c that gets exposure s_c and should get t_c is split over rank bands b as

    cost(b, c) = s_bc g_c + a_b T_c

where s_bc is the exposure that c gets in b (s_c in all), a_b the share of the query's attention
that b has, g_c what one unit of exposure of c costs, and T_c what its target costs whatever is
shown. For the Jensen-Shannon divergence g_c and T_c / t_c are its derivatives: it is homogeneous of
degree 1 in both arguments, so that Euler's theorem makes the parts add up to the whole. For squared
distances g_c = s_c - t_c and T_c = -(s_c - t_c) t_c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairtk.divergence import Distributions, SparseRows, spread
from fairtk.exposure.expected import total
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.groups.exposure import Memberships

REST = -1
"""Cell of all groups (or documents) together that have a target and are not listed one by one."""
ABSENT = -2
"""Cell of the cost of queries that the run lacks."""


@dataclass(frozen=True)
class Contributions:
    """Units, each a query and one of its groups, with exposure and cost in each rank band."""

    query: IntArray  # query of each unit; shape (n_units,)
    cell: IntArray  # group of each unit, or `REST` or `ABSENT`; shape (n_units,)
    shown: FloatArray  # exposure of the group in each band; shape (n_units, n_bands)
    target: FloatArray  # exposure that the group should have; shape (n_units,)
    cost: FloatArray  # what the group adds in each band; shape (n_units, n_bands)
    attention: FloatArray  # share of each query's attention by band; (n_queries, n_bands)

    def regrouped(self, query: IntArray, cell: IntArray, weight: FloatArray) -> Contributions:
        """Return sums of weighted units that share a new query and cell."""
        low = int(cell.min(initial=0))
        width = np.int64(int(cell.max(initial=0)) - low + 1)
        key, unit = np.unique(query * width + (cell - low), return_inverse=True)

        def summed(values: FloatArray) -> FloatArray:
            result = np.zeros((len(key), *values.shape[1:]))
            np.add.at(result, unit, values * (weight[:, None] if values.ndim > 1 else weight))
            return result

        return replace(
            self,
            query=key // width,
            cell=key % width + low,
            shown=summed(self.shown),
            target=summed(self.target),
            cost=summed(self.cost),
        )

    def taken(self, units: IntArray, weight: FloatArray) -> Contributions:
        """Return weighted units, some of them several times, e.g. once for each of its groups."""
        return replace(
            self,
            query=self.query[units],
            cell=self.cell[units],
            shown=self.shown[units] * weight[:, None],
            target=self.target[units] * weight,
            cost=self.cost[units] * weight[:, None],
        )

    def kept(self, queries: BoolArray) -> Contributions:
        """Return the units of some queries; shape of `queries`: (n_queries,)."""
        units = np.flatnonzero(queries[self.query])
        attention = np.where(queries[:, None], self.attention, 0.0)
        return replace(self.taken(units, np.ones(len(units))), attention=attention)

    def with_unshown(self, queries: IntArray, cell: int, cost: FloatArray) -> Contributions:
        """Return the units and one more of some queries, for what no ranking shows.

        Its cell is `REST` or `ABSENT`; it has a cost in each band, of shape (n, n_bands).
        """
        return replace(
            self,
            query=np.concatenate([self.query, queries]),
            cell=np.concatenate([self.cell, np.full(len(queries), cell, dtype=np.int64)]),
            shown=np.concatenate([self.shown, np.zeros_like(cost)]),
            target=np.concatenate([self.target, np.zeros(len(queries))]),
            cost=np.concatenate([self.cost, cost]),
        )


def costs(shown: FloatArray, rate: FloatArray, share: FloatArray, owed: FloatArray) -> FloatArray:
    """Return what units cost in each band by the formula of this module; shape of `shown`.

    `rate` is g_c, `share` a_b for each unit, and `owed` T_c.
    """
    return shown * rate[:, None] + share * owed[:, None]


def shares(values: FloatArray) -> FloatArray:
    """Return each row divided by its sum; rows of 0 stay so."""
    whole = values.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(values, whole, out=np.zeros_like(values), where=whole > 0))


def by_band(row: IntArray, band: IntArray, weight: FloatArray, n_rows: int, n: int) -> FloatArray:
    """Return sums of weights by row and band; shape (n_rows, n)."""
    return total(row * n + band, weight, n_rows * n).reshape(n_rows, n)


MOST_LISTED = 5000
"""Spaces of more groups have those that are not shown in one row."""


@dataclass(frozen=True)
class Sides:
    """Exposure and target of each row's groups."""

    row: IntArray  # row of each unit, a query or a ranking; shape (n_units,)
    cell: IntArray  # group of each unit, or `REST`; shape (n_units,)
    shown: FloatArray  # exposure in each rank band; shape (n_units, n_bands)
    target: FloatArray  # weight of the target, as it is stored; shape (n_units,)
    rest_square: FloatArray  # summed squared targets of the cells that `REST` stands for


def sides(
    row: IntArray,
    band: IntArray,
    doc: IntArray,
    weight: FloatArray,
    memberships: Memberships,
    target: Distributions,
    n_bands: int,
) -> Sides:
    """Return the groups of rows with their exposure and target.

    Items are what is shown to the user: each has a row, a rank band, a document (an index into the
    memberships) and its attention, above 0. The target has one distribution for each row.
    """
    item, entry = spread(memberships.start[doc], memberships.size[doc])
    n_cells = np.int64(memberships.n_cells)
    system_key = row[item] * n_cells + memberships.cell[entry]
    key = np.unique(system_key)
    listed = memberships.n_cells <= MOST_LISTED
    if listed:
        stored = target.expanded()
        key = np.union1d(key, stored.key)
    unit = np.searchsorted(key, system_key)
    exposure = weight[item] * memberships.weight[entry]
    shown = by_band(unit, band[item], exposure, len(key), n_bands)
    rows = key // n_cells
    cell = key - rows * n_cells
    wanted = target.lookup(rows, cell)
    square = np.zeros(len(wanted))
    if not listed:
        seen = SparseRows(rows, cell, wanted, target.n_rows, int(n_cells))
        rest = np.maximum(target.total() - seen.total(), 0.0)
        rest_square = np.maximum(target.square() - seen.square(), 0.0)
        more = np.flatnonzero(rest > 0)
        rows = np.concatenate([rows, more])
        cell = np.concatenate([cell, np.full(len(more), REST, dtype=np.int64)])
        shown = np.concatenate([shown, np.zeros((len(more), n_bands))])
        wanted = np.concatenate([wanted, rest[more]])
        square = np.concatenate([square, rest_square[more]])
    return Sides(rows, cell, shown, wanted, square)
