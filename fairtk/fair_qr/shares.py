"""The groups' shares of exposure at the top of rankings, and how far they are from a target."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fairtk.divergence.measures import SparseRows, jensen_shannon, kullback_leibler
from fairtk.exposure.browsing import BrowsingModel
from fairtk.exposure.expected import attention, total
from fairtk.exposure.ndcg import discounted_gain, ideal_gain
from fairtk.frames.arrays import FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import LABEL, QID
from fairtk.frames.rankings import encode_run
from fairtk.groups import Groups, Target
from fairtk.groups.exposure import Memberships, group_exposure, shown_documents

DIVERGENCES = ("kl", "reverse-kl", "js")


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
        discount: attention of each rank.
        divergence: ``"kl"``: KL(shares, target); ``"reverse-kl"``: KL(target, shares); ``"js"``.
        smoothing: share of a uniform distribution mixed into both before KL.
        missing: what becomes of documents without a row; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
    """

    groups: Groups
    target: Target
    depth: int
    discount: BrowsingModel
    divergence: str
    smoothing: float
    missing: str
    split: bool

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> Shares:
        """Return the shares that a run shows for some queries.

        Args:
            run: R, with qids as strings.
            qids: the queries, with or without rows in the run; shape (n_queries,).
        """
        ranked = encode_run(run, "FairQR")
        weight = attention(
            self.discount,
            self.depth,
            ranked.position,
            ranked.ranking,
            ranked.ranking_start,
            np.zeros(len(ranked.doc), dtype=bool),
        )
        memberships = self.groups.memberships(ranked.docnos, self.missing)
        shown = shown_documents(ranked, weight)
        place = pd.Index(ranked.qids, dtype=object).get_indexer(qids).astype(np.int64)
        raw = group_exposure(shown, memberships).take(place)
        parts = _split(memberships) if self.split else memberships
        exposure = group_exposure(shown, parts).take(place).normalized()
        wanted = self.target.for_qids(qids)
        in_top = np.bincount(ranked.query[ranked.position < self.depth], minlength=len(ranked.qids))
        return Shares(
            exposure.dense(),
            self._divergence(exposure, wanted.expanded()),
            1.0 - jensen_shannon(raw, wanted),
            np.append(in_top, 0)[place].astype(np.int64),
        )

    def targets(self, qids: ObjectArray) -> FloatArray:
        """Return the target of each query, 0 everywhere where there is none."""
        return self.target.for_qids(qids).expanded().normalized().dense()

    def _divergence(self, exposure: SparseRows, wanted: SparseRows) -> FloatArray:
        if self.divergence == "js":
            return jensen_shannon(exposure, wanted)
        if self.divergence == "kl":
            return kullback_leibler(exposure, wanted, smoothing=self.smoothing)
        return kullback_leibler(wanted, exposure, smoothing=self.smoothing)


def _split(memberships: Memberships) -> Memberships:
    """Return memberships that sum to 1 at most for each document."""
    owner = np.repeat(np.arange(len(memberships.size)), memberships.size)
    sums = total(owner, memberships.weight, len(memberships.size))
    return replace(memberships, weight=memberships.weight / np.maximum(sums, 1.0)[owner])


class RelevanceMeter:
    """nDCG of TREC Fair Ranking 2022 for frames of rankings; see `fairtk.exposure.ndcg`.

    Args:
        qrels: ``qid``, ``docno``, ``label``; above 0 is relevant.
        depth: how many ranks count.
        discount: of each rank.
    """

    def __init__(self, qrels: pd.DataFrame, depth: int, discount: BrowsingModel) -> None:
        relevant = qrels[qrels[LABEL] > 0]
        qid, docno = relevant[QID].astype(str), relevant["docno"].astype(str)
        self.pairs = pd.MultiIndex.from_arrays([qid, docno]).unique()
        self.depth = depth
        self.discount = discount

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> FloatArray:
        """Return each query's nDCG; NaN where no document is relevant; shape (n_queries,)."""
        ranked = encode_run(run, "FairQR")
        found = pd.MultiIndex.from_arrays(
            [ranked.qids[ranked.query].astype(str), ranked.docnos[ranked.doc].astype(str)]
        )
        gain = discounted_gain(
            self.discount,
            self.depth,
            ranked.position,
            np.asarray(found.isin(self.pairs), dtype=bool),
            ranked.ranking,
            ranked.n_rankings,
        )
        place = pd.Index(ranked.qids, dtype=object).get_indexer(qids)
        counts = self.pairs.get_level_values(0).value_counts().reindex(qids, fill_value=0)
        n_relevant = counts.to_numpy(dtype=np.int64)
        best = ideal_gain(self.discount, self.depth, n_relevant)
        value = np.append(gain, 0.0)[place] / np.where(n_relevant > 0, best, 1.0)
        return np.where(n_relevant > 0, value, np.nan)
