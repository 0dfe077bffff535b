"""The stages of a race: places taken so far, draws, exponential times.

Where no document outweighs the rest they are draws with replacement; a few heavy documents have
explicit arrivals among light draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.plackett_luce.streams import Stream

# the first stage takes at most so many heavy documents and so many light draws; each later stage
# takes twice as many, as long as a stage stays below a quarter of the documents
HEAVY, DRAWS = 16, 8


class Placed:
    """What the samples have so far."""

    def __init__(self, n_samples: int, places: int) -> None:
        self.ranked = np.empty((n_samples, places), dtype=np.int64)  # documents by place
        self.filled = np.zeros(n_samples, dtype=np.int64)  # how many places of each sample are
        self.rows = np.arange(n_samples)  # the samples that still lack places, ascending

    def append(self, rows: IntArray, order: IntArray, count: IntArray) -> None:
        """Write the first `count` of each row of `order` behind what the samples have."""
        have = self.filled[rows]
        places = self.ranked.shape[1]
        count = np.minimum(count, places - have)
        if count.min() == places:  # so nothing was there before
            self.ranked[rows] = order[:, :places]
        elif order.shape[1] > 64:  # long lines are copied faster one by one
            for line, (row, at, length) in enumerate(
                zip(rows.tolist(), have.tolist(), count.tolist(), strict=True)
            ):
                self.ranked[row, at : at + length] = order[line, :length]
        else:
            lines, place = np.nonzero(np.arange(order.shape[1]) < count[:, None])
            self.ranked[rows[lines], have[lines] + place] = order[lines, place]
        self.filled[rows] = have + count

    def mask(self, rows: IntArray, size: int) -> BoolArray:
        """Return which documents each sample has placed; shape (len(rows), size)."""
        seen = np.zeros((len(rows), size), dtype=bool)
        have = self.filled[rows]
        line, place = np.nonzero(np.arange(int(have.max(initial=0))) < have[:, None])
        seen[line, self.ranked[rows[line], place]] = True
        return seen


def draw(cumulated: FloatArray, uniform: FloatArray) -> IntArray:
    """Draw indexes with replacement by inverting the cumulated weights."""
    below = np.nextafter(cumulated[-1], 0.0)  # the product must never round up to the total
    return np.asarray(cumulated.searchsorted(uniform * below, side="right"), dtype=np.int64)


def exponential(uniform: FloatArray) -> FloatArray:
    """Return standard exponential variates by inversion: one number each, so rows stay aligned."""
    time = np.subtract(1.0, uniform)  # (0, 1]
    np.log(time, out=time)
    return np.negative(time, out=time)


def with_repeats(drawn: IntArray) -> BoolArray:
    """Return which rows hold a document twice."""
    in_order = np.sort(drawn, axis=1)
    return np.asarray((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))


def first_draws(drawn: IntArray) -> BoolArray:
    """Return where a document is drawn for the first time in its row."""
    order = np.argsort(drawn, axis=1, kind="stable")
    in_order = take(drawn, order)
    first = np.ones(drawn.shape, dtype=bool)
    first[np.arange(len(drawn))[:, None], order[:, 1:]] = in_order[:, 1:] != in_order[:, :-1]
    return first


def take(values: npt.NDArray[Any], order: IntArray) -> npt.NDArray[Any]:
    """Return ``values[i, order[i, j]]`` (numpy's take_along_axis without its overhead)."""
    return np.asarray(values[np.arange(len(values))[:, None], order])


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
