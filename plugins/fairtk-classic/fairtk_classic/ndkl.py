"""NDKL: normalized discounted cumulative Kullback-Leibler divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairtk.frames import FloatArray
from fairtk.groups import log_of
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import NO_TARGET, NOTHING_KNOWN, GroupMeasure, Scored
from fairtk_classic.listing import Listing, make_listing, ratio

if TYPE_CHECKING:
    from fairtk.measures import Judged


class DiscountedDivergence(GroupMeasure):
    """How far the groups' shares of every prefix diverge from a target, top ranks counting most.

    NDKL = (1/Z) sum over i = 1..N of KL(D_i || p) / log2(i + 1), with D_i the shares of the groups
    among the first i documents, p the target and Z = sum of 1 / log2(i + 1) (Geyik et al. 2019).
    From 0 to ln(1 / smallest target share), the value of a query that the run lacks; lower is
    closer. Natural logarithm by default (``base=2``: bits). It never reaches 0 in practice: a
    prefix of one document cannot have the shares of the target.

    The ranking is cut at ``@k``; documents without a known group are left out and the others move
    up. A document of several groups counts in part. Nothing is added to shares of 0 (one published
    code adds 1e-7), so that the value is undefined (NaN) where the target gives nothing to a group
    that is shown. Also undefined: no target; no document with a group. On sampled runs the mean
    over samples.
    """

    NAME = "NDKL"
    PRETTY_NAME = "Normalized discounted Kullback-Leibler divergence from a target"
    CITATION = "geyik2019fairness"
    BETTER = "lower"
    SUPPORTED_PARAMS: ClassVar = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "target": p.TARGET,
        "base": p.BASE,
        "unlabeled": p.UNLABELED,
    }

    def per_ranking(self, judged: Judged) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        target = self.target_shares(judged)
        value = discounted_divergence(listed, target[listed.query]) / log_of(self["base"])
        return Scored(
            listed.query,
            np.where(np.isfinite(value), value, np.nan),
            (
                (NOTHING_KNOWN, listed.size == 0),
                ("the target gives nothing to a group that is shown", np.isinf(value)),
            ),
            ((NO_TARGET, np.asarray(np.isnan(target).any(axis=1))),),
        )

    def worst(self, judged: Judged) -> FloatArray:
        """Return the divergence of the group with the smallest target share alone."""
        target = self.target_shares(judged)
        smallest = np.where(target > 0, target, 1.0).min(axis=1, initial=1.0)
        return np.asarray(-np.log(smallest) / log_of(self["base"]))


def discounted_divergence(listed: Listing, target: FloatArray) -> FloatArray:
    """Return the discounted mean divergence of each ranking's prefixes, in nats; (n_rankings,).

    Args:
        listed: the rankings.
        target: shares of the groups; shape (n_rankings, n_groups).
    """
    sums = listed.running(listed.share)
    shares = sums / sums.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(shares > 0, shares * np.log(shares / target[listed.ranking]), 0.0)
    discount = 1.0 / np.log2(listed.place + 1.0)
    return ratio(listed.total(discount * terms.sum(axis=1)), listed.total(discount))


NDKL = DiscountedDivergence()
