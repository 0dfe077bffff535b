"""FAIR_prefix: the prefix test of FA*IR as a measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairtk.errors import ParameterError
from fairtk.frames import FloatArray
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import NO_TARGET, NOTHING_KNOWN, BinaryMeasure, Scored
from fairtk_classic.listing import make_listing, ratio

if TYPE_CHECKING:
    from fairtk.measures import Judged

SHARE = Param(
    (int, float),
    desc="the minimum share p of protected documents; default: that of the target, or else of all "
    "documents with groups",
    check=lambda value: "" if 0 < value < 1 else "must lie between 0 and 1",
)


class FairPrefixes(BinaryMeasure):
    """How likely as few protected documents would be by chance, averaged over all prefixes.

    (1/N) sum over k = 1..N of F(n+_k; k, p), with n+_k protected documents among the first k and F
    the cumulative distribution function of the binomial distribution: the test statistic of ranked
    group fairness (Zehlike et al. 2017) without a threshold, as Raj and Ekstrand (2022) make it a
    measure. In (0, 1]; higher: protected documents are not fewer than chance would have them. Too
    many of them are never a fault: it is 1 for protected documents alone, and about one half or
    more at a share of p. Not to be mixed up with the FAIR of Gao, Ge and Shah (2022).

    ``p`` is given, or the share of ``protected`` in ``target``, or else its share among all
    documents that have groups. The ranking is cut at ``@k``; documents without a known group are
    left out and the others move up. A document of several groups counts in part: F is then
    interpolated by the incomplete beta function, which equals it at whole numbers. Undefined (NaN):
    no document with a group; a target, or a collection, that is all or not at all protected. 0 for
    a query that the run lacks. On sampled runs the mean over samples.
    """

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
        """Raise if p and target are both given."""
        super().check_params()
        if "p" in self.params and "target" in self.params:
            raise ParameterError("FAIR_prefix: give p or target, not both")

    def per_ranking(self, judged: Judged) -> Scored:
        """Return the value of each ranking."""
        listed = make_listing(self, judged)
        two = self.two(listed.share)
        wanted = self.wanted(judged)
        open_ = ~((wanted > 0) & (wanted < 1))
        sums = listed.running(two)
        share = np.where(open_, 0.5, wanted)[listed.query][listed.ranking]
        chance = binomial_cdf(sums[:, 0], sums.sum(axis=1), share)
        value = ratio(listed.total(chance), listed.size.astype(float))
        reason = f"{NO_TARGET}, or it is 0 or 1 for {self.params.get('protected')!r}"
        return Scored(listed.query, value, ((NOTHING_KNOWN, listed.size == 0),), ((reason, open_),))

    def wanted(self, judged: Judged) -> FloatArray:
        """Return p for each query; NaN: there is none."""
        n_queries = len(judged.qids)
        if self["p"] is not None:
            return np.full(n_queries, float(self["p"]))
        if self["target"] is not None:
            return self.two(self.target_shares(judged))[:, 0]
        sums = self.two(self.shares(judged, self.groups.docnos)).sum(axis=0)
        return np.full(n_queries, sums[0] / sums.sum() if sums.sum() > 0 else np.nan)


def binomial_cdf(successes: FloatArray, trials: FloatArray, p: FloatArray) -> FloatArray:
    """Return the probability of at most so many successes, interpolated between whole numbers.

    Args:
        successes: at most `trials`.
        trials: above 0.
        p: probability of a success, between 0 and 1.
    """
    from scipy.special import betainc

    failures = trials - successes
    some = failures > 1e-9
    result: FloatArray = np.ones(np.broadcast(successes, p).shape)
    result[some] = betainc(failures[some], successes[some] + 1.0, 1.0 - p[some])
    return result


FAIR_prefix = FairPrefixes()
