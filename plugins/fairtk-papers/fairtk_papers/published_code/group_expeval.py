"""EE-D, EE-R and EE-L of groups as in expeval, the code published with Diaz et al. 2020."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fairtk.exposure import GERR, RBP, make_grades
from fairtk.frames import BoolArray, FloatArray
from fairtk.measures import GROUPS, LabeledRun, Param, Scores
from fairtk_papers.published_code.expeval import (
    PARAMETERS,
    ExpevalExposure,
    expeval_target,
    exposure_of,
    grades_of,
)
from fairtk_papers.published_code.values import NO_USEFUL, PublishedValues


class GroupExpevalExposure(ExpevalExposure):
    """Base of the measures of expeval for groups."""

    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {**PARAMETERS, "groups": GROUPS}

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        groups = self.require_param("groups", f"groups: write {self.NAME}(groups=...)")
        values, no_useful = judged.derived(group_expeval_values, groups, *self.settings)
        reasons = [] if self["complete"] else [(NO_USEFUL, no_useful)]
        return values[self.NAME[5:9]].scores(judged, self["normalize"], reasons)


def group_expeval_values(
    judged: LabeledRun, groups: Any, model: RBP, complete: bool, graded: bool, rel: float | None
) -> tuple[dict[str, PublishedValues], BoolArray]:
    """Return the values of EE_D, EE_R and EE_L, and whether a query has no useful document.

    Exposure and target are summed over the documents of a group, each with its full membership.

    The code's bounds are kept for comparison, although they do not hold in general: they assume
    that every group gets all the attention. The lower bound of EE-D uses p u under `GERR`, so the
    normalized value can be negative; under `RBP` it equals the upper bound, so the normalized value
    is 0. The bounds of EE-R are 0, so the normalized value is 1. Unlike in expeval, disparity
    without any exposure is 0, not infinite.

    Args:
        judged: the labels and the run.
        groups: the groups of documents.
        model: the browsing model, with p below 1.
        complete: whether the labels cover all documents.
        graded: whether useful documents have grades.
        rel: the smallest label of a useful document; `None` for any above 0.
    """
    query, n_queries = judged.pair_query, len(judged.qids)
    grade = grades_of(judged.pair_label, graded, rel)
    n_useful = np.bincount(query[grade > 0], minlength=n_queries)
    counted = np.flatnonzero(~np.isnan(grade) if complete else grade > 0)
    exposure = exposure_of(judged, model, grade > 0)[counted]
    grades = make_grades(query[counted], grade[counted], n_queries)
    members = groups.memberships(judged.docnos, "drop")
    members = members.weighted(np.ones(len(members.weight)))
    system, target, ones = (
        judged.summed(members, weight, counted)
        for weight in (
            exposure,
            expeval_target(grades, model)[grades.of_pair],
            np.ones(len(counted)),
        )
    )
    n_groups = np.bincount(ones.row, minlength=n_queries)
    disparity, norm = system.square(), target.square()
    relevance = system.per_row(system.weight * target.lookup(system.row, system.level))
    loss = np.maximum(disparity - 2 * relevance + norm, 0.0)

    def attention(p: float, n: Any) -> FloatArray:
        """Return the attention on the first n ranks."""
        return np.asarray((1.0 - float(p) ** n) / (1.0 - p))

    most, zero = attention(model.p, n_useful), np.zeros(n_queries)
    several = n_groups > 1
    highest = np.where(several, n_groups * most**2, 0.0)
    lowest = highest
    if isinstance(model, GERR):
        lowest = np.where(several, n_groups * attention(model.p * model.u, n_useful) ** 2, 0.0)
    excess = norm - 2 * most * target.total() + n_groups * most**2  # sum of (most - target)^2
    # no group gets more than all the attention on the counted documents
    n_counted = np.bincount(query[counted], minlength=n_queries)
    highest_any = n_groups * attention(model.p, n_counted) ** 2
    values = {
        "EE_D": PublishedValues(disparity, lowest, highest, highest_any, 1.0, flat=0.0),
        "EE_R": PublishedValues(relevance, zero, zero, zero, 0.0, flat=1.0),
        "EE_L": PublishedValues(
            loss, zero, np.maximum(norm, excess), highest_any + norm, 1.0, flat=0.0
        ),
    }
    return values, n_useful == 0


class GroupExpevalDisparity(GroupExpevalExposure):
    """Disparity of the exposure of groups as in expeval, the code of Diaz et al. 2020.

    GroupEE_D_expeval is the squared norm of the groups' exposure: the sum of that of their labeled
    documents, or without ``complete=True`` of their useful documents. The code's bounds do not hold
    in general; under `RBP` they are equal, and the normalized value is 0. Lower is more even.
    Without complete labels, a query without a useful document is undefined (NaN). A query missing
    from the run gets the worst value.
    """

    identity_name = "fairtk_papers.GroupEE_D_expeval"
    output_version = 1
    NAME = "GroupEE_D_expeval"
    PRETTY_NAME = "Expected exposure disparity of groups, code of Diaz et al. 2020"
    BETTER = "lower"
    MISSING = 1.0


class GroupExpevalRelevance(GroupExpevalExposure):
    """Relevance of the exposure of groups as in expeval, the code of Diaz et al. 2020.

    GroupEE_R_expeval is the inner product of the groups' exposure and target, the sums of those of
    their documents; see `GroupEE_D_expeval`. The code's bounds are 0, so the normalized value is 1
    for each query in the run; read it with ``normalize=False``. Higher is better. A query missing
    from the run gets 0.
    """

    identity_name = "fairtk_papers.GroupEE_R_expeval"
    output_version = 1
    NAME = "GroupEE_R_expeval"
    PRETTY_NAME = "Expected exposure relevance of groups, code of Diaz et al. 2020"
    BETTER = "higher"
    MISSING = 0.0


class GroupExpevalLoss(GroupExpevalExposure):
    """Loss of the exposure of groups as in expeval, the code of Diaz et al. 2020.

    GroupEE_L_expeval is the squared distance of the groups' exposure and target, the sums of those
    of their documents; see `GroupEE_D_expeval`. Lower is better. A query missing from the run gets
    the worst value.
    """

    identity_name = "fairtk_papers.GroupEE_L_expeval"
    output_version = 1
    NAME = "GroupEE_L_expeval"
    PRETTY_NAME = "Expected exposure loss of groups, code of Diaz et al. 2020"
    BETTER = "lower"
    MISSING = 1.0


GroupEE_D_expeval = GroupExpevalDisparity()
GroupEE_R_expeval = GroupExpevalRelevance()
GroupEE_L_expeval = GroupExpevalLoss()
