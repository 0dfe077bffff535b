"""The plot of an explanation, and the picture of its groups in a notebook."""

from __future__ import annotations

import textwrap
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.display import despine, new_figure, write_figure
from fairtk.display.figures import BLACK, BLUE, ORANGE, against
from fairtk.frames import IntArray
from fairtk.measures.group_names import NOT_IN_RUN, OUTSIDE

if TYPE_CHECKING:
    from fairtk.measures.explain import Explanation

NOW, BEFORE, TARGET = BLUE, ORANGE, BLACK
_GROUPS = 12
_LABELED = 30
_LEGEND: dict[str, Any] = {
    "frameon": False,
    "fontsize": 8,
    "ncols": 3,
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
}


def draw(explanation: Explanation, path: str | PathLike[str] | None) -> Any:
    """Return the figure; see `fairtk.Explanation.plot`."""
    groups = _top(explanation)
    rows = max(len(groups), 3)
    figure = new_figure((10, 2.9 + 0.3 * rows + 2.6), "the plot of an explanation")
    halves: Any = figure.subfigures(2, 1, height_ratios=[0.3 * rows + 1.6, 3.2])
    top, bottom = halves
    exposures, costs = top.subplots(1, 2, sharey=True)
    _exposures(exposures, groups, explanation)
    _bars(costs, groups, explanation)
    ranks, queries = bottom.subplots(1, 2)
    _ranks(ranks, explanation)
    _queries(queries, explanation)
    figure.suptitle(_title(explanation), fontsize=10, x=0.01, ha="left")
    despine(exposures, costs, ranks, queries)
    for axes in (exposures, costs, ranks, queries):
        axes.tick_params(labelsize=8)
    if path is not None:
        write_figure(figure, path)
    return figure


def _title(explanation: Explanation) -> str:
    measure, name = explanation.measure, explanation.cost_name
    cut = "" if measure["cutoff"] is None else f"@{measure['cutoff']}"
    names = " x ".join(explanation.names.space.names)
    n, every = int(explanation.defined.sum()), len(explanation.qids)
    over = f"{n} queries" if n == every else f"{n} of {every} queries"
    change = f" (baseline {explanation.baseline_total:.4f})" if explanation.before else ""
    return f"{name}{cut} by {names}: {explanation.total:.4f}{change}, mean of {over}"


def _top(explanation: Explanation) -> pd.DataFrame:
    """Return the costliest groups with a text each, the others in one row, lowest cost first."""
    frame = explanation.by_group.copy()
    frame["text"] = explanation.names.joined(frame)
    if len(frame) > _GROUPS:
        numbers = [c for c in frame.columns if frame[c].dtype.kind == "f"]
        rest = frame[numbers].iloc[_GROUPS - 1 :].sum().to_frame().T
        rest["text"] = f"({len(frame) - _GROUPS + 1} other groups)"
        frame = pd.concat([frame[[*numbers, "text"]].head(_GROUPS - 1), rest], ignore_index=True)
    return frame.iloc[::-1].reset_index(drop=True)


def _outline() -> Any:
    """Return a white rim, so that black marks stand out from dark bars in grey, too."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=4.5, foreground="white")]


def _exposures(axes: Any, groups: pd.DataFrame, explanation: Explanation) -> None:
    y = np.arange(len(groups))
    labels = [textwrap.shorten(t, 44, placeholder=" ...") for t in groups["text"]]
    real = groups["text"] != NOT_IN_RUN
    axes.set_yticks(y, labels)
    y, groups = y[real], groups[real]
    axes.hlines(y, groups["target"], groups["exposure"], color=NOW, linewidth=2, zorder=1)
    if explanation.before is not None:
        axes.plot(
            groups["baseline_exposure"],
            y,
            "s",
            color=BEFORE,
            markersize=6,
            markerfacecolor="white",
            markeredgewidth=1.5,
            label="baseline",
        )
    axes.plot(groups["exposure"], y, "o", color=NOW, markersize=7, label="run")
    axes.plot(
        groups["target"],
        y,
        "|",
        color=TARGET,
        markersize=15,
        markeredgewidth=2.5,
        label="target",
        path_effects=_outline(),
    )
    axes.set_ylim(-0.7, len(labels) - 0.3)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    what = "share of attention" if explanation.measure.NAME == "AWRF" else "attention"
    axes.set_xlabel(f"{what}, mean over queries", fontsize=9)
    axes.legend(**_LEGEND)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)


def _beside(bars: Any, place: IntArray, frame: pd.DataFrame, compared: bool, shift: float) -> Any:
    """Draw the costs of the run, and beside them the baseline's; return where the run's are."""
    if not compared:
        bars(place, frame["cost"], 0.65, color=NOW, label="run")
        return place
    bars(place + shift, frame["cost"], 0.38, color=NOW, label="run")
    bars(
        place - shift,
        frame["baseline_cost"],
        0.38,
        color="white",
        edgecolor=BEFORE,
        hatch="////",
        linewidth=1.2,
        label="baseline",
    )
    return place + shift


def _bars(axes: Any, groups: pd.DataFrame, explanation: Explanation) -> None:
    before = explanation.before is not None
    y = _beside(axes.barh, np.arange(len(groups)), groups, before, 0.19)
    # the sign of the difference, in words rather than in color
    high = max(float(groups["cost"].max()), 1e-12)
    for place, (cost, difference) in enumerate(
        zip(groups["cost"], groups["difference"], strict=True)
    ):
        # sums of groups with too much and with too little have neither
        mixed = groups["text"].iloc[place].startswith("(") or difference == 0
        word = "" if mixed else "too much" if difference > 0 else "too little"
        axes.text(max(cost, 0) + 0.01 * high, y[place], word, va="center", fontsize=7)
    axes.set_xlim(right=1.18 * axes.get_xlim()[1])
    axes.set_xlabel("cost: what each group adds", fontsize=9)
    axes.tick_params(labelleft=False)


def _ranks(axes: Any, explanation: Explanation) -> None:
    frame = explanation.by_rank
    x = np.arange(len(frame))
    at = _beside(axes.bar, x, frame, explanation.before is not None, -0.19)
    ranked = frame["ranks"] != OUTSIDE
    even = frame["attention"][ranked] * frame["cost"][ranked].sum()
    axes.plot(
        at[ranked],
        even,
        "_",
        color=TARGET,
        markersize=18,
        markeredgewidth=2,
        label="if cost were as attention",
        path_effects=_outline(),
    )
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xticks(x, frame["ranks"].str.replace(" in the ", "\nin the "))
    axes.set_xlabel("ranks", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)
    axes.margins(y=0.15)
    axes.legend(columnspacing=1.0, **_LEGEND)


def _queries(axes: Any, explanation: Explanation) -> None:
    frame = explanation.by_query
    frame = frame[frame["cost"].notna()]
    x = np.arange(len(frame))
    if len(frame) <= _LABELED:
        axes.bar(x, frame["cost"], 0.7, color=NOW)
        small = 7 if len(frame) > 12 else 8
        axes.set_xticks(x, frame["qid"], rotation=90, fontsize=small)
    else:
        axes.fill_between(x, frame["cost"], step="mid", color=NOW)
    if explanation.before is not None:
        axes.plot(
            x,
            frame["baseline_cost"],
            "_",
            color=BEFORE,
            markersize=9,
            markeredgewidth=2.5,
            label="baseline",
        )
        axes.legend(frameon=False, fontsize=8)
    axes.axhline(explanation.total, color=TARGET, linestyle=":", linewidth=1.2)
    axes.annotate(
        "mean",
        (1, explanation.total),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=8,
    )
    axes.set_xlabel("query, costliest first", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)
    axes.set_xlim(-0.7, max(len(frame), 1) - 0.3)


def group_pictures(explanation: Explanation) -> list[list[str]]:
    """Return a picture for the column ``exposure`` of each group."""
    frame = explanation.by_group
    columns = list(frame.columns)
    high = float(frame[["exposure", "target"]].max(axis=None))
    return [
        [against(row.exposure, row.target, high) if c == "exposure" else "" for c in columns]
        for row in frame.itertuples()
    ]
