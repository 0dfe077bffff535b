"""Ideal Task 1 runs, to test measures and pipelines with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.datasets.trec_fair.alignment import qrels
from fairtk.errors import ParameterError
from fairtk.exposure.browsing import TREC
from fairtk.frames.arrays import FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import DOCNO, QID, RANK, SCORE
from fairtk.groups import Groups, Target

_MOST_LEVELS = 1 << 12


def oracle_run(
    source: Any,
    cutoff: int = 500,
    groups: Groups | None = None,
    target: Target | None = None,
    split: str | None = None,
) -> pd.DataFrame:
    """Return a run that ranks relevant articles only, so that its nDCG is 1.

    With groups and a target, each rank gets the relevant article after which the exposure of the
    groups, with the track's discount, is nearest to the target by Jensen-Shannon divergence. That
    is greedy: near the best AWRF, not always the best. Without, articles are in the order of the
    topics file.

    Args:
        source: a dataset id, a dataset, or a folder with topics.
        cutoff: ranks per topic; a topic with fewer relevant articles has fewer.
        groups: the groups of the articles; at most 4096 levels.
        target: the distribution that exposure should have.
        split: as in `fairtk.datasets.trec_fair.targets`.

    Returns:
        A frame R with ``qid``, ``docno``, ``score`` (-rank) and ``rank``.

    Raises:
        ParameterError: the cutoff is below 1, there are groups without a target (or the other way
            round), or too many levels.
    """
    if cutoff < 1:
        raise ParameterError(f"oracle_run: cutoff must be 1 or more; found {cutoff!r}")
    if (groups is None) != (target is None):
        raise ParameterError("oracle_run: groups and target go together; one is missing")
    if groups is not None and len(groups.levels) > _MOST_LEVELS:
        raise ParameterError(
            f"oracle_run: at most {_MOST_LEVELS} levels; {groups.name!r} has {len(groups.levels)}"
        )
    labels, _ = qrels(source, split, "oracle_run")
    parts = []
    for qid, part in labels.groupby(QID, sort=False):
        docnos = part[DOCNO].to_numpy(dtype=object)
        if groups is not None and target is not None:
            docnos = docnos[_order(docnos, groups, target, str(qid), cutoff)]
        docnos = docnos[:cutoff]
        rank = np.arange(len(docnos))
        parts.append(
            pd.DataFrame({QID: qid, DOCNO: docnos, SCORE: -rank.astype(float), RANK: rank})
        )
    if not parts:
        return pd.DataFrame({QID: [], DOCNO: [], SCORE: [], RANK: []})
    run = pd.concat(parts, ignore_index=True)
    return run.astype({QID: "str", DOCNO: "str"})


def _order(docnos: ObjectArray, groups: Groups, target: Target, qid: str, cutoff: int) -> IntArray:
    """Return the greedy order of a topic's articles."""
    wanted = target.for_groups(groups).for_qids([qid]).expanded().dense()[0]
    found = groups.memberships(docnos)
    member = np.zeros((len(docnos), found.n_cells))
    member[found.owner, found.cell] = found.weight
    # articles of the same groups are interchangeable: compare the kinds
    kinds, kind = np.unique(member, axis=0, return_inverse=True)
    waiting = [list(np.flatnonzero(kind == i)[::-1]) for i in range(len(kinds))]
    left = np.array([len(articles) for articles in waiting])
    weights = TREC().weights(np.arange(cutoff))
    exposure = np.zeros(found.n_cells)
    order: list[int] = []
    for rank in range(min(cutoff, len(docnos))):
        after = exposure + weights[rank] * kinds
        distance = np.where(left > 0, _divergence(after, wanted), np.inf)
        best = int(np.argmin(distance))
        exposure = after[best]
        left[best] -= 1
        order.append(int(waiting[best].pop()))
    return np.array(order, dtype=np.int64)


def _divergence(rows: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the Jensen-Shannon divergence of each row, normalized, from the target; (n_rows,)."""
    mass = rows.sum(axis=1, keepdims=True)
    shares = np.divide(rows, mass, out=np.zeros_like(rows), where=mass > 0)
    middle = _x_log_x((shares + wanted) / 2).sum(axis=1)
    both = _x_log_x(shares).sum(axis=1) + _x_log_x(wanted).sum()
    return np.where(mass[:, 0] > 0, both / 2 - middle, np.inf)


def _x_log_x(values: FloatArray) -> FloatArray:
    return values * np.log(np.where(values > 0, values, 1.0))
