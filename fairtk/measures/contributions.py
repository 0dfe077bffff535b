"""What groups, rank bands and documents add to the cost of a query, and what they are called.

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
from fairtk.exposure import attention, total
from fairtk.frames import GROUP, BoolArray, FloatArray, IntArray
from fairtk.groups import Groups
from fairtk.groups.distances import (
    Distributions,
    LevelSpace,
    SparseRows,
    attention_matrix,
    group_exposure,
    log_base,
)
from fairtk.measures.awrf import AttentionWeightedRankFairness
from fairtk.measures.base import Judged
from fairtk.measures.ee import ExpectedExposureLoss

REST = -1
"""Level of all groups (or documents) together that have a target and are not listed one by one."""
ABSENT = -2
"""Level of the cost of queries that the run lacks."""


@dataclass(frozen=True)
class Contributions:
    """Units, each a query and one of its groups, with exposure and cost in each rank band."""

    query: IntArray  # query of each unit; shape (n_units,)
    level: IntArray  # group of each unit, or `REST` or `ABSENT`; shape (n_units,)
    band_exposure: FloatArray  # exposure of the group in each band; shape (n_units, n_bands)
    target: FloatArray  # exposure that the group should have; shape (n_units,)
    cost: FloatArray  # what the group adds in each band; shape (n_units, n_bands)
    attention: FloatArray  # share of each query's attention by band; (n_queries, n_bands)

    def regrouped(self, query: IntArray, level: IntArray, weight: FloatArray) -> Contributions:
        """Return sums of weighted units that share a new query and level."""
        low = int(level.min(initial=0))
        width = np.int64(int(level.max(initial=0)) - low + 1)
        key, unit = np.unique(query * width + (level - low), return_inverse=True)

        def summed(values: FloatArray) -> FloatArray:
            result = np.zeros((len(key), *values.shape[1:]))
            np.add.at(result, unit, values * (weight[:, None] if values.ndim > 1 else weight))
            return result

        return replace(
            self,
            query=key // width,
            level=key % width + low,
            band_exposure=summed(self.band_exposure),
            target=summed(self.target),
            cost=summed(self.cost),
        )

    def taken(self, units: IntArray, weight: FloatArray) -> Contributions:
        """Return weighted units, some of them several times, e.g. once for each of its groups."""
        return replace(
            self,
            query=self.query[units],
            level=self.level[units],
            band_exposure=self.band_exposure[units] * weight[:, None],
            target=self.target[units] * weight,
            cost=self.cost[units] * weight[:, None],
        )

    def kept(self, queries: BoolArray) -> Contributions:
        """Return the units of some queries; shape of `queries`: (n_queries,)."""
        units = np.flatnonzero(queries[self.query])
        attention = np.where(queries[:, None], self.attention, 0.0)
        return replace(self.taken(units, np.ones(len(units))), attention=attention)

    def with_unshown(self, queries: IntArray, level: int, cost: FloatArray) -> Contributions:
        """Return the units and one more of some queries, for what no ranking shows.

        Its level is `REST` or `ABSENT`; it has a cost in each band, of shape (n, n_bands).
        """
        return replace(
            self,
            query=np.concatenate([self.query, queries]),
            level=np.concatenate([self.level, np.full(len(queries), level, dtype=np.int64)]),
            band_exposure=np.concatenate([self.band_exposure, np.zeros_like(cost)]),
            target=np.concatenate([self.target, np.zeros(len(queries))]),
            cost=np.concatenate([self.cost, cost]),
        )


def costs(
    band_exposure: FloatArray, rate: FloatArray, share: FloatArray, owed: FloatArray
) -> FloatArray:
    """Return what units cost in each band by the formula of this module; shape of `band_exposure`.

    `rate` is g_c, `share` a_b for each unit, and `owed` T_c.
    """
    return band_exposure * rate[:, None] + share * owed[:, None]


def shares(values: FloatArray) -> FloatArray:
    """Return each row divided by its sum; rows of 0 stay so."""
    whole = values.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(values, whole, out=np.zeros_like(values), where=whole > 0))


def by_band(row: IntArray, band: IntArray, weight: FloatArray, n_rows: int, n: int) -> FloatArray:
    """Return sums of weights by row and band; shape (n_rows, n)."""
    return total(row * n + band, weight, n_rows * n).reshape(n_rows, n)


MOST_LISTED = 5000
"""Spaces of more groups have those that are not shown in one row."""


@dataclass(frozen=True)
class Sides:
    """Exposure and target of each row's groups."""

    row: IntArray  # row of each unit, a query or a ranking; shape (n_units,)
    level: IntArray  # group of each unit, or `REST`; shape (n_units,)
    band_exposure: FloatArray  # exposure in each rank band; shape (n_units, n_bands)
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
    exposure = group_exposure(in_bands, memberships)
    row, band = np.divmod(exposure.row, n_bands)
    units = SparseRows.collect(
        row, exposure.level, exposure.weight, target.n_rows, memberships.n_levels
    )
    listed = memberships.n_levels <= MOST_LISTED
    if listed:
        units = SparseRows(units.matrix + target.expanded().matrix)
    place = units.weighted(np.arange(1.0, len(units.weight) + 1)).lookup(row, exposure.level)
    band_exposure = np.zeros((len(units.weight), n_bands))
    band_exposure[place.astype(np.int64) - 1, band] = exposure.weight
    rows, level = units.row, units.level
    mass = target.lookup(rows, level)
    square = np.zeros(len(mass))
    if not listed:
        seen = units.weighted(mass)
        rest = np.maximum(target.total() - seen.total(), 0.0)
        more = np.flatnonzero(rest > 0)
        rows = np.concatenate([rows, more])
        level = np.concatenate([level, np.full(len(more), REST)])
        band_exposure = np.concatenate([band_exposure, np.zeros((len(more), n_bands))])
        mass = np.concatenate([mass, rest[more]])
        rest_square = np.maximum(target.square() - seen.square(), 0.0)
        square = np.concatenate([square, rest_square[more]])
    return Sides(rows, level, band_exposure, mass, square)


LABELS = ("useful", "not useful", "not judged")
"""The groups of documents by label, where no others are given."""
NOT_SHOWN = "(groups not shown)"
UNSEEN = "(neither judged nor retrieved)"
NOT_IN_RUN = "(query not in the run)"
NO_GROUP = "(no group)"


@dataclass(frozen=True)
class Names:
    """The names of levels: attributes and levels, and the name of what is not listed one by one."""

    space: LevelSpace
    rest: str

    @classmethod
    def of(cls, measure: Any, groups: Groups | None) -> Names:
        """Return the names that belong to a measure."""
        own = measure["groups"]
        if own is not None:
            return cls(own.space, NOT_SHOWN)
        if groups is not None:
            return cls(groups.space, UNSEEN)
        return cls(LevelSpace(("label",), (LABELS,), (-1,)), UNSEEN)

    @property
    def columns(self) -> list[str]:
        """The columns that name a group: ``group``, or one for each crossed attribute."""
        return list(self.space.names) if self.space.crossed else [GROUP]

    def frame(self, level: IntArray) -> pd.DataFrame:
        """Return the names of levels, in `columns`."""
        special = {REST: self.rest, ABSENT: NOT_IN_RUN, self.space.size: NO_GROUP}
        plain = (level >= 0) & (level < self.space.size)
        frame = pd.DataFrame(self.space.columns(np.where(plain, level, 0)))
        for number, text in special.items():
            frame[level == number] = text
        return frame

    def level(self, level: IntArray, place: int) -> IntArray:
        """Return the level of one attribute of levels; special ones stay as they are."""
        plain = (level >= 0) & (level < self.space.size)
        codes = self.space.codes(np.where(plain, level, 0), place)
        special = np.where(level == self.space.size, self.space.shape[place], level)
        return np.where(plain, codes, special)

    def part(self, place: int) -> Names:
        """Return the names of one of the crossed attributes."""
        return Names(self.space.part((place,)), self.rest)


def joined(names: pd.DataFrame) -> list[str]:
    """Return the names of groups as one string each: ``female x Eastern Asia``."""
    rows = names.to_numpy(dtype=object).tolist()
    # what is no group has the same text in each column
    return [" x ".join(dict.fromkeys(row) if row[0].startswith("(") else row) for row in rows]


_LAST = (5, 10, 20, 50, 100, 200, 500, 1000)
_ALONE = 10
OUTSIDE = "(not in the run)"
"""The band of what no rank can be held responsible for."""


@dataclass(frozen=True)
class Bands:
    """Consecutive bands of ranks, by their last ranks, and one more for what belongs to no rank."""

    last: tuple[int, ...]

    @classmethod
    def make(cls, last: Sequence[int] | None, depth: int) -> Bands:
        """Return the bands that were asked for, or sensible ones; the last ends at the depth.

        Without last ranks: each rank alone down to 10 ranks, otherwise bands that end at 5, 10, 20,
        50, 100, 200, 500 and 1000. Last ranks that do not increase from 1 or above are a
        `ParameterError`.
        """
        depth = max(depth, 1)
        if last is None:
            last = range(1, depth + 1) if depth <= _ALONE else _LAST
        ends = list(last)
        if not ends or any(
            isinstance(end, bool) or not isinstance(end, int | np.integer) or end <= before
            for before, end in zip([0, *ends], ends, strict=False)
        ):
            raise ParameterError(
                f"explain: bands must be increasing last ranks, e.g. [5, 10, 20]; found {last!r}"
            )
        return cls((*(int(end) for end in ends if end < depth), depth))

    def __len__(self) -> int:
        return len(self.last) + 1

    @property
    def outside(self) -> int:
        """The number of the band of what belongs to no rank."""
        return len(self.last)

    def of(self, position: IntArray) -> IntArray:
        """Return the band of 0-based ranks; shape of `position`."""
        return np.minimum(np.searchsorted(self.last, position + 1), len(self.last) - 1)

    @property
    def names(self) -> list[str]:
        """The bands in words: ``"1-5"``, ``"6-10"``, and the one of no rank."""
        first = [1, *(end + 1 for end in self.last)]
        spans = zip(first, self.last, strict=False)
        return [*(f"{a}-{b}" if a < b else str(a) for a, b in spans), OUTSIDE]


def awrf_contributions(
    measure: AttentionWeightedRankFairness, judged: Judged, bands: Bands
) -> Contributions:
    """Return what each group adds to 1 - AWRF, the Jensen-Shannon divergence.

    With m the mean of exposure share p and target share q, group c costs
    p_c log(p_c / m_c) / 2 + q_c log(q_c / m_c) / 2, which is 0 where p_c = q_c and positive
    elsewhere. The first term goes to the ranks that show the group, the second to all ranks in
    proportion to their attention.
    """
    groups, ranked = measure.groups, judged.run
    weight = measure.attention_of(judged)
    row, n_rows = ranked.ranking, ranked.n_rankings
    row_query = judged.ranking_query
    if measure["amortize"]:
        row, n_rows = ranked.query, len(ranked.qids)
        row_query = judged.query_of_run
        weight = weight / ranked.n_samples[row]
    seen = np.flatnonzero(weight)
    row, doc, weight = row[seen], ranked.doc[seen], weight[seen]
    band = bands.of(ranked.position[seen])
    memberships = groups.memberships(ranked.docnos, measure["unlabeled"])
    target = measure.target_for(groups).for_qids(judged.qids[row_query])
    units = sides(row, band, doc, weight, memberships, target, len(bands))

    whole = memberships.total()[doc]
    attention = shares(by_band(row, band, weight * whole, n_rows, len(bands)))
    system_total = total(units.row, units.band_exposure.sum(axis=1), n_rows)
    target_total = target.total()
    defined = (system_total > 0) & (target_total > 0)
    rows = defined[units.row]
    unit_row, level = units.row[rows], units.level[rows]
    band_exposure = units.band_exposure[rows] / system_total[unit_row, None]
    mass = units.target[rows] / target_total[unit_row]

    p = band_exposure.sum(axis=1)
    off = (p - mass) / (p + mass)
    unit = 0.5 / log_base(measure["base"])
    rate = unit * np.log1p(off, out=np.zeros_like(off), where=off > -1)
    owed = unit * mass * np.log1p(-off, out=np.zeros_like(off), where=off < 1)
    cost = costs(band_exposure, rate, attention[unit_row], owed)
    parts = Contributions(unit_row, level, band_exposure, mass, cost, attention)

    n_queries = len(judged.qids)
    count = np.bincount(row_query, minlength=n_queries)
    query = row_query[unit_row]
    mean = parts.regrouped(query, level, 1.0 / count[query])
    by_query = np.zeros((n_queries, len(bands)))
    np.add.at(by_query, row_query, attention / count[row_query, None])
    return replace(mean, attention=by_query)


def loss_contributions(
    measure: ExpectedExposureLoss, judged: Judged, bands: Bands, groups: Groups | None
) -> Contributions:
    """Return what each group adds to EE-L, the squared distance of exposure and target.

    Group (or document) c costs (s_c - t_c)^2 = (s_c - t_c) (sum over ranks of s_kc - a_k t_c): each
    rank has to answer for what it shows, and for its share of attention's worth of the target. In
    the form by documents their costs are summed for `groups`; None: for `LABELS`.
    """
    ranked = judged.run
    grade = measure.form.grades(judged.pair_label)
    useful = (grade > 0)[judged.pair_of_row]
    weight = attention(ranked, measure["browsing"], measure["cutoff"], useful)
    weight = weight / ranked.n_samples[ranked.query]
    seen = np.flatnonzero(weight)
    pair, weight, band = judged.pair_of_row[seen], weight[seen], bands.of(ranked.position[seen])
    n_queries = len(judged.qids)
    per_band = shares(by_band(judged.pair_query[pair], band, weight, n_queries, len(bands)))
    if measure["groups"] is None:
        band_exposure = by_band(pair, band, weight, judged.n_pairs, len(bands))
        return _of_documents(measure, judged, band_exposure, grade, per_band, groups)
    form: Any = measure.form
    if form.useful_only:
        counted = grade[pair] > 0
        pair, band, weight = pair[counted], band[counted], weight[counted]
    memberships = form.groups.memberships(judged.docnos, "drop")
    target = form.target.for_qids(judged.qids)
    units = sides(
        judged.pair_query[pair],
        band,
        judged.pair_doc[pair],
        weight,
        memberships,
        target,
        len(bands),
    )
    mass = form.scale * units.target
    over = units.band_exposure.sum(axis=1) - mass
    # groups that are not listed are not shown: each of them costs its squared target
    owed = np.where(units.level == REST, form.scale**2 * units.rest_square, -over * mass)
    cost = costs(units.band_exposure, over, per_band[units.row], owed)
    return Contributions(units.row, units.level, units.band_exposure, mass, cost, per_band)


def _of_documents(
    measure: Any,
    judged: Judged,
    band_exposure: FloatArray,
    grade: FloatArray,
    per_band: FloatArray,
    groups: Groups | None,
) -> Contributions:
    mass = measure.form.targets(judged)
    over = band_exposure.sum(axis=1) - mass
    level = np.where(np.isnan(grade), 2, np.where(grade > 0, 0, 1))  # as in LABELS
    cost = costs(band_exposure, over, per_band[judged.pair_query], -over * mass)
    parts = Contributions(judged.pair_query, level, band_exposure, mass, cost, per_band)
    if groups is not None:
        memberships = groups.memberships(judged.docnos, "drop")
        own = memberships.take(judged.pair_doc).normalized()
        without = np.flatnonzero(own.size == 0)
        level = np.concatenate([own.level, np.full(len(without), groups.space.size)])
        units = np.concatenate([own.row, without])
        parts = parts.taken(units, np.concatenate([own.weight, np.ones(len(without))]))
    parts = parts.regrouped(parts.query, level, np.ones(len(level)))
    return _normalized(measure, judged, _with_unseen(measure, judged, parts))


def _with_unseen(measure: Any, judged: Judged, parts: Contributions) -> Contributions:
    """Add the documents that are neither judged nor retrieved, of which only n is known."""
    raw = _raw(measure, judged)
    n_queries = len(judged.qids)
    explained = np.bincount(parts.query, weights=parts.cost.sum(axis=1), minlength=n_queries)
    rest = np.where(judged.present & (raw > explained * (1 + 1e-9) + 1e-12), raw - explained, 0.0)
    more = np.flatnonzero(rest > 0)
    return parts.with_unshown(more, REST, rest[more, None] * parts.attention[more])


def _normalized(measure: Any, judged: Judged, parts: Contributions) -> Contributions:
    """Scale each query's parts so that they add up to the normalized value."""
    if not measure["normalize"]:
        return parts
    raw, value = _raw(measure, judged), measure.score_all(judged)
    factor = np.divide(value, raw, out=np.zeros_like(raw), where=raw > 0)[parts.query]
    return replace(parts, cost=parts.cost * factor[:, None])


def _raw(measure: Any, judged: Judged) -> FloatArray:
    plain = type(measure)(**{**measure.params, "normalize": False})
    result: FloatArray = plain.score_all(judged)
    return result
