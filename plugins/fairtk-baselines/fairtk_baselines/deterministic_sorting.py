"""DetGreedy, DetCons, DetRelaxed and DetConstSort: shares of groups in every prefix of a ranking.

All four are from Geyik, Ambler and Kenthapadi (KDD 2019), Algorithms 1 to 3.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import DataWarning, ParameterError
from fairtk.frames import DOCNO, QID, RANK, SCORE, BoolArray, FloatArray, IntArray, Run
from fairtk.groups import Groups, Level, Target
from fairtk.measures import RemarkKind
from fairtk.transformers import FairTransformer, remark
from fairtk_baselines.levels import NO_TARGET, NO_TARGET_KIND, checked_groups, levels_of

_TOO_FEW = "fairtk-baselines:too few candidates"
_MANY = 64  # more documents are faster to compare as an array
_ROUNDING = 1e-9  # 0.29 * 100 is 28.999999999999996


class DeterministicSorting(FairTransformer):
    """Base of the rerankers of Geyik et al. 2019; a subclass defines `chosen`."""

    REMARKS: ClassVar[dict[str, RemarkKind]] = {
        NO_TARGET: NO_TARGET_KIND,
        _TOO_FEW: RemarkKind(
            DataWarning,
            "{stage}: {queries} have fewer candidates of a group than its share of the ranks; "
            "other documents fill these ranks",
        ),
    }
    SETTINGS: ClassVar[tuple[str, ...]] = ("groups", "p", "cutoff")

    def __init__(
        self, groups: Groups, p: Mapping[Any, float] | Target, cutoff: int | None = None
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.groups = checked_groups(groups, name)
        self.p = p.for_groups(groups) if isinstance(p, Target) else _shares(groups, p, name)
        self.cutoff = checks.cutoff(cutoff, name)

    def chosen(self, listed: GroupedCandidates, cutoff: int) -> IntArray:
        """Return the rows of the new rankings, a column per rank; -1 for no row.

        Args:
            listed: the candidates.
            cutoff: the number of ranks to fill.
        """
        raise NotImplementedError(f"{type(self).__name__} must define chosen")

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Rerank the run (R: ``qid``, ``docno``, ``score``)."""
        name = type(self).__name__
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        self.refuse_samples(inp)
        run = Run(inp, name)
        listed = GroupedCandidates.of(run, self.groups, self.p)
        length = np.bincount(run.query, minlength=len(run.qids))
        depth = length if self.cutoff is None else np.minimum(length, self.cutoff)
        remark(NO_TARGET, name, ~listed.has_target, run.qids)
        remark(_TOO_FEW, name, listed.too_few(depth) & listed.has_target, run.qids)
        rows = self.chosen(listed, int(depth.max(initial=0)))
        rows[~listed.has_target] = -1
        rank = np.full(len(run.doc), rows.shape[1])  # other documents keep their order below
        rank[rows[rows >= 0]] = np.nonzero(rows >= 0)[1]
        order = np.lexsort((run.position, rank, run.ranking))
        out = inp.take(run.order[order]).reset_index(drop=True)
        out[SCORE] = 0.0 - run.position  # not -0.0
        out[RANK] = run.position
        return out


@dataclass(frozen=True)
class GroupedCandidates:
    """The documents of all queries by group; "groups" are the levels among the candidates.

    Attributes:
        share: the share p of each group; shape (n_queries, n_groups).
        rows: the rows of the run, by query, group and position.
        start: the first of a query and group in `rows`; shape (n_queries, n_groups).
        size: their number; same shape.
        position: the position of each row in its ranking, from 0; shape (n_rows,).
        has_target: whether a query has shares; shape (n_queries,).
        other_share: the largest share of a level without candidates; same shape.
    """

    share: FloatArray
    rows: IntArray
    start: IntArray
    size: IntArray
    position: IntArray
    has_target: BoolArray
    other_share: FloatArray

    @classmethod
    def of(cls, run: Run, groups: Groups, p: Mapping[Level, float] | Target) -> GroupedCandidates:
        """Return the candidates of a run.

        A document of several levels counts for the one with the largest weight, or the first of
        these. A document without a row counts for the unknown level, or for no level (-1) if
        the groups do not have one.
        """
        has_unknown = min(groups.space.unknown) >= 0
        member = groups.memberships(run.docnos, "unknown" if has_unknown else "drop")
        order = np.lexsort((member.level, -np.round(member.weight, 12), member.row))
        first = order[np.unique(member.row[order], return_index=True)[1]]
        level_of = np.full(len(run.docnos), -1)
        level_of[member.row[first]] = member.level[first]
        cells, group = np.unique(level_of, return_inverse=True)
        n, group = len(run.qids), group[run.doc]
        share, has_target = np.zeros((n, len(cells))), np.ones(n, dtype=bool)
        other = np.zeros(n)
        if isinstance(p, Target):
            target = p.for_qids(run.qids).expanded().normalized()
            query, level, weight = target.row, target.level, target.weight
            has_target = np.bincount(query, minlength=n) > 0
        else:
            level = np.tile([groups.space.number(one) for one in p], n)
            query, weight = np.repeat(np.arange(n), len(p)), np.tile(list(p.values()), n)
        column = np.searchsorted(cells, level)
        seen = np.append(cells, -2)[column] == level
        share[query[seen], column[seen]] = weight[seen]
        np.maximum.at(other, query[~seen], weight[~seen])
        size = np.zeros(share.shape, dtype=np.int64)
        np.add.at(size, (run.query, group), 1)
        start = (np.cumsum(size.ravel()) - size.ravel()).reshape(size.shape)
        rows = np.lexsort((run.position, group, run.query))
        return cls(share, rows, start, size, run.position, has_target, other)

    def too_few(self, depth: IntArray) -> BoolArray:
        """Return whether a group has fewer candidates than its share of the first ranks."""
        needed = np.floor(depth[:, None] * self.share + _ROUNDING)
        missing = np.floor(depth * self.other_share + _ROUNDING) > 0
        return np.asarray((needed > self.size).any(axis=1) | missing)


class _Greedy(DeterministicSorting):
    """Base of DetGreedy, DetCons and DetRelaxed (Algorithm 1 and 2)."""

    def urgency(self, most: FloatArray, share: FloatArray) -> FloatArray:
        """Return a key of groups below their maximum; the smallest is chosen, ties by score.

        Args:
            most: the maximum ceil(k p) of each group at rank k; shape (n_queries, n_groups).
            share: the share p of each group; same shape.
        """
        return np.zeros_like(share)

    def chosen(self, listed: GroupedCandidates, cutoff: int) -> IntArray:
        """Return the rows of the new rankings, rank by rank."""
        n, share, size = len(listed.share), listed.share, listed.size
        count = np.zeros_like(size)
        result = np.full((n, cutoff), -1)
        every = np.arange(n)
        best = np.append(listed.position[listed.rows].astype(float), np.inf)
        for k in range(1, cutoff + 1):
            least, most = np.floor(k * share + _ROUNDING), np.ceil(k * share - _ROUNDING)
            left = count < size
            below_least, below_most = left & (count < least), left & (count < most)
            must = below_least.any(axis=1, keepdims=True)
            may = below_most.any(axis=1, keepdims=True)
            pool = np.where(must, below_least, np.where(may, below_most, left))
            key = np.where(pool & ~must & may, self.urgency(most, share), 0.0)
            pool &= key <= np.where(pool, key, np.inf).min(axis=1, keepdims=True) + _ROUNDING
            head = np.where(pool, listed.start + count, len(listed.rows))
            group = np.argmin(best[head], axis=1)
            head = head[every, group]
            is_row = head < len(listed.rows)
            result[is_row, k - 1] = listed.rows[head[is_row]]
            count[every[is_row], group[is_row]] += 1
        return result


class DetGreedy(_Greedy):
    """R -> R: DetGreedy, greedy by score within minimum and maximum shares of groups.

    At rank k, each group g should have floor(k p_g) to ceil(k p_g) documents (Geyik et al. 2019,
    Algorithm 1). If groups are below their minimum, the document with the highest score of these
    groups comes next, otherwise that of all groups below their maximum. With four or more groups,
    several can reach their minimum at the same rank, so that not every prefix has it.

    A group without candidates left is ignored; if no group below its maximum has one, the document
    with the highest score of all groups comes next. A `DataWarning` names the queries with fewer
    candidates of a group than its share of the ranks. A document of several groups counts for the
    one with the largest weight. Queries without a target keep their order. Output: the input's
    documents and columns, ``rank``, and ``score`` 0, -1, -2, ...

    Args:
        groups: the groups of the documents.
        p: the desired share of each group: numbers by level with sum 1, or a `Target` with shares
            per query. Documents without a known group are those of the unknown level.
        cutoff: the ranks to fill; the other documents keep their order below. `None` for all.

    Raises:
        InputError: a setting is out of range or does not fit the groups; in `transform`, a column
            is missing, the run is sampled, or rankings are invalid.
    """

    identity_name = "fairtk_baselines.DetGreedy"
    output_version = 1


class DetCons(_Greedy):
    """R -> R: DetCons, conservative: prefer groups whose next minimum is soonest.

    Like `DetGreedy`, but if no group is below its minimum, the next document is from the group
    below its maximum with the smallest ceil(k p_g) / p_g, the rank at which its minimum would be
    violated (Geyik et al. 2019, Algorithm 2); ties by score.

    Args:
        groups: see `DetGreedy`.
        p: see `DetGreedy`.
        cutoff: see `DetGreedy`.

    Raises:
        InputError: see `DetGreedy`.
    """

    identity_name = "fairtk_baselines.DetCons"
    output_version = 1

    def urgency(self, most: FloatArray, share: FloatArray) -> FloatArray:
        """Return ceil(k p) / p."""
        return np.divide(most, share, out=np.full_like(share, np.inf), where=share > 0)


class DetRelaxed(DetCons):
    """R -> R: DetRelaxed, as `DetCons`, but more often by score.

    The rank ceil(k p_g) / p_g of `DetCons` is rounded up, because ranks are integers, so that more
    groups tie and the document with the highest score comes next (Geyik et al. 2019, Algorithm 2).

    Args:
        groups: see `DetGreedy`.
        p: see `DetGreedy`.
        cutoff: see `DetGreedy`.

    Raises:
        InputError: see `DetGreedy`.
    """

    identity_name = "fairtk_baselines.DetRelaxed"
    output_version = 1

    def urgency(self, most: FloatArray, share: FloatArray) -> FloatArray:
        """Return ceil(ceil(k p) / p)."""
        return np.ceil(super().urgency(most, share) - _ROUNDING)


class DetConstSort(DeterministicSorting):
    """R -> R: DetConstSort, interval-constrained sorting by score.

    The j-th document of group g must have at most the rank at which floor(k p_g) reaches j. In the
    order of these ranks (ties by score), documents enter at the end and move up past documents with
    a lower score, as long as none of these falls below its own last rank (Geyik et al. 2019,
    Algorithm 3). So every prefix of k documents has floor(k p_g) documents of each group, if the
    input has enough. Groups without a share come last. Otherwise like `DetGreedy`.

    Args:
        groups: see `DetGreedy`.
        p: see `DetGreedy`.
        cutoff: see `DetGreedy`.
        published: whether documents may fall one rank further, as in the paper's pseudocode, which
            compares ranks from 1 with indices from 0, and in its implementations. Prefixes can then
            have fewer documents of a group than its share.

    Raises:
        InputError: see `DetGreedy`.
    """

    identity_name = "fairtk_baselines.DetConstSort"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = (*DeterministicSorting.SETTINGS, "published")

    def __init__(
        self,
        groups: Groups,
        p: Mapping[Any, float] | Target,
        cutoff: int | None = None,
        published: bool = False,
    ) -> None:
        super().__init__(groups, p, cutoff)
        self.published = checks.boolean("published", published, type(self).__name__)

    def chosen(self, listed: GroupedCandidates, cutoff: int) -> IntArray:
        """Return the rows of the new rankings, query by query."""
        size, lag = listed.size.ravel(), int(self.published)
        cell = np.repeat(np.arange(len(size)), size)
        number = np.arange(len(cell)) - listed.start.ravel()[cell] + 1.0
        share = listed.share.ravel()[cell]
        with np.errstate(divide="ignore"):
            last = np.where(share > 0, np.ceil(number / share - _ROUNDING), np.inf)
        query = cell // max(1, listed.size.shape[1])
        order = np.lexsort((listed.position[listed.rows], last, query))
        rows, last = listed.rows[order], last[order]
        position = listed.position[rows].tolist()
        stops = np.searchsorted(query, np.arange(len(listed.size) + 1)).tolist()
        result = np.full((len(listed.size), cutoff), -1)
        for one, (begin, end) in enumerate(pairwise(stops)):
            ranks = last[begin:end]
            n = int(np.isfinite(ranks).sum())
            if cutoff + lag < n:  # all documents of the rank at which the last place is filled
                n = int(np.searchsorted(ranks, ranks[cutoff + lag - 1], side="right"))
            sorted_ = interval_sorted(position[begin : begin + n], ranks[:n].tolist(), lag)
            row_at = dict(zip(position[begin : begin + n], rows[begin:end].tolist(), strict=False))
            top = [row_at[place] for place in sorted_[:cutoff]]
            result[one, : len(top)] = top
        return result


def interval_sorted(position: list[int], last: list[float], lag: int = 0) -> list[int]:
    """Return the positions of documents in their new order (Algorithm 3).

    Args:
        position: the position of each document in the input, in the order in which they enter.
        last: the last rank of each, not decreasing.
        lag: the number of ranks that a document may fall below its last rank.
    """
    placed: list[int] = []
    last_of = array("d")  # the last rank of each placed document
    ranks = np.arange(1, len(position) + 1) - lag
    fixed: set[int] = set()  # these cannot fall further, so the others are sorted by position
    start = oldest = 0
    for one, its_last in zip(position, last, strict=True):
        at = bisect(placed, one, start)
        placed.insert(at, one)
        last_of.insert(at, its_last)
        while position[oldest] in fixed:
            oldest += 1
        if last[oldest] + lag > len(placed):
            continue  # no document is at its last rank
        end = _end_of_fixed(last_of, at, lag, ranks)
        if end:
            fixed.update(placed[start:end])
            start = end
    return placed


def _end_of_fixed(last_of: array[float], at: int, lag: int, ranks: IntArray) -> int:
    """Return the number of documents up to the lowest one at its last rank, from `at`; 0 if none.

    If a group has no candidates, the others are far from their last ranks, so that many are read.
    """
    if len(last_of) - at > _MANY:
        at_last = np.frombuffer(last_of)[at:] <= ranks[at : len(last_of)]
        lowest = np.flatnonzero(at_last)
        return at + int(lowest[-1]) + 1 if len(lowest) else 0
    for end in range(len(last_of), at, -1):
        if last_of[end - 1] + lag <= end:
            return end
    return 0


def _shares(groups: Groups, p: Any, where: str) -> dict[Level, float]:
    if not isinstance(p, Mapping):
        raise ParameterError(
            f"{where}: p must be shares by level, such as {{'a': 0.4, 'b': 0.6}}, or a Target, got "
            f"{p!r}"
        )
    levels = levels_of(groups, list(p), where, "p")
    shares = {level: checks.share(f"p[{level!r}]", p[level], where) for level in levels}
    if abs((total := math.fsum(shares.values())) - 1.0) > 1e-9:
        raise ParameterError(f"{where}: the shares in p must sum to 1, got {total:g} in {p!r}")
    return shares
