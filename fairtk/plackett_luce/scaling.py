"""From retrieval scores to the log-weights of a Plackett-Luce policy, without losing differences.

A policy depends on differences of log-weights only, so that is what the samplers take: the *gaps*
between neighbors when documents are sorted by weight. At ``alpha = 64`` log-weights reach 2**64,
where neighboring floats are 4096 apart: a difference taken there, or noise added there, is lost.
A gap computed from the scores keeps its full relative precision at any size.
"""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray

SURE = 80.0
"""Gaps (in nats) are cut to this size: the order across such a gap is certain.

A document precedes one of `SURE` nats more weight with probability exp(-80) = 2e-35. Over all
pairs of a million documents that is below 1e-23, far less than what 53-bit random numbers can
show, so cutting every larger gap to `SURE` changes no distribution and keeps the sums small.
"""

_SMALL = 10.0
"""Up to this alpha log-weights are below 2^10, so that their rounding errors stay below 1e-12."""


def score_gaps(scores: FloatArray, start: IntArray, alpha: float | FloatArray) -> FloatArray:
    """Return the gaps between the log-weights of neighbors, for many queries at once.

    A log-weight is the score scaled to [1, 2] within its query (proper min-max, also where scores
    are negative; 1 if all are equal), to the power of alpha: the paper's Eq. 2 and its footnote.
    With s the scaled score, the gap s'^a - s^a is taken as s'^a * -expm1(a * log1p(-(s' - s)/s'))
    with s' - s from the raw scores: relative error about 1e-14, also for nearly equal scores.

    Args:
        scores: finite retrieval scores, sorted descending within each query; shape (n_rows,).
        start: first row of each query, and n_rows at the end; no query without rows.
        alpha: exponent >= 0, finite; one for all or of shape (n_queries,).

    Returns:
        Shape (n_rows,): row i holds min(log-weight of row i-1 minus that of row i, `SURE`), in
        nats, >= 0; the first row of each query holds 0.
    """
    gaps = np.zeros(len(scores))
    if len(scores) < 2:
        return gaps
    scores, low, spread = _spread(scores, start, scores[start[:-1]], scores[start[1:] - 1])
    if np.ndim(alpha):
        alpha = np.repeat(alpha, np.diff(start))[:-1]
    # what overflows is a gap beyond SURE; an infinite power times a step of 0 is NaN, not used
    with np.errstate(over="ignore", invalid="ignore"):
        above = 1.0 + (scores[:-1] - low[:-1]) / spread[:-1]
        step = (scores[:-1] - scores[1:]) / spread[:-1]
        inside = step > 0.0
        inside[start[1:-1] - 1] = False  # from one query to the next
        step[~inside] = 0.0
        gap = above**alpha * -np.expm1(alpha * np.log1p(-step / above))
    np.minimum(gap, SURE, out=gaps[1:], where=inside)
    return gaps


def log_weights(scores: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return how far the log-weights of one query lie below the heaviest, under many policies.

    With top the highest score that is 2^a * expm1(a * log1p((score - top) / (max - min) / 2)). Only
    where a gap is cut to `SURE` or an alpha is large, the gaps are summed.

    Args:
        scores: finite retrieval scores, sorted descending; shape (n,), not empty.
        alphas: exponents >= 0, finite; shape (n_policies,).

    Returns:
        shape (n, n_policies), in nats, <= 0.
    """
    n, small = len(scores), np.minimum(alphas, _SMALL)
    own, _, spread = _spread(scores, np.array([0, n]), scores[:1], scores[-1:])
    result: FloatArray = np.log1p((own - own[0]) / spread / 2)[:, None] * small
    np.expm1(result, out=result)
    result *= np.exp2(small)
    far = np.flatnonzero(np.exp2(small) > SURE)
    cut = np.diff(result[:, far], axis=0).min(axis=0, initial=0.0) < -SURE
    steep = far[cut | (alphas[far] > _SMALL)]
    if len(steep):
        start = np.arange(len(steep) + 1) * n
        gaps = score_gaps(np.tile(scores, len(steep)), start, alphas[steep])
        result[:, steep] = -np.cumsum(gaps.reshape(-1, n), axis=1).T
    return result


def _spread(
    scores: FloatArray, start: IntArray, top: FloatArray, low: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return scores, lowest score and max - min per row, rescaled where max - min overflows."""
    sizes = np.diff(start)
    with np.errstate(over="ignore"):
        spread = np.atleast_1d(top - low)
    low = np.atleast_1d(low)
    wide = ~np.isfinite(spread)
    if wide.any():
        shrink = np.where(wide, 0.25, 1.0)  # a power of two: exact
        spread = np.where(wide, top * 0.25 - low * 0.25, spread)
        scores, low = scores * np.repeat(shrink, sizes), low * shrink
    spread = np.where(spread > 0.0, spread, 1.0)  # all scores equal: every step is 0 anyway
    return scores, np.repeat(low, sizes), np.repeat(spread, sizes)
