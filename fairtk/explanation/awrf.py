"""The parts of 1 - AWRF."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairtk.divergence import log_of
from fairtk.explanation.bands import Bands
from fairtk.explanation.contributions import Contributions, by_band, shares, sides
from fairtk.exposure.expected import total
from fairtk.measures.awrf import AttentionWeightedRankFairness
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

    size = total(np.repeat(np.arange(len(memberships.size)), memberships.size), memberships.weight,
                 len(memberships.size))  # fmt: skip
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
    parts = Contributions.split(unit_row, cell, shown, wanted, rate, owed, attention)

    n_queries = len(evidence.qids)
    count = np.bincount(row_query, minlength=n_queries)
    query = row_query[unit_row]
    mean = parts.regrouped(query, cell, 1.0 / count[query])
    by_query = np.zeros((n_queries, len(bands)))
    np.add.at(by_query, row_query, attention / count[row_query, None])
    return replace(mean, attention=by_query)
