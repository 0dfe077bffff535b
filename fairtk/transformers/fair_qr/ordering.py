"""What rankings show of the groups, and how pooled documents are ordered in the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError, listed
from fairtk.exposure import BrowsingModel, attention
from fairtk.exposure.expected import normalized_gain
from fairtk.frames import (
    DOCNO,
    QID,
    QUERY,
    RANK,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
    require,
)
from fairtk.frames.ids import Ids
from fairtk.groups import Divergence, Groups, Target
from fairtk.groups.distances import (
    SparseRows,
    attention_matrix,
    group_exposure,
    js_divergence,
    js_parts,
    x_log_x,
)

_SAME = 1e-12  # values nearer than this are ties
_ROUNDING = 1e-9  # of a bound
_MANY, _FILLED = 2000, 0.1  # memberships, and their share of those that documents could have
_TINY = np.finfo(np.float64).tiny  # so that 0 log 0 is 0


SHARE = "share:"
"""Prefix of the trace's columns with the groups' shares of exposure."""

CALL = ("prompt_tokens", "completion_tokens", "seconds")
"""The trace's columns of a refinement's call."""


def level_names(groups: Groups) -> list[str]:
    """Return the levels of groups as texts: parts of crossed ones are joined by ``&``."""
    return [name if isinstance(name, str) else " & ".join(name) for name in groups.levels]


def target_shares(groups: Groups, target: Target, qid: str) -> dict[str, float]:
    """Return the share that each group should have for a query, by its name in a trace.

    Empty for a query without a target.
    """
    shares = target.for_qids([qid]).expanded().normalized()
    names = level_names(groups)
    return {names[i]: float(w) for i, w in zip(shares.level, shares.weight, strict=True)}


@dataclass(frozen=True, eq=False)
class Meter:
    """Measures rankings against a target, and against labels.

    Attributes:
        groups: the groups.
        target: over the levels of `groups`.
        depth: how many ranks count.
        browsing: attention of each rank.
        divergence: of the shares from the target.
        unlabeled: what becomes of documents without a row; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
        qrels: ``qid``, ``docno``, ``label``, for nDCG; None: it is not measured.
        again: whether a trace measures lists as they would be returned, too.
    """

    groups: Groups
    target: Target
    depth: int
    browsing: BrowsingModel
    divergence: Divergence
    unlabeled: str
    split: bool
    qrels: pd.DataFrame | None
    again: bool

    @cached_property
    def levels(self) -> list[str]:
        """The levels as texts: parts of crossed ones are joined by ``&``."""
        return level_names(self.groups)

    @cached_property
    def labels(self) -> Qrels | None:
        """The labels; None: there are none."""
        return None if self.qrels is None else Qrels(self.qrels, "FairQR: qrels")

    @property
    def columns(self) -> list[str]:
        """The measured values of each step, as columns of the trace."""
        gain = ["nDCG"] if self.qrels is not None else []
        after = [f"{name}_reranked" for name in ("AWRF", *gain)] if self.again else []
        shares = [f"{SHARE}{level}" for level in self.levels]
        return ["divergence", "AWRF", *gain, *after, "retrieved", *shares, *CALL]

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> dict[str, Any]:
        """Return what a run shows for some queries: lists of their values, by column of the trace.

        Of each level its share of exposure (the shares sum to 1; NaN: no document has a group),
        ``divergence`` of the shares from the target (NaN: one of them lacks), ``AWRF`` of the
        unsplit exposure, as `fairtk.AWRF`, and ``retrieved``, the documents at the top.

        Args:
            run: R as `bare_rankings` gives it, of these queries only.
            qids: the queries, with or without rows in the run; shape (n_queries,).
        """
        top = run[run[RANK] < self.depth]
        query = pd.Index(qids, dtype=object).get_indexer(top[QID]).astype(np.int64)
        weight = self.browsing.weights(top[RANK].to_numpy(dtype=np.int64))
        memberships = self.groups.memberships(top[DOCNO].to_numpy(dtype=object), self.unlabeled)
        seen = np.flatnonzero(weight)
        shape = (len(qids), len(top))
        documents = attention_matrix(query[seen], seen, weight[seen], shape)
        whole = group_exposure(documents, memberships)
        exposure = whole
        if self.split:
            exposure = group_exposure(documents, _split(memberships))
        exposure = exposure.normalized()
        target = self.target.for_qids(qids)
        share = exposure.dense()
        share[~share.any(axis=1)] = math.nan
        return {
            "divergence": self.divergence.between(exposure, target).tolist(),
            "AWRF": (1.0 - js_divergence(whole, target)).tolist(),
            "retrieved": np.bincount(query, minlength=len(qids)).tolist(),
            **{
                f"{SHARE}{level}": own
                for level, own in zip(self.levels, share.T.tolist(), strict=True)
            },
        }

    def gain(self, run: pd.DataFrame, qids: ObjectArray, labels: Qrels) -> list[float]:
        """Return each query's nDCG of TREC Fair Ranking 2022; NaN where no document is relevant.

        Arguments are those of `measure`; labels above 0 are relevant.
        """
        ranked = Run(run, "FairQR")
        relevant = labels.query[labels.labels > 0]
        counts = np.append(np.bincount(relevant, minlength=len(labels.qids)), 0)
        gain: list[float] = normalized_gain(
            ranked,
            labels.labels_of(ranked) > 0,
            pd.Index(qids, dtype=object).get_indexer(ranked.qids),
            counts[labels.queries.find(Ids(qids))],
            self.browsing,
            attention(ranked, self.browsing, self.depth),
            self.depth,
        ).tolist()
        return gain


def _split(memberships: SparseRows) -> SparseRows:
    """Return memberships that sum to 1 at most for each document."""
    sums = np.maximum(memberships.total(), 1.0)
    return memberships.weighted(memberships.weight / sums[memberships.row])


RULES = ("difference", "ratio")


def under_represented(
    share: FloatArray, target: FloatArray, askable: BoolArray, rule: str
) -> IntArray:
    """Return the most under-represented group of each row, -1 where none is.

    A group lacks exposure if its share is below its target. The unknown level is never chosen: no
    keyword asks for it. Equal groups: the first one.

    Args:
        share: exposure of the groups, each row summing to 1; shape (n_rows, n_groups).
        target: what the groups should have; same shape.
        askable: whether a group can be asked for; shape (n_groups,).
        rule: ``"difference"``: the largest target - share; ``"ratio"``: the largest target / share,
            which always prefers groups without any exposure, however small their target (of
            several such groups, the one with the largest target).
    """
    lack = np.where(askable, target - share, 0.0)
    lack = np.where(lack > 1e-12, lack, 0.0)
    if rule == "ratio":
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(lack > 0, target / share, 0.0)
        best = ratio.max(axis=1, initial=0.0, keepdims=True)
        lack = np.where((ratio == best) & (lack > 0), target, 0.0)
    chosen = lack.argmax(axis=1)
    return np.where(lack.max(axis=1, initial=0.0) > 0, chosen, -1).astype(np.int64)


def by_exposure(pool: pd.DataFrame, meter: Meter, weight: float, floor: float) -> pd.DataFrame:
    """Return each query's documents in the order of `exposure_order`, scores 0, -1, -2, ...

    Relevance is the score, scaled to [0, 1] inside each query; a score that is NaN is the lowest.
    Queries without a target, or without a group, keep the order of relevance.

    Args:
        pool: R, the most relevant first.
        meter: groups, target and attention; its depth is how many ranks are chosen, and the other
            documents follow by relevance.
        weight: as in `exposure_order`.
        floor: as in `exposure_order`.
    """
    if pool.empty:
        return pool
    attention = meter.browsing.weights(np.arange(meter.depth, dtype=np.int64))
    memberships = meter.groups.memberships(pool[DOCNO].to_numpy(dtype=object), meter.unlabeled)
    query, qids = pd.factorize(pool[QID])
    target = meter.target.for_qids(qids).expanded().normalized()
    start = np.append(np.flatnonzero(np.diff(query, prepend=-1)), len(pool))
    score = pool[SCORE].to_numpy(dtype=np.float64)
    order = np.arange(len(pool))
    for place, (first, last) in enumerate(zip(start[:-1], start[1:], strict=True)):
        entries = slice(memberships.start[first], memberships.start[last])
        own = slice(target.start[place], target.start[place + 1])
        if own.start == own.stop or entries.start == entries.stop:
            continue
        cells, column = np.unique(memberships.level[entries], return_inverse=True)
        member = np.zeros((last - first, len(cells)))
        size = memberships.size[first:last]
        member[np.repeat(np.arange(last - first), size), column] = memberships.weight[entries]
        share = np.zeros(meter.groups.space.size)
        share[target.level[own]] = target.weight[own]
        within = exposure_order(
            _scaled(score[first:last]), member, share[cells], attention, weight, floor
        )
        order[first:last] = first + within
    out = pool.iloc[order].reset_index(drop=True)
    out[RANK] = np.arange(len(pool)) - np.repeat(start[:-1], np.diff(start))
    out[SCORE] = 0.0 - out[RANK]
    return out


def exposure_order(
    relevance: FloatArray,
    member: FloatArray,
    target: FloatArray,
    attention: FloatArray,
    weight: float,
    floor: float,
) -> IntArray:
    """Return the documents of one query in an order that is relevant and near the target.

    Rank by rank the document is chosen that makes

        (expected relevance so far) x (closeness of the exposure so far to the target) ^ weight

    largest: the product that the study measures, of estimated relevance. Expected relevance is the
    sum of attention x relevance; closeness is 1 - the Jensen-Shannon divergence, as in AWRF.
    Documents that would let the expected relevance of all ranks fall below `floor` times that of
    the order of relevance, whatever follows, are not chosen. Documents of equal groups differ in
    relevance alone, so that only the most relevant of them is looked at.

    Args:
        relevance: of each document, in [0, 1], not rising; shape (n,).
        member: of each document in the groups that any has; shape (n, n_groups).
        target: share of each of these groups; of all groups they sum to 1; shape (n_groups,).
        attention: of each rank that is chosen; shape (depth,).
        weight: of closeness, 0 or above; 0: the order of relevance.
        floor: in [0, 1]; 1: the order of relevance, except for ties.
    """
    attention = attention[: len(relevance)]
    alike = pd.factorize(np.array([row.tobytes() for row in member], dtype=object))[0]
    queue = np.argsort(alike, kind="stable")  # documents of equal groups together, best first
    end = np.cumsum(np.bincount(alike))
    head = np.append(0, end[:-1])
    closeness = _Closeness(member[queue[head]], target)
    left = np.ones(len(relevance), dtype=bool)
    chosen = np.empty(len(attention), dtype=np.int64)
    least = floor * float(attention @ relevance[: len(attention)]) - _SAME
    exposure, gained = np.zeros(member.shape[1]), 0.0
    for rank, now in enumerate(attention):
        kind = np.flatnonzero(head < end)
        doc = queue[head[kind]]
        gain = gained + now * relevance[doc]
        allowed = gain + _at_most(relevance, left[: len(chosen)], doc, attention[rank:]) >= least
        best, value = closeness.best(exposure, now, kind, np.where(allowed, gain, -1.0), weight)
        best = best[value >= value.max() - _SAME]
        pick = best[doc[best].argmin()]
        chosen[rank] = doc[pick]
        left[doc[pick]] = False
        head[kind[pick]] += 1
        exposure += now * member[doc[pick]]
        gained = gain[pick]
    return np.append(chosen, np.flatnonzero(left))


class _Closeness:
    """1 - JSD(exposure, target), as `fairtk.groups.js_divergence`, after one more document.

    A document moves the exposure of its own groups, and all shares by the new sum. Where documents
    have few groups of all, the rest of the shares is looked at once for each sum, which few
    documents have apart from the others. Where they have many: closeness is concave in the shares,
    so its tangent at the shares that the mean of all documents would leave is nowhere below it, and
    one product of a matrix and a vector finds the few kinds of documents that may be best.

    Args:
        member: of each kind of document in the groups; shape (n_kinds, n_groups).
        target: share of each group.
    """

    def __init__(self, member: FloatArray, target: FloatArray) -> None:
        self._member, self._target = member, target
        self._total, self._mean = member.sum(axis=1), member.mean(axis=0)
        self._kind, self._group = np.nonzero(member)
        self._weight = member[self._kind, self._group]
        self._filled = len(self._weight) > max(_MANY, _FILLED * member.size)
        self._sums, self._sum_of = np.unique(self._total, return_inverse=True)
        self._sum = self._sum_of[self._kind]
        self._own = target[self._group]
        # groups that no document has add target x ln(2) / 2
        self._fixed = x_log_x(target).sum() / 2
        self._fixed += max(0.0, 1.0 - float(target.sum())) * np.log(2.0) / 2

    def best(
        self,
        exposure: FloatArray,
        attention: float,
        kind: IntArray,
        gain: FloatArray,
        weight: float,
    ) -> tuple[IntArray, FloatArray]:
        """Return places in `kind`, all of the best among them, and their gain x closeness ^ weight.

        No exposure at all, which only the first ranks can have, says nothing: such kinds get the
        largest of the others' values.

        Args:
            exposure: of each group so far.
            attention: that one more document has.
            kind: of the documents; shape (n,).
            gain: expected relevance with each of them; below 0: not to be chosen; same shape.
            weight: of closeness.
        """
        place, none_yet = np.arange(len(kind)), not exposure.any()
        if self._filled and not none_yet:
            bound = gain * self._at_most(exposure, attention, kind) ** weight
            likely = bound.argmax()
            value = gain[likely] * self._one_by_one(exposure, attention, kind[[likely]]) ** weight
            place = np.flatnonzero(bound >= value - _ROUNDING)
        after = self._one_by_one if self._filled else self._by_sums
        near = after(exposure, attention, kind[place])
        if none_yet and not (empty := self._total[kind] <= 0).all():
            near[empty] = near[~empty].max()
        return place, np.where(gain[place] < 0, -1.0, gain[place] * near**weight)

    def _by_sums(self, exposure: FloatArray, attention: float, kind: IntArray) -> FloatArray:
        total = exposure.sum() + attention * self._sums
        whole = np.where(total > 0, total, 1.0)
        before = js_parts(exposure / whole[:, None], self._target)
        own = (exposure[self._group] + attention * self._weight) / whole[self._sum]
        change = js_parts(own, self._own) - before[self._sum, self._group]
        parts = before.sum(axis=1)[self._sum_of]
        parts += np.bincount(self._kind, change, len(parts))
        return np.asarray(np.clip(1.0 - parts - self._fixed, 0.0, 1.0)[kind])

    def _one_by_one(self, exposure: FloatArray, attention: float, kind: IntArray) -> FloatArray:
        after = exposure + attention * self._member[kind]
        total = after.sum(axis=1, keepdims=True)
        parts = js_parts(after / np.where(total > 0, total, 1.0), self._target).sum(axis=1)
        return np.asarray(np.clip(1.0 - parts - self._fixed, 0.0, 1.0))

    def _at_most(self, exposure: FloatArray, attention: float, kind: IntArray) -> FloatArray:
        around = exposure + attention * self._mean
        around /= around.sum()
        slope = np.log((around + _TINY) / ((around + self._target) / 2 + _TINY)) / 2
        near = 1.0 - self._fixed - js_parts(around, self._target).sum() + around @ slope
        gained = exposure @ slope + attention * (self._member @ slope)[kind]
        total = exposure.sum() + attention * self._total[kind]
        return np.asarray(np.clip(near - gained / total, 0.0, 1.0))


def _at_most(
    relevance: FloatArray, left: BoolArray, doc: IntArray, attention: FloatArray
) -> FloatArray:
    """Return the most relevance that later ranks can add once each of some documents is taken.

    Args:
        relevance: of all documents, not rising.
        left: which of the first of them are not chosen yet, at least as many as ranks.
        doc: those that could be taken now.
        attention: of this rank and the later ones.
    """
    best = np.flatnonzero(left)[: len(attention)]
    # taken from before the later ones, a document makes those behind it move up
    behind = np.append(0.0, np.cumsum(attention[1:] * relevance[best[:-1]]))
    unmoved = np.append(0.0, np.cumsum(attention * relevance[best]))
    place = np.minimum(np.searchsorted(best, doc), len(best) - 1)
    moved = np.where(best[place] == doc, place, len(best) - 1)
    return np.asarray(behind[moved] + unmoved[-1] - unmoved[moved + 1])


def _scaled(score: FloatArray) -> FloatArray:
    """Return scores in [0, 1]; NaN: 0; all equal: 1."""
    low, high = np.nanmin(score), np.nanmax(score)
    scaled = (score - low) / (high - low) if high > low else np.ones_like(score)
    return np.asarray(np.nan_to_num(scaled, nan=0.0))


POOLS = ("last", "refined", "union")
DEEP = 200  # documents of each list that a re-ranking by exposure chooses from


def chosen_lists(lists: Sequence[int], pool: str) -> list[int]:
    """Return which of a query's lists are pooled.

    Args:
        lists: iterations whose lists were kept, in order; the first retrieval is 0.
        pool: ``"last"``: the last one; ``"refined"``: all but the first retrieval's (or that, if
            there is no other); ``"union"``: all.
    """
    if pool == "last":
        return list(lists[-1:])
    if pool == "refined":
        return [i for i in lists if i > 0] or list(lists)
    return list(lists)


def pooled(
    runs: Sequence[pd.DataFrame], lists: Mapping[str, Sequence[int]], k: int
) -> pd.DataFrame:
    """Return the pooled documents of each query: those of the latest list first, by rank.

    Args:
        runs: the retrieved rankings of each iteration (R, ranks from 0).
        lists: the iterations to pool, by qid.
        k: how many documents of each list.
    """
    parts = [runs[0].iloc[:0]]
    for iteration, run in enumerate(runs):
        if qids := [qid for qid, own in lists.items() if iteration in own]:
            parts.append(run[(run[RANK] < k) & run[QID].isin(qids)])
    whole = pd.concat(parts[::-1], ignore_index=True)
    query = pd.Index(list(lists), dtype=object).get_indexer(whole[QID])
    order = np.argsort(query, kind="stable")  # the latest list is first, and by rank, already
    return _ranked(whole.iloc[order].drop_duplicates([QID, DOCNO]))


def _ranked(whole: pd.DataFrame) -> pd.DataFrame:
    """Return rows, those of each query together, with the ranks that their order says."""
    query = pd.factorize(whole[QID])[0]
    whole = whole.reset_index(drop=True)
    whole[RANK] = np.arange(len(query)) - np.searchsorted(query, query)
    return whole


def by_first_scores(
    pool: pd.DataFrame, first: pd.DataFrame, unknown: float | None = None
) -> pd.DataFrame:
    """Return a pool in the order of the first retrieval, with its scores.

    Documents that the first retrieval did not return come last, in the pool's order, with scores
    below the others'.

    Args:
        pool: the pooled documents, in order.
        first: the rankings of the original queries.
        unknown: the score of documents that the first retrieval did not return, in place of those.
    """
    before = first[[QID, DOCNO, SCORE, RANK]].rename(columns={SCORE: "_score", RANK: "_rank"})
    both = pool.merge(before, on=[QID, DOCNO], how="left")  # a document is once in each
    score, rank = both["_score"].to_numpy(), both["_rank"].fillna(np.inf).to_numpy()
    query = pd.factorize(both[QID])[0]
    lowest = np.full(len(both), np.inf)
    np.fmin.at(lowest, query, score)
    below = np.where(lowest == np.inf, 0.0, lowest)[query] - 1.0 - both[RANK].to_numpy()
    out = both.drop(columns=["_score", "_rank"])
    out[SCORE] = np.where(rank < np.inf, score, below if unknown is None else unknown)
    return _ranked(out.iloc[np.lexsort((both[RANK], rank, query))])


def in_pool_order(pool: pd.DataFrame) -> pd.DataFrame:
    """Return a pool of several lists with scores that say its order: 0, -1, -2, ..."""
    return pool.assign(**{SCORE: -pool[RANK].astype(np.float64)})


RELEVANCE, EXPOSURE = "relevance", "exposure"


@dataclass(frozen=True, eq=False)
class Ordering:
    """Orders pools; see `fairtk.FairQR` for the settings.

    Attributes:
        meter: what exposure is measured with.
        rerank: ``"relevance"``, ``"exposure"`` or False.
        pool: one of `POOLS`.
        k: documents of each list that are pooled.
        reranker: R -> R, or None.
        weight: of closeness.
        floor: share of the expected relevance that is kept.
    """

    meter: Meter
    rerank: str | bool
    pool: str
    k: int
    reranker: Any
    weight: float
    floor: float

    def order(
        self,
        runs: Sequence[pd.DataFrame],
        topics: pd.DataFrame,
        lists: Mapping[str, Sequence[int]],
    ) -> pd.DataFrame:
        """Return pooled lists in their final order.

        Args:
            runs: the rankings of each iteration, those of the original queries first.
            topics: the queries.
            lists: the iterations whose lists may be pooled, by qid; see `chosen_lists`.

        Raises:
            InputError: the reranker loses a query, or its rankings are broken.
        """
        chosen = {qid: chosen_lists(own, self.pool) for qid, own in lists.items()}
        pool = pooled(runs, chosen, self.k)
        if self.rerank is False:
            return pool if self.pool == "last" else in_pool_order(pool)
        near = self.rerank == EXPOSURE
        ordered = (
            by_first_scores(pool, runs[0], math.nan if near else None)
            if self.reranker is None
            else self._reranked(pool, topics)
        )
        return by_exposure(ordered, self.meter, self.weight, self.floor) if near else ordered

    def _reranked(self, pool: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
        where = f"FairQR: the output of {self.reranker!r}"
        rankings = self.reranker.transform(with_topics(in_pool_order(pool), topics))
        out = bare_rankings(rankings, topics, where)
        lost = set(pool[QID]) - set(out[QID])
        if lost:
            raise InputError(
                f"{where} has no documents for the qids {listed(sorted(lost))}; a reranker must "
                "keep every query"
            )
        return out


def bare_rankings(
    rankings: pd.DataFrame, topics: pd.DataFrame, where: str, most: int | None = None
) -> pd.DataFrame:
    """Return rankings in order, with ranks from 0 and qids as strings, without topics' columns.

    Args:
        rankings: what a retriever or reranker returned (R).
        topics: the queries.
        where: who returned it, for messages.
        most: how many documents of each query are kept; None: all.

    Raises:
        InputError: the rankings are broken.
    """
    require(rankings, [QID, DOCNO, SCORE], where)
    run = Run(rankings, where)
    others = {*topics.columns, QID, RANK, QUERY}
    own = [c for c in rankings.columns if c not in others and not c.startswith("query_")]
    top = slice(None) if most is None else run.position < most
    out = rankings[own].iloc[run.order[top]].reset_index(drop=True)
    out.insert(0, QID, run.qids[run.query[top]])
    out[RANK] = run.position[top]
    return out


def with_topics(ranked: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Return rankings with the columns of their topics before them."""
    left = topics.iloc[topics.index.get_indexer(ranked[QID])].reset_index(drop=True)
    return pd.concat([left, ranked.drop(columns=QID).reset_index(drop=True)], axis=1)
