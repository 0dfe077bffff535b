"""MaxSkew: the skew of the group that is shown most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairtk.frames import FloatArray
from fairtk_classic.skews import SkewMeasure, skew_values

if TYPE_CHECKING:
    from fairtk.measures import Judged


class MaxSkew(SkewMeasure):
    """How much more than its target share the most advantaged group has of the first k ranks.

    MaxSkew@k = max over groups of ln(share among the first k / target share) (Geyik et al. 2019).
    From 0 to ln(1 / smallest target share), the value of a query that the run lacks; lower is
    closer to the target, 0 is the target.

    As `Skew` for documents without a known group or with several, for samples and ``smoothing``.
    Undefined (NaN): no target, no document with a group, a group that is shown and has no target.
    """

    NAME = "MaxSkew"
    PRETTY_NAME = "Maximum skew"
    BETTER = "lower"

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return the largest skew."""
        return np.asarray(np.nanmax(skew, axis=1))

    def worst(self, judged: Judged) -> FloatArray:
        """Return the skew of the group with the smallest target share, if only it is shown."""
        target = self.target_shares(judged)
        smallest = np.where(target > 0, target, 1.0).min(axis=1, initial=1.0, keepdims=True)
        alone = np.column_stack([np.ones(len(target)), np.zeros(len(target))])
        two = np.column_stack([smallest, 1.0 - smallest])
        return skew_values(alone, two, self["smoothing"])[:, 0]


MAX_SKEW = MaxSkew()
