"""MinSkew: the skew of the group that is shown least."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairtk.frames import FloatArray
from fairtk_classic.skews import SkewMeasure

if TYPE_CHECKING:
    from fairtk.measures import Judged


class MinSkew(SkewMeasure):
    """How much less than its target share the most disadvantaged group has of the first k ranks.

    MinSkew@k = min over groups of ln(share among the first k / target share) (Geyik et al. 2019). 0
    or below; higher is closer to the target, 0 is the target.

    As `Skew` for documents without a known group or with several, and for samples. Groups without a
    target share are not looked at. Undefined (NaN) where a group of the target is not shown at all,
    which ``smoothing=s`` makes finite; then a query that the run lacks gets ln(s), the lowest value
    there is, otherwise NaN. Also undefined: no target, no document with a group.
    """

    NAME = "MinSkew"
    PRETTY_NAME = "Minimum skew"
    BETTER = "higher"

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return the smallest skew."""
        return np.asarray(np.nanmin(skew, axis=1))

    def worst(self, judged: Judged) -> float:
        """Return the skew of a group that is not shown."""
        return float(np.log(self["smoothing"])) if self["smoothing"] > 0 else np.nan


MIN_SKEW = MinSkew()
