"""Confidence intervals of means over queries."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from fairtk.frames.arrays import FloatArray
from fairtk.statistics.samples import check_drawing, numbers, one_of

INTERVALS = ("percentile", "bca", "t")
"""The names of the intervals of a mean: two bootstraps, and Student's t."""
_NUMBERS = 1 << 24
"""How many resampled numbers scipy may hold at a time."""


def mean_intervals(
    values: npt.ArrayLike,
    *,
    method: str = "percentile",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
) -> tuple[FloatArray, FloatArray]:
    """Return confidence intervals of means over queries.

    All rows without NaN are resampled alike, so that intervals of one table belong together.

    Args:
        values: shape (means, queries): one row per mean, one column per query. NaN is undefined:
            the mean and its interval are over the defined values.
        method: ``"percentile"`` or ``"bca"`` (bootstrap by scipy; BCa is bias-corrected and
            accelerated: Efron 1987), or ``"t"`` (Student).
        confidence: of the intervals, in (0, 1).
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        The lower and the upper ends, each of shape (means,); NaN for a row with fewer than two
        defined values. A bootstrap over a handful of queries is too narrow: "t" is better there.

    Raises:
        InputError: a value is infinite or no number.
        NotFoundError: there is no such method.
        ParameterError: `confidence` or `resamples` is out of its range.
    """
    name = one_of("interval", method, INTERVALS)
    check_drawing(confidence, resamples)
    table = numbers(values, "values", ndim=2)
    low, high = np.full(len(table), np.nan), np.full(len(table), np.nan)
    there = ~np.isnan(table)
    whole = there.all(axis=1)
    parts = [(whole, table[whole])]
    for i in np.flatnonzero(~whole):
        parts.append((np.arange(len(table)) == i, table[i, there[i]][None]))
    for rows, part in parts:
        if len(part) and part.shape[1] >= 2:
            if name == "t":
                low[rows], high[rows] = _student(part, confidence)
            else:
                low[rows], high[rows] = _bootstrap(part, name, confidence, resamples, seed)
    return low, high


def _student(table: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    from scipy.stats import t

    n = table.shape[1]
    mean = table.mean(axis=1)
    half = t.ppf((1 + confidence) / 2, n - 1) * table.std(axis=1, ddof=1) / np.sqrt(n)
    return mean - half, mean + half


def _bootstrap(
    table: FloatArray, name: str, confidence: float, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    from scipy.stats import DegenerateDataWarning, bootstrap

    # values that are all equal have no BCa interval: scipy divides 0 by 0, and gives NaN
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        found = bootstrap(
            (table,),
            np.mean,
            axis=1,
            confidence_level=confidence,
            n_resamples=resamples,
            batch=max(1, _NUMBERS // table.size),
            method="BCa" if name == "bca" else name,
            vectorized=True,
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)
