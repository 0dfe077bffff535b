"""Rankings of one query whose random numbers are spread evenly over the samples.

Places are filled one after the other by inverting the cumulated weights of what is left, each with
a number of its own: a ranking is a function of as many uniform numbers as it has places, however
many documents there are. The numbers are points of a scrambled Sobol sequence (Owen 1995; hashing
as in Burley 2020). Each point is uniform, so that every ranking by itself has the law of the policy
exactly; together they fill the space more evenly than independent points. (arXiv 2205.06024 spreads
the Gumbel noise of all documents instead, one number for each.)
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.plackett_luce.sampling import finish
from fairtk.plackett_luce.stages import Placed
from fairtk.plackett_luce.streams import Stream

SPREAD = 32
"""Places whose numbers are spread; those below are filled by independent ones."""
# the name of the scramble's random numbers, apart from those of the stages of a race
SCRAMBLE = -2
_ROUNDS = 3
_BITS = 53  # of a number in [0, 1)

Bits = npt.NDArray[np.uint64]


def spread_rankings(gaps: FloatArray, n_samples: int, places: int, stream: Stream) -> IntArray:
    """Draw rankings from gaps of log-weights; as `fairtk.plackett_luce.sampling.race`."""
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
