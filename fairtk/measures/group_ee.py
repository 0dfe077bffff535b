"""GroupEE_D, GroupEE_R and GroupEE_L: expected exposure of groups (TREC Fair Ranking 2022, Task 2).

For a query, let E be the exposure of each group: the sum over its documents (see
`fairtk.measures.ee`), by default the useful ones only. Let T be its target exposure: its share in
the target times the total attention on the ranks. Then::

    GroupEE-D = sum(E ** 2)
    GroupEE-R = sum(E * T)
    GroupEE-L = sum((E - T) ** 2) = GroupEE-D - 2 * GroupEE-R + sum(T ** 2)

`ExposureOfGroups.compute` returns all three for all queries at once, and
`ExposureOfGroups.score_all` the part of a measure, with the reasons for undefined values.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.exposure import TREC, BrowsingModel
from fairtk.exposure.expected import Bounded, ExposureValues
from fairtk.frames import FloatArray, IntArray
from fairtk.groups.exposure import group_exposure, loss_parts
from fairtk.groups.rows import SparseRows
from fairtk.measures.expected_exposure import (
    ESTIMATOR,
    GRADED,
    NO_USEFUL,
    NO_WORST,
    REL,
    Computed,
    ExpectedExposure,
    counts,
)
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import CUTOFF, GROUPS, TARGET, ObjectParam, Param
from fairtk.measures.scores import Scores
from fairtk.plugins import parse_browsing_model

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

TASK2_RANKS = 20
"""The number of ranks that scale the target without a cutoff, as requested in TREC's Task 2."""


class ExposureOfGroups(ExpectedExposure):
    """Base of GroupEE_D, GroupEE_R and GroupEE_L (TREC Fair Ranking 2022, Task 2)."""

    CITATION = "diaz2020evaluating ekstrand2022overview"
    BOUNDS = (0.0, math.inf)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "browsing": ObjectParam(
            parse_browsing_model,
            BrowsingModel,
            default=TREC(),
            desc="browsing model: attention of each rank",
        ),
        "estimator": ESTIMATOR,
        "graded": GRADED,
        "rel": REL,
        "groups": GROUPS,
        "target": TARGET,  # without a share for the unknown level, unknown documents are left out
        "useful_only": Param(
            bool,
            default=True,
            desc="count only the exposure of useful documents (TREC 2022), or of all (TREC 2021)",
        ),
    }

    def check_params(self) -> None:
        """Raise a `ParameterError` unless the target fits the groups."""
        if "groups" in self.params and "target" in self.params:
            self.target_for(self.groups)

    @property
    def groups(self) -> Groups:
        """The groups."""
        groups: Groups = self.require_param(
            "groups", f"groups: write {self.NAME}(groups=..., target=...)@20"
        )
        return groups

    def target_for(self, groups: Groups) -> Target:
        """Return the target over the levels of the groups."""
        target: Target = self.require_param(
            "target",
            f"a target: write {self.NAME}(groups=..., target=...)@20, e.g. with "
            "target=Target.from_qrels(qrels, groups)",
        )
        return target.for_groups(groups)

    @property
    def target(self) -> Target | None:
        """The target over the levels of the groups; `None` without a target."""
        return self.target_for(self.groups) if "target" in self.params else None

    @property
    def reason_for_labels(self) -> str:
        """The reason why it requires relevance labels; GroupEE_D of all documents does not."""
        is_free = self.PART == "disparity" and not self["useful_only"]
        return "" if is_free and self["browsing"].stop == 0 else super().reason_for_labels

    def compute(self, judged: LabeledRun) -> Computed:
        """Return the values of TREC Fair Ranking 2022, Task 2: exposure of groups and a target.

        Unlike in the track's code with ``useful_only=False``, documents also count if no useful
        document is retrieved; there, EE-D is 0, its best value.
        """
        n_queries, of_useful = len(judged.qids), self["useful_only"]
        useful, exposure = self.grades(judged.pair_label) > 0, self.exposure(judged)
        n_useful = counts(judged.pair_query, useful, n_queries)
        memberships = self.groups.memberships(judged.docnos, "drop")
        system = judged.summed(
            memberships, exposure * useful if of_useful else exposure, np.arange(judged.n_pairs)
        )
        target: Any = system.take(np.full(n_queries, -1))
        if self.target is not None:
            system = self.target.drop_unknown(system, judged.qids)
            target = self.target.for_qids(judged.qids)
        disparity, relevance, loss = loss_parts(system, target, self.target_scale)
        square = self.target_scale**2 * target.square()
        highest = self.highest(n_useful, memberships)
        zero = np.zeros(n_queries)
        values = ExposureValues(
            Bounded(disparity, zero, highest, highest, 1.0),
            Bounded(relevance, zero, highest, zero, 0.0),
            Bounded(loss, zero, highest + square, highest + square, 1.0),
        )
        no_useful = (NO_USEFUL, n_useful == 0)
        no_target = [("no target", target.total() == 0), no_useful]
        return Computed(values, [no_useful] if of_useful else [], no_target, [])

    @property
    def target_scale(self) -> float:
        """The total attention on the ranks, which scales the target."""
        ranks = np.arange(self["cutoff"] or TASK2_RANKS, dtype=np.int64)
        return float(self["browsing"].checked_weights(ranks).sum())

    def highest(self, n_useful: IntArray, memberships: SparseRows) -> FloatArray:
        """Return an upper bound of disparity; NaN if unbounded; shape (n_queries,).

        It assumes that each rank shows the document with the largest norm of memberships (triangle
        inequality).
        """
        depth = np.full(len(n_useful), self["cutoff"] or TASK2_RANKS)
        if self["cutoff"] is None:
            if not self["useful_only"]:
                return np.full(len(n_useful), np.nan)
            depth = np.maximum(depth, n_useful)
        ranks = np.arange(int(depth.max(initial=0)), dtype=np.int64)
        weight = self["browsing"].checked_weights(ranks)
        attention = np.concatenate([[0.0], np.cumsum(weight)])[depth]
        return np.asarray(attention**2 * memberships.square().max(initial=1.0))

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        self.check_cutoff()
        is_disparity = self.PART == "disparity"
        if not is_disparity:
            self.target_for(self.groups)
        computed, part = self.computed(judged), self.estimate(judged)
        reasons = [*([] if is_disparity else computed.no_target), *computed.no_value]
        result = np.where(judged.present, part.value, part.worst)
        no_worst = (NO_WORST, ~judged.present & np.isnan(part.worst))
        return Scores.of(result, [*reasons, no_worst])

    def exposure_by_ranking(self, judged: LabeledRun) -> SparseRows:
        """Return the exposure of each group in each ranking; shape (n_rankings, n_groups)."""
        rows = super().exposure_by_ranking(judged)
        if self["useful_only"]:
            rows = rows.weighted(rows.weight * (self.grades(judged.pair_label) > 0)[rows.level])
        memberships = self.groups.memberships(judged.docnos, "drop")
        exposure = group_exposure(rows.matrix, memberships.take(judged.pair_doc))
        target = self.target
        if target is None:
            return exposure
        return target.drop_unknown(exposure, judged.qids[judged.ranking_query])


class GroupExpectedExposureDisparity(ExposureOfGroups):
    """How unevenly a ranking policy spreads exposure over groups of documents.

    GroupEE_D is the squared norm of the groups' expected exposure (Diaz et al. 2020; TREC Fair
    Ranking 2022, Task 2), where each useful document passes the attention of its rank on to its
    groups. It is EE_D of groups, with the discount `TREC`, and not normalized. Lower is more even:
    0 if no useful document is shown. A low value can mean even or little exposure, so read it with
    `GroupEE_R`.

    Documents without a row in the groups are left out. With a ``target``, documents of the unknown
    level are left out, too, if the query's target gives it no share. With ``useful_only``, a query
    without a useful document is undefined (NaN). A query missing from the run gets an upper bound:
    all attention on documents of one group. ``estimator="unbiased"`` is that of `EE_D`.
    """

    identity_name = "fairtk.GroupEE_D"
    output_version = 1
    NAME = "GroupEE_D"
    PRETTY_NAME = "Expected exposure disparity of groups"
    BETTER = "lower"
    ABOUT = "how unevenly exposure is spread over groups of documents"
    CAVEAT = "it does not show which groups deserve exposure"
    MISSING = math.nan
    PART = "disparity"


class GroupExpectedExposureRelevance(ExposureOfGroups):
    """How much of the exposure goes to groups with a large share of the target.

    GroupEE_R is the inner product of the groups' expected exposure and their target exposure (Diaz
    et al. 2020; TREC Fair Ranking 2022, Task 2); see `GroupEE_L`. Higher is better. It is largest
    if all exposure goes to the group with the largest share, so it measures quality, not fairness.

    A query without a useful document, or without a target, is undefined (NaN). A query missing from
    the run gets 0.
    """

    identity_name = "fairtk.GroupEE_R"
    output_version = 1
    NAME = "GroupEE_R"
    PRETTY_NAME = "Expected exposure relevance of groups"
    BETTER = "higher"
    ABOUT = "how much of the exposure goes to groups with a large share of the target"
    CAVEAT = "it does not show that the target or the group labels are right"
    MISSING = 0.0
    PART = "relevance"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        name: param
        for name, param in ExposureOfGroups.SUPPORTED_PARAMS.items()
        if name != "estimator"
    }


class GroupExpectedExposureLoss(ExposureOfGroups):
    """How far the exposure of groups of documents is from their target exposure.

    ``GroupEE_L(groups=..., target=...)@20`` is the score of TREC Fair Ranking 2022, Task 2: the
    squared distance of the groups' expected exposure, from useful documents only, and the target
    distribution times the attention on the first 20 ranks, whatever the length of the rankings. It
    uses the discount `TREC` and is not normalized: GroupEE_D - 2 GroupEE_R + squared norm of the
    target. Lower is better.

    Documents without a row in the groups are left out, and those of the unknown level, too, if the
    query's target gives it no share. A query without a useful document, or without a target, is
    undefined (NaN). A query missing from the run gets an upper bound. ``estimator="unbiased"`` is
    that of `EE_L`.
    """

    identity_name = "fairtk.GroupEE_L"
    output_version = 1
    NAME = "GroupEE_L"
    PRETTY_NAME = "Expected exposure loss of groups"
    BETTER = "lower"
    ABOUT = "how far the exposure of each group of documents is from its target"
    CAVEAT = "it does not show that the target or the group labels are right"
    MISSING = math.nan
    PART = "loss"


GroupEE_D = GroupExpectedExposureDisparity()
GroupEE_R = GroupExpectedExposureRelevance()
GroupEE_L = GroupExpectedExposureLoss()
