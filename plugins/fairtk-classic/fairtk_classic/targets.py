"""NDKL, Skew, MinSkew and MaxSkew, which compare the groups' shares of ranks with a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.errors import ParameterError
from fairtk.frames import FloatArray
from fairtk.groups import log_base
from fairtk.measures import Param
from fairtk.wording import format_list
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import (
    NO_TARGET,
    NOTHING_KNOWN,
    GroupMeasure,
    Listing,
    Scored,
    make_listing,
    ratio,
)

if TYPE_CHECKING:
    from fairtk.measures import LabeledRun


class DiscountedDivergence(GroupMeasure):
    """How far the groups' shares of every prefix diverge from a target, top ranks counting most.

    NDKL = (1/Z) sum over i = 1..N of KL(D_i || p) / log2(i + 1), with D_i the shares of the groups
    among the first i documents, p the target and Z = sum of 1 / log2(i + 1) (Geyik et al. 2019).
    From 0 to ln(1 / smallest target share), the value of a query missing from the run; lower is
    closer. Natural logarithms by default; ``base=2`` gives bits. NDKL never reaches 0 in practice,
    because a prefix of one document cannot have the shares of the target.

    The ranking is cut at ``@k``; documents without a known group are left out and the others move
    up. A document of several groups counts fractionally. The value is undefined (NaN) if a group in
    the ranking has a target of 0 (one published implementation adds 1e-7 to such shares), without a
    target, or if no document has a group. On sampled runs, the value is the mean over samples.
    """

    identity_name = "fairtk_classic.NDKL"
    output_version = 1
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

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        target = self.target_shares(judged)
        value = discounted_divergence(listed, target[listed.query]) / log_base(self["base"])
        return Scored(
            listed.query,
            np.where(np.isfinite(value), value, np.nan),
            (
                (NOTHING_KNOWN, listed.size == 0),
                ("a group in the ranking has a target of 0", np.isinf(value)),
            ),
            ((NO_TARGET, np.asarray(np.isnan(target).any(axis=1))),),
        )

    def worst(self, judged: LabeledRun) -> FloatArray:
        """Return the divergence of a ranking with only the group of the smallest target share."""
        target = self.target_shares(judged)
        smallest = np.where(target > 0, target, 1.0).min(axis=1, initial=1.0)
        return np.asarray(-np.log(smallest) / log_base(self["base"]))


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


NOT_SHOWN = (
    "a group of the target is not shown, so its skew is minus infinity (smoothing=0.01 makes it "
    "finite)"
)


class SkewMeasure(GroupMeasure):
    """Base class of Skew, MinSkew and MaxSkew; a subclass defines `pick`."""

    CITATION = "geyik2019fairness"
    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "target": p.TARGET,
        "smoothing": p.SMOOTHING,
        "unlabeled": p.UNLABELED,
    }

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return the skew of one group for each ranking; shape (n_rankings,).

        Args:
            skew: skew of each group, NaN if undefined; shape (n_rankings, n_groups).
        """
        raise NotImplementedError

    def per_ranking(self, judged: LabeledRun) -> Scored:
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
                ("a group in the ranking has a target of 0", value == np.inf),
            ),
            ((NO_TARGET, open_),),
        )


def skew_values(shown: FloatArray, target: FloatArray, smoothing: float) -> FloatArray:
    """Return ln(share / target share) of each group; NaN if both are 0.

    Args:
        shown: number of documents of each group; shape (n_rankings, n_groups).
        target: target shares; same shape.
        smoothing: weight of the target mixed into the observed shares.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = shown / shown.sum(axis=1, keepdims=True)
        return np.asarray(np.log((1.0 - smoothing) * share / target + smoothing))


GROUP = Param(str, desc="the level whose skew is taken")


class Skew(SkewMeasure):
    """Whether one group has more or less of the first k ranks than the target gives it.

    Skew@k = ln(share of the group among the first k / target share) (Geyik et al. 2019). It is 0 at
    the target, below 0 if the group has too few documents, and above 0 if it has too many. Closer
    to 0 is better; "higher is better" only holds below 0, and values on both sides cancel in a
    mean.

    Documents without a known group are left out. A document of several groups counts fractionally.
    A group without a document has a skew of minus infinity, so the value is undefined (NaN);
    ``smoothing=s`` uses (1 - s) share + s target instead, which does not move 0 and is at least
    ln(s). The value is also undefined without a target, for a target of 0, if no document has a
    group, and for a query missing from the run, because no value is the worst. On sampled runs, the
    value is the mean over samples.
    """

    identity_name = "fairtk_classic.Skew"
    output_version = 1
    NAME = "Skew"
    PRETTY_NAME = "Skew"
    BETTER = "higher"
    SUPPORTED_PARAMS: ClassVar = {**SkewMeasure.SUPPORTED_PARAMS, "group": GROUP}

    def check_params(self) -> None:
        """Raise a `ParameterError` if the groups do not have the level."""
        super().check_params()
        if "groups" in self.params and "group" in self.params:
            self.place()

    def place(self) -> int:
        """Return the index of the level among the compared levels."""
        names, level = self.names(), self.params.get("group")
        if level not in names:
            other = "" if level is None else f", got {level!r}"
            raise ParameterError(
                "Skew: a group is required: write Skew(groups=..., group=..., target=...) with one "
                f"of {format_list(names, 40)}{other}"
            )
        return names.index(level)

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return the skew of the group."""
        return skew[:, self.place()]


SKEW = Skew()


class MinSkew(SkewMeasure):
    """How much less than its target share the most disadvantaged group has of the first k ranks.

    MinSkew@k = min over groups of ln(share among the first k / target share) (Geyik et al. 2019).
    At most 0; higher is closer to the target, 0 is the target.

    The value is undefined (NaN) if a group of the target has no document, without a target, or if
    no document has a group. ``smoothing=s`` makes the first case finite; a query missing from the
    run then gets ln(s), the lowest value, otherwise NaN. Groups without a target share are ignored.
    Otherwise like `Skew`.
    """

    identity_name = "fairtk_classic.MinSkew"
    output_version = 1
    NAME = "MinSkew"
    PRETTY_NAME = "Minimum skew"
    BETTER = "higher"

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return the smallest skew."""
        return np.asarray(np.nanmin(skew, axis=1))

    def worst(self, judged: LabeledRun) -> float:
        """Return the skew of a group without a document."""
        return float(np.log(self["smoothing"])) if self["smoothing"] > 0 else np.nan


MIN_SKEW = MinSkew()


class MaxSkew(SkewMeasure):
    """How much more than its target share the most advantaged group has of the first k ranks.

    MaxSkew@k = max over groups of ln(share among the first k / target share) (Geyik et al. 2019).
    From 0 to ln(1 / smallest target share), the value of a query missing from the run; lower is
    closer to the target, 0 is the target.

    The value is undefined (NaN) without a target, if no document has a group, or if a group in the
    ranking has no target share. Otherwise like `Skew`.
    """

    identity_name = "fairtk_classic.MaxSkew"
    output_version = 1
    NAME = "MaxSkew"
    PRETTY_NAME = "Maximum skew"
    BETTER = "lower"

    def pick(self, skew: FloatArray) -> FloatArray:
        """Return the largest skew."""
        return np.asarray(np.nanmax(skew, axis=1))

    def worst(self, judged: LabeledRun) -> FloatArray:
        """Return the skew of a ranking with only the group of the smallest target share."""
        target = self.target_shares(judged)
        smallest = np.where(target > 0, target, 1.0).min(axis=1, initial=1.0, keepdims=True)
        alone = np.column_stack([np.ones(len(target)), np.zeros(len(target))])
        two = np.column_stack([smallest, 1.0 - smallest])
        return skew_values(alone, two, self["smoothing"])[:, 0]


MAX_SKEW = MaxSkew()
