"""How much of a run the groups know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fairtk.columns import QID
from fairtk.group_exposure import Memberships
from fairtk.rankings import Rankings, encode_run

if TYPE_CHECKING:
    from fairtk.groups.groups import Groups

COLUMNS = (QID, "retrieved", "with_row", "with_label", "row_share", "label_share")


def coverage(groups: Groups, run: pd.DataFrame, cutoff: int | None = None) -> pd.DataFrame:
    """Return how much of a run the groups know; see `fairtk.Groups.coverage`."""
    return coverage_of(groups, encode_run(run, f"coverage of {groups.name!r}"), cutoff)


def coverage_of(
    groups: Groups,
    rankings: Rankings,
    cutoff: int | None = None,
    memberships: Memberships | None = None,
) -> pd.DataFrame:
    """Return the same for a run that is encoded already.

    Args:
        groups: the groups.
        rankings: the run.
        cutoff: ranks that are looked at in each ranking; None: all.
        memberships: those of ``rankings.docnos`` with ``missing="drop"``, if at hand.
    """
    seen = np.ones(len(rankings.doc), bool) if cutoff is None else rankings.position < cutoff
    query, doc = rankings.query[seen], rankings.doc[seen]
    n_queries = len(rankings.qids)
    found = groups.memberships(rankings.docnos) if memberships is None else memberships
    owner = np.repeat(np.arange(len(found.size)), found.size)
    labeled = np.zeros(len(found.size), dtype=bool)
    labeled[owner[groups.space.known(found.cell)]] = True
    retrieved = np.bincount(query, minlength=n_queries)
    with_row = np.bincount(query[found.known[doc]], minlength=n_queries)
    with_label = np.bincount(query[labeled[doc]], minlength=n_queries)
    some = np.maximum(retrieved, 1)
    values = (rankings.qids, retrieved, with_row, with_label, with_row / some, with_label / some)
    return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))
