"""The form by groups of TREC Fair Ranking 2022, Task 2."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fairtk.divergence import SparseRows
from fairtk.errors import ParameterError
from fairtk.exposure.bounds import Bounded, ExposureValues
from fairtk.exposure.expected import total
from fairtk.frames.arrays import FloatArray
from fairtk.groups.exposure import Memberships, Shown, group_exposure, loss_parts
from fairtk.measures.base import FairMeasure
from fairtk.measures.ee.form import Form, Found, summed
from fairtk.measures.evidence import Evidence


class Task2Form(Form):
    """Exposure of groups against a target distribution times the attention of the ranks.

    One departure: with ``useful_only=False`` the track's code counts nothing at all where no
    useful document is retrieved, which makes EE-D 0, its best value; here documents count as
    always.
    """

    RANKS: ClassVar[int] = 20
    """Ranks whose attention scales the target without a cutoff: TREC's Task 2 asked for 20."""

    def __init__(self, measure: FairMeasure) -> None:
        super().__init__(measure)
        given = measure.params
        if (
            measure.settings["variant"] != "paper"
            or measure.settings["bounds"] != "paper"
            or "n" in given
        ):
            raise ParameterError(
                f"{self.name}: groups go with variant='paper' (TREC's form) or 'expeval', and "
                "without bounds and n"
            )
        if measure.settings["normalize"]:
            raise ParameterError(
                f"{self.name}: normalize=True is not defined for groups: the official score is "
                "not normalized"
            )
        self.groups = measure.settings["groups"]
        self.target = measure.settings["target"]
        if self.target is not None:
            self.target = self.target.for_groups(self.groups)
        self.useful_only: bool = measure.settings["useful_only"]
        self.disparity_needs_useful = self.useful_only
        if self.target is None and measure.PART != "disparity":
            self.lacking = (
                f"{self.name} with groups needs a target: {self.name}(groups=..., target=...), "
                "e.g. Target.from_work_needed(...) or Target.from_qrels(qrels, groups)"
            )

    @property
    def scale(self) -> float:
        """The attention of the ranks, which the target is a distribution of."""
        ranks = np.arange(self.cutoff or self.RANKS, dtype=np.int64)
        return float(self.model.weights(ranks).sum())

    def shown(self, evidence: Evidence) -> SparseRows:
        """Return the exposure that each ranking gives: a row per ranking, a cell per group."""
        rows, pairs = super().shown(evidence), evidence.pairs
        counted = self.grades(pairs.label) > 0
        weight = rows.weight * counted[rows.cell] if self.useful_only else rows.weight
        items = Shown(rows.row, pairs.doc[rows.cell], weight, rows.n_rows)
        return group_exposure(items, self.groups.memberships(pairs.docnos, "drop"))

    def find(self, evidence: Evidence) -> Found:
        """Return the values of all queries."""
        pairs, n_queries = evidence.pairs, len(evidence.qids)
        _, useful, exposure, n_useful = self.judged(evidence)
        exposure = exposure * useful if self.useful_only else exposure
        memberships = self.groups.memberships(pairs.docnos, "drop")
        system = summed(evidence, memberships, exposure, np.arange(len(pairs)))
        nobody = np.zeros(0, dtype=np.int64)
        wanted: Any = SparseRows(nobody, nobody, np.zeros(0), n_queries, system.n_cells)
        if self.target is not None:
            wanted = self.target.for_qids(evidence.qids)
        disparity, relevance, loss = loss_parts(system, wanted, self.scale)
        untargeted = wanted.total() == 0
        square = self.scale**2 * wanted.square()
        highest = self._highest(n_useful, memberships)
        zero = np.zeros(n_queries)
        values = ExposureValues(
            Bounded(disparity, zero, highest, highest, 1.0),
            Bounded(relevance, zero, highest, zero, 0.0),
            Bounded(loss, zero, highest + square, highest + square, 1.0),
        )
        return Found(values, n_useful == 0, untargeted)

    def _highest(self, n_useful: Any, memberships: Memberships) -> FloatArray:
        """Return what no disparity is above; NaN where it has no end; shape (n_queries,).

        That is all attention on documents of one group, or of as many as a document may have at
        once: the norm of a sum is at most the sum of the norms.
        """
        depth = np.full(len(n_useful), self.cutoff or self.RANKS)
        if self.cutoff is None:
            if not self.useful_only:
                return np.full(len(n_useful), np.nan)
            depth = np.maximum(depth, n_useful)
        weight = self.model.weights(np.arange(int(depth.max(initial=0)), dtype=np.int64))
        attention = np.concatenate([[0.0], np.cumsum(weight)])[depth]
        square = total(memberships.owner, memberships.weight**2, len(memberships.size))
        return np.asarray(attention**2 * square.max(initial=1.0))
