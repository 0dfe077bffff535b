"""`precision`: standard errors of sampled values, and samples needed for a half-width.

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
from fairtk.display.tables import frame_html, frame_lines, number_text
from fairtk.errors import ParameterError
from fairtk.experiment.answer_spread import reads_answers
from fairtk.experiment.comparison import ONE_ANSWER
from fairtk.experiment.inputs import measure_list
from fairtk.experiment.sampling_spread import SampleSpread, spread_over_samples
from fairtk.frames import QID, BoolArray, FloatArray
from fairtk.measures import FairMeasure, LabeledRun, format_measure, parse
from fairtk.measures.evaluation import evaluate
from fairtk.measures.facts import RunFacts, deepest_cutoff, remarks_on_run
from fairtk.remarks import emit

WHERE = "precision"


@dataclass(frozen=True)
class Precision:
    """The result of `precision`.

    Attributes:
        per_query: ``measure``, ``qid``, ``value``, ``n_samples``; ``error``, the standard error
            from sampling (NaN for fewer than two samples, or four for EE_D and EE_L; if all N
            samples are equal, that of one different sample in N + 1); ``bias``, the plain minus the
            unbiased estimate of EE_D and EE_L (NaN for one sample); and ``needed``, the smallest
            number N of samples with ``abs(bias(N)) + z * error(N) <= half_width``, where
            ``bias(N) = bias * n_samples / N`` (NaN if `error` or `bias` is NaN, infinite if more
            samples are not enough, because the answers to equal prompts are shared). With EU also
            ``n_answers`` (per prompt), and ``error_answers``, the part of `error` from the answers
            of the model; NaN if prompts have one answer, because it is then unknown.
        means: ``measure``, ``value`` (the mean over the defined queries), ``error`` and
            ``half_width`` (of this mean, for these queries; NaN if the error is 0), ``bias``,
            ``needed`` (samples per query for the requested half-width of the mean, bias included),
            ``n`` (queries). With EU also ``error_answers``, and ``needed_answers``: answers per
            prompt for the requested half-width with the given samples (infinite if more answers are
            not enough; NaN if unknown).
        half_width: the requested half-width.
        confidence: the level of the intervals.
    """

    per_query: pd.DataFrame
    means: pd.DataFrame
    half_width: float
    confidence: float

    def __repr__(self) -> str:
        title = f"{WHERE}: samples for +-{self.half_width:g} at {self.confidence:.0%}"
        needed = [number_text(n, 0) for n in self.means["needed"]]
        return "\n".join([title, *frame_lines(self.means.assign(needed=needed)), *self.notes])

    @property
    def notes(self) -> list[str]:
        """What is unknown, as sentences."""
        if "error_answers" not in self.means.columns:
            return []
        measures = self.per_query.loc[self.per_query["n_answers"] == 1, "measure"].unique()
        return [f"{measure}: {ONE_ANSWER}." for measure in measures]

    def _repr_html_(self) -> str:
        return frame_html(self.means, repr(self).partition("\n")[0])


def precision(
    qrels: Any,
    run: Any,
    measures: Iterable[Any] | Any,
    half_width: float = 0.01,
    *,
    confidence: float = 0.95,
) -> Precision:
    """Compute standard errors of sampled values, and the samples needed for a half-width.

    The errors are estimated from the variance over the given samples; 20 samples are enough to
    plan. Samples are assumed to be independent: with ``FairSampler(method="stratified")`` errors
    are usually smaller. The queries are fixed: see `Results.compare` for errors over queries.

    Args:
        qrels: the labels, a file, or the id of a dataset.
        run: rankings S, with ``qanswer`` for EU, or a file.
        measures: EE_D, EE_R, EE_L, EU, E(...), or strings as for `fairtk.measures.parse`.
        half_width: the requested half-width of the interval, in units of the measure.
        confidence: the level of the intervals, in (0, 1).

    Raises:
        ParameterError: a measure is not supported, or a setting is out of range.
        InputError: the run is invalid or has no samples.
    """
    checks.positive("half_width", half_width, WHERE)
    checks.open_interval("confidence", confidence, WHERE)
    parsed = [parse(measure) for measure in measure_list(measures)]
    for measure in parsed:
        if not isinstance(measure, FairMeasure):
            raise ParameterError(
                f"{WHERE}: expected EE_D, EE_R, EE_L, EU or E(...), got {format_measure(measure)}; "
                f"write E({format_measure(measure)})"
            )
    from scipy.stats import norm

    factor = float(norm.ppf((1 + confidence) / 2))
    where = f"{WHERE}({', '.join(map(format_measure, parsed))})"
    judged = LabeledRun.of(qrels, run, where)
    scores = evaluate(parsed, judged)
    facts = RunFacts.of(judged, deepest_cutoff(parsed))
    emit(remarks_on_run(scores, facts, judged.qrels))
    has_answers = any(map(reads_answers, parsed))
    parts, rows = [], []
    for measure in parsed:
        value = scores[measure].values
        spread = spread_over_samples(measure, judged)
        error = spread.error()
        bias = np.abs(spread.bias) * spread.n.astype(np.float64)  # with one sample
        one, two = np.maximum(spread.one, 0), np.maximum(spread.two, 0)
        needed = fewest_samples(one, two, bias, half_width, factor, *_answers(spread))
        columns = {"value": value, "n_samples": spread.n, "error": error, "bias": spread.bias}
        if has_answers:
            answers = spread.answers
            unknown = np.full(len(value), np.nan)
            columns["n_answers"] = unknown if answers is None else answers.n
            part = unknown if answers is None else answers.part()
            columns["error_answers"] = np.sqrt(np.maximum(part, 0))
        frame = pd.DataFrame({QID: judged.qids, **columns, "needed": needed})
        frame.insert(0, "measure", format_measure(measure))
        parts.append(frame)
        rows.append([format_measure(measure), *_mean(value, spread, factor, half_width)])
        if has_answers:
            rows[-1] += _mean_answers(value, spread, factor, half_width)
    columns_of_means = ["measure", "value", "error", "half_width", "bias", "needed", "n"]
    columns_of_means += ["error_answers", "needed_answers"] if has_answers else []
    means = pd.DataFrame(rows, columns=columns_of_means)
    return Precision(pd.concat(parts, ignore_index=True), means, half_width, confidence)


def _mean(value: FloatArray, spread: SampleSpread, factor: float, half_width: float) -> list[float]:
    """Return the mean of the values, its error, half-width, bias, needed samples and n."""
    defined = ~np.isnan(value)
    n = int(defined.sum())
    if n == 0:
        return [math.nan] * 5 + [0]
    # negative estimates of variances are kept, so that their sum is unbiased
    variance = float((spread.variance() + spread.of_answers())[defined].sum()) / n**2
    if variance <= 0 or spread.alike()[defined].all():
        variance = float((spread.error()[defined] ** 2).sum()) / n**2
    one, two = (max(float(part[defined].sum()), 0.0) / n**2 for part in (spread.one, spread.two))
    bias_of_one = np.array([abs(float((spread.bias * spread.n)[defined].mean()))])
    of_answers = [np.array([part[defined].sum() / n**2]) for part in _answers(spread)]
    needed = fewest_samples(
        np.array([one]), np.array([two]), bias_of_one, half_width, factor, *of_answers
    )
    error, bias = math.sqrt(variance), float(spread.bias[defined].mean())
    half_width_of_mean = factor * error or math.nan
    return [float(value[defined].mean()), error, half_width_of_mean, bias, float(needed[0]), n]


def _answers(spread: SampleSpread) -> tuple[FloatArray, FloatArray]:
    """Return the variances of answers, 0 if unknown; see `fairtk.experiment.answer_spread`."""
    if spread.answers is None:
        return np.zeros(len(spread.n)), np.zeros(len(spread.n))
    return np.nan_to_num(spread.answers.one), np.nan_to_num(spread.answers.shared)


def _mean_answers(
    value: FloatArray, spread: SampleSpread, factor: float, half_width: float
) -> list[float]:
    """Return the answers' part of the error of the mean, and the needed answers."""
    defined = ~np.isnan(value)
    n = int(defined.sum())
    if spread.answers is None or n == 0:
        return [math.nan, math.nan]
    answers = max(float(spread.answers.part()[defined].sum()), 0.0) / n**2
    if math.isnan(answers):
        return [math.nan, math.nan]
    samples = max(float(spread.variance()[defined].sum()), 0.0) / n**2
    with_one = answers * float(spread.answers.n[defined].mean())
    left = (half_width / factor) ** 2 - samples
    needed = max(math.ceil(with_one / left * (1 - 1e-12)), 1) if left > 0 else math.inf
    return [math.sqrt(answers), needed]


def fewest_samples(
    one: FloatArray,
    two: FloatArray,
    bias: FloatArray,
    half_width: float,
    factor: float,
    answer: FloatArray | float = 0.0,
    shared: FloatArray | float = 0.0,
) -> FloatArray:
    """Return the smallest number of samples, at least 2, that reaches a half-width.

    This is the smallest N with bias / N + factor sqrt(2 (2 (N - 2) a + b) / (N (N - 1)) + A(N)) at
    most the half-width, where A(N) = answer / N + (1 - 1 / N) shared; NaN if an input is NaN, and
    infinite if no number reaches it.

    Args:
        one: the variance a of one sample; see `SampleSpread`.
        two: the variance b of a pair of samples.
        bias: the absolute bias with one sample.
        half_width: the half-width of the interval.
        factor: the number of standard errors in a half-width.
        answer: the variance of answers to one prompt; see `fairtk.experiment.answer_spread`.
        shared: the variance of answers that two samples share.
    """

    def reached(n: FloatArray) -> BoolArray:
        of_answers = answer / n + (1 - 1 / n) * shared
        error = np.sqrt(2 * (2 * (n - 2) * one + two) / (n * (n - 1)) + of_answers)
        return np.asarray(bias / n + factor * error <= half_width * (1 + 1e-12))

    known = ~np.isnan(one + two + bias)
    reachable = factor * np.sqrt(shared) < half_width
    never, known = known & ~reachable, known & reachable
    low, high = np.ones(len(one)), np.full(len(one), 2.0)  # low does not reach it, or is 1
    while (short := known & ~reached(high)).any():
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    while (apart := high - low > 1).any():
        middle = np.floor((low + high) / 2)
        enough = reached(np.maximum(middle, 2.0))
        high = np.where(apart & enough, middle, high)
        low = np.where(apart & ~enough, middle, low)
    return np.where(known, high, np.where(never, np.inf, np.nan))
