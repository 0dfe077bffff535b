"""Where the race is looked at: panels of log-times, and the documents undecided in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray

NEGLIGIBLE = np.log(1e-14)
"""Logarithm of what is left out: in the tails, and of documents whose fate is certain."""

SURELY = np.log(34.0)
"""Log of rate times time from which a document has arrived: exp(-34) = 2e-15."""

# Equal steps of log-time err by about exp(-2 pi width / step), where width is that of the strip
# in which the integrand is analytic; it narrows as more arrivals are waited for.
STEP, STEP_OF_MANY = 0.25, 0.6
# Before the first arrivals nothing happens for 32 nats. Times log t = s - exp(-s - KNEE) pass over
# these in 3 nats of s, and are s itself after.
KNEE = 1.5
PANEL = 8


@dataclass(frozen=True)
class Panels:
    """Nodes of the integrals of many races, in panels of `PANEL` nodes."""

    race: IntArray  # race of each panel; shape (n_panels,)
    time: FloatArray  # log-times; shape (n_panels, PANEL)
    step: FloatArray  # how much of log-time each node stands for; same shape
    begin: IntArray  # documents before it have arrived by then; shape (n_panels,)
    end: IntArray  # documents from it on have not; shape (n_panels,)


def arrival_panels(log_weight: FloatArray, waited: IntArray) -> Panels:
    """Return the panels of races that end when so many documents have arrived.

    Args:
        log_weight: descending, -inf where a race has no more; shape (n_races, n_documents).
        waited: how many arrivals, at most the documents of the race; shape (n_races,).
    """
    rest = np.logaddexp.accumulate(log_weight[:, ::-1], axis=1)[:, ::-1]
    origin = -rest[:, 0]  # when one arrival is expected
    low = _before(NEGLIGIBLE)
    high = np.maximum(_last_time(log_weight, waited, origin) - origin, 0.0)
    step = np.minimum(STEP, STEP_OF_MANY / np.sqrt(waited))
    per_race = np.ceil(((high - low) / step + 1) / PANEL).astype(np.int64)
    race = np.repeat(np.arange(len(waited)), per_race)
    number = np.arange(len(race)) - np.repeat(np.cumsum(per_race) - per_race, per_race)
    place = low + step[race, None] * (PANEL * number[:, None] + np.arange(PANEL))
    fading = np.exp(-place - KNEE)
    time = origin[race, None] + place - fading
    begin, end = np.empty_like(race), np.empty_like(race)
    last = np.cumsum(per_race).tolist()
    for one, its in enumerate(map(slice, [0, *last], last)):  # both sorted: a search each
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
    """Return a log-time by which so many have arrived, but for a negligible probability.

    The heaviest ones have by one time; by another, often earlier, so many are expected that
    Chernoff's bound of the Poisson-binomial's lower tail is negligible.
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
