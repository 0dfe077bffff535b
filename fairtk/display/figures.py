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
class SeriesStyle:
    """How one of several series is drawn.

    Attributes:
        color: of its line and marks.
        marker: of its points.
        dash: of its line.
    """

    color: str
    marker: str
    dash: Any


def series_style(place: int) -> SeriesStyle:
    """Return how the series at a place is drawn: marker and dash tell up to 63 apart in gray.

    Args:
        place: from 0.
    """
    return SeriesStyle(
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
    look: SeriesStyle
    name: str | None = None
    x_error: FloatArray | None = None
    y_error: FloatArray | None = None
    hollow: BoolArray | bool = False
    joined: bool = False
    labels: Sequence[str] = ()


_LONGEST, _LETTERS = 28, 44  # letters of a label beside its point, and beside an axis


def draw_trade_off(axes: Any, every: Iterable[Points], x: str, y: str) -> None:
    """Draw one measure against another.

    Args:
        axes: of a figure of matplotlib.
        every: the points; their labels are placed where they cover neither points nor each other.
        x: what the horizontal axis says.
        y: what the vertical axis says.
    """
    places, bars, labels = [], [], []
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
        texts = [t if len(t) <= _LONGEST else t[: _LONGEST - 1] + "…" for t in points.labels]
        labels += texts or [""] * len(points.x)
        places.append(np.column_stack([points.x, points.y]))
        bars += [_bars(points)]
    if any(labels):
        axes.margins(x=0.12, y=0.1)
        artist = _label_artist()(np.concatenate(places), np.concatenate(bars), labels)
        axes.add_artist(artist)
        artist.set_in_layout(False)
    for text, set_label in ((x, axes.set_xlabel), (y, axes.set_ylabel)):
        set_label(fill(text, _LETTERS), fontsize=9, color=INK, parse_math=False)
    despine(axes)


def _bars(points: Points) -> FloatArray:
    """Return the intervals' left, lower, right and upper ends; shape (lines, 4)."""
    lines = []
    for error, side in ((points.x_error, 0), (points.y_error, 1)):
        if error is not None:
            ends = np.column_stack([points.x, points.y, points.x, points.y])
            ends[:, side] -= error[0]
            ends[:, side + 2] += error[1]
            lines.append(ends)
    return np.concatenate([np.zeros((0, 4)), *lines])


def despine(*every: Any) -> None:
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


_AWAY = (6, 12, 20, 32, 46)  # how far a label may be from its point, in points of print
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_ROUNDS = 3


@cache
def _label_artist() -> type[Any]:
    """Return the class of a trade-off's labels, made when one is drawn.

    Where words fit is known when a figure is drawn, at its size: so they are placed then, each in
    turn at the best of some places around its point while the others stay, in a few rounds.
    """
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    class Labels(Artist):
        zorder = 5

        def __init__(self, places: FloatArray, bars: FloatArray, labels: Sequence[str]) -> None:
            super().__init__()
            self.places, self.bars = places, bars
            self.labels = [(at, label) for at, label in enumerate(labels) if label]
            self.boxes = np.zeros((0, 4))
            """Left, lower, right and upper ends of the labels, as they were drawn last."""

        def draw(self, renderer: Any) -> None:
            figure: Any = self.get_figure()
            axes: Any = self.axes
            words = [Text(0, 0, label, fontsize=8, color=INK, parse_math=False, va="bottom")
                     for _, label in self.labels]  # fmt: skip
            for text in words:
                text.set_figure(figure)
            sizes = np.array([text.get_window_extent(renderer).size for text in words])
            print_point = renderer.points_to_pixels(1.0)
            data = axes.transData
            at, bars = data.transform(self.places), data.transform(self.bars.reshape(-1, 2))
            own = at[[place for place, _ in self.labels]]
            around = np.column_stack([at - 3 * print_point, at + 3 * print_point])
            inside = np.array(axes.bbox.extents)
            self.boxes = place_labels(
                own, sizes, np.concatenate([around, bars.reshape(-1, 4)]), len(around), inside,
                [away * print_point for away in _AWAY],
            )  # fmt: skip
            for text, place, box in zip(words, own, self.boxes, strict=True):
                near = np.clip(place, box[:2], box[2:])
                if np.hypot(*(near - place)) > _AWAY[1] * print_point:
                    line = Line2D(*zip(place, near, strict=True), color=GRAY, linewidth=0.6)
                    line.set_figure(figure)
                    line.draw(renderer)
                text.set_position(tuple(box[:2]))
                text.draw(renderer)

    return Labels


def place_labels(
    points: FloatArray,
    sizes: FloatArray,
    obstacles: FloatArray,
    marks: int,
    inside: FloatArray,
    distances: Sequence[float],
) -> FloatArray:
    """Return where labels stand beside their points: where they cover least.

    Args:
        points: shape (labels, 2).
        sizes: widths and heights of the labels, shape (labels, 2).
        obstacles: boxes that should not be covered: left, lower, right, upper; shape (n, 4).
        marks: how many of these are marks of points; the others are lines, covered rather.
        inside: the box that labels should not leave.
        distances: from a point to its label, the best first.

    Returns:
        Their boxes, shape (labels, 4).
    """
    sides = np.array(_SIDES, dtype=float)
    offsets = np.concatenate([d * sides / np.hypot(*sides.T)[:, None] for d in distances])
    lower = (
        points[:, None] + offsets + (np.tile(sides, (len(distances), 1)) - 1) / 2 * sizes[:, None]
    )
    boxes = np.concatenate([lower, lower + sizes[:, None]], axis=2)  # labels, places, ends
    far = np.repeat(np.arange(len(distances)), len(sides)) + np.tile(
        np.arange(len(sides)) / len(sides), len(distances)
    )
    cost = np.broadcast_to(far, boxes.shape[:2]).copy()
    hits = _overlap(boxes[:, :, None], obstacles, 1.0) > 0
    cost += 60.0 * hits[..., :marks].sum(axis=2) + 8.0 * hits[..., marks:].sum(axis=2)
    cost += 200.0 * ((boxes[..., :2] < inside[:2]) | (boxes[..., 2:] > inside[2:])).sum(axis=2)
    chosen = cost.argmin(axis=1)
    every = np.arange(len(points))
    for _ in range(_ROUNDS):
        for label in every:
            others = boxes[every, chosen][every != label]
            over = (_overlap(boxes[label][:, None], others, 1.0) > 0).sum(axis=1)
            chosen[label] = (cost[label] + 500.0 * over).argmin()
    return np.asarray(boxes[every, chosen])


def _overlap(one: FloatArray, other: FloatArray, room: float) -> FloatArray:
    """Return the area that boxes share, with some room around them; they broadcast."""
    low = np.maximum(one[..., :2], other[..., :2]) - room
    high = np.minimum(one[..., 2:], other[..., 2:]) + room
    return np.asarray(np.clip(high - low, 0.0, None).prod(axis=-1))
