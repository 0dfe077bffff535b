"""The figures of a study: a trade-off, the overfitting question, other settings, single queries."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from fairtk.drawing import BLACK, BLUE, GRAY, LINE, PALETTE, VERMILION, new_figure, open_axes
from fairtk.errors import InputError
from fairtk.studies.fair_qr.cells import BM25, TUNED
from fairtk.studies.fair_qr.findings import Findings
from fairtk.studies.fair_qr.values import FAIRNESS, MEASURES, NDCG

COLORS = {NDCG: BLUE, FAIRNESS: VERMILION, MEASURES[2]: BLACK}
"""Told apart by line and mark in grey, too."""
_OTHERS = tuple(color for color in PALETTE if color not in (VERMILION, BLACK))
_MARKS = {NDCG: ("o", "-"), FAIRNESS: ("s", "--"), MEASURES[2]: ("^", ":")}


def plot_trade_off(results: Findings) -> Any:
    """Return a figure: relevance against fairness of each system, one panel per attribute."""
    figure, panels = _panels(results.table, (5.2, 4.6), share=False)
    for axis, _, rows in panels:
        _curves_of_equal_product(axis, rows)
        # one mark for a system, one color for the model and retriever that it is built on
        built = [name.removesuffix(TUNED).partition(" [") for name in rows["system"]]
        marks = list(dict.fromkeys(kind for kind, _, _ in built))
        others = list(dict.fromkeys(pair for _, _, pair in built if pair))
        for (kind, _, pair), (_, row) in zip(built, rows.iterrows(), strict=True):
            tuned = row["system"].endswith(TUNED)
            own = row["system"] == BM25 or kind.startswith("fair-qr")
            color = COLORS[FAIRNESS] if own else GRAY
            if pair:
                color = _OTHERS[others.index(pair) % len(_OTHERS)]
            axis.errorbar(
                *(row[NDCG], row[FAIRNESS]),
                xerr=_ends(row, NDCG),
                yerr=_ends(row, FAIRNESS),
                fmt="osD^vP*X<>h"[marks.index(kind) % 11],
                color=BLACK if row["system"] == BM25 else color,
                ecolor=LINE,
                elinewidth=0.8,
                markersize=5 if tuned else 7,
                markerfacecolor="white" if not own else None,
                label=row["system"],
            )
        axis.set_xlabel(f"nDCG@{results.settings.cutoff} (more relevant →)")
        axis.set_ylabel(f"AWRF@{results.settings.cutoff} (nearer to the target →)")
    title = "Means and intervals over topics; on the thin curve the product of means is BM25's"
    return _titled(figure, title, columns=4)


def plot_variation(results: Findings, name: str) -> Any:
    """Return a figure: the measures against one setting of FAIR-QR, one panel per attribute.

    Args:
        results: the study.
        name: the setting, e.g. ``"max_iterations"``.

    Raises:
        InputError: the study did not vary it.
    """
    table = results.variations
    rows = table[table["variation"] == name] if len(table) else table
    if rows.empty:
        raise InputError(f"the study did not vary {name!r}")
    figure, panels = _panels(rows, (4.8, 3.8))
    for axis, attribute, part in panels:
        places = np.arange(len(part))
        for shift, measure in zip((-0.06, 0.0, 0.06), MEASURES, strict=True):
            mark, line = _MARKS[measure]
            low, high = (part[f"{measure} {end}"] for end in ("low", "high"))
            axis.errorbar(
                *(places + shift, part[measure]),
                yerr=np.clip([part[measure] - low, high - part[measure]], 0.0, None),
                fmt=mark + line,
                color=COLORS[measure],
                elinewidth=0.8,
                capsize=2,
                label=f"{measure}@{results.settings.cutoff}",
            )
            base = _baseline(results, attribute, measure)
            axis.axhline(base, color=COLORS[measure], linewidth=0.7, alpha=0.5)
        axis.set_xticks(places, part["setting"])
        axis.set_xlabel(name.replace("_", " "))
    figure.axes[0].set_ylabel("mean over topics")
    return _titled(figure, f"FAIR-QR by {name.replace('_', ' ')}; thin lines: BM25", columns=3)


def plot_iterations(results: Findings) -> Any:
    """Return a figure: how many topics kept how many refinements, one panel per attribute."""
    traces = results.traces
    traces = traces[(traces["variation"] == "") & (traces["system"] == "fair-qr")]
    if traces.empty:
        raise InputError("the study has no trace of FAIR-QR")
    figure, panels = _panels(traces, (4.0, 3.2))
    for axis, _, rows in panels:
        later = rows["iteration"] > 0
        counts = {
            "asked": later.groupby(rows["qid"]).sum(),
            "kept": (later & rows["kept"].astype(bool)).groupby(rows["qid"]).sum(),
        }
        most = int(max(counted.max() for counted in counts.values()))
        for shift, (name, counted) in zip((-0.2, 0.2), counts.items(), strict=True):
            heights = np.bincount(counted.to_numpy(dtype=np.int64), minlength=most + 1)
            color = {"asked": "#999999", "kept": COLORS[NDCG]}[name]
            axis.bar(np.arange(most + 1) + shift, heights, 0.38, color=color, label=name)
        axis.set_xticks(range(most + 1))
        axis.set_xlabel("refinements of a topic")
    figure.axes[0].set_ylabel("topics")
    figure.axes[-1].legend(fontsize="small", frameon=False)
    return figure


def need_matplotlib() -> None:
    """Raise a `MissingExtraError` unless matplotlib is installed."""
    _figure((1.0, 1.0))


def _figure(size: tuple[float, float]) -> Any:
    return new_figure(size, "the figures of a study")


def _panels(
    frame: pd.DataFrame, size: tuple[float, float], share: bool = True
) -> tuple[Any, list[tuple[Any, str, pd.DataFrame]]]:
    """Return a figure, and a panel for each attribute with the attribute's rows.

    Args:
        frame: rows with ``attribute``.
        size: of a panel, in inches.
        share: whether the panels have one vertical axis.
    """
    parts = list(frame.groupby("attribute", sort=False))
    figure = _figure((size[0] * len(parts), size[1]))
    axes = np.atleast_1d(figure.subplots(1, len(parts), sharey=share))
    for axis, (attribute, _) in zip(axes, parts, strict=True):
        axis.set_title(attribute, fontsize="medium")
    open_axes(*axes)
    return figure, [(axis, str(name), rows) for axis, (name, rows) in zip(axes, parts, strict=True)]


def _titled(figure: Any, title: str, columns: int) -> Any:
    """Return a figure with a title, and one legend below its panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize="small")
    figure.suptitle(fill(title, 48 * len(figure.axes)), fontsize="medium")
    return figure


def _ends(row: pd.Series, measure: str) -> Any:
    value = row[measure]
    ends = [[value - row[f"{measure} low"]], [row[f"{measure} high"] - value]]
    return np.maximum(ends, 0.0) if np.isfinite(ends).all() else None


def _curves_of_equal_product(axis: Any, rows: pd.DataFrame) -> None:
    """Draw the product of BM25's means as a curve: above it, the product of means is larger."""
    base = rows[rows["system"] == BM25].iloc[0]
    x = np.linspace(rows[NDCG].min() * 0.97, rows[NDCG].max() * 1.03, 60)
    x = x[x > 0]  # a system that finds nothing has 0
    axis.plot(x, base[NDCG] * base[FAIRNESS] / x, color="#bbbbbb", linewidth=0.9, zorder=0)
    ends = rows[[FAIRNESS, f"{FAIRNESS} low", f"{FAIRNESS} high"]]
    low, high = ends.min().min(), ends.max().max()
    if not np.isfinite([low, high]).all():  # undefined, as the report says
        return
    room = max(high - low, 0.02) * 0.1
    axis.set_ylim(low - room, min(high + room, 1.005))


def _baseline(results: Findings, attribute: str, measure: str) -> float:
    table = results.table
    here = (table["attribute"] == attribute) & (table["system"] == BM25)
    return float(table.loc[here, measure].iloc[0])
