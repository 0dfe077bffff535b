"""A picture of one query's loop."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fairtk.errors import MissingExtraError, NotFoundError
from fairtk.fair_qr.progress import SHARE

PALETTE = ("#0072B2", "#D55E00", "#000000", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#777777")
"""Okabe and Ito's colors, told apart by most eyes; lines differ in style, too."""
_STYLES = ("-", "--", ":", "-.")
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
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "plot_trace") from None
    rows = trace[(trace["qid"] == str(qid)) & trace["retrieved"].notna()]
    if rows.empty:
        raise NotFoundError("query of the trace", qid, trace["qid"].unique())
    figure = Figure(figsize=(8.5, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    names = [n for n in ("divergence", "AWRF", "nDCG", "nDCG_reranked") if n in rows.columns]
    shares = [c for c in rows.columns if c.startswith(SHARE)]
    largest = rows[shares].max().fillna(0.0).nlargest(most_groups).index
    for axis, columns in ((above, names), (below, list(largest))):
        for place, column in enumerate(columns):
            label = _NAMES.get(column, column.removeprefix(SHARE))
            color, style = PALETTE[place % len(PALETTE)], _STYLES[place % len(_STYLES)]
            [line] = axis.plot(rows["iteration"], rows[column], style, color=color, label=label)
            for kept, fill in ((True, line.get_color()), (False, "white")):
                part = rows[rows["kept"] == kept]
                axis.plot(
                    *(part["iteration"], part[column], "o"),
                    **{"color": line.get_color(), "markerfacecolor": fill},
                )
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    above.set_title(f"query {qid}: {rows['query'].iloc[0]}", fontsize="medium")
    below.set_ylabel("share of exposure")
    below.set_xlabel("iteration (hollow: not kept)")
    below.set_xticks(rows["iteration"].tolist())
    return figure
