"""Figures: one style for all of them, and files that are equal for equal figures."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from fairtk.errors import MissingExtraError, ParameterError
from fairtk.frames import BoolArray, FloatArray
from fairtk.io.atomic import atomic_write

BLUE, VERMILION, BLACK, ORANGE = "#0072B2", "#D55E00", "#000000", "#E69F00"
GRAY = "#595959"
"""Of marks and words that stand back; its contrast with white is 7 to 1."""
INK = "#222222"
"""Of words."""
LINE = "#CCCCCC"
"""Of intervals, grids and helping lines, never of words."""

PALETTE = (BLUE, VERMILION, BLACK, "#009E73", "#CC79A7", "#56B4E9", ORANGE, "#777777")
"""Okabe and Ito's colors, those with most contrast first."""
_MARKERS = "os^DvPX<>"
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
_SETTINGS = {"svg.hashsalt": "fairtk", "svg.fonttype": "path", "pdf.fonttype": 42}
_DATES = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


@dataclass(frozen=True)
class Series:
    """How one of several series is drawn.

    Attributes:
        color: of its line and marks.
        marker: of its points.
        dash: of its line.
    """

    color: str
    marker: str
    dash: Any


def series(place: int) -> Series:
    """Return how the series at a place is drawn: marker and dash tell up to 63 apart in gray.

    Args:
        place: from 0.
    """
    return Series(
        PALETTE[place % len(PALETTE)],
        _MARKERS[place % len(_MARKERS)],
        _DASHES[place % len(_DASHES)],
    )


def new_figure(size: tuple[float, float], where: str) -> Any:
    """Return an empty ``matplotlib.figure.Figure``, which needs no screen; notebooks show it.

    Args:
        size: width and height in inches.
        where: what is drawn, for the message.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("matplotlib", "report", where) from None
    return _shown_figure()(figsize=size, layout="constrained")


@dataclass(frozen=True)
class Points:
    """Points of a trade-off that look alike: systems, or one system from setting to setting.

    Attributes:
        x: their places, shape (n,).
        y: their heights, shape (n,).
        look: how they are drawn.
        name: of all of them, for a legend.
        x_error: how far intervals reach below and above `x`, shape (2, n); None: no intervals.
        y_error: likewise of `y`.
        hollow: which of them are not filled, shape (n,) or one for all.
        joined: whether a line leads from each to the next.
        labels: what stands beside each; empty: nothing does.
    """

    x: FloatArray
    y: FloatArray
    look: Series
    name: str | None = None
    x_error: FloatArray | None = None
    y_error: FloatArray | None = None
    hollow: BoolArray | bool = False
    joined: bool = False
    labels: Sequence[str] = ()


_LONGEST, _LETTERS = 28, 44  # letters of a label beside its point, and beside an axis
_NEAR = 0.2  # of the axis


def draw_trade_off(axes: Any, every: Iterable[Points], x: str, y: str) -> None:
    """Draw one measure against another.

    Args:
        axes: of a figure of matplotlib.
        every: the points.
        x: what the horizontal axis says.
        y: what the vertical axis says.
    """
    for points in every:
        color, marker = points.look.color, points.look.marker
        hollow = np.broadcast_to(points.hollow, len(points.x))
        axes.errorbar(
            points.x, points.y, xerr=points.x_error, yerr=points.y_error, fmt="none",
            ecolor=color, elinewidth=0.8, alpha=0.5, zorder=2,
        )  # fmt: skip
        axes.plot(
            points.x, points.y, ls=points.look.dash if points.joined else "none", linewidth=1.3,
            marker=marker, markersize=5, markerfacecolor="white" if hollow.all() else color,
            color=color, label=points.name, zorder=3,
        )  # fmt: skip
        axes.plot(
            points.x[hollow], points.y[hollow], marker, color=color, markersize=6,
            markerfacecolor="white", zorder=4,
        )  # fmt: skip
        _draw_labels(axes, points)
    for text, set_label in ((x, axes.set_xlabel), (y, axes.set_ylabel)):
        set_label(fill(text, _LETTERS), fontsize=8, color=INK, parse_math=False)
    open_axes(axes)


def _draw_labels(axes: Any, points: Points) -> None:
    if not any(points.labels):
        return
    axes.margins(x=0.2)
    order = np.argsort(points.x, kind="stable")
    following = np.append(points.x[order][1:], math.inf)[np.argsort(order)]
    # on the right a label would be on the neighbor's
    near = following - points.x < _NEAR * np.ptp(points.x)
    for place, label in enumerate(points.labels):
        left = bool(near[place])
        axes.annotate(
            label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…",
            (points.x[place], points.y[place]), xytext=(-5 if left else 5, 5),
            ha="right" if left else "left", textcoords="offset points", fontsize=7, color=INK,
            parse_math=False,
        )  # fmt: skip


def open_axes(*every: Any) -> None:
    """Take away the lines at the top and the right of axes."""
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)


def write_figure(figure: Any, path: str | PathLike[str]) -> Path:
    """Write a figure; equal figures give equal files.

    Args:
        figure: a ``matplotlib.figure.Figure``.
        path: the file, which ends with .svg, .pdf or .png; its folder must exist.

    Returns:
        The file.

    Raises:
        ParameterError: the name ends otherwise.
        InputError: there is no such folder.
    """
    import matplotlib

    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in _DATES:
        raise ParameterError(f"a figure's file ends with .svg, .pdf or .png; found {target.name!r}")
    with matplotlib.rc_context(_SETTINGS), atomic_write(target) as temporary:
        figure.savefig(temporary, format=kind, metadata=_DATES[kind], dpi=150)
    return target


def svg_text(figure: Any) -> str:
    """Return a figure as SVG; equal figures give equal texts.

    Args:
        figure: a ``matplotlib.figure.Figure``, or a text, which is returned as it is.
    """
    if isinstance(figure, str):
        return figure
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "a figure of a report") from None
    stream = io.StringIO()
    with matplotlib.rc_context(_SETTINGS):
        figure.savefig(stream, format="svg", metadata=_DATES["svg"])
    figure.set_layout_engine("none")  # laid out again, it would come out a little different
    return stream.getvalue()


_WIDTH, _HEIGHT, _BINS = 60, 14, 12


def spread(values: Sequence[float], low: float, high: float) -> str:
    """Draw how values lie between two bounds, as bars; undefined ones are left out.

    Args:
        values: the values.
        low: the left end.
        high: the right end.
    """
    counts = [0] * _BINS
    width = high - low
    for value in values:
        if math.isfinite(value):
            place = int((value - low) / width * _BINS) if width > 0 else 0
            counts[min(max(place, 0), _BINS - 1)] += 1
    most, step = max(counts), _WIDTH / _BINS
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{_HEIGHT * (1 - n / most):.1f}" width="{step - 1:.1f}" '
        f'height="{_HEIGHT * n / most:.1f}"/>'
        for i, n in enumerate(counts)
        if n
    )
    return _svg(bars, f"{sum(counts)} values from {low:.3g} to {high:.3g}")


def against(value: float, target: float, high: float) -> str:
    """Draw a value as a bar from 0, and what was wanted as a line across.

    Args:
        value: the length of the bar.
        target: the place of the line.
        high: the right end.
    """
    long, at = (_WIDTH * min(max(v / high, 0), 1) if high > 0 else 0 for v in (value, target))
    bar = f'<rect x="0" y="4" width="{long:.1f}" height="{_HEIGHT - 8}" fill-opacity="0.5"/>'
    mark = f'<rect x="{min(at, _WIDTH - 2):.1f}" y="0" width="2" height="{_HEIGHT}"/>'
    return _svg(bar + mark, f"{value:.3g}, target {target:.3g}")


def _svg(inside: str, label: str) -> str:
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" fill="currentColor" role="img" '
        f'aria-label="{label}">{inside}</svg>'
    )


@cache
def _shown_figure() -> type[Any]:
    """Return the class of figures that notebooks show as a picture; made when one is drawn."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=100)
            return picture.getvalue()

    return ShownFigure
