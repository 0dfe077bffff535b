"""ByGroup: how a measure's values differ between groups of documents, or of queries."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError, UndefinedWarning, warn
from fairtk.frames import CREDIT, DOCNO, GROUP, QID, FloatArray, IntArray, ObjectArray
from fairtk.measures.base import FairMeasure, parts_of, value_bounds
from fairtk.measures.expectation import Expectation
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import GROUPS, Param
from fairtk.measures.parsing import MeasureParam, with_cutoff
from fairtk.measures.provider import run_columns, values_of

_NEEDS = "a measure and groups: ByGroup(nDCG@20, groups)"


class MeasureByGroup(FairMeasure):
    """How differently a measure turns out for groups of documents, or of queries.

    The groups' values are compared, as fairlearn's MetricFrame does for classifiers:
    ``difference`` (largest minus smallest; 0: alike), ``ratio`` (smallest by largest; 1: alike;
    NaN unless the largest is above 0), or the ``min`` or ``max`` itself. The values are in
    `per_group`; report them too: a small difference says that groups fare alike, not that they
    fare well.

    ``by="document"``: for each query, labels and rankings are restricted to a group's documents,
    with the ranks that they had among all. Measures of ir_measures read ranks from scores, so for
    them the labels alone are restricted, and other groups' documents are not relevant. A document
    of several groups counts in each. Groups for which the measure is undefined, such as those
    without a useful document, take no part; with fewer than two left, difference and ratio are
    undefined (NaN). The unknown level is no group unless ``unknown="group"``.

    ``by="query"``: the measure's mean over each group of queries; the comparison is one number for
    all queries, made when values are aggregated (``ir_measures.calc_aggregate``, ``fairtk
    evaluate``). ``pt.Experiment`` takes plain means of per-query values instead: there it is NaN,
    with a warning.
    """

    identity_name = "fairtk.ByGroup"
    output_version = 1
    NAME = "ByGroup"
    PRETTY_NAME = "Measure by group"
    CITATION = "weerts2023fairlearn"
    BETTER = "lower"
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
            desc="the unknown level: leave-out: it is no group; group: one like any other",
        ),
    }
    POSITIONAL = ("measure", "groups", "compare")

    def __matmul__(self, at_param: Any) -> MeasureByGroup:
        cut: MeasureByGroup = self(with_cutoff(self.inner, at_param))
        return cut

    def check_params(self) -> None:
        """Raise if the measure does not look at documents but groups of them are asked for."""
        if "measure" not in self.params or self["by"] != "document":
            return
        columns = [getattr(part, "RUN_COLUMNS", (DOCNO,)) for part in parts_of(self.inner)]
        if not all(DOCNO in names for names in columns):
            raise ParameterError(
                f"ByGroup: {self.inner!r} is about answers, which have no documents; use "
                "by='query' with groups of queries"
            )
        if CREDIT in run_columns([self.inner]):
            raise ParameterError(
                f"ByGroup: {self.inner!r} is about credit, whose shares are of all documents; use "
                "AWRF(groups=..., of='credit') or CreditGap(groups), or by='query'"
            )
        if isinstance(self.inner, Expectation) and isinstance(self.inner.inner, FairMeasure):
            raise ParameterError(
                f"ByGroup: in {self.inner!r} the ranks of a group's documents would be lost; "
                f"{self.inner.inner!r} knows samples by itself: drop the E"
            )

    @property
    def inner(self) -> Any:
        """The measure that is taken for each group."""
        return self.needed("measure", _NEEDS)

    @property
    def better(self) -> str:
        """Lower for differences, higher for ratios, the measure's own for min and max."""
        if self["compare"] in ("difference", "ratio"):
            return "lower" if self["compare"] == "difference" else "higher"
        return str(getattr(self.inner, "better", "higher"))

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of the measure; of a difference from 0 to their distance, of a ratio [0, 1]."""
        low, high = value_bounds(self.inner)
        compared = {"difference": (0.0, high - low), "ratio": (0.0, 1.0)}
        return compared.get(self["compare"], (low, high))

    def per_group(self, qrels: pd.DataFrame, run: pd.DataFrame) -> pd.DataFrame:
        """Return the values that are compared.

        Args:
            qrels: the labels, in PyTerrier's or ir_measures' column names.
            run: the run, in either's.

        Returns:
            A frame with ``qid``, ``group`` and ``value`` (NaN: undefined for that group), or with
            ``by="query"`` with ``group``, ``value`` and ``queries``, the number of queries that
            the mean is over.
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

    def score_all(self, judged: LabeledRun) -> FloatArray:
        """Return the comparison for each query; by query, the measure's own values."""
        if self["by"] == "query":
            return _values(self.inner, judged)
        values = self._table(judged)
        result, needed = _compared(values, self["compare"])
        why = f"fewer than {needed} groups have a value, or none is above 0"
        reasons = [
            (why, np.isnan(result) & judged.present),
            ("the run lacks the query, so nothing compares", ~judged.present),
        ]
        return self.without_undefined(judged, result, reasons)

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return the mean over queries; by query, how the means of groups compare."""
        if self["by"] == "document":
            return super().aggregate(values, qids)
        means = self._means_of_groups(values, qids)["value"].to_numpy(dtype=np.float64)
        return float(_compared(means[None, :], self["compare"])[0][0])

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the values; by query NaN, with a warning: only the aggregate has a value."""
        if self["by"] == "document":
            return values
        warn(
            f"{self!r} compares groups of queries, so single queries have no value here, and "
            "means over queries (as pt.Experiment takes them) are NaN; use "
            "ir_measures.calc_aggregate, fairtk evaluate or per_group"
        )
        return np.full(len(values), np.nan)

    def _means_of_groups(self, values: FloatArray, qids: ObjectArray) -> pd.DataFrame:
        """Return ``group``, ``value`` (the mean of its queries) and ``queries`` (how many)."""
        memberships, levels = self._groups.memberships(qids), self._groups.levels
        counts = np.isin(memberships.level, self._levels)
        row, level = memberships.row[counts], memberships.level[counts]
        names = np.array([str(levels[place]) for place in level.tolist()], dtype=object)
        names, code = np.unique(names, return_inverse=True)
        count = np.bincount(code, minlength=len(names))
        mean = np.bincount(code, values[row], len(names)) / count
        return pd.DataFrame({GROUP: names, "value": mean, "queries": count})

    @property
    def _groups(self) -> Any:
        return self.needed("groups", _NEEDS)

    @property
    def _levels(self) -> IntArray:
        """The numbers of the levels that are compared."""
        levels = np.arange(self._groups.space.size)
        return levels if self["unknown"] == "group" else levels[self._groups.space.known(levels)]

    def _table(self, judged: LabeledRun) -> FloatArray:
        """Return the value of each query and group; shape (n_queries, n_compared)."""
        groups = self._groups
        memberships = groups.memberships(judged.docnos)
        n_labels = len(judged.qrels.query)
        levels = self._levels
        # others read ranks from the order of what is left
        keeps_ranks = all(isinstance(part, FairMeasure) for part in parts_of(self.inner))
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
    # groups without useful documents take no part; all groups have one warning
    with warnings.catch_warnings(action="ignore", category=UndefinedWarning):
        return values_of([measure], judged)[measure]


def _compared(values: FloatArray, compare: str) -> tuple[FloatArray, int]:
    """Return how the values in each row compare, and how many of them that needs.

    Values are NaN for groups that take no part; results, of shape (n_rows,), where too few have
    one.
    """
    known = ~np.isnan(values)
    low = values.min(axis=1, where=known, initial=np.inf)
    high = values.max(axis=1, where=known, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(high > 0, low / high, np.nan)  # -2 / -1 is no share
        results = {"difference": high - low, "ratio": ratio, "min": low, "max": high}
    needed = 2 if compare in ("difference", "ratio") else 1
    return np.where(known.sum(axis=1) >= needed, results[compare], np.nan), needed


ByGroup = MeasureByGroup()
