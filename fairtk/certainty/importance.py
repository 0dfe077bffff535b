"""Means under one policy from rankings drawn under others: multiple importance sampling.

Veach and Guibas 1995 (the balance heuristic), Owen 2013 (*Monte Carlo theory, methods and
examples*, chapter 9). Pure arithmetic on arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairtk.frames.arrays import FloatArray, IntArray

ESTIMATORS = ("self-normalized", "plain")


@dataclass(frozen=True)
class WeightedMeans:
    """Means under several policies; arrays of shape (n_policies,).

    Attributes:
        value: the estimated means.
        error: their standard errors.
        effective: effective sample sizes: how many draws from the policy itself know as much.
    """

    value: FloatArray
    error: FloatArray
    effective: FloatArray


def balanced_means(
    log_target: FloatArray,
    log_source: FloatArray,
    source: IntArray,
    sample: IntArray,
    values: FloatArray,
    estimator: str,
    bounds: tuple[float, float] = (np.nan, np.nan),
) -> WeightedMeans:
    """Return the means of values under each target policy.

    A ranking weighs its probability under the target over that under the mixture of all sources,
    which each count by their number of rankings: no weight exceeds the total number of rankings
    over that of any source.

    The standard error takes rankings with one sample number for one draw: policies that read the
    same random numbers give rankings that hang together. It is right for independent ones, too. Of
    the self-normalized mean it is that of the ratio to first order, with an effective draw at each
    end of the values' range added (Agresti and Coull 1998): that none of 30 answers is wrong does
    not say that none ever is. The plain mean is off by more where the mean weight is not its
    expectation, 1, and how far it is from that is known: the root of both squares. (The spread of
    weights times values is too small whenever the heavy weights are those that were not drawn.)

    The effective sample size is Kish's, times the square of the mean weight where that is below its
    expectation, 1: what is missing is what no source has drawn.

    Args:
        log_target: log-probability of each ranking under each target; (n_targets, n_rankings).
        log_source: the same under each source; shape (n_sources, n_rankings).
        source: from which source each ranking was drawn; shape (n_rankings,).
        sample: the sample number of each ranking; shape (n_rankings,).
        values: of each ranking; shape (n_rankings,).
        estimator: one of `ESTIMATORS`.
        bounds: the smallest and the largest value; no draw is added unless both are finite.
    """
    n_rankings = len(source)
    count = np.bincount(source, minlength=len(log_source))
    with np.errstate(divide="ignore"):  # a source without rankings has no share
        share = log_source + np.log(count / n_rankings)[:, None]
    weight = log_target - np.logaddexp.reduce(share, axis=0)
    np.exp(weight, out=weight)
    total = weight.sum(axis=1)
    square = np.einsum("ij,ij->i", weight, weight)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0: nothing weighs anything
        value = weight @ values / total
        away = values - value[:, None]
        away *= weight
        error = np.sqrt(_variance(away, source, sample, count)) / total
        kish = np.where(square > 0, total**2 / square, 0.0)
        effective = kish * np.minimum(1.0, total / n_rankings) ** 2
        if np.isfinite(bounds).all():
            error = _with_ends(value, error, effective, bounds)
        if estimator == "plain":
            plain = weight @ values / n_rankings
            value, error = plain, np.hypot(error, plain - value)
    return WeightedMeans(value, error, effective)


def _with_ends(
    value: FloatArray, error: FloatArray, effective: FloatArray, bounds: tuple[float, float]
) -> FloatArray:
    """Return standard errors as if one more effective draw had each end of the range."""
    low, high = bounds
    mean = (effective * value + low + high) / (effective + 2)
    spread = (low - mean) ** 2 + (high - mean) ** 2 + effective * (value - mean) ** 2
    variance = (effective**2 * error**2 + spread) / (effective + 2)
    return np.asarray(np.minimum(np.sqrt(variance / effective), high - low), dtype=np.float64)


def _variance(away: FloatArray, source: IntArray, sample: IntArray, count: IntArray) -> FloatArray:
    """Return the variance of sums of terms; those of one sample number are one draw."""
    if (sample[1:] < sample[:-1]).any():
        order = np.argsort(sample, kind="stable")
        away, source, sample = away[:, order], source[order], sample[order]
    start = np.flatnonzero(np.diff(sample, prepend=-1))
    if len(start) < 2:
        return np.full(len(away), np.nan)
    member = (source == np.arange(len(count))[:, None]).astype(np.float64)
    mean = away @ member.T / np.maximum(count, 1)
    draws = np.add.reduceat(away, start, axis=1)
    draws -= mean @ np.add.reduceat(member, start, axis=1)
    return np.asarray((draws**2).sum(axis=1) * len(start) / (len(start) - 1))
