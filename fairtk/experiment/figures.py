"""Figures of results; matplotlib is loaded when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairtk.errors import MissingExtraError, NotFoundError
from fairtk.frames.columns import QID
from fairtk.statistics import mean_intervals

if TYPE_CHECKING:
    from fairtk.experiment.results import Results

_BLUE = "#0072B2"


def trade_off(results: Results, x: str, y: str, axes: Any = None) -> Any:
    """Draw the means of two measures, one point per system, with intervals over the queries.

    Args:
        results: the results.
        x: the measure of the horizontal axis, as `Results.means` calls it.
        y: the measure of the vertical axis.
        axes: where to draw; None: a new figure.

    Returns:
        The matplotlib axes.

    Raises:
        NotFoundError: there is no such measure.
        MissingExtraError: matplotlib is not installed.
    """
    for name in (x, y):
        if name not in results.measures:
            raise NotFoundError("measure", name, results.measures)
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "plot_trade_off") from None
    if axes is None:
        _, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    means = results.means
    ends = {}
    for name in (x, y):
        values = results.per_query[results.per_query["measure"] == name]
        table = values.pivot(index="system", columns=QID, values="value").loc[means.index]
        low, high = mean_intervals(table.to_numpy(), method="t")
        middle = means[name].to_numpy()
        ends[name] = abs(middle - low), abs(high - middle)
    axes.errorbar(
        means[x], means[y], xerr=ends[x], yerr=ends[y],
        fmt="o", color=_BLUE, ecolor="0.75", elinewidth=0.8,
    )  # fmt: skip
    for system, row in means.iterrows():
        axes.annotate(
            str(system), (row[x], row[y]), xytext=(5, 5), textcoords="offset points", fontsize=8
        )
    axes.set_xlabel(f"{x} ({results.better(x)} is better)")
    axes.set_ylabel(f"{y} ({results.better(y)} is better)")
    axes.spines[["top", "right"]].set_visible(False)
    return axes
