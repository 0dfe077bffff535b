"""Tests by resampling the differences of pairs."""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import FloatArray
from fairtk.statistics.samples import batches

_EXACT = 20
"""Up to so many differences, all sign flips are counted: half a million sums."""
_EQUAL = 1e-12
"""Sums that differ by less, relative to the largest possible sum, are equal."""


def sign_flips(differences: FloatArray, resamples: int, seed: int) -> float:
    """Return the two-sided p-value of the randomization test (Fisher's, by signs).

    Under the null hypothesis each difference could as well have the other sign. The p-value is the
    share of all sign flips whose mean is at least as far from 0 as the mean that was found: exact
    for up to 20 differences other than 0, by drawn flips beyond. Then it is
    (1 + hits) / (1 + resamples), never 0 (Phipson and Smyth 2010).

    Args:
        differences: shape (n,), not all 0.
        resamples: how many flips are drawn.
        seed: of the draws.
    """
    moved = differences[differences != 0]
    whole = float(np.abs(moved).sum())
    least = abs(float(moved.sum())) - _EQUAL * whole
    if len(moved) <= _EXACT:
        sums = moved[:1]  # the mirrored half is equal by symmetry
        for value in moved[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= least).mean())
    generator = np.random.default_rng(seed)
    hits = 0
    for size in batches(resamples, len(moved)):
        drawn = generator.integers(0, 256, (size, -(-len(moved) // 8)), dtype=np.uint8)
        kept = np.unpackbits(drawn, axis=1, count=len(moved)).astype(np.float64)
        hits += int((np.abs(2 * (kept @ moved) - moved.sum()) >= least).sum())
    return (1 + hits) / (1 + resamples)


def studentized(differences: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Return how far means of resamples are from the mean found, in their own standard errors.

    The absolute bootstrap-t statistics, sorted (Efron and Tibshirani 1993, chapters 12 and 16;
    Sakai 2006 for retrieval). A resample of equal values has no spread: infinity, unless its mean
    is the mean found.

    Args:
        differences: shape (n,), with spread.
        resamples: of the bootstrap.
        seed: of the draws.

    Returns:
        shape (resamples,).
    """
    generator = np.random.default_rng(seed)
    n, mean = len(differences), differences.mean()
    centered = differences - mean
    least = _EQUAL * np.abs(differences).max()
    parts = []
    for size in batches(resamples, n):
        drawn = centered[generator.integers(0, n, (size, n))]
        away = np.abs(drawn.mean(axis=1))
        error = drawn.std(axis=1, ddof=1) / np.sqrt(n)
        flat = error <= least
        ratio = np.divide(away, error, out=np.zeros(size), where=~flat)
        ratio[flat & (away > least)] = np.inf
        parts.append(ratio)
    return np.sort(np.concatenate(parts))
