"""The base classes of measures of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.measures import FairMeasure, Scores, few_known_groups
from fairtk.wording import format_list

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target
    from fairtk.measures import LabeledRun


Reasons = tuple[tuple[str, BoolArray], ...]
"""Reasons why values are undefined, each with a mask."""

NOTHING_KNOWN = "no document with a known group in the ranking"
NO_TARGET = "no target"
_MOST_GROUPS = 4096


@dataclass(frozen=True)
class Scored:
    """Values before they are averaged within each query.

    Attributes:
        query: index into the labels' queries of each row; shape (n_rows,).
        value: value of each row (a ranking, or a query), NaN if undefined; same shape.
        reasons: why rows are undefined, each with a mask; same shape.
        gaps: why queries are undefined for all runs, each with a mask; shape (n_queries,).
    """

    query: IntArray
    value: FloatArray
    reasons: Reasons = ()
    gaps: Reasons = ()


class GroupMeasure(FairMeasure):
    """Base class of measures of groups.

    A subclass defines `per_ranking`, and `worst` if a missing query has a worst value other than
    `MISSING`.
    """

    MISSING = float("nan")

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking, or of each query."""
        raise NotImplementedError(f"measure {self.NAME} must define per_ranking")

    def worst(self, judged: LabeledRun) -> FloatArray | float:
        """Return the worst value, for a query missing from the run; NaN if it does not exist."""
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
            raise ParameterError(
                f"{self.NAME}: groups are required: write {self.NAME}(groups=..., ...)"
            )
        result: Groups = self["groups"]
        return result

    @property
    def compared_levels(self) -> IntArray:
        """The indices of the compared levels; the unknown level only if it counts as a group."""
        space = self.groups.space
        if space.size > _MOST_GROUPS:
            raise ParameterError(
                f"{self.NAME}: expected at most {_MOST_GROUPS} groups, got {space.size} in "
                f"{self.groups.name!r}; cross fewer attributes"
            )
        every = np.arange(space.size)
        return every if self["unlabeled"] == "group" else every[space.known(every)]

    def names(self) -> list[str]:
        """Return the names of the compared levels, with ``*`` in crossed levels."""
        levels = self.groups.levels
        compared = [levels[place] for place in self.compared_levels.tolist()]
        return [level if isinstance(level, str) else "*".join(level) for level in compared]

    def shares(self, judged: LabeledRun, docnos: Any) -> FloatArray:
        """Return the memberships in each compared level; shape (n_docnos, n_levels)."""
        policy = {"drop": "drop", "group": "unknown", "uniform": "uniform"}[self["unlabeled"]]
        return self.groups.memberships(docnos, policy).dense()[:, self.compared_levels]

    def shares_of_run(self, judged: LabeledRun) -> FloatArray:
        """Return `shares` of the run's documents, computed once for all measures."""
        return judged.derived(_shares_of_run, _Levels(self.groups, self["unlabeled"], self))

    def shares_of_rows(self, judged: LabeledRun) -> FloatArray:
        """Return `shares` of the documents of each sorted row of the run; (n_rows, n_levels).

        With a target, documents of unknown group are left out of queries whose target gives the
        unknown level no share.
        """
        ranked = judged.run
        if self.params.get("target") is None or self["unlabeled"] != "group":
            return self.shares_of_run(judged)[ranked.doc]
        target: Target = self["target"].for_groups(self.groups)
        memberships = self.groups.memberships(ranked.docnos, "unknown").take(ranked.doc)
        return target.drop_unknown(memberships, ranked.qids[ranked.query]).dense()

    def target_shares(self, judged: LabeledRun) -> FloatArray:
        """Return the target share of each compared level, or NaN; shape (n_queries, n_levels)."""
        if "target" not in self.params:
            raise ParameterError(
                f"{self.NAME}: a target is required; write {self.NAME}(groups=..., target=...), "
                "e.g. with Target.uniform(groups) or Target.from_qrels(qrels, groups)"
            )
        target: Target = self["target"].for_groups(self.groups)
        rows = target.for_qids(judged.qids).expanded()
        dense = rows.dense()[:, self.compared_levels]
        total = dense.sum(axis=1, keepdims=True)
        result: FloatArray = np.full_like(dense, np.nan)
        return np.asarray(np.divide(dense, total, out=result, where=total > 0))

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        scored = self.per_ranking(judged)
        n_queries = len(judged.qids)
        count = np.bincount(scored.query, minlength=n_queries)
        summed = sum_by_index(scored.query, scored.value, n_queries)
        value = np.where(judged.present, summed / np.maximum(count, 1), self.worst(judged))
        for _, queries in scored.gaps:
            value[queries] = np.nan
        by_rows = []
        for reason, rows in scored.reasons:
            queries = np.zeros(n_queries, dtype=bool)
            queries[scored.query[rows & np.isnan(scored.value)]] = True
            by_rows.append((reason, queries))
        absent = ("missing from the run, without a worst value", ~judged.present)
        reasons = [(r, mask & np.isnan(value)) for r, mask in (*scored.gaps, absent, *by_rows)]
        counts = few_known_groups(self, judged, self.groups) if "groups" in self.params else {}
        return Scores.of(value, reasons, counts)


@dataclass(frozen=True)
class _Levels:
    """The groups and the setting that shares depend on, and one of the measures with them."""

    groups: Groups
    unlabeled: str
    measure: GroupMeasure = field(compare=False)


def _shares_of_run(judged: LabeledRun, levels: _Levels) -> FloatArray:
    return levels.measure.shares(judged, judged.run.docnos)


class BinaryMeasure(GroupMeasure):
    """Base class of the measures that compare one level with all others together."""

    def check_params(self) -> None:
        """Raise a `ParameterError` if the groups do not have the level."""
        super().check_params()
        if "groups" in self.params and "protected" in self.params:
            self.protected()

    def protected(self) -> int:
        """Return the index of the protected level among the compared levels."""
        names = self.names()
        level = self.params.get("protected")
        if level is None:
            raise ParameterError(
                f"{self.NAME}: a protected level is required: write {self.NAME}(groups=..., "
                f"protected=...) with one of {format_list(names, 40)}"
            )
        if level not in names:
            raise ParameterError(
                f"{self.NAME}: protected: unknown level {level!r} of {self.groups.name!r}; known: "
                f"{format_list(names, 40)}"
            )
        return names.index(level)

    def two(self, values: FloatArray) -> FloatArray:
        """Return the column of the protected level and the sum of all others; shape (n, 2)."""
        own = values[:, self.protected()]
        return np.column_stack([own, values.sum(axis=1) - own])


@dataclass(frozen=True)
class Listing:
    """The documents with a known group of each ranking, in order, as rows.

    Other documents are left out, so a prefix of 10 has the first 10 documents with a known group.

    Attributes:
        query: index into the labels' queries of each ranking; shape (n_rankings,).
        ranking: ranking of each row, non-decreasing; shape (n_rows,).
        size: number of rows of each ranking; shape (n_rankings,).
        share: membership of each document in each group; shape (n_rows, n_groups).
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
        """Position of each row in its ranking, from 1; shape (n_rows,)."""
        return np.arange(len(self.ranking)) - self.start[self.ranking] + 1

    def running(self, values: FloatArray) -> FloatArray:
        """Return sums over each row and those above it in its ranking; shape of `values`."""
        summed = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
        return np.asarray(summed[1:] - summed[self.start][self.ranking])

    def total(self, values: FloatArray) -> FloatArray:
        """Return sums over each ranking; shape (n_rankings, ...)."""
        if values.ndim == 1:
            return sum_by_index(self.ranking, values, len(self.size))
        columns = [self.total(column) for column in values.T]
        return np.column_stack(columns) if columns else np.zeros((len(self.size), 0))


def make_listing(measure: GroupMeasure, judged: LabeledRun) -> Listing:
    """Return the labeled documents of a run, cut at the measure's ``@k``.

    The cutoff comes first: ``@10`` reads the first 10 ranks, labeled or not.
    """
    ranked, cutoff = judged.run, measure["cutoff"]
    share = measure.shares_of_rows(judged)
    has_group = share.sum(axis=1) > 0
    if cutoff is not None:
        has_group &= ranked.position < cutoff
    ranking = ranked.ranking[has_group]
    return Listing(
        query=judged.ranking_query,
        ranking=ranking,
        size=np.bincount(ranking, minlength=ranked.n_rankings),
        share=share[has_group],
    )


def ratio(above: FloatArray, below: FloatArray, otherwise: float = np.nan) -> FloatArray:
    """Return above / below, or `otherwise` if below is 0."""
    shape = np.broadcast(above, below).shape
    result: FloatArray = np.full(shape, otherwise)
    return np.asarray(np.divide(above, below, out=result, where=np.asarray(below) != 0))
