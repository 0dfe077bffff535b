"""The stages of a race.

Where no document outweighs the rest they are draws with replacement; a few heavy documents have
explicit arrivals among light draws.
"""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.plackett_luce.arrivals import (
    DRAWS,
    HEAVY,
    Placed,
    draw,
    exponential,
    first_draws,
    take,
    with_repeats,
)
from fairtk.plackett_luce.streams import Stream

# a document is light if it has at most this share of the weight of itself and all after it
LIGHT_SHARE = 1 / 16
# exp() of smaller numbers is too coarse (subnormal, 0) to build probabilities from
TINY = -600.0


def count_heavy(log_weight: FloatArray, weight: FloatArray, most: int) -> int:
    """Return how many documents are heavy, at most `most`."""
    rest = weight[::-1].cumsum()[::-1]
    light = (weight[:most] <= LIGHT_SHARE * rest[:most]) & (log_weight[:most] > TINY)
    found = int(light.argmax())
    return found if light[found] else most


def race_flat(cumulated: FloatArray, depth: int, stream: Stream, placed: Placed) -> None:
    """Run the stages where all documents are light: the order of draws is all that counts."""
    places = placed.ranked.shape[1]
    uniform = stream.rows(0, len(placed.rows), DRAWS)
    if places < DRAWS:
        # most samples need only so many draws as they have places: look at those first
        placed.ranked[:] = draw(cumulated, uniform[:, :places])
        placed.rows = np.flatnonzero(with_repeats(placed.ranked))
        uniform = uniform[placed.rows]
    drawn = draw(cumulated, uniform)
    for stage in range(1, depth + 1):
        rows = placed.rows
        if len(rows) == 0:
            return
        width = min(places, drawn.shape[1])
        placed.ranked[rows, :width] = drawn[:, :width]
        placed.filled[rows] = width
        doubtful = np.flatnonzero(with_repeats(drawn))
        if len(doubtful):
            some, fresh = drawn[doubtful], first_draws(drawn[doubtful])
            order = np.argsort(~fresh, axis=1, kind="stable")[:, :width]
            placed.ranked[rows[doubtful], :width] = take(some, order)
            placed.filled[rows[doubtful]] = np.minimum(fresh.sum(axis=1), width)
        lacking = placed.filled[rows] < places
        drawn, placed.rows = drawn[lacking], rows[lacking]
        if stage < depth and len(placed.rows):
            uniform = stream.some_rows(stage, placed.rows, DRAWS << stage)
            drawn = np.concatenate([drawn, draw(cumulated, uniform)], axis=1)


def race_mixed(
    log_weight: FloatArray,
    weight: FloatArray,
    heavy: int,
    depth: int,
    stream: Stream,
    placed: Placed,
) -> None:
    """Run the stages with heavy documents: their arrivals and the light draws merge by time."""
    places = placed.ranked.shape[1]
    for stage in range(depth):
        field = _Field(log_weight, weight, min(heavy, HEAVY << stage), DRAWS << stage)
        uniform = stream.some_rows(stage, placed.rows, field.width)
        if stage == 0 and places <= DRAWS:
            # most samples need the identity of few light draws: look at those first
            placed.rows = field.glance(uniform, placed.ranked)
            uniform = uniform[placed.rows]
        if len(placed.rows):
            field.run(uniform, placed)
            placed.rows = placed.rows[placed.filled[placed.rows] < places]
        if len(placed.rows) == 0:
            return


class _Field:
    """The runners of a stage: some heavy documents, and the light rest as one Poisson process."""

    def __init__(self, log_weight: FloatArray, weight: FloatArray, heavy: int, draws: int) -> None:
        self.log_weight = log_weight
        self.heavy, self.draws = heavy, draws
        self.width = 2 * draws + heavy  # random numbers per sample
        if log_weight[heavy] > TINY:
            self.cumulated, reference = weight[heavy:].cumsum(), 0.0
        else:
            reference = float(log_weight[heavy])
            self.cumulated = np.exp(log_weight[heavy:] - reference).cumsum()
        self.log_rate = float(np.log(self.cumulated[-1])) + reference

    def times(self, uniform: FloatArray) -> FloatArray:
        """Return log arrival times of the heavy documents, then of the light draws in order."""
        time = exponential(uniform[:, self.draws :])
        light = time[:, self.heavy :]
        np.cumsum(light, axis=1, out=light)
        np.log(time, out=time)
        time[:, : self.heavy] -= self.log_weight[: self.heavy]
        light -= self.log_rate
        return time

    def glance(self, uniform: FloatArray, ranked: IntArray) -> IntArray:
        """Write the first arrivals of each sample; return the samples that need a closer look.

        As there are at least as many light draws as arrivals looked at, all of these lie before
        the last light draw.
        """
        places = ranked.shape[1]
        order = np.argsort(self.times(uniform), axis=1)[:, : min(places + 2, self.draws)]
        ranked[:] = self._documents(order[:, :places], uniform)
        doubtful = np.flatnonzero(with_repeats(ranked))
        if len(doubtful):  # a document drawn twice: the arrivals after it move up
            some = self._documents(order[doubtful], uniform[doubtful])
            fresh = first_draws(some)
            distinct = np.argsort(~fresh, axis=1, kind="stable")[:, :places]
            ranked[doubtful] = take(some, distinct)
            doubtful = doubtful[np.count_nonzero(fresh, axis=1) < places]
        return doubtful

    def _documents(self, order: IntArray, uniform: FloatArray) -> IntArray:
        """Return the documents of arrivals: heavy ones by name, light ones by their draw."""
        documents = order.copy()
        line, place = np.nonzero(order >= self.heavy)
        drawn = uniform[line, order[line, place] - self.heavy]
        documents[line, place] = draw(self.cumulated, drawn) + self.heavy
        return documents

    def run(self, uniform: FloatArray, placed: Placed) -> None:
        """Append all that arrives up to the last light draw to the samples that lack places."""
        rows, heavy = placed.rows, self.heavy
        light = draw(self.cumulated, uniform[:, : self.draws]) + heavy
        time = self.times(uniform)
        horizon = time[:, -1:].copy()
        repeated = ~first_draws(light)
        if placed.filled[rows].any():
            out = placed.mask(rows, len(self.log_weight))
            time[:, :heavy][out[:, :heavy]] = np.inf
            repeated |= take(out, light)
        time[:, heavy:][repeated] = np.inf
        order = np.argsort(time, axis=1)[:, : placed.ranked.shape[1]]
        arrived = np.count_nonzero(take(time, order) <= horizon, axis=1)
        drawn = take(light, np.maximum(order - heavy, 0))
        placed.append(rows, np.where(order < heavy, order, drawn), arrived)
