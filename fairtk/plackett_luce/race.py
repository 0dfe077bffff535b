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
import numpy.typing as npt

from fairtk.errors import InputError
from fairtk.plackett_luce.scaling import weight_gaps
from fairtk.plackett_luce.streams import Stream

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# (most heavy documents, light draws) of each stage; a stage runs only if it is small against n
STAGES = ((32, 8), (128, 32), (512, 128), (2048, 512))
# a document is light if it has at most this share of the weight of itself and all after it
LIGHT_SHARE = 1 / 16
# exp() of smaller numbers is too coarse (subnormal, 0) to build probabilities from
TINY = -600.0
# numbers held at once by the last stage
CHUNK = 1 << 22


def sample_rankings(
    log_weights: npt.ArrayLike,
    n_samples: int,
    cutoff: int | None = None,
    *,
    seed: int = 42,
    key: str = "",
) -> IntArray:
    """Draw rankings of one query from the Plackett-Luce policy with the given log-weights.

    Args:
        log_weights: finite log-weights in nats, in any order; shape (n,).
        n_samples: number of rankings.
        cutoff: places per ranking; all n if None or larger than n.
        seed: the seed.
        key: the name of the stream, e.g. the qid.

    Returns:
        Indexes into `log_weights`, best first; shape (n_samples, min(cutoff, n)).

    Raises:
        InputError: a log-weight is NaN or infinite.
    """
    weights = np.asarray(log_weights, dtype=np.float64)
    if weights.ndim != 1:
        raise InputError(f"log-weights must be one-dimensional; found shape {weights.shape}")
    descending = np.argsort(-weights, kind="stable")
    stream = Stream(seed)
    stream.open(key)
    places = len(weights) if cutoff is None else min(cutoff, len(weights))
    drawn = race(weight_gaps(weights[descending]), n_samples, places, stream)
    return descending.astype(np.int64)[drawn]


def race(gaps: FloatArray, n_samples: int, places: int, stream: Stream) -> IntArray:
    """Draw rankings from gaps of log-weights.

    Args:
        gaps: as `score_gaps` and `weight_gaps` give them for one query; shape (n,).
        n_samples: number of rankings.
        places: places per ranking, at most n.
        stream: the random numbers, opened at the query.

    Returns:
        Indexes into the documents as sorted by weight; shape (n_samples, places).
    """
    size = len(gaps)
    ranked = np.empty((n_samples, places), dtype=np.int64)
    filled = np.zeros(n_samples, dtype=np.int64)
    rows = np.arange(n_samples)
    if n_samples == 0 or places == 0:
        return ranked
    log_weight = -np.cumsum(gaps)
    log_weight -= log_weight[0]
    stages = [s for s in STAGES if 2 * sum(s) <= size]
    # log(0) is a time of exactly 0 or a weight of exactly 0: both sort as they should
    with np.errstate(divide="ignore"):
        split = _flat_from(log_weight, stages[-1][0]) if stages else 0
        for number, (heavy, draws) in enumerate(stages):
            field = _Field(log_weight, min(split, heavy), draws)
            field.run(stream, number, rows, ranked, filled)
            rows = rows[filled[rows] < places]
            if len(rows) == 0:
                return ranked
        step = max(1, CHUNK // size)
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            _finish(log_weight, stream, len(STAGES), some, ranked, filled)
    return ranked


def _flat_from(log_weight: FloatArray, most: int) -> int:
    """Return how many documents are heavy, at most `most`."""
    weight = np.exp(log_weight)
    rest = weight[::-1].cumsum()[::-1]
    head = weight[:most]
    light = (head <= LIGHT_SHARE * rest[:most]) & (log_weight[:most] > TINY)
    found = int(light.argmax())
    return found if light[found] else most


class _Field:
    """The runners of one stage: heavy documents, and the light rest as one process."""

    def __init__(self, log_weight: FloatArray, heavy: int, draws: int) -> None:
        self.heavy = heavy
        self.draws = draws
        self.log_weight = log_weight
        light = log_weight[heavy:]
        # relative to the lightest scale that exp() still resolves
        self.reference = 0.0 if light[0] > TINY else float(light[0])
        self.cumulated = np.exp(light - self.reference).cumsum()

    def run(
        self,
        stream: Stream,
        stage: int,
        rows: npt.NDArray[np.intp],
        ranked: IntArray,
        filled: IntArray,
    ) -> None:
        """Run the stage for some samples and write what arrives behind what they have."""
        heavy, draws = self.heavy, self.draws
        uniform = stream.some_rows(stage, rows, draws + (heavy + draws if heavy else 0))
        total = self.cumulated[-1]
        light = self.cumulated.searchsorted(uniform[:, :draws] * total, side="right")
        np.minimum(light, len(self.cumulated) - 1, out=light)
        light += heavy
        places = ranked.shape[1]
        if stage == 0 and not heavy:
            self._place_flat(light, places, ranked, filled)
            return
        fresh = _first_draws(light)
        seen = None
        if filled[rows].any():
            seen = _seen(ranked, filled, rows, len(self.log_weight))
            fresh &= ~np.take_along_axis(seen, light, axis=1)
        if not heavy:
            order = np.argsort(~fresh, axis=1, kind="stable")
            _append(np.take_along_axis(light, order, 1), fresh.sum(1), rows, ranked, filled)
            return
        log_time = np.empty((len(rows), heavy + draws))
        log_time[:, :heavy] = _log_exponential(uniform[:, draws : draws + heavy])
        log_time[:, :heavy] -= self.log_weight[:heavy]
        if seen is not None:
            log_time[:, :heavy][seen[:, :heavy]] = np.inf
        waits = -np.log(1.0 - uniform[:, draws + heavy :])
        log_time[:, heavy:] = np.log(waits.cumsum(axis=1)) - (np.log(total) + self.reference)
        horizon = log_time[:, -1:].copy()
        log_time[:, heavy:][~fresh] = np.inf
        runners = np.concatenate(
            [np.broadcast_to(np.arange(heavy), (len(rows), heavy)), light], axis=1
        )
        order = np.argsort(log_time, axis=1, kind="stable")
        arrived = (log_time <= horizon).sum(axis=1)
        _append(np.take_along_axis(runners, order, 1), arrived, rows, ranked, filled)

    @staticmethod
    def _place_flat(light: IntArray, places: int, ranked: IntArray, filled: IntArray) -> None:
        """Place the first draws of all samples where no document is heavy (the common case)."""
        width = min(places, light.shape[1])
        ranked[:, :width] = light[:, :width]
        filled[:] = width
        in_order = np.sort(light, axis=1)
        doubtful = np.flatnonzero((in_order[:, 1:] == in_order[:, :-1]).any(axis=1))
        if len(doubtful):
            light = light[doubtful]
            fresh = _first_draws(light)
            order = np.argsort(~fresh, axis=1, kind="stable")[:, :width]
            ranked[doubtful, :width] = np.take_along_axis(light, order, 1)
            filled[doubtful] = np.minimum(fresh.sum(axis=1), width)


def _finish(
    log_weight: FloatArray,
    stream: Stream,
    stage: int,
    rows: npt.NDArray[np.intp],
    ranked: IntArray,
    filled: IntArray,
) -> None:
    """Give every document that is left its own arrival, and fill the samples up."""
    size = len(log_weight)
    places = ranked.shape[1]
    log_time = _log_exponential(stream.some_rows(stage, rows, size))
    log_time -= log_weight
    if filled[rows].any():
        log_time[_seen(ranked, filled, rows, size)] = np.inf
    missing = places - int(filled[rows].min())
    if missing * 8 < size:
        nearest = np.argpartition(log_time, missing - 1, axis=1)[:, :missing]
        within = np.argsort(np.take_along_axis(log_time, nearest, 1), axis=1)
        order = np.take_along_axis(nearest, within, 1)
    else:
        order = np.argsort(log_time, axis=1)[:, :missing]
    _append(order, places - filled[rows], rows, ranked, filled)


def _log_exponential(uniform: FloatArray) -> FloatArray:
    """Return the logarithm of standard exponential variates."""
    time = np.subtract(1.0, uniform)  # (0, 1]
    np.log(time, out=time)
    np.negative(time, out=time)
    return np.asarray(np.log(time, out=time))


def _first_draws(drawn: IntArray) -> npt.NDArray[np.bool_]:
    """Return where a document is drawn for the first time in its row."""
    if drawn.shape[1] <= 8:
        same = drawn[:, :, None] == drawn[:, None, :]
        same &= np.tri(drawn.shape[1], k=-1, dtype=bool)
        return np.asarray(~same.any(axis=2))
    order = np.argsort(drawn, axis=1, kind="stable")
    in_order = np.take_along_axis(drawn, order, 1)
    first = np.ones(drawn.shape, dtype=bool)
    np.put_along_axis(first, order[:, 1:], in_order[:, 1:] != in_order[:, :-1], 1)
    return first


def _seen(
    ranked: IntArray, filled: IntArray, rows: npt.NDArray[np.intp], size: int
) -> npt.NDArray[np.bool_]:
    """Return which documents each sample has placed already; shape (len(rows), size)."""
    seen = np.zeros((len(rows), size), dtype=bool)
    most = int(filled[rows].max())
    line, place = np.nonzero(np.arange(most) < filled[rows][:, None])
    seen[line, ranked[rows[line], place]] = True
    return seen


def _append(
    order: IntArray,
    count: IntArray,
    rows: npt.NDArray[np.intp],
    ranked: IntArray,
    filled: IntArray,
) -> None:
    """Write the first `count` of each row of `order` behind what the samples have."""
    places = ranked.shape[1]
    have = filled[rows]
    count = np.minimum(count, places - have)
    if not have.any() and int(count.min()) == places:
        ranked[rows] = order[:, :places]
    else:
        line, place = np.nonzero(np.arange(order.shape[1]) < count[:, None])
        ranked[rows[line], have[line] + place] = order[line, place]
    filled[rows] = have + count
