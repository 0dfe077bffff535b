"""An explanation as a figure: exposure beside target, and cost by group, rank band and query."""

from __future__ import annotations

import textwrap
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from fairtk.drawing import BLACK, BLUE, ORANGE, new_figure, open_axes
from fairtk.explanation.cost_frames import CostFrames
from fairtk.explanation.names import NOT_IN_RUN, OUTSIDE, joined

NOW, BEFORE, TARGET = BLUE, ORANGE, BLACK

_GROUPS = 12
_LABELED = 30


def draw(explanation: CostFrames, path: str | PathLike[str] | None) -> Any:
    """Return the figure; see `fairtk.Explanation.plot`."""
    groups = _top(explanation)
    rows = max(len(groups), 3)
    figure = new_figure((10, 2.9 + 0.3 * rows + 2.6), "the plot of an explanation")
    halves: Any = figure.subfigures(2, 1, height_ratios=[0.3 * rows + 1.6, 3.2])
    top, bottom = halves
    shown, costs = top.subplots(1, 2, sharey=True)
    _exposures(shown, groups, explanation)
    _bars(costs, groups, explanation)
    ranks, queries = bottom.subplots(1, 2)
    _ranks(ranks, explanation)
    _queries(queries, explanation)
    figure.suptitle(_title(explanation), fontsize=10, x=0.01, ha="left")
    open_axes(shown, costs, ranks, queries)
    for axes in (shown, costs, ranks, queries):
        axes.tick_params(labelsize=8)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _title(explanation: CostFrames) -> str:
    measure = explanation.measure
    name = "1 - AWRF" if measure.NAME == "AWRF" else measure.NAME
    cut = "" if measure["cutoff"] is None else f"@{measure['cutoff']}"
    names = " x ".join(explanation.names.space.names)
    n, every = int(explanation.defined.sum()), len(explanation.qids)
    over = f"{n} queries" if n == every else f"{n} of {every} queries"
    change = f" (baseline {explanation.baseline_total:.4f})" if explanation.before else ""
    return f"{name}{cut} by {names}: {explanation.total:.4f}{change}, mean of {over}"


def _top(explanation: CostFrames) -> pd.DataFrame:
    """Return the costliest groups with a text each, the others in one row, lowest cost first."""
    frame = explanation.by_group.copy()
    frame["text"] = joined(frame[explanation.names.columns])
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


def _exposures(axes: Any, groups: pd.DataFrame, explanation: CostFrames) -> None:
    y = np.arange(len(groups))
    labels = [textwrap.shorten(t, 44, placeholder=" ...") for t in groups["text"]]
    real = groups["text"] != NOT_IN_RUN
    axes.set_yticks(y, labels)
    y, groups = y[real], groups[real]
    axes.hlines(y, groups["target"], groups["exposure"], color=NOW, linewidth=2, zorder=1)
    if explanation.before is not None:
        axes.plot(groups["baseline_exposure"], y, "s", color=BEFORE, markersize=6,
                  markerfacecolor="white", markeredgewidth=1.5, label="baseline")  # fmt: skip
    axes.plot(groups["exposure"], y, "o", color=NOW, markersize=7, label="run")
    axes.plot(groups["target"], y, "|", color=TARGET, markersize=15, markeredgewidth=2.5,
              label="target", path_effects=_outline())  # fmt: skip
    axes.set_ylim(-0.7, len(labels) - 0.3)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    what = "share of attention" if explanation.measure.NAME == "AWRF" else "attention"
    axes.set_xlabel(f"{what}, mean over queries", fontsize=9)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)


def _bars(axes: Any, groups: pd.DataFrame, explanation: CostFrames) -> None:
    y = np.arange(len(groups))
    before = explanation.before is not None
    height = 0.38 if before else 0.65
    shift = height / 2 if before else 0.0
    axes.barh(y + shift, groups["cost"], height, color=NOW)
    if before:
        axes.barh(y - shift, groups["baseline_cost"], height, color="white", edgecolor=BEFORE,
                  hatch="////", linewidth=1.2)  # fmt: skip
    # the sign of the difference, in words rather than in color
    high = max(float(groups["cost"].max()), 1e-12)
    for place, (cost, difference) in enumerate(
        zip(groups["cost"], groups["difference"], strict=True)
    ):
        # sums of groups with too much and with too little have neither
        mixed = groups["text"].iloc[place].startswith("(") or difference == 0
        word = "" if mixed else "too much" if difference > 0 else "too little"
        axes.text(max(cost, 0) + 0.01 * high, place + shift, word, va="center", fontsize=7)
    axes.set_xlim(right=1.18 * axes.get_xlim()[1])
    axes.set_xlabel("cost: what each group adds", fontsize=9)
    axes.tick_params(labelleft=False)


def _ranks(axes: Any, explanation: CostFrames) -> None:
    frame = explanation.by_rank
    x = np.arange(len(frame))
    before = explanation.before is not None
    width = 0.38 if before else 0.65
    shift = width / 2 if before else 0.0
    axes.bar(x - shift, frame["cost"], width, color=NOW, label="run")
    if before:
        axes.bar(x + shift, frame["baseline_cost"], width, color="white", edgecolor=BEFORE,
                 hatch="////", linewidth=1.2, label="baseline")  # fmt: skip
    ranked = frame["ranks"] != OUTSIDE
    even = frame["attention"][ranked] * frame["cost"][ranked].sum()
    axes.plot((x - shift)[ranked], even, "_", color=TARGET, markersize=18, markeredgewidth=2,
              label="if cost were as attention", path_effects=_outline())  # fmt: skip
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xticks(x, frame["ranks"].str.replace(" in the ", "\nin the "))
    axes.set_xlabel("ranks", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1),
                columnspacing=1.0)  # fmt: skip


def _queries(axes: Any, explanation: CostFrames) -> None:
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
    axes.annotate("mean", (1, explanation.total), xycoords=("axes fraction", "data"),
                  ha="right", va="bottom", fontsize=8)  # fmt: skip
    axes.set_xlabel("query, costliest first", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)
    axes.set_xlim(-0.7, max(len(frame), 1) - 0.3)
