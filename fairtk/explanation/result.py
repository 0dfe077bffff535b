"""`Explanation`: the parts of a measure's cost as frames, text and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from fairtk.explanation.cost_frames import CostFrames
from fairtk.explanation.plot import draw
from fairtk.explanation.text import written

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
        return written(self, _SHOWN)

    def __repr__(self) -> str:
        than = "" if self.before is None else f", {self.baseline_total:.4f} before"
        n = int(self.defined.sum())
        return f"<Explanation of {self.measure!r}: cost {self.total:.4f}{than} over {n} queries>"
