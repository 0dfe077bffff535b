"""The parts of each query's cost, by group and band of ranks.

The cost of a group c with exposure s_c and target t_c is split over rank bands b:

    cost(b, c) = s_bc g_c + a_b T_c

Here s_bc is the exposure of c in b, a_b the share of the query's attention on b, g_c the cost per
unit of exposure of c, and T_c the cost of its target. For the Jensen-Shannon divergence, g_c and
T_c / t_c are its derivatives; it is homogeneous of degree 1 in both arguments, so the parts sum to
the total (Euler's theorem). For squared distances, g_c = s_c - t_c and T_c = -(s_c - t_c) t_c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import FloatArray, IntArray, ObjectArray
from fairtk.groups import Groups, Target
from fairtk.groups.divergences import log_base
from fairtk.groups.exposure import attention_matrix, group_exposure
from fairtk.groups.rows import SparseRows
from fairtk.measures.awrf import AttentionWeightedRankFairness
from fairtk.measures.ee import ExposureOfDocuments
from fairtk.measures.expected_exposure import ExpectedExposure
from fairtk.measures.group_ee import GroupExpectedExposureLoss
from fairtk.measures.labeled_run import LabeledRun
from fairtk.wording import short

REST = -1
"""The level of all groups (or documents) with a target that are not listed."""
ABSENT = -2
"""The level of the cost of queries missing from the run."""


Parts = tuple[pd.DataFrame, FloatArray]
"""A frame with one row per query, group and band, and the share of each query's attention by band,
of shape (n_queries, n_bands).

The columns are ``query``, ``level``, ``band``, ``exposure``, ``target`` (divided among the bands in
proportion to their attention) and ``cost``.
"""


def make_parts(
    query: IntArray,
    level: IntArray,
    exposure: FloatArray,
    target: FloatArray,
    cost: FloatArray,
    attention: FloatArray,
) -> Parts:
    """Return the parts of units, of which several may have the same query and level.

    Arrays have shape (n_units,); `exposure` and `cost` have shape (n_units, n_bands).
    """
    in_bands = target[:, None] * attention[query]
    has_parts = (exposure != 0) | (cost != 0) | (in_bands != 0)
    has_parts[:, 0] = True  # a group without exposure and target has a row
    unit, band = np.nonzero(has_parts)
    columns = {
        "query": query[unit],
        "level": level[unit],
        "band": band,
        "exposure": exposure[has_parts],
        "target": in_bands[has_parts],
        "cost": cost[has_parts],
    }
    return pd.DataFrame(columns), attention


def rank_bands(last: Sequence[int] | None, depth: int) -> tuple[int, ...]:
    """Return the last rank of each band, up to `depth`.

    By default, each of up to 10 ranks is a band; bands of deeper rankings end at 5, 10, 20, 50,
    100, 200, 500 and 1000.

    Raises:
        ParameterError: the last ranks do not increase from 1 or above.
    """
    depth = max(depth, 1)
    if last is None:
        last = range(1, depth + 1) if depth <= 10 else (5, 10, 20, 50, 100, 200, 500, 1000)
    ends = checks.listed("bands", last, "explain")
    if not ends or any(
        isinstance(end, bool) or not isinstance(end, int | np.integer) or end <= before
        for before, end in zip([0, *ends], ends, strict=False)
    ):
        raise ParameterError(
            f"explain: bands must be increasing last ranks, e.g. [5, 10, 20], got {short(last)}"
        )
    return (*(int(end) for end in ends if end < depth), depth)


def band_of(position: IntArray, ends: tuple[int, ...]) -> IntArray:
    """Return the band of 0-based ranks; the last band belongs to no rank."""
    return np.minimum(np.searchsorted(ends, position + 1), len(ends) - 1)


def by_band(row: IntArray, band: IntArray, weight: FloatArray, n_rows: int, n: int) -> FloatArray:
    """Return sums of weights by row and band; shape (n_rows, n)."""
    return sum_by_index(row * n + band, weight, n_rows * n).reshape(n_rows, n)


def exposure_of_rows(measure: Any, judged: LabeledRun) -> FloatArray:
    """Return each sorted row's part of the mean exposure, or credit, of its query; (n_rows,)."""
    weight: FloatArray = measure.attention(judged)
    return weight / judged.run.n_samples[judged.run.query]


MOST_LISTED = 5000
"""With more groups than this, groups without exposure share one row."""


def sides(
    row: IntArray,
    band: IntArray,
    doc: IntArray,
    weight: FloatArray,
    memberships: SparseRows,
    target: Target,
    qids: ObjectArray,
    n_bands: int,
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return the groups of rows (queries or rankings) with their exposure and target.

    The first four arrays have one entry per item: its row, rank band, document (an index into the
    memberships) and attention above 0. `qids` has the query of each row.

    Returns:
        The row, group (or `REST`), exposure by band, and target weight of each unit; shape
        (n_units,), for exposure (n_units, n_bands).
    """
    in_bands = attention_matrix(
        row * n_bands + band, doc, weight, (len(qids) * n_bands, memberships.n_rows)
    )
    exposures = group_exposure(in_bands, memberships)
    exposures = target.drop_unknown(exposures, np.repeat(qids, n_bands))
    masses = target.for_qids(qids)
    row, band = np.divmod(exposures.row, n_bands)
    entries = pd.Series(exposures.weight, [row, exposures.level, band], dtype=np.float64)
    by_band = entries.unstack(fill_value=0.0)
    units, listed = by_band.index, memberships.n_levels <= MOST_LISTED
    if listed:
        weights = masses.expanded()
        units = units.union(pd.MultiIndex.from_arrays([weights.row, weights.level]))
    exposure = by_band.reindex(index=units, columns=range(n_bands), fill_value=0.0).to_numpy()
    row, level = (units.get_level_values(i).to_numpy() for i in (0, 1))
    mass = masses.lookup(row, level)
    if listed:
        return row, level, exposure, mass
    rest = np.maximum(masses.total() - sum_by_index(row, mass, masses.n_rows), 0.0)
    more = np.flatnonzero(rest > 0)
    return (
        np.append(row, more),
        np.append(level, np.full(len(more), REST)),
        np.vstack([exposure, np.zeros((len(more), n_bands))]),
        np.append(mass, rest[more]),
    )


def awrf_parts(
    measure: AttentionWeightedRankFairness, judged: LabeledRun, ends: tuple[int, ...]
) -> Parts:
    """Return the parts of 1 - AWRF, the Jensen-Shannon divergence.

    With m the mean of exposure share p and target share q, the cost of group c is
    p_c log(p_c / m_c) / 2 + q_c log(q_c / m_c) / 2: at least 0, and 0 if p_c = q_c. The first term
    is that of the ranks that show the group; the second is divided among all ranks in proportion to
    their attention.
    """
    groups, ranked, n_bands = measure.groups, judged.run, len(ends) + 1
    row, row_query = ranked.ranking, judged.ranking_query
    if measure.is_amortized:
        row, row_query = ranked.query, judged.query_of_run
    weight = exposure_of_rows(measure, judged)
    seen = np.flatnonzero(weight)
    target, qids = measure.target_for(groups), judged.qids[row_query]
    row, level, exposure, mass = sides(
        row[seen],
        band_of(ranked.position[seen], ends),
        ranked.doc[seen],
        weight[seen],
        groups.memberships(ranked.docnos, measure["unlabeled"]),
        target,
        qids,
        n_bands,
    )
    exposure_total = sum_by_index(row, exposure.sum(axis=1), len(row_query))
    target_total = target.for_qids(qids).total()
    defined = ((exposure_total > 0) & (target_total > 0))[row]
    row, level = row[defined], level[defined]
    exposure = exposure[defined] / exposure_total[row, None]
    mass = mass[defined] / target_total[row]
    attention = np.zeros((len(row_query), n_bands))
    np.add.at(attention, row, exposure)

    p = exposure.sum(axis=1)
    off = (p - mass) / (p + mass)
    unit = 0.5 / log_base(measure["base"])
    rate = unit * np.log1p(off, out=np.zeros_like(off), where=off > -1)
    owed = unit * mass * np.log1p(-off, out=np.zeros_like(off), where=off < 1)
    cost = exposure * rate[:, None] + attention[row] * owed[:, None]

    part = 1.0 / np.bincount(row_query, minlength=len(judged.qids))[row_query]  # weight in the mean
    by_query = np.zeros((len(judged.qids), n_bands))
    np.add.at(by_query, row_query, attention * part[:, None])
    part = part[row]
    exposure, cost = exposure * part[:, None], cost * part[:, None]
    return make_parts(row_query[row], level, exposure, mass * part, cost, by_query)


def group_loss_parts(
    measure: GroupExpectedExposureLoss, judged: LabeledRun, ends: tuple[int, ...]
) -> Parts:
    """Return the parts of GroupEE_L, the squared distance of exposure and target.

    The cost of group c is (s_c - t_c)^2 = (s_c - t_c) (sum over ranks of s_kc - a_k t_c), so each
    rank has its own exposure and a share of the target.
    """
    pair, band, weight, per_band = _shown(measure, judged, ends)
    if measure["useful_only"]:
        counted = measure.grades(judged.pair_label)[pair] > 0
        pair, band, weight = pair[counted], band[counted], weight[counted]
    by_query: Any = measure.target
    target = by_query.for_qids(judged.qids)
    query, level, exposure, mass = sides(
        judged.pair_query[pair],
        band,
        judged.pair_doc[pair],
        weight,
        measure.groups.memberships(judged.docnos, "drop"),
        by_query,
        judged.qids,
        len(ends) + 1,
    )
    # groups that are not listed have no exposure, so their cost is the squared target
    listed = level != REST
    square = target.square() - sum_by_index(query[listed], mass[listed] ** 2, len(judged.qids))
    scale = measure.target_scale
    square = scale**2 * np.maximum(square, 0.0)[query]
    mass = scale * mass
    over = exposure.sum(axis=1) - mass
    owed = np.where(listed, -over * mass, square)
    cost = exposure * over[:, None] + per_band[query] * owed[:, None]
    return make_parts(query, level, exposure, mass, cost, per_band)


def _shown(
    measure: ExpectedExposure, judged: LabeledRun, ends: tuple[int, ...]
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Return pair, band and exposure of each row with attention, and each query's attention.

    The attention is the share of each band; shape (n_queries, n_bands).
    """
    n_bands = len(ends) + 1
    weight = exposure_of_rows(measure, judged)
    seen = np.flatnonzero(weight)
    pair, weight = judged.pair_of_row[seen], weight[seen]
    band = band_of(judged.run.position[seen], ends)
    per_band = by_band(judged.pair_query[pair], band, weight, len(judged.qids), n_bands)
    sums = per_band.sum(axis=1, keepdims=True)
    share = np.divide(per_band, sums, out=np.zeros_like(per_band), where=sums > 0)
    return pair, band, weight, share


DocumentCosts = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


def document_costs(
    measure: ExposureOfDocuments, judged: LabeledRun, ends: tuple[int, ...]
) -> DocumentCosts:
    """Return exposure, target and cost of each pair, and the rest and attention of each query.

    For a document with exposure e and target t, the cost is (e - t)^2 for EE_L, and t^2 - e t for
    EE_R: what it adds to the distance from the upper bound. Under a cascade, the upper bound may
    exceed the sum of t^2; it is then divided in proportion to t^2. Normalized measures divide costs
    by the width of the bounds. The rest is the cost of the documents that are neither judged nor
    retrieved, of which only the number is known.

    Returns:
        Exposure and cost by band, shape (n_pairs, n_bands); target, shape (n_pairs,); the rest,
        shape (n_queries,); the share of attention by band, shape (n_queries, n_bands).
    """
    pair, band, weight, per_band = _shown(measure, judged, ends)
    exposure = by_band(pair, band, weight, judged.n_pairs, len(ends) + 1)
    query, target = judged.pair_query, measure.targets(judged)
    part = measure.part(judged)
    if measure.PART == "loss":
        over = exposure.sum(axis=1) - target
        cost = exposure * over[:, None] + per_band[query] * (-over * target)[:, None]
        total = part.value
    else:
        values = measure.computed(judged).values
        square = values.loss.value - values.disparity.value + 2 * values.relevance.value
        scale = np.divide(part.upper, square, out=np.zeros_like(square), where=square > 0)
        owed = scale[query] * target**2
        cost = per_band[query] * owed[:, None] - exposure * target[:, None]
        total = part.upper - part.value
    explained = sum_by_index(query, cost.sum(axis=1), len(judged.qids))
    has_rest = judged.present & (total > explained * (1 + 1e-9) + 1e-12)
    rest = np.where(has_rest, total - explained, 0.0)
    scales = measure.scales(judged)
    return exposure, target, cost * scales[query, None], rest * scales, per_band


def document_parts(
    measure: ExposureOfDocuments,
    judged: LabeledRun,
    ends: tuple[int, ...],
    groups: Groups | None,
) -> Parts:
    """Return the parts of EE_L or EE_R; see `document_costs`.

    The costs of documents are summed over `groups`, or by label: useful, not useful, not judged.
    """
    exposure, mass, cost, rest, per_band = document_costs(measure, judged, ends)
    grade, query = measure.grades(judged.pair_label), judged.pair_query
    level = np.where(np.isnan(grade), 2, np.where(grade > 0, 0, 1))
    if groups is not None:  # a document is divided among its groups
        own = groups.memberships(judged.docnos, "drop").take(judged.pair_doc).normalized()
        without = np.flatnonzero(own.size == 0)
        level = np.append(own.level, np.full(len(without), groups.space.size))
        pair = np.append(own.row, without)
        part = np.append(own.weight, np.ones(len(without)))
        query, mass = query[pair], mass[pair] * part
        exposure, cost = exposure[pair] * part[:, None], cost[pair] * part[:, None]
    more = np.flatnonzero(rest > 0)
    query, level = np.append(query, more), np.append(level, np.full(len(more), REST))
    exposure = np.vstack([exposure, np.zeros((len(more), exposure.shape[1]))])
    cost = np.vstack([cost, rest[more, None] * per_band[more]])
    mass = np.append(mass, np.zeros(len(more)))
    return make_parts(query, level, exposure, mass, cost, per_band)
