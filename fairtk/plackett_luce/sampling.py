"""Rankings of one query: an exponential race, run only as far as the cutoff needs.

Let document i arrive at time E_i / w_i with E_i exponential and w_i its weight: the order of
arrival is a Plackett-Luce ranking (the same fact as the Gumbel-max trick, in other words). Drawing
all n arrivals and sorting them costs far more than the first few places need. So:

* The few *heavy* documents get explicit arrivals. The *light* rest is one Poisson process: draws
  with replacement, proportional to weight, at exponential distances; a document arrives when it is
  drawn first. A stage draws a fixed number of light arrivals; whatever arrives up to the last one
  is placed, exactly.
* After that time the documents left over race anew, because exponential times have no memory. The
  next stage takes more heavy documents and more draws; the last one gives every document that is
  left its explicit arrival. No sample is ever rejected, so no step can distort the distribution.

Stages depend on the weights only, never on the cutoff or on the number of samples, and every
sample reads its own row of each stage's random numbers. Hence both are pure truncations: the
ranking at cutoff 5 is the top of the full ranking, and sample i is the same among 10 as among 100.

Times are compared as logarithms, log E - log w, so weights may span any number of nats.
"""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.plackett_luce.stages import (
    DRAWS,
    HEAVY,
    Placed,
    count_heavy,
    exponential,
    race_flat,
    race_mixed,
    take,
)
from fairtk.plackett_luce.streams import Stream

# numbers held at once by the last stage
CHUNK = 1 << 22
# the name of the last stage's random numbers, apart from those of the stages 0, 1, 2, ...
LAST = -1


def race(gaps: FloatArray, n_samples: int, places: int, stream: Stream) -> IntArray:
    """Draw rankings from gaps of log-weights.

    Args:
        gaps: as `score_gaps` gives them for one query; shape (n,).
        n_samples: number of rankings.
        places: places per ranking, at most n.
        stream: the random numbers, opened at the query.

    Returns:
        Indexes into the documents as sorted by weight; shape (n_samples, places).
    """
    size = len(gaps)
    if n_samples == 0 or places == 0:
        return np.empty((n_samples, places), dtype=np.int64)
    log_weight = -np.cumsum(gaps)  # gaps[0] is 0, so this starts at 0 and falls
    depth = (size // (4 * (HEAVY + DRAWS))).bit_length()
    placed = Placed(n_samples, places)
    # log(0) is a time of exactly 0 or a weight of exactly 0: both sort as they should
    with np.errstate(divide="ignore"):
        if depth:
            weight = np.exp(log_weight)
            heavy = count_heavy(log_weight, weight, HEAVY << (depth - 1))
            if heavy:
                race_mixed(log_weight, weight, heavy, depth, stream, placed)
            else:
                race_flat(weight.cumsum(), depth, stream, placed)
        finish(log_weight, stream, placed)
    return placed.ranked


def finish(log_weight: FloatArray, stream: Stream, placed: Placed) -> None:
    """Fill the samples that lack places up: the documents that are left race."""
    step = max(1, CHUNK // len(log_weight))
    for first in range(0, len(placed.rows), step):
        _finish(log_weight, stream, placed.rows[first : first + step], placed)


def _finish(log_weight: FloatArray, stream: Stream, rows: IntArray, placed: Placed) -> None:
    """Give every document that is left its own arrival, and fill the samples up."""
    size, places = len(log_weight), placed.ranked.shape[1]
    time = exponential(stream.some_rows(LAST, rows, size))
    np.log(time, out=time)
    time -= log_weight
    if placed.filled[rows].any():
        time[placed.mask(rows, size)] = np.inf
    missing = places - placed.filled[rows]
    most = int(missing.max())
    if most * 8 < size:
        nearest = np.argpartition(time, most - 1, axis=1)[:, :most]
        order = take(nearest, np.argsort(take(time, nearest), axis=1))
    else:
        order = np.argsort(time, axis=1)[:, :most]
    placed.append(rows, order, missing)
