"""EE-D, EE-R and EE-L as the codes published with two papers compute them.

``fair-rag`` is the code of Towards Fair RAG, ``expeval`` that of Diaz et al. 2020. Both depart from
their papers; the departures are kept so that published numbers can be reproduced, and are listed in
the docstrings.
"""

from __future__ import annotations

import numpy as np

from fairtk.exposure.bounds import (
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
    Bounded,
    ExposureValues,
)
from fairtk.exposure.browsing import GERR, RBP
from fairtk.exposure.expected import Grades, inner, total
from fairtk.frames.arrays import FloatArray, IntArray


def fair_rag_values(
    exposure: FloatArray,
    pair_query: IntArray,
    grades: Grades,
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
        grades: one grade per query, of the useful documents alone.
        cutoff: the number k of documents that the machine user reads.
        n_judged: number of labeled documents of each query; shape (n_queries,).
    """
    n_queries = grades.n_queries
    m = grades.n_useful.astype(np.float64)
    rest = n_judged - m
    target = np.minimum(1.0, cutoff / grades.size)
    disparity = total(pair_query, exposure**2, n_queries)
    relevance = inner(exposure, target, pair_query, grades)
    square = grades.per_query(grades.size * target**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = m + (cutoff - m) ** 2 / rest
        highest = np.where(m <= cutoff, np.where(rest > 0, fits, np.nan), cutoff**2 / m)
    zero, all_read = np.zeros(n_queries), np.full(n_queries, float(cutoff))
    worst_loss = np.where(np.isnan(highest), square, highest) + cutoff
    loss = disparity - 2 * relevance + square
    why = "the upper bound of EE_R is a division by 0 there, as all n documents are useful"
    return ExposureValues(
        Bounded.of_code(disparity, zero, all_read, all_read, LOWER_IS_BETTER),
        Bounded.of_code(relevance, zero, highest, zero, HIGHER_IS_BETTER, why=why),
        Bounded.of_code(loss, zero, highest + cutoff, worst_loss, LOWER_IS_BETTER, why=why),
    )


def expeval_values(
    exposure: FloatArray,
    pair_query: IntArray,
    grades: Grades,
    model: RBP,
    *,
    complete: bool,
) -> ExposureValues:
    """Return what expeval, the code published with Diaz et al. 2020, computes.

    Departures from the paper: with `complete=False` only useful documents have a target and the
    bounds assume infinitely many documents; grades of 0 and below stay apart; for
    `GERR` the bounds of EE-R and EE-L and the lower bound of EE-D use p u where p (1 - u) is
    meant; the upper bound of EE-L adds 1 / (1 - p) where 1 / (1 - p^2) is meant; with one grade
    alone the normalized EE-R is 1 by default. There is no cutoff.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        grades: those of the labeled documents (`complete`), or of the useful
            ones alone.
        model: the browsing model, with p below 1.
        complete: whether the labels are taken to cover all documents.
    """
    n_queries = grades.n_queries
    p, size, above = model.p, grades.size, grades.above
    cascade = _block_mean(p * (1.0 - model.stop), above, size)
    plain = (1.0 - model.stop) ** above * _block_mean(p, above, size)
    target = np.where(grades.useful, cascade, plain)

    disparity = total(pair_query, exposure**2, n_queries)
    relevance = inner(exposure, target, pair_query, grades)
    square = grades.per_query(size * target**2)
    zero = np.zeros(n_queries)
    slip = p * model.stop if isinstance(model, GERR) else p
    if complete:
        n = grades.n_documents
        start = np.zeros_like(n)
        highest = n * _block_mean(p**2, start, n)
        lowest = n * _block_mean(slip, start, n) ** 2
        below = n[grades.query] - above - size
        worst = grades.per_query(target * size * _block_mean(slip, below, size))
        upper_loss = n * _block_mean(slip**2, start, n) - 2 * worst + square
    else:
        highest = np.full(n_queries, 1.0 / (1.0 - p**2))
        lowest = zero
        several = np.bincount(grades.query, minlength=n_queries) > 1
        worst = np.where(several, 0.0, square)
        upper_loss = square + 1.0 / (1.0 - slip)
    # no attention falls faster than this; the code's lower bound of EE-R holds if it is not faster
    fastest = p * (1.0 - model.stop)
    least = worst if complete and slip <= fastest else zero
    loss = disparity - 2 * relevance + square
    return ExposureValues(
        Bounded.of_code(disparity, lowest, highest, highest, LOWER_IS_BETTER, 0.0),
        Bounded.of_code(relevance, worst, square, zero, HIGHER_IS_BETTER, 1.0, farthest=least),
        Bounded.of_code(
            *(loss, zero, upper_loss, highest + square, LOWER_IS_BETTER, 0.0),
            farthest=highest - 2 * least + square,
        ),
    )


def _block_mean(p: float, begin: IntArray, size: IntArray) -> FloatArray:
    """Return the mean of p^i over the ranks begin <= i < begin + size; 0 for an empty block."""
    base = float(p)
    block = (base**begin - base ** (begin + size)) / (1.0 - base)
    return np.asarray(block / np.maximum(size, 1))
