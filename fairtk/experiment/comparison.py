"""Tests of differences between systems, over queries and samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.experiment.answer_spread import AnswerSpread, reads_answers, spread_over_answers
from fairtk.experiment.sampling_spread import (
    SampleSpread,
    SharedSpread,
    has_sampling_variance,
    shared_over_samples,
    spread_over_samples,
)
from fairtk.frames import (
    EXPOSURE,
    QID,
    SAMPLE,
    FloatArray,
    IntArray,
    Qrels,
    Run,
)
from fairtk.measures import LabeledRun
from fairtk.measures.info import MeasureInfo
from fairtk.statistics.checked import corrected_mean
from fairtk.statistics.corrections import correct_p_values
from fairtk.statistics.levels import two_level_mean
from fairtk.statistics.margins import equivalence_test, non_inferiority_test
from fairtk.statistics.power import queries_needed
from fairtk.statistics.tests import (
    MEAN,
    PSEUDOMEDIAN,
    PairedTest,
    cohens_dz,
    paired_test,
    rounded_differences,
)

Margin = float | Mapping[str, float] | None
_TESTED = ("difference", "low", "high")

OnUntested = Callable[[str], object]
"""A function that is called with the text on a test or an interval that is undefined."""


def ignore(text: str) -> None:
    """Do nothing."""


Variances = Callable[..., tuple[FloatArray, FloatArray | None]]
"""A function that returns the parts of the variance of the difference of two systems by query.

Its arguments are two systems, a measure, qids, a number of samples and a number of answers per
prompt (`None` for the actual ones). The first part is the variance over samples. It is 0 for two
systems without samples, and NaN for measures that `fairtk.precision` does not support. The second
part is the variance over answers, NaN if it is unknown, and `None` for measures that do not read
answers. Both are unbiased estimates, which may be negative.
"""

ONE_ANSWER = "one answer per prompt, so their variance is unknown; use Generator(..., answers=5)"
"""The note on `error_answers` if prompts have one answer."""


def sampling_variances(
    rows: Callable[[str], pd.DataFrame], qrels: pd.DataFrame | None, measures: Mapping[str, Any]
) -> Variances:
    """Return the function for the sampling variances of differences between systems.

    Samples with the same number are paired, because systems with the same seed share random
    numbers. Twice the estimated covariance of the pairs (Hoeffding 1948) is subtracted; for
    independent systems it is 0 on average.
    """

    @cache
    def run_of(system: str) -> LabeledRun:
        return LabeledRun(Qrels(qrels, system), Run(rows(system), f"{system} (run)"), system)

    @cache
    def labeled(system: str) -> Any:
        """Return a sampled run with its labels; `None` if the system is not sampled."""
        run = rows(system)
        if SAMPLE not in run.columns or EXPOSURE in run.columns or run.empty:
            return None
        return run_of(system)

    @cache
    def answers(measure: str, *systems: str) -> AnswerSpread:
        return spread_over_answers(measures[measure], *map(run_of, systems))

    def of_answers(
        pair: tuple[str, str], measure: str, index: IntArray, n: int | None, n_answers: int | None
    ) -> FloatArray | None:
        """Return the answers' part of the variance of a difference."""
        if not reads_answers(measures[measure]):
            return None
        # only sampled systems can have n samples
        numbers = [None if labeled(one) is None else n for one in pair]
        first, second = (
            answers(measure, one).part(number, n_answers)
            for one, number in zip(pair, numbers, strict=True)
        )
        both = answers(measure, *pair).part(None if None in numbers else n, n_answers)
        return np.append(first + second - 2 * both, 0.0)[index]

    @cache
    def spread(system: str, measure: str) -> SampleSpread:
        return spread_over_samples(measures[measure], labeled(system))

    @cache
    def shared(system: str, other: str, measure: str) -> SharedSpread:
        return shared_over_samples(measures[measure], labeled(system), labeled(other))

    def variances(
        system: str,
        other: str,
        measure: str,
        qids: Sequence[str],
        n: int | None = None,
        n_answers: int | None = None,
    ) -> tuple[FloatArray, FloatArray | None]:
        sampled = [name for name in (system, other) if labeled(name) is not None]
        index = pd.Index(run_of(system).qids).get_indexer(pd.Index(qids))
        part = of_answers((system, other), measure, index, n, n_answers)
        if not sampled:
            return np.zeros(len(qids)), part
        if not has_sampling_variance(measures[measure]):
            return np.full(len(qids), np.nan), part
        parts = [spread(name, measure).variance(n) for name in sampled]
        if len(sampled) == 2:
            parts.append(-2 * shared(system, other, measure).covariance(n))
        variance: FloatArray = np.append(np.sum(parts, axis=0), 0.0)[index]
        return variance, part

    return variances


def _untested_text(system: str, other: str, measure: str, test: PairedTest) -> str:
    what = "test" if math.isnan(test.p) else "interval"
    return f"{measure}: the {what} of {system} and {other} is undefined: {test.note}"


def tables_by_measure(per_query: pd.DataFrame, systems: list[str]) -> dict[str, pd.DataFrame]:
    """Return the values of each measure, a row per system and a column per query."""
    return {
        str(measure): part.pivot(index="system", columns=QID, values="value").loc[systems]
        for measure, part in per_query.groupby("measure", sort=False)
    }


def split_by_checked(table: pd.DataFrame, checked: pd.DataFrame) -> tuple[FloatArray, ...]:
    """Return the arguments of `fairtk.statistics.corrected_mean` for all systems, a row each.

    A query that is undefined for one system is undefined for all.
    """
    queries = checked.columns.intersection(table.columns)
    others = table.columns.difference(queries)
    values = [
        part.to_numpy(copy=True) for part in (checked[queries], table[queries], table[others])
    ]
    for part in values:
        part[:, np.isnan(part).any(axis=0)] = np.nan
    return tuple(values)


class SystemComparison:
    """Tests of systems against each other.

    Args:
        per_query: ``system``, ``qid``, ``measure``, ``value``.
        systems: the systems in the order of rows.
        baseline: the system that others are compared with.
        measures: the measures.
        means: systems by measures, for measures that compare groups of queries.
        clusters: the cluster of each query, with the qids as index; `None` without clusters.
        checked: the values with the labels of checked queries, in the form of `per_query`; `None`
            without checked labels.
    """

    def __init__(
        self,
        per_query: pd.DataFrame,
        systems: list[str],
        baseline: str,
        measures: Sequence[MeasureInfo],
        means: pd.DataFrame,
        clusters: pd.Series | None = None,
        checked: pd.DataFrame | None = None,
    ) -> None:
        # by measure: a row per system, a column per query
        self.tables = tables_by_measure(per_query, systems)
        self.checked: dict[str, tuple[FloatArray, ...]] | None = None
        if checked is not None:
            self.checked = {
                measure: split_by_checked(self.tables[measure], table)
                for measure, table in tables_by_measure(checked, systems).items()
            }
        self.systems, self.baseline, self.means = systems, baseline, means
        self.clusters = clusters
        if clusters is not None:
            codes, _ = pd.factorize(clusters)
            self._codes = pd.Series(codes, clusters.index)
        self.measures = {info.label: info for info in measures}

    def _compares_queries(self, measure: str) -> bool:
        return self.measures[measure].compares_queries

    def _testable(self, measure: str) -> pd.DataFrame:
        """Return the columns of the queries for which a measure can be tested."""
        table = self.tables[measure]
        defined = ~np.isnan(table.to_numpy()).any(axis=0)
        return table.loc[:, defined & (not self._compares_queries(measure))]

    def _drawing(self, drawing: Mapping[str, Any], qids: pd.Index) -> dict[str, Any]:
        """Return the options of a test, with the clusters of these queries."""
        clusters = None if self.clusters is None else self._codes.loc[qids].to_numpy()
        return {**drawing, "clusters": clusters}

    def table(
        self,
        drawing: Mapping[str, Any],
        correction: str | None,
        margin: Margin = None,
        variances: Variances | None = None,
        on_untested: OnUntested = ignore,
    ) -> pd.DataFrame:
        """Return a row per measure and system: ``system``, the columns of `compare`, ``undefined``.

        `drawing` has the options of `fairtk.statistics.paired_test`. With `variances`, the errors
        over samples and over queries are separate columns. `on_untested` is called with a text for
        each undefined test or interval.
        """
        self._refuse_with_checked(margin=margin is not None, levels=variances is not None)
        rows = []
        margins = margin if isinstance(margin, Mapping) else dict.fromkeys(self.tables, margin)
        for measure, table in self.tables.items():
            defined = self._testable(measure)
            tested = self._tested(measure, correction, drawing, on_untested)
            for record in tested:
                system = record["system"]
                record["undefined"] = int(np.isnan(table.to_numpy()).any(axis=0).sum())
                if margin is not None:
                    limit = margins.get(measure) if system != self.baseline else None
                    record |= self._margin_tests(measure, defined, system, limit)
                if variances is not None:
                    options = self._drawing({"confidence": drawing["confidence"]}, defined.columns)
                    record |= self._by_level(measure, defined, system, variances, options)
                rows.append(record)
        frame = pd.DataFrame(rows)
        return frame.fillna({"answers": ""}) if "answers" in frame.columns else frame

    def wins(
        self,
        pairs: Sequence[tuple[int, int]],
        drawing: Mapping[str, Any],
        correction: str | None,
        significance: float,
        on_untested: OnUntested = ignore,
    ) -> tuple[list[tuple[str, int, int]], dict[str, int]]:
        """Return the significant differences between pairs of systems.

        The pairs of system indices are one family of tests for each measure.

        Returns:
            Tuples of measure, winner and loser; and the number of tested pairs by measure.
        """
        result = []
        counts = dict.fromkeys(self.tables, 0)
        for measure, table in self.tables.items():
            if self._compares_queries(measure):
                continue
            values = table.to_numpy()
            defined = ~np.isnan(values).any(axis=0)
            values, options = values[:, defined], self._drawing(drawing, table.columns[defined])
            tests = [self._test(measure, values, i, j, options) for i, j in pairs]
            for (i, j), test in zip(pairs, tests, strict=True):
                if test.note and test.difference != 0:  # equal systems need no warning
                    pair = self.systems[j], self.systems[i]  # as in `table`: the baseline is last
                    on_untested(_untested_text(*pair, measure, test))
            counts[measure] = sum(not math.isnan(test.p) for test in tests)
            corrected = correct_p_values([test.p for test in tests], correction)
            for (i, j), test, p in zip(pairs, tests, corrected, strict=True):
                if p < significance:
                    higher = (test.estimate > 0) == (self.measures[measure].better == "higher")
                    result.append((measure, i, j) if higher else (measure, j, i))
        return result, counts

    def _refuse_with_checked(self, **options: bool) -> None:
        names = [name for name, is_set in options.items() if is_set]
        if self.checked is not None and names:
            raise ParameterError(f"{', '.join(names)} is not supported with `checked` labels")

    def _test(
        self, measure: str, values: FloatArray, i: int, j: int, options: Mapping[str, Any]
    ) -> PairedTest:
        """Return the test of two systems by index, corrected by checked labels if there are any.

        `values` are those of the queries that are defined for all systems.
        """
        if self.checked is None:
            return paired_test(values[i], values[j], **options)
        self._refuse_with_checked(**{f"test {options['test']!r}": options["test"] != "t"})
        checked, cheap, others = (
            rounded_differences(part[i], part[j])[0] for part in self.checked[measure]
        )
        result = corrected_mean(checked, cheap, others, confidence=options["confidence"])
        return PairedTest(
            "t",
            result.n,
            result.corrected,
            result.corrected,
            MEAN,
            result.low,
            result.high,
            result.p,
            cohens_dz(checked),
            int((checked == 0).sum()),
            result.note,
        )

    def _tested(
        self,
        measure: str,
        correction: str | None,
        drawing: Mapping[str, Any],
        on_untested: OnUntested,
    ) -> list[dict[str, Any]]:
        """Return the paired tests of a measure, a record per system, without undefined queries."""
        compares_queries = self._compares_queries(measure)
        if compares_queries:
            on_untested(
                f"{measure} cannot be tested over queries, because it compares groups of queries; "
                "use fairtk.credit.query_gain, which resamples queries"
            )
        values = self.tables[measure].to_numpy()
        defined = ~np.isnan(values).any(axis=0)
        options = self._drawing(drawing, self.tables[measure].columns[defined])
        values = values[:, defined]
        n, baseline = values.shape[1], self.systems.index(self.baseline)
        means = values.mean(axis=1) if n else np.full(len(values), np.nan)
        if compares_queries:  # `values` are those of the inner measure
            means, values = self.means.loc[self.systems, measure].to_numpy(), values[:, :0]
            options |= {"clusters": None}
        tested: tuple[str, ...] = (*_TESTED, "p", "effect")
        if drawing["test"] == "wilcoxon":  # interval and p-value are those of the estimate
            tested = (*_TESTED, "estimate", "p", "effect")
        records: list[dict[str, Any]] = []
        n_clusters = len(set(() if options["clusters"] is None else options["clusters"]))
        for index, (system, mean) in enumerate(zip(self.systems, means, strict=True)):
            record = {"system": system, "measure": measure, "mean": float(mean), "n": n}
            if self.clusters is not None:
                record["clusters"] = n_clusters
            if self.checked is not None:
                checked, cheap, others = self.checked[measure]
                mean_of = corrected_mean(checked[index], cheap[index], others[index])
                record["checked"] = mean_of.n_checked
                record |= {name: getattr(mean_of, name) for name in ("mean_checked", "corrected")}
            record |= dict.fromkeys((*tested[:-1], "p_corrected", "effect"), math.nan)
            record |= {"estimand": PSEUDOMEDIAN} if "estimate" in tested else {}
            if index != baseline:
                result = self._test(measure, values, index, baseline, options)
                record |= {name: getattr(result, name) for name in tested}
                if result.note and not compares_queries:
                    on_untested(_untested_text(system, self.baseline, measure, result))
            records.append(record)
        corrected = correct_p_values([record["p"] for record in records], correction)
        for record, p in zip(records, corrected, strict=True):
            record["p_corrected"] = float(p)
        return records

    def _margin_tests(
        self, measure: str, table: pd.DataFrame, system: str, margin: float | None
    ) -> dict[str, float]:
        if margin is None:
            return {"p_not_worse": math.nan, "p_equivalent": math.nan}
        x, y = table.loc[system].to_numpy(), table.loc[self.baseline].to_numpy()
        better = self.measures[measure].better
        options = self._drawing({}, table.columns)
        return {
            "p_not_worse": non_inferiority_test(x, y, margin, better=better, **options).p,
            "p_equivalent": equivalence_test(x, y, margin, **options).p,
        }

    def _by_level(
        self,
        measure: str,
        table: pd.DataFrame,
        system: str,
        variances: Variances,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        names = ["error_queries", "error_samples", "low_samples", "high_samples"]
        if system == self.baseline:
            return dict.fromkeys(names, math.nan)
        differences, variance, part = self._differences(measure, table, system, variances)
        levels = two_level_mean(differences, variance, part, **options)
        record = {name: getattr(levels, name) for name in names}
        if part is not None:
            record["error_answers"] = levels.error_answers
            record["answers"] = ONE_ANSWER if math.isnan(levels.error_answers) else ""
        return record

    def _differences(
        self,
        measure: str,
        table: pd.DataFrame,
        system: str,
        variances: Variances,
        *numbers: int | None,
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return the difference from the baseline and its `Variances` for each query."""
        qids = table.columns.tolist()
        parts = variances(system, self.baseline, measure, qids, *numbers)
        return (table.loc[system] - table.loc[self.baseline]).to_numpy(), *parts

    def plan(
        self,
        variances: Variances,
        difference: float,
        n_samples: Sequence[int],
        options: Mapping[str, float],
        n_answers: Sequence[int] | None = None,
    ) -> pd.DataFrame:
        """Return the number of queries for a paired t-test; see `Comparison.queries_needed`."""
        self._refuse_with_checked(queries_needed=True)
        if self.clusters is not None:
            raise ParameterError(
                f"queries_needed does not support clusters ({self.clusters.name}), because it is "
                "for independent queries; compare without `cluster`"
            )
        rows: list[list[Any]] = []
        n_samples = checks.listed("n_samples", n_samples)
        if n_answers is not None:
            n_answers = checks.listed("n_answers", n_answers)
            for n in n_answers:
                checks.integer("n_answers", n, "queries_needed")
        for measure in self.tables:
            defined = self._testable(measure)
            for system in self.systems:
                if system == self.baseline or defined.shape[1] < 2:
                    continue
                values, variance, part = self._differences(measure, defined, system, variances)
                levels = two_level_mean(values, variance, part)
                of_queries = levels.error_queries**2 * levels.n
                for n, number in product(n_samples, (None,) if n_answers is None else n_answers):
                    _, variance, part = self._differences(
                        measure, defined, system, variances, n, number
                    )
                    if part is not None:  # the number of answers matters only if the part is known
                        variance = variance + (np.nan_to_num(part) if number is None else part)
                    within = float(variance.mean())
                    deviation = math.sqrt(of_queries + max(within, 0.0))
                    if math.isnan(within):
                        deviation = math.nan
                    queries = math.nan
                    if not math.isnan(deviation):
                        queries = queries_needed(difference, deviation, **options)
                    numbers = [n] if number is None else [n, number]
                    record = [math.sqrt(of_queries), deviation, queries]
                    rows.append([system, measure, *numbers, *record])
        numbers_of = ["n_samples"] if n_answers is None else ["n_samples", "n_answers"]
        columns = ["system", "measure", *numbers_of, "deviation_queries", "deviation", "queries"]
        return pd.DataFrame(rows, columns=columns)
