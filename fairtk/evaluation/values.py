"""The values of runs: per query, their means, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fairtk.frames.columns import QID
from fairtk.measures import written


def aggregated(measure: Any, values: Iterable[float]) -> float:
    """Return what a measure's own aggregator makes of the defined values; NaN without any."""
    defined = [value for value in values if not math.isnan(value)]
    aggregator = measure.aggregator()
    for value in defined:
        aggregator.add(value)
    return float(aggregator.result()) if defined else math.nan


@dataclass
class RunValues:
    """The values of one run."""

    name: str  # in tables
    file: str  # its file, or its name if it was a frame
    values: dict[Any, dict[str, float]]  # of each query of the qrels, by measure
    found: set[str]  # queries with results

    def mean(self, measure: Any) -> float:
        """Return the measure's aggregate (the mean for nearly all) over the defined values."""
        return aggregated(measure, self.values[measure].values())

    def defined(self, measure: Any) -> int:
        """Return the number of queries that have a value."""
        return sum(not math.isnan(value) for value in self.values[measure].values())

    def total(self, measure: Any) -> int:
        """Return the number of queries."""
        return len(self.values[measure])


@dataclass
class EvaluatedRuns:
    """The values of all runs.

    Attributes:
        runs: one entry per run.
        measures: the measures, in the order in which they were asked for.
        qids: the queries, in the order of the qrels.
        written: measures that got groups from options, as they were written.
    """

    runs: list[RunValues]
    measures: list[Any]
    qids: list[str]
    written: dict[Any, str] = field(default_factory=dict)

    @property
    def means(self) -> pd.DataFrame:
        """One row per run and measure.

        ``run``, ``measure`` (as `fairtk.measures.parse` reads it), ``mean`` over the queries for
        which the measure is defined, their number (``defined``) and that of all (``queries``).
        """
        rows = [
            [run.name, written(m), run.mean(m), run.defined(m), run.total(m)]
            for run in self.runs
            for m in self.measures
        ]
        return pd.DataFrame(rows, columns=["run", "measure", "mean", "defined", "queries"])

    @property
    def per_query(self) -> pd.DataFrame:
        """One row per run, measure and query: ``run``, ``qid``, ``measure``, ``value``."""
        rows = [
            [run.name, qid, written(m), run.values[m][qid]]
            for run in self.runs
            for m in self.measures
            for qid in self.qids
        ]
        return pd.DataFrame(rows, columns=["run", QID, "measure", "value"])
