"""Skew: one group's share of the first k ranks against a target."""

from __future__ import annotations

from typing import ClassVar

from fairtk.errors import ParameterError, listed
from fairtk.frames import FloatArray
from fairtk.measures import Param
from fairtk_classic.skews import SkewMeasure

GROUP = Param(str, desc="the level whose skew is taken")


class Skew(SkewMeasure):
    """Whether one group has more or less of the first k ranks than the target gives it.

    Skew@k = ln(share of the group among the first k / target share) (Geyik et al. 2019). 0 is the
    target; below 0 the group is shown too little, above 0 too much. Better is closer to 0: "higher"
    is true of values below 0 only, and values of queries on both sides cancel in a mean.

    Documents without a known group are left out. A document of several groups counts in part. A
    group that is not shown has a skew of minus infinity, so the value is undefined (NaN);
    ``smoothing=s`` takes (1 - s) share + s target instead, which keeps 0 in its place and cannot
    fall below ln(s). Also undefined: no target, a target of 0, no document with a group, and a
    query that the run lacks (no value is the worst). On sampled runs the mean over samples.
    """

    NAME = "Skew"
    PRETTY_NAME = "Skew"
    BETTER = "higher"
    SUPPORTED_PARAMS: ClassVar = {**SkewMeasure.SUPPORTED_PARAMS, "group": GROUP}

    def check_params(self) -> None:
        """Raise a `ParameterError` if the groups lack the level."""
        super().check_params()
        if "groups" in self.params and "group" in self.params:
            self.place()

    def place(self) -> int:
        """Return the place of the level among those that are compared."""
        names, wanted = self.names(), self.params.get("group")
        if wanted not in names:
            found = "" if wanted is None else f"; found {wanted!r}"
            raise ParameterError(
                f"Skew is of one group: write Skew(groups=..., group=..., target=...) with one of "
                f"{listed(names, 40)}{found}"
            )
        return names.index(wanted)

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return the skew of the group."""
        return skew[:, self.place()]


SKEW = Skew()
