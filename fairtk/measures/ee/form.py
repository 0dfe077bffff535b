"""What all forms of EE-D, EE-R and EE-L share: grades, exposure, and what a form finds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairtk.divergence import SparseRows
from fairtk.errors import InputError, ParameterError
from fairtk.exposure.bounds import ExposureValues
from fairtk.exposure.browsing import BrowsingModel
from fairtk.exposure.expected import DEEPEST, RankWeights, expected_exposure, total
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.groups.exposure import Memberships, Shown, group_exposure
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence

Reasons = tuple[tuple[str, BoolArray], ...]
"""Why queries have no value, each with the queries, of shape (n_queries,)."""


@dataclass(frozen=True)
class Found:
    """What a form finds for all queries; arrays have shape (n_queries,)."""

    values: ExposureValues  # EE-D, EE-R and EE-L
    useless: BoolArray  # queries that have no value because nothing is useful
    untargeted: BoolArray | None = None  # queries without EE-R and EE-L for lack of a target
    undefined: Reasons = ()  # why queries have no value at all, each with the queries
    unbounded: Reasons = ()  # why queries have no normalized value
    n: IntArray | None = None  # documents judged or retrieved, if values depend on them
    disparity_has_n: bool = False  # whether EE-D depends on them, too


class Form:
    """One definition of the three measures, with its settings; a subclass defines `find`.

    `lacking` says what is missing without which nothing is measured; empty: nothing.
    """

    disparity_needs_useful = False
    """Whether EE-D, too, has no value where nothing is useful."""

    def __init__(self, measure: FairMeasure) -> None:
        self.name = measure.NAME
        self.where = measure.text
        self.model: BrowsingModel = measure.settings["browsing"]
        self.cutoff: int | None = measure.settings["cutoff"]
        self.graded: bool = measure.settings["graded"]
        self.rel: float | None = measure.settings["rel"]
        variant = measure.settings["variant"]
        values = {"bounds": "='exact'", "estimator": "='unbiased'"}
        for name, only in (("complete", "expeval"), ("bounds", "paper"), ("estimator", "paper")):
            if name in measure.params and variant != only:
                value = values.get(name, "")
                raise ParameterError(f"{self.name}: {name}{value} goes with variant={only!r} only")
        few = self.cutoff is not None and self.cutoff <= DEEPEST
        self._ranks = RankWeights.of(self.model, self.cutoff, self.cutoff or 0) if few else None
        self.lacking = ""
        if self.model.needs_cutoff and self.cutoff is None:
            self.lacking = (
                f"{self.where}: browsing={str(self.model)!r} needs a cutoff, the number of "
                f"documents that the user reads: write {self.where}@5"
            )

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        raise NotImplementedError

    def shown(self, evidence: Evidence) -> SparseRows:
        """Return the attention that each ranking gives: a row per ranking, a cell per pair."""
        ranked, pairs = evidence.rankings, evidence.pairs
        useful = (self.grades(pairs.label) > 0)[pairs.of_row]
        deepest = int(ranked.position.max(initial=-1)) + 1
        weight = self.ranks(deepest).attention(ranked, useful)
        return SparseRows(ranked.ranking, pairs.of_row, weight, ranked.n_rankings, len(pairs))

    def targets(self, evidence: Evidence) -> FloatArray:
        """Return the target exposure of each pair; shape (n_pairs,)."""
        raise ParameterError(f"{self.where}: no target by document; use variant='paper'")

    def ranks(self, deepest: int) -> RankWeights:
        """Return the attention of the first ranks, of `deepest` at most without a cutoff."""
        return self._ranks or RankWeights.of(self.model, self.cutoff, deepest)

    def grades(self, label: FloatArray) -> FloatArray:
        """Return the grade of each label: above 0 is useful, NaN is not judged."""
        rel = self.rel
        grade = label if rel is None else np.where(label >= rel, label, np.minimum(label, 0.0))
        return grade if self.graded else np.where(grade > 0, 1.0, np.minimum(grade, 0.0))

    def judged(self, evidence: Evidence) -> tuple[FloatArray, BoolArray, FloatArray, IntArray]:
        """Return of each pair the grade, whether it is useful, and the expected exposure.

        Shape (n_pairs,); then the number of useful documents of each query, shape (n_queries,).
        """
        ranked, pairs = evidence.rankings, evidence.pairs
        grade = self.grades(pairs.label)
        useful = grade > 0
        n_useful = counts(pairs.query, useful, len(evidence.qids))
        if evidence.exact is not None:
            weight = evidence.exposure_of_rows(self.where, self.model, self.cutoff)
        else:
            deepest = int(ranked.position.max(initial=-1)) + 1
            weight = self.ranks(deepest).attention(ranked, useful[pairs.of_row])
        samples = ranked.n_samples[ranked.query]
        exposure = expected_exposure(weight, pairs.of_row, len(useful), samples)
        return grade, useful, exposure, n_useful

    def without_sampling(self, evidence: Evidence, found: Found) -> Found:
        """Return values whose EE-D and EE-L are right in expectation for any number of samples.

        The mean exposure of N rankings has the squared norm ((N - 1) D + W) / N in expectation,
        with D that of the policy and W the mean squared norm of its rankings: one number for all
        rankings under models that look at ranks alone, the mean over the samples under a cascade. A
        query whose run has no samples is left as it is: its ranking is the policy.
        """
        ranked = evidence.rankings
        if not ranked.sampled:
            return found
        query = evidence.query_of_run[ranked.ranking_query]
        n = np.bincount(query, minlength=len(evidence.qids))
        alone = np.flatnonzero(n == 1)
        if len(alone):
            raise InputError(
                f"{self.where}: qid {str(evidence.qids[alone[0]])!r} has one sample ({len(alone)} "
                "such queries), and the unbiased estimate needs two; draw more, drop the column "
                "'sample' of a ranking that is always the same, or say estimator='plain'"
            )
        square = total(query, self.shown(evidence).square(), len(n)) / np.maximum(n, 1)
        values = found.values
        added = np.where(n > 0, (square - values.disparity.value) / np.maximum(n - 1, 1), 0.0)
        disparity = replace(values.disparity, value=values.disparity.value - added)
        loss = replace(values.loss, value=values.loss.value - added)
        return replace(found, values=replace(values, disparity=disparity, loss=loss))


def counts(index: IntArray, mask: Any, n_queries: int) -> IntArray:
    """Return how many items of each query a mask holds; shape (n_queries,)."""
    return np.bincount(index[mask], minlength=n_queries)


def summed(
    evidence: Evidence, memberships: Memberships, weight: FloatArray, pair: IntArray
) -> SparseRows:
    """Return weights of pairs, summed over each query's groups."""
    pairs = evidence.pairs
    shown = Shown(pairs.query[pair], pairs.doc[pair], weight, len(evidence.qids))
    return group_exposure(shown, memberships)
