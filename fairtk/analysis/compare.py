"""Systems against a baseline: paired tests, intervals, corrections, margins, and what sampling
adds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd

from fairtk.analysis.evaluate import Data, EvaluatedRuns, RunValues, evaluated
from fairtk.analysis.precision import (
    SampleSpread,
    SharedSpread,
    shared_over_samples,
    spread_over_samples,
)
from fairtk.errors import (
    InputError,
    MissingWarning,
    NotFoundError,
    ParameterError,
    UndefinedWarning,
    warn,
)
from fairtk.frames import EXPOSURE, QID, SAMPLE, FloatArray, Qrels, Run
from fairtk.measures import Judged, parse, written
from fairtk.report import (
    CORRECTIONS,
    TESTS,
    compares_queries,
    correct,
    equivalence_test,
    non_inferiority_test,
    paired_test,
    queries_needed,
    two_levels,
)

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


@dataclass(frozen=True)
class SystemComparison:
    """What a comparison is made of."""

    tables: Mapping[str, pd.DataFrame]  # by measure: a row per system, a column per query
    systems: list[str]
    baseline: str
    better: Callable[[str], str]  # ``"higher"`` or ``"lower"``, by measure

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
            defined = table.loc[:, ~np.isnan(table.to_numpy()).any(axis=0)]
            for record in self._tested(measure, table.to_numpy(), correction, drawing):
                system = record["system"]
                record["undefined"] = table.shape[1] - record["n"]
                if margin is not None:
                    own_margin = margins.get(measure) if system != self.baseline else None
                    record |= self._within(measure, defined, system, own_margin)
                if variances is not None:
                    confidence = drawing["confidence"]
                    record |= self._by_level(measure, defined, system, variances, confidence)
                rows.append(record)
        return pd.DataFrame(rows)

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
                f"{measure} compares groups of queries, so single queries have no value that "
                "could be tested; fairtk.credit.query_gain resamples queries",
                UndefinedWarning,
            )
            values = values[:, :0]
        values = values[:, ~np.isnan(values).any(axis=0)]
        n, baseline = values.shape[1], self.systems.index(self.baseline)
        means = values.mean(axis=1) if n else np.full(len(values), np.nan)
        records: list[dict[str, Any]] = []
        for place, (system, mean) in enumerate(zip(self.systems, means, strict=True)):
            record = {"system": system, "measure": measure, "mean": float(mean), "n": n}
            record |= dict.fromkeys((*_TESTED, "p", "p_corrected", "effect"), math.nan)
            if place != baseline:
                result = paired_test(values[place], values[baseline], **drawing)
                record |= {name: getattr(result, name) for name in (*_TESTED, "p", "effect")}
                if result.note and not compares_queries(measure):
                    warnings.warn(
                        f"{system} against {self.baseline} by {measure}: {result.note}, so the "
                        "test or its interval is undefined",
                        UndefinedWarning,
                        stacklevel=3,
                    )
            records.append(record)
        corrected = correct([record["p"] for record in records], correction)
        for record, p in zip(records, corrected, strict=True):
            record["p_corrected"] = float(p)
        return records

    def _margins(self, margin: Margin) -> dict[str, float]:
        measures = list(self.tables)
        if isinstance(margin, Mapping):
            for measure in margin:
                if measure not in measures:
                    raise NotFoundError("measure", measure, measures)
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
            defined = table.loc[:, ~np.isnan(table.to_numpy()).any(axis=0)]
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


QUERIES = ("all", "common")


@dataclass
class Comparison:
    """What runs have beside a baseline.

    Attributes:
        table: one row per measure and run: ``run`` (the file, or the name of a frame), ``measure``,
            ``mean``, ``n`` (queries for which the measure is defined in every run: means and tests
            are over these), ``difference`` from the baseline with the ends ``low`` and ``high`` of
            its interval, ``p``, ``p_corrected``, and ``effect`` (Cohen's dz). NaN in the row of the
            baseline, and where nothing can be tested, which a warning says. With a margin and with
            levels it has the columns that `fairtk.experiment.Results.compare` has.
        evaluation: the values.
        baseline: the name of the baseline.
        settings: the test and how it was done.
    """

    table: pd.DataFrame
    evaluation: EvaluatedRuns
    baseline: str
    settings: dict[str, Any]
    _systems: SystemComparison
    _variances: SamplingVariances

    def queries_needed(
        self, difference: float, n_samples: Sequence[int] = (1, 10, 100, 1000), **options: float
    ) -> pd.DataFrame:
        """Return how many queries a paired t-test needs to find a difference from the baseline.

        Args:
            difference: the mean difference that should be found.
            n_samples: numbers of samples per query to plan for.
            options: ``power`` and ``significance`` of `fairtk.statistics.queries_needed`.

        Returns:
            ``run``, ``measure``, ``n_samples``, ``deviation_queries`` (of true differences over
            queries), ``deviation`` (of sampled ones), ``queries`` (NaN: see `fairtk.precision`).
        """
        table = self._systems.plan(self._variances, difference, n_samples, options)
        return table.rename(columns={"system": "run"})


def compare(
    qrels: Data,
    runs: Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    *,
    baseline: Any = None,
    test: str = "t",
    correction: str | None = "holm",
    queries: str = "all",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
    margin: Margin = None,
    levels: bool = False,
    **options: Any,
) -> Comparison:
    """Compare runs with a baseline, as the command ``fairtk compare`` does.

    Args:
        qrels: see `evaluate`.
        runs: see `evaluate`.
        measures: see `evaluate`.
        baseline: one of the runs: its file or name; None is the first.
        test: see `fairtk.statistics.paired_test`.
        correction: of the p-values of a measure, for the number of runs; see
            `fairtk.statistics.correct`.
        queries: ``"all"`` (one that a run lacks counts with the worst value) or ``"common"``
            (those that all runs have results for).
        confidence: of the intervals.
        resamples: of tests that draw.
        seed: of these draws.
        margin: of non-inferiority and equivalence, for all measures or by measure.
        levels: whether sampling and queries are told apart (`fairtk.statistics.two_levels`). The
            samples of two runs are paired by their numbers: those of one seed share random numbers.
        options: the other options of `evaluate`.

    Raises:
        InputError: a file, frame or measure cannot be used, or there is nothing to compare.
    """
    for kind, name, choices in (
        ("test", test, TESTS),
        ("correction", correction or "none", CORRECTIONS),
        ("choice of queries", queries, QUERIES),
    ):
        if name not in choices:
            raise NotFoundError(kind, name, choices)
    with warnings.catch_warnings():
        if queries == "common":  # what a run lacks does not count
            warnings.simplefilter("ignore", MissingWarning)
        frames: dict[str, pd.DataFrame] = {}
        evaluation, labels = evaluated(qrels, runs, measures, frames, **options)
    if len(evaluation.runs) < 2:
        raise InputError("there is nothing to compare: give at least two runs")
    first = _baseline(evaluation, baseline)
    qids = _queries(evaluation, queries)
    drawing = {"test": test, "confidence": confidence, "resamples": resamples, "seed": seed}
    names = [run.file for run in evaluation.runs]
    by_label = {written(measure): measure for measure in evaluation.measures}
    tables = {
        text: pd.DataFrame(
            [[run.values[m][q] for q in qids] for run in evaluation.runs], names, qids
        )
        for text, m in by_label.items()
    }
    systems = SystemComparison(
        tables, names, first.file, lambda text: getattr(by_label[text], "better", "higher")
    )
    variances = SamplingVariances(frames.__getitem__, labels.with_text_ids(), by_label)
    margin = _by_label(margin, evaluation)
    table = systems.table(drawing, correction, margin, variances if levels else None)
    table = table.rename(columns={"system": "run"}).drop(columns="undefined")
    settings = drawing | {"correction": correction or "none", "queries": queries}
    settings |= {"margin": margin, "levels": levels}
    return Comparison(table, evaluation, first.name, settings, systems, variances)


def _by_label(margin: Margin, evaluation: EvaluatedRuns) -> Margin:
    """Return margins by the measures' labels, also where they were asked for otherwise."""
    if not isinstance(margin, Mapping):
        return margin
    asked = {text.strip(): written(m) for m, text in evaluation.written.items()}
    labels = {written(m) for m in evaluation.measures}
    return {
        text if text in labels else asked.get(text.strip()) or written(parse(text)): value
        for text, value in margin.items()
    }


def _baseline(evaluation: EvaluatedRuns, asked: Any) -> RunValues:
    if asked is None:
        return evaluation.runs[0]
    text = fspath(asked) if isinstance(asked, str | PathLike) else str(asked)
    for run in evaluation.runs:
        if text in (run.file, run.name):
            return run
    raise NotFoundError(
        "baseline", text, [name for r in evaluation.runs for name in (r.file, r.name)]
    )


def _queries(evaluation: EvaluatedRuns, queries: str) -> list[str]:
    if queries == "all":
        return evaluation.qids
    common = set.intersection(*(run.found for run in evaluation.runs))
    qids = [qid for qid in evaluation.qids if qid in common]
    if not qids:
        raise InputError("no query of the qrels is in all runs: compare over all queries instead")
    return qids
