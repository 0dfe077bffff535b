"""What the stages of a race share: places taken so far, draws, exponential times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.frames.arrays import BoolArray, FloatArray, IntArray

# the first stage takes at most so many heavy documents and so many light draws; each later stage
# takes twice as many, as long as a stage stays below a quarter of the documents
HEAVY, DRAWS = 16, 8


class Placed:
    """What the samples have so far.

    Attributes:
        ranked: documents by place; shape (n_samples, places).
        filled: how many places of each sample are filled; shape (n_samples,).
        rows: the samples that still lack places, ascending.
    """

    def __init__(self, n_samples: int, places: int) -> None:
        self.ranked = np.empty((n_samples, places), dtype=np.int64)
        self.filled = np.zeros(n_samples, dtype=np.int64)
        self.rows = np.arange(n_samples)

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
