"""DELTR's loss and its gradient, for all queries at once: pure array arithmetic.

Zehlike and Castillo (WWW 2020): ListNet's cross entropy of top-one probabilities (Eqs. 2 and 7),
and the squared difference of two groups' mean exposure, top-one probability times 1 / ln 2, where
it is to the protected group's disadvantage (Eq. 5), added with a factor gamma (Eq. 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairtk.frames import FloatArray, IntArray

TOP_ATTENTION = 1 / np.log(2.0)  # of the first place: 1 / ln(1 + rank) at rank 1


@dataclass(frozen=True)
class Lists:
    """Where the lists of documents lie in arrays that are sorted by query; none is empty."""

    start: IntArray  # first row of each query, and the number of rows

    @cached_property
    def size(self) -> IntArray:
        """Number of documents of each query; shape (n_queries,)."""
        return np.diff(self.start)

    @cached_property
    def query(self) -> IntArray:
        """Query of each row; shape (n_rows,)."""
        return np.repeat(np.arange(len(self.size)), self.size)

    def total(self, values: FloatArray) -> FloatArray:
        """Sum rows inside each query; shape (n_rows, ...) to (n_queries, ...)."""
        if not len(self.size):
            return np.zeros((0, *values.shape[1:]))
        return np.asarray(np.add.reduceat(values, self.start[:-1], axis=0))

    def log_softmax(self, scores: FloatArray) -> FloatArray:
        """Return the logarithm of each document's top-one probability (Eq. 7); shape (n_rows,)."""
        if not len(self.size):
            return np.zeros(0)
        most = np.maximum.reduceat(scores, self.start[:-1])
        shifted = scores - most[self.query]
        return np.asarray(shifted - np.log(self.total(np.exp(shifted)))[self.query])

    def softmax(self, scores: FloatArray) -> FloatArray:
        """Return the top-one probability of each document (Eq. 7); shape (n_rows,)."""
        return np.asarray(np.exp(self.log_softmax(scores)))


@dataclass(frozen=True)
class LossSides:
    """How much each document belongs to the protected groups and to the others.

    `scale` is what differences of top-one probabilities are multiplied by: 1 / ln 2, or n.
    """

    protected: FloatArray  # shape (n_rows, n_groups)
    rest: FloatArray  # shape (n_rows,)
    scale: FloatArray  # shape (n_queries,)

    def means(self, lists: Lists, top: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return each group's, and the others', mean exposure by query; NaN without any (Eq. 4)."""
        with np.errstate(invalid="ignore"):
            protected = lists.total(self.protected * top[:, None]) / lists.total(self.protected)
            rest = lists.total(self.rest * top) / lists.total(self.rest)
        return protected * self.scale[:, None], rest * self.scale

    def contrast(self, lists: Lists) -> FloatArray:
        """Return what weighs top-one probabilities to E_rest - E_protected; 0 if a side lacks."""
        protected, rest = lists.total(self.protected), lists.total(self.rest)
        both = ((protected > 0) & (rest > 0)[:, None])[lists.query]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (self.rest / rest[lists.query])[:, None] - (
                self.protected / protected[lists.query]
            )
        return np.asarray(np.where(both, each * self.scale[lists.query][:, None], 0.0))


class LossParts(NamedTuple):
    """Per query: ListNet's cross entropy, normalized, and the sum of squared disadvantages."""

    ranking: FloatArray
    exposure: FloatArray


@dataclass(frozen=True)
class Problem:
    """Everything that the loss is computed from, but the weights."""

    features: FloatArray  # standardized, and the protected groups' columns where these are features
    wanted: FloatArray  # top-one probabilities that the labels ask for; shape (n_rows,)
    lists: Lists
    sides: LossSides
    gamma: float  # factor of the exposure term
    divisor: FloatArray  # what a query's cross entropy is divided by; shape (n_queries,)
    share: FloatArray  # what a query's loss counts for; shape (n_queries,)
    l2: float  # factor of the squared norm of the weights

    @cached_property
    def contrast(self) -> FloatArray:
        """See `LossSides.contrast`."""
        return self.sides.contrast(self.lists)

    def parts(self, weights: FloatArray) -> LossParts:
        """Return the parts of each query's loss."""
        log_top = self.lists.log_softmax(self.features @ weights)
        behind = self._behind(np.exp(log_top))
        return LossParts(
            -self.lists.total(self.wanted * log_top) / self.divisor, (behind**2).sum(1)
        )

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss (Eq. 6) and its gradient with respect to the weights."""
        top = self.lists.softmax(self.features @ weights)
        by_top = 2 * self.gamma * (self.contrast * self._behind(top)[self.lists.query]).sum(1)
        # the derivative of a softmax: s_i (v_i - sum of s_j v_j)
        by_score = top * (by_top - self.lists.total(top * by_top)[self.lists.query])
        return self._value(weights), self._from_rows(by_score, top, weights)

    def value_and_published_step(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss, and what the authors' code takes for its gradient.

        With top-one probabilities s and features x, its derivative of the exposure of a group G is
        (sum over G of s_i x_if  -  mean over G of s_i * sum over j and f of s_j x_jf) / ln 2
        for feature f, where Eq. 11 gives
        (mean over G of s_i x_if  -  mean over G of s_i * sum over j of s_j x_jf) / ln 2.
        """
        top = self.lists.softmax(self.features @ weights)
        behind = self._behind(top)
        apart = (self.sides.rest[:, None] - self.sides.protected) * behind[self.lists.query]
        each = 2 * self.gamma * self.sides.scale
        first = each[self.lists.query] * apart.sum(1) * top
        summed = self.lists.total(top * self.features.sum(1))
        second = 2 * self.gamma * (behind**2).sum(1) * summed * self.share
        return self._value(weights), self._from_rows(first, top, weights) - second.sum()

    def _behind(self, top: FloatArray) -> FloatArray:
        """Return by how much each group is exposed less; shape (n_queries, n_groups)."""
        return np.maximum(0.0, self.lists.total(self.contrast * top[:, None]))

    def _value(self, weights: FloatArray) -> float:
        parts = self.parts(weights)
        return float(
            self.share @ (parts.ranking + self.gamma * parts.exposure)
            + self.l2 * (weights @ weights)
        )

    def _from_rows(self, exposure: FloatArray, top: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient for that of the exposure term by score."""
        ranking = (top - self.wanted) / self.divisor[self.lists.query]
        rows = self.share[self.lists.query] * (ranking + exposure)
        return np.asarray(rows @ self.features + 2 * self.l2 * weights)
