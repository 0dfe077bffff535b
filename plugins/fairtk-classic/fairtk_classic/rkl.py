"""rKL: normalized discounted Kullback-Leibler divergence."""

from __future__ import annotations

import numpy as np

from fairtk.frames import FloatArray
from fairtk_classic.listing import ratio
from fairtk_classic.prefixes import PrefixMeasure


class NormalizedDivergence(PrefixMeasure):
    """How far the shares of protected and other documents in prefixes diverge from the whole.

    rKL = (1/Z) sum over i = step, 2 step, ... of KL(P_i || Q) / log2(i), with P_i the shares of
    protected and other documents among the first i, Q those of the whole, and logarithms to base 2
    (Yang and Stoyanovich 2017). In [0, 1]; lower is closer.

    As `rND` in all else: the whole, Z, discount, documents without a group, undefined queries,
    samples. A share of 0 adds nothing (0 log 0 = 0), as in the definition; the published code sets
    shares of 0 and of 1 to 0.001. Undefined (NaN) also where the target gives nothing to a group
    that a prefix shows. For more than two groups see `NDKL`.
    """

    NAME = "rKL"
    PRETTY_NAME = "Normalized discounted Kullback-Leibler divergence"

    def difference(self, own: FloatArray, other: FloatArray, whole: FloatArray) -> FloatArray:
        """Return the divergence in bits."""
        share = ratio(own, own + other)
        return _bits(share, whole) + _bits(1.0 - share, 1.0 - whole)


def _bits(p: FloatArray, q: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, p * np.log2(p / q), np.where(np.isnan(p + q), np.nan, 0.0))


rKL = NormalizedDivergence()  # noqa: N816 - the paper's name
