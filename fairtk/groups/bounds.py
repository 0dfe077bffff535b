"""Bounds of a divergence over all ways to label documents of unknown group."""

from __future__ import annotations

import numpy as np

from fairtk.frames import BoolArray, FloatArray
from fairtk.groups.divergences import js_divergence
from fairtk.groups.rows import Distributions, SparseRows


def jensen_shannon_bounds(
    shown: SparseRows,
    free: FloatArray,
    target: Distributions,
    known: BoolArray,
    base: float | str = "e",
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest divergence over all ways to label unknown documents.

    The free attention goes to known levels, in any mixture, and the target is restricted to them.
    The divergence is convex, so the largest value assigns all free attention to one level, and the
    smallest raises the lowest ratios of exposure to target to a common height (water-filling). The
    latter may split a document between levels, so it is a lower bound for whole documents.

    Args:
        shown: the exposure of groups.
        free: the attention of unknown documents; shape (n_rows,).
        target: the target; one row per row of exposure.
        known: whether each level is known; shape (n_levels,).
        base: the base of the logarithm.

    Returns:
        Two arrays of shape (n_rows,); NaN without exposure, or without known levels in the target.
    """
    indices = np.flatnonzero(known)
    share = target.expanded().dense()[:, indices]
    fixed = shown.dense()[:, indices]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(share / share.sum(axis=1, keepdims=True))
    lowest = js_divergence(_filled(fixed, free, share), share, base)
    highest = np.full(len(free), -np.inf)
    for level in np.eye(len(indices)):
        completion = fixed + free[:, None] * level
        highest = np.maximum(highest, js_divergence(completion, share, base))
    return lowest, np.where(np.isfinite(highest), highest, np.nan)


def _filled(fixed: FloatArray, free: FloatArray, share: FloatArray) -> FloatArray:
    """Return the exposure with the free attention added at the lowest ratios to the target."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = fixed / share  # infinite or NaN for levels without a target, which come last
        order = np.argsort(ratio, axis=1, kind="stable")
        below = np.cumsum(np.take_along_axis(share, order, axis=1), axis=1)
        held = np.cumsum(np.take_along_axis(fixed, order, axis=1), axis=1)
        # the height if the first j levels are filled; the minimum is the true height
        used = np.isfinite(np.take_along_axis(ratio, order, axis=1))
        height = np.where(used, (held + free[:, None]) / below, np.inf).min(axis=1)
    height = np.where(np.isfinite(height), height, 0.0)
    return np.maximum(fixed, height[:, None] * share)
