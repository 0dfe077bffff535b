"""rRD: normalized discounted ratio difference."""

from __future__ import annotations

from functools import lru_cache
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from fairtk.errors import InputError
from fairtk.frames import FloatArray
from fairtk_classic.listing import Listing, ratio
from fairtk_classic.prefixes import PrefixMeasure

if TYPE_CHECKING:
    from fairtk.measures import Judged
    from fairtk_classic.group_measure import Reasons, Scored


class NormalizedRatioDifference(PrefixMeasure):
    """How far the ratio of protected to other documents in prefixes is from that of the whole.

    rRD = (1/Z) sum over i = step, 2 step, ... of |n+_i / n-_i - n+_N / n-_N| / log2(i), with n+
    protected and n- other documents; a ratio whose numerator or denominator is 0 is 0 (Yang and
    Stoyanovich 2017). In [0, 1]; lower is closer. The protected level must be the minority: where
    it is more than half of the whole the measure does not apply (NaN).

    Z is the highest sum that any order of the same documents has, found exactly; with a target, any
    ranking of the length. Mind what the definition does: a prefix without other documents has the
    ratio 0, like one without protected documents, and a prefix with one other document dominates.
    The published code caps the ratio at that of the whole instead, so it does not see too many
    protected documents, and estimates Z.

    As `rND` in all else, but every document must be protected or not: one that is so in part is an
    error.
    """

    NAME = "rRD"
    PRETTY_NAME = "Normalized discounted ratio difference"

    def difference(self, own: FloatArray, other: FloatArray, whole: FloatArray) -> FloatArray:
        """Return |n+ / n- - whole / (1 - whole)|; the ratio of a prefix without others is 0."""
        return np.abs(ratio(own, other, 0.0) - ratio(whole, 1.0 - whole, 0.0))

    def per_ranking(self, judged: Judged) -> Scored:
        """Return the value of each ranking; documents must be protected or not."""
        ranked = judged.run
        two = self.two(self.shares_of_run(judged))
        split = np.flatnonzero((two > 0).all(axis=1))
        if len(split):
            raise InputError(
                f"{self!r} counts documents, but docno {str(ranked.docnos[split[0]])!r} belongs to "
                f"{self['protected']!r} in part ({len(split)} such documents); use rND, or groups "
                "with one level per document"
            )
        return super().per_ranking(judged)

    def other_reasons(self, whole: FloatArray) -> Reasons:
        """Return the reason that the protected level is no minority."""
        return (("the protected level is more than half of the whole", whole > 0.5),)

    def most(
        self, listed: Listing, two: FloatArray, whole: FloatArray, targeted: bool
    ) -> FloatArray:
        """Return the highest sum of any order of the same documents; with a target, of any."""
        count = np.rint(listed.total((two[:, 0] > 0).astype(float))).astype(int)
        most = [
            highest(int(n), None if targeted else int(m), float(q), self["step"])
            for n, m, q in zip(listed.size, count, whole, strict=True)
        ]
        return np.where(whole <= 0.5, np.array(most, dtype=float), np.nan)


@lru_cache(maxsize=4096)
def highest(n: int, n_protected: int | None, whole: float, step: int) -> float:
    """Return the highest sum of ratio differences that a ranking can have.

    Prefix by prefix, for each number of protected documents in it the best sum so far: the ratio is
    not monotone in that number, so sorted orders would not do.

    Args:
        n: number of documents.
        n_protected: how many of them are protected; None: any number.
        whole: share of protected documents in the whole.
        step: distance of the prefixes.
    """
    if not 0 <= whole < 1:
        return float("nan")
    wanted = whole / (1.0 - whole)
    best = np.array([0.0])  # by number of protected documents
    for size in range(step, n + 1, step):
        grown = np.full(size + 1, -np.inf)
        for more in range(step + 1):
            grown[more : more + len(best)] = np.maximum(grown[more : more + len(best)], best)
        own = np.arange(size + 1.0)
        if n_protected is not None:
            grown[(own > n_protected) | (size - own > n - n_protected)] = -np.inf
        best = grown + np.abs(ratio(own, size - own, 0.0) - wanted) / log2(size)
    return float(best.max())


rRD = NormalizedRatioDifference()  # noqa: N816 - the paper's name
