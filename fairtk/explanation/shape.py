"""Systems and targets side by side: the groups that either has, with exposure in each rank band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairtk.divergence import Distributions, SparseRows, spread
from fairtk.explanation.contributions import REST, by_band
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.groups.exposure import Memberships

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
