"""Tables and figures of results; matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any

import pandas as pd

from fairtk.drawing import BLUE, LINE, new_figure, open_axes, spread
from fairtk.errors import NotFoundError
from fairtk.files.renderings import Table, texts
from fairtk.frames.columns import QID
from fairtk.statistics import mean_intervals


def as_texts(frame: pd.DataFrame, caption: str = "") -> Table:
    """Return a frame as a table of texts."""
    rows = [list(row) for row in frame.itertuples(index=False)]
    return texts(list(frame.columns), rows, caption)


def spreads(
    per_query: pd.DataFrame, systems: Sequence[str], measures: Sequence[str]
) -> list[list[str]]:
    """Return a picture of the queries' values for each system and measure, ends by measure."""
    by_measure = per_query.groupby("measure")["value"]
    low, high = by_measure.min().to_dict(), by_measure.max().to_dict()
    values = dict(iter(per_query.groupby(["system", "measure"])["value"]))
    return [
        ["", *(spread(values[s, m], low[m], high[m]) if (s, m) in values else "" for m in measures)]
        for s in systems
    ]


def notes(counts: pd.DataFrame, systems: Sequence[str], failed: bool) -> list[str]:
    """Return what to say below means of which some queries are left out, or failed."""
    said_of = []
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        said = ", ".join(
            f"{s}: {u}" for s, u in zip(part["system"], part["undefined"], strict=True)
        )
        if len(part) == len(systems) and part["undefined"].nunique() == 1:
            said = str(part["undefined"].iloc[0])
        said_of.append(f"Queries where {measure} is undefined and left out: {said}.")
    if failed:
        said_of.append(
            "Failed queries count with the worst value of each measure; the next run with the "
            "same save_dir tries them again."
        )
    return said_of


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
