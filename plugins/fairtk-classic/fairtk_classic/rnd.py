"""rND: normalized discounted difference."""

from __future__ import annotations

import numpy as np

from fairtk.frames import FloatArray
from fairtk_classic.listing import ratio
from fairtk_classic.prefixes import PrefixMeasure


class NormalizedDifference(PrefixMeasure):
    """How far the share of protected documents in prefixes is from their share of the whole.

    rND = (1/Z) sum over i = step, 2 step, ... of |n+_i / i - n+_N / N| / log2(i), with n+_i
    protected documents among the first i of N (Yang and Stoyanovich 2017). In [0, 1]; lower is
    closer: 0 where every prefix has the share of the whole. Too many and too few protected
    documents count alike.

    The whole is the ranking itself, cut at ``@k``, as in the paper; with ``target`` it is the
    target. Z is the sum of the worst order of the same documents, computed exactly (the published
    code estimates it from ten random rankings); with a target, of a ranking of one kind only. The
    discount is the paper's log2(i); the published code has log2(i + 1).

    Documents without a known group are left out and the others move up (``unlabeled``). A document
    of several groups counts in part. Undefined (NaN): fewer than `step` documents with a group; all
    of one kind, or a single prefix that is the whole (0/0, not 0). 1 for a query that the run
    lacks. On sampled runs the mean over samples.
    """

    NAME = "rND"
    PRETTY_NAME = "Normalized discounted difference"

    def difference(self, own: FloatArray, other: FloatArray, whole: FloatArray) -> FloatArray:
        """Return |n+ / i - whole|."""
        return np.abs(ratio(own, own + other) - whole)


rND = NormalizedDifference()  # noqa: N816 - the paper's name
