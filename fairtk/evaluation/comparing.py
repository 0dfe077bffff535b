"""Runs against a baseline: paired tests, intervals, corrections."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import pandas as pd

from fairtk.errors import InputError, MissingWarning, NotFoundError
from fairtk.evaluation.differences import Margin, SamplingVariances, SystemComparison
from fairtk.evaluation.evaluating import Data, evaluated
from fairtk.evaluation.values import EvaluatedRuns, RunValues
from fairtk.measures import parse, written
from fairtk.statistics import CORRECTIONS, TESTS

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
        found = self._systems.plan(self._variances, difference, n_samples, options)
        return found.rename(columns={"system": "run"})


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
        levels: whether sampling and queries are told apart (`fairtk.statistics.two_levels`).
        options: the other options of `evaluate`.

    Raises:
        InputError: a file, frame or measure cannot be used, or there is nothing to compare.
    """
    for kind, name, known in (
        ("test", test, TESTS),
        ("correction", correction or "none", CORRECTIONS),
        ("choice of queries", queries, QUERIES),
    ):
        if name not in known:
            raise NotFoundError(kind, name, known)
    with warnings.catch_warnings():
        if queries == "common":  # what a run lacks does not count
            warnings.simplefilter("ignore", MissingWarning)
        frames: dict[str, pd.DataFrame] = {}
        found, labels = evaluated(qrels, runs, measures, frames, **options)
    if len(found.runs) < 2:
        raise InputError("there is nothing to compare: give at least two runs")
    first = _baseline(found, baseline)
    qids = _queries(found, queries)
    drawing = {"test": test, "confidence": confidence, "resamples": resamples, "seed": seed}
    names = [run.file for run in found.runs]
    by_label = {written(measure): measure for measure in found.measures}
    tables = {
        text: pd.DataFrame([[run.values[m][q] for q in qids] for run in found.runs], names, qids)
        for text, m in by_label.items()
    }
    systems = SystemComparison(
        tables, names, first.file, lambda text: getattr(by_label[text], "better", "higher")
    )
    variances = SamplingVariances(frames.__getitem__, labels, by_label)
    margin = _by_label(margin, found)
    table = systems.table(drawing, correction, margin, variances if levels else None)
    table = table.rename(columns={"system": "run"}).drop(columns="undefined")
    settings = drawing | {"correction": correction or "none", "queries": queries}
    settings |= {"margin": margin, "levels": levels}
    return Comparison(table, found, first.name, settings, systems, variances)


def _by_label(margin: Margin, found: EvaluatedRuns) -> Margin:
    """Return margins by the measures' labels, also where they were asked for otherwise."""
    if not isinstance(margin, Mapping):
        return margin
    asked = {text.strip(): written(m) for m, text in found.written.items()}
    labels = {written(m) for m in found.measures}
    return {
        text if text in labels else asked.get(text.strip()) or written(parse(text)): value
        for text, value in margin.items()
    }


def _baseline(found: EvaluatedRuns, asked: Any) -> RunValues:
    if asked is None:
        return found.runs[0]
    text = fspath(asked) if isinstance(asked, str | PathLike) else str(asked)
    for run in found.runs:
        if text in (run.file, run.name):
            return run
    raise NotFoundError("baseline", text, [name for r in found.runs for name in (r.file, r.name)])


def _queries(found: EvaluatedRuns, queries: str) -> list[str]:
    if queries == "all":
        return found.qids
    common = set.intersection(*(run.found for run in found.runs))
    qids = [qid for qid in found.qids if qid in common]
    if not qids:
        raise InputError("no query of the qrels is in all runs: compare over all queries instead")
    return qids
