"""How much of a run the groups know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fairtk.divergence import Distributions, SparseRows, spread
from fairtk.errors import InputError
from fairtk.frames.columns import QID
from fairtk.frames.rankings import Rankings, encode_run
from fairtk.groups.exposure import Memberships

if TYPE_CHECKING:
    from fairtk.groups.crossed import Crossed
    from fairtk.groups.levels import LevelSpace

COLUMNS = (
    QID, "retrieved", "with_row", "with_label", "row_share", "label_share", "groups_shown",
    "groups_absent",
)  # fmt: skip


def coverage(groups: Crossed, run: pd.DataFrame, cutoff: int | None = None) -> pd.DataFrame:
    """Return how much of a run the groups know, and how many groups it shows.

    The frame of `fairtk.Groups.coverage`, with one row per query of the run: ``qid``,
    ``retrieved``, ``with_row``, ``with_label``, ``row_share``, ``label_share``, ``groups_shown``
    and ``groups_absent``. With a cutoff, the ranks above it are looked at in each ranking.

    Raises:
        InputError: `groups` is something else, or the run is not valid.
    """
    if not hasattr(groups, "memberships"):
        raise InputError(
            f"coverage: expected Groups, found a {type(groups).__name__}; write coverage(groups, "
            "run)"
        )
    return coverage_of(groups, encode_run(run, f"coverage of {groups.name!r}"), cutoff)


def coverage_of(
    groups: Crossed,
    rankings: Rankings,
    cutoff: int | None = None,
    memberships: Memberships | None = None,
) -> pd.DataFrame:
    """Return the same for an encoded run; `memberships`, if at hand, drop what is unlabeled."""
    seen = np.ones(len(rankings.doc), bool) if cutoff is None else rankings.position < cutoff
    query, doc = rankings.query[seen], rankings.doc[seen]
    n_queries = len(rankings.qids)
    found = groups.memberships(rankings.docnos) if memberships is None else memberships
    labeled = np.zeros(len(found.size), dtype=bool)
    labeled[found.owner[groups.space.known(found.cell)]] = True
    retrieved = np.bincount(query, minlength=n_queries)
    with_row = np.bincount(query[found.known[doc]], minlength=n_queries)
    with_label = np.bincount(query[labeled[doc]], minlength=n_queries)
    some = np.maximum(retrieved, 1)
    item, entry = spread(found.start[doc], found.size[doc])
    cell = found.cell[entry]
    named = groups.space.known(cell)
    exposed = SparseRows.collect(
        query[item[named]], cell[named], np.ones(int(named.sum())), n_queries, groups.space.size
    )
    n_shown = np.bincount(exposed.row, minlength=n_queries)
    absent = n_known(groups.space) - n_shown
    values = (
        rankings.qids, retrieved, with_row, with_label, with_row / some, with_label / some,
        n_shown, absent,
    )  # fmt: skip
    return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))


def n_known(space: LevelSpace) -> int:
    """Return the number of groups in which no attribute is unknown."""
    return math.prod(int(space.known_levels(place).sum()) for place in range(len(space.names)))


def empty_levels(groups: Crossed) -> list[list[str]]:
    """Return, for each attribute, the known levels that no document has."""
    result = []
    for factor in groups.factors:
        lost = ~factor.used
        if factor.unknown >= 0:
            lost[factor.unknown] = False
        result.append([factor.levels[i] for i in np.flatnonzero(lost)])
    return result


def unreachable(groups: Crossed, target: Distributions) -> tuple[float, list[str]]:
    """Return how much of a target lies on levels that no document has, and which those are.

    The largest such share of any query. For one attribute only: crossed ones have empty
    combinations as a rule, and are returned as if they had none.
    """
    if groups.space.crossed or all(not levels for levels in empty_levels(groups)):
        return 0.0, []
    weights = target.expanded()
    lost = np.isin(weights.cell, [groups.space.cell(v) for v in empty_levels(groups)[0]])
    total = weights.total()
    share = weights.per_row(weights.weight * lost) / np.where(total > 0, total, 1.0)
    cells = np.unique(weights.cell[lost])
    return float(share.max(initial=0.0)), [str(groups.space.label(int(c))) for c in cells]
