"""What `frontier` found: curves with bands, areas, and retrievers at equal utility."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.drawing import GRAY, new_figure, open_axes, series, write_figure
from fairtk.frames.arrays import FloatArray

CURVE = ["system", "alpha", "x", "x_low", "x_high", "y", "y_low", "y_high", "dominated"]
_NEAR = 0.06
AREAS = ["system", "area", "low", "high"]
PAIRS = ["one", "other", "difference", "low", "high"]
EQUAL = ["level", "one", "other", "x_one", "x_other", "difference", "low", "high"]


@dataclass
class Frontier:
    """The trade-off of two measures.

    Attributes:
        curve: one row per system and alpha (infinity: the fixed ranking; NaN: a sampled run): the
            mean values ``x`` and ``y`` with their intervals, and ``dominated``: whether another row
            is at least as good in both and better in one.
        areas: ``system``, ``area``, ``low``, ``high``: the mean height of y over x in [0, 1].
        area_differences: the areas of two retrievers: ``one``, ``other``, ``difference`` (other -
            one), with the interval ``low`` to ``high`` of the same draws of queries.
        equal: two retrievers where y is the same: ``level`` (of y), ``one``, ``other``, the best
            ``x_one`` and ``x_other`` at which the level is reached, ``difference`` (other - one)
            with its interval ``low`` to ``high``. NaN: not reached.
        measures: the two measures.
        lower: whether lower is better, of each.
        n: queries for which both are defined in all systems.
        confidence: of the intervals, which are of bootstraps over queries.
    """

    curve: pd.DataFrame
    areas: pd.DataFrame
    area_differences: pd.DataFrame
    equal: pd.DataFrame
    measures: list[str]
    lower: list[bool]
    n: int
    confidence: float

    @property
    def best(self) -> pd.DataFrame:
        """The rows of `curve` that nothing dominates."""
        return self.curve[~self.curve["dominated"]].reset_index(drop=True)

    @property
    def summary(self) -> str:
        """The areas, and who has what at equal utility, in words."""
        x, y = self.measures
        lines = [
            f"{row.system}: area {row.area:.4f} [{row.low:.4f}, {row.high:.4f}]"
            for row in self.areas.itertuples()
        ]
        lines += [
            f"area of {row.other} less that of {row.one}: {row.difference:+.4f} "
            f"[{row.low:+.4f}, {row.high:+.4f}]"
            for row in self.area_differences.itertuples()
        ]
        for row in self.equal.itertuples():
            said = f"where {y} is {row.level:.4f}, {x} of {row.one} is {row.x_one:.4f}, of "
            said += f"{row.other} {row.x_other:.4f}: {row.difference:+.4f} "
            lines.append(f"{said}[{row.low:+.4f}, {row.high:+.4f}]")
        compared = set(zip(self.equal["one"], self.equal["other"], strict=True))
        lines += [
            f"no {y} is reached by both {one} and {other}"
            for one, other in combinations(self.areas["system"], 2)
            if (one, other) not in compared
        ]
        parts = self.curve.groupby("system", sort=False)["dominated"]
        behind = [name for name, marks in parts if marks.all()]
        lines += [f"{name} is dominated everywhere" for name in behind]
        return "\n".join(lines)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return the curves with their bands; what is dominated is hollow.

        Args:
            path: a file (.svg, .pdf or .png) to write to, if any.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        figure = new_figure((5.5, 4.0), "a frontier")
        axes = figure.subplots()
        for place, (name, part) in enumerate(self.curve.groupby("system", sort=False)):
            look = series(place)
            x, y = part["x"].to_numpy(), part["y"].to_numpy()
            axes.plot(x, y, look.dash, color=look.color, linewidth=1.2)
            if len(part) > 1:
                order = np.argsort(x)
                ends = part["y_low"].to_numpy()[order], part["y_high"].to_numpy()[order]
                axes.fill_between(x[order], *ends, color=look.color, alpha=0.15, linewidth=0)
            for out in (False, True):
                shown = part["dominated"].to_numpy() == out
                axes.plot(
                    x[shown], y[shown], look.marker, color=look.color, markersize=5,
                    markerfacecolor="none" if out else look.color,
                    label=None if out and not shown.all() else name,
                )  # fmt: skip
            for at in _apart(x, y):
                alpha = part["alpha"].iloc[at]
                axes.annotate(
                    "fixed" if np.isinf(alpha) else f"{alpha:g}", (x[at], y[at]),
                    xytext=(3, -9), textcoords="offset points", fontsize=6, color=GRAY,
                )  # fmt: skip
        better = ["lower" if low else "higher" for low in self.lower]
        axes.set_xlabel(f"{self.measures[0]} ({better[0]} is better)", fontsize=8)
        axes.set_ylabel(f"{self.measures[1]} ({better[1]} is better)", fontsize=8)
        axes.set_title(
            f"{self.n} queries, {self.confidence:.0%} bands, hollow: dominated",
            fontsize=8, loc="left",
        )  # fmt: skip
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(handles.values(), handles.keys(), fontsize=7, frameon=False)
        open_axes(axes)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


def _apart(x: FloatArray, y: FloatArray) -> list[int]:
    """Return points of a sweep that are far enough from each other to be named, ends first."""
    if len(x) < 2:
        return []
    width, height = (max(float(np.ptp(values)), 1e-9) for values in (x, y))
    named: list[int] = []
    for at in [0, len(x) - 1, *range(1, len(x) - 1)]:
        gaps = [np.hypot((x[at] - x[i]) / width, (y[at] - y[i]) / height) for i in named]
        if min(gaps, default=1.0) > _NEAR:
            named.append(at)
    return named
