"""Rankings of labeled documents, for the measures that look at prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fairtk.exposure import total
from fairtk.frames import FloatArray, IntArray
from fairtk_classic.group_measure import GroupMeasure

if TYPE_CHECKING:
    from fairtk.measures import Judged


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


def make_listing(measure: GroupMeasure, judged: Judged) -> Listing:
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
