"""Means of contributions as frames, for one system and beside a baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairtk.explanation.bands import Bands
from fairtk.explanation.contributions import Contributions
from fairtk.explanation.names import Names
from fairtk.frames.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class Means:
    """Means over queries: of costs over n, of exposure over those with rankings."""

    parts: Contributions
    n: int
    shown: BoolArray

    def groups(self, names: Names, cell: IntArray | None = None) -> pd.DataFrame:
        """Return exposure, target, difference, cost and number of queries of each group.

        `cell` is the group of each unit; None: the units' own.
        """
        parts = self.parts
        cells, place = np.unique(parts.cell if cell is None else cell, return_inverse=True)
        rankings = max(int(self.shown.sum()), 1)
        exposed = parts.shown.sum(axis=1)
        exposure = np.bincount(place, weights=exposed, minlength=len(cells)) / rankings
        target = np.bincount(place, weights=parts.target, minlength=len(cells)) / rankings
        cost = np.bincount(place, weights=parts.cost.sum(axis=1), minlength=len(cells))
        n_queries = np.int64(len(self.shown))
        both = np.unique(place[exposed > 0] * n_queries + parts.query[exposed > 0])
        frame = names.frame(cells)
        frame["exposure"] = exposure
        frame["target"] = target
        frame["difference"] = exposure - target
        frame["queries"] = np.bincount(both // n_queries, minlength=len(cells))
        frame["cost"] = cost / max(self.n, 1)
        return frame

    def bands(self, bands: Bands) -> pd.DataFrame:
        """Return attention and cost of each band of ranks."""
        # a mean over no query is unknown, not 0
        cost = self.parts.cost.sum(axis=0) / (self.n or np.nan)
        attention = self.parts.attention.sum(axis=0) / (int(self.shown.sum()) or np.nan)
        frame = pd.DataFrame(
            {
                "ranks": pd.Series(bands.names, dtype="str"),
                "attention": attention,
                "cost": cost,
            }
        )
        used = np.ones(len(frame), dtype=bool)
        used[bands.outside] = np.nan_to_num(cost[bands.outside]) != 0
        return frame[used].reset_index(drop=True)


def with_baseline(frame: pd.DataFrame, before: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the frame with the baseline's columns and the change of cost; absent parts are 0."""
    differs = [c for c in before.columns if c not in (*keys, "difference")]
    renamed = before[[*keys, *differs]].rename(columns={c: f"baseline_{c}" for c in differs})
    both = frame.merge(renamed, on=keys, how="outer", sort=False)
    if "target" in differs:  # a group that one of the two does not show has the target all the same
        both["target"] = both["target"].fillna(both["baseline_target"])
        both = both.drop(columns="baseline_target")
    numbers = [c for c in both.columns if c not in keys]
    both[numbers] = both[numbers].fillna(0)
    if "difference" in both.columns:
        both["difference"] = both["exposure"] - both["target"]
    for column in ("queries", "baseline_queries"):
        if column in both.columns:
            both[column] = both[column].astype(np.int64)
    both["change"] = both["cost"] - both["baseline_cost"]
    order = pd.MultiIndex.from_frame(frame[keys]).append(pd.MultiIndex.from_frame(before[keys]))
    place = pd.MultiIndex.from_frame(both[keys]).get_indexer(order.unique())
    return both.iloc[place].reset_index(drop=True)


def sorted_by_cost(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the highest cost first, ties in their order, NaN last."""
    return frame.sort_values("cost", ascending=False, kind="stable", ignore_index=True)
