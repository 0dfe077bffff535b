"""Exact expected attention under a Plackett-Luce policy, without sampling.

In the exponential race document d arrives at time T_d ~ Exp(w_d), and its rank is the number of
others that have arrived by then (the form behind sample-free propensities, ECIR 2026, and behind
`race`). Its expected attention is therefore the integral over t of its density times the expected
attention of the number of other arrivals, which is Poisson-binomial.

* Across a wide gap of log-weights the order is certain: such gaps cut a query into blocks, each
  with its own ranks. Blocks of one document, of ties, or of ranks that weigh alike need no
  integral.
* In every other block time is taken as its logarithm, in which the integrand is smooth and dies
  off on both sides, so that equal steps (the trapezoidal rule) converge exponentially. The number
  of steps grows with the nats that a block spans, not with the size of its weights.
* The steps are cut into short panels. In a panel only those documents take part that have neither
  surely arrived before it nor surely not yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.plackett_luce.others import weigh_others
from fairtk.plackett_luce.panels import NEGLIGIBLE, PANEL, arrival_panels

# numbers held at once: few enough for a processor's cache
CHUNK = 1 << 16


def expected_attention(gaps: FloatArray, start: IntArray, weight: FloatArray) -> FloatArray:
    """Return the expected attention of each document under the policy; errors below 1e-10.

    Args:
        gaps: gaps of the log-weights of rows sorted by weight within each query (`score_gaps`).
        start: first row of each query, and the number of rows at the end.
        weight: attention of the ranks 0, 1, 2, ...; none beyond; shape (n_ranks,), not empty.

    Returns:
        Shape (n_rows,); within each query they sum to the weights of its min(n, n_ranks) ranks.
    """
    result = np.zeros(len(gaps))
    first, end, rank = _blocks(gaps, start, len(weight))
    size = end - first
    padded = np.append(weight, 0.0)
    last = np.minimum(rank + size - 1, len(weight))
    changes = _running(padded[1:] != padded[:-1])
    unequal = _running(gaps > 0)
    easy = (changes[last] == changes[rank]) | (unequal[end] == unequal[first + 1])
    summed = _running(weight)
    mean = (summed[np.minimum(rank + size, len(weight))] - summed[rank]) / size
    owner, place = _members(size[easy])
    result[first[easy][owner] + place] = mean[easy][owner]
    width = _rounded(size)
    for one in np.unique(width[~easy]).tolist():
        chosen = np.flatnonzero(~easy & (width == one))
        for part in _parts(chosen, one):
            _integrate(gaps, first[part], size[part], rank[part], one, weight, result)
    return result


def _blocks(gaps: FloatArray, start: IntArray, n_ranks: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return first row, end and first rank of the blocks that have a rank with attention."""
    query = np.repeat(np.arange(len(start) - 1), np.diff(start))
    behind = start[1:][query] - np.arange(len(gaps))
    cut = gaps >= np.log(behind) - NEGLIGIBLE
    cut[start[:-1]] = True
    first = np.flatnonzero(cut)
    end = np.append(first[1:], len(gaps))
    rank = first - start[:-1][query[first]]
    kept = rank < n_ranks
    return first[kept], end[kept], rank[kept]


def _integrate(
    gaps: FloatArray,
    first: IntArray,
    size: IntArray,
    rank: IntArray,
    width: int,
    weight: FloatArray,
    result: FloatArray,
) -> None:
    """Add the expected attention in some blocks of at most `width` documents."""
    owner, place = _members(size)
    log_weight = np.full((len(first), width), -np.inf)
    drop = gaps[first[owner] + place]
    drop[place == 0] = 0.0
    fallen = np.cumsum(drop)
    log_weight[owner, place] = fallen[np.cumsum(size) - size][owner] - fallen
    panels = arrival_panels(log_weight, np.minimum(size, len(weight) - rank))
    padded = np.concatenate([weight, np.zeros(width + 1)])
    left = len(weight) - rank[panels.race] - panels.begin
    undecided = _rounded(panels.end - panels.begin)
    for one in np.unique(undecided).tolist():
        chosen = np.flatnonzero((undecided == one) & (left > 0) & (panels.end > panels.begin))
        slots = np.arange(one)[:, None]
        for part in _parts(chosen, one * PANEL):
            race, begin = panels.race[part], panels.begin[part]
            document = slots + begin
            there = document < panels.end[part]
            logs = log_weight[race, np.minimum(document, width - 1)]
            logs[~there] = -np.inf
            rate = np.exp(logs[..., None] + panels.time[part]).reshape(one, -1)
            staying = np.exp(-rate)
            counts = np.arange(min(int(left[part].max()), one))[:, None]
            seen = np.repeat(padded[counts + rank[race] + begin], PANEL, axis=1)
            density = rate * staying * panels.step[part].reshape(-1)
            density *= weigh_others(-np.expm1(-rate), staying, seen)
            gained = density.reshape(*document.shape, PANEL).sum(axis=2)
            np.add.at(result, (first[race] + document)[there], gained[there])


def _members(size: IntArray) -> tuple[IntArray, IntArray]:
    """Return, for each member of blocks of these sizes, its block and its place there."""
    owner = np.repeat(np.arange(len(size)), size)
    return owner, np.arange(len(owner)) - (np.cumsum(size) - size)[owner]


def _running(values: npt.NDArray[Any]) -> FloatArray:
    """Return the sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _rounded(size: IntArray) -> IntArray:
    """Return sizes rounded up to three binary digits, so that few differ."""
    unit = 2 ** np.maximum(np.floor(np.log2(np.maximum(size, 1))).astype(np.int64) - 2, 0)
    return np.asarray(-(-size // unit) * unit)


def _parts(chosen: IntArray, width: int) -> list[IntArray]:
    """Cut what is chosen into parts of at most `CHUNK` numbers."""
    step = max(1, CHUNK // max(1, width))
    return [chosen[at : at + step] for at in range(0, len(chosen), step)]
