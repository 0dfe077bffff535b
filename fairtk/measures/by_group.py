"""ByGroup: differences of a measure's values between groups of documents or queries."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError
from fairtk.frames import CREDIT, DOCNO, GROUP, QID, FloatArray, IntArray, ObjectArray
from fairtk.measures.base import FairMeasure, iter_parts, value_bounds
from fairtk.measures.evaluation import evaluate
from fairtk.measures.expectation import Expectation
from fairtk.measures.foreign import run_columns
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import GROUPS, Param
from fairtk.measures.parsing import MeasureParam, with_cutoff
from fairtk.measures.scores import Scores

_NEEDS = "a measure and groups: ByGroup(nDCG@20, groups)"


class MeasureByGroup(FairMeasure):
    """How a measure's values differ between groups of documents or queries.

    The groups' values are compared by ``difference`` (largest minus smallest; lower is better),
    ``ratio`` (smallest / largest; higher is better; NaN unless the largest is above 0), ``min`` or
    ``max``, as in fairlearn's MetricFrame. `per_group` returns the values of the groups.

    ``by="document"``: for each query, labels and rankings are restricted to a group's documents,
    which keep their ranks. Measures of ir_measures read ranks from scores, so for them only the
    labels are restricted. A document of several groups counts in each. Groups for which the measure
    is undefined, such as those without a useful document, are left out; with fewer than two groups,
    difference and ratio are undefined (NaN). A query missing from the run is undefined.

    ``by="query"``: the groups' means over queries are compared, when values are aggregated
    (``ir_measures.calc_aggregate``, ``fairtk evaluate``). In ``pt.Experiment``, which averages
    per-query values, the result is NaN, with a warning.
    """

    identity_name = "fairtk.ByGroup"
    output_version = 1
    NAME = "ByGroup"
    PRETTY_NAME = "Measure by group"
    CITATION = "weerts2023fairlearn"
    BETTER = "lower"
    ABOUT = "how a measure differs between groups"
    CAVEAT = "equal values may be equally bad"
    MISSING = float("nan")
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "measure": MeasureParam("any measure, e.g. 'nDCG@20'"),
        "groups": GROUPS,
        "compare": Param(
            str,
            default="difference",
            choices=("difference", "ratio", "min", "max"),
            desc="difference: largest - smallest; ratio: smallest / largest; min; max",
        ),
        "by": Param(
            str,
            default="document",
            choices=("document", "query"),
            desc="whether the groups are of documents (docno) or of queries (their qids as docno)",
        ),
        "unknown": Param(
            str,
            default="leave-out",
            choices=("leave-out", "group"),
            desc="the unknown level: leave-out, or group: it is a group like any other",
        ),
    }
    POSITIONAL = ("measure", "groups", "compare")

    def __matmul__(self, at_param: Any) -> MeasureByGroup:
        cut: MeasureByGroup = self(with_cutoff(self.inner, at_param))
        return cut

    def check_params(self) -> None:
        """Raise a `ParameterError` if the measure does not support groups of documents."""
        if "measure" not in self.params or self["by"] != "document":
            return
        columns = [getattr(part, "RUN_COLUMNS", (DOCNO,)) for part in iter_parts(self.inner)]
        if not all(DOCNO in names for names in columns):
            raise ParameterError(
                f"ByGroup: {self.inner!r} reads answers, not documents; use by='query' with groups "
                "of queries"
            )
        if CREDIT in run_columns([self.inner]):
            raise ParameterError(
                f"ByGroup: {self.inner!r} reads credit, whose shares are of all documents; use "
                "CreditAWRF(groups=...) or CreditGap(groups), or by='query'"
            )
        if isinstance(self.inner, Expectation) and isinstance(self.inner.inner, FairMeasure):
            raise ParameterError(
                f"ByGroup: {self.inner!r} is not supported; use {self.inner.inner!r}, which "
                "supports samples"
            )

    @property
    def inner(self) -> Any:
        """The measure of each group."""
        return self.require_param("measure", _NEEDS)

    @property
    def better(self) -> str:
        """Lower for differences, higher for ratios; the measure's direction for min and max."""
        if self["compare"] in ("difference", "ratio"):
            return "lower" if self["compare"] == "difference" else "higher"
        return str(getattr(self.inner, "better", "higher"))

    @property
    def compares_queries(self) -> bool:
        """Whether the groups are of queries."""
        return bool(self["by"] == "query")

    @property
    def bounds(self) -> tuple[float, float]:
        """The measure's bounds; [0, their distance] for a difference, [0, 1] for a ratio."""
        low, high = value_bounds(self.inner)
        compared = {"difference": (0.0, high - low), "ratio": (0.0, 1.0)}
        return compared.get(self["compare"], (low, high))

    def per_group(self, qrels: pd.DataFrame, run: pd.DataFrame) -> pd.DataFrame:
        """Return the values of groups.

        Args:
            qrels: the labels, in PyTerrier's or ir_measures' column names.
            run: the run, in PyTerrier's or ir_measures' column names.

        Returns:
            ``qid``, ``group`` and ``value`` (NaN if undefined); with ``by="query"``, ``group``,
            ``value`` (the mean) and ``queries`` (the number of queries).
        """
        judged = LabeledRun.of(qrels, run, repr(self))
        if self["by"] == "query":
            return self._means_of_groups(_values(self.inner, judged), judged.qids)
        levels = [self._groups.levels[level] for level in self._levels.tolist()]
        return pd.DataFrame(
            {
                QID: np.repeat(judged.qids, len(levels)),
                GROUP: levels * len(judged.qids),
                "value": self._table(judged).ravel(),
            }
        )

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the comparison for each query; with ``by="query"``, the measure's values."""
        if self["by"] == "query":
            return evaluate([self.inner], judged)[self.inner]
        values = self._table(judged)
        result, needed = _compared(values, self["compare"])
        why = f"fewer than {needed} groups have a value, or none is above 0"
        reasons = [
            (why, np.isnan(result) & judged.present),
            ("missing from the run", ~judged.present),
        ]
        return Scores.of(result, reasons)

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return the mean over queries; with ``by="query"``, compare the groups' means."""
        if self["by"] == "document":
            return super().aggregate(values, qids)
        means = self._means_of_groups(values, qids)["value"].to_numpy(dtype=np.float64)
        return float(_compared(means[None, :], self["compare"])[0][0])

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the values; with ``by="query"``, NaN."""
        if self["by"] == "document":
            return values
        return np.full(len(values), np.nan)

    @property
    def is_mean(self) -> bool:
        """Whether its aggregate is the mean over queries: not with ``by="query"``."""
        return bool(self["by"] == "document")

    def _means_of_groups(self, values: FloatArray, qids: ObjectArray) -> pd.DataFrame:
        """Return ``group``, ``value`` (the mean of its queries) and ``queries`` (their number)."""
        memberships, levels = self._groups.memberships(qids), self._groups.levels
        counts = np.isin(memberships.level, self._levels)
        row, level = memberships.row[counts], memberships.level[counts]
        names = np.array([str(levels[index]) for index in level.tolist()], dtype=object)
        names, code = np.unique(names, return_inverse=True)
        count = np.bincount(code, minlength=len(names))
        mean = np.bincount(code, values[row], len(names)) / count
        return pd.DataFrame({GROUP: names, "value": mean, "queries": count})

    @property
    def _groups(self) -> Any:
        return self.require_param("groups", _NEEDS)

    @property
    def _levels(self) -> IntArray:
        """The numbers of the levels to compare."""
        levels = np.arange(self._groups.space.size)
        return levels if self["unknown"] == "group" else levels[self._groups.space.known(levels)]

    def _table(self, judged: LabeledRun) -> FloatArray:
        """Return the value of each query and group; shape (n_queries, n_compared)."""
        groups = self._groups
        memberships = groups.memberships(judged.docnos)
        n_labels = len(judged.qrels.query)
        levels = self._levels
        # other providers would count ranks among the remaining rows
        keeps_ranks = all(isinstance(part, FairMeasure) for part in iter_parts(self.inner))
        table = np.full((len(judged.qids), len(levels)), np.nan)
        for column, level in enumerate(levels.tolist()):
            inside = np.zeros(len(judged.docnos), dtype=bool)
            inside[memberships.row[memberships.level == level]] = True
            members = inside[judged.pair_doc]
            rows = members[judged.pair_of_row] if keeps_ranks else None
            part = judged.restricted(members[:n_labels], rows)
            useful = np.bincount(part.qrels.query, part.qrels.labels > 0, minlength=len(table))
            table[:, column] = np.where(useful > 0, _values(self.inner, part), np.nan)
        return table


def _values(measure: Any, judged: LabeledRun) -> FloatArray:
    return evaluate([measure], judged)[measure].values


def _compared(values: FloatArray, compare: str) -> tuple[FloatArray, int]:
    """Return the comparison of each row's values, shape (n_rows,), and how many it requires.

    Values of groups that are left out are NaN. A result is NaN if a row has too few values.
    """
    known = ~np.isnan(values)
    low = values.min(axis=1, where=known, initial=np.inf)
    high = values.max(axis=1, where=known, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(high > 0, low / high, np.nan)  # -2 / -1 is not a share
        results = {"difference": high - low, "ratio": ratio, "min": low, "max": high}
    needed = 2 if compare in ("difference", "ratio") else 1
    return np.where(known.sum(axis=1) >= needed, results[compare], np.nan), needed


ByGroup = MeasureByGroup()
