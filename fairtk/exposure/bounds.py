"""The values of EE-D, EE-R and EE-L with their bounds, as the paper and as published code have it.

Three variants: ``paper`` (Towards Fair RAG, Eqs. 3 to 6 and Appendix C, and Diaz et al. 2020),
``fair-rag`` (the code that was published with the former) and ``expeval`` (the code published with
the latter). The two codes depart from their papers; the departures are kept so that published
numbers can be reproduced, and are listed in the docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairtk.exposure.browsing import GERR, RBP, BrowsingModel
from fairtk.exposure.expected import (
    Levels,
    ideal_attention,
    rank_square,
    target_exposure,
    total,
    worst_relevance,
)
from fairtk.frames.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bound of one measure; each of shape (n_queries,)."""

    lower: FloatArray
    upper: FloatArray

    def normalize(self, value: FloatArray) -> FloatArray:
        """Return (value - lower) / (upper - lower), NaN where the two bounds are equal."""
        width = self.upper - self.lower
        flat = ~(width > 1e-12 * np.maximum(np.abs(self.upper), 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(flat, np.nan, (value - self.lower) / np.where(flat, 1.0, width))


@dataclass(frozen=True)
class ExposureValues:
    """EE-D, EE-R and EE-L of all queries with their bounds; arrays have shape (n_queries,).

    Attributes:
        disparity: EE-D, the squared norm of exposure.
        relevance: EE-R, the inner product of exposure and target.
        loss: EE-L, the squared distance of exposure and target.
        disparity_bounds: bounds of EE-D.
        relevance_bounds: bounds of EE-R.
        loss_bounds: bounds of EE-L.
        degenerate: normalized EE-D, EE-R and EE-L where the two bounds are equal.
    """

    disparity: FloatArray
    relevance: FloatArray
    loss: FloatArray
    disparity_bounds: Bounds
    relevance_bounds: Bounds
    loss_bounds: Bounds
    degenerate: tuple[float, float, float] = (np.nan, np.nan, np.nan)


def values_and_bounds(
    exposure: FloatArray,
    pair_query: IntArray,
    levels: Levels,
    model: BrowsingModel,
    cutoff: int | None,
    *,
    exact: bool,
) -> ExposureValues:
    """Return the values of the paper's definition.

    Bounds "as in the paper": EE-D in [0, sum of squared weights], EE-R in [0, squared norm of the
    target], EE-L in [0, the sum of both upper bounds]. Exact bounds are those that a policy over
    full rankings of the query's n documents can reach: EE-D is at least (sum of weights)^2 / n,
    and EE-R at least that of the worst fixed order. Under `GERR` the lower bound of EE-D is valid
    but not always reachable; EE-R has no exact bounds there (NaN): a stop higher up changes the
    attention of everything below, so the target's order is not always the best one.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        levels: the levels of usefulness, with the one of what is not useful.
        model: the browsing model.
        cutoff: the measure's cutoff, or None. It is clipped to n.
        exact: whether the bounds are the exact ones.
    """
    n_queries = levels.n_queries
    n = levels.n_documents
    target = target_exposure(levels, model, cutoff)
    disparity = total(pair_query, exposure**2, n_queries)
    relevance = _inner(exposure, target, pair_query, levels)
    square = levels.per_query(levels.size * target**2)
    zero = np.zeros(n_queries)
    highest = rank_square(model, cutoff, n)
    if not exact:
        return ExposureValues(
            disparity,
            relevance,
            disparity - 2 * relevance + square,
            Bounds(zero, highest),
            Bounds(zero, square),
            Bounds(zero, highest + square),
        )
    shown = ideal_attention(model, cutoff, n, levels.n_useful)
    with np.errstate(invalid="ignore", divide="ignore"):
        lowest = np.where(n > 0, shown**2 / np.maximum(n, 1), 0.0)
    worst = worst_relevance(levels, target, model, cutoff)
    if model.stop > 0:
        worst = np.full(n_queries, np.nan)
    return ExposureValues(
        disparity,
        relevance,
        disparity - 2 * relevance + square,
        Bounds(lowest, highest),
        Bounds(worst, square),
        Bounds(zero, highest - 2 * worst + square),
    )


def fair_rag_values(
    exposure: FloatArray,
    pair_query: IntArray,
    levels: Levels,
    cutoff: int,
    n_judged: IntArray,
) -> ExposureValues:
    """Return what the code published with Towards Fair RAG computes.

    Departures from the paper: documents that are not useful have no target, though the bound of
    EE-R counts them; n is the number of labeled documents, even where others are retrieved; the
    cutoff is not clipped to n; EE-L is divided by the sum of the bounds of EE-R and EE-D. Where
    all n documents are useful and fit, the code divides by zero: NaN here.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        levels: one level per query, of the useful documents alone.
        cutoff: the number k of documents that the machine user reads.
        n_judged: number of labeled documents of each query; shape (n_queries,).
    """
    n_queries = levels.n_queries
    m = levels.n_useful.astype(np.float64)
    rest = n_judged - m
    target = np.minimum(1.0, cutoff / levels.size)
    disparity = total(pair_query, exposure**2, n_queries)
    relevance = _inner(exposure, target, pair_query, levels)
    square = levels.per_query(levels.size * target**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = m + (cutoff - m) ** 2 / rest
        highest = np.where(m <= cutoff, np.where(rest > 0, fits, np.nan), cutoff**2 / m)
    zero = np.zeros(n_queries)
    return ExposureValues(
        disparity,
        relevance,
        disparity - 2 * relevance + square,
        Bounds(zero, np.full(n_queries, float(cutoff))),
        Bounds(zero, highest),
        Bounds(zero, highest + cutoff),
    )


def expeval_values(
    exposure: FloatArray,
    pair_query: IntArray,
    levels: Levels,
    model: RBP | GERR,
    *,
    complete: bool,
) -> ExposureValues:
    """Return what expeval, the code published with Diaz et al. 2020, computes.

    Departures from the paper: with `complete=False` only useful documents have a target and the
    bounds assume infinitely many documents; grades of 0 and below are levels of their own; for
    `GERR` the bounds of EE-R and EE-L and the lower bound of EE-D use p u where p (1 - u) is
    meant; the upper bound of EE-L adds 1 / (1 - p) where 1 / (1 - p^2) is meant; with one level
    alone the normalized EE-R is 1 by default. There is no cutoff.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        levels: a level for each grade of the labeled documents (`complete`), or of the useful
            ones alone.
        model: the browsing model, with p below 1.
        complete: whether the labels are taken to cover all documents.
    """
    n_queries = levels.n_queries
    p, size, above = model.p, levels.size, levels.above
    cascade = _block_mean(p * (1.0 - model.stop), above, size)
    plain = (1.0 - model.stop) ** above * _block_mean(p, above, size)
    target = np.where(levels.useful, cascade, plain)

    disparity = total(pair_query, exposure**2, n_queries)
    relevance = _inner(exposure, target, pair_query, levels)
    square = levels.per_query(size * target**2)
    zero = np.zeros(n_queries)
    slip = p * model.stop if isinstance(model, GERR) else p
    if complete:
        n = levels.n_documents
        start = np.zeros_like(n)
        highest = n * _block_mean(p**2, start, n)
        lowest = n * _block_mean(slip, start, n) ** 2
        below = n[levels.query] - above - size
        worst = levels.per_query(target * size * _block_mean(slip, below, size))
        upper_loss = n * _block_mean(slip**2, start, n) - 2 * worst + square
    else:
        highest = np.full(n_queries, 1.0 / (1.0 - p**2))
        lowest = zero
        several = np.bincount(levels.query, minlength=n_queries) > 1
        worst = np.where(several, 0.0, square)
        upper_loss = square + 1.0 / (1.0 - slip)
    return ExposureValues(
        disparity,
        relevance,
        disparity - 2 * relevance + square,
        Bounds(lowest, highest),
        Bounds(worst, square),
        Bounds(zero, upper_loss),
        degenerate=(0.0, 1.0, 0.0),
    )


def _block_mean(p: float, begin: IntArray, size: IntArray) -> FloatArray:
    """Return the mean of p^i over the ranks begin <= i < begin + size; 0 for an empty block."""
    base = float(p)
    block = (base**begin - base ** (begin + size)) / (1.0 - base)
    return np.asarray(block / np.maximum(size, 1))


def _inner(
    exposure: FloatArray, target: FloatArray, pair_query: IntArray, levels: Levels
) -> FloatArray:
    padded = np.append(target, 0.0)  # index -1: no target
    products = exposure * padded[levels.of_pair]
    return total(pair_query, products, levels.n_queries)
