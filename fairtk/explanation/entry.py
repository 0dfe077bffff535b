"""`explain`: from a measure, a run and labels to an `Explanation`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import FairtkWarning, ParameterError
from fairtk.explanation.contributions import ABSENT, Contributions
from fairtk.explanation.cost_frames import System
from fairtk.explanation.names import Bands, Names
from fairtk.explanation.parts import awrf_contributions, loss_contributions
from fairtk.explanation.result import Explanation
from fairtk.frames.qrels import Qrels
from fairtk.groups import Groups
from fairtk.measures import AWRF, EE_L, parse
from fairtk.measures.evidence import Evidence


def explain(
    measure: Any,
    run: pd.DataFrame,
    qrels: pd.DataFrame,
    *,
    baseline: pd.DataFrame | None = None,
    groups: Groups | None = None,
    bands: Sequence[int] | None = None,
) -> Explanation:
    """Break AWRF or EE-L down: which groups, rank bands and queries cost how much.

    The cost is 1 - AWRF, or EE_L itself, and its parts add up to it by group, by rank band and by
    query. Groups cost their summand of the divergence, whether they are shown too much or too
    little; ranks what they show, at the group's rate, and their share of what the target asks for.
    Other rules add up as well and give other numbers; none is a statement about causes. The site's
    page on `explain` has the formulas, and how to read the tables.

    Args:
        measure: ``AWRF(groups=..., target=...)@k``; ``EE_L`` with groups and target, or without
            (by documents); or the string of one.
        run: R or S, in PyTerrier's or ir_measures' column names.
        qrels: the labels, in either's; their queries are the ones that count.
        baseline: another run, for before and after: means are then over the queries that are
            defined for both.
        groups: for EE_L by documents, groups that the documents' costs are summed for; a
            document's cost is shared out among its groups. None: useful, not useful, not judged.
        bands: the last rank of each band, e.g. ``[5, 10, 20]``.

    Raises:
        ParameterError: the measure is none of these, or has no parts (``unlabeled="best"``,
            variants of published code).
        InputError: the run or the labels cannot be used.
    """
    measure = parse(measure)
    _check(measure, groups)
    names = Names.of(measure, groups)
    where = f"explain({measure!r})"
    checked = Qrels(qrels, where, either=True)
    frames = [run] if baseline is None else [run, baseline]
    evidences = [Evidence(checked, f, where) for f in frames]
    depth = max(_depth(measure, evidence) for evidence in evidences)
    of_ranks = Bands.make(bands, depth)
    values = [measure.score_all(evidence) for evidence in evidences]
    defined = ~np.isnan(np.stack(values)).any(axis=0)
    systems = []
    for evidence, value in zip(evidences, values, strict=True):
        # score_all has said it all
        with warnings.catch_warnings(action="ignore", category=FairtkWarning):
            parts = _parts(measure, evidence, of_ranks, groups)
        shown = defined & evidence.present
        lost = np.flatnonzero(defined & ~evidence.present)
        cost = 1.0 - value if isinstance(measure, type(AWRF)) else value
        outside = np.zeros((len(lost), len(of_ranks)))
        outside[:, -1] = cost[lost]
        parts = parts.kept(shown).with_unshown(lost, ABSENT, outside)
        systems.append(System(parts, value, cost, evidence.present))
    before = systems[1] if baseline is not None else None
    return Explanation(measure, checked.qids, names, of_ranks, defined, systems[0], before)


def _check(measure: Any, groups: Groups | None) -> None:
    if isinstance(measure, type(AWRF)):
        if groups is not None:
            raise ParameterError("explain: AWRF has groups of its own; drop groups=")
        measure.target_for(measure.groups)
        if measure["unlabeled"] in ("best", "worst"):
            raise ParameterError(
                f"explain: {measure!r} is a bound over all completions of what is unknown, which "
                "has no parts; use unlabeled='drop', 'unknown' or 'uniform'"
            )
        return
    if isinstance(measure, type(EE_L)):
        if measure["variant"] != "paper":
            raise ParameterError(
                f"explain: {measure!r} follows a published code, whose departures from the paper "
                "have no parts; use variant='paper'"
            )
        if measure["estimator"] != "plain":
            raise ParameterError(
                f"explain: {measure!r} is no sum over groups; use estimator='plain', the value of "
                "the samples as they are"
            )
        if measure["groups"] is None:
            return
        if groups is not None:
            raise ParameterError("explain: this EE_L has groups of its own; drop groups=")
        if measure["target"] is None:
            raise ParameterError("explain: EE_L with groups needs a target: EE_L(..., target=...)")
        return
    factors = getattr(measure, "factors", [])
    hint = f"; explain its factor {factors[-1]!r}" if factors else ""
    raise ParameterError(
        f"explain takes AWRF and EE_L, which are sums over groups; found {measure!r}{hint}"
    )


def _depth(measure: Any, evidence: Evidence) -> int:
    deepest = int(evidence.rankings.position.max(initial=0)) + 1
    return deepest if measure["cutoff"] is None else min(deepest, measure["cutoff"])


def _parts(measure: Any, evidence: Evidence, bands: Bands, groups: Groups | None) -> Contributions:
    if isinstance(measure, type(AWRF)):
        return awrf_contributions(measure, evidence, bands)
    return loss_contributions(measure, evidence, bands, groups)
