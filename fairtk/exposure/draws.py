"""Rankings of many queries drawn at once, independent or spread evenly over the samples.

Places are filled one after the other by inverting the cumulated weights of what is left, each with
a number of its own: a ranking is a function of as many uniform numbers as it has places, however
many documents there are. The numbers are points of a scrambled Sobol sequence (Owen 1995; hashing
as in Burley 2020). Each point is uniform, so that every ranking by itself has the law of the policy
exactly; together they fill the space more evenly than independent points. (arXiv 2205.06024 spreads
the Gumbel noise of all documents instead, one number for each.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from fairtk.exposure.plackett_luce import Placed, Stream, finish, race
from fairtk.frames import FloatArray, IntArray

SPREAD = 32
"""Places whose numbers are spread; those below are filled by independent ones."""
# the name of the scramble's random numbers, apart from those of the stages of a race
SCRAMBLE = -2
_ROUNDS = 3
_BITS = 53  # of a number in [0, 1)

Bits = npt.NDArray[np.uint64]


def spread_rankings(gaps: FloatArray, n_samples: int, places: int, stream: Stream) -> IntArray:
    """Draw rankings from gaps of log-weights; as `fairtk.exposure.plackett_luce.race`."""
    log_weight = -np.cumsum(gaps)
    placed = Placed(n_samples, places)
    ranked, spread = placed.ranked, min(places, SPREAD)
    uniform = _points(n_samples, stream)
    taken = np.zeros((n_samples, spread + 1), dtype=bool)  # which of the heaviest are placed
    for place in range(spread):
        heaviest = taken.argmin(axis=1)
        for first in np.unique(heaviest).tolist():
            own = np.flatnonzero(heaviest == first)
            cumulated = np.exp(log_weight[first:] - log_weight[first]).cumsum()
            before = np.sort(ranked[own, :place], axis=1) - first
            ranked[own, place] = first + _invert(cumulated, before, uniform[own, place])
        heavy = np.flatnonzero(ranked[:, place] <= spread)
        taken[heavy, ranked[heavy, place]] = True
    placed.filled[:] = spread
    if spread < places:
        with np.errstate(divide="ignore"):  # log(0) sorts as it should
            finish(log_weight, stream, placed)
    return ranked


def _invert(cumulated: FloatArray, before: IntArray, uniform: FloatArray) -> IntArray:
    """Return which of the documents that are left each number falls on.

    Args:
        cumulated: weights from the heaviest document that is left on, cumulated.
        before: the documents that are placed, ascending; those below 0 stand before all of these;
            shape (n_rows, n_placed).
        uniform: in [0, 1); shape (n_rows,).
    """
    low = np.append(0.0, cumulated)
    here = np.maximum(before, 0)
    weight = np.where(before > 0, low[here + 1] - low[here], 0.0)
    mark = uniform * (cumulated[-1] - weight.sum(axis=1))
    for i in range(before.shape[1]):  # past each document that is placed
        mark += np.where(mark >= low[here[:, i]], weight[:, i], 0.0)
    found = cumulated.searchsorted(mark, side="right")
    # by rounding alone a number falls on a document that is placed, or behind all
    wrong = (found == len(cumulated)) | (before == found[:, None]).any(axis=1)
    return np.where(wrong, 0, found)


def _points(n_samples: int, stream: Stream) -> FloatArray:
    """Return the points of a query; uniform in [0, 1), shape (n_samples, SPREAD).

    In an Owen scramble a bit is changed according to the bits before it. With the first bit last,
    sums and products do that, since they carry upwards. The sum with a uniform number at the end
    makes every point uniform, whatever came before.
    """
    drawn = (stream.rows(SCRAMBLE, 3 * _ROUNDS, SPREAD) * 2.0**_BITS).astype(np.uint64)
    points = _reversed_sobol(max(n_samples - 1, 0).bit_length())[:n_samples].copy()
    one = np.uint64(1)
    for even, odd, shift in drawn.reshape(_ROUNDS, 3, SPREAD):
        points ^= points * (even << one)
        points *= odd | one
        points += shift
    return (_reversed(points) >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS


@cache
def _reversed_sobol(power: int) -> Bits:
    """Return the first 2^power points of the sequence, the first bit last; (2^power, SPREAD)."""
    from scipy.stats.qmc import Sobol

    points = Sobol(SPREAD, scramble=False, bits=_BITS).random_base2(power)
    return _reversed((points * 2.0**_BITS).astype(np.uint64) << np.uint64(64 - _BITS))


def _reversed(numbers: Bits) -> Bits:
    """Return numbers of 64 bits, the first bit last."""
    for step, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        far, every = np.uint64(step), np.uint64(mask)
        numbers = ((numbers >> far) & every) | ((numbers & every) << far)
    return numbers.byteswap()


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
