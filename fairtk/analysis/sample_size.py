"""`precision`: how sure sampled values are, and how many samples a half-width needs.

See `fairtk.experiment.sampling_spread` for the variances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display.tables import frame_html
from fairtk.errors import ParameterError
from fairtk.experiment.evaluate_runs import asked_measures
from fairtk.experiment.sampling_spread import SampleSpread, spread_over_samples
from fairtk.frames import QID, BoolArray, FloatArray
from fairtk.frames.accepted import accepts_dataframes
from fairtk.io.qrels import frame_of_qrels
from fairtk.io.runs import frame_of_run
from fairtk.measures import FairMeasure, LabeledRun, format_measure, parse
from fairtk.measures.base import scored, undefined_reasons

WHERE = "precision"


@dataclass(frozen=True)
class Precision:
    """What `precision` found.

    Attributes:
        per_query: ``measure``, ``qid``, ``value``, ``n_samples``, ``error`` (the value's standard
            error from sampling; NaN for too few samples: two, four for EE_D and EE_L; where N
            samples do not differ, as if one in N + 1 did by all that values can), ``bias``
            (plain minus unbiased estimate: what sampling adds to EE_D and EE_L that are not
            "unbiased"; NaN for one sample), ``needed`` (the smallest number N of samples with
            ``abs(bias(N)) + z * error(N) <= half_width``, where ``bias(N) = bias * n_samples / N``;
            NaN where `error` or `bias` is).
        means: ``measure``, ``value`` (mean over the queries that have one), ``error`` and
            ``half_width`` (of this mean, for these queries), ``bias``, ``needed`` (samples of each
            query for the wished half-width of the mean, bias included), ``n`` (queries).
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

    def _repr_html_(self) -> str:
        return frame_html(self.means, repr(self).partition("\n")[0])


@accepts_dataframes
def precision(
    qrels: Any,
    run: Any,
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
        qrels: the labels, a file of them, or the id of a dataset.
        run: rankings S, with ``qanswer`` for EU, or a file of them.
        measures: of EE_D, EE_R, EE_L, EU and E(...), or strings that are read as these.
        half_width: half of the width of the wished interval, in units of the measure.
        confidence: of the intervals, in (0, 1).

    Raises:
        ParameterError: another measure, or a setting out of its range.
        InputError: the run has no samples, or cannot be used.
    """
    checks.positive("half_width", half_width, WHERE)
    checks.open_interval("confidence", confidence, WHERE)
    parsed = [parse(measure) for measure in asked_measures(measures)]
    for measure in parsed:
        if not isinstance(measure, FairMeasure):
            raise ParameterError(
                f"{WHERE} takes EE_D, EE_R, EE_L, EU and E(...), got {format_measure(measure)}: "
                f"write E({format_measure(measure)})"
            )
    from scipy.stats import norm

    factor = float(norm.ppf((1 + confidence) / 2))
    where = f"{WHERE}({', '.join(map(format_measure, parsed))})"
    judged = LabeledRun.of(frame_of_qrels(qrels, where), frame_of_run(run), where)
    parts, rows = [], []
    for measure in parsed:
        with undefined_reasons():  # means here leave them out
            value = scored(measure, judged)
        spread = spread_over_samples(measure, judged)
        error = spread.error()
        bias = np.abs(spread.bias) * spread.n.astype(np.float64)  # of one sample
        one, two = np.maximum(spread.one, 0), np.maximum(spread.two, 0)
        needed = fewest_samples(one, two, bias, half_width, factor)
        columns = {"value": value, "n_samples": spread.n, "error": error, "bias": spread.bias}
        frame = pd.DataFrame({QID: judged.qids, **columns, "needed": needed})
        frame.insert(0, "measure", format_measure(measure))
        parts.append(frame)
        rows.append([format_measure(measure), *_mean(value, spread, factor, half_width)])
    columns_of_means = ["measure", "value", "error", "half_width", "bias", "needed", "n"]
    means = pd.DataFrame(rows, columns=columns_of_means)
    return Precision(pd.concat(parts, ignore_index=True), means, half_width, confidence)


def _mean(value: FloatArray, spread: SampleSpread, factor: float, half_width: float) -> list[float]:
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
    of_one = np.array([abs(float((spread.bias * spread.n)[there].mean()))])
    needed = float(fewest_samples(np.array([one]), np.array([two]), of_one, half_width, factor)[0])
    error, bias = math.sqrt(variance), float(spread.bias[there].mean())
    return [float(value[there].mean()), error, factor * error, bias, needed, n]


def fewest_samples(
    one: FloatArray, two: FloatArray, bias: FloatArray, half_width: float, factor: float
) -> FloatArray:
    """Return the smallest number of samples, at least 2, that reaches a half-width.

    That is the smallest N with bias / N + factor sqrt(2 (2 (N - 2) a + b) / (N (N - 1))) at most
    the half-width; NaN where it is not known.

    Args:
        one: the variance a of what one sample says; see `SampleSpread`.
        two: the variance b of what a pair of samples says.
        bias: the size of the bias of one sample, at least 0.
        half_width: of the interval.
        factor: the standard errors in a half-width.
    """

    def reached(n: FloatArray) -> BoolArray:
        error = np.sqrt(2 * (2 * (n - 2) * one + two) / (n * (n - 1)))
        return np.asarray(bias / n + factor * error <= half_width * (1 + 1e-12))

    known = ~np.isnan(one + two + bias)
    low, high = np.ones(len(one)), np.full(len(one), 2.0)  # low does not reach it, or is 1
    while (short := known & ~reached(high)).any():
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    while (apart := high - low > 1).any():
        middle = np.floor((low + high) / 2)
        enough = reached(np.maximum(middle, 2.0))
        high = np.where(apart & enough, middle, high)
        low = np.where(apart & ~enough, middle, low)
    return np.where(known, high, np.nan)
