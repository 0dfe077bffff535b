"""Means over groups of queries, and how the values of groups compare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import warn
from fairtk.frames.arrays import FloatArray
from fairtk.frames.columns import GROUP


class NoMean(float):
    """A query's value of a measure whose aggregate over queries is no mean.

    Evaluators of ir_measures aggregate by the measure's `aggregator`. ``pt.Experiment`` adds values
    up by itself and divides by the number of queries, which is warned about when it starts to.
    """

    why: str

    def __new__(cls, value: float, why: str) -> NoMean:
        """Attach to a value what is wrong with a mean: the measure, and what to use."""
        result = super().__new__(cls, value)
        result.why = why
        return result

    def __radd__(self, other: Any) -> float:
        if other == 0:
            warn(self.why)
        return float(other) + float(self)


class ValueOfGroups(NoMean):
    """A query's value that knows which groups the query belongs to; their plain sum is NaN."""

    groups: list[Any]

    def __radd__(self, other: Any) -> float:
        super().__radd__(other)
        return float("nan")


class GroupMeans(ir_measures.measures.base.Agg):  # type: ignore[misc]
    """Compares the means of groups of queries."""

    def __init__(self, compare: str) -> None:
        self.compare = compare
        self.values: list[ValueOfGroups] = []

    def add(self, value: ValueOfGroups) -> None:
        """Add a query's value."""
        self.values.append(value)

    def result(self) -> float:
        """Return the comparison; NaN with fewer groups than it needs."""
        means = means_of_groups(self.values)["value"].to_numpy(dtype=np.float64)
        return float(compared(means[None, :], self.compare)[0][0])


def compared(values: FloatArray, compare: str) -> tuple[FloatArray, int]:
    """Return how the values in each row compare, and how many of them that needs.

    Values are NaN for groups that take no part; results, of shape (n_rows,), where too few have
    one.
    """
    undefined = np.isnan(values)
    low = np.where(undefined, np.inf, values).min(axis=1, initial=np.inf)
    high = np.where(undefined, -np.inf, values).max(axis=1, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        results = {"difference": high - low, "ratio": low / high, "min": low, "max": high}
    needed = 2 if compare in ("difference", "ratio") else 1
    enough = (~undefined).sum(axis=1) >= needed
    return np.where(enough, results[compare], np.nan), needed


def means_of_groups(values: Sequence[Any]) -> pd.DataFrame:
    """Return a frame with ``group``, ``value`` (the mean) and ``queries`` (how many have it)."""
    by_group: dict[Any, list[float]] = defaultdict(list)
    for value in values:
        for group in value.groups:
            by_group[group].append(float(value))
    names = sorted(by_group, key=str)
    means = [float(np.mean(by_group[n])) for n in names]
    counts = [len(by_group[n]) for n in names]
    return pd.DataFrame({GROUP: names, "value": means, "queries": counts})
