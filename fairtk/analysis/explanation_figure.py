"""The figure of an explanation, and the pictures of its groups in a notebook."""

from __future__ import annotations

import textwrap
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.analysis.group_names import NOT_IN_RUN, OUTSIDE, join_names
from fairtk.display import despine, new_figure, write_figure
from fairtk.display.figures import BLACK, BLUE, ORANGE, draw_target_bar
from fairtk.measures.awrf import AWRF

if TYPE_CHECKING:
    from fairtk.analysis.explanation import Explanation

_GROUPS = 12
_LABELED = 30
_LEGEND: dict[str, Any] = {
    "frameon": False,
    "fontsize": 8,
    "ncols": 3,
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
}
_BEFORE: dict[str, Any] = {"color": "white", "edgecolor": ORANGE, "hatch": "////"}


def draw(explanation: Explanation, path: str | PathLike[str] | None) -> Any:
    """Return the figure; see `fairtk.Explanation.plot`."""
    groups = _top(explanation)
    rows = max(len(groups), 3)
    figure = new_figure((10, 5.5 + 0.3 * rows), "the plot of an explanation")
    halves: Any = figure.subfigures(2, 1, height_ratios=[0.3 * rows + 1.6, 3.2])
    top, bottom = halves
    panels = [*top.subplots(1, 2, sharey=True), *bottom.subplots(1, 2)]
    _exposures(panels[0], groups, explanation)
    _costs(panels[1], groups, explanation)
    _ranks(panels[2], explanation)
    _queries(panels[3], explanation)
    figure.suptitle("; ".join(explanation.summary[:2]), fontsize=10)
    despine(*panels)
    for axes in panels:
        axes.tick_params(labelsize=8)
    if path is not None:
        write_figure(figure, path)
    return figure


def _top(explanation: Explanation) -> pd.DataFrame:
    """Return the costliest groups and one row for the others, lowest cost first, with names."""
    frame = explanation.by_group.copy()
    frame["text"] = join_names(frame[explanation.columns])
    if len(frame) > _GROUPS:
        numbers = frame.select_dtypes("float").columns
        rest = frame[numbers].iloc[_GROUPS - 1 :].sum().to_frame().T
        rest["text"] = f"({len(frame) - _GROUPS + 1} other groups)"
        frame = pd.concat([frame.head(_GROUPS - 1), rest], ignore_index=True)
    return frame.iloc[::-1].reset_index(drop=True)


def _exposures(axes: Any, groups: pd.DataFrame, explanation: Explanation) -> None:
    labels = [textwrap.shorten(text, 44, placeholder=" ...") for text in groups["text"]]
    axes.set_yticks(range(len(groups)), labels)
    groups = groups[groups["text"] != NOT_IN_RUN]
    y = groups.index
    axes.hlines(y, groups["target"], groups["exposure"], color=BLUE)
    if explanation.before is not None:
        axes.plot(groups["baseline_exposure"], y, "s", color=ORANGE, mfc="white", label="baseline")
    axes.plot(groups["exposure"], y, "o", color=BLUE, label="run")
    axes.plot(groups["target"], y, "|", color=BLACK, ms=15, mew=2.5, label="target")
    axes.set_ylim(-0.7, len(labels) - 0.3)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    is_share = isinstance(explanation.measure, type(AWRF))
    what = "share of attention" if is_share else "attention"
    axes.set_xlabel(f"{what}, mean over queries", fontsize=9)
    axes.legend(**_LEGEND)


def _beside(bars: Any, frame: pd.DataFrame, compared: bool, shift: float) -> Any:
    """Draw the costs of the run next to the baseline's; return the run's positions."""
    place = np.arange(len(frame))
    if not compared:
        bars(place, frame["cost"], 0.65, color=BLUE, label="run")
        return place
    bars(place + shift, frame["cost"], 0.38, color=BLUE, label="run")
    bars(place - shift, frame["baseline_cost"], 0.38, label="baseline", **_BEFORE)
    return place + shift


def _costs(axes: Any, groups: pd.DataFrame, explanation: Explanation) -> None:
    y = _beside(axes.barh, groups, explanation.before is not None, 0.19)
    # the direction of the difference in words, not only in color
    sign = np.sign(groups["difference"]).mask(groups["text"].str.startswith("("), 0)
    words = sign.map({1.0: " too much", -1.0: " too little"}).fillna("")
    for place, cost, word in zip(y, groups["cost"], words, strict=True):
        axes.text(max(cost, 0), place, word, va="center", fontsize=7)
    axes.set_xlim(right=1.18 * axes.get_xlim()[1])
    axes.set_xlabel("cost: what each group adds", fontsize=9)
    axes.tick_params(labelleft=False)


def _ranks(axes: Any, explanation: Explanation) -> None:
    frame = explanation.by_rank
    x = _beside(axes.bar, frame, explanation.before is not None, -0.19)
    ranked = frame["ranks"] != OUTSIDE
    even = frame["attention"][ranked] * frame["cost"][ranked].sum()
    axes.plot(x[ranked], even, "_", color=BLACK, ms=18, mew=2, label="proportional to attention")
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xticks(range(len(frame)), frame["ranks"].str.replace(" in the ", "\nin the "))
    axes.set_xlabel("ranks", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)
    axes.legend(columnspacing=1.0, **_LEGEND)


def _queries(axes: Any, explanation: Explanation) -> None:
    frame = explanation.by_query.dropna(subset="cost")
    x = frame.index
    if len(frame) <= _LABELED:
        axes.bar(x, frame["cost"], 0.7, color=BLUE)
        axes.set_xticks(x, frame["qid"], rotation=90, fontsize=7)
    else:
        axes.fill_between(x, frame["cost"], step="mid", color=BLUE)
    if explanation.before is not None:
        axes.plot(x, frame["baseline_cost"], "_", color=ORANGE, mew=2.5, label="baseline")
    axes.axhline(explanation.total, color=BLACK, linestyle=":", label="mean")
    axes.legend(**_LEGEND)
    axes.set_xlabel("query, costliest first", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)


def group_pictures(explanation: Explanation) -> list[list[str]]:
    """Return a picture for the column ``exposure`` of each group."""
    frame = explanation.by_group
    columns = list(frame.columns)
    high = float(frame[["exposure", "target"]].max(axis=None))
    return [
        [
            draw_target_bar(row.exposure, row.target, high) if c == "exposure" else ""
            for c in columns
        ]
        for row in frame.itertuples()
    ]
