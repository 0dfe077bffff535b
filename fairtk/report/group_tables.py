"""Tables of the coverage and the levels of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display import Table
from fairtk.experiment.inputs import GivenGroups
from fairtk.groups import Groups


def summary_table(attributes: Sequence[Groups]) -> Table:
    """Return a table of the groups, the documents and their unknown or multiple groups."""
    rows = []
    for groups in attributes:
        members = groups.memberships(groups.docnos)
        n = members.n_rows
        named = groups.space.known(members.level)
        unknown = 1 - float(members.weight[named].sum() / max(members.weight.sum(), 1e-300))
        multiple = float((members.size > 1).sum() / max(n, 1))
        used = f"{len(np.unique(members.level))} of {groups.space.size}"
        rows.append([groups.name, used, str(n), f"{unknown:.1%}", f"{multiple:.1%}"])
    heads = ["attribute", "groups with documents", "documents", "unknown", "in several groups"]
    return Table(heads, rows)


def level_table(groups: Groups, evidence: GivenGroups) -> pd.DataFrame:
    """Return the documents, share and target share of each level; omit empty crossed levels."""
    members = groups.memberships(groups.docnos)
    levels, row_level = np.unique(members.level, return_inverse=True)
    weight = np.bincount(row_level, weights=members.weight, minlength=len(levels))
    columns = {
        "documents": np.bincount(row_level, minlength=len(levels)),
        "share": weight / max(float(weight.sum()), 1e-300),
    }
    table = pd.DataFrame(columns, levels)
    if evidence.target:
        table = table.join(_target_shares(groups, evidence), how="outer")
    if not groups.space.crossed:  # also levels without documents
        table = table.reindex(range(groups.space.size))
    table = table.fillna(0).astype({"documents": int})
    table.insert(0, "attribute", groups.name)
    table.insert(1, "group", [_text(groups.levels[level]) for level in table.index])
    return table


def _target_shares(groups: Groups, evidence: GivenGroups) -> pd.Series[float]:
    rows = evidence.target_for(groups, "fairtk groups").for_groups(groups).distributions.expanded()
    total = rows.total()
    shares = rows.weight / np.where(total > 0, total, 1.0)[rows.row]
    levels, row_level = np.unique(rows.level, return_inverse=True)
    sums = np.bincount(row_level, weights=shares, minlength=len(levels))
    return pd.Series(sums / max(int((total > 0).sum()), 1), levels, name="target")


def _text(level: Any) -> str:
    return level if isinstance(level, str) else " x ".join(level)
