"""Results of runs that are in files or frames: what they are worth, and what they have beside a
baseline.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from fairtk.display.tables import html_text
from fairtk.errors import InputError, MissingWarning, NotFoundError
from fairtk.experiment.comparison import Margin, SamplingVariances, SystemComparison
from fairtk.experiment.evaluate_runs import Data, EvaluatedRuns, RunValues, aggregated, evaluated
from fairtk.experiment.evaluation_tables import comparison_table, table_text
from fairtk.experiment.identity import environment
from fairtk.experiment.results import Results
from fairtk.experiment.saved import SavedEvaluation
from fairtk.experiment.values import NOTE_TYPES, NOTES, UNDEFINED, noted, some_columns
from fairtk.frames import QID, Run, takes_tables
from fairtk.io.runs import Order
from fairtk.measures import format_measure, parse
from fairtk.measures.base import reason_for
from fairtk.report.statistics import CORRECTIONS, TESTS, Correction, Test

Queries = Literal["all", "common"]
QUERIES: tuple[Queries, ...] = get_args(Queries)


@takes_tables
def evaluate(
    qrels: Data | None,
    runs: Data | Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    *,
    answers: Sequence[Data] = (),
    gold: Data | None = None,
    order: Order = "auto",
    groups: Sequence[Any] = (),
    targets: Sequence[Any] = (),
) -> Results:
    """Measure runs, as the command ``fairtk evaluate`` does.

    Args:
        qrels: labels: a frame, a file, ``"-"`` (standard input) or the id of a dataset. None: only
            measures that need no labels (EE_D, AWRF and what is made of them); n is then what
            each run retrieves, and normalized values do not compare with those by labels.
        runs: one or more frames or files; a mapping names them.
        measures: measures, or strings that `fairtk.measures.parse` reads.
        answers: generated answers, none or one per run.
        gold: gold answers, if the qrels have none.
        order: what orders the runs of files; auto refuses runs whose ranks and scores disagree.
        groups: `fairtk.Groups`, frames or files, for measures that need some and name none.
        targets: `fairtk.Target`, frames, files, ``"uniform"`` or ``"qrels"``, likewise.

    Returns:
        The results: print them, or see `Results`; the runs are its systems.

    Raises:
        InputError: a file, frame or measure cannot be used; says which.
    """
    checked: dict[str, Run] = {}
    values = evaluated(
        qrels, runs, measures, checked, answers=answers, gold=gold, order=order, groups=groups,
        targets=targets,
    )  # fmt: skip
    return Results(**_arguments(values, checked, values.qids))


class Comparison(Results):
    """What runs have beside a baseline: `Results`, and the tests that were asked for.

    Attributes:
        table: one row per measure and run: ``run`` (the file, or the name of a frame or in a
            mapping), ``measure``, ``mean``, ``n`` (queries for which the measure is defined in
            every run: means and tests are over these; a measure that compares groups of queries has
            its mean alone), ``difference`` from the baseline with the
            ends ``low`` and ``high`` of its interval, ``p``, ``p_corrected``, and ``effect``
            (Cohen's dz); with the Wilcoxon test ``estimate`` and ``estimand``
            (``"pseudomedian"``: what ``low``, ``high`` and p are about). NaN in the row of the
            baseline, and where nothing can be tested, which a warning says. With a margin and with
            levels it has the columns of `Results.compare`.
        evaluation: the values, of all queries.
        baseline: the name of the baseline.
        settings: the test and how it was done.
    """

    baseline: str

    def __init__(
        self,
        arguments: Mapping[str, Any],
        evaluation: EvaluatedRuns,
        named: bool,
        settings: dict[str, Any],
        systems: SystemComparison,
        variances: SamplingVariances,
        labels: Mapping[str, str],
    ) -> None:
        super().__init__(**arguments, baseline=systems.baseline)
        self.evaluation, self.settings = evaluation, settings
        self._named, self._drawing = named, {name: settings[name] for name in _DRAWING}
        self._correction = str(settings["correction"])
        self._systems, self._variances, self._labels = systems, variances, labels
        table = systems.table(
            self._drawing,
            None if self._correction == "none" else self._correction,
            settings["margin"],
            variances if settings["levels"] else None,
        )
        self.table = self._by_run(table.drop(columns="undefined"))

    def __repr__(self) -> str:
        return table_text(comparison_table(self, 4))

    def _repr_html_(self) -> str:
        return html_text(comparison_table(self, 4))

    def _by_run(self, table: pd.DataFrame) -> pd.DataFrame:
        runs = table["system"].map(self._labels)
        return table.assign(system=runs).rename(columns={"system": "run"})

    def queries_needed(
        self,
        difference: float,
        n_samples: Sequence[int] = (1, 10, 100, 1000),
        baseline: str | None = None,
        power: float = 0.8,
        **options: float,
    ) -> pd.DataFrame:
        """Return how many queries a paired t-test needs to find a difference from the baseline.

        Args:
            difference: the mean difference that should be found.
            power: the chance of finding it, above 0 and below 1.
            n_samples: numbers of samples per query to plan for.
            baseline: the name of another run to compare with.
            options: the ``significance`` of `fairtk.statistics.queries_needed`.

        Returns:
            ``run``, ``measure``, ``n_samples``, ``deviation_queries`` (of true differences over
            queries), ``deviation`` (of sampled ones), ``queries`` (NaN: see `fairtk.precision`;
            also of EE_D and EE_L, which are over pairs of samples, with one sample).
        """
        systems = self._systems if baseline is None else self._compared(baseline)
        return self._by_run(
            systems.plan(self._variances, difference, n_samples, {"power": power, **options})
        )


_DRAWING = ("test", "confidence", "resamples", "seed")


@takes_tables
def compare(
    qrels: Data,
    runs: Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    *,
    baseline: Any = None,
    test: Test = "t",
    correction: Correction | None = "holm",
    queries: Queries = "all",
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
        test: the paired test (`fairtk.statistics.paired_test`).
        correction: the correction of the p-values of a measure for the number of runs
            (`fairtk.statistics.correct`).
        queries: the queries that count: ``"all"`` (one missing from a run has the worst value) or
            ``"common"`` (those that all runs have results for).
        confidence: the level of the intervals, above 0 and below 1.
        resamples: how often a randomization test draws.
        seed: the seed of these draws.
        margin: the margin of non-inferiority and equivalence, for all measures or by measure.
        levels: estimate what samples and queries each add to the error
            (`fairtk.statistics.two_levels`). Samples of two runs with equal numbers are pairs:
            those of one seed share random numbers.
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
    checked: dict[str, Run] = {}
    with warnings.catch_warnings():
        if queries == "common":  # what a run lacks does not count
            warnings.simplefilter("ignore", MissingWarning)
        evaluation = evaluated(qrels, runs, measures, checked, **options)
    if len(evaluation.runs) < 2:
        raise InputError("there is nothing to compare: give at least two runs")
    first = _baseline(evaluation, baseline)
    qids = _queries(evaluation, queries)
    names = [run.name for run in evaluation.runs]
    by_label = {format_measure(measure): measure for measure in evaluation.measures}
    tables = {
        text: pd.DataFrame(
            [[run.values[m][q] for q in qids] for run in evaluation.runs], names, qids
        )
        for text, m in by_label.items()
    }
    arguments = _arguments(evaluation, checked, qids)
    directions = arguments["evaluation"].directions
    return Comparison(
        arguments,
        evaluation,
        baseline is not None,
        {
            "test": test,
            "confidence": confidence,
            "resamples": resamples,
            "seed": seed,
            "correction": correction or "none",
            "queries": queries,
            "margin": _by_label(margin, evaluation),
            "levels": levels,
        },
        SystemComparison(tables, names, first.name, directions.__getitem__, arguments["means"]),
        SamplingVariances(arguments["rows"], arguments["evaluation"].qrels, by_label),
        {r.name: r.name if isinstance(runs, Mapping) else r.file for r in evaluation.runs},
    )


def _arguments(
    values: EvaluatedRuns, checked: Mapping[str, Run], qids: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of `Results` for values of these queries."""
    labels = {format_measure(measure): measure for measure in values.measures}
    table = np.array(
        [[[run.values[m][q] for q in qids] for m in values.measures] for run in values.runs]
    ).reshape(len(values.runs), len(labels), len(qids))
    names = [run.name for run in values.runs]
    asked = list(labels.items())
    undefined = [
        (names[i], qids[k], asked[j][0], reason_for(asked[j][1], qids[k], values.runs[i].reasons))
        for i, j, k in np.argwhere(np.isnan(table)).tolist()
    ]
    places = pd.MultiIndex.from_product([names, labels, qids], names=["system", "measure", QID])
    per_query = pd.DataFrame({"value": table.ravel()}, places).reset_index()
    ids = np.array(qids, dtype=object)
    means = [
        [aggregated(m, own, ids) for m, own in zip(values.measures, of_run, strict=True)]
        for of_run in table
    ]

    def rows(
        system: str,
        columns: Collection[str] | None = None,
        codes: bool = False,
        qids: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        run = checked[system]
        frame = run.frame if codes else run.with_text_ids()
        return some_columns(frame if qids is None else frame[frame[QID].isin(qids)], columns)

    directions = {label: str(getattr(m, "better", "higher")) for label, m in labels.items()}
    texts = {label: repr(measure) for label, measure in labels.items()}
    qrels = values.labels.with_text_ids()
    sources = {run.name: "a frame" if run.file == run.name else run.file for run in values.runs}
    return {
        "rows": rows,
        "evaluation": SavedEvaluation(texts, directions, qrels, tuple(values.measures)),
        "notes": lambda name: pd.DataFrame(columns=NOTES).astype(NOTE_TYPES),
        "per_query": per_query[["system", QID, "measure", "value"]],
        "means": pd.DataFrame(means, pd.Index(names, name="system"), list(labels), dtype=float),
        "undefined": pd.DataFrame(undefined, columns=UNDEFINED, dtype="str"),
        "failures": pd.DataFrame(columns=["system", QID, "error"], dtype="str"),
        "config": {"systems": sources, "queries": len(qids), **noted(filter(None, [values.note]))},
        "environment": environment(),
    }


def _by_label(margin: Margin, evaluation: EvaluatedRuns) -> Margin:
    """Return margins by the measures' labels, also where they were asked for otherwise."""
    if not isinstance(margin, Mapping):
        return margin
    asked = {text.strip(): format_measure(m) for m, text in evaluation.written.items()}
    labels = {format_measure(m) for m in evaluation.measures}
    return {
        text if text in labels else asked.get(text.strip()) or format_measure(parse(text)): value
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
