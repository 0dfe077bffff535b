"""The stages of a race in which no document outweighs the rest: draws with replacement."""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray
from fairtk.plackett_luce.arrivals import DRAWS, Placed, draw, first_draws, take, with_repeats
from fairtk.plackett_luce.streams import Stream


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
