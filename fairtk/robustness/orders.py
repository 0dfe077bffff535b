"""How the order of systems changes with what was chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.drawing import INK, new_figure, write_figure
from fairtk.frames.arrays import FloatArray

COLUMNS = [
    "measure", "choice", "setting", "tau", "winner", "flips", "swapped", "defined", "note",
]  # fmt: skip
_EQUAL = 1e-12


@dataclass
class Sensitivity:
    """How the order of systems depends on choices.

    Attributes:
        table: one row per measure and setting, first those with ``choice`` ``"as asked"``:
            ``tau`` (Kendall's tau-b of the systems' means with those as asked; NaN where all are
            tied), ``winner`` (the best mean; ``""``: several tie), ``flips`` (whether another
            system wins than as asked), ``swapped`` (pairs of systems in the other order),
            ``defined`` (the fewest queries that a mean is over), ``note`` (why there is no value).
        means: one row per measure, setting and system: ``measure``, ``choice``, ``setting``,
            ``system``, ``mean``.
        systems: their names.
    """

    table: pd.DataFrame
    means: pd.DataFrame
    systems: list[str]

    @property
    def flips(self) -> pd.DataFrame:
        """The rows of `table` in which another system wins."""
        return self.table[self.table["flips"]].reset_index(drop=True)

    @property
    def summary(self) -> str:
        """What flips the winner, in words."""
        lines = []
        for measure, part in self.table.groupby("measure", sort=False):
            first = part[part["choice"] == "as asked"].iloc[0]
            flips = part[part["flips"]]
            known = part["tau"].notna() & (part["choice"] != "as asked")
            wins = f"{first['winner']} wins" if first["winner"] else "several systems tie"
            if flips.empty:
                lines.append(f"{measure}: {wins}, under all {int(known.sum())} other choices too.")
                continue
            names = [f"{r.choice} {r.setting} ({r.winner or 'a tie'})" for r in flips.itertuples()]
            others = ", ".join(names)
            lowest = part.loc[known, "tau"].min()
            lines.append(f"{measure}: {wins}, but not with {others}; tau is at least {lowest:.2f}.")
        return "\n".join(lines)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return a heat map of tau: a row per setting, a column per measure.

        Cells in which another system wins name it.

        Args:
            path: a file (.svg, .pdf or .png) to write to, if any.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        changed = self.table[self.table["choice"] != "as asked"]
        place = {choice: i for i, choice in enumerate(dict.fromkeys(changed["choice"]))}
        rows = sorted(
            {(row.choice, row.setting) for row in changed.itertuples()},
            key=lambda row: (place[row[0]], len(row[1]), row[1]),
        )
        columns = list(dict.fromkeys(self.table["measure"]))
        figure = new_figure((2.6 + 1.5 * len(columns), 1.2 + 0.3 * max(len(rows), 1)), "a heat map")
        axes = figure.subplots()
        values = np.full((max(len(rows), 1), len(columns)), np.nan)
        for row in changed.itertuples():
            at = rows.index((row.choice, row.setting)), columns.index(row.measure)
            values[at] = row.tau
            dark = row.tau < 0.2
            words = [] if math.isnan(row.tau) else [f"{row.tau:.2f}"]
            words += [row.winner or "tie"] if row.flips else []
            axes.text(
                at[1], at[0], "\n".join(words), ha="center", va="center", fontsize=7,
                color="white" if dark else INK, weight="bold" if row.flips else "normal",
            )  # fmt: skip
        image = axes.imshow(values, cmap="cividis", vmin=-1, vmax=1, aspect="auto")
        axes.set_xticks(range(len(columns)), columns, fontsize=8, rotation=20, ha="right")
        axes.set_yticks(range(len(rows)), [f"{c} {s}" for c, s in rows], fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.5, label="Kendall's tau with the order as asked")
        if path is not None:
            write_figure(figure, Path(path))
        return figure


def compared(base: FloatArray, values: FloatArray, lower: bool) -> tuple[float, int, int]:
    """Return Kendall's tau-b, the pairs in the other order, and the place of the winner.

    Args:
        base: the systems' means as asked; shape (n_systems,).
        values: those under another choice.
        lower: whether lower is better.

    Returns:
        tau (NaN: all are tied, or a mean is undefined), the number of pairs, and the winner (-1:
        several tie, or one is undefined).
    """
    from scipy.stats import kendalltau

    if np.isnan(values).any() or np.isnan(base).any():
        return math.nan, 0, -1
    first, second = (np.sign(_gaps(v)) for v in (base, values))
    swapped = int((first * second < 0).sum() // 2)
    rounded = [np.unique(np.round(v, 12), return_inverse=True)[1] for v in (base, values)]
    tau = math.nan
    if all(len(np.unique(v)) > 1 for v in rounded):
        tau = float(kendalltau(*rounded).statistic)
    best = values.min() if lower else values.max()
    at = np.flatnonzero(np.abs(values - best) <= _EQUAL)
    return tau, swapped, int(at[0]) if len(at) == 1 else -1


def _gaps(values: FloatArray) -> FloatArray:
    gaps = values[:, None] - values[None, :]
    return np.where(np.abs(gaps) <= _EQUAL, 0.0, gaps)
