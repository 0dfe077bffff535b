"""Rankings of many queries at once, as row numbers of a sorted run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.plackett_luce.sampling import race
from fairtk.plackett_luce.stratified import spread_rankings
from fairtk.plackett_luce.streams import Stream

METHODS = {"independent": race, "stratified": spread_rankings}
"""How the rankings of a query are drawn, each by itself with the same law."""


@dataclass(frozen=True)
class Draws:
    """Sampled rankings, sorted by query, sample and rank; arrays of shape (n_drawn,)."""

    row: IntArray  # which row of the sorted run is placed
    sample: IntArray  # number of the sample, from 0
    rank: IntArray  # place within the sample, from 0


def draw_rankings(
    gaps: FloatArray,
    start: IntArray,
    keys: Sequence[str],
    n_samples: int,
    cutoff: int | None,
    seed: int,
    method: str = "independent",
) -> Draws:
    """Draw rankings of many queries; each depends on its own gaps, key and the seed only.

    Args:
        gaps: gaps of the log-weights of rows sorted by weight within each query (`score_gaps`).
        start: first row of each query, and the number of rows at the end.
        keys: the name of each query's random stream, its qid.
        n_samples: rankings per query, >= 1.
        cutoff: places per ranking, >= 1; all documents if None or more than there are.
        seed: of all streams.
        method: one of `METHODS`.
    """
    sizes = np.diff(start)
    places = sizes if cutoff is None else np.minimum(sizes, cutoff)
    ends = np.cumsum(places * n_samples)
    row = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
    sample, rank = np.empty_like(row), np.empty_like(row)
    stream = Stream(seed)
    draw = METHODS[method]
    numbers = np.arange(n_samples)[:, None]
    bounds = start.tolist()
    at = 0
    for query, (key, depth) in enumerate(zip(keys, places.tolist(), strict=True)):
        first, last = bounds[query], bounds[query + 1]
        stream.open(key)
        end = at + depth * n_samples
        shape = (n_samples, depth)
        drawn = draw(gaps[first:last], n_samples, depth, stream)
        np.add(drawn, first, out=row[at:end].reshape(shape))
        sample[at:end].reshape(shape)[:] = numbers
        rank[at:end].reshape(shape)[:] = np.arange(depth)
        at = end
    return Draws(row, sample, rank)
