"""Measures of protected documents in prefixes of a ranking.

rND, rKL and rRD (Yang and Stoyanovich) compare prefixes with the whole ranking or a target;
FAIR_prefix, the test statistic of FA*IR, compares them with chance.
"""

from __future__ import annotations

from functools import lru_cache
from math import log2
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import FloatArray
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import (
    NO_TARGET,
    NOTHING_KNOWN,
    BinaryMeasure,
    Listing,
    Reasons,
    Scored,
    make_listing,
    ratio,
)

if TYPE_CHECKING:
    from fairtk.measures import LabeledRun


TRACE = 1e-9
"""A highest sum below this is 0 up to rounding."""


class PrefixMeasure(BinaryMeasure):
    """Base class of rND, rKL and rRD; a subclass defines `difference`, and `most` if needed."""

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

    def difference(
        self, own: FloatArray, other: FloatArray, overall_share: FloatArray
    ) -> FloatArray:
        """Return the distance of prefixes from the whole; all arguments have the same shape.

        Args:
            own: number of protected documents in a prefix.
            other: number of other documents in the prefix.
            overall_share: share of protected documents in the whole.
        """
        raise NotImplementedError

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        two = self.two(listed.share)
        targeted = self["target"] is not None
        if targeted:
            shares = self.two(self.target_shares(judged))[:, 0]
            overall_share = shares[listed.query]
            gaps: Reasons = ((NO_TARGET, np.isnan(shares)),)
        else:
            sums = listed.total(two)
            overall_share, gaps = ratio(sums[:, 0], sums.sum(axis=1)), ()
        raw = self.summed(listed, two, overall_share)
        most = self.most(listed, two, overall_share, targeted)
        known = listed.size > 0
        long = listed.size >= self["step"]
        value = np.where(known & long & np.isfinite(raw) & (most > TRACE), ratio(raw, most), np.nan)
        return Scored(
            listed.query,
            value,
            (
                (NOTHING_KNOWN, ~known),
                (f"the ranking has fewer than step={self['step']} documents with a group", ~long),
                *self.other_reasons(overall_share),
                ("a group in the ranking has no target", ~np.isfinite(raw)),
                ("all orders of the documents are equal: one group, or a single prefix", known),
            ),
            gaps,
        )

    def other_reasons(self, overall_share: FloatArray) -> Reasons:
        """Return further reasons for rankings without a value."""
        return ()

    def summed(self, listed: Listing, two: FloatArray, overall_share: FloatArray) -> FloatArray:
        """Return the sum over prefixes i of difference / log2(i); shape (n_rankings,).

        Args:
            listed: the rankings.
            two: protected and other share of each document, in any order within each ranking.
            overall_share: share of protected documents in the whole of each ranking.
        """
        at = listed.place % self["step"] == 0
        sums = listed.running(two)[at]
        terms = self.difference(sums[:, 0], sums[:, 1], overall_share[listed.ranking[at]])
        terms = terms / np.log2(listed.place[at])
        return sum_by_index(listed.ranking[at], terms, len(listed.size))

    def most(
        self, listed: Listing, two: FloatArray, overall_share: FloatArray, targeted: bool
    ) -> FloatArray:
        """Return Z, the highest possible sum.

        Without a target, it is reached if all protected documents of the ranking are first, or all
        are last, because differences grow with the distance of the share from the whole. With a
        target, it is reached by a ranking of protected documents only, or of other documents only.
        """
        if targeted:
            own = [np.ones(len(two)), np.zeros(len(two))]
            extremes = [np.column_stack([one, 1.0 - one]) for one in own]
        else:
            protected = ratio(two[:, 0], two.sum(axis=1))
            extremes = [two[np.lexsort((sign * protected, listed.ranking))] for sign in (1.0, -1.0)]
        sums = [self.summed(listed, order, overall_share) for order in extremes]
        return np.asarray(np.max(sums, axis=0))


class NormalizedDifference(PrefixMeasure):
    """How far the share of protected documents in prefixes is from their share of the whole.

    rND = (1/Z) sum over i = step, 2 step, ... of |n+_i / i - n+_N / N| / log2(i), with n+_i
    protected documents among the first i of N (Yang and Stoyanovich 2017). In [0, 1]; lower is
    closer, 0 if every prefix has the share of the whole. Too many and too few protected documents
    count the same.

    The whole is the ranking itself, cut at ``@k``, as in the paper, or the ``target`` if given. Z
    is the sum for the worst order of the same documents, computed exactly (the published code
    estimates it from ten random rankings); with a target, the sum for a ranking of only one kind of
    document. The discount is the paper's log2(i); the published code has log2(i + 1).

    Documents without a known group are left out and the others move up (``unlabeled``). A document
    of several groups counts fractionally. The value is undefined (NaN) if fewer than `step`
    documents have a group, if all are of one kind, or if the only prefix is the whole. A query
    missing from the run gets 1. On sampled runs, the value is the mean over samples.
    """

    identity_name = "fairtk_classic.rND"
    output_version = 1
    NAME = "rND"
    PRETTY_NAME = "Normalized discounted difference"

    def difference(
        self, own: FloatArray, other: FloatArray, overall_share: FloatArray
    ) -> FloatArray:
        """Return |n+ / i - overall_share|."""
        return np.abs(ratio(own, own + other) - overall_share)


rND = NormalizedDifference()  # noqa: N816 - the paper's name


class NormalizedDivergence(PrefixMeasure):
    """How far the shares of protected and other documents in prefixes diverge from the whole.

    rKL = (1/Z) sum over i = step, 2 step, ... of KL(P_i || Q) / log2(i), with P_i the shares of
    protected and other documents among the first i, Q those of the whole, and logarithms to base 2
    (Yang and Stoyanovich 2017). In [0, 1]; lower is closer.

    A share of 0 adds nothing (0 log 0 = 0), as in the definition; the published code sets shares of
    0 and 1 to 0.001. The value is also undefined (NaN) if a group in a prefix has a target of 0.
    Otherwise like `rND`. For more than two groups see `NDKL`.
    """

    identity_name = "fairtk_classic.rKL"
    output_version = 1
    NAME = "rKL"
    PRETTY_NAME = "Normalized discounted Kullback-Leibler divergence"

    def difference(
        self, own: FloatArray, other: FloatArray, overall_share: FloatArray
    ) -> FloatArray:
        """Return the divergence in bits."""
        share = ratio(own, own + other)
        return _bits(share, overall_share) + _bits(1.0 - share, 1.0 - overall_share)


def _bits(p: FloatArray, q: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, p * np.log2(p / q), np.where(np.isnan(p + q), np.nan, 0.0))


rKL = NormalizedDivergence()  # noqa: N816 - the paper's name


class NormalizedRatioDifference(PrefixMeasure):
    """How far the ratio of protected to other documents in prefixes is from that of the whole.

    rRD = (1/Z) sum over i = step, 2 step, ... of |n+_i / n-_i - n+_N / n-_N| / log2(i), with n+
    protected and n- other documents; a ratio whose numerator or denominator is 0 counts as 0 (Yang
    and Stoyanovich 2017). In [0, 1]; lower is closer. The value is undefined (NaN) if more than
    half of the whole is protected, because the measure is only defined for minorities.

    Z is the highest sum of any order of the same documents, or with a target of any ranking of the
    same length, computed exactly. A prefix without other documents has the ratio 0, like one
    without protected documents. The published code caps the ratio at that of the whole instead, and
    estimates Z.

    A document that is partly protected is an error. Otherwise like `rND`.
    """

    identity_name = "fairtk_classic.rRD"
    output_version = 1
    NAME = "rRD"
    PRETTY_NAME = "Normalized discounted ratio difference"

    def difference(
        self, own: FloatArray, other: FloatArray, overall_share: FloatArray
    ) -> FloatArray:
        """Return |n+ / n- - s / (1 - s)| for the overall share s; n+ / 0 counts as 0."""
        return np.abs(ratio(own, other, 0.0) - ratio(overall_share, 1.0 - overall_share, 0.0))

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking; documents must be protected or not."""
        ranked = judged.run
        two = self.two(self.shares_of_run(judged))
        split = np.flatnonzero((two > 0).all(axis=1))
        if len(split):
            raise InputError(
                f"{self!r} counts documents, but docno {str(ranked.docnos[split[0]])!r} belongs to "
                f"{self['protected']!r} in part ({len(split)} such documents); use rND, or "
                "groups with one level per document"
            )
        return super().per_ranking(judged)

    def other_reasons(self, overall_share: FloatArray) -> Reasons:
        """Return the reason for rankings in which the protected level is not a minority."""
        return (("the protected level is more than half of the whole", overall_share > 0.5),)

    def most(
        self, listed: Listing, two: FloatArray, overall_share: FloatArray, targeted: bool
    ) -> FloatArray:
        """Return the highest sum of any order of the documents, or with a target of any ranking."""
        count = np.rint(listed.total((two[:, 0] > 0).astype(float))).astype(int)
        most = [
            highest(int(n), None if targeted else int(m), float(q), self["step"])
            for n, m, q in zip(listed.size, count, overall_share, strict=True)
        ]
        return np.where(overall_share <= 0.5, np.array(most, dtype=float), np.nan)


@lru_cache(maxsize=4096)
def highest(n: int, n_protected: int | None, overall_share: float, step: int) -> float:
    """Return the highest sum of ratio differences of any ranking, by dynamic programming.

    The ratio is not monotone in the number of protected documents of a prefix, so sorted orders are
    not enough.

    Args:
        n: number of documents.
        n_protected: number of protected documents; `None` for any number.
        overall_share: share of protected documents in the whole.
        step: distance of the prefixes.
    """
    if not 0 <= overall_share < 1:
        return float("nan")
    target_ratio = overall_share / (1.0 - overall_share)
    best = np.array([0.0])  # by number of protected documents
    for size in range(step, n + 1, step):
        grown = np.full(size + 1, -np.inf)
        for more in range(step + 1):
            grown[more : more + len(best)] = np.maximum(grown[more : more + len(best)], best)
        own = np.arange(size + 1.0)
        if n_protected is not None:
            grown[(own > n_protected) | (size - own > n - n_protected)] = -np.inf
        best = grown + np.abs(ratio(own, size - own, 0.0) - target_ratio) / log2(size)
    return float(best.max())


rRD = NormalizedRatioDifference()  # noqa: N816 - the paper's name


SHARE = Param(
    (int, float),
    default=None,
    desc="the minimum share p of protected documents; default: that of the target, or else of all "
    "documents with groups",
    check=checks.open_interval,
)


class FairPrefixes(BinaryMeasure):
    """How likely as few protected documents would be by chance, averaged over all prefixes.

    FAIR_prefix = (1/N) sum over k = 1..N of F(n+_k; k, p), with n+_k protected documents among the
    first k and F the cumulative distribution function of the binomial distribution. It is the test
    statistic of ranked group fairness (Zehlike et al. 2017) without a threshold, as in Raj and
    Ekstrand (2022), and not the FAIR of Gao, Ge and Shah (2022). In (0, 1]; higher means that
    protected documents are not fewer than expected by chance. Too many protected documents are not
    penalized: the value is 1 for protected documents alone, and about 0.5 or more at a share of p.

    By default, ``p`` is the share of ``protected`` in ``target``, or without a target its share
    among all documents that have groups. The ranking is cut at ``@k``; documents without a known
    group are left out and the others move up. A document of several groups counts fractionally; F
    is then interpolated with the incomplete beta function, which equals F at whole numbers. The
    value is undefined (NaN) if no document has a group, or if p is 0, 1 or unknown. A query missing
    from the run gets 0. On sampled runs, the value is the mean over samples.
    """

    identity_name = "fairtk_classic.FAIR_prefix"
    output_version = 1
    NAME = "FAIR_prefix"
    PRETTY_NAME = "FAIR prefix measure"
    CITATION = "zehlike2017fair raj2022measuring"
    BETTER = "higher"
    MISSING = 0.0
    SUPPORTED_PARAMS: ClassVar = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "protected": p.PROTECTED,
        "p": SHARE,
        "target": p.TARGET,
        "unlabeled": p.UNLABELED,
    }

    def check_params(self) -> None:
        """Raise an error if both p and target are given."""
        super().check_params()
        if "p" in self.params and "target" in self.params:
            raise ParameterError("FAIR_prefix: p and target are mutually exclusive; use one")

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        two = self.two(listed.share)
        target = self.protected_shares(judged)
        undefined = ~((target > 0) & (target < 1))
        sums = listed.running(two)
        share = np.where(undefined, 0.5, target)[listed.query][listed.ranking]
        chance = binomial_cdf(sums[:, 0], sums.sum(axis=1), share)
        value = ratio(listed.total(chance), listed.size.astype(float))
        reason = f"{NO_TARGET}, or it is 0 or 1 for {self.params.get('protected')!r}"
        return Scored(
            listed.query, value, ((NOTHING_KNOWN, listed.size == 0),), ((reason, undefined),)
        )

    def protected_shares(self, judged: LabeledRun) -> FloatArray:
        """Return p for each query, NaN if undefined."""
        n_queries = len(judged.qids)
        if self["p"] is not None:
            return np.full(n_queries, float(self["p"]))
        if self["target"] is not None:
            return self.two(self.target_shares(judged))[:, 0]
        sums = self.two(self.shares(judged, self.groups.docnos)).sum(axis=0)
        return np.full(n_queries, sums[0] / sums.sum() if sums.sum() > 0 else np.nan)


def binomial_cdf(successes: FloatArray, trials: FloatArray, p: FloatArray) -> FloatArray:
    """Return the binomial distribution function, interpolated between whole numbers.

    Args:
        successes: the number of successes, at most `trials`.
        trials: the number of trials, above 0.
        p: the probability of a success, in (0, 1).
    """
    from scipy.special import betainc

    failures = trials - successes
    failing = failures > 1e-9
    result: FloatArray = np.ones(np.broadcast(successes, p).shape)
    result[failing] = betainc(failures[failing], successes[failing] + 1.0, 1.0 - p[failing])
    return result


FAIR_prefix = FairPrefixes()
