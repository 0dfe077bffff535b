"""The parts of a measure's cost as frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk.explanation.contributions import Contributions
from fairtk.explanation.names import Bands, Names, joined
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import QID


@dataclass(frozen=True)
class System:
    """One run's parts: values and costs of each query, NaN where undefined, and which it has."""

    parts: Contributions
    value: FloatArray
    cost: FloatArray
    present: BoolArray


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


@dataclass(frozen=True, eq=False, repr=False)
class CostFrames:
    """Where the cost of a measure comes from, as frames.

    All frames have the column ``cost``; its sum is `total` (in `by_query`, its mean). With a
    baseline they also have ``baseline_cost`` and ``change`` (``cost`` minus it: negative is an
    improvement), and the same for what else differs.

    Attributes:
        measure: the measure.
        qids: the queries of the labels.
        names: the groups' names.
        bands: the rank bands.
        defined: for which queries the measure is defined, for both systems.
        system: the run's parts.
        before: the baseline's parts.
    """

    measure: Any
    qids: ObjectArray
    names: Names
    bands: Bands
    defined: BoolArray
    system: System
    before: System | None = None

    @property
    def total(self) -> float:
        """The mean cost over the queries where it is defined: 1 - AWRF, or EE_L; NaN if none."""
        return self._mean(self.system.cost)

    @property
    def baseline_total(self) -> float:
        """The same for the baseline; NaN without one."""
        return float("nan") if self.before is None else self._mean(self.before.cost)

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """The cost of each group, highest first.

        ``group`` (a column per attribute if they are crossed), ``exposure`` and ``target``: mean
        shares of attention for AWRF, mean attention for EE_L, over queries that the run has;
        ``difference``: the first minus the second, above 0 for a group that is shown too much;
        ``queries``: in how many queries the group is shown; ``cost``; ``share`` of the total.
        """
        return self._two(lambda s: self._groups(s, self.names), self.names.columns)

    @cached_property
    def by_attribute(self) -> pd.DataFrame:
        """The cost of each level of each crossed attribute, whatever the others are.

        The columns of `by_group`, with ``attribute`` in front. The costs of each attribute's levels
        add up to the total; groups that are not listed one by one are a level.
        """
        parts = []
        for place, name in enumerate(self.names.space.names):
            one = self._two(
                lambda s, at=place: self._groups(
                    s, self.names.part(at), self.names.level(s.parts.cell, at)
                ),
                ["group"],
            )
            one.insert(0, "attribute", name)
            parts.append(one)
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def by_rank(self) -> pd.DataFrame:
        """The cost of each band of ranks, from the top.

        ``ranks`` (counted from 1), ``attention``: the band's mean share of attention, ``cost``
        (below 0 for ranks that show what is missing), ``share`` of the total.
        """
        return self._two(self._ranks, ["ranks"], sort=False)

    @cached_property
    def by_query(self) -> pd.DataFrame:
        """The cost of each query, highest first; those undefined for a system (NaN) last.

        ``qid``, ``value`` of the measure, ``cost``, and ``costliest``: the group that costs most,
        with how much of the query's cost in ``costliest_share``.
        """
        system = self.system
        cost = np.where(self.defined, system.cost, np.nan)
        frame = pd.DataFrame(
            {QID: pd.Series(self.qids, dtype="str"), "value": system.value, "cost": cost}
        )
        frame["costliest"], frame["costliest_share"] = self._costliest()
        if self.before is not None:
            before = np.where(self.defined, self.before.cost, np.nan)
            frame.insert(3, "baseline_cost", before)
            frame.insert(4, "change", cost - before)
        return sorted_by_cost(frame)

    def to_frame(self) -> pd.DataFrame:
        """Return all parts: one row per query, group and band of ranks that has any.

        ``qid``, the group's columns, ``ranks``, ``exposure`` and ``cost`` (and the baseline's).
        Not divided by the number of queries: the sum over a query is that query's cost.
        """
        keys = [QID, *self.names.columns, "ranks"]
        return self._two(lambda s: self._long(s.parts), keys, sort=False, shares=False)

    @property
    def _n(self) -> int:
        return int(self.defined.sum())

    def _groups(self, system: System, names: Names, cell: IntArray | None = None) -> pd.DataFrame:
        """Return mean exposure, target, difference and cost of each group, and its queries.

        Costs are over all queries, exposure over those with rankings. `cell` is the group of each
        unit; None: the units' own.
        """
        parts, shown = system.parts, system.present & self.defined
        cells, place = np.unique(parts.cell if cell is None else cell, return_inverse=True)
        rankings = max(int(shown.sum()), 1)
        exposed = parts.shown.sum(axis=1)
        exposure = np.bincount(place, weights=exposed, minlength=len(cells)) / rankings
        target = np.bincount(place, weights=parts.target, minlength=len(cells)) / rankings
        cost = np.bincount(place, weights=parts.cost.sum(axis=1), minlength=len(cells))
        n_queries = np.int64(len(shown))
        both = np.unique(place[exposed > 0] * n_queries + parts.query[exposed > 0])
        frame = names.frame(cells)
        frame["exposure"] = exposure
        frame["target"] = target
        frame["difference"] = exposure - target
        frame["queries"] = np.bincount(both // n_queries, minlength=len(cells))
        frame["cost"] = cost / max(self._n, 1)
        return frame

    def _ranks(self, system: System) -> pd.DataFrame:
        """Return attention and cost of each band of ranks, in the mean."""
        bands, shown = self.bands, system.present & self.defined
        # a mean over no query is unknown, not 0
        cost = system.parts.cost.sum(axis=0) / (self._n or np.nan)
        attention = system.parts.attention.sum(axis=0) / (int(shown.sum()) or np.nan)
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

    def _mean(self, values: FloatArray) -> float:
        return float(values[self.defined].mean()) if self._n else float("nan")

    def _two(
        self,
        make: Any,
        keys: list[str],
        sort: bool = True,
        shares: bool = True,
    ) -> pd.DataFrame:
        frame = make(self.system)
        if self.before is not None:
            frame = with_baseline(frame, make(self.before), keys)
        if shares:
            place = frame.columns.get_loc("cost") + 1
            frame.insert(place, "share", frame["cost"] / self.total if self.total else np.nan)
        return sorted_by_cost(frame) if sort else frame

    def _costliest(self) -> tuple[list[str], FloatArray]:
        parts = self.system.parts
        cost = parts.cost.sum(axis=1)
        order = np.lexsort((parts.cell, -cost, parts.query))
        query = parts.query[order]
        first = order[np.flatnonzero(np.diff(query, prepend=-1))]
        texts = [""] * len(self.qids)
        share = np.full(len(self.qids), np.nan)
        for at, text in zip(first, joined(self.names.frame(parts.cell[first])), strict=True):
            of = parts.query[at]
            whole = self.system.cost[of]
            if whole > 0:
                texts[of], share[of] = text, cost[at] / whole
        return texts, share

    def _long(self, parts: Contributions) -> pd.DataFrame:
        unit, band = np.nonzero((parts.cost != 0) | (parts.shown != 0))
        bands = np.array(self.bands.names, dtype=object)
        names = self.names.frame(parts.cell[unit])
        return pd.DataFrame(
            {
                QID: pd.Series(self.qids[parts.query[unit]], dtype="str"),
                **{c: names[c] for c in names.columns},
                "ranks": pd.Series(bands[band], dtype="str"),
                "exposure": parts.shown[unit, band],
                "cost": parts.cost[unit, band],
            }
        )
