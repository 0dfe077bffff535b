"""Runs against a baseline: paired tests, intervals, corrections."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError, MissingWarning, NotFoundError, UndefinedWarning
from fairtk.evaluation.evaluating import Data, evaluate
from fairtk.evaluation.values import EvaluatedRuns, RunValues
from fairtk.frames import FloatArray
from fairtk.measures import written
from fairtk.statistics import CORRECTIONS, TESTS, correct, paired_test

QUERIES = ("all", "common")
COLUMNS = ["run", "measure", "mean", "n", "difference", "low", "high", "p", "p_corrected", "effect"]


@dataclass
class Comparison:
    """What runs have beside a baseline.

    Attributes:
        table: one row per measure and run: ``run`` (the file, or the name of a frame), ``measure``,
            ``mean``, ``n`` (queries for which the measure is defined in every run: means and tests
            are over these), ``difference`` from the baseline with the ends ``low`` and ``high`` of
            its interval, ``p``, ``p_corrected``, and ``effect`` (Cohen's dz). NaN in the row of the
            baseline, and where nothing can be tested, which a warning says.
        evaluation: the values.
        baseline: the name of the baseline.
        settings: the test and how it was done.
    """

    table: pd.DataFrame
    evaluation: EvaluatedRuns
    baseline: str
    settings: dict[str, Any]


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
        found = evaluate(qrels, runs, measures, **options)
    if len(found.runs) < 2:
        raise InputError("there is nothing to compare: give at least two runs")
    first = _baseline(found, baseline)
    qids = _queries(found, queries)
    drawing = {"test": test, "confidence": confidence, "resamples": resamples, "seed": seed}
    rows = [
        row for m in found.measures for row in _rows(found, first, m, qids, correction, drawing)
    ]
    settings = drawing | {"correction": correction or "none", "queries": queries}
    return Comparison(pd.DataFrame(rows, columns=COLUMNS), found, first.name, settings)


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


def _rows(
    found: EvaluatedRuns,
    baseline: RunValues,
    measure: Any,
    qids: list[str],
    correction: str | None,
    drawing: dict[str, Any],
) -> list[list[Any]]:
    values = np.array([[run.values[measure][qid] for qid in qids] for run in found.runs])
    names = [run.file for run in found.runs]
    return tested(written(measure), names, values, found.runs.index(baseline), correction, drawing)


def tested(
    measure: str,
    names: Sequence[str],
    values: FloatArray,
    baseline: int,
    correction: str | None,
    drawing: Mapping[str, Any],
) -> list[list[Any]]:
    """Return a measure's rows of a comparison, in the order of `COLUMNS`.

    Args:
        measure: what the measure is called.
        names: of what is compared.
        values: one row for each of these, one column per query; queries with a NaN are left out.
        baseline: the place of the baseline.
        correction: see `compare`.
        drawing: the options of `fairtk.statistics.paired_test`.
    """
    values = values[:, ~np.isnan(values).any(axis=0)]
    n = values.shape[1]
    means = values.mean(axis=1) if n else np.full(len(values), np.nan)
    nothing = [np.nan] * 4
    rows: list[list[Any]] = []
    for place, (name, own, mean) in enumerate(zip(names, values, means, strict=True)):
        found = nothing
        effect = np.nan
        if place != baseline:
            result = paired_test(own, values[baseline], **drawing)
            found = [result.difference, result.low, result.high, result.p]
            effect = result.effect
            if result.note:
                warnings.warn(
                    f"{name} against {names[baseline]} by {measure}: {result.note}, so the "
                    "test or its interval is undefined",
                    UndefinedWarning,
                    stacklevel=2,
                )
        rows.append([name, measure, float(mean), n, *found, np.nan, effect])
    corrected = correct([row[COLUMNS.index("p")] for row in rows], correction)
    for row, p in zip(rows, corrected, strict=True):
        row[COLUMNS.index("p_corrected")] = float(p)
    return rows
