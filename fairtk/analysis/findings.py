"""Groups and targets: how many documents groups have, and whether a target can be reached."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fairtk.diagnosis.findings import Finding
from fairtk.divergence import SparseRows, spread
from fairtk.errors import listed
from fairtk.frames.arrays import FloatArray
from fairtk.frames.columns import LABEL
from fairtk.frames.rankings import Rankings
from fairtk.groups.coverage import coverage_of, unreachable

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

_HALF = 0.5
_LOST = 0.01
"""From here on a share of a target that nothing can fill is worth a word."""


def groups(
    attribute: Groups, ranked: Rankings, qrels: pd.DataFrame, cutoff: int, least: int
) -> Iterator[Finding]:
    """Yield how much of a run groups know, and which groups have few documents.

    Args:
        attribute: the groups of one attribute.
        ranked: the run.
        qrels: the labels.
        cutoff: ranks that are looked at.
        least: groups with fewer documents than that, judged or retrieved, have little support.
    """
    name = attribute.name
    known = coverage_of(attribute, ranked, cutoff)
    labeled, of = int(known["with_label"].sum()), int(known["retrieved"].sum())
    thin = known[known["label_share"] < _HALF]
    share = labeled / max(of, 1)
    text = f"{name}: the group of {labeled} of {of} documents in the first {cutoff} ranks is known "
    text += f"({share:.0%})"
    if len(thin):
        text += f"; for under half of them in {len(thin)} of {len(known)} queries: "
        text += listed(thin["qid"].tolist(), 3)
        remedy = (
            "label more documents, or report AWRF with unlabeled='best' and 'worst' (the range "
            "that the missing labels leave open)"
        )
        level = "error" if labeled == 0 else "warning"
        if labeled == 0:
            remedy = "do groups and run name documents alike? " + _example(attribute, ranked)
        yield Finding(level, "coverage", "groups", text, remedy, of - labeled)
    elif labeled < of:
        remedy = "documents without a group are dropped by default (unlabeled='drop')"
        yield Finding("note", "coverage", "groups", text, remedy, of - labeled)
    if not attribute.space.crossed:  # which have empty combinations as a rule
        yield from _small(attribute, ranked, qrels, least)


def _example(attribute: Groups, ranked: Rankings) -> str:
    return (
        f"the groups have docno {str(attribute.docnos[0])!r}, the run has docno "
        f"{str(ranked.docnos[0])!r}"
        if len(attribute) and len(ranked.docnos)
        else "the groups have no documents"
    )


def _small(
    attribute: Groups, ranked: Rankings, qrels: pd.DataFrame, least: int
) -> Iterator[Finding]:
    docnos = pd.unique(np.concatenate([ranked.docnos, qrels["docno"].to_numpy(dtype=object)]))
    useful = pd.Index(docnos).isin(qrels.loc[qrels[LABEL] > 0, "docno"])
    found = attribute.memberships(docnos)
    size = attribute.space.size
    count = np.bincount(found.cell, minlength=size)
    n_useful = np.bincount(found.cell[useful[found.owner]], minlength=size)
    known = np.flatnonzero(attribute.space.known(np.arange(size))).tolist()
    small = [cell for cell in known if 0 < count[cell] < least]
    if small:
        parts = [f"{attribute.space.label(c)} {count[c]} ({n_useful[c]} useful)" for c in small]
        some = ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")
        text = f"{attribute.name}: groups of fewer than {least} documents among those judged or "
        text += f"retrieved: {some}"
        remedy = "a value of such a group is one of chance: merge levels, or report counts with it"
        yield Finding("warning", "support", "groups", text, remedy, len(small))
    lacking = [c for c in known if count[c] >= least and n_useful[c] == 0]
    if lacking:
        names = listed([str(attribute.space.label(c)) for c in lacking])
        text = f"{attribute.name}: no useful document belongs to {names}"
        remedy = "measures of relevance by group are undefined for them"
        yield Finding("note", "support", "groups", text, remedy, len(lacking))


def targets(attribute: Groups, target: Target, ranked: Rankings, cutoff: int) -> Iterator[Finding]:
    """Yield how much of a target no ranking of the run's own documents can fill."""
    target = target.for_groups(attribute)
    name = attribute.name
    wanted = target.for_qids(ranked.qids).expanded()
    whole = wanted.total()
    untargeted = [str(qid) for qid in ranked.qids[whole == 0]]
    if untargeted:
        text = f"{name}: {len(untargeted)} of {len(whole)} queries have no target: "
        text += listed(untargeted, 3)
        remedy = "AWRF is undefined there; leave them out, or give them one"
        yield Finding("warning", "target", "target", text, remedy, len(untargeted))
    lost, levels = unreachable(attribute, target.distributions)
    if levels:
        text = f"{name}: up to {lost:.2g} of the target lies on groups that no document has: "
        text += listed(levels, 3)
        remedy = "no ranking reaches it: mend the groups, or take these levels out of the target"
        yield Finding("warning", "target", "target", text, remedy, len(levels))
    share = _lost(attribute, wanted, ranked, whole)
    out = share > _LOST
    if out.any():
        best = 1.0 - divergence_at_best(share)
        worst = int(np.argmax(share))
        text = (
            f"{name}: for {int(out.sum())} of {len(share)} queries over {_LOST:.0%} of the target "
            f"lies on groups that none of their retrieved documents has, so AWRF is at most "
            f"{best.mean():.4f} on average (at most {best[worst]:.4f} for qid "
            f"{str(ranked.qids[worst])!r}, where {share[worst]:.0%} cannot be filled)"
        )
        remedy = f"retrieve deeper than {cutoff}, or other documents: no re-ranking can do it"
        yield Finding("warning", "target", "target", text, remedy, int(out.sum()))


def _lost(attribute: Groups, wanted: SparseRows, ranked: Rankings, whole: FloatArray) -> FloatArray:
    """Return the share of each query's target on groups of none of its retrieved documents."""
    found = attribute.memberships(ranked.docnos)
    item, entry = spread(found.start[ranked.doc], found.size[ranked.doc])
    there = np.unique(ranked.query[item] * np.int64(wanted.n_cells) + found.cell[entry])
    missing = ~np.isin(wanted.key, there)
    share: FloatArray = wanted.per_row(wanted.weight * missing) / np.where(whole > 0, whole, 1.0)
    return share


def divergence_at_best(lost: FloatArray) -> FloatArray:
    """Return the least Jensen-Shannon divergence from a target of which a part cannot be filled.

    For a target t and exposure on a set S of groups alone, the divergence is least at t restricted
    to S and divided by its mass 1 - m (by Jensen's inequality for groups in proportion). Then
    2 JSD = log(2 / (2 - m)) + (1 - m) log(2 (1 - m) / (2 - m)) + m log 2, in nats.

    Args:
        lost: the mass m on groups outside of S, in [0, 1]; any shape. 1 gives log 2.
    """
    kept = 1.0 - lost
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.where(kept > 0, kept * np.log(2 * kept / (1 + kept)), 0.0)
    return np.asarray(0.5 * (np.log(2 / (1 + kept)) + middle + lost * math.log(2)))
