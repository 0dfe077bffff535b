"""Trade-offs of two values: who is dominated, and what equal utility costs. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairtk.frames.arrays import BoolArray, FloatArray

_ROUNDING = 1e-9
"""A gap that is none."""


def dominated(x: FloatArray, y: FloatArray, lower: Sequence[bool]) -> BoolArray:
    """Return which points another one is at least as good as in both values, and better in one.

    Args:
        x: first values; shape (n_points,). A point with NaN neither dominates nor is dominated.
        y: second values.
        lower: whether lower is better in x, and in y.
    """
    gaps = []
    for values, low in zip((x, y), lower, strict=True):
        signed = -values if low else values
        gaps.append(signed[:, None] - signed)
    as_good = (gaps[0] >= -_ROUNDING) & (gaps[1] >= -_ROUNDING)
    better = (gaps[0] > _ROUNDING) | (gaps[1] > _ROUNDING)
    return np.asarray((as_good & better).any(axis=0), dtype=bool)


def price(x: FloatArray, y: FloatArray, level: float, lower: Sequence[bool]) -> FloatArray:
    """Return the best x at which y is at least as good as a level, along curves of straight lines.

    Args:
        x: places of the points of each curve, in their order; shape (n_curves, n_points).
        y: their heights.
        level: the height.
        lower: whether lower is better in x, and in y.

    Returns:
        Shape (n_curves,); NaN where a curve never reaches the level.
    """
    away = (level - y) if lower[1] else (y - level)  # at least 0: good enough
    found = np.where(away >= 0, x, np.nan)
    start, end = away[:, :-1], away[:, 1:]
    crosses = (start < 0) != (end < 0)
    part = np.divide(start, start - end, out=np.zeros_like(start), where=crosses)
    between = np.where(crosses, x[:, :-1] + part * (x[:, 1:] - x[:, :-1]), np.nan)
    every = np.concatenate([found, between], axis=1)
    worst = np.inf if lower[0] else -np.inf
    filled = np.where(np.isnan(every), worst, every)
    best = filled.min(axis=1) if lower[0] else filled.max(axis=1)
    return np.where(np.isinf(best), np.nan, best)


def drawn_queries(n: int, resamples: int, seed: int) -> FloatArray:
    """Return how often each of n queries is in each resample, divided by n; shape (resamples, n).

    The first row stands for the queries as they are.
    """
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=resamples)
    return np.concatenate([np.ones((1, n)), drawn]) / n


def interval(values: FloatArray, confidence: float) -> tuple[float, float]:
    """Return the percentile interval of resampled values; NaN if under half are defined."""
    defined = values[~np.isnan(values)]
    if 2 * len(defined) < len(values) or len(defined) < 2:
        return np.nan, np.nan
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
