"""The family of Yang and Stoyanovich: the protected level's share of prefixes against the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairtk.exposure import total
from fairtk.frames import FloatArray
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import NO_TARGET, NOTHING_KNOWN, BinaryMeasure, Reasons, Scored
from fairtk_classic.listing import Listing, make_listing, ratio

if TYPE_CHECKING:
    from fairtk.measures import Judged

TRACE = 1e-9
"""A highest sum below this is 0 but for rounding."""


class PrefixMeasure(BinaryMeasure):
    """Base of rND, rKL and rRD; a subclass defines `difference`, and `most` if it must."""

    CITATION = "yang2017measuring"
    BETTER = "lower"
    MISSING = 1.0
    SUPPORTED_PARAMS: ClassVar = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "protected": p.PROTECTED,
        "target": p.TARGET,
        "step": p.STEP,
        "unlabeled": p.UNLABELED,
    }

    def difference(self, own: FloatArray, other: FloatArray, whole: FloatArray) -> FloatArray:
        """Return how far prefixes are from the whole; all arguments have one shape.

        Args:
            own: number of protected documents in a prefix.
            other: number of other documents in it.
            whole: share of protected documents in the whole.
        """
        raise NotImplementedError

    def per_ranking(self, judged: Judged) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        two = self.two(listed.share)
        targeted = self["target"] is not None
        if targeted:
            shares = self.two(self.target_shares(judged))[:, 0]
            whole = shares[listed.query]
            gaps: Reasons = ((NO_TARGET, np.isnan(shares)),)
        else:
            sums = listed.total(two)
            whole, gaps = ratio(sums[:, 0], sums.sum(axis=1)), ()
        raw = self.summed(listed, two, whole)
        most = self.most(listed, two, whole, targeted)
        known = listed.size > 0
        long = listed.size >= self["step"]
        value = np.where(known & long & np.isfinite(raw) & (most > TRACE), ratio(raw, most), np.nan)
        return Scored(
            listed.query,
            value,
            (
                (NOTHING_KNOWN, ~known),
                (f"the ranking has fewer than step={self['step']} documents with a group", ~long),
                *self.other_reasons(whole),
                ("the target leaves out a group that is shown", ~np.isfinite(raw)),
                ("all orders of the documents are alike: one group, or a single prefix", known),
            ),
            gaps,
        )

    def other_reasons(self, whole: FloatArray) -> Reasons:
        """Return further reasons for rankings without a value."""
        return ()

    def summed(self, listed: Listing, two: FloatArray, whole: FloatArray) -> FloatArray:
        """Return the sum over prefixes i of difference / log2(i); shape (n_rankings,).

        Args:
            listed: the rankings.
            two: protected and other share of each document, in any order inside each ranking.
            whole: share of protected documents in the whole of each ranking.
        """
        at = listed.place % self["step"] == 0
        sums = listed.running(two)[at]
        terms = self.difference(sums[:, 0], sums[:, 1], whole[listed.ranking[at]])
        terms = terms / np.log2(listed.place[at])
        return total(listed.ranking[at], terms, len(listed.size))

    def most(
        self, listed: Listing, two: FloatArray, whole: FloatArray, targeted: bool
    ) -> FloatArray:
        """Return Z, the highest sum that is possible.

        Without a target: that of the two orders of the same documents that show the protected ones
        first, or last; no other order has a higher one, because differences grow with the distance
        of the share from the whole. With a target: that of a ranking of only one kind.
        """
        if targeted:
            own = [np.ones(len(two)), np.zeros(len(two))]
            extremes = [np.column_stack([one, 1.0 - one]) for one in own]
        else:
            protected = ratio(two[:, 0], two.sum(axis=1))
            extremes = [two[np.lexsort((sign * protected, listed.ranking))] for sign in (1.0, -1.0)]
        sums = [self.summed(listed, order, whole) for order in extremes]
        return np.asarray(np.max(sums, axis=0))
