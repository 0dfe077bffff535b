"""What each query's groups and bands of ranks add to its cost.

The cost of a group c that gets exposure s_c and should get t_c is split over rank bands b as

    cost(b, c) = s_bc g_c + a_b T_c

where s_bc is the exposure that c gets in b (s_c in all), a_b the share of the query's attention
that b has, g_c what one unit of exposure of c costs, and T_c what its target costs whatever is
shown. For the Jensen-Shannon divergence g_c and T_c / t_c are its derivatives: it is homogeneous of
degree 1 in both arguments, so that Euler's theorem makes the parts add up to the whole. For squared
distances g_c = s_c - t_c and T_c = -(s_c - t_c) t_c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError
from fairtk.exposure import total
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.groups import Groups
from fairtk.groups.distances import (
    Distributions,
    SparseRows,
    attention_matrix,
    group_exposure,
    log_base,
)
from fairtk.measures.awrf import AttentionWeightedRankFairness
from fairtk.measures.ee import ExpectedExposureLoss
from fairtk.measures.ee_variants import target_scale
from fairtk.measures.labeled_run import LabeledRun

REST = -1
"""Level of all groups (or documents) together that have a target and are not listed one by one."""
ABSENT = -2
"""Level of the cost of queries that the run lacks."""


@dataclass(frozen=True)
class Parts:
    """Exposure, target and cost of the groups of queries."""

    shares: pd.DataFrame  # query, level, band, exposure, cost; none where both are 0
    targets: pd.DataFrame  # query, level, target: the exposure that the group should have
    attention: FloatArray  # share of each query's attention by band; shape (n_queries, n_bands)

    @classmethod
    def of(
        cls,
        query: IntArray,
        level: IntArray,
        exposure: FloatArray,
        cost: FloatArray,
        target: FloatArray,
        attention: FloatArray,
    ) -> Parts:
        """Return the sums of units that have the same query and level.

        Arrays have the shape (n_units,); `exposure` and `cost` (n_units, n_bands).
        """
        unit, band = np.nonzero((cost != 0) | (exposure != 0))
        shares = pd.DataFrame(
            {
                "query": query[unit],
                "level": level[unit],
                "band": band,
                "exposure": exposure[unit, band],
                "cost": cost[unit, band],
            }
        )
        targets = pd.DataFrame({"query": query, "level": level, "target": target})
        return cls(
            shares.groupby(["query", "level", "band"], as_index=False).sum(),
            targets.groupby(["query", "level"], as_index=False).sum(),
            attention,
        )

    def only(self, queries: BoolArray) -> Parts:
        """Return the parts of some queries; shape of `queries`: (n_queries,)."""
        return Parts(
            self.shares[queries[self.shares["query"]]],
            self.targets[queries[self.targets["query"]]],
            np.where(queries[:, None], self.attention, 0.0),
        )

    def with_unshown(self, queries: IntArray, level: int, cost: FloatArray) -> Parts:
        """Return the parts and the costs of what no ranking shows; shape (n, n_bands)."""
        levels, zero = np.full(len(queries), level), np.zeros(len(queries))
        more = Parts.of(queries, levels, np.zeros_like(cost), cost, zero, self.attention)
        return Parts(
            pd.concat([self.shares, more.shares]),
            pd.concat([self.targets, more.targets]),
            self.attention,
        )


def rank_bands(last: Sequence[int] | None, depth: int) -> tuple[int, ...]:
    """Return the last ranks of bands, the deepest at `depth`.

    By default each rank is a band down to 10 ranks; otherwise bands end at 5, 10, 20, 50, 100, 200,
    500 and 1000.

    Raises:
        ParameterError: the last ranks do not increase from 1 or above.
    """
    depth = max(depth, 1)
    if last is None:
        last = range(1, depth + 1) if depth <= 10 else (5, 10, 20, 50, 100, 200, 500, 1000)
    ends = list(last)
    if not ends or any(
        isinstance(end, bool) or not isinstance(end, int | np.integer) or end <= before
        for before, end in zip([0, *ends], ends, strict=False)
    ):
        raise ParameterError(
            f"explain: bands must be increasing last ranks, e.g. [5, 10, 20]; found {last!r}"
        )
    return (*(int(end) for end in ends if end < depth), depth)


def band_of(position: IntArray, ends: tuple[int, ...]) -> IntArray:
    """Return the band of 0-based ranks; one more band, the last, belongs to no rank."""
    return np.minimum(np.searchsorted(ends, position + 1), len(ends) - 1)


def by_band(row: IntArray, band: IntArray, weight: FloatArray, n_rows: int, n: int) -> FloatArray:
    """Return sums of weights by row and band; shape (n_rows, n)."""
    return total(row * n + band, weight, n_rows * n).reshape(n_rows, n)


def shares(values: FloatArray) -> FloatArray:
    """Return each row divided by its sum; rows of 0 stay so."""
    whole = values.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(values, whole, out=np.zeros_like(values), where=whole > 0))


MOST_LISTED = 5000
"""Spaces of more groups have those that are not shown in one row."""


@dataclass(frozen=True)
class Sides:
    """Exposure and target of each row's groups."""

    row: IntArray  # row of each unit, a query or a ranking; shape (n_units,)
    level: IntArray  # group of each unit, or `REST`; shape (n_units,)
    exposure: FloatArray  # exposure in each rank band; shape (n_units, n_bands)
    target: FloatArray  # weight of the target, as it is stored; shape (n_units,)
    rest_square: FloatArray  # summed squared targets of the levels that `REST` stands for


def sides(
    row: IntArray,
    band: IntArray,
    doc: IntArray,
    weight: FloatArray,
    memberships: SparseRows,
    target: Distributions,
    n_bands: int,
) -> Sides:
    """Return the groups of rows with their exposure and target.

    Items are what is shown to the user: each has a row, a rank band, a document (an index into the
    memberships) and its attention, above 0. The target has one distribution for each row.
    """
    in_bands = attention_matrix(
        row * n_bands + band, doc, weight, (target.n_rows * n_bands, memberships.n_rows)
    )
    shown = group_exposure(in_bands, memberships)
    row, band = np.divmod(shown.row, n_bands)
    units = SparseRows.collect(row, shown.level, shown.weight, target.n_rows, memberships.n_levels)
    listed = memberships.n_levels <= MOST_LISTED
    if listed:
        units = SparseRows(units.matrix + target.expanded().matrix)
    unit = units.weighted(np.arange(1.0, len(units.weight) + 1)).lookup(row, shown.level)
    exposure = np.zeros((len(units.weight), n_bands))
    exposure[unit.astype(np.int64) - 1, band] = shown.weight
    mass = target.lookup(units.row, units.level)
    if listed:
        return Sides(units.row, units.level, exposure, mass, np.zeros(len(mass)))
    seen = units.weighted(mass)
    rest = np.maximum(target.total() - seen.total(), 0.0)
    rest_square = np.maximum(target.square() - seen.square(), 0.0)
    more = np.flatnonzero(rest > 0)
    return Sides(
        np.concatenate([units.row, more]),
        np.concatenate([units.level, np.full(len(more), REST)]),
        np.concatenate([exposure, np.zeros((len(more), n_bands))]),
        np.concatenate([mass, rest[more]]),
        np.concatenate([np.zeros(len(mass)), rest_square[more]]),
    )


def awrf_parts(
    measure: AttentionWeightedRankFairness, judged: LabeledRun, ends: tuple[int, ...]
) -> Parts:
    """Return what each group adds to 1 - AWRF, the Jensen-Shannon divergence.

    With m the mean of exposure share p and target share q, group c costs
    p_c log(p_c / m_c) / 2 + q_c log(q_c / m_c) / 2, which is 0 where p_c = q_c and positive
    elsewhere. The first term goes to the ranks that show the group, the second to all ranks in
    proportion to their attention.
    """
    groups, ranked, n_bands = measure.groups, judged.run, len(ends) + 1
    weight = measure.attention_of(judged)
    row, row_query = ranked.ranking, judged.ranking_query
    if measure["amortize"]:
        row, row_query = ranked.query, judged.query_of_run
        weight = weight / ranked.n_samples[row]
    n_rows = len(row_query)
    seen = np.flatnonzero(weight)
    row, doc, weight = row[seen], ranked.doc[seen], weight[seen]
    band = band_of(ranked.position[seen], ends)
    memberships = groups.memberships(ranked.docnos, measure["unlabeled"])
    target = measure.target_for(groups).for_qids(judged.qids[row_query])
    units = sides(row, band, doc, weight, memberships, target, n_bands)

    whole = memberships.total()[doc]
    attention = shares(by_band(row, band, weight * whole, n_rows, n_bands))
    system_total = total(units.row, units.exposure.sum(axis=1), n_rows)
    target_total = target.total()
    defined = ((system_total > 0) & (target_total > 0))[units.row]
    unit_row, level = units.row[defined], units.level[defined]
    exposure = units.exposure[defined] / system_total[unit_row, None]
    mass = units.target[defined] / target_total[unit_row]

    p = exposure.sum(axis=1)
    off = (p - mass) / (p + mass)
    unit = 0.5 / log_base(measure["base"])
    rate = unit * np.log1p(off, out=np.zeros_like(off), where=off > -1)
    owed = unit * mass * np.log1p(-off, out=np.zeros_like(off), where=off < 1)
    cost = exposure * rate[:, None] + attention[unit_row] * owed[:, None]

    part = 1.0 / np.bincount(row_query, minlength=len(judged.qids))[row_query]  # of a query's mean
    by_query = np.zeros((len(judged.qids), n_bands))
    np.add.at(by_query, row_query, attention * part[:, None])
    part = part[unit_row]
    query = row_query[unit_row]
    return Parts.of(
        query, level, exposure * part[:, None], cost * part[:, None], mass * part, by_query
    )


def loss_parts(
    measure: ExpectedExposureLoss,
    judged: LabeledRun,
    ends: tuple[int, ...],
    groups: Groups | None,
) -> Parts:
    """Return what each group adds to EE-L, the squared distance of exposure and target.

    Group (or document) c costs (s_c - t_c)^2 = (s_c - t_c) (sum over ranks of s_kc - a_k t_c): each
    rank has to answer for what it shows, and for its share of attention's worth of the target. In
    the form by documents their costs are summed for `groups`, or by label: useful, not useful, not
    judged.
    """
    ranked, n_bands = judged.run, len(ends) + 1
    grade = measure.grades(judged.pair_label)
    weight = measure.attention(judged) / ranked.n_samples[ranked.query]
    seen = np.flatnonzero(weight)
    pair, weight = judged.pair_of_row[seen], weight[seen]
    band = band_of(ranked.position[seen], ends)
    query = judged.pair_query[pair]
    per_band = shares(by_band(query, band, weight, len(judged.qids), n_bands))
    if measure["groups"] is None:
        exposure = by_band(pair, band, weight, judged.n_pairs, n_bands)
        return _by_document(measure, judged, exposure, grade, per_band, groups)
    if measure["useful_only"]:
        counted = grade[pair] > 0
        pair, band, weight, query = pair[counted], band[counted], weight[counted], query[counted]
    memberships = measure["groups"].memberships(judged.docnos, "drop")
    target = measure.target.for_qids(judged.qids)
    units = sides(query, band, judged.pair_doc[pair], weight, memberships, target, n_bands)
    scale = target_scale(measure)
    mass = scale * units.target
    over = units.exposure.sum(axis=1) - mass
    # groups that are not listed are not shown: each of them costs its squared target
    owed = np.where(units.level == REST, scale**2 * units.rest_square, -over * mass)
    cost = units.exposure * over[:, None] + per_band[units.row] * owed[:, None]
    return Parts.of(units.row, units.level, units.exposure, cost, mass, per_band)


def _by_document(
    measure: Any,
    judged: LabeledRun,
    exposure: FloatArray,
    grade: FloatArray,
    per_band: FloatArray,
    groups: Groups | None,
) -> Parts:
    query, mass = judged.pair_query, measure.targets(judged)
    over = exposure.sum(axis=1) - mass
    cost = exposure * over[:, None] + per_band[query] * (-over * mass)[:, None]
    level = np.where(np.isnan(grade), 2, np.where(grade > 0, 0, 1))
    if groups is not None:  # a document is shared out among its groups
        own = groups.memberships(judged.docnos, "drop").take(judged.pair_doc).normalized()
        without = np.flatnonzero(own.size == 0)
        level = np.concatenate([own.level, np.full(len(without), groups.space.size)])
        pair = np.concatenate([own.row, without])
        part = np.concatenate([own.weight, np.ones(len(without))])
        query, mass = query[pair], mass[pair] * part
        exposure, cost = exposure[pair] * part[:, None], cost[pair] * part[:, None]
    parts = Parts.of(query, level, exposure, cost, mass, per_band)
    # documents that are neither judged nor retrieved: only their number is known
    n_queries = len(judged.qids)
    raw: FloatArray = measure(normalize=False).score_all(judged)
    explained = total(query, cost.sum(axis=1), n_queries)
    rest = np.where(judged.present & (raw > explained * (1 + 1e-9) + 1e-12), raw - explained, 0.0)
    more = np.flatnonzero(rest > 0)
    parts = parts.with_unshown(more, REST, rest[more, None] * per_band[more])
    if not measure["normalize"]:
        return parts
    # the parts of each query add up to its normalized value
    value = measure.score_all(judged)
    factor = np.divide(value, raw, out=np.zeros_like(raw), where=raw > 0)
    scaled = parts.shares["cost"] * factor[parts.shares["query"]]
    return replace(parts, shares=parts.shares.assign(cost=scaled))
