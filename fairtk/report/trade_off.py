"""The layout of a page's trade-off figure, which `page/trade_off.html` draws as inline SVG.

Unlike an image, inline SVG uses the colors of the page, and the script can highlight a system.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtk.display.figures import CORNERS, place_labels
from fairtk.display.tables import shorten, text_width
from fairtk.frames import FloatArray
from fairtk.measures.info import MeasureInfo
from fairtk.report.tables import axis_text, mean_intervals_of

if TYPE_CHECKING:
    from fairtk.experiment.results import Results

_WIDTH = 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 464, 50, 356  # the ends of the plot
_LETTER, _LINE = 9.2, 18  # mean width of a letter of a label on a phone, and the height of a line
_LABEL_LETTERS, _TITLE_LETTERS = 24, 60
_LABEL_DISTANCES = (9, 16, 26, 40, 58)


def main_measures(results: Results) -> tuple[MeasureInfo, MeasureInfo] | None:
    """Return the measures of the first figure, or `None` if there are fewer than two.

    x is the first measure for which lower is better, or the first one. y is the last of the others
    that is not computed from several measures.
    """
    measures = results.measures
    if len(measures) < 2:
        return None
    x = next((m for m in measures if m.better == "lower"), measures[0])
    others = [m for m in measures if m != x]
    simple = [m for m in others if len(m.parts) < 2]
    return x, (simple or others)[-1]


def trade_off(
    results: Results, x: MeasureInfo, y: MeasureInfo, baseline: str
) -> dict[str, Any] | None:
    """Return the layout of the means of two measures, with intervals over queries.

    Args:
        results: the results.
        x: the horizontal measure.
        y: the vertical measure.
        baseline: the system that others are compared with.

    Returns:
        The variables of the template; `None` if no system has both means.
    """
    values = np.array([mean_intervals_of(results, m)[:3] for m in (x, y)])
    drawn = np.flatnonzero(~np.isnan(values[:, 0]).any(axis=0))
    if not len(drawn):
        return None
    values = values[:, :, drawn]  # measures; mean, lower and upper end; systems
    values = np.where(np.isnan(values), values[:, :1], values)
    across, x_ticks = _scaled(values[0], _LEFT, _RIGHT)
    upward, y_ticks = _scaled(values[1], _BOTTOM, _TOP)
    names = [results.systems[i] for i in drawn]
    labels = [shorten(name, _LABEL_LETTERS) for name in names]
    sides = x.better, y.better
    better = (
        _RIGHT - 60 if sides[0] == "higher" else _LEFT + 4,
        _TOP + 14 if sides[1] == "higher" else _BOTTOM - 6,
    )
    boxes = _label_boxes(across, upward, labels, better)
    return {
        "width": _WIDTH,
        "ends": (_LEFT, _RIGHT, _TOP, _BOTTOM),
        "titles": [_axis_title(measure) for measure in (x, y)],
        "ticks": (x_ticks, y_ticks),
        "better": (*better, CORNERS[sides]),
        "systems": [
            {
                "index": index,
                "name": name,
                "is_baseline": name == baseline,
                "label": label,
                "x": at_x,
                "y": at_y,
                "box": box,
                "near": _near((at_x[0], at_y[0]), box),
            }
            for index, name, label, at_x, at_y, box in zip(
                drawn, names, labels, across.T.tolist(), upward.T.tolist(), boxes, strict=True
            )
        ],
    }


def _scaled(
    values: FloatArray, start: float, end: float
) -> tuple[FloatArray, list[tuple[float, str]]]:
    """Return the positions of values between two ends, and the positions and texts of ticks."""
    low, high = float(values.min()), float(values.max())
    margin = 0.1 * (high - low) or 0.1 * abs(high) or 0.1
    low, high = low - margin, high + margin
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = power * next(n for n in (1, 2, 5, 10) if (high - low) / (power * n) <= 6)
    ticks = np.arange(math.ceil(low / step), math.floor(high / step) + 1, dtype=np.float64) * step

    def scale(numbers: FloatArray) -> FloatArray:
        return np.round(start + (numbers - low) / (high - low) * (end - start), 1)

    return scale(values), [
        (position, f"{tick:.4g}") for position, tick in zip(scale(ticks), ticks, strict=True)
    ]


def _label_boxes(
    x: FloatArray, y: FloatArray, labels: list[str], better: tuple[float, float]
) -> list[list[float]]:
    """Return a box for each label that covers few points, intervals and other labels.

    Args:
        x: horizontal positions of means, lower and upper ends, shape (3, systems).
        y: vertical positions, shape (3, systems).
        labels: one per system.
        better: the position of the mark of the better corner.
    """
    points = np.column_stack([x[0], y[0]])
    marks = [
        np.hstack([points - 6, points + 6]),
        [[better[0], better[1] - 12, better[0] + 56, better[1]]],
    ]
    bars = [np.column_stack([x[1], y[0], x[2], y[0]]), np.column_stack([x[0], y[2], x[0], y[1]])]
    widths = [_LETTER * text_width(label) for label in labels]
    boxes = place_labels(
        points,
        np.column_stack([widths, np.full(len(labels), _LINE)]),
        np.concatenate([*marks, *bars]),
        len(points) + 1,
        np.array([_LEFT, _TOP, _WIDTH, _BOTTOM], dtype=float),
        _LABEL_DISTANCES,
    )
    return [[round(end, 1) for end in box] for box in boxes.tolist()]


def _near(point: tuple[float, float], box: list[float]) -> list[float] | None:
    """Return the end of a line from a point to its label, or `None` if they are close."""
    near = np.clip(point, box[:2], box[2:])
    return near.tolist() if math.dist(near, point) > _LABEL_DISTANCES[1] else None


def _axis_title(measure: MeasureInfo) -> list[str]:
    """Return the lines of an axis title."""
    name, better = measure.full_name, measure.better
    title = axis_text(measure)
    if len(title) <= _TITLE_LETTERS:
        return [title]
    if name in ("", measure):
        return [shorten(measure, _TITLE_LETTERS), f"{better} is better"]
    return [f"{name}, {better} is better", shorten(measure, _TITLE_LETTERS)]
