"""ARP: attribute rank parity."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairtk.frames import FloatArray
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.exposures import HIGHER_IS_BETTER, INFINITE, NO_GROUPS, combine, worst_combined
from fairtk_classic.group_measure import (
    NOTHING_KNOWN,
    GroupMeasure,
    Listing,
    Scored,
    make_listing,
    ratio,
)

if TYPE_CHECKING:
    from fairtk.measures import LabeledRun


COMBINE = Param(str, default="max-min", choices=p.COMBINATIONS, desc="how the groups are compared")


class AttributeRankParity(GroupMeasure):
    """Whether documents of each group are ranked above others as often as below them.

    Each group has a favored pair representation (Cachel, Rundensteiner and Harrison 2022): the
    share of mixed pairs (a document of the group and another document) in which the group's
    document is ranked higher. It is 0.5 for a group that wins as often as it loses. The groups'
    shares are compared by ``combine``: ``"max-min"`` (default, as in the paper) is in [0, 1], lower
    is more even, and 0 if all shares are equal; for the others see `EXP`.

    The ranking is cut at ``@k``; documents without a known group are left out. A document of
    several groups counts fractionally. The value is undefined (NaN) if a group of the attribute is
    in no mixed pair (``empty="skip"`` compares the others, if there are two), if no document has a
    known group, or for a ratio with a denominator of 0. A query missing from the run gets the worst
    possible value: 1 for ``"max-min"``, 0 for ``"min/max"``, NaN for ``"max/min"``. On sampled
    runs, the value is the mean over samples.
    """

    identity_name = "fairtk_classic.ARP"
    output_version = 1
    NAME = "ARP"
    PRETTY_NAME = "Attribute rank parity"
    CITATION = "cachel2022manirank"
    BETTER = "lower"
    SUPPORTED_PARAMS: ClassVar = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "combine": COMBINE,
        "unlabeled": p.UNLABELED,
        "empty": p.EMPTY,
    }

    @property
    def better(self) -> str:
        """``"higher"`` for the ratio of the smallest to the largest, else ``"lower"``."""
        return "higher" if self["combine"] in HIGHER_IS_BETTER else "lower"

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        favored = favored_pairs(listed)
        counts = ~np.isnan(favored)
        value = combine(np.nan_to_num(favored), counts, self["combine"])
        missing = ~counts.all(axis=1) & (self["empty"] == "undefined")
        value[missing] = np.nan
        return Scored(
            listed.query,
            value,
            (
                (NOTHING_KNOWN, listed.size == 0),
                ("a group is in no mixed pair (empty='skip' compares the others)", missing),
                (NO_GROUPS, counts.sum(axis=1) < 2),
                (INFINITE, np.ones(len(value), dtype=bool)),
            ),
        )

    def worst(self, judged: LabeledRun) -> float:
        """Return the worst possible value, NaN if it does not exist."""
        return worst_combined(self["combine"], len(self.compared_levels), 1.0)


def favored_pairs(listed: Listing) -> FloatArray:
    """Return the share of mixed pairs that each group wins, NaN without pairs.

    Shape (n_rankings, n_groups).
    """
    own = listed.share
    other = own.sum(axis=1, keepdims=True) - own
    above_own, above_other = listed.running(own) - own, listed.running(other) - other
    wins = listed.total(above_own * other)
    losses = listed.total(above_other * own)
    # sums of products may not be exactly 0 without a pair
    pairs = np.where(wins + losses > 1e-9, wins + losses, 0.0)
    return ratio(wins, pairs)


ARP = AttributeRankParity()
