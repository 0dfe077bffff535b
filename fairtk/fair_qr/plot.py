"""A picture of one query's loop."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fairtk.drawing import new_figure, open_axes, series
from fairtk.errors import NotFoundError
from fairtk.fair_qr.progress import SHARE

_NAMES = {"nDCG_reranked": "nDCG re-ranked"}


def plot_trace(trace: pd.DataFrame, qid: str, most_groups: int = 8) -> Any:
    """Return a figure: divergence, AWRF and nDCG above, the groups' shares below, by iteration.

    Lists that were not kept are hollow.

    Args:
        trace: `fairtk.FairQR.trace`.
        qid: the query.
        most_groups: how many groups are drawn: those with the largest shares.

    Raises:
        NotFoundError: the trace does not have the query.
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure((8.5, 6), "plot_trace")
    rows = trace[(trace["qid"] == str(qid)) & trace["retrieved"].notna()]
    if rows.empty:
        raise NotFoundError("query of the trace", qid, trace["qid"].unique())
    above, below = figure.subplots(2, 1, sharex=True)
    names = [n for n in ("divergence", "AWRF", "nDCG", "nDCG_reranked") if n in rows.columns]
    shares = [c for c in rows.columns if c.startswith(SHARE)]
    largest = rows[shares].max().fillna(0.0).nlargest(most_groups).index
    for axis, columns in ((above, names), (below, list(largest))):
        for place, column in enumerate(columns):
            label = _NAMES.get(column, column.removeprefix(SHARE))
            own = series(place)
            axis.plot(rows["iteration"], rows[column], ls=own.dash, color=own.color, label=label)
            for kept, fill in ((True, own.color), (False, "white")):
                part = rows[rows["kept"] == kept]
                axis.plot(
                    *(part["iteration"], part[column], "o"),
                    **{"color": own.color, "markerfacecolor": fill},
                )
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    open_axes(above, below)
    above.set_title(f"query {qid}: {rows['query'].iloc[0]}", fontsize="medium")
    below.set_ylabel("share of exposure")
    below.set_xlabel("iteration (hollow: not kept)")
    below.set_xticks(rows["iteration"].tolist())
    return figure
