"""How sure the differences of systems are, over samples and queries."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import NotFoundError, ParameterError, UndefinedWarning, warn
from fairtk.experiment.sampling_spread import (
    SampleSpread,
    SharedSpread,
    shared_over_samples,
    spread_over_samples,
)
from fairtk.frames import (
    EXPOSURE,
    QID,
    SAMPLE,
    FloatArray,
    Qrels,
    Run,
)
from fairtk.measures import LabeledRun
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
        self._judged: dict[str, LabeledRun | None] = {}
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

    def _of_system(self, system: str) -> LabeledRun | None:
        if system not in self._judged:
            run = self._rows(system)
            sampled = SAMPLE in run.columns and EXPOSURE not in run.columns and len(run) > 0
            self._judged[system] = None
            if sampled:
                labels = Qrels(self._qrels, system)
                self._judged[system] = LabeledRun(labels, Run(run, f"{system} (run)"), system)
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

        `drawing` has the options of `fairtk.statistics.paired_test`; with `variances` the errors of
        samples and of queries are separate columns.
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
