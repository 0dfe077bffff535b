"""`Explanation`: the parts of a measure's cost as frames, text and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import pandas as pd

from fairtk.drawing import against
from fairtk.explanation.cost_frames import CostFrames
from fairtk.explanation.plot import draw
from fairtk.files.renderings import frame_html

_SHOWN = 12


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(CostFrames):
    """Where the cost of a measure comes from; made by `fairtk.explain`.

    The frames of `CostFrames`; printed, their costliest rows; and a plot.
    """

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw exposure beside target, and cost by group, rank band and query.

        Args:
            path: file to write, e.g. ``explain.png``; None: none.

        Returns:
            A ``matplotlib.figure.Figure``.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        return draw(self, path)

    def __str__(self) -> str:
        return _written(self, _SHOWN)

    def __repr__(self) -> str:
        than = "" if self.before is None else f", {self.baseline_total:.4f} before"
        n = int(self.defined.sum())
        return f"<Explanation of {self.measure!r}: cost {self.total:.4f}{than} over {n} queries>"

    def _repr_html_(self) -> str:
        about = f"{self!r}: by group (drawn: exposure, and the target as a line); .by_rank and "
        return frame_html(self.by_group, about + ".by_query are others", pictures=_drawn(self))


def _drawn(explanation: Explanation) -> list[list[str]]:
    """Return a picture for the column ``exposure`` of each group."""
    frame = explanation.by_group
    columns = list(frame.columns)
    high = float(frame[["exposure", "target"]].max(axis=None))
    return [
        [against(row.exposure, row.target, high) if c == "exposure" else "" for c in columns]
        for row in frame.itertuples()
    ]


def _written(explanation: CostFrames, most: int) -> str:
    """Return the tables of an explanation, each cut to its costliest rows."""
    n, every = int(explanation.defined.sum()), len(explanation.qids)
    measure = explanation.measure
    cost = "1 - AWRF" if measure.NAME == "AWRF" else measure.NAME
    lines = [
        f"{measure!r}",
        f"cost ({cost}): {explanation.total:.4f}, mean of {n} of {every} queries",
    ]
    if explanation.before is not None:
        change = explanation.total - explanation.baseline_total
        lines.append(f"baseline: {explanation.baseline_total:.4f}, change {change:+.4f}")
    tables = [("By group", explanation.by_group)]
    if explanation.names.space.crossed:
        of = explanation.by_attribute.groupby("attribute", sort=False)
        tables += [(f"By {name}", part.drop(columns="attribute")) for name, part in of]
    tables += [("By ranks", explanation.by_rank), ("By query", explanation.by_query)]
    for title, frame in tables:
        lines += ["", *_table(title, frame, most)]
    return "\n".join(lines)


def _table(title: str, frame: pd.DataFrame, most: int) -> list[str]:
    # the frames have all columns; a terminal has not
    hidden = ["baseline_exposure", "baseline_queries", "baseline_attention"]
    frame = frame.drop(columns=hidden, errors="ignore")
    rest = len(frame) - most
    cut = f", the {most} costliest of {len(frame)}" if rest > 0 else ""
    body = frame.head(most).to_string(index=False, float_format="{:.4f}".format, na_rep="-")
    return [f"{title}{cut}:", body]
