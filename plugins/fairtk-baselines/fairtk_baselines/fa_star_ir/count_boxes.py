"""Distributions over all vectors of counts of several groups, carried from prefix to prefix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairtk.frames import BoolArray, FloatArray

_TAIL = 1e-12


@dataclass(frozen=True)
class CountBoxes:
    """The distribution function of each prefix at every vector of counts.

    A count above the last of its axis is kept as the last: more than so many documents of the
    group occur in a fair ranking with a probability of less than 1e-12.

    Attributes:
        p: share of each group.
        cdf: P(X_1 <= m_1, ..., X_G <= m_G) for prefix i + 1; the last index of each axis stands
            for no bound; shape (k, size_1, ..., size_G).
        reached: whether a prefix can have these counts; same shape.
    """

    p: tuple[float, ...]
    cdf: FloatArray
    reached: BoolArray

    @classmethod
    def of(cls, k: int, p: Sequence[float], most: int) -> CountBoxes | None:
        """Return the boxes of a number of prefixes; None if they have more than `most` cells."""
        from scipy.stats import binom

        sizes = [min(k, int(binom.isf(_TAIL, k, share)) + 1) + 1 if share else 2 for share in p]
        if k * math.prod(sizes) > most:
            return None
        cdf = np.empty((k, *sizes))
        before = np.ones(sizes)
        for prefix in range(k):
            before = _next(before, p, gathers=False)
            cdf[prefix] = before
        total = np.indices(sizes).sum(axis=0)
        length = np.arange(1, k + 1).reshape(-1, *[1] * len(sizes))
        return cls(tuple(p), cdf, total <= length)

    def values(self, most: float) -> FloatArray:
        """Return the values of the distribution function that are not above `most`."""
        return self.cdf[self.reached & (self.cdf <= most * (1 + _TAIL))]

    def fail_probability(self, limit: float) -> float:
        """Return how likely a fair ranking has a prefix whose value is at most `limit`."""
        mass = np.zeros(self.cdf.shape[1:])
        mass.flat[0] = 1.0
        failed = 0.0
        for prefix in self.cdf:
            mass = _next(mass, self.p, gathers=True)
            rejected = prefix <= limit
            failed += float(mass[rejected].sum())
            mass[rejected] = 0.0
        return min(failed, 1.0)


def _next(before: FloatArray, p: Sequence[float], gathers: bool) -> FloatArray:
    """Return what one more document makes of a function of the counts.

    Args:
        before: the function, for the documents so far.
        p: probability that the document belongs to each group.
        gathers: whether the last index of an axis gathers all higher counts (a probability of
            counts), or stands for no bound (a distribution function).
    """
    result = before * max(0.0, 1.0 - math.fsum(p))
    for axis, share in enumerate(p):
        into, out = np.moveaxis(result, axis, 0), np.moveaxis(before, axis, 0)
        last = len(out) - 1
        into[1 : last + gathers] += share * out[: last - 1 + gathers]
        into[last] += share * out[last]
    return result
