"""The parts of 1 - AWRF, and of EE-L for groups and for documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairtk.divergence import log_of, spread
from fairtk.explanation.contributions import REST, Contributions, by_band, costs, shares, sides
from fairtk.explanation.names import Bands
from fairtk.exposure.expected import attention, total
from fairtk.frames.arrays import FloatArray
from fairtk.groups import Groups
from fairtk.measures.awrf import AttentionWeightedRankFairness
from fairtk.measures.ee import ExpectedExposureLoss
from fairtk.measures.evidence import Evidence


def awrf_contributions(
    measure: AttentionWeightedRankFairness, evidence: Evidence, bands: Bands
) -> Contributions:
    """Return what each group adds to 1 - AWRF, the Jensen-Shannon divergence.

    With m the mean of exposure share p and target share q, group c costs
    p_c log(p_c / m_c) / 2 + q_c log(q_c / m_c) / 2, which is 0 where p_c = q_c and positive
    elsewhere. The first term goes to the ranks that show the group, the second to all ranks in
    proportion to their attention.
    """
    groups, ranked = measure.groups, evidence.rankings
    weight = measure.attention_of(evidence)
    row, n_rows = ranked.ranking, ranked.n_rankings
    row_query = evidence.query_of_run[ranked.ranking_query]
    if measure["amortize"]:
        row, n_rows = ranked.query, len(ranked.qids)
        row_query = evidence.query_of_run
        weight = weight / ranked.n_samples[row]
    seen = np.flatnonzero(weight)
    row, doc, weight = row[seen], ranked.doc[seen], weight[seen]
    band = bands.of(ranked.position[seen])
    memberships = groups.memberships(ranked.docnos, measure["unlabeled"])
    target = measure.target_for(groups).for_qids(evidence.qids[row_query])
    found = sides(row, band, doc, weight, memberships, target, len(bands))

    size = total(memberships.owner, memberships.weight, len(memberships.size))
    attention = shares(by_band(row, band, weight * size[doc], n_rows, len(bands)))
    system_total = total(found.row, found.shown.sum(axis=1), n_rows)
    target_total = target.total()
    defined = (system_total > 0) & (target_total > 0)
    kept = defined[found.row]
    unit_row, cell = found.row[kept], found.cell[kept]
    shown = found.shown[kept] / system_total[unit_row, None]
    wanted = found.target[kept] / target_total[unit_row]

    p = shown.sum(axis=1)
    off = (p - wanted) / (p + wanted)
    unit = 0.5 / log_of(measure["base"])
    rate = unit * np.log1p(off, out=np.zeros_like(off), where=off > -1)
    owed = unit * wanted * np.log1p(-off, out=np.zeros_like(off), where=off < 1)
    cost = costs(shown, rate, attention[unit_row], owed)
    parts = Contributions(unit_row, cell, shown, wanted, cost, attention)

    n_queries = len(evidence.qids)
    count = np.bincount(row_query, minlength=n_queries)
    query = row_query[unit_row]
    mean = parts.regrouped(query, cell, 1.0 / count[query])
    by_query = np.zeros((n_queries, len(bands)))
    np.add.at(by_query, row_query, attention / count[row_query, None])
    return replace(mean, attention=by_query)


def loss_contributions(
    measure: ExpectedExposureLoss, evidence: Evidence, bands: Bands, groups: Groups | None
) -> Contributions:
    """Return what each group adds to EE-L, the squared distance of exposure and target.

    Group (or document) c costs (s_c - t_c)^2 = (s_c - t_c) (sum over ranks of s_kc - a_k t_c): each
    rank has to answer for what it shows, and for its share of attention's worth of the target. In
    the form by documents their costs are summed for `groups`; None: for `LABELS`.
    """
    ranked, pairs = evidence.rankings, evidence.pairs
    grade = measure.form.grades(pairs.label)
    useful = (grade > 0)[pairs.of_row]
    weight = attention(ranked, measure["browsing"], measure["cutoff"], useful)
    weight = weight / ranked.n_samples[ranked.query]
    seen = np.flatnonzero(weight)
    pair, weight, band = pairs.of_row[seen], weight[seen], bands.of(ranked.position[seen])
    n_queries = len(evidence.qids)
    per_band = shares(by_band(pairs.query[pair], band, weight, n_queries, len(bands)))
    if measure["groups"] is None:
        shown = by_band(pair, band, weight, len(pairs), len(bands))
        return _of_documents(measure, evidence, shown, grade, per_band, groups)
    form: Any = measure.form
    if form.useful_only:
        counted = grade[pair] > 0
        pair, band, weight = pair[counted], band[counted], weight[counted]
    memberships = form.groups.memberships(pairs.docnos, "drop")
    target = form.target.for_qids(evidence.qids)
    found = sides(pairs.query[pair], band, pairs.doc[pair], weight, memberships, target, len(bands))
    wanted = form.scale * found.target
    over = found.shown.sum(axis=1) - wanted
    # groups that are not listed are not shown: each of them costs its squared target
    owed = np.where(found.cell == REST, form.scale**2 * found.rest_square, -over * wanted)
    cost = costs(found.shown, over, per_band[found.row], owed)
    return Contributions(found.row, found.cell, found.shown, wanted, cost, per_band)


def _of_documents(
    measure: Any,
    evidence: Evidence,
    shown: FloatArray,
    grade: FloatArray,
    per_band: FloatArray,
    groups: Groups | None,
) -> Contributions:
    pairs, wanted = evidence.pairs, measure.form.targets(evidence)
    over = shown.sum(axis=1) - wanted
    cell = np.where(np.isnan(grade), 2, np.where(grade > 0, 0, 1))  # as in LABELS
    cost = costs(shown, over, per_band[pairs.query], -over * wanted)
    parts = Contributions(pairs.query, cell, shown, wanted, cost, per_band)
    if groups is not None:
        memberships = groups.memberships(pairs.docnos, "drop")
        size = memberships.size[pairs.doc]
        unit, entry = spread(memberships.start[pairs.doc], size)
        own = memberships.weight[entry]
        share = own / np.bincount(unit, weights=own, minlength=len(pairs))[unit]
        without = np.flatnonzero(size == 0)
        every = np.concatenate([unit, without])
        cell = np.concatenate([memberships.cell[entry], np.full(len(without), groups.space.size)])
        parts = parts.taken(every, np.concatenate([share, np.ones(len(without))]))
    parts = parts.regrouped(parts.query, cell, np.ones(len(cell)))
    return _normalized(measure, evidence, _with_unseen(measure, evidence, parts))


def _with_unseen(measure: Any, evidence: Evidence, parts: Contributions) -> Contributions:
    """Add the documents that are neither judged nor retrieved, of which only n is known."""
    raw = _raw(measure, evidence)
    n_queries = len(evidence.qids)
    known = np.bincount(parts.query, weights=parts.cost.sum(axis=1), minlength=n_queries)
    rest = np.where(evidence.present & (raw > known * (1 + 1e-9) + 1e-12), raw - known, 0.0)
    more = np.flatnonzero(rest > 0)
    return parts.with_unshown(more, REST, rest[more, None] * parts.attention[more])


def _normalized(measure: Any, evidence: Evidence, parts: Contributions) -> Contributions:
    """Scale each query's parts so that they add up to the normalized value."""
    if not measure["normalize"]:
        return parts
    raw, value = _raw(measure, evidence), measure.score_all(evidence)
    factor = np.divide(value, raw, out=np.zeros_like(raw), where=raw > 0)[parts.query]
    return replace(parts, cost=parts.cost * factor[:, None])


def _raw(measure: Any, evidence: Evidence) -> FloatArray:
    plain = type(measure)(**{**measure.params, "normalize": False})
    result: FloatArray = plain.score_all(evidence)
    return result
