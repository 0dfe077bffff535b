"""Figures of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairtk.display import Points, draw_trade_off, new_figure, series_style
from fairtk.measures.info import MeasureInfo
from fairtk.report.tables import mean_intervals_of

if TYPE_CHECKING:
    from fairtk.experiment.results import Results


def plot_trade_off(results: Results, x: MeasureInfo, y: MeasureInfo) -> Any:
    """Draw the means of two measures; see `Results.plot_trade_off`.

    Args:
        results: the results.
        x: the measure of the horizontal axis.
        y: the measure of the vertical axis.
    """
    figure = new_figure((5, 4), "plot_trade_off")
    ends = [mean_intervals_of(results, measure)[:3] for measure in (x, y)]
    reach = [np.abs(np.array([low, high]) - mean) for mean, low, high in ends]
    points = Points(
        *(ends[0][0], ends[1][0], series_style(0)),
        x_error=reach[0],
        y_error=reach[1],
        labels=results.systems,
    )
    sides = x.better, y.better
    labels = [f"{name} ({side} is better)" for name, side in zip((x, y), sides, strict=True)]
    draw_trade_off(figure.subplots(), [points], *labels, better=sides)
    return figure
