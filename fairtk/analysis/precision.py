"""`precision`: how sure sampled values are, and how many samples a wished precision needs; and how
sure the differences of systems are, over samples and queries.

EE_R, EU and E(m) are means over samples. EE_D and EE_L are means over pairs of samples, up to what
their estimator adds: a U-statistic with the kernel h(x, y) = <x, y>, for EE_L less <x, t> + <y, t>
with the target t. Its variance with N samples is 2 (2 (N - 2) a + b) / (N (N - 1)), with a the
variance of E[h | x] and b that of h (Hoeffding 1948); a mean with variance v has a = v / 4 and
b = v / 2. Both are estimated without bias from sums over two, three and four different samples.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.analysis.evaluate import asked_measures
from fairtk.errors import InputError, NotFoundError, ParameterError, UndefinedWarning, warn
from fairtk.exposure import total
from fairtk.frames import (
    EXPOSURE,
    QID,
    SAMPLE,
    BoolArray,
    FloatArray,
    IntArray,
    Qrels,
    Run,
    takes_tables,
)
from fairtk.groups import SparseRows
from fairtk.io import frame_of_qrels, frame_of_run
from fairtk.measures import (
    Expectation,
    ExpectedExposure,
    ExpectedUtility,
    Judged,
    parse,
    undefined_reasons,
    values_of_samples,
    written,
)
from fairtk.report import (
    compares_queries,
    correct,
    equivalence_test,
    non_inferiority_test,
    paired_test,
    queries_needed,
    two_levels,
)
from fairtk.report.statistics import PSEUDOMEDIAN

_BLOCK = 1 << 22
"""Pairs of samples that are in memory at a time."""

_ALIKE = 1e-9
"""Errors of so small a part of a step are those of samples that do not differ, but for rounding."""


@dataclass(frozen=True)
class SampleSpread:
    """What makes up the sampling variance of a measure's values; arrays of shape (n_queries,).

    NaN where it is not known: fewer than two samples, four for EE_D and EE_L. 0 for a query that
    the run lacks: its value is no estimate.
    """

    n: IntArray  # number of samples
    one: FloatArray  # the variance a of what one sample says, see the module
    two: FloatArray  # the variance b of what a pair of samples says
    bias: FloatArray  # what the estimator adds in expectation
    # by how much the value would change if one sample in n + 1 differed from the others by all that
    # values can; NaN where they have no bounds
    step: FloatArray

    def variance(self, n: Any = None) -> FloatArray:
        """Return the variance of the values with n samples, by default with those there are.

        It is an unbiased estimate, which can be below 0 by chance. NaN for one sample of a mean
        over pairs.
        """
        size = np.asarray(self.n if n is None else n, dtype=np.float64)
        many = np.maximum(size, 2)
        several = 2 * (2 * (many - 2) * self.one + self.two) / (many * (many - 1))
        return np.where(size == 1, _of_one(self.one, self.two), several)

    def error(self) -> FloatArray:
        """Return the standard errors of the values, `step` where no two samples differ.

        That N samples are alike does not say that all are: what one in N + 1 has may be unseen.
        """
        return np.where(self.alike(), self.step, self._error())

    def alike(self) -> BoolArray:
        """Return which queries have several samples, of which no two differ."""
        return np.asarray((self.n > 1) & (self._error() <= _ALIKE * self.step))

    def _error(self) -> FloatArray:
        one, two = np.maximum(self.one, 0.0), np.maximum(self.two, 0.0)
        return np.sqrt(replace(self, one=one, two=two).variance())


@dataclass(frozen=True)
class SharedSpread:
    """What makes up the covariance of two runs' values by sampling; arrays of shape (n_queries,).

    Samples of one number are paired, as runs of one seed share their random numbers sample by
    sample. Where runs share none, the estimate is 0 on average.
    """

    first: IntArray  # number of samples of the one run
    second: IntArray  # of the other
    both: IntArray  # of sample numbers that both have
    one: FloatArray  # the covariance of what one sample says in either, see the module
    two: FloatArray  # that of what a pair of samples says

    def covariance(self, n: int | None = None) -> FloatArray:
        """Return the covariance of the values, with n samples of both: all numbers in common.

        It is an unbiased estimate; 0 where there is no number in common, NaN where it is not known:
        fewer than two in common, four for EE_D and EE_L.
        """
        first, second, both = (
            np.asarray(size if n is None else n, dtype=np.float64)
            for size in (self.first, self.second, self.both)
        )
        pairs = np.maximum(first * (first - 1) * second * (second - 1) / 4, 1)
        chains = both * ((first - 1) * (second - 1) - (both - 1))
        shared = (chains * self.one + both * (both - 1) / 2 * self.two) / pairs
        alone = np.maximum(first, second) == 1
        shared = np.where(alone, _of_one(self.one, self.two), shared)
        return np.where(self.both == 0, 0.0, shared)


def _of_one(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the (co)variance of values of a single sample; NaN for means over pairs."""
    return np.where(two == 2 * one, 2 * two, np.nan)  # of a mean a = v / 4 and b = v / 2, exactly


def spread_over_samples(measure: Any, judged: Judged) -> SampleSpread:
    """Return the spread of a measure's values over sets of samples.

    Samples are taken to be independent; stratified ones vary less. The measure is one of expected
    exposure, EU or E(...).
    """
    query, n_queries = judged.ranking_query, len(judged.qids)
    if not judged.run.sampled:
        what = "exact exposure" if judged.exact is not None else "no column 'sample'"
        raise InputError(f"{judged.where}: the run has {what}: nothing varies by sampling")
    n = np.bincount(query, minlength=n_queries)
    if not _is_of_pairs(measure):
        value, reach = _values(measure, judged)
        mean = total(query, value, n_queries) / np.maximum(n, 1)
        square = total(query, (value - mean[query]) ** 2, n_queries)
        variance = np.where(n == 1, np.nan, square / np.maximum(n - 1, 1))
        return SampleSpread(n, variance / 4, variance / 2, np.zeros(n_queries), reach / (n + 1))
    rows, scale = _Exposures(measure, judged), measure.scales(judged)
    one, two, apart = np.zeros((3, n_queries))
    for number, own in _by_query(query):
        kernel = rows.kernel(np.arange(own.start, own.stop))
        one[number], two[number] = _moments(kernel, kernel)
        apart[number] = kernel.apart
    square = total(query, rows.exposure.square(), n_queries) / np.maximum(n, 1)
    added = (square - apart) / np.maximum(n, 1)
    if measure["estimator"] == "unbiased":
        added = np.zeros(n_queries)
    bias = np.where(n > 0, added * scale, 0.0)
    step = 2 * measure.widths(judged) * scale / (n + 1)
    return SampleSpread(n, one * scale**2, two * scale**2, bias, step)


def shared_over_samples(measure: Any, first: Judged, second: Judged) -> SharedSpread:
    """Return how the values of two runs, judged by the same labels, vary together by sampling.

    The samples of one number are taken to be drawn from a joint distribution, independently of all
    others. The covariance of two U-statistics is Hoeffding's (1948), with a the covariance of
    E[h | x] and E[k | y] and b that of h and k, for kernels h and k and a joint sample (x, y).
    """
    runs, n_queries = (first, second), len(first.qids)
    n, m = (np.bincount(judged.ranking_query, minlength=n_queries) for judged in runs)
    numbers = np.unique(np.concatenate([judged.run.ranking_sample for judged in runs]))
    cells = [
        judged.ranking_query * len(numbers) + np.searchsorted(numbers, judged.run.ranking_sample)
        for judged in runs
    ]
    cell, *places = np.intersect1d(cells[0], cells[1], assume_unique=True, return_indices=True)
    query = cell // max(len(numbers), 1)
    both = np.bincount(query, minlength=n_queries)
    if _is_of_pairs(measure):
        rows = [_Exposures(measure, judged) for judged in runs]
        one, two = np.zeros((2, n_queries))
        for number, own in _by_query(query):
            kernels = [r.kernel(place[own]) for r, place in zip(rows, places, strict=True)]
            one[number], two[number] = _moments(*kernels)
        scale = measure.scales(first) * measure.scales(second)
        return SharedSpread(n, m, both, one * scale, two * scale)
    apart = []
    for judged, place in zip(runs, places, strict=True):
        value = _values(measure, judged)[0][place]
        apart.append(value - (total(query, value, n_queries) / np.maximum(both, 1))[query])
    product = total(query, apart[0] * apart[1], n_queries)
    covariance = np.where(both == 1, np.nan, product / np.maximum(both - 1, 1))
    return SharedSpread(n, m, both, covariance / 4, covariance / 2)


def _is_of_pairs(measure: Any) -> bool:
    return isinstance(measure, ExpectedExposure) and measure.PART != "relevance"


def _values(measure: Any, judged: Judged) -> tuple[FloatArray, FloatArray]:
    """Return what each ranking says, and by how much a query's can differ (NaN: no bounds)."""
    reach = np.ones(len(judged.qids))
    if isinstance(measure, ExpectedExposure):
        exposure, scale = measure.form.shown(judged), measure.scales(judged)
        value = exposure.per_row(exposure.weight * measure.form.targets(judged)[exposure.level])
        return value * scale[judged.ranking_query], measure.widths(judged) * scale
    if isinstance(measure, ExpectedUtility):
        query, value = measure.of_answers(judged)
        width = measure.bounds[1] - measure.bounds[0]
        reach = reach * (width if np.isfinite(width) else np.nan)
        return value[np.argsort(query, kind="stable")], reach
    if isinstance(measure, Expectation):
        return values_of_samples(measure.inner, judged)[1], reach
    raise ParameterError(
        f"{measure!r} is no mean over samples or pairs of samples, so that how it varies is "
        "not known; known are EE_D, EE_R, EE_L, EU and E(...)"
    )


class _Exposures:
    """What the samples of a run show, for a measure of pairs of them."""

    def __init__(self, measure: Any, judged: Judged) -> None:
        self.exposure: SparseRows = measure.form.shown(judged)
        self.towards = np.zeros(self.exposure.n_rows)
        if measure.PART == "loss":
            targets = measure.form.targets(judged)
            self.towards = self.exposure.per_row(
                self.exposure.weight * targets[self.exposure.level]
            )

    def kernel(self, rows: IntArray) -> _Kernel:
        """Return the kernel over some samples of a query, in this order."""
        some = self.exposure.matrix[rows]
        dense = some[:, np.unique(some.indices)].toarray()  # the columns that have weight in them
        return _Kernel(np.asarray(dense), self.towards[rows])


class _Kernel:
    """What each pair of a query's samples says, less the mean of that: h(x, y) in the module.

    Args:
        vectors: exposure of documents or groups in each sample; shape (n, n_columns).
        towards: its inner product with the target; shape (n,).
    """

    def __init__(self, vectors: FloatArray, towards: FloatArray) -> None:
        self.vectors, self.towards, self.n = vectors, towards, len(vectors)
        inner = vectors @ vectors.sum(axis=0) - (vectors**2).sum(axis=1)  # with all others
        pairs = self.n * (self.n - 1)
        self.apart = float(inner.sum()) / pairs if pairs else math.nan  # mean inner product
        self.mean = self.apart - 2 * float(towards.mean())
        self.sums = inner - towards.sum() - (self.n - 2) * towards - (self.n - 1) * self.mean

    def block(self, own: slice) -> FloatArray:
        """Return some rows of the table of all pairs, 0 for a sample with itself."""
        block = self.vectors[own] @ self.vectors.T - self.towards[own, None] - self.towards
        block = np.asarray(block - self.mean)
        block[np.arange(len(block)), np.arange(self.n)[own]] = 0.0
        return block


def _moments(first: _Kernel, second: _Kernel) -> tuple[float, float]:
    """Return a and b of two kernels over the same samples; their variances for one kernel."""
    n = first.n
    if n < 4:
        return math.nan, math.nan
    squares = 0.0
    step = max(1, _BLOCK // n)
    for start in range(0, n, step):
        own = slice(start, start + step)
        block = first.block(own)
        squares += float((block * (block if second is first else second.block(own))).sum())
    pairs, triples = n * (n - 1), n * (n - 1) * (n - 2)
    chains = float(first.sums @ second.sums) - squares
    apart = -(4 * chains + 2 * squares) / (triples * (n - 3))  # of four different samples
    return chains / triples - apart, squares / pairs - apart


def _by_query(query: IntArray) -> Iterator[tuple[int, slice]]:
    start = np.flatnonzero(np.diff(query, prepend=-1))
    for first, last in pairwise([*start.tolist(), len(query)]):
        yield int(query[first]), slice(first, last)


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


@takes_tables
def precision(
    run: Any,
    qrels: Any,
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
        run: rankings S, with ``qanswer`` for EU, or a file of them.
        qrels: the labels, a file of them, or the id of a dataset.
        measures: of EE_D, EE_R, EE_L, EU and E(...), or strings that are read as these.
        half_width: half of the width of the wished interval, in units of the measure.
        confidence: of the intervals, in (0, 1).

    Raises:
        ParameterError: another measure, or a setting out of its range.
        InputError: the run has no samples, or cannot be used.
    """
    checks.positive("half_width", half_width, WHERE)
    checks.inside("confidence", confidence, WHERE)
    parsed = [parse(measure) for measure in asked_measures(measures)]
    from scipy.stats import norm

    factor = float(norm.ppf((1 + confidence) / 2))
    where = f"{WHERE}({', '.join(map(written, parsed))})"
    judged = Judged.of(frame_of_qrels(qrels, where), frame_of_run(run), where)
    parts, rows = [], []
    for measure in parsed:
        with undefined_reasons():  # means here leave them out
            value = measure.scored(judged)
        spread = spread_over_samples(measure, judged)
        error = spread.error()
        bias = np.abs(spread.bias) * spread.n.astype(np.float64)  # of one sample
        one, two = np.maximum(spread.one, 0), np.maximum(spread.two, 0)
        needed = fewest_samples(one, two, bias, half_width, factor)
        columns = {"value": value, "n_samples": spread.n, "error": error, "bias": spread.bias}
        frame = pd.DataFrame({QID: judged.qids, **columns, "needed": needed})
        frame.insert(0, "measure", written(measure))
        parts.append(frame)
        rows.append([written(measure), *_mean(value, spread, factor, half_width)])
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


Margin = float | Mapping[str, float] | None
_TESTED = ("difference", "low", "high")


class SamplingVariances:
    """The sampling variances of systems' values and of their differences, made when asked for.

    Samples of two systems are paired by their numbers: a seed gives samples of one number the same
    random numbers, at other alphas, too, so that a difference varies by less, or by more, than
    independent values would. The covariance of the pairs is estimated (Hoeffding 1948; see
    `fairtk.precision`) and subtracted twice; for systems drawn independently it is 0 on average.
    """

    def __init__(
        self,
        rows: Callable[[str], pd.DataFrame],
        qrels: pd.DataFrame | None,
        measures: Mapping[str, Any],
    ) -> None:
        self._rows, self._qrels, self._measures = rows, qrels, measures
        self._judged: dict[str, Judged | None] = {}
        self._spreads: dict[tuple[str, str], SampleSpread] = {}
        self._shared: dict[tuple[str, str, str], SharedSpread] = {}

    def of_difference(
        self, system: str, other: str, measure: str, qids: Sequence[str], n: int | None = None
    ) -> FloatArray:
        """Return the variance of each query's difference with n samples; None: those there are.

        0 for two systems without samples, NaN for measures that nothing is known of (see
        `fairtk.precision`). An unbiased estimate, which can be below 0 by chance.
        """
        runs = {s: judged for s in (system, other) if (judged := self._of_system(s)) is not None}
        if not runs:
            return np.zeros(len(qids))
        parts: list[FloatArray] = []
        try:
            for name, run in runs.items():
                if (name, measure) not in self._spreads:
                    spread = spread_over_samples(self._measures[measure], run)
                    self._spreads[name, measure] = spread
                parts.append(self._spreads[name, measure].variance(n))
            if len(runs) == 2:
                key = (system, other, measure)
                if key not in self._shared:
                    shared = shared_over_samples(self._measures[measure], *runs.values())
                    self._shared[key] = shared
                parts.append(-2 * self._shared[key].covariance(n))
        except ParameterError:
            return np.full(len(qids), np.nan)
        place = pd.Index(next(iter(runs.values())).qids).get_indexer(pd.Index(qids))
        variance: FloatArray = np.append(np.sum(parts, axis=0), 0.0)[place]
        return variance

    def _of_system(self, system: str) -> Judged | None:
        if system not in self._judged:
            run = self._rows(system)
            sampled = SAMPLE in run.columns and EXPOSURE not in run.columns and len(run) > 0
            self._judged[system] = None
            if sampled:
                labels = Qrels(self._qrels, system)
                self._judged[system] = Judged(labels, Run(run, f"{system} (run)"), system)
        return self._judged[system]


def _testable(measure: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the queries in which a measure can be tested."""
    there = ~np.isnan(table.to_numpy()).any(axis=0)
    return table.loc[:, there & (not compares_queries(measure))]


@dataclass(frozen=True)
class SystemComparison:
    """What a comparison is made of."""

    tables: Mapping[str, pd.DataFrame]  # by measure: a row per system, a column per query
    systems: list[str]
    baseline: str
    better: Callable[[str], str]  # ``"higher"`` or ``"lower"``, by measure
    means: pd.DataFrame  # systems by measures: values of measures that single queries have none of

    @classmethod
    def of(cls, per_query: pd.DataFrame, systems: list[str], *others: Any) -> SystemComparison:
        """Return the same from ``system``, ``qid``, ``measure``, ``value``; see the class."""
        tables = {
            str(measure): part.pivot(index="system", columns=QID, values="value").loc[systems]
            for measure, part in per_query.groupby("measure", sort=False)
        }
        return cls(tables, systems, *others)

    def table(
        self,
        drawing: Mapping[str, Any],
        correction: str | None,
        margin: Margin = None,
        variances: SamplingVariances | None = None,
    ) -> pd.DataFrame:
        """Return a row per measure and system: ``system``, the columns of `compare`, ``undefined``.

        `drawing` has the options of `fairtk.statistics.paired_test`; with `variances` sampling and
        queries are told apart.
        """
        rows = []
        margins = self._margins(margin)
        for measure, table in self.tables.items():
            defined = _testable(measure, table)
            for record in self._tested(measure, table.to_numpy(), correction, drawing):
                system = record["system"]
                record["undefined"] = int(np.isnan(table.to_numpy()).any(axis=0).sum())
                if margin is not None:
                    own_margin = margins.get(measure) if system != self.baseline else None
                    record |= self._within(measure, defined, system, own_margin)
                if variances is not None:
                    confidence = drawing["confidence"]
                    record |= self._by_level(measure, defined, system, variances, confidence)
                rows.append(record)
        return pd.DataFrame(rows)

    def beaten(
        self, drawing: Mapping[str, Any], correction: str | None, significance: float
    ) -> tuple[dict[tuple[str, str], list[int]], dict[str, int]]:
        """Return by measure and system the places of the systems that it is better than, and by
        measure how many pairs were tested.

        All pairs are; they are one family for each measure.
        """
        pairs = list(itertools.combinations(range(len(self.systems)), 2))
        result: dict[tuple[str, str], list[int]] = {}
        counts = dict.fromkeys(self.tables, 0)
        for measure, table in self.tables.items():
            if compares_queries(measure):
                continue
            values = table.to_numpy()
            values = values[:, ~np.isnan(values).any(axis=0)]
            tests = [paired_test(values[i], values[j], **drawing) for i, j in pairs]
            for (i, j), test in zip(pairs, tests, strict=True):
                if test.note and test.difference != 0:  # of equal systems there is nothing to say
                    self._warn_untested(self.systems[i], self.systems[j], measure, test.note)
            counts[measure] = sum(not math.isnan(test.p) for test in tests)
            corrected = correct([test.p for test in tests], correction)
            for (i, j), test, p in zip(pairs, tests, corrected, strict=True):
                if p < significance:
                    higher = (test.estimate > 0) == (self.better(measure) == "higher")
                    winner, loser = (i, j) if higher else (j, i)
                    result.setdefault((measure, self.systems[winner]), []).append(loser)
        return result, counts

    def _tested(
        self,
        measure: str,
        values: FloatArray,
        correction: str | None,
        drawing: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """Return the paired tests of a measure, a record per system; queries with a NaN are out."""
        if compares_queries(measure):
            warn(
                f"{measure} compares groups of queries, so single queries have no value that could "
                "be tested: there are means alone; fairtk.credit.query_gain resamples queries",
                UndefinedWarning,
            )
        values = values[:, ~np.isnan(values).any(axis=0)]
        n, baseline = values.shape[1], self.systems.index(self.baseline)
        means = values.mean(axis=1) if n else np.full(len(values), np.nan)
        if compares_queries(measure):  # the values are those of its groups' measure
            means, values = self.means.loc[self.systems, measure].to_numpy(), values[:, :0]
        tested: tuple[str, ...] = (*_TESTED, "p", "effect")
        if drawing["test"] == "wilcoxon":  # what interval and p are about
            tested = (*_TESTED, "estimate", "p", "effect")
        records: list[dict[str, Any]] = []
        for place, (system, mean) in enumerate(zip(self.systems, means, strict=True)):
            record = {"system": system, "measure": measure, "mean": float(mean), "n": n}
            record |= dict.fromkeys((*tested[:-1], "p_corrected", "effect"), math.nan)
            record |= {"estimand": PSEUDOMEDIAN} if "estimate" in tested else {}
            if place != baseline:
                result = paired_test(values[place], values[baseline], **drawing)
                record |= {name: getattr(result, name) for name in tested}
                if result.note and not compares_queries(measure):
                    self._warn_untested(system, self.baseline, measure, result.note)
            records.append(record)
        corrected = correct([record["p"] for record in records], correction)
        for record, p in zip(records, corrected, strict=True):
            record["p_corrected"] = float(p)
        return records

    def _warn_untested(self, system: str, other: str, measure: str, note: str) -> None:
        warnings.warn(
            f"{system} against {other} by {measure}: {note}, so the test or its interval is "
            "undefined",
            UndefinedWarning,
            stacklevel=4,
        )

    def _margins(self, margin: Margin) -> dict[str, float]:
        measures = list(self.tables)
        if isinstance(margin, Mapping):
            for measure in margin:
                if measure not in measures:
                    raise NotFoundError("measure of the comparison", measure, measures)
            return dict(margin)
        return {} if margin is None else dict.fromkeys(measures, margin)

    def _within(
        self, measure: str, table: pd.DataFrame, system: str, margin: float | None
    ) -> dict[str, float]:
        if margin is None:
            return {"p_not_worse": math.nan, "p_equivalent": math.nan}
        own, other = table.loc[system].to_numpy(), table.loc[self.baseline].to_numpy()
        better = self.better(measure)
        return {
            "p_not_worse": non_inferiority_test(own, other, margin, better=better).p,
            "p_equivalent": equivalence_test(own, other, margin).p,
        }

    def _by_level(
        self,
        measure: str,
        table: pd.DataFrame,
        system: str,
        variances: SamplingVariances,
        confidence: float,
    ) -> dict[str, float]:
        names = ["error_queries", "error_samples", "low_samples", "high_samples"]
        if system == self.baseline:
            return dict.fromkeys(names, math.nan)
        differences, variance = self._differences(measure, table, system, variances)
        levels = two_levels(differences, variance, confidence=confidence)
        return {name: getattr(levels, name) for name in names}

    def _differences(
        self,
        measure: str,
        table: pd.DataFrame,
        system: str,
        variances: SamplingVariances,
        n: int | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return each query's difference from the baseline, and its sampling variance."""
        qids = table.columns.tolist()
        variance = variances.of_difference(system, self.baseline, measure, qids, n)
        return (table.loc[system] - table.loc[self.baseline]).to_numpy(), variance

    def plan(
        self,
        variances: SamplingVariances,
        difference: float,
        n_samples: Sequence[int],
        options: Mapping[str, float],
    ) -> pd.DataFrame:
        """Return how many queries a paired t-test needs; see `Comparison.queries_needed`."""
        rows: list[list[Any]] = []
        for measure, table in self.tables.items():
            defined = _testable(measure, table)
            for system in self.systems:
                if system == self.baseline or defined.shape[1] < 2:
                    continue
                levels = two_levels(*self._differences(measure, defined, system, variances))
                of_queries = levels.error_queries**2 * levels.n
                for n in n_samples:
                    _, then = self._differences(measure, defined, system, variances, n)
                    deviation = math.sqrt(of_queries + max(float(then.mean()), 0.0))
                    queries = math.nan
                    if not math.isnan(deviation):
                        queries = queries_needed(difference, deviation, **options)
                    rows.append([system, measure, n, math.sqrt(of_queries), deviation, queries])
        columns = ["system", "measure", "n_samples", "deviation_queries", "deviation", "queries"]
        return pd.DataFrame(rows, columns=columns)
