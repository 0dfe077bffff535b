"""The group forms of EE-D, EE-R and EE-L: of TREC Fair Ranking 2022 and of expeval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure.bounds import Bounds, ExposureValues
from fairtk.exposure.expected import make_levels
from fairtk.frames.arrays import FloatArray
from fairtk.measures.evidence import Evidence

if TYPE_CHECKING:
    from fairtk.measures.base import FairMeasure

TASK2_RANKS = 20
"""Ranks whose attention scales the target without a cutoff: TREC's Task 2 asked for 20."""


def check_group_params(measure: FairMeasure) -> None:
    """Raise if the parameters that go with groups are given without, or do not go together."""
    given = measure.params
    if "groups" not in given:
        for name in ("target", "useful_only"):
            if name in given:
                raise ParameterError(f"{measure.NAME}: {name} goes with groups=... only")
        return
    if measure["variant"] == "expeval":
        if "target" in given:
            raise ParameterError(
                f"{measure.NAME}: variant='expeval' makes its own target of groups; drop target"
            )
        return
    if measure["variant"] != "paper" or measure["bounds"] != "paper" or "n" in given:
        raise ParameterError(
            f"{measure.NAME}: groups go with variant='paper' (TREC's form) or 'expeval', and "
            "without bounds and n"
        )
    if measure["normalize"]:
        raise ParameterError(
            f"{measure.NAME}: normalize=True is not defined for groups: the official score is not "
            "normalized"
        )
    if "target" in given:
        measure["target"].for_groups(measure["groups"])


def needs_target(measure: FairMeasure) -> bool:
    """Return whether a measure with groups has no value without a target, and check that it has it.

    Raises:
        ParameterError: there is no target, and the measure needs one.
    """
    needed = measure["groups"] is not None and measure["variant"] == "paper"
    needed = needed and measure.PART != "disparity"
    if needed and measure["target"] is None:
        raise ParameterError(
            f"{measure.NAME} with groups needs a target: {measure.NAME}(groups=..., target=...), "
            "e.g. Target.from_work_needed(...) or Target.from_qrels(qrels, groups)"
        )
    return needed


def group_values(
    measure: FairMeasure, evidence: Evidence, exposure: FloatArray, grade: FloatArray
) -> ExposureValues:
    """Return the values for groups of all queries.

    Args:
        measure: EE_D, EE_R or EE_L with groups.
        evidence: labels and run.
        exposure: expected exposure of each pair; shape (n_pairs,).
        grade: grade of each pair, NaN for an unjudged one; shape (n_pairs,).
    """
    if measure["variant"] == "expeval":
        return _expeval(measure, evidence, exposure, grade)
    return _trec(measure, evidence, exposure, grade)


def _trec(
    measure: FairMeasure, evidence: Evidence, exposure: FloatArray, grade: FloatArray
) -> ExposureValues:
    """The track's Task 2, with one departure.

    With ``useful_only=False`` the track's code counts nothing at all where no useful document is
    retrieved, which makes EE-D 0, its best value; here documents count as always.
    """
    from fairtk.divergence.measures import SparseRows
    from fairtk.groups.exposure import loss_parts

    counts = grade > 0 if measure["useful_only"] else np.ones(len(grade), dtype=bool)
    system = _summed(measure, evidence, exposure * counts, np.arange(len(grade)), "drop")
    n_ranks = measure["cutoff"] or TASK2_RANKS
    scale = float(measure["browsing"].weights(np.arange(n_ranks, dtype=np.int64)).sum())
    n_queries = len(evidence.qids)
    nobody = np.zeros(0, dtype=np.int64)
    wanted: Any = SparseRows(nobody, nobody, np.zeros(0), n_queries, system.n_cells)
    if measure["target"] is not None:
        wanted = measure["target"].for_groups(measure["groups"]).for_qids(evidence.qids)
    disparity, relevance, loss = loss_parts(system, wanted, scale)
    zero = np.zeros(n_queries)
    untargeted = wanted.total() == 0
    relevance[untargeted] = loss[untargeted] = np.nan
    return ExposureValues(
        disparity,
        relevance,
        loss,
        Bounds(zero, np.full(n_queries, scale**2)),
        Bounds(zero, np.full(n_queries, scale**2)),
        Bounds(zero, scale**2 * (1.0 + wanted.square())),
    )


def _expeval(
    measure: FairMeasure, evidence: Evidence, exposure: FloatArray, grade: FloatArray
) -> ExposureValues:
    from fairtk.groups.exposure import expeval_group_values, expeval_target

    pairs, model = evidence.pairs, measure["browsing"]
    n_queries = len(evidence.qids)
    useful = grade > 0
    counted = np.flatnonzero(~np.isnan(grade) if measure["complete"] else useful)
    system = _summed(measure, evidence, exposure[counted], counted, "drop", binary=True)
    levels = make_levels(pairs.query[counted], grade[counted], n_queries)
    wanted = expeval_target(levels, model)[levels.of_pair]
    target = _summed(measure, evidence, wanted, counted, "drop", binary=True)
    ones = _summed(measure, evidence, np.ones(len(counted)), counted, "drop", binary=True)
    n_groups = np.bincount(ones.row, minlength=n_queries)
    n_useful = np.bincount(pairs.query[useful], minlength=n_queries)
    return expeval_group_values(system, target, n_useful, n_groups, model)


def _summed(
    measure: FairMeasure,
    evidence: Evidence,
    weight: FloatArray,
    pair: Any,
    missing: str,
    binary: bool = False,
) -> Any:
    """Return weights of pairs, summed over each query's groups."""
    from fairtk.groups.exposure import Shown, group_exposure

    pairs = evidence.pairs
    memberships = measure["groups"].memberships(pairs.docnos, missing)
    if binary:
        memberships = memberships.binary()
    shown = Shown(pairs.query[pair], pairs.doc[pair], weight, len(evidence.qids))
    return group_exposure(shown, memberships)
