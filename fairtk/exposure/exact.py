"""Exact expected attention under a Plackett-Luce policy, and the alpha that gives a required value.

In the exponential race, document d arrives at time T_d ~ Exp(w_d), and its rank is the number of
earlier arrivals (as in sample-free propensities, ECIR 2026). So its expected attention is the
integral over t of its density at t times the expected attention of the rank given by the number of
other arrivals before t, which is Poisson-binomial.

* `weigh_others` neither divides nor subtracts, which would lose digits for nearly certain arrivals:
  it multiplies factors pairwise up a tree and passes derivatives down. All terms are positive.
* Across a wide gap of log-weights the order is certain. Such gaps divide a query into blocks with
  their own ranks. Blocks of one document, of ties, or of ranks with equal weights need no integral.
* In other blocks, the integral is over log t. The integrand is smooth and vanishes at both ends, so
  the trapezoidal rule converges exponentially. The number of steps grows with the nats that a block
  spans, not with the size of its weights.
* The steps are divided into short panels. A panel includes only documents whose arrival is neither
  almost surely before it nor almost surely after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.exposure.expected import members
from fairtk.frames import FloatArray, IntArray

NEGLIGIBLE = np.log(1e-14)
"""Log of the probability that is ignored in tails and for nearly certain arrivals."""

SURELY = np.log(34.0)
"""Log of rate times time after which a document has arrived: exp(-34) = 2e-15."""

# The error of equal steps of log-time is about exp(-2 pi width / step), with the width of the strip
# in which the integrand is analytic; it narrows with the number of arrivals.
STEP, STEP_OF_MANY = 0.25, 0.6
# Nothing happens in the 32 nats before the first arrivals. Times log t = s - exp(-s - KNEE) pass
# these in 3 nats of s; later, log t is about s.
KNEE = 1.5
PANEL = 8


@dataclass(frozen=True)
class Panels:
    """Nodes of the integrals of many races, in panels of `PANEL` nodes."""

    race: IntArray  # race of each panel; shape (n_panels,)
    time: FloatArray  # log-times; shape (n_panels, PANEL)
    step: FloatArray  # the width of log-time of each node; same shape
    begin: IntArray  # earlier documents have arrived by then; shape (n_panels,)
    end: IntArray  # documents from here on have not; shape (n_panels,)


def arrival_panels(log_weight: FloatArray, waited: IntArray) -> Panels:
    """Return the panels of races that end after a number of arrivals.

    Args:
        log_weight: descending, -inf after the last document; shape (n_races, n_documents).
        waited: the number of arrivals, at most the documents of the race; shape (n_races,).
    """
    rest = np.logaddexp.accumulate(log_weight[:, ::-1], axis=1)[:, ::-1]
    origin = -rest[:, 0]  # when one arrival is expected
    low = _before(NEGLIGIBLE)
    high = np.maximum(_last_time(log_weight, waited, origin) - origin, 0.0)
    step = np.minimum(STEP, STEP_OF_MANY / np.sqrt(waited))
    per_race = np.ceil(((high - low) / step + 1) / PANEL).astype(np.int64)
    race, number = members(per_race)
    index = low + step[race, None] * (PANEL * number[:, None] + np.arange(PANEL))
    fading = np.exp(-index - KNEE)
    time = origin[race, None] + index - fading
    begin, end = np.empty_like(race), np.empty_like(race)
    last = np.cumsum(per_race).tolist()
    for one, its in enumerate(map(slice, [0, *last], last)):  # both are sorted
        begin[its] = np.searchsorted(-log_weight[one], time[its, 0] - SURELY)
        end[its] = np.searchsorted(-rest[one], time[its, -1] - NEGLIGIBLE)
    return Panels(race, time, step[race, None] * (1.0 + fading), begin, end)


def _before(log_time: float) -> float:
    """Return s with s - exp(-s - KNEE) = log_time, by Newton's method."""
    s = -KNEE - np.log(-log_time)
    for _ in range(6):
        fading = np.exp(-s - KNEE)
        s -= (s - fading - log_time) / (1.0 + fading)
    return float(s)


def _last_time(log_weight: FloatArray, waited: IntArray, origin: FloatArray) -> FloatArray:
    """Return a log-time by which `waited` documents have arrived, almost surely.

    This is the earlier of two times: the heaviest documents have arrived, or Chernoff's bound for
    fewer arrivals is negligible.
    """
    races = np.arange(len(waited))
    high = np.log(np.log(waited) - NEGLIGIBLE) - log_weight[races, waited - 1]
    low = np.minimum(origin, high)
    fewer = waited - 1.0
    for _ in range(12):
        middle = (low + high) / 2
        rate = np.exp(np.minimum(log_weight + middle[:, None], SURELY))
        expected = -np.expm1(-rate).sum(axis=1)
        ratio = np.where(fewer > 0, fewer / expected, 1.0)
        tail = fewer - expected - fewer * np.log(ratio)
        late = (expected > fewer) & (tail < NEGLIGIBLE)
        low, high = np.where(late, low, middle), np.where(late, middle, high)
    return np.asarray(high)


def weigh_others(happened: FloatArray, not_yet: FloatArray, weight: FloatArray) -> FloatArray:
    """Return, for each event, the expected weight of the number N of other events that happened.

    This is the sum over j of ``weight[j] P(N = j)``: the derivative by ``not_yet`` of the same sum
    for all events, which is linear in it.

    Args:
        happened: probability of each event; shape (n_events, n_cases).
        not_yet: probability that it has not happened, separate because it may be tiny; same shape.
        weight: weight of 0, 1, 2, ... events, 0 for more; shape (n_counts, n_cases), not empty.

    Returns:
        Shape (n_events, n_cases).
    """
    counts, size = len(weight), len(happened)
    part = np.stack([not_yet, happened])[:counts]
    halves = []
    while part.shape[1] > 1:
        if part.shape[1] % 2:  # add an event that never happens
            never = np.zeros_like(part[:, :1])
            never[0] = 1.0
            part = np.concatenate([part, never], axis=1)
        middle = part.shape[1] // 2
        left, right = part[:, :middle], part[:, middle:]
        halves.append((left, right))
        part = _product(left, right, counts)
    slope = weight[: len(part), None]
    while halves:
        left, right = halves.pop()
        terms = len(left) if halves else 1  # for a leaf, the slope by `not_yet` is enough
        slope = np.concatenate([_slope(slope, right, terms), _slope(slope, left, terms)], axis=1)
        width = halves[-1][0].shape[1] if halves else size
        slope = slope[:, :width]
    return np.asarray(slope[0])


def _product(left: FloatArray, right: FloatArray, counts: int) -> FloatArray:
    """Multiply polynomials along the first axis, up to `counts` coefficients."""
    terms = len(left)
    result = np.zeros((min(2 * terms - 1, counts), *left.shape[1:]))
    for power in range(terms):
        result[power : power + terms] += left[power] * right[: len(result) - power]
    return result


def _slope(slope: FloatArray, other: FloatArray, terms: int) -> FloatArray:
    """Return the derivatives by a factor's coefficients from those by the product's."""
    result = np.zeros((terms, *other.shape[1:]))
    for power in range(min(len(other), len(slope))):
        part = slope[power : power + terms]
        result[: len(part)] += part * other[power]
    return result


# the number of floats held at once, small enough for a processor's cache
CHUNK = 1 << 16


def expected_attention(gaps: FloatArray, start: IntArray, weight: FloatArray) -> FloatArray:
    """Return the expected attention of each document under the policy, with errors below 1e-10.

    Args:
        gaps: gaps of the log-weights, sorted by weight within each query (`score_gaps`); (n_rows,).
        start: first row of each query, then n_rows; shape (n_queries + 1,).
        weight: attention on ranks 0, 1, 2, ..., 0 for later ranks; shape (n_ranks,), not empty.

    Returns:
        Shape (n_rows,); within a query, they sum to the weights of its min(n, n_ranks) ranks.
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
    owner, index = members(size[easy])
    result[first[easy][owner] + index] = mean[easy][owner]
    width = _rounded(size)
    for one in np.unique(width[~easy]).tolist():
        chosen = np.flatnonzero(~easy & (width == one))
        for part in _parts(chosen, one):
            _integrate(gaps, first[part], size[part], rank[part], one, weight, result)
    return _equal_for_ties(result, gaps, start)


def _equal_for_ties(values: FloatArray, gaps: FloatArray, start: IntArray) -> FloatArray:
    """Return values without rounding errors among documents of the same weight."""
    is_new = gaps > 0
    is_new[start[:-1][start[:-1] < len(gaps)]] = True
    if is_new.all():
        return values
    tie = np.cumsum(is_new) - 1
    return np.asarray((np.bincount(tie, weights=values) / np.bincount(tie))[tie])


def _blocks(gaps: FloatArray, start: IntArray, n_ranks: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return first row, end and first rank of the blocks with attention."""
    query = np.repeat(np.arange(len(start) - 1), np.diff(start))
    behind = start[1:][query] - np.arange(len(gaps))
    cut = gaps >= np.log(behind) - NEGLIGIBLE
    cut[start[:-1]] = True
    first = np.flatnonzero(cut)
    end = np.append(first[1:], len(gaps))
    rank = first - start[:-1][query[first]]
    ranked = rank < n_ranks
    return first[ranked], end[ranked], rank[ranked]


def _integrate(
    gaps: FloatArray,
    first: IntArray,
    size: IntArray,
    rank: IntArray,
    width: int,
    weight: FloatArray,
    result: FloatArray,
) -> None:
    """Add the expected attention in blocks of at most `width` documents to the result."""
    owner, index = members(size)
    drop = np.zeros((len(first), width))
    drop[owner, index] = gaps[first[owner] + index]
    drop[:, 0] = 0.0
    # by block, so that results do not depend on the others
    log_weight = np.where(np.arange(width) < size[:, None], -np.cumsum(drop, axis=1), -np.inf)
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


def _running(values: npt.NDArray[Any]) -> FloatArray:
    """Return the sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _rounded(size: IntArray) -> IntArray:
    """Return sizes rounded up to three binary digits, so that few of them differ."""
    unit = 2 ** np.maximum(np.floor(np.log2(np.maximum(size, 1))).astype(np.int64) - 2, 0)
    return np.asarray(-(-size // unit) * unit)


def _parts(chosen: IntArray, width: int) -> list[IntArray]:
    """Split indices into parts of at most `CHUNK` numbers."""
    step = max(1, CHUNK // max(1, width))
    return [chosen[at : at + step] for at in range(0, len(chosen), step)]


EVALUATIONS = 12
"""The maximum number of policy evaluations per query."""

Values = Callable[[FloatArray, IntArray], FloatArray]


def find_alphas(
    values: Values, even: FloatArray, steep: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return for each query an alpha whose value is in a range, and that value.

    Values should rise with alpha, from `even` at 0 to `steep` in the limit. The result is 0 if
    `even` is not below the range. If `steep` is below its upper end, the range is moved down to end
    at `steep`.

    With v the position of a value between `even` and `steep`, log(-log(1 - v)) is nearly linear in
    log alpha: v grows as alpha squared at first, and 1 - v vanishes exponentially. Once the value
    is bracketed, the secant method follows Anderson and Bjorck's rule, which moves both ends.

    Args:
        values: returns the values of queries; takes (alpha of each query, query indices).
        even: values at alpha 0, the uniform policy; shape (n_queries,).
        steep: values in the limit of large alpha; same shape.
        low: the lower end of the range; same shape.
        high: the upper end; above `low`.
    """
    width = high - low
    high = np.minimum(high, np.maximum(steep, even))
    low = np.minimum(low, high - width)
    alpha, value = np.zeros(len(even)), np.array(even)
    aim = (low + high) / 2

    def line(reached: FloatArray, query: IntArray) -> FloatArray:
        share = (reached - even[query]) / np.maximum(steep - even, 1e-300)[query]
        share = np.clip(share, 1e-15, 1 - 1e-15)
        return np.asarray(np.log(-np.log1p(-share)))

    query = np.flatnonzero(even < low)
    height = line(aim[query], query)
    # log alphas that are too small and too large, and their misses on that line
    below, above = np.full(len(query), -np.inf), np.full(len(query), np.inf)
    miss_below, miss_above = np.zeros(len(query)), np.zeros(len(query))
    index = np.full(len(query), np.log(3.0))
    for step in range(EVALUATIONS):
        tried = _short(np.exp(index))
        reached = values(tried, query)
        better = (step == 0) | (np.abs(reached - aim[query]) < np.abs(value[query] - aim[query]))
        alpha[query[better]], value[query[better]] = tried[better], reached[better]
        small = reached < low[query]
        miss = line(reached, query) - height
        again_below, again_above = small & (miss_below < 0), ~small & (miss_above > 0)
        miss_above = np.where(again_below, miss_above * _weaker(miss, miss_below), miss_above)
        miss_below = np.where(again_above, miss_below * _weaker(miss, miss_above), miss_below)
        below, miss_below = np.where(small, index, below), np.where(small, miss, miss_below)
        above, miss_above = np.where(small, above, index), np.where(small, miss_above, miss)
        left = small | (reached > high[query])
        if not left.any():
            break
        query, height, miss, index = query[left], height[left], miss[left], index[left]
        below, above = below[left], above[left]
        miss_below, miss_above = miss_below[left], miss_above[left]
        free = index - np.sign(miss) * np.clip(np.abs(miss) / 3, 0.1, 0.7) * 2.0**step
        closed = np.isfinite(below) & np.isfinite(above)
        share = -miss_below / np.where(closed, miss_above - miss_below, 1.0)
        if step in (6, 8):  # the function may be far from linear
            share = np.full(len(share), 0.5)
        gap = np.where(closed, above - below, 0.0)
        inside = np.where(closed, below, 0.0) + np.clip(share, 0.01, 0.99) * gap
        index = np.minimum(np.where(closed, inside, free), 700.0)
    return alpha, value


def _weaker(now: FloatArray, before: FloatArray) -> FloatArray:
    """Return the factor of one end's miss after the other end has moved twice in a row."""
    factor = 1.0 - now / np.where(before == 0, 1.0, before)
    return np.where(factor > 0, factor, 0.5)


def _short(alpha: FloatArray) -> FloatArray:
    """Return numbers rounded to six digits, so that rounding errors do not matter."""
    return np.array([float(f"{one:.6g}") for one in alpha.tolist()])
