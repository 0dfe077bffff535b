"""The groups' shares of exposure at the top of rankings, and how far they are from a target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fairtk.divergence import Divergence
from fairtk.exposure.browsing import BrowsingModel
from fairtk.exposure.expected import attention, total
from fairtk.exposure.ndcg import normalized_gain
from fairtk.frames.arrays import FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import RANK
from fairtk.frames.ids import Ids
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import encode_run
from fairtk.groups import Groups, Target
from fairtk.groups.exposure import (
    Memberships,
    group_exposure,
    rank_fairness,
    shown_documents,
)


@dataclass(frozen=True)
class Shares:
    """What rankings show, one row per query.

    Attributes:
        share: of each group, summing to 1, or all 0 where no document has a group; shape
            (n_queries, n_groups).
        divergence: of the shares from the target, 0 or above; NaN: no target, or no document with
            a group; shape (n_queries,).
        awrf: 1 - the Jensen-Shannon divergence of the unsplit exposure from the target, as
            `fairtk.AWRF`; same shape.
        retrieved: number of documents at the top; same shape.
    """

    share: FloatArray
    divergence: FloatArray
    awrf: FloatArray
    retrieved: IntArray


@dataclass(frozen=True)
class ShareMeter:
    """Measures rankings against a target.

    Attributes:
        groups: the groups.
        target: over the levels of `groups`.
        depth: how many ranks count.
        browsing: attention of each rank.
        divergence: of the shares from the target.
        unlabeled: what becomes of documents without a row; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
    """

    groups: Groups
    target: Target
    depth: int
    browsing: BrowsingModel
    divergence: Divergence
    unlabeled: str
    split: bool

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> Shares:
        """Return the shares that a run shows for some queries.

        Args:
            run: R, with qids as strings.
            qids: the queries, with or without rows in the run; shape (n_queries,).
        """
        ranked = encode_run(run[run[RANK] < self.depth], "FairQR")
        weight = attention(ranked, self.browsing, self.depth)
        memberships = self.groups.memberships(ranked.docnos, self.unlabeled)
        shown = shown_documents(ranked, weight)
        place = pd.Index(ranked.qids, dtype=object).get_indexer(qids).astype(np.int64)
        raw = group_exposure(shown, memberships).take(place)
        parts = _split(memberships) if self.split else memberships
        exposure = group_exposure(shown, parts).take(place).normalized()
        wanted = self.target.for_qids(qids)
        in_top = np.bincount(ranked.query[ranked.position < self.depth], minlength=len(ranked.qids))
        return Shares(
            exposure.dense(),
            self.divergence.between(exposure, wanted),
            rank_fairness(raw, wanted),
            np.append(in_top, 0)[place].astype(np.int64),
        )

    def targets(self, qids: ObjectArray) -> FloatArray:
        """Return the target of each query, 0 everywhere where there is none."""
        return self.target.for_qids(qids).expanded().normalized().dense()


def _split(memberships: Memberships) -> Memberships:
    """Return memberships that sum to 1 at most for each document."""
    owner = memberships.owner
    sums = total(owner, memberships.weight, len(memberships.size))
    return replace(memberships, weight=memberships.weight / np.maximum(sums, 1.0)[owner])


class RelevanceMeter:
    """nDCG of TREC Fair Ranking 2022 for frames of rankings; see `fairtk.exposure.ndcg`.

    Args:
        qrels: ``qid``, ``docno``, ``label``; above 0 is relevant.
        depth: how many ranks count.
        browsing: attention of each rank.
    """

    def __init__(self, qrels: pd.DataFrame, depth: int, browsing: BrowsingModel) -> None:
        self.qrels = Qrels(qrels, "FairQR: qrels")
        self.depth = depth
        self.browsing = browsing

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> FloatArray:
        """Return each query's nDCG; NaN where no document is relevant; shape (n_queries,)."""
        ranked = encode_run(run, "FairQR")
        relevant = self.qrels.query[self.qrels.labels > 0]
        counts = np.append(np.bincount(relevant, minlength=len(self.qrels.qids)), 0)
        value = normalized_gain(
            ranked,
            self.qrels.labels_of(ranked) > 0,
            pd.Index(qids, dtype=object).get_indexer(ranked.qids),
            counts[self.qrels.queries.find(Ids(qids))],
            self.browsing,
            attention(ranked, self.browsing, self.depth),
            self.depth,
        )
        return value
