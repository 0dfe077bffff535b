"""The exposure of groups and the documents it is divided by: what S&J's and ER measures share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.errors import ParameterError, listed
from fairtk.exposure import attention, total
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk_classic import combination
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import NOTHING_KNOWN, GroupMeasure, Scored

if TYPE_CHECKING:
    from fairtk.exposure import BrowsingModel
    from fairtk.measures import Judged


@dataclass(frozen=True)
class Exposures:
    """What groups get; rows are queries, or rankings if samples are kept apart.

    Attributes:
        query: index into the labels' queries of each row; shape (n_rows,).
        exposure: attention of each group's documents, summed; shape (n_rows, n_groups).
        gain: the same of attention times label.
        known: whether any document with a group is shown; shape (n_rows,).
    """

    query: IntArray
    exposure: FloatArray
    gain: FloatArray
    known: BoolArray


@dataclass(frozen=True)
class Population:
    """The documents that counts and means are taken over; one row for each row of `Exposures`.

    Attributes:
        size: number of documents of each group.
        relevance: sum of their labels (below 0: 0; unlabeled: 0).
        relevant: number of those with a label above 0.
    """

    size: FloatArray
    relevance: FloatArray
    relevant: FloatArray


class ExposureMeasure(GroupMeasure):
    """Base of the measures that add up the attention of a group's documents."""

    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "browsing": p.browsing("DCG"),
        "population": p.population("judged+ranked"),
        "unlabeled": p.UNLABELED,
        "amortize": p.amortize(True),
    }

    @property
    def model(self) -> BrowsingModel:
        """The browsing model."""
        result: BrowsingModel = self["browsing"]
        return result

    def exposures(self, judged: Judged) -> Exposures:
        """Return what the groups get, in each query or in each sampled ranking."""
        ranked, model, cutoff = judged.run, self.model, self["cutoff"]
        if model.needs_cutoff and cutoff is None:
            raise ParameterError(
                f"{self!r}: browsing={str(model)!r} needs a cutoff: write {self!r}@5"
            )
        label = np.maximum(np.nan_to_num(judged.pair_label), 0.0)[judged.pair_of_row]
        weight = attention(ranked, model, cutoff, label > 0)
        share = self.shares_of_run(judged)[ranked.doc]
        if self["amortize"]:
            row, query = ranked.query, judged.query_of_run
            weight = weight / ranked.n_samples[row]
        else:
            row, query = ranked.ranking, judged.ranking_query
        exposure = _summed(row, weight[:, None] * share, len(query))
        gain = _summed(row, (weight * label)[:, None] * share, len(query))
        return Exposures(query, exposure, gain, exposure.sum(axis=1) > 0)

    def population(self, judged: Judged) -> Population:
        """Return the documents that counts and means are taken over, in each row of `exposures`.

        What a ranking shows is counted in each ranking; where samples are averaged, so are the
        counts. The documents that any sample shows would be more with every sample that is drawn.
        """
        chosen, cutoff = self["population"], self["cutoff"]
        ranked, amortize = judged.run, self["amortize"]
        has_label = ~np.isnan(judged.pair_label)
        label = np.maximum(np.nan_to_num(judged.pair_label), 0.0)
        share = self.shares(judged, judged.docnos)[judged.pair_doc]
        parts = (share, share * label[:, None], share * (label > 0)[:, None])

        row = ranked.query if amortize else ranked.ranking
        query = judged.query_of_run
        query = query if amortize else query[ranked.ranking_query]
        counted = np.zeros(len(row), dtype=bool)
        if chosen in ("ranked", "judged+ranked"):
            counted = np.ones(len(row), dtype=bool) if cutoff is None else ranked.position < cutoff
        if chosen == "judged+ranked":
            counted &= ~has_label[judged.pair_of_row]
        once = 1.0 / ranked.n_samples[ranked.query[counted]] if amortize else np.ones(counted.sum())
        shown_pair = judged.pair_of_row[counted]
        found = [
            _summed(row[counted], part[shown_pair] * once[:, None], len(query)) for part in parts
        ]
        if chosen != "ranked":
            n_queries = len(judged.qids)
            query_of_label = judged.pair_query[has_label]
            known = [_summed(query_of_label, part[has_label], n_queries) for part in parts]
            found = [some + every[query] for some, every in zip(found, known, strict=True)]
        if chosen == "collection":
            every = self.shares(judged, self.groups.docnos).sum(axis=0)
            found[0] = np.tile(every, (len(query), 1))
        return Population(*found)


class CombinedExposure(ExposureMeasure):
    """Base of EXP, EXPU, EXPRU, ABR and the ER measures; a subclass defines `per_group`."""

    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        **ExposureMeasure.SUPPORTED_PARAMS,
        "combine": p.COMBINE,
        "empty": p.EMPTY,
    }
    EMPTY_REASON: ClassVar[str] = "a group has no document"

    @property
    def combined(self) -> str:
        """How the groups are compared."""
        return str(self["combine"])

    @property
    def better(self) -> str:
        """``"higher"`` for the ratio of the smallest to the largest, else ``"lower"``."""
        return "higher" if self.combined in combination.HIGHER_IS_BETTER else "lower"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return what is compared, as a numerator and the denominator; both (n_rows, n_groups).

        Args:
            got: what the groups get.
            have: their documents, one row for each row of `got`.
        """
        raise NotImplementedError

    def top(self) -> float:
        """Return the highest value that a group can have; infinity if there is none."""
        return float("inf")

    def per_ranking(self, judged: Judged) -> Scored:
        """Return the value of each row."""
        got = self.exposures(judged)
        above, below = self.per_group(got, self.population(judged))
        counts = below > 0
        values = np.divide(above, below, out=np.zeros_like(above), where=counts)
        value = combination.combine(values, counts, self.combined)
        value[~got.known] = np.nan
        missing: BoolArray = ~np.asarray(counts.all(axis=1))
        strict = self.params.get("empty") != "skip"
        if strict:
            value[missing] = np.nan
        return Scored(
            got.query,
            value,
            (
                (NOTHING_KNOWN, ~got.known),
                (self._empty(counts), missing & strict),
                (combination.NO_GROUPS, counts.sum(axis=1) < 2),
                (combination.INFINITE, np.ones(len(value), dtype=bool)),
            ),
        )

    def _empty(self, counts: BoolArray) -> str:
        lacking = np.flatnonzero(~counts.all(axis=0))
        names = self.names()
        found = listed([names[place] for place in lacking])
        return f"{self.EMPTY_REASON}: {found} (empty='skip' compares the others)"

    def worst(self, judged: Judged) -> float:
        """Return a value that no ranking is worse than, NaN if there is none."""
        return combination.worst(self.combined, len(self.compared), self.top())


def _summed(row: IntArray, values: FloatArray, n_rows: int) -> FloatArray:
    """Return the sums of values that share a row; shape (n_rows, n_columns)."""
    columns = [total(row, column, n_rows) for column in values.T]
    return np.column_stack(columns) if columns else np.zeros((n_rows, 0))
