"""AWRF: attention-weighted rank fairness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.errors import ParameterError, listed, warn
from fairtk.exposure.browsing import TREC, BrowsingModel
from fairtk.exposure.expected import attention, average
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.groups.coverage import coverage_of, unreachable
from fairtk.groups.exposure import (
    Memberships,
    free_attention,
    group_exposure,
    jensen_shannon_bounds,
    rank_fairness,
    shown_documents,
)
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence
from fairtk.measures.params import (
    AMORTIZE,
    CUTOFF,
    GROUPS,
    TARGET,
    UNLABELED,
    ObjectParam,
    Param,
)
from fairtk.string_forms import read_browsing

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

BASE = Param((str, int, float), default="e", desc="base of the logarithm: 'e' (TREC) or 2")
TREC_BROWSING = ObjectParam(
    read_browsing, BrowsingModel, default=TREC(), desc="browsing model: attention of each rank"
)


class AttentionWeightedRankFairness(FairMeasure):
    """How close the groups' shares of attention are to a target distribution.

    1 - JSD(exposure of the groups, target), with the attention of each rank spread over the groups
    of its document (Sapiezynski et al. 2019; TREC Fair Ranking 2022, Task 1). Higher is closer to
    the target. With natural logarithm (the track's) in [1 - ln 2, 1] = [0.307, 1]; with
    ``base=2`` in [0, 1]. Documents without a row in the groups are dropped, as in the track, and
    the others keep their ranks; `unlabeled` has other policies, among them the ``best`` and
    ``worst`` value over all ways to complete what is unknown. On a sampled run exposure is
    averaged over samples before it is compared (``amortize=True``); otherwise the value of each
    sample is averaged, and a policy gets no credit for evening out over time.

    Undefined (NaN) for a query without a target, or with no labeled document in its ranking. A
    query that the run lacks gets 0. It compares with a target that somebody chose, on labels that
    have limits of their own; it does not say that the target is right.
    """

    NAME = "AWRF"
    PRETTY_NAME: ClassVar[str] = "Attention-weighted rank fairness"
    CITATION: ClassVar[str] = "sapiezynski2019quantifying ekstrand2022overview"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "groups": GROUPS,
        "target": TARGET,
        "base": BASE,
        "browsing": TREC_BROWSING,
        "unlabeled": UNLABELED,
        "amortize": AMORTIZE,
    }

    def check_params(self) -> None:
        """Raise if groups and target do not fit, or the base is none."""
        base = self["base"]
        if base != "e" and (isinstance(base, str) or base <= 1):
            raise ParameterError(f"AWRF: base must be 'e' or a number above 1; found {base!r}")
        if "groups" in self.params and "target" in self.params:
            self.target_for(self.groups)

    @property
    def groups(self) -> Groups:
        """The groups."""
        found: Groups = self.needed("groups", "groups: write AWRF(groups=..., target=...)@20")
        return found

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: unless it compares the samples one by one."""
        return bool(self["amortize"])

    def target_for(self, groups: Groups) -> Target:
        """Return the target over the levels of the groups."""
        target: Target = self.needed(
            "target",
            "a target: write AWRF(groups=..., target=...)@20, e.g. with "
            "target=Target.uniform(groups) or Target.from_qrels(qrels, groups)",
        )
        return target.for_groups(groups)

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the value of each query."""
        groups, ranked = self.groups, evidence.rankings
        target = self.target_for(groups)
        n_queries = len(evidence.qids)
        rows_query = evidence.query_of_run
        if not self["amortize"]:
            rows_query = rows_query[ranked.ranking_query]
        unlabeled = self["unlabeled"]
        policy = "bounds" if unlabeled in ("best", "worst") else unlabeled
        memberships = groups.memberships(ranked.docnos, policy)
        fairness = self._fairness(evidence, memberships, target, rows_query)
        value = np.where(evidence.present, average(rows_query, fairness, n_queries), self.MISSING)
        untargeted = _untargeted(evidence, target, value)
        self.warn_undefined(evidence.qids[untargeted], n_queries, "there is no target")
        without = np.isnan(value) & ~untargeted
        why = "none of the documents in the ranking has a group"
        self.warn_undefined(evidence.qids[without], n_queries, why)
        value[untargeted] = np.nan
        lost, levels = unreachable(groups, target.distributions)
        if levels:
            warn(
                f"{self!r}: up to {lost:.2g} of the target lies on groups that no document has, "
                f"so that no ranking reaches 1 ({len(levels)} such: {listed(levels, 3)})"
            )
        warn_of_thin_labels(self, evidence, groups, memberships if unlabeled == "drop" else None)
        return value

    def _fairness(
        self, evidence: Evidence, memberships: Memberships, target: Target, rows_query: IntArray
    ) -> FloatArray:
        unlabeled, space = self["unlabeled"], target.space
        shown = shown_documents(
            evidence.rankings, self.attention_of(evidence), amortize=self["amortize"]
        )
        system = group_exposure(shown, memberships)
        wanted = target.for_qids(evidence.qids[rows_query])
        if unlabeled not in ("best", "worst"):
            return rank_fairness(system, wanted, self["base"])
        known = space.known(np.arange(space.size))
        lowest, highest = jensen_shannon_bounds(
            system, free_attention(shown, memberships), wanted, known, self["base"]
        )
        return 1.0 - (lowest if unlabeled == "best" else highest)

    def attention_of(self, evidence: Evidence) -> FloatArray:
        """Return the attention of each sorted row of the run; shape (n_rows,)."""
        model, useful = self["browsing"], None
        if evidence.exact is not None:
            return evidence.exposure_of_rows(self.text, model, self["cutoff"])
        if model.stop > 0:
            useful = (evidence.pairs.label > 0)[evidence.pairs.of_row]
        return attention(evidence.rankings, model, self["cutoff"], useful)


def _untargeted(evidence: Evidence, target: Target, value: FloatArray) -> BoolArray:
    """Return which queries have no target, of those that may lack one; shape (n_queries,)."""
    untargeted = np.isnan(value) | ~evidence.present
    some = np.flatnonzero(untargeted)
    untargeted[some] = target.for_qids(evidence.qids[some]).total() == 0
    return untargeted


def warn_of_thin_labels(
    measure: FairMeasure, evidence: Evidence, groups: Groups, memberships: Any = None
) -> None:
    """Warn, with counts, of queries where under half of the ranks have a known group.

    Args:
        measure: the measure; its cutoff says which ranks are looked at.
        evidence: the run.
        groups: the groups.
        memberships: those of ``evidence.rankings.docnos`` with ``unlabeled="drop"``, if they are at
            hand; they are looked up otherwise.
    """
    known = coverage_of(groups, evidence.rankings, measure["cutoff"], memberships)
    thin = known[known["label_share"] < 0.5]
    if len(thin):
        worst = thin.loc[thin["label_share"].idxmin()]
        warn(
            f"{measure!r}: groups are known for under half of the documents of {len(thin)} of "
            f"{len(known)} queries ({listed(thin['qid'].tolist(), 3)}; {worst['with_label']} "
            f"of {worst['retrieved']} for qid {worst['qid']!r}); see groups.coverage(run)"
        )


AWRF = AttentionWeightedRankFairness()
AWRF_PARAMS = {k: v for k, v in AWRF.SUPPORTED_PARAMS.items() if k != "cutoff"}
"""The parameters of AWRF other than the cutoff, for measures that contain it."""
