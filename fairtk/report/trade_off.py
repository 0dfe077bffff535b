"""The trade-off figure of a page: one measure against another, as inline SVG.

Unlike a picture, it takes its colors from the page, and the page's script can highlight a system.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from fairtk.display.figures import place_labels
from fairtk.display.tables import shorten
from fairtk.frames import FloatArray
from fairtk.measures.parsing import short_names
from fairtk.report.tables import DIGITS, mean_intervals_of, measure_name

if TYPE_CHECKING:
    from fairtk.experiment import Results

_WIDTH = 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 472, 50, 356  # the ends of the plot
_LETTER, _LINE = 8.0, 16  # mean width of a letter of a label, and the height of a line
_LABEL_LETTERS, _TITLE_LETTERS = 24, 60
_LABEL_DISTANCES = (9, 16, 26, 40, 58)


def main_measures(results: Results) -> tuple[str, str] | None:
    """Return the measures of the first figure, or `None` if there are fewer than two.

    Across is the first measure that is better when lower, else the first; upward is the last of
    the others that is not a product.
    """
    measures = results.measures
    if len(measures) < 2:
        return None
    x = next((m for m in measures if results.better(m) == "lower"), measures[0])
    others = [m for m in measures if m != x]
    simple = [m for m in others if "nDCG_AWRF" not in m and "Product" not in m and " * " not in m]
    return x, (simple or others)[-1]


@dataclass(frozen=True)
class _Axis:
    """From values to places in the figure: `low` lies at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: FloatArray, start: float, end: float) -> _Axis:
        low, high = float(values.min()), float(values.max())
        margin = 0.1 * (high - low) or 0.1 * abs(high) or 0.1
        return cls(low - margin, high + margin, start, end)

    @property
    def ticks(self) -> FloatArray:
        """Round numbers, at most seven."""
        width = self.high - self.low
        power = 10.0 ** math.floor(math.log10(width / 4))
        step = power * next(n for n in (1, 2, 5, 10) if width / (power * n) <= 6)
        return np.arange(math.ceil(self.low / step), math.floor(self.high / step) + 1) * step

    def places(self, values: FloatArray) -> FloatArray:
        share = (np.asarray(values) - self.low) / (self.high - self.low)
        return np.asarray(self.start + share * (self.end - self.start))


def trade_off_svg(results: Results, x: str, y: str, baseline: str) -> str:
    """Draw the systems' means of two measures with intervals over queries.

    Args:
        results: the results.
        x: the label of the measure that goes across.
        y: the label of the measure that goes upward.
        baseline: the system whose mark is a diamond.

    Returns:
        An ``<svg>`` element without ids and styles; ``""`` if no system has both means.
    """
    values = np.array([mean_intervals_of(results.means, results.per_query, m) for m in (x, y)])
    drawn = np.flatnonzero(~np.isnan(values[:, 0]).any(axis=0))
    if not len(drawn):
        return ""
    values = values[:, :, drawn]  # measures; mean, lower and upper end; systems
    ends = np.where(np.isnan(values), values[:, :1], values)
    across = _Axis.around(ends[0], _LEFT, _RIGHT)
    upward = _Axis.around(ends[1], _BOTTOM, _TOP)
    places = np.array([across.places(ends[0]), upward.places(ends[1])])
    short = short_names(results.measures)
    arrow, arrow_box = _better_corner(results.better(x), results.better(y))
    names = [results.systems[i] for i in drawn]
    labels = [shorten(name, _LABEL_LETTERS) for name in names]
    boxes = _label_boxes(places, labels, arrow_box)
    systems = []
    for i, (system, name, label) in enumerate(zip(drawn, names, labels, strict=True)):
        texts = [
            f"{short[m]} {mean:.{DIGITS}f}"
            + ("" if math.isnan(low) else f" [{low:.{DIGITS}f}, {high:.{DIGITS}f}]")
            for m, (mean, low, high) in zip((x, y), values[:, :, i], strict=True)
        ]
        systems.append(
            f'<g class="system" data-system="{system}">'
            f"<title>{escape(name)}: {escape('; '.join(texts))}</title>"
            f"{_mark(places[:, :, i], name == baseline)}{_label(label, places[:, 0, i], boxes[i])}"
            "</g>"
        )
    titles = [_axis_title(measure_name(m), short[m], results.better(m)) for m in (x, y)]
    below = _BOTTOM + 38  # the title of the axis across
    height = below + _LINE * len(titles[0])
    about = escape(f"{short[y]} against {short[x]}, a point per system")
    return (
        f'<svg class="trade-off" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{about}">'
        f"{_grid(across, upward)}{_text_lines(titles[0], below)}"
        f"{_text_lines(titles[1], 16)}{arrow}{''.join(systems)}</svg>"
    )


def _mark(places: FloatArray, is_baseline: bool) -> str:
    """Return a point with its intervals: a diamond for the baseline, else a circle."""
    (x, left, right), (y, low, high) = places
    bars = f'<path class="bar" d="M{left:.1f} {y:.1f}H{right:.1f}M{x:.1f} {low:.1f}V{high:.1f}"/>'
    if is_baseline:
        return f'{bars}<path class="point" d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7-7z"/>'
    return f'{bars}<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'


def _label(label: str, point: FloatArray, box: FloatArray) -> str:
    """Return a label in its box, and a line to its point if that is far away."""
    near = np.clip(point, box[:2], box[2:])
    line = ""
    if math.dist(near, point) > _LABEL_DISTANCES[1]:
        line = f'<path class="bar" d="M{point[0]:.1f} {point[1]:.1f}L{near[0]:.1f} {near[1]:.1f}"/>'
    return f'{line}<text x="{box[0]:.1f}" y="{box[3] - 4:.1f}">{escape(label)}</text>'


def _label_boxes(places: FloatArray, labels: list[str], taken: FloatArray) -> FloatArray:
    """Return a box for each label that covers few points, lines and other labels."""
    points = places[:, 0].T
    sizes = np.array([[_text_width(label), _LINE] for label in labels])
    around = np.concatenate([np.hstack([points - 6, points + 6]), taken[None]])
    (x, left, right), (y, low, high) = places
    bars = np.concatenate([np.stack([left, y, right, y], 1), np.stack([x, high, x, low], 1)])
    inside = np.array([_LEFT, _TOP, _WIDTH, _BOTTOM], dtype=float)
    return place_labels(
        points, sizes, np.concatenate([around, bars]), len(around), inside, _LABEL_DISTANCES
    )


def _text_width(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return _LETTER * (len(text) + 0.8 * wide)


def _better_corner(x: str, y: str) -> tuple[str, FloatArray]:
    """Return an arrow to the corner where both measures are better, and the box that it takes."""
    right, up = x == "higher", y == "higher"
    tip = np.array([_RIGHT - 6 if right else _LEFT + 6, _TOP + 6 if up else _BOTTOM - 6])
    inward = np.array([-1 if right else 1, 1 if up else -1])
    end = tip + 16 * inward
    head = f"M{tip[0]} {tip[1]}h{inward[0] * 8}M{tip[0]} {tip[1]}v{inward[1] * 8}"
    anchor, text = ("end" if right else "start"), (end[0] + 4 * inward[0], end[1] + 4)
    box = np.array(
        [*np.minimum(tip, end + inward * (60, 8)), *np.maximum(tip, end + inward * (60, 8))]
    )
    return (
        f'<g class="better"><path d="{head}M{tip[0]} {tip[1]}L{end[0]} {end[1]}"/>'
        f'<text x="{text[0]}" y="{text[1]}" text-anchor="{anchor}">better</text></g>',
        box,
    )


def _grid(across: _Axis, upward: _Axis) -> str:
    x, y = across.places(across.ticks), upward.places(upward.ticks)
    lines = [f"M{at:.1f} {_TOP}V{_BOTTOM}" for at in x]
    lines += [f"M{_LEFT} {at:.1f}H{_RIGHT}" for at in y]
    texts = [
        f'<text class="tick" x="{at:.1f}" y="{_BOTTOM + 17}" text-anchor="middle">{tick:.4g}</text>'
        for tick, at in zip(across.ticks, x, strict=True)
    ]
    texts += [
        f'<text class="tick" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:.4g}</text>'
        for tick, at in zip(upward.ticks, y, strict=True)
    ]
    return f'<path class="grid" d="{"".join(lines)}"/>{"".join(texts)}'


def _axis_title(name: str, short: str, better: str) -> list[str]:
    """Return the lines of an axis's title: its measure in words, and the better direction."""
    text = f"{name} ({short})" if name and name != short else short
    direction = f"{better} is better"
    if len(text) + len(direction) < _TITLE_LETTERS:
        return [f"{text}, {direction}"]
    return [shorten(text, _TITLE_LETTERS), direction]


def _text_lines(lines: list[str], y: float) -> str:
    x = _LEFT if y > _TOP else 2
    return "".join(
        f'<text class="title" x="{x}" y="{y + _LINE * i}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
