"""`precision`: how sure sampled values are, and how many samples a wished precision needs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError
from fairtk.frames.arrays import FloatArray
from fairtk.frames.columns import QID
from fairtk.frames.qrels import Qrels
from fairtk.measures import parse, written
from fairtk.measures.evidence import Evidence
from fairtk.measures.sample_spread import SampleSpread, spread_over_samples

WHERE = "precision"


@dataclass(frozen=True)
class Precision:
    """What `precision` found.

    Attributes:
        per_query: ``measure``, ``qid``, ``value``, ``n_samples``, ``error`` (the value's standard
            error from sampling; NaN for too few samples: two, four for EE_D and EE_L; where N
            samples do not differ, as if one in N + 1 did by all that values can), ``bias``
            (what the estimator adds in expectation: EE_D and EE_L that are not "unbiased"),
            ``needed`` (samples for the wished half-width; NaN where `error` is).
        means: ``measure``, ``value`` (mean over the queries that have one), ``error`` and
            ``half_width`` (of this mean, for these queries), ``bias``, ``needed`` (samples of each
            query for the wished half-width of the mean), ``n`` (queries).
        half_width: what was wished.
        confidence: of the intervals.
    """

    per_query: pd.DataFrame
    means: pd.DataFrame
    half_width: float
    confidence: float

    def __repr__(self) -> str:
        wish = f"{WHERE}: samples for +-{self.half_width:g} at {self.confidence:.0%}"
        return f"{wish}\n{self.means.to_string(index=False)}"


def precision(
    run: pd.DataFrame,
    qrels: pd.DataFrame,
    measures: Iterable[Any] | Any,
    half_width: float = 0.01,
    *,
    confidence: float = 0.95,
) -> Precision:
    """Return standard errors of sampled values, and the samples that a half-width needs.

    The spread of the samples that are there says how much values change with other samples of the
    same policies, and how that falls with their number. A pilot of 20 samples is enough for a plan.
    Samples are taken to be independent: with ``FairSampler(method="stratified")`` errors are mostly
    smaller than said here. Queries do not vary: see `Results.compare` for both.

    Args:
        run: rankings S, with ``qanswer`` for EU.
        qrels: the labels.
        measures: of EE_D, EE_R, EE_L, EU and E(...), or strings that are read as these.
        half_width: half of the width of the wished interval, in units of the measure.
        confidence: of the intervals, in (0, 1).

    Raises:
        ParameterError: another measure, or a setting out of its range.
        InputError: the run has no samples, or cannot be used.
    """
    number = isinstance(half_width, int | float) and not isinstance(half_width, bool)
    if not (number and math.isfinite(half_width) and half_width > 0):
        raise ParameterError(f"{WHERE}: half_width must be a number above 0; found {half_width!r}")
    if not 0 < confidence < 1:
        raise ParameterError(
            f"{WHERE}: confidence must be above 0 and below 1; found {confidence!r}"
        )
    several = isinstance(measures, Iterable) and not isinstance(measures, str)
    wanted = [parse(measure) for measure in (measures if several else [measures])]
    from scipy.stats import norm

    factor = float(norm.ppf((1 + confidence) / 2))
    labels = Qrels(qrels, WHERE, either=True)
    evidence = Evidence(labels, run, f"{WHERE}({', '.join(map(written, wanted))})")
    parts, rows = [], []
    for measure in wanted:
        value = measure.scored(evidence)
        spread = spread_over_samples(measure, evidence)
        error, least = spread.error(), (half_width / factor) ** 2
        needed = fewest_samples(np.maximum(spread.one, 0), np.maximum(spread.two, 0), least)
        columns = {"value": value, "n_samples": spread.n, "error": error, "bias": spread.bias}
        frame = pd.DataFrame({QID: evidence.qids, **columns, "needed": needed})
        frame.insert(0, "measure", written(measure))
        parts.append(frame)
        rows.append([written(measure), *_mean(value, spread, factor, least)])
    columns_of_means = ["measure", "value", "error", "half_width", "bias", "needed", "n"]
    means = pd.DataFrame(rows, columns=columns_of_means)
    return Precision(pd.concat(parts, ignore_index=True), means, half_width, confidence)


def _mean(value: FloatArray, spread: SampleSpread, factor: float, least: float) -> list[float]:
    """Return the mean of the values, its error, half-width, bias, needed samples and n."""
    there = ~np.isnan(value)
    n = int(there.sum())
    if n == 0:
        return [math.nan] * 5 + [0]
    # estimates of variances below 0 by chance stay, so that their sum is right on average
    variance = max(float(spread.variance()[there].sum()), 0.0) / n**2
    if spread.alike()[there].all():
        variance = float((spread.error()[there] ** 2).sum()) / n**2
    one, two = (max(float(part[there].sum()), 0.0) / n**2 for part in (spread.one, spread.two))
    needed = float(fewest_samples(np.array([one]), np.array([two]), least)[0])
    error, bias = math.sqrt(variance), float(spread.bias[there].mean())
    return [float(value[there].mean()), error, factor * error, bias, needed, n]


def fewest_samples(one: FloatArray, two: FloatArray, variance: float) -> FloatArray:
    """Return the smallest number of samples with at most a variance; NaN where it is not known.

    Solves 2 (2 (N - 2) a + b) / (N (N - 1)) = variance for N.

    Args:
        one: the variance a of what one sample says; see `SampleSpread`.
        two: the variance b of what a pair of samples says.
        variance: of the value.
    """
    middle = variance + 4 * one
    root = np.sqrt(np.maximum(middle**2 - 4 * variance * (8 * one - 2 * two), 0.0))
    return np.maximum(np.ceil((middle + root) / (2 * variance) - 1e-9), 2.0)
