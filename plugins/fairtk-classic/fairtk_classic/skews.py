"""The skew of groups in the first k ranks: what Skew, MinSkew and MaxSkew share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.frames import FloatArray
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import NO_TARGET, NOTHING_KNOWN, GroupMeasure, Scored
from fairtk_classic.listing import make_listing

if TYPE_CHECKING:
    from fairtk.measures import Judged

NOT_SHOWN = (
    "a group of the target is not shown, so its skew is minus infinity (smoothing=0.01 makes it "
    "finite)"
)


class SkewMeasure(GroupMeasure):
    """Base of the three; a subclass defines `pick`."""

    CITATION = "geyik2019fairness"
    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "target": p.TARGET,
        "smoothing": p.SMOOTHING,
        "unlabeled": p.UNLABELED,
    }

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return one of the groups' skews of each ranking; NaN columns have none.

        Args:
            skew: skew of each group; shape (n_rankings, n_groups).
        """
        raise NotImplementedError

    def per_ranking(self, judged: Judged) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        target = self.target_shares(judged)
        sums = listed.total(listed.share)
        known = listed.size > 0
        skew = skew_values(sums, target[listed.query], self["smoothing"])
        value = np.full(len(skew), np.nan)
        open_ = np.asarray(np.isnan(target).any(axis=1))
        rows = known & ~open_[listed.query]
        if rows.any():  # groups without any level have no skew to pick
            value[rows] = self.pick(skew[rows])
        return Scored(
            listed.query,
            np.where(np.isinf(value), np.nan, value),
            (
                (NOTHING_KNOWN, ~known),
                (NOT_SHOWN, value == -np.inf),
                ("the target gives nothing to a group that is shown", value == np.inf),
            ),
            ((NO_TARGET, open_),),
        )


def skew_values(shown: FloatArray, target: FloatArray, smoothing: float) -> FloatArray:
    """Return ln(share shown / target share) of each group; NaN where both are 0.

    Args:
        shown: number of documents of each group; shape (n_rankings, n_groups).
        target: target shares; same shape.
        smoothing: share of the target that is mixed into what is shown.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = shown / shown.sum(axis=1, keepdims=True)
        return np.asarray(np.log((1.0 - smoothing) * share / target + smoothing))
