"""Measure the exposure of groups in rankings, and order the pooled documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError
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
    require_columns,
)
from fairtk.frames.ids import Ids
from fairtk.groups import Divergence, Groups, Target
from fairtk.groups.divergences import js_divergence, js_parts, x_log_x
from fairtk.groups.exposure import attention_matrix, group_exposure
from fairtk.groups.rows import SparseRows
from fairtk.wording import format_list

_SAME = 1e-12  # values nearer than this are ties
_ROUNDING = 1e-9  # tolerance of a bound
_MANY, _FILLED = 2000, 0.1  # number and share of memberships from which a matrix is dense
_TINY = np.finfo(np.float64).tiny  # so that 0 log 0 is 0


SHARE = "share:"
"""Prefix of the trace's columns for the groups' shares of exposure."""

CALL = ("prompt_tokens", "completion_tokens", "seconds")
"""The trace's columns for the call of a refinement."""


def level_names(groups: Groups) -> list[str]:
    """Return the levels of groups as texts, with ``&`` between the parts of crossed levels."""
    return [name if isinstance(name, str) else " & ".join(name) for name in groups.levels]


def target_shares(groups: Groups, target: Target, qid: str) -> dict[str, float]:
    """Return the target share of each group for a query, by its name in a trace.

    The mapping is empty for a query without a target.
    """
    shares = target.for_qids([qid]).expanded().normalized()
    names = level_names(groups)
    return {names[i]: float(w) for i, w in zip(shares.level, shares.weight, strict=True)}


@dataclass(frozen=True, eq=False)
class Meter:
    """An evaluator of rankings against a target and labels.

    Attributes:
        groups: the groups.
        target: the target over the levels of `groups`.
        depth: the number of ranks that count.
        browsing: the browsing model.
        divergence: the divergence of the shares from the target.
        unlabeled: how unlabeled documents are handled; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
        qrels: ``qid``, ``docno``, ``label`` for nDCG; `None` to not measure it.
        reranked: whether a trace also measures the re-ranked lists.
    """

    groups: Groups
    target: Target
    depth: int
    browsing: BrowsingModel
    divergence: Divergence
    unlabeled: str
    split: bool
    qrels: pd.DataFrame | None
    reranked: bool

    @cached_property
    def levels(self) -> list[str]:
        """The levels as texts, with ``&`` between the parts of crossed levels."""
        return level_names(self.groups)

    @cached_property
    def labels(self) -> Qrels | None:
        """The labels, `None` if absent."""
        return None if self.qrels is None else Qrels(self.qrels, "FairQR: qrels")

    @property
    def columns(self) -> list[str]:
        """The trace's columns with the measured values of each step."""
        gain = ["nDCG"] if self.qrels is not None else []
        after = [f"{name}_reranked" for name in ("AWRF", *gain)] if self.reranked else []
        shares = [f"{SHARE}{level}" for level in self.levels]
        return ["divergence", "AWRF", *gain, *after, "retrieved", *shares, *CALL]

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> dict[str, Any]:
        """Return the values of queries, as lists by column of the trace.

        The columns are the share of exposure of each level (they sum to 1; NaN if no document has a
        group), ``divergence`` of the shares from the target (NaN if one of them is missing),
        ``AWRF`` of the unsplit exposure, as in `fairtk.AWRF`, and ``retrieved``, the number of
        documents at the top.

        Args:
            run: the output of `bare_rankings` for these queries.
            qids: the queries, with or without rows in the run; shape (n_queries,).
        """
        top = run[run[RANK] < self.depth]
        query = pd.Index(qids, dtype=object).get_indexer(top[QID]).astype(np.int64)
        weight = self.browsing.checked_weights(top[RANK].to_numpy(dtype=np.int64))
        memberships = self.groups.memberships(top[DOCNO].to_numpy(dtype=object), self.unlabeled)
        attended = np.flatnonzero(weight)
        shape = (len(qids), len(top))
        documents = attention_matrix(query[attended], attended, weight[attended], shape)
        unsplit = self.target.drop_unknown(group_exposure(documents, memberships), qids)
        exposure = unsplit
        if self.split:
            exposure = group_exposure(documents, _split(memberships))
            exposure = self.target.drop_unknown(exposure, qids)
        exposure = exposure.normalized()
        target = self.target.for_qids(qids)
        share = exposure.dense()
        share[~share.any(axis=1)] = math.nan
        return {
            "divergence": self.divergence.checked_between(exposure, target).tolist(),
            "AWRF": (1.0 - js_divergence(unsplit, target)).tolist(),
            "retrieved": np.bincount(query, minlength=len(qids)).tolist(),
            **{
                f"{SHARE}{level}": shares
                for level, shares in zip(self.levels, share.T.tolist(), strict=True)
            },
        }

    def gain(self, run: pd.DataFrame, qids: ObjectArray, labels: Qrels) -> list[float]:
        """Return each query's nDCG of TREC Fair Ranking 2022; NaN if no document is relevant.

        See `measure` for the arguments; labels above 0 are relevant.
        """
        ranked = Run(run, "FairQR")
        relevant = labels.query[labels.labels > 0]
        counts = np.append(np.bincount(relevant, minlength=len(labels.qids)), 0)
        gain: list[float] = normalized_gain(
            ranked,
            labels.labels_of(ranked) > 0,
            pd.Index(qids, dtype=object).get_indexer(ranked.qids),
            counts[labels.qids.find(Ids(qids))],
            self.browsing,
            attention(ranked, self.browsing, self.depth),
            self.depth,
        ).tolist()
        return gain


def _split(memberships: SparseRows) -> SparseRows:
    """Return memberships that sum to at most 1 per document."""
    sums = np.maximum(memberships.total(), 1.0)
    return memberships.weighted(memberships.weight / sums[memberships.row])


RULES = ("difference", "ratio")


def under_represented(
    share: FloatArray, target: FloatArray, known: BoolArray, rule: str
) -> IntArray:
    """Return the most under-represented group of each row, or -1.

    A group is under-represented if its share is below its target. The unknown level is excluded,
    because no keyword finds it. Ties are broken by the order of groups.

    Args:
        share: exposure of the groups, each row summing to 1; shape (n_rows, n_groups).
        target: target shares of the groups; same shape.
        known: whether a group is not the unknown level; shape (n_groups,).
        rule: ``"difference"``: the largest target - share; ``"ratio"``: the largest target / share,
            which prefers groups without exposure, however small their target (of several such
            groups, the one with the largest target).
    """
    deficit = np.where(known, target - share, 0.0)
    deficit = np.where(deficit > 1e-12, deficit, 0.0)
    if rule == "ratio":
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(deficit > 0, target / share, 0.0)
        best = ratio.max(axis=1, initial=0.0, keepdims=True)
        deficit = np.where((ratio == best) & (deficit > 0), target, 0.0)
    group = deficit.argmax(axis=1)
    return np.where(deficit.max(axis=1, initial=0.0) > 0, group, -1).astype(np.int64)


def rank_by_exposure(pool: pd.DataFrame, meter: Meter, weight: float, floor: float) -> pd.DataFrame:
    """Return each query's documents in the order of `exposure_order`, scores 0, -1, -2, ...

    Relevance is the score, scaled to [0, 1] per query; NaN is the lowest. Queries without a target,
    or without a document in a group, keep the order of relevance.

    Args:
        pool: R, the most relevant document first.
        meter: groups, target and attention. Documents below its depth are ordered by relevance.
        weight: see `exposure_order`.
        floor: see `exposure_order`.
    """
    if pool.empty:
        return pool
    attention = meter.browsing.checked_weights(np.arange(meter.depth, dtype=np.int64))
    memberships = meter.groups.memberships(pool[DOCNO].to_numpy(dtype=object), meter.unlabeled)
    query, qids = pd.factorize(pool[QID])
    memberships = meter.target.drop_unknown(memberships, qids[query])
    target = meter.target.for_qids(qids).expanded().normalized()
    start = np.append(np.flatnonzero(np.diff(query, prepend=-1)), len(pool))
    score = pool[SCORE].to_numpy(dtype=np.float64)
    order = np.arange(len(pool))
    for index, (first, last) in enumerate(zip(start[:-1], start[1:], strict=True)):
        entries = slice(memberships.start[first], memberships.start[last])
        targets = slice(target.start[index], target.start[index + 1])
        if targets.start == targets.stop or entries.start == entries.stop:
            continue
        cells, column = np.unique(memberships.level[entries], return_inverse=True)
        member = np.zeros((last - first, len(cells)))
        size = memberships.size[first:last]
        member[np.repeat(np.arange(last - first), size), column] = memberships.weight[entries]
        share = np.zeros(meter.groups.space.size)
        share[target.level[targets]] = target.weight[targets]
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
    """Return an order of one query's documents that trades relevance for closeness to the target.

    A greedy algorithm chooses at each rank the document that maximizes::

        (expected relevance so far) x (closeness of the exposure so far to the target) ^ weight

    Expected relevance is the sum of attention x relevance. Closeness is 1 - the Jensen-Shannon
    divergence, as in AWRF. A document is not chosen if the expected relevance of all ranks would
    fall below `floor` times that of the order of relevance. Of the documents with equal groups,
    only the most relevant is considered.

    Args:
        relevance: relevance of each document, in [0, 1], not increasing; shape (n,).
        member: memberships in the groups that any document has; shape (n, n_groups).
        target: target shares of these groups (over all groups they sum to 1); shape (n_groups,).
        attention: attention of each rank to fill; shape (depth,).
        weight: weight of closeness, at least 0; 0 for the order of relevance.
        floor: in [0, 1]; 1 for the order of relevance, except for ties.
    """
    attention = attention[: len(relevance)]
    kind_of = pd.factorize(np.array([row.tobytes() for row in member], dtype=object))[0]
    queue = np.argsort(kind_of, kind="stable")  # documents with equal groups together, best first
    end = np.cumsum(np.bincount(kind_of))
    head = np.append(0, end[:-1])
    closeness = _Closeness(member[queue[head]], target)
    left = np.ones(len(relevance), dtype=bool)
    chosen = np.empty(len(attention), dtype=np.int64)
    minimum = floor * float(attention @ relevance[: len(attention)]) - _SAME
    exposure, total_gain = np.zeros(member.shape[1]), 0.0
    for rank, weight_of_rank in enumerate(attention):
        kind = np.flatnonzero(head < end)
        doc = queue[head[kind]]
        gain = total_gain + weight_of_rank * relevance[doc]
        bound = gain + _max_gain(relevance, left[: len(chosen)], doc, attention[rank:])
        allowed_gain = np.where(bound >= minimum, gain, -1.0)
        best, value = closeness.best(exposure, weight_of_rank, kind, allowed_gain, weight)
        best = best[value >= value.max() - _SAME]
        pick = best[doc[best].argmin()]
        chosen[rank] = doc[pick]
        left[doc[pick]] = False
        head[kind[pick]] += 1
        exposure += weight_of_rank * member[doc[pick]]
        total_gain = gain[pick]
    return np.append(chosen, np.flatnonzero(left))


class _Closeness:
    """1 - JSD(exposure, target), see `fairtk.groups.js_divergence`, after one more document.

    A document changes the exposure of its groups, and through the total the shares of all groups.
    If documents have few groups, the other shares are computed once per distinct total. If they
    have many, closeness is bounded first: it is concave in the shares, so its tangent at the shares
    after the mean of all documents is an upper bound. A matrix-vector product then finds the few
    kinds of documents that may be best.

    Args:
        member: memberships of each kind of document; shape (n_kinds, n_groups).
        target: target share of each group; shape (n_groups,).
    """

    def __init__(self, member: FloatArray, target: FloatArray) -> None:
        self._member, self._target = member, target
        self._total, self._mean = member.sum(axis=1), member.mean(axis=0)
        self._kind, self._group = np.nonzero(member)
        self._weight = member[self._kind, self._group]
        self._filled = len(self._weight) > max(_MANY, _FILLED * member.size)
        self._sums, self._sum_of = np.unique(self._total, return_inverse=True)
        self._sum = self._sum_of[self._kind]
        self._group_target = target[self._group]
        # groups without documents add target x ln(2) / 2
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
        """Return indices of `kind` that include the best, and their gain x closeness ^ weight.

        Closeness is undefined without any exposure, at the first ranks. Such kinds get the largest
        closeness of the others.

        Args:
            exposure: exposure of each group so far; shape (n_groups,).
            attention: attention of the next document.
            kind: kinds of the next document; shape (n,).
            gain: expected relevance with each kind, below 0 if it is not allowed; shape (n,).
            weight: weight of closeness.
        """
        index, is_first = np.arange(len(kind)), not exposure.any()
        if self._filled and not is_first:
            bound = gain * self._upper_bound(exposure, attention, kind) ** weight
            likely = bound.argmax()
            value = gain[likely] * self._one_by_one(exposure, attention, kind[[likely]]) ** weight
            index = np.flatnonzero(bound >= value - _ROUNDING)
        after = self._one_by_one if self._filled else self._by_sums
        closeness = after(exposure, attention, kind[index])
        if is_first and not (empty := self._total[kind] <= 0).all():
            closeness[empty] = closeness[~empty].max()
        return index, np.where(gain[index] < 0, -1.0, gain[index] * closeness**weight)

    def _by_sums(self, exposure: FloatArray, attention: float, kind: IntArray) -> FloatArray:
        total = exposure.sum() + attention * self._sums
        total = np.where(total > 0, total, 1.0)
        before = js_parts(exposure / total[:, None], self._target)
        share = (exposure[self._group] + attention * self._weight) / total[self._sum]
        change = js_parts(share, self._group_target) - before[self._sum, self._group]
        parts = before.sum(axis=1)[self._sum_of]
        parts += np.bincount(self._kind, change, len(parts))
        return np.asarray(np.clip(1.0 - parts - self._fixed, 0.0, 1.0)[kind])

    def _one_by_one(self, exposure: FloatArray, attention: float, kind: IntArray) -> FloatArray:
        after = exposure + attention * self._member[kind]
        total = after.sum(axis=1, keepdims=True)
        parts = js_parts(after / np.where(total > 0, total, 1.0), self._target).sum(axis=1)
        return np.asarray(np.clip(1.0 - parts - self._fixed, 0.0, 1.0))

    def _upper_bound(self, exposure: FloatArray, attention: float, kind: IntArray) -> FloatArray:
        mean_share = exposure + attention * self._mean
        mean_share /= mean_share.sum()
        slope = np.log((mean_share + _TINY) / ((mean_share + self._target) / 2 + _TINY)) / 2
        value = 1.0 - self._fixed - js_parts(mean_share, self._target).sum() + mean_share @ slope
        change = exposure @ slope + attention * (self._member @ slope)[kind]
        total = exposure.sum() + attention * self._total[kind]
        return np.asarray(np.clip(value - change / total, 0.0, 1.0))


def _max_gain(
    relevance: FloatArray, left: BoolArray, doc: IntArray, attention: FloatArray
) -> FloatArray:
    """Return the maximum relevance that later ranks can add after each of some documents.

    Args:
        relevance: relevance of all documents, not increasing.
        left: whether the first documents are not chosen yet, at least one per rank.
        doc: the candidates for this rank.
        attention: attention of this rank and the later ranks.
    """
    best = np.flatnonzero(left)[: len(attention)]
    # documents after a chosen one move up by one rank
    moved = np.append(0.0, np.cumsum(attention[1:] * relevance[best[:-1]]))
    unmoved = np.append(0.0, np.cumsum(attention * relevance[best]))
    index = np.minimum(np.searchsorted(best, doc), len(best) - 1)
    index = np.where(best[index] == doc, index, len(best) - 1)
    return np.asarray(moved[index] + unmoved[-1] - unmoved[index + 1])


def _scaled(score: FloatArray) -> FloatArray:
    """Return scores scaled to [0, 1], with 0 for NaN, and 1 if all are equal."""
    low, high = np.nanmin(score), np.nanmax(score)
    scaled = (score - low) / (high - low) if high > low else np.ones_like(score)
    return np.asarray(np.nan_to_num(scaled, nan=0.0))


POOLS = ("last", "refined", "union")
DEEP = 200  # pooled documents of each list for re-ranking by exposure


def choose_lists(lists: Sequence[int], pool: str) -> list[int]:
    """Return the lists of a query to pool.

    Args:
        lists: the iterations of the kept lists, in order; the first retrieval is 0.
        pool: ``"last"``: the last list; ``"refined"``: all lists but the first (which is used if
            there is no other); ``"union"``: all lists.
    """
    if pool == "last":
        return list(lists[-1:])
    if pool == "refined":
        return [i for i in lists if i > 0] or list(lists)
    return list(lists)


def pool_documents(
    runs: Sequence[pd.DataFrame], lists: Mapping[str, Sequence[int]], k: int
) -> pd.DataFrame:
    """Return the pooled documents of each query, by list (the latest first) and rank.

    Args:
        runs: the rankings of each iteration (R, ranks from 0).
        lists: the iterations to pool, by qid.
        k: the number of documents of each list.
    """
    parts = [runs[0].iloc[:0]]
    for iteration, run in enumerate(runs):
        if qids := [qid for qid, iterations in lists.items() if iteration in iterations]:
            parts.append(run[(run[RANK] < k) & run[QID].isin(qids)])
    rows = pd.concat(parts[::-1], ignore_index=True)
    query = pd.Index(list(lists), dtype=object).get_indexer(rows[QID])
    order = np.argsort(query, kind="stable")  # keeps the order of lists and ranks
    return _ranked(rows.iloc[order].drop_duplicates([QID, DOCNO]))


def _ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows, grouped by query, with ranks from their order."""
    query = pd.factorize(rows[QID])[0]
    rows = rows.reset_index(drop=True)
    rows[RANK] = np.arange(len(query)) - np.searchsorted(query, query)
    return rows


def rank_by_first_scores(
    pool: pd.DataFrame, first: pd.DataFrame, unknown: float | None = None
) -> pd.DataFrame:
    """Return a pool in the order of the first retrieval, with its scores.

    Documents missing from the first retrieval come last, in the pool's order, with lower scores.

    Args:
        pool: the pooled documents, in order.
        first: the rankings of the original queries.
        unknown: the score of documents missing from the first retrieval; `None` for lower scores.
    """
    before = first[[QID, DOCNO, SCORE, RANK]].rename(columns={SCORE: "_score", RANK: "_rank"})
    both = pool.merge(before, on=[QID, DOCNO], how="left")  # documents are unique in both
    score, rank = both["_score"].to_numpy(), both["_rank"].fillna(np.inf).to_numpy()
    query = pd.factorize(both[QID])[0]
    lowest = np.full(len(both), np.inf)
    np.fmin.at(lowest, query, score)
    below = np.where(lowest == np.inf, 0.0, lowest)[query] - 1.0 - both[RANK].to_numpy()
    out = both.drop(columns=["_score", "_rank"])
    out[SCORE] = np.where(rank < np.inf, score, below if unknown is None else unknown)
    return _ranked(out.iloc[np.lexsort((both[RANK], rank, query))])


def rank_in_pool_order(pool: pd.DataFrame) -> pd.DataFrame:
    """Return a pool of several lists with scores by its order: 0, -1, -2, ..."""
    return pool.assign(**{SCORE: -pool[RANK].astype(np.float64)})


RELEVANCE, EXPOSURE = "relevance", "exposure"


@dataclass(frozen=True, eq=False)
class Ordering:
    """The final order of pools; see `fairtk.FairQR` for the settings.

    Attributes:
        meter: the evaluator of exposure.
        rerank: ``"relevance"``, ``"exposure"`` or False.
        pool: one of `POOLS`.
        k: the number of pooled documents of each list.
        reranker: R -> R, or `None`.
        weight: weight of closeness.
        floor: minimum share of the expected relevance.
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
            lists: the iterations whose lists may be pooled, by qid; see `choose_lists`.

        Raises:
            InputError: the reranker drops a query, or its rankings are invalid.
        """
        chosen = {qid: choose_lists(kept, self.pool) for qid, kept in lists.items()}
        pool = pool_documents(runs, chosen, self.k)
        if self.rerank is False:
            return pool if self.pool == "last" else rank_in_pool_order(pool)
        near = self.rerank == EXPOSURE
        ordered = (
            rank_by_first_scores(pool, runs[0], math.nan if near else None)
            if self.reranker is None
            else self._reranked(pool, topics)
        )
        return rank_by_exposure(ordered, self.meter, self.weight, self.floor) if near else ordered

    def _reranked(self, pool: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
        where = f"FairQR: the output of {self.reranker!r}"
        rankings = self.reranker.transform(with_topics(rank_in_pool_order(pool), topics))
        out = bare_rankings(rankings, topics, where)
        missing = set(pool[QID]) - set(out[QID])
        if missing:
            raise InputError(
                f"{where} has no documents for the qids {format_list(sorted(missing))}: a reranker "
                "must keep every query"
            )
        return out


def bare_rankings(
    rankings: pd.DataFrame, topics: pd.DataFrame, where: str, most: int | None = None
) -> pd.DataFrame:
    """Return sorted rankings with ranks from 0 and qids as strings, without topics' columns.

    Args:
        rankings: the output of a retriever or reranker (R).
        topics: the queries.
        where: the source of the rankings, for messages.
        most: the maximum number of documents per query; `None` for all.

    Raises:
        InputError: the rankings are invalid.
    """
    require_columns(rankings, [QID, DOCNO, SCORE], where)
    run = Run(rankings, where)
    others = {*topics.columns, QID, RANK, QUERY}
    columns = [c for c in rankings.columns if c not in others and not c.startswith("query_")]
    top = slice(None) if most is None else run.position < most
    out = rankings[columns].iloc[run.order[top]].reset_index(drop=True)
    out.insert(0, QID, run.qids[run.query[top]])
    out[RANK] = run.position[top]
    return out


def with_topics(ranked: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Return rankings with the columns of their topics first."""
    left = topics.iloc[topics.index.get_indexer(ranked[QID])].reset_index(drop=True)
    return pd.concat([left, ranked.drop(columns=QID).reset_index(drop=True)], axis=1)
