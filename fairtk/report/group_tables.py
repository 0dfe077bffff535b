"""Tables of the coverage and the levels of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display import Table
from fairtk.display.figures import draw_shares
from fairtk.experiment.inputs import GivenGroups
from fairtk.frames import Run
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


_MOST_BARS = 20


def plot_shares(
    groups: Groups, evidence: GivenGroups, runs: Mapping[str, Run], cutoff: int | None
) -> Any:
    """Draw the shares of groups in several runs next to each other, with the target as marks.

    A share is the mean over queries of the share of the first `cutoff` documents of a ranking.
    Without runs, it is that of all documents with a group. The largest groups are drawn.
    """
    table = level_table(groups, evidence)
    if runs:
        parts = {name: _run_shares(groups, run, cutoff) for name, run in runs.items()}
        columns = ["target"] if evidence.target else []
        table = pd.DataFrame(parts).join(table[columns], how="outer").fillna(0.0)
        table = table.reindex(sorted(table.index))
    else:
        table["documents"] = table.pop("share")
    names = list(runs) or ["documents"]
    table = table.loc[table[names].max(axis=1).nlargest(_MOST_BARS).index].sort_index()
    figure = draw_shares(
        [_text(groups.levels[level]) for level in table.index],
        {name: table[name].to_numpy() for name in names},
        [table["target"].to_numpy()] if evidence.target else [],
        "target",
        "a figure of groups",
    )
    where = "of documents" if cutoff is None else f"of the first {cutoff} documents"
    figure.axes[0].set_xlabel(f"share {where}, by {groups.name}", parse_math=False)
    return figure


def _run_shares(groups: Groups, run: Run, cutoff: int | None) -> pd.Series[float]:
    seen = np.ones(len(run.doc), bool) if cutoff is None else run.position < cutoff
    query, doc = run.query[seen], run.doc[seen]
    retrieved = np.bincount(query, minlength=len(run.qids))
    members = groups.memberships(run.docnos)
    attention = np.bincount(doc, weights=1 / retrieved[query], minlength=len(run.docnos))
    levels, row_level = np.unique(members.level, return_inverse=True)
    weight = np.bincount(row_level, members.weight * attention[members.row], len(levels))
    return pd.Series(weight / max((retrieved > 0).sum(), 1), levels)


def _target_shares(groups: Groups, evidence: GivenGroups) -> pd.Series[float]:
    rows = evidence.target_for(groups, "fairtk groups").for_groups(groups).distributions.expanded()
    total = rows.total()
    shares = rows.weight / np.where(total > 0, total, 1.0)[rows.row]
    levels, row_level = np.unique(rows.level, return_inverse=True)
    sums = np.bincount(row_level, weights=shares, minlength=len(levels))
    return pd.Series(sums / max(int((total > 0).sum()), 1), levels, name="target")


def _text(level: Any) -> str:
    return level if isinstance(level, str) else " x ".join(level)
