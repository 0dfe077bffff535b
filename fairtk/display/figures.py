"""Figures in one style, written as reproducible files."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fairtk import checks
from fairtk.display.tables import shorten, wrap_label
from fairtk.errors import MissingExtraError, ParameterError
from fairtk.frames import BoolArray, FloatArray
from fairtk.io.atomic import atomic_write
from fairtk.wording import printable

BLUE, VERMILION, BLACK, ORANGE = "#0072B2", "#D55E00", "#000000", "#E69F00"
GRAY = "#595959"
"""The color of secondary marks and text; its contrast with white is 7 to 1."""
INK = "#222222"
"""The color of text."""
LINE = "#CCCCCC"
"""The color of intervals, grids and guide lines, never of text."""

PALETTE = (BLUE, VERMILION, BLACK, "#009E73", "#CC79A7", "#56B4E9", ORANGE, "#777777")
"""Okabe and Ito's colors, ordered by contrast."""
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
    """The style of a series.

    Attributes:
        color: the color of the line and the markers.
        marker: the marker of the points.
        dash: the dash pattern of the line.
    """

    color: str
    marker: str
    dash: Any


def series_style(place: int) -> SeriesStyle:
    """Return the style of a series; markers and dashes distinguish up to 63 series in gray.

    Args:
        place: the index of the series.
    """
    return SeriesStyle(
        PALETTE[place % len(PALETTE)],
        _MARKERS[place % len(_MARKERS)],
        _DASHES[place % len(_DASHES)],
    )


def new_figure(size: tuple[float, float], where: str) -> Any:
    """Return an empty ``matplotlib.figure.Figure``, which needs no display.

    Args:
        size: width and height in inches.
        where: the name of the figure, for the error.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("matplotlib", "report", where) from None
    return _notebook_figure()(figsize=size, layout="constrained")


@dataclass(frozen=True)
class Points:
    """Points of a trade-off with the same style: systems, or the settings of one system.

    Attributes:
        x: horizontal positions, shape (n,).
        y: vertical positions, shape (n,).
        look: the style.
        name: the entry in a legend.
        x_error: lengths of intervals below and above `x`, shape (2, n); `None` for no intervals.
        y_error: the same for `y`.
        hollow: whether points are not filled, shape (n,) or one value for all.
        joined: whether a line connects the points.
        labels: the labels of the points, empty for no labels.
        system: the index of the system, for `name_parts`; `None` for no ids.
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
    system: int | None = None


_MAX_LABEL, _AXIS_WIDTH = 28, 44  # characters of a point's label, and of a line beside an axis


CORNERS = {
    ("higher", "higher"): "better ↗",
    ("higher", "lower"): "better ↘",
    ("lower", "higher"): "↖ better",
    ("lower", "lower"): "↙ better",
}
"""The mark of the better corner of a trade-off, by the better directions of x and y."""


def draw_trade_off(
    axes: Any, every: Iterable[Points], x: str, y: str, *, better: tuple[str, str] | None = None
) -> None:
    """Draw one measure against another.

    Args:
        axes: the axes of a matplotlib figure.
        every: the points; labels are placed so that they do not overlap.
        x: the label of the horizontal axis.
        y: the label of the vertical axis.
        better: ``"higher"`` or ``"lower"`` for each axis, to mark the better corner; `None` for no
            mark.
    """
    positions, bars, labels = [], [], []
    for points in every:
        color, marker = points.look.color, points.look.marker
        hollow = np.broadcast_to(points.hollow, len(points.x))
        axes.errorbar(
            points.x, points.y, xerr=points.x_error, yerr=points.y_error, fmt="none",
            ecolor=color, elinewidth=0.8, alpha=0.5, zorder=2,
        )  # fmt: skip
        drawn = axes.plot(
            points.x, points.y, ls=points.look.dash if points.joined else "none", linewidth=1.3,
            marker=marker, markersize=5, markerfacecolor="white" if hollow.all() else color,
            color=color, label=points.name, zorder=3,
        )  # fmt: skip
        drawn += axes.plot(
            points.x[hollow], points.y[hollow], marker, color=color, markersize=6,
            markerfacecolor="white", zorder=4,
        )  # fmt: skip
        if points.system is not None:
            name_parts(points.system, "points", drawn)
        labels += [shorten(text, _MAX_LABEL) for text in points.labels] or [""] * len(points.x)
        positions.append(np.column_stack([points.x, points.y]))
        bars.append(_bars(points))
    if any(labels):
        axes.margins(x=0.12, y=0.1)
        artist = _label_artist()(np.concatenate(positions), np.concatenate(bars), labels)
        axes.add_artist(artist)
        artist.set_in_layout(False)
    if better is not None:
        right, top = (float(side == "higher") for side in better)
        axes.text(
            right, top, CORNERS[better], transform=axes.transAxes, fontsize=8, color=GRAY,
            ha="right" if right else "left", va="bottom",
        )  # fmt: skip
    for text, set_label in ((x, axes.set_xlabel), (y, axes.set_ylabel)):
        set_label(wrap_label(text, _AXIS_WIDTH), fontsize=9, color=INK, parse_math=False)
    despine(axes)


def _bars(points: Points) -> FloatArray:
    """Return left, lower, right and upper ends of the intervals; shape (n_intervals, 4)."""
    lines = []
    for error, side in ((points.x_error, 0), (points.y_error, 1)):
        if error is not None:
            ends = np.column_stack([points.x, points.y, points.x, points.y])
            ends[:, side] -= error[0]
            ends[:, side + 2] += error[1]
            lines.append(ends)
    return np.concatenate([np.zeros((0, 4)), *lines])


def draw_shares(
    names: Sequence[str],
    shares: Mapping[str, FloatArray],
    targets: Sequence[FloatArray],
    label: str,
    where: str,
) -> Any:
    """Return a figure with the shares of several systems next to each other, as bars.

    Args:
        names: what has the shares, from the top.
        shares: the shares by system, each of shape (n_names,).
        targets: the target shares, drawn as marks: none, one for all systems, or one for each.
        label: the name of the target.
        where: the name of the figure, for an error.
    """
    height = 0.8 / len(shares)
    figure = new_figure((5.5, 1.2 + 0.2 * len(names) * (1 + len(shares))), where)
    axes, places = figure.subplots(), np.arange(len(names))
    for index, (name, values) in enumerate(shares.items()):
        axes.barh(
            places + (index - (len(shares) - 1) / 2) * height, values, 0.9 * height,
            color=series_style(index).color, label=shorten(printable(name), _MAX_LABEL),
        )  # fmt: skip
    if targets:
        from matplotlib.patheffects import withStroke

        half = 0.45 if len(targets) == 1 else height / 2
        shifts = (np.arange(len(targets)) - (len(targets) - 1) / 2) * height
        middle = np.add.outer(shifts, places).ravel()
        marks = axes.vlines(
            np.concatenate(targets), middle - half, middle + half, INK, linewidth=2, label=label
        )
        marks.set_path_effects([withStroke(linewidth=4, foreground="white")])  # seen on dark bars
    axes.set_yticks(places, [wrap_label(printable(name), _MAX_LABEL) for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("share", fontsize=9, color=INK)
    texts = [*axes.get_yticklabels(), *axes.legend(fontsize=8, frameon=False).get_texts()]
    for text in texts:
        text.set_parse_math(False)
    despine(axes)
    return figure


def name_parts(system: int, part: str, artists: Iterable[Any]) -> None:
    """Give the artists of a system ids in SVG, so that a page can highlight them together.

    Args:
        system: the index of the system.
        part: what the artists show.
        artists: the artists.
    """
    for number, artist in enumerate(artists):
        artist.set_gid(f"system-{system}-{part}-{number}")


def despine(*every: Any) -> None:
    """Remove the top and right spines of axes."""
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)


def figure_format(path: str | PathLike[str]) -> str:
    """Return the format of a figure by the suffix of its file.

    Raises:
        ParameterError: the suffix is not supported.
    """
    target = checks.path("path", path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in _DATES:
        raise ParameterError(f"a figure must be an .svg, .pdf or .png file, got {target.name!r}")
    return kind


def write_figure(figure: Any, path: str | PathLike[str]) -> Path:
    """Write a figure to a file; equal figures give equal bytes.

    Args:
        figure: a ``matplotlib.figure.Figure``.
        path: an .svg, .pdf or .png file; its folder must exist.

    Returns:
        The path of the file.

    Raises:
        ParameterError: the suffix is not supported.
        InputError: the folder does not exist.
    """
    import matplotlib

    target, kind = checks.path("path", path), figure_format(path)
    with matplotlib.rc_context(_SETTINGS), atomic_write(target) as temporary:
        figure.savefig(temporary, format=kind, metadata=_DATES[kind], dpi=150)
    return target


def svg_text(figure: Any) -> str:
    """Return a figure as SVG; equal figures give equal text.

    Args:
        figure: a ``matplotlib.figure.Figure``, or SVG, which is returned unchanged.
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
    figure.set_layout_engine("none")  # a second layout would differ slightly
    return stream.getvalue()


_WIDTH, _HEIGHT, _BINS = 60, 14, 12


def draw_histogram(values: Sequence[float], low: float, high: float) -> str:
    """Return a small histogram of values as SVG; values that are not finite are skipped."""
    counts = [0] * _BINS
    width = high - low
    for value in values:
        if math.isfinite(value):
            index = int((value - low) / width * _BINS) if width > 0 else 0
            counts[min(max(index, 0), _BINS - 1)] += 1
    most, step = max(counts), _WIDTH / _BINS
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{_HEIGHT * (1 - n / most):.1f}" width="{step - 1:.1f}" '
        f'height="{_HEIGHT * n / most:.1f}"/>'
        for i, n in enumerate(counts)
        if n
    )
    return _svg(bars, f"{sum(counts)} values from {low:.3g} to {high:.3g}")


def draw_target_bar(value: float, target: float, high: float) -> str:
    """Return SVG with a value as a bar from 0 to at most `high`, and a target as a line."""
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
def _notebook_figure() -> type[Any]:
    """Return the class of figures that notebooks show as images."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=100)
            return picture.getvalue()

    return NotebookFigure


_AWAY = (6, 12, 20, 32, 46)  # possible distances of a label from its point, in points
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_ROUNDS = 3


@cache
def _label_artist() -> type[Any]:
    """Return the class of a trade-off's labels, which are placed when the figure is drawn."""
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    class Labels(Artist):
        zorder = 5

        def __init__(self, positions: FloatArray, bars: FloatArray, labels: Sequence[str]) -> None:
            super().__init__()
            self.positions, self.bars = positions, bars
            self.labels = [(index, label) for index, label in enumerate(labels) if label]
            self.boxes = np.zeros((0, 4))
            """Left, lower, right and upper ends of the labels when last drawn."""

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
            points, bars = data.transform(self.positions), data.transform(self.bars.reshape(-1, 2))
            labeled = points[[index for index, _ in self.labels]]
            around = np.column_stack([points - 3 * print_point, points + 3 * print_point])
            inside = np.array(axes.bbox.extents)
            self.boxes = place_labels(
                labeled, sizes, np.concatenate([around, bars.reshape(-1, 4)]), len(around), inside,
                [away * print_point for away in _AWAY],
            )  # fmt: skip
            for text, point, box in zip(words, labeled, self.boxes, strict=True):
                near = np.clip(point, box[:2], box[2:])
                if np.hypot(*(near - point)) > _AWAY[1] * print_point:
                    line = Line2D(*zip(point, near, strict=True), color=GRAY, linewidth=0.6)
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
    """Return the boxes of labels next to their points, with the least overlap.

    In a few rounds, each label in turn moves to its best position while the others stay.

    Args:
        points: positions of the labeled points; shape (n_labels, 2).
        sizes: widths and heights of the labels; shape (n_labels, 2).
        obstacles: left, lower, right and upper ends of boxes to avoid; shape (n, 4).
        marks: the number of obstacles, the first ones, that are points; others are lines, which may
            rather be covered.
        inside: the box that labels should not leave; shape (4,).
        distances: possible distances between a point and its label, best first.

    Returns:
        The boxes; shape (n_labels, 4).
    """
    sides = np.array(_SIDES, dtype=float)
    offsets = np.concatenate([d * sides / np.hypot(*sides.T)[:, None] for d in distances])
    lower = (
        points[:, None] + offsets + (np.tile(sides, (len(distances), 1)) - 1) / 2 * sizes[:, None]
    )
    boxes = np.concatenate([lower, lower + sizes[:, None]], axis=2)  # labels, positions, ends
    far = np.repeat(np.arange(len(distances)), len(sides)) + np.tile(
        np.arange(len(sides)) / len(sides), len(distances)
    )
    cost = np.broadcast_to(far, boxes.shape[:2]).copy()
    hits = _overlaps(boxes[:, :, None], obstacles)
    cost += 60.0 * hits[..., :marks].sum(axis=2) + 8.0 * hits[..., marks:].sum(axis=2)
    cost += 200.0 * ((boxes[..., :2] < inside[:2]) | (boxes[..., 2:] > inside[2:])).sum(axis=2)
    chosen = cost.argmin(axis=1)
    every = np.arange(len(points))
    for _ in range(_ROUNDS):
        for label in every:
            others = boxes[every, chosen][every != label]
            over = _overlaps(boxes[label][:, None], others).sum(axis=1)
            chosen[label] = (cost[label] + 500.0 * over).argmin()
    return np.asarray(boxes[every, chosen])


def _overlaps(boxes: FloatArray, others: FloatArray) -> BoolArray:
    """Return whether boxes with a margin of 1 overlap; the arrays broadcast."""
    low = np.maximum(boxes[..., :2], others[..., :2]) - 1.0
    high = np.minimum(boxes[..., 2:], others[..., 2:]) + 1.0
    return np.asarray((high > low).all(axis=-1))
