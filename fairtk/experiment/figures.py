"""Figures of results; matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import fill
from typing import Any

import pandas as pd

from fairtk.drawing import BLUE, LINE, new_figure, open_axes
from fairtk.errors import NotFoundError
from fairtk.frames.columns import QID
from fairtk.statistics import mean_intervals

_LONGEST, _WIDTH = 28, 44  # letters of a name beside its point, and beside an axis
_NEAR = 0.2  # of the axis


def trade_off(
    means: pd.DataFrame, per_query: pd.DataFrame, better: Callable[[str], str], x: str, y: str
) -> Any:
    """Draw the means of two measures, one point per system, with intervals over the queries.

    Takes means by system (index) and measure (columns); `Results.plot_trade_off` says the rest.
    """
    for name in (x, y):
        if name not in means.columns:
            raise NotFoundError("measure", name, list(means.columns))
    figure = new_figure((5, 4), "plot_trade_off")
    axes = figure.subplots()
    ends = {}
    for name in (x, y):
        values = per_query[per_query["measure"] == name]
        table = values.pivot(index="system", columns=QID, values="value").loc[means.index]
        low, high = mean_intervals(table.to_numpy(), method="t")
        middle = means[name].to_numpy()
        ends[name] = abs(middle - low), abs(high - middle)
    axes.errorbar(
        means[x], means[y], xerr=ends[x], yerr=ends[y],
        fmt="o", color=BLUE, ecolor=LINE, elinewidth=0.8,
    )  # fmt: skip
    following = means[x].sort_values().shift(-1)
    room = _NEAR * (means[x].max() - means[x].min())
    for system, row in means.iterrows():
        near = following[system] - row[x] < room  # then its name would be on its neighbor's
        axes.annotate(
            _shorten(str(system)), (row[x], row[y]), xytext=(-5 if near else 5, 5),
            ha="right" if near else "left", textcoords="offset points", fontsize=8,
            parse_math=False,
        )  # fmt: skip
    axes.margins(x=0.2)
    for name, set_label in ((x, axes.set_xlabel), (y, axes.set_ylabel)):
        set_label(fill(f"{name} ({better(name)} is better)", _WIDTH), parse_math=False)
    open_axes(axes)
    return figure


def _shorten(name: str) -> str:
    """Return a name that leaves room for the axes."""
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
