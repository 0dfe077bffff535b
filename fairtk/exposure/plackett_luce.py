"""Plackett-Luce policies: log-weights, probabilities of rankings, and sampling.

A policy depends only on differences of log-weights, so the samplers take the *gaps* between
neighbors when documents are sorted by weight. At ``alpha = 64`` log-weights reach 2**64, where
neighboring floats are 4096 apart, so differences and noise would be lost. A gap computed from the
scores keeps its relative precision.

Let document i arrive at time E_i / w_i, with E_i exponential and w_i its weight. The order of
arrival is a Plackett-Luce ranking (equivalent to the Gumbel-max trick). Drawing and sorting all n
arrivals costs far more than the first few ranks need. So the race has stages:

* The few *heavy* documents get explicit arrivals. The *light* rest is one Poisson process: draws
  with replacement, proportional to weight, at exponential distances; a document arrives at its
  first draw. A stage has a fixed number of light draws, and places all arrivals up to the last one.
* After that time, the remaining documents start a new race, because exponential times are
  memoryless. The next stage takes more heavy documents and more draws; the last one gives each
  remaining document an explicit arrival. No sample is rejected, so the distribution is exact.

Each query has its own random numbers, and each sample its own row of them in each stage. Stages
depend only on the weights. So a query's rankings do not depend on other queries, the ranking at
cutoff 5 is the top of the full ranking, and sample i is the same among 10 as among 100.

`spread_rankings` draws rankings that are spread evenly over the samples: rank by rank, by inverting
the cumulative weights of the remaining documents, with one uniform number per rank. The numbers are
points of a scrambled Sobol sequence (Owen 1995; hashing as in Burley 2020). Each point is uniform,
so each ranking follows the policy exactly. (arXiv 2205.06024 spreads the Gumbel noise instead.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.frames import BoolArray, FloatArray, IntArray


class Stream:
    """Uniform random numbers addressed by (seed, key, stage, row).

    The state of a PCG64-DXSM generator is set to a 256-bit digest of (seed, key, stage). This is
    much cheaper than one generator per query.

    Args:
        seed: the user's seed; any integer.
    """

    def __init__(self, seed: int) -> None:
        # the key comes last, because it may have any characters
        self._prefix = f"fairtk.plackett_luce|{int(seed)}|"
        self._bits = np.random.PCG64DXSM(0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._key = ""

    def open(self, key: str) -> None:
        """Switch to the numbers of another key (a qid)."""
        self._key = key

    def rows(self, stage: int, count: int, width: int) -> FloatArray:
        """Return the first rows of a stage; uniform in [0, 1), shape (count, width)."""
        self._rewind(stage)
        return self._generator.random((count, width))

    def some_rows(self, stage: int, which: npt.NDArray[np.intp], width: int) -> FloatArray:
        """Return the rows `which` (ascending) of a stage; uniform in [0, 1)."""
        count = len(which)
        last = int(which[-1]) + 1
        if last <= 4 * count:
            rows = self.rows(stage, last, width)
            return rows if last == count else rows[which]
        rows = np.empty((count, width))
        self._rewind(stage)
        at = 0
        for place, row in enumerate(which.tolist()):
            self._bits.advance((row - at) * width)
            self._generator.random(out=rows[place])
            at = row + 1
        return rows

    def _rewind(self, stage: int) -> None:
        text = f"{self._prefix}{stage}|{self._key}".encode("utf-8", "surrogatepass")
        raw = hashlib.blake2b(text, digest_size=32).digest()
        self._state["state"] = {
            "state": int.from_bytes(raw[:16], "little"),
            "inc": int.from_bytes(raw[16:], "little") | 1,  # increments are odd
        }
        self._bits.state = self._state


# the most heavy documents, and the light draws, of the first stage; each later stage has twice as
# many, while they are less than a quarter of the documents
HEAVY, DRAWS = 16, 8


class Placed:
    """The documents that the samples have placed so far."""

    def __init__(self, n_samples: int, places: int) -> None:
        self.ranked = np.empty((n_samples, places), dtype=np.int64)  # documents by rank
        self.filled = np.zeros(n_samples, dtype=np.int64)  # the number of filled ranks per sample
        self.rows = np.arange(n_samples)  # the samples that are not full, ascending

    def append(self, rows: IntArray, order: IntArray, count: IntArray) -> None:
        """Append the first `count` documents of each row of `order` to the samples."""
        have = self.filled[rows]
        places = self.ranked.shape[1]
        count = np.minimum(count, places - have)
        if count.min() == places:  # so all were empty before
            self.ranked[rows] = order[:, :places]
        elif order.shape[1] > 64:  # long rows are copied faster one by one
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
    """Draw indices with replacement by inverting the cumulative weights."""
    below = np.nextafter(cumulated[-1], 0.0)  # the product must not round up to the total
    return np.asarray(cumulated.searchsorted(uniform * below, side="right"), dtype=np.int64)


def exponential(uniform: FloatArray) -> FloatArray:
    """Return standard exponential variates by inversion, one per number, so rows stay aligned."""
    time = np.subtract(1.0, uniform)  # (0, 1]
    np.log(time, out=time)
    return np.negative(time, out=time)


def with_repeats(drawn: IntArray) -> BoolArray:
    """Return which rows have duplicates."""
    in_order = np.sort(drawn, axis=1)
    return np.asarray((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))


def first_draws(drawn: IntArray) -> BoolArray:
    """Return whether each document is drawn for the first time in its row."""
    order = np.argsort(drawn, axis=1, kind="stable")
    in_order = take(drawn, order)
    first = np.ones(drawn.shape, dtype=bool)
    first[np.arange(len(drawn))[:, None], order[:, 1:]] = in_order[:, 1:] != in_order[:, :-1]
    return first


def take(values: npt.NDArray[Any], order: IntArray) -> npt.NDArray[Any]:
    """Return ``values[i, order[i, j]]`` (numpy's take_along_axis without its overhead)."""
    return np.asarray(values[np.arange(len(values))[:, None], order])


# a document is light if it has at most this share of the weight of itself and all lighter ones
LIGHT_SHARE = 1 / 16
# exp() of smaller numbers is too coarse (subnormal, 0) for probabilities
TINY = -600.0


def count_heavy(log_weight: FloatArray, weight: FloatArray, most: int) -> int:
    """Return the number of heavy documents, at most `most`."""
    rest = weight[::-1].cumsum()[::-1]
    light = (weight[:most] <= LIGHT_SHARE * rest[:most]) & (log_weight[:most] > TINY)
    first = int(light.argmax())
    return first if light[first] else most


def race_flat(cumulated: FloatArray, depth: int, stream: Stream, placed: Placed) -> None:
    """Run the stages if all documents are light, so that only the order of draws counts."""
    places = placed.ranked.shape[1]
    uniform = stream.rows(0, len(placed.rows), DRAWS)
    if places < DRAWS:
        # most samples need only as many draws as they have ranks: try these first
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
    """Run the stages with heavy documents: merge their arrivals and the light draws by time."""
    places = placed.ranked.shape[1]
    for stage in range(depth):
        field = _Field(log_weight, weight, min(heavy, HEAVY << stage), DRAWS << stage)
        uniform = stream.some_rows(stage, placed.rows, field.width)
        if stage == 0 and places <= DRAWS:
            # most samples need the identity of only a few light draws: try these first
            placed.rows = field.glance(uniform, placed.ranked)
            uniform = uniform[placed.rows]
        if len(placed.rows):
            field.run(uniform, placed)
            placed.rows = placed.rows[placed.filled[placed.rows] < places]
        if len(placed.rows) == 0:
            return


class _Field:
    """The documents of a stage: some heavy ones, and the light rest as one Poisson process."""

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
        """Write the first arrivals of each sample; return the samples with too few of them.

        There are at least as many light draws as ranks, so these arrivals precede the last draw.
        """
        places = ranked.shape[1]
        order = np.argsort(self.times(uniform), axis=1)[:, : min(places + 2, self.draws)]
        ranked[:] = self._documents(order[:, :places], uniform)
        doubtful = np.flatnonzero(with_repeats(ranked))
        if len(doubtful):  # a document was drawn twice, so the later arrivals move up
            documents = self._documents(order[doubtful], uniform[doubtful])
            fresh = first_draws(documents)
            distinct = np.argsort(~fresh, axis=1, kind="stable")[:, :places]
            ranked[doubtful] = take(documents, distinct)
            doubtful = doubtful[np.count_nonzero(fresh, axis=1) < places]
        return doubtful

    def _documents(self, order: IntArray, uniform: FloatArray) -> IntArray:
        """Return the documents of arrivals."""
        documents = order.copy()
        line, place = np.nonzero(order >= self.heavy)
        drawn = uniform[line, order[line, place] - self.heavy]
        documents[line, place] = draw(self.cumulated, drawn) + self.heavy
        return documents

    def run(self, uniform: FloatArray, placed: Placed) -> None:
        """Append all arrivals up to the last light draw to the samples that are not full."""
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


SURE = 80.0
"""Gaps are clipped to this number of nats, across which the order is certain.

A document precedes one with `SURE` nats more weight with probability exp(-80) = 2e-35, far less
than 53-bit random numbers can show.
"""

_SMALL = 10.0
"""Up to this alpha, log-weights are at most 2^10, so their rounding errors are below 1e-12."""


def score_gaps(scores: FloatArray, start: IntArray, alpha: float | FloatArray) -> FloatArray:
    """Return the gaps between the log-weights of neighbors, for many queries at once.

    A log-weight is the score, min-max scaled to [1, 2] within its query (1 if all are equal), to
    the power of alpha (Kim and Diaz, Towards Fair RAG, Eq. 2 and its footnote). With s the scaled
    score, the gap s'^a - s^a is computed as s'^a * -expm1(a * log1p(-(s' - s)/s')), with s' - s
    from the raw scores. Its relative error is about 1e-14, even for nearly equal scores.

    Args:
        scores: finite retrieval scores, sorted descending within each query; shape (n_rows,).
        start: first row of each query, then n_rows; no query without rows.
        alpha: finite exponent of at least 0; one for all, or of shape (n_queries,).

    Returns:
        Shape (n_rows,): the log-weight of the previous row minus that of the row, in [0, `SURE`]
        nats; 0 for the first row of each query.
    """
    gaps = np.zeros(len(scores))
    if len(scores) < 2:
        return gaps
    scores, low, spread = _spread(scores, start, scores[start[:-1]], scores[start[1:] - 1])
    if np.ndim(alpha):
        alpha = np.repeat(alpha, np.diff(start))[:-1]
    # an overflow is a gap beyond SURE; an infinite power times 0 is NaN and is not used
    with np.errstate(over="ignore", invalid="ignore"):
        above = 1.0 + (scores[:-1] - low[:-1]) / spread[:-1]
        step = (scores[:-1] - scores[1:]) / spread[:-1]
        inside = step > 0.0
        inside[start[1:-1] - 1] = False  # steps from one query to the next
        step[~inside] = 0.0
        gap = above**alpha * -np.expm1(alpha * np.log1p(-step / above))
    np.minimum(gap, SURE, out=gaps[1:], where=inside)
    return gaps


def log_weights(scores: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return the log-weights of one query minus the largest, under many policies.

    This is 2^a * expm1(a * log1p((score - max) / (max - min) / 2)). For a large alpha, or a gap
    above `SURE`, it is the sum of gaps.

    Args:
        scores: finite retrieval scores, sorted descending; shape (n,), not empty.
        alphas: finite exponents of at least 0; shape (n_policies,).

    Returns:
        Shape (n, n_policies), in nats, at most 0.
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
    """Return score, minimum and range of the query per row, rescaled if the range overflows."""
    sizes = np.diff(start)
    with np.errstate(over="ignore"):
        spread = np.atleast_1d(top - low)
    low = np.atleast_1d(low)
    wide = ~np.isfinite(spread)
    if wide.any():
        shrink = np.where(wide, 0.25, 1.0)  # a power of two: exact
        spread = np.where(wide, top * 0.25 - low * 0.25, spread)
        scores, low = scores * np.repeat(shrink, sizes), low * shrink
    spread = np.where(spread > 0.0, spread, 1.0)  # if all scores are equal, all steps are 0
    return scores, np.repeat(low, sizes), np.repeat(spread, sizes)


# the number of floats that the last stage holds at once
CHUNK = 1 << 22
# the key of the last stage's random numbers, other than 0, 1, 2, ...
LAST = -1


def race(gaps: FloatArray, n_samples: int, places: int, stream: Stream) -> IntArray:
    """Draw rankings from gaps of log-weights.

    Args:
        gaps: the gaps of one query (`score_gaps`); shape (n,).
        n_samples: number of rankings.
        places: ranks per ranking, at most n.
        stream: the random numbers, opened at the query.

    Returns:
        Indices into the documents sorted by weight; shape (n_samples, places).
    """
    size = len(gaps)
    if n_samples == 0 or places == 0:
        return np.empty((n_samples, places), dtype=np.int64)
    log_weight = -np.cumsum(gaps)  # gaps[0] is 0, so this starts at 0 and falls
    depth = (size // (4 * (HEAVY + DRAWS))).bit_length()
    placed = Placed(n_samples, places)
    # log(0) is a time of 0 or a weight of 0: both sort correctly
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
    """Fill the samples that are not full by a race of the remaining documents."""
    step = max(1, CHUNK // len(log_weight))
    for first in range(0, len(placed.rows), step):
        _finish(log_weight, stream, placed.rows[first : first + step], placed)


def _finish(log_weight: FloatArray, stream: Stream, rows: IntArray, placed: Placed) -> None:
    """Draw an arrival for each remaining document, and fill the samples."""
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


_DEEPEST = 700.0
"""Of larger numbers x, exp(-x) is subnormal or 0."""


def log_step_probabilities(log_weight: FloatArray, rankings: IntArray) -> FloatArray:
    """Return the log-probability of each step of rankings of one query under many policies.

    A step is the softmax of a rank's document over the remaining documents; the sum of the steps is
    the log-probability of the top of a ranking. The relative error is about 1e-15 times the square
    of the number of ranks, because the remaining weight is never a small difference of large
    numbers: all documents before the heaviest remaining one are placed, and placed documents after
    it weigh at most as much.

    Args:
        log_weight: log-weights (`log_weights`), one column per policy; shape (n, n_policies). All
            policies have the documents in the same order, descending from 0.
        rankings: indices of the first k documents, k <= n; shape (n_rankings, k). If the first k
            documents span more than 700 nats, each gap is clipped to 700 / k nats.

    Returns:
        Shape (k, n_rankings, n_policies).
    """
    places = rankings.shape[1]
    steep = log_weight[places - 1] < -_DEEPEST
    if steep.any():
        gaps = -np.diff(log_weight[:, steep], axis=0, prepend=0.0)
        log_weight = log_weight.copy()
        log_weight[:, steep] = -np.cumsum(np.minimum(gaps, _DEEPEST / places), axis=0)
    n = len(log_weight)
    weight = np.zeros((n + 1, log_weight.shape[1]))  # the last row is no document
    np.exp(log_weight, out=weight[:n])
    # the weight from each of the first documents to the end
    tail = np.append(weight[: places - 1], [weight[places - 1 :].sum(axis=0)], axis=0)
    tail = np.cumsum(tail[::-1], axis=0)[::-1]
    gone = np.zeros(rankings.shape, dtype=bool)  # whether each of the first documents is placed
    taken = weight[rankings.T]
    steps, part = np.empty(taken.shape), np.empty(taken.shape[1:])
    for place in range(places):
        heaviest = gone.argmin(axis=1)
        left = steps[place]
        np.take(tail, heaviest, axis=0, out=left, mode="clip")
        for earlier in range(place):
            placed = rankings[:, earlier]
            behind = np.where(placed > heaviest, placed, n)
            left -= np.take(weight, behind, axis=0, out=part, mode="clip")
        light = np.flatnonzero(rankings[:, place] < places)
        gone[light, rankings[light, place]] = True
    with np.errstate(divide="ignore"):  # log(0): the probability is too small for a double
        return np.log(np.divide(taken, steps, out=steps), out=steps)


SPREAD = 32
"""The number of ranks with spread numbers; later ranks have independent ones."""
# the key of the scramble's random numbers, other than those of stages
SCRAMBLE = -2
_ROUNDS = 3
_BITS = 53  # of a number in [0, 1)

Bits = npt.NDArray[np.uint64]


def spread_rankings(gaps: FloatArray, n_samples: int, places: int, stream: Stream) -> IntArray:
    """Draw rankings that are spread evenly over the samples; see `race` for the arguments."""
    log_weight = -np.cumsum(gaps)
    placed = Placed(n_samples, places)
    ranked, spread = placed.ranked, min(places, SPREAD)
    uniform = _points(n_samples, stream)
    taken = np.zeros((n_samples, spread + 1), dtype=bool)  # whether each heavy document is placed
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
        with np.errstate(divide="ignore"):  # log(0) sorts correctly
            finish(log_weight, stream, placed)
    return ranked


def _invert(cumulated: FloatArray, before: IntArray, uniform: FloatArray) -> IntArray:
    """Return the remaining document on which each number falls.

    Args:
        cumulated: cumulative weights, starting at the heaviest remaining document.
        before: the placed documents, ascending, relative to the heaviest remaining one; shape
            (n_rows, n_placed).
        uniform: in [0, 1); shape (n_rows,).
    """
    low = np.append(0.0, cumulated)
    here = np.maximum(before, 0)
    weight = np.where(before > 0, low[here + 1] - low[here], 0.0)
    mark = uniform * (cumulated[-1] - weight.sum(axis=1))
    for i in range(before.shape[1]):  # skip each placed document
        mark += np.where(mark >= low[here[:, i]], weight[:, i], 0.0)
    position = cumulated.searchsorted(mark, side="right")
    # by rounding, a number may fall on a placed document, or after the last
    wrong = (position == len(cumulated)) | (before == position[:, None]).any(axis=1)
    return np.where(wrong, 0, position)


def _points(n_samples: int, stream: Stream) -> FloatArray:
    """Return the points of a query; uniform in [0, 1), shape (n_samples, SPREAD).

    In an Owen scramble, the change of a bit depends on the bits before it. With the first bit last,
    sums and products do this, because they carry upwards. The uniform number that is added at the
    end makes each point uniform.
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
    """Return the first 2^power points, with the first bit last; shape (2^power, SPREAD)."""
    from scipy.stats.qmc import Sobol

    points = Sobol(SPREAD, scramble=False, bits=_BITS).random_base2(power)
    return _reversed((points * 2.0**_BITS).astype(np.uint64) << np.uint64(64 - _BITS))


def _reversed(numbers: Bits) -> Bits:
    """Return 64-bit numbers with their bits in reverse order."""
    for step, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        far, every = np.uint64(step), np.uint64(mask)
        numbers = ((numbers >> far) & every) | ((numbers & every) << far)
    return numbers.byteswap()


METHODS = {"independent": race, "stratified": spread_rankings}
"""The methods of drawing a query's rankings; each ranking has the same distribution."""


@dataclass(frozen=True)
class Draws:
    """Sampled rankings, sorted by query, sample and rank; arrays of shape (n_drawn,)."""

    row: IntArray  # the row of the sorted run
    sample: IntArray  # the number of the sample, from 0
    rank: IntArray  # the rank within the sample, from 0


def draw_rankings(
    gaps: FloatArray,
    start: IntArray,
    keys: Sequence[str],
    n_samples: int,
    cutoff: int | None,
    seed: int,
    method: str = "independent",
) -> Draws:
    """Draw rankings of many queries; each depends only on its gaps, its key and the seed.

    Args:
        gaps: gaps of the log-weights, sorted by weight within each query (`score_gaps`); (n_rows,).
        start: first row of each query, then n_rows; shape (n_queries + 1,).
        keys: the key of each query's random stream, its qid.
        n_samples: rankings per query, at least 1.
        cutoff: ranks per ranking, at least 1; `None` for all documents.
        seed: the seed of all streams.
        method: ``"independent"``, or ``"stratified"`` for rankings spread evenly over the samples.
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
