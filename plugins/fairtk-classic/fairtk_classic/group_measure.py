"""What all measures of groups share: how groups, targets and rankings are read.

And how values of rankings become those of queries, with a reason for each that is undefined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtk.errors import ParameterError, listed
from fairtk.exposure import total
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.measures import FairMeasure, warn_unlabeled_ranks

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target
    from fairtk.measures import LabeledRun


Reasons = tuple[tuple[str, BoolArray], ...]
"""Why something has no value, each with a mask of what."""

NOTHING_KNOWN = "none of the documents in the ranking has a known group"
NO_TARGET = "there is no target"
_MOST_GROUPS = 4096


@dataclass(frozen=True)
class Scored:
    """Values before they are averaged inside each query.

    Attributes:
        query: index into the labels' queries of each row; shape (n_rows,).
        value: value of each row (a ranking, or a query), NaN where it has none; same shape.
        reasons: why rows have no value, each with the rows; same shape.
        gaps: why queries have no value whatever is retrieved, each with the queries; shape
            (n_queries,).
    """

    query: IntArray
    value: FloatArray
    reasons: Reasons = ()
    gaps: Reasons = ()


class GroupMeasure(FairMeasure):
    """Base of the measures; a subclass defines `per_ranking`, and `worst` where MISSING is NaN."""

    MISSING = float("nan")

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the values of all rankings, or of all queries that have one."""
        raise NotImplementedError(f"measure {self.NAME} must define per_ranking")

    def worst(self, judged: LabeledRun) -> FloatArray | float:
        """Return the value of a query that the run lacks: the worst one, NaN if there is none."""
        return self.MISSING

    def check_params(self) -> None:
        """Raise a `ParameterError` if groups and target, or groups and level, do not fit."""
        if "groups" in self.params:
            self.names()
            if "target" in self.params:
                self["target"].for_groups(self["groups"])

    @property
    def groups(self) -> Groups:
        """The groups."""
        if "groups" not in self.params:
            raise ParameterError(f"{self.NAME} needs groups: write {self.NAME}(groups=..., ...)")
        result: Groups = self["groups"]
        return result

    @property
    def compared(self) -> IntArray:
        """The numbers of the levels that are compared; the unknown one only as a group."""
        space = self.groups.space
        if space.size > _MOST_GROUPS:
            raise ParameterError(
                f"{self.NAME}: {self.groups.name!r} has {space.size} groups, more than the "
                f"{_MOST_GROUPS} that can be compared one by one; cross fewer attributes"
            )
        every = np.arange(space.size)
        return every if self["unlabeled"] == "group" else every[space.known(every)]

    def names(self) -> list[str]:
        """Return the names of the levels that are compared; crossed ones are joined by ``*``."""
        levels = self.groups.levels
        compared = [levels[place] for place in self.compared.tolist()]
        return [level if isinstance(level, str) else "*".join(level) for level in compared]

    def shares(self, judged: LabeledRun, docnos: Any) -> FloatArray:
        """Return how much of each document belongs to each compared level; (n_docnos, n_levels)."""
        policy = {"drop": "drop", "group": "unknown", "uniform": "uniform"}[self["unlabeled"]]
        return self.groups.memberships(docnos, policy).dense()[:, self.compared]

    def shares_of_run(self, judged: LabeledRun) -> FloatArray:
        """Return `shares` of the run's documents, computed once for all measures."""
        key = ("classic", self.groups.key, self["unlabeled"])
        if key not in judged.cache:
            judged.cache[key] = self.shares(judged, judged.run.docnos)
        result: FloatArray = judged.cache[key]
        return result

    def target_shares(self, judged: LabeledRun) -> FloatArray:
        """Return the target share of each compared level; (n_queries, n_levels), NaN: no target."""
        if "target" not in self.params:
            raise ParameterError(
                f"{self.NAME} needs a target: write {self.NAME}(groups=..., target=...), e.g. with "
                "Target.uniform(groups) or Target.from_qrels(qrels, groups)"
            )
        target: Target = self["target"].for_groups(self.groups)
        rows = target.for_qids(judged.qids).expanded()
        dense = rows.dense()[:, self.compared]
        total = dense.sum(axis=1, keepdims=True)
        result: FloatArray = np.full_like(dense, np.nan)
        return np.asarray(np.divide(dense, total, out=result, where=total > 0))

    def score_all(self, judged: LabeledRun) -> FloatArray:
        """Return the value of each query, and warn of what is undefined or thinly labeled."""
        scored = self.per_ranking(judged)
        n_queries = len(judged.qids)
        count = np.bincount(scored.query, minlength=n_queries)
        summed = total(scored.query, scored.value, n_queries)
        value = np.where(judged.present, summed / np.maximum(count, 1), self.worst(judged))
        for _, queries in scored.gaps:
            value[queries] = np.nan
        self._explain(judged, scored, value)
        if "groups" in self.params:
            warn_unlabeled_ranks(self, judged, self.groups)
        return value

    def _explain(self, judged: LabeledRun, scored: Scored, value: FloatArray) -> None:
        unexplained = np.isnan(value)
        by_rows = []
        for reason, rows in scored.reasons:
            queries = np.zeros(len(value), dtype=bool)
            queries[scored.query[rows & np.isnan(scored.value)]] = True
            by_rows.append((reason, queries))
        lost = "the run has no document for it, and no value is the worst one"
        for reason, queries in (*scored.gaps, (lost, ~judged.present), *by_rows):
            named = unexplained & queries
            self.warn_undefined(judged.qids[named], len(value), reason)
            unexplained &= ~named
        self.warn_undefined(judged.qids[unexplained], len(value), "the definition leaves it open")


class BinaryMeasure(GroupMeasure):
    """Base of the measures that compare one level with all others together."""

    def check_params(self) -> None:
        """Raise a `ParameterError` if the groups lack the level."""
        super().check_params()
        if "groups" in self.params and "protected" in self.params:
            self.protected()

    def protected(self) -> int:
        """Return the place of the protected level among those that are compared."""
        names = self.names()
        wanted = self.params.get("protected")
        if wanted is None:
            raise ParameterError(
                f"{self.NAME} compares one level with the others: write {self.NAME}(groups=..., "
                f"protected=...) with one of {listed(names, 40)}"
            )
        if wanted not in names:
            raise ParameterError(
                f"{self.NAME}: {self.groups.name!r} has no level {wanted!r} to protect; it has "
                f"{listed(names, 40)}"
            )
        return names.index(wanted)

    def two(self, values: FloatArray) -> FloatArray:
        """Return the column of the protected level and the sum of the others; shape (n, 2)."""
        own = values[:, self.protected()]
        return np.column_stack([own, values.sum(axis=1) - own])


@dataclass(frozen=True)
class Listing:
    """The documents with a known group of each ranking, in order; "rows" below.

    Documents without one are left out and the others move up: a prefix of 10 is the first 10
    documents of which something is known.

    Attributes:
        query: index into the labels' queries of each ranking; shape (n_rankings,).
        ranking: ranking of each row, non-decreasing; shape (n_rows,).
        size: number of rows of each ranking; shape (n_rankings,).
        share: how much of each document belongs to each group; shape (n_rows, n_groups).
    """

    query: IntArray
    ranking: IntArray
    size: IntArray
    share: FloatArray

    @cached_property
    def start(self) -> IntArray:
        """First row of each ranking; shape (n_rankings,)."""
        return np.cumsum(self.size) - self.size

    @cached_property
    def place(self) -> IntArray:
        """Place of each row in its ranking, from 1; shape (n_rows,)."""
        return np.arange(len(self.ranking)) - self.start[self.ranking] + 1

    def running(self, values: FloatArray) -> FloatArray:
        """Return sums over each row and those above it in its ranking; shape of `values`."""
        summed = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
        return np.asarray(summed[1:] - summed[self.start][self.ranking])

    def total(self, values: FloatArray) -> FloatArray:
        """Return sums over each ranking; shape (n_rankings, ...)."""
        if values.ndim == 1:
            return total(self.ranking, values, len(self.size))
        columns = [self.total(column) for column in values.T]
        return np.column_stack(columns) if columns else np.zeros((len(self.size), 0))


def make_listing(measure: GroupMeasure, judged: LabeledRun) -> Listing:
    """Return the labeled documents of a run, cut at the measure's ``@k``.

    The cutoff comes first: ``@10`` reads the first 10 ranks, labeled or not.
    """
    ranked, cutoff = judged.run, measure["cutoff"]
    share = measure.shares_of_run(judged)[ranked.doc]
    kept = share.sum(axis=1) > 0
    if cutoff is not None:
        kept &= ranked.position < cutoff
    ranking = ranked.ranking[kept]
    return Listing(
        query=judged.ranking_query,
        ranking=ranking,
        size=np.bincount(ranking, minlength=ranked.n_rankings),
        share=share[kept],
    )


def ratio(above: FloatArray, below: FloatArray, otherwise: float = np.nan) -> FloatArray:
    """Return above / below, and `otherwise` where below is 0."""
    shape = np.broadcast(above, below).shape
    result: FloatArray = np.full(shape, otherwise)
    return np.asarray(np.divide(above, below, out=result, where=np.asarray(below) != 0))
