"""ByGroup: any measure, for each group of documents or of queries, and how the groups compare."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError, UndefinedWarning
from fairtk.frames.arrays import FloatArray, ObjectArray
from fairtk.frames.columns import GROUP, QID
from fairtk.frames.qrels import Qrels
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence
from fairtk.measures.expectation import Expectation
from fairtk.measures.foreign import values_for
from fairtk.measures.group_means import GroupMeans, ValueOfGroups, compared, means_of_groups
from fairtk.measures.params import GROUPS, MeasureParam, Param

COMPARE = Param(
    str,
    default="difference",
    choices=("difference", "ratio", "min", "max"),
    desc="difference: largest - smallest; ratio: smallest / largest; min; max",
)
BY = Param(
    str,
    default="document",
    choices=("document", "query"),
    desc="whether the groups are of documents (docno) or of queries (their qids as docno)",
)

_NEEDS = "a measure and groups: ByGroup(nDCG@20, groups)"


class MeasureByGroup(FairMeasure):
    """How differently a measure turns out for groups of documents, or of queries.

    The groups' values are compared, as fairlearn's MetricFrame does for classifiers:
    ``difference`` (largest minus smallest; 0: alike), ``ratio`` (smallest by largest; 1: alike), or
    the ``min`` or ``max`` itself. The values are in `per_group`; report them too: a small
    difference says that groups fare alike, not that they fare well.

    ``by="document"``: for each query, labels and rankings are restricted to a group's documents,
    with the ranks that they had among all. Measures of ir_measures read ranks from scores, so for
    them the labels alone are restricted, and other groups' documents are not relevant. A document
    of several groups counts in each. Groups for which the measure is undefined, such as those
    without a useful document, take no part; with fewer than two left, difference and ratio are
    undefined (NaN).

    ``by="query"``: the measure's mean over each group of queries; the comparison is one number for
    all queries, made when values are aggregated (``ir_measures.calc_aggregate``, ``fairtk
    evaluate``). ``pt.Experiment`` takes plain means of per-query values instead: there it is NaN,
    with a warning.
    """

    NAME = "ByGroup"
    PRETTY_NAME: ClassVar[str] = "Measure by group"
    CITATION: ClassVar[str] = "weerts2023fairlearn"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = float("nan")
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "measure": MeasureParam("any measure, e.g. 'nDCG@20'"),
        "groups": GROUPS,
        "compare": COMPARE,
        "by": BY,
    }
    POSITIONAL: ClassVar[tuple[str, ...]] = ("measure", "groups", "compare")

    def __matmul__(self, at_param: Any) -> MeasureByGroup:
        found: MeasureByGroup = self(self.inner @ at_param)
        return found

    def check_params(self) -> None:
        """Raise if the measure does not look at documents but groups of them are asked for."""
        if "measure" not in self.params or self["by"] != "document":
            return
        if _is_about_answers(self.inner):
            raise ParameterError(
                f"ByGroup: {self.inner!r} is about answers, which have no documents; use "
                "by='query' with groups of queries"
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
    def parts(self) -> list[Any]:
        """The measures that this one is made of."""
        return [self.inner]

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: if its measure does."""
        return bool(getattr(self.inner, "takes_exposure", False))

    @property
    def better(self) -> str:
        """Lower for differences, higher for ratios, the measure's own for min and max."""
        if self["compare"] in ("difference", "ratio"):
            return "lower" if self["compare"] == "difference" else "higher"
        return str(getattr(self.inner, "better", "higher"))

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
        evidence = Evidence(Qrels(qrels, repr(self), either=True), run, repr(self))
        if self["by"] == "query":
            values = self.wrapped(_values(self.inner, evidence), evidence.qids)
            return means_of_groups(values)
        levels = list(self._groups.levels)
        return pd.DataFrame(
            {
                QID: np.repeat(evidence.qids, len(levels)),
                GROUP: levels * len(evidence.qids),
                "value": self._table(evidence).ravel(),
            }
        )

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the comparison for each query; by query, the measure's own values."""
        if self["by"] == "query":
            return _values(self.inner, evidence)
        values = self._table(evidence)
        result, needed = compared(values, self["compare"])
        result = np.where(evidence.present, result, np.nan)
        undefined = evidence.qids[np.isnan(result) & evidence.present]
        why = f"fewer than {needed} groups have a value, or all are 0"
        self.warn_undefined(undefined, len(result), why)
        absent = evidence.qids[~evidence.present]
        self.warn_undefined(absent, len(result), "the run lacks the query, so nothing compares")
        return result

    def wrapped(self, values: FloatArray, qids: ObjectArray) -> list[float]:
        """Return the values, by query with the groups of each query attached."""
        if self["by"] == "document":
            return super().wrapped(values, qids)
        found = self._groups.memberships(qids)
        cells = np.split(found.cell, found.start[1:-1])
        levels = self._groups.levels
        why = (
            f"{self!r} compares groups of queries, but its values are being averaged over all "
            "queries here (as pt.Experiment does), which gives NaN; use "
            "ir_measures.calc_aggregate, fairtk evaluate or per_group"
        )
        result: list[float] = []
        for value, own in zip(values.tolist(), cells, strict=True):
            known = ValueOfGroups(value, why)
            known.groups = [levels[int(cell)] for cell in own]
            result.append(known)
        return result

    def aggregator(self) -> Any:
        """Return what turns per-query values into one: a mean, by query a comparison of means."""
        return super().aggregator() if self["by"] == "document" else GroupMeans(self["compare"])

    @property
    def _groups(self) -> Any:
        return self.needed("groups", _NEEDS)

    def _table(self, evidence: Evidence) -> FloatArray:
        """Return the value of each query and group; shape (n_queries, n_levels)."""
        groups, pairs = self._groups, evidence.pairs
        memberships = groups.memberships(pairs.docnos)
        n_labels = len(evidence.qrels.query)
        table = np.full((len(evidence.qids), groups.space.size), np.nan)
        for level in range(groups.space.size):
            inside = np.zeros(len(pairs.docnos), dtype=bool)
            inside[memberships.owner[memberships.cell == level]] = True
            kept = inside[pairs.doc]
            rows = kept[pairs.of_row] if _keeps_ranks(self.inner) else None
            part = evidence.restricted(kept[:n_labels], rows)
            useful = np.bincount(part.qrels.query, part.qrels.labels > 0, minlength=len(table))
            table[:, level] = np.where(useful > 0, _values(self.inner, part), np.nan)
        return table


def _values(measure: Any, evidence: Evidence) -> FloatArray:
    # a group without useful documents takes no part, which is said once for all groups
    with warnings.catch_warnings(action="ignore", category=UndefinedWarning):
        return values_for(measure, evidence)


def _keeps_ranks(measure: Any) -> bool:
    """Return whether a measure reads ranks as they are, not from the order of what is left."""
    return isinstance(measure, FairMeasure) and all(map(_keeps_ranks, measure.parts))


def _is_about_answers(measure: Any) -> bool:
    columns = getattr(measure, "RUN_COLUMNS", ("docno",))
    return "docno" not in columns or any(map(_is_about_answers, getattr(measure, "parts", [])))


ByGroup = MeasureByGroup()
