"""The best and the worst that AWRF can be once unknown groups become known."""

from __future__ import annotations

import numpy as np

from fairtk.divergence import Distributions, SparseRows, js_divergence
from fairtk.frames.arrays import BoolArray, FloatArray


def jensen_shannon_bounds(
    shown: SparseRows,
    free: FloatArray,
    target: Distributions,
    known: BoolArray,
    base: float | str = "e",
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest divergence over all ways to label what is unknown.

    A completion gives each piece of free attention to known levels, in any mixture. The target is
    taken over the known levels alone (divided by its known part), since nothing is unknown after a
    completion. The divergence is convex in what is given, so the largest value is reached by giving
    all to one level; the smallest by raising the lowest ratios of exposure to target to one height,
    like water. That can split a document between levels: with whole documents only, the smallest
    value may be a little larger, the largest is exact. Both have shape (n_rows,), and are NaN where
    nothing is shown or the target has no known part.
    """
    places = np.flatnonzero(known)
    wanted = target.expanded().dense()[:, places]
    fixed = shown.dense()[:, places]
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = wanted / wanted.sum(axis=1, keepdims=True)
    goal = _rows(np.nan_to_num(wanted))
    lowest = js_divergence(_rows(_filled(fixed, free, np.nan_to_num(wanted))), goal, base)
    highest = np.full(len(free), -np.inf)
    for level in range(len(places)):
        given = fixed.copy()
        given[:, level] += free
        highest = np.maximum(highest, js_divergence(_rows(given), goal, base))
    return lowest, np.where(np.isfinite(highest), highest, np.nan)


def _filled(fixed: FloatArray, free: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the completion whose ratios to the target are as even as they can be."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(wanted > 0, fixed / wanted, np.inf)
        order = np.argsort(ratio, axis=1, kind="stable")
        below = np.cumsum(np.take_along_axis(wanted, order, axis=1), axis=1)
        held = np.cumsum(np.take_along_axis(fixed, order, axis=1), axis=1)
        # the height if the first j levels are filled; the true set of levels gives the lowest
        used = np.isfinite(np.take_along_axis(ratio, order, axis=1))
        height = np.where(used, (held + free[:, None]) / below, np.inf).min(axis=1)
    height = np.where(np.isfinite(height), height, 0.0)
    return np.maximum(fixed, height[:, None] * wanted)


def _rows(dense: FloatArray) -> SparseRows:
    row, cell = np.nonzero(dense)
    return SparseRows(row, cell, dense[row, cell], *dense.shape)
