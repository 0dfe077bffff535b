"""Errors of a mean over queries, over samples, and over answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError
from fairtk.statistics.arrays import check_drawing, numbers
from fairtk.statistics.clusters import cluster_codes, error_of_mean
from fairtk.statistics.intervals import TOO_FEW, mean_intervals, no_interval


@dataclass(frozen=True)
class TwoLevelMean:
    """A mean over queries of values that are estimated from samples.

    Attributes:
        n: the number of queries with a value.
        mean: the mean of their values.
        error: the standard error of the mean over queries, samples and answers.
        error_queries: the standard error over queries alone, as with infinitely many samples.
        error_samples: the standard error over samples alone, for these queries; NaN if the variance
            of a query is unknown.
        error_answers: the standard error over the answers of a model alone, for these queries and
            samples; NaN if unknown.
        low: the lower end of the interval over queries and samples (Student); NaN if all values are
            equal.
        high: the upper end.
        low_samples: the lower end of the interval over samples and answers (normal); NaN if this
            error is 0 or NaN.
        high_samples: the upper end.
        note: the reason if `low` is NaN, otherwise ``""``.
    """

    n: int
    mean: float
    error: float
    error_queries: float
    error_samples: float
    error_answers: float
    low: float
    high: float
    low_samples: float
    high_samples: float
    note: str


def two_level_mean(
    values: npt.ArrayLike,
    variances: npt.ArrayLike,
    answer_variances: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> TwoLevelMean:
    """Compute a mean and the contributions of queries, samples and answers to its error.

    The variance of the values over queries is the variance of the true values plus the mean
    variance over samples and answers, so the former is the difference (at least 0).

    Args:
        values: values or differences, one per query, shape (n,); NaN is skipped.
        variances: the sampling variances, same shape: 0 for exact values, NaN if unknown. Unbiased
            estimates may be negative.
        answer_variances: the variances of the values over the answers of a model, same shape; NaN
            or `None` if unknown, which counts as 0 in other errors.
        confidence: the level of the intervals, in (0, 1).
        clusters: the cluster of each query, as for `mean_intervals`: errors over queries are then
            those of clusters. Samples and answers are independent between queries.

    Returns:
        The mean with its errors; errors and intervals over queries are NaN for fewer than two.

    Raises:
        InputError: the shapes differ, a value is not a finite number, or `clusters` is invalid.
        ParameterError: `confidence` is out of range.
    """
    from scipy.stats import norm

    check_drawing(confidence, 1)
    value, variance = numbers(values, "values", ndim=1), numbers(variances, "variances", ndim=1)
    unknown = np.full(value.shape, np.nan)
    answer = unknown if answer_variances is None else answer_variances
    answer = numbers(answer, "answer_variances", ndim=1)
    for name, array in (("variances", variance), ("answer_variances", answer)):
        if value.shape != array.shape:
            raise InputError(
                f"values and {name} must have the same length, got {len(value)} and {len(array)}"
            )
    defined = ~np.isnan(value)
    codes = None
    if clusters is not None:
        codes = np.unique(cluster_codes(clusters, len(value))[defined], return_inverse=True)[1]
    value, variance, answer = value[defined], variance[defined], answer[defined]
    n = len(value)
    if n == 0:
        nan = math.nan
        return TwoLevelMean(0, nan, nan, nan, nan, nan, nan, nan, nan, nan, TOO_FEW)

    def error_of(part: float) -> float:
        return math.nan if math.isnan(part) else math.sqrt(max(part, 0.0) / n)

    mean, of_samples, of_answers = (float(part.mean()) for part in (value, variance, answer))
    within = max(of_samples + (0.0 if math.isnan(of_answers) else of_answers), 0.0)
    within = math.nan if math.isnan(of_samples) else within
    total = float(value.var(ddof=1)) if n > 1 else math.nan
    if codes is not None:
        total = n * error_of_mean(value, codes)[0] ** 2 if codes.any() else math.nan
    error = math.sqrt(total / n)
    (low,), (high,) = mean_intervals(value[None], confidence=confidence, clusters=codes)
    # an estimated variance of 0 has no interval
    near = float(norm.ppf((1 + confidence) / 2)) * (error_of(within) or math.nan)
    return TwoLevelMean(
        n, mean, error, error_of(total - within), error_of(of_samples), error_of(of_answers),
        float(low), float(high),
        mean - near, mean + near, no_interval(value, codes) if math.isnan(low) else "",
    )  # fmt: skip
