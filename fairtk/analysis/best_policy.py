"""The best that a policy can reach at a disparity: over the labels, and for given scores.

The exposures that policies over rankings can have are the permutahedron of the weights w of ranks:
e is one of them if its sum is that of w and its j largest values sum to at most the j largest
weights, for each j. The largest inner product of e with a vector t, at a squared norm, is reached
by the point of the permutahedron that is closest to c t, for some c (Kletti, Renders and Loiseau,
WSDM 2022; the measures are those of Diaz et al. 2020).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fairtk.exposure import sum_by_index
from fairtk.frames import EXPOSURE, FloatArray, IntArray, Run
from fairtk.frames.columns import PARENT
from fairtk.measures.ee import ExposureOfDocuments, n_documents
from fairtk.measures.labeled_run import LabeledRun
from fairtk.transformers.exposures import DeterministicExposure

_ROUNDING = 1e-14  # relative to a squared norm
_TIE = 1e-20  # a smaller variance of scores, which are scaled to [0, 1], is rounding


def has_bound(x: Any, y: Any) -> bool:
    """Return whether x is EE_D and y is EE_R, with equal browsing models and cutoffs."""
    names = getattr(x, "NAME", ""), getattr(y, "NAME", "")
    settings = ("browsing", "cutoff")
    return names == ("EE_D", "EE_R") and all(x[name] == y[name] for name in settings)


def bound_values(
    labels: pd.DataFrame, run: pd.DataFrame, x: ExposureOfDocuments, y: ExposureOfDocuments
) -> FloatArray:
    """Return the bound of y of any policy with the run's EE-D in each query; (n_queries,).

    A query missing from the run has the worst EE-D, at which a policy reaches the best EE-R.

    Args:
        labels: the qrels.
        run: a frame X, or a sampled run, whose EE-D is estimated as in x.
        x: EE_D.
        y: EE_R.
    """
    judged = LabeledRun.of(labels, run, "frontier")
    n, part = n_documents(y, judged), y.part(judged)
    attention = sum_by_index(judged.pair_query, y.exposure(judged), len(n))
    total = y.ranks(n).ideal(n, n, n)
    disparity = x.estimate(judged).value
    largest = largest_relevance(disparity, attention, total, part.upper, n)
    if PARENT not in run.columns:  # several passages of a document can exceed the target
        largest = np.minimum(largest, part.upper)
    bound = replace(part, value=np.where(judged.present, largest, part.upper))
    return bound.normalized() if y["normalize"] else bound.value


def best_for_scores(run: pd.DataFrame, frame: pd.DataFrame, y: ExposureOfDocuments) -> pd.DataFrame:
    """Return the frame X of the policy that is best for the scores of a run.

    Args:
        run: a run R.
        frame: a frame X of the run, whose EE-D the policy has in each query.
        y: the measure with the browsing model and the cutoff.
    """
    stage = DeterministicExposure(cutoff=y["cutoff"], browsing=y["browsing"])
    encoded, squares = Run(run, "frontier"), Run(frame, "frontier")
    exposure = frame[EXPOSURE].to_numpy(dtype=np.float64)
    disparity = sum_by_index(squares.frame_query, exposure**2, len(squares.qids))
    query = squares.qids.find(encoded.qids)[encoded.ranking_query]
    best = best_exposure(
        encoded.scores[encoded.order], encoded.ranking_start, stage.weights(encoded),
        disparity[query],
    )  # fmt: skip
    return stage.make_frame(run, encoded, best)


def largest_relevance(
    disparity: FloatArray, attention: FloatArray, total: FloatArray, square: FloatArray, n: IntArray
) -> FloatArray:
    """Return an upper bound of EE-R of any policy with the disparity and attention of each query.

    Let u be equal exposure, and t the target, which is an exposure, too. So e = u + c (t - u) can
    be reached for c from 0 to 1, and by the Cauchy-Schwarz inequality none of the same norm has a
    larger inner product with t: it is |u|^2 + sqrt((|e|^2 - |u|^2) (|t|^2 - |u|^2)) (EE-D and EE-R
    as in Towards Fair RAG, Eq. 3). Policies over shorter rankings have less attention, and stay
    below the same bound for their total. A policy over rankings of documents also stays below
    |t|^2.

    Args:
        disparity: EE-D |e|^2 of each query; shape (n_queries,).
        attention: the sum of e, at most `total`; same shape.
        total: the sum of the weights of the ranks of a full ranking; same shape.
        square: |t|^2; same shape.
        n: the number of documents; same shape.
    """
    n = np.maximum(n, 1)
    away = _excess(disparity, attention**2 / n) * _excess(square, total**2 / n)
    return np.asarray(attention * total / n + np.sqrt(away))


def _excess(value: FloatArray | float, least: FloatArray | float) -> FloatArray:
    """Return a value minus its least value, without rounding, whose square root would be large."""
    return np.where(value - least > _ROUNDING * value, value - least, 0.0)


def best_exposure(
    scores: FloatArray, start: IntArray, weight: FloatArray, disparity: FloatArray
) -> FloatArray:
    """Return the exposure with the largest inner product with the scores, at most a disparity.

    Tied documents have equal exposure. A disparity below the one of equal exposure gives equal
    exposure; a disparity above the one of the ranking gives the ranking's exposure.

    Args:
        scores: scores, sorted descending within each query; shape (n_rows,).
        start: the first row of each query, then n_rows; no query without rows.
        weight: the weights of the first ranks, in any order; shape (n_ranks,).
        disparity: the wanted EE-D of each query; shape (n_queries,).

    Returns:
        The exposure of each row; shape (n_rows,).
    """
    longest = int(np.diff(start).max(initial=0))
    weights = np.zeros(max(longest, len(weight)))
    weights[: len(weight)] = weight
    result = np.empty(len(scores))
    for (first, last), wanted in zip(pairwise(start.tolist()), disparity.tolist(), strict=True):
        its = scores[first:last]
        scaled = (its - its[-1]) / (its[0] - its[-1] or 1.0)
        its_weights = np.sort(weights[: last - first])[::-1]
        result[first:last] = _closest(scaled, its_weights, wanted)
    return result


def _closest(score: FloatArray, weight: FloatArray, wanted: float) -> FloatArray:
    """Return the projection of c times the scores with a wanted squared norm, or the nearest one.

    With both sorted, it is c times the scores minus the decreasing isotonic regression of c times
    the scores minus the weights. So in a block of equal regression, it is the mean weight plus c
    times the deviation of the score from its mean. As c grows, blocks only split. So the squared
    norm is a concave, piecewise linear function of c^2, and Newton's method, from below, reaches
    the wanted value in finitely many steps.
    """
    from scipy.optimize import isotonic_regression

    block, c = np.zeros(1, dtype=np.int64), -1.0
    while True:
        size = np.diff(block, append=len(score))
        mean = np.repeat(np.add.reduceat(weight, block) / size, size)
        away = score - np.repeat(np.add.reduceat(score, block) / size, size)
        variance = float(away @ away)
        if variance <= _TIE * len(score):
            return np.asarray(mean)
        following = float(np.sqrt(_excess(wanted, float(mean @ mean)) / variance))
        if following <= c * (1 + 1e-14):
            break
        c = following
        split = isotonic_regression(c * score - weight, increasing=False).blocks[:-1]
        if len(split) == len(block):
            break
        block = split
    return np.maximum(mean + c * away, 0.0)  # not -1e-16
