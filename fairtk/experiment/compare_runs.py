"""Results of runs in files or frames: their values, and their differences from a baseline."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display.tables import html_text
from fairtk.errors import InputError, MissingWarning, NotFoundError, TruncationWarning
from fairtk.experiment.comparison import Margin
from fairtk.experiment.evaluate_runs import (
    GivenGroups,
    as_labels,
    as_run,
    asked_measures,
    completed,
    documents_per_query,
    parse_with,
    refuse_without_labels,
    run_names,
    unlabeled,
)
from fairtk.experiment.evaluation_tables import comparison_table, significant_text, table_text
from fairtk.experiment.identity import environment
from fairtk.experiment.results import Results
from fairtk.experiment.values import (
    NOTE_TYPES,
    NOTES,
    Values,
    aggregates,
    directions,
    evaluate_run,
    measures_by_label,
    some_columns,
    tabulated,
    undefined_values,
)
from fairtk.frames import QID, Run
from fairtk.frames.accepted import accepts_dataframes
from fairtk.groups.distances import RELEVANCE
from fairtk.io.runs import Order, frame_of_run
from fairtk.measures import format_measure
from fairtk.measures.base import parts_of
from fairtk.measures.ee import ExpectedExposure
from fairtk.measures.provider import FairEvaluator, truncation_texts
from fairtk.report.statistics import CORRECTIONS, TESTS, Correction, Test

Data: TypeAlias = str | PathLike[str] | pd.DataFrame
Queries = Literal["all", "common"]
QUERIES: tuple[Queries, ...] = get_args(Queries)


@accepts_dataframes
def evaluate(
    qrels: Data | None,
    runs: Data | Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    *,
    answers: Sequence[Data] = (),
    gold: Data | None = None,
    order: Order = "auto",
    groups: Sequence[Any] = (),
    target: Any = (),
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
        target: a `fairtk.Target`, frame, file, ``"uniform"``, ``"population"`` or ``"relevance"``,
            likewise; one, or one per attribute of the groups.

    Returns:
        The results: print them, or see `Results`; the runs are its systems.

    Raises:
        InputError: a file, frame or measure cannot be used; says which.
    """
    files, data = run_names(runs)
    arguments = _evaluated(
        qrels, files, data, measures, {}, answers=answers, gold=gold, order=order, groups=groups,
        target=target,
    )  # fmt: skip
    return Results(**arguments)


def evaluate_runs(qrels: Any, runs: Any, measures: Any, **options: Any) -> Results:
    """Return what `evaluate` returns, without rankings: each run is freed once it is measured."""
    return Results(**_evaluated(qrels, *run_names(runs), measures, None, **options))


def _evaluated(
    qrels: Data | None,
    files: Mapping[str, str],
    data: Sequence[Any],
    measures: Sequence[Any] | str,
    checked: dict[str, Run] | None,
    *,
    answers: Sequence[Data] = (),
    gold: Data | None = None,
    order: str = "auto",
    groups: Sequence[Any] = (),
    target: Any = (),
) -> dict[str, Any]:
    """Return the arguments of `Results`, and put the runs into `checked` by name.

    `files` has the file of each run by its name (``""`` for a frame); `checked` is `None` if the
    runs are not needed any more. For all other arguments see `evaluate`.
    """
    answers = [answers] if isinstance(answers, str | PathLike | pd.DataFrame) else list(answers)
    if answers and len(answers) != len(data):
        raise InputError(
            f"answers must be given once per run, in the order of the runs; found {len(answers)} "
            f"for {len(data)} runs"
        )
    given_groups = GivenGroups.read(groups, target)
    parsed = [parse_with(given_groups, measure) for measure in asked_measures(measures)]
    if qrels is None:
        if any(isinstance(one, str) and one == RELEVANCE for one in given_groups.target):
            raise InputError(f"the target {RELEVANCE!r} needs relevance labels: give `qrels`")
        data = [frame_of_run(run, order) for run in data]
        labels = unlabeled(data, list(files))
    else:
        labels = given_groups.labels = as_labels(qrels, gold, parsed)
    whole = [completed(given_groups, measure) for measure in parsed]
    by_label = measures_by_label(whole)
    unique_measures = list(by_label.values())
    if given_groups.attributes and not given_groups.used:
        example = f"EE_L(groups='{next(iter(given_groups.attributes))}')@20"
        raise InputError(f'no measure uses `groups`: name an attribute, e.g. "{example}"')
    if qrels is None:
        refuse_without_labels(unique_measures)
    try:
        evaluator = FairEvaluator(unique_measures, labels, warns_of_truncation=False)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"ir_measures cannot compute this: {error}") from error
    tables, reasons, sizes = [], {}, []
    padded = answers or [None] * len(data)
    for (name, file), source, answer in zip(files.items(), data, padded, strict=True):
        run = as_run(source, file or name, order, answer, unique_measures, labels)
        table, reasons[name] = evaluate_run(evaluator, unique_measures, run, name)
        tables.append(table)
        if checked is not None:
            checked[name] = run
        if qrels is None:
            sizes.append(f"{name} {documents_per_query(run)}")
    texts = truncation_texts(evaluator.truncation.found(), len(data))
    for text in texts:
        warnings.warn(text, TruncationWarning, stacklevel=3)
    notes = [f"{text}." for text in texts]
    parts = [part for measure in unique_measures for part in parts_of(measure)]
    if sizes and any(isinstance(part, ExpectedExposure) for part in parts):
        notes.insert(
            0,
            "Without labels n is what a run retrieves, in documents a query: "
            f"{'; '.join(sizes)}. Normalized values do not compare with those measured with "
            "labels.",
        )
    by_document = [
        format_measure(measure)
        for measure in whole
        if isinstance(measure, ExpectedExposure) and measure["groups"] is None
    ]
    if given_groups.attributes and by_document:
        example = f"EE_D(groups='{next(iter(given_groups.attributes))}')"
        notes.append(f"By documents: {', '.join(by_document)}; by groups: {example}.")

    def rows(
        system: str,
        columns: Collection[str] | None = None,
        codes: bool = False,
    ) -> pd.DataFrame:
        assert checked is not None  # callers that read rows keep the runs
        run = checked[system]
        return some_columns(run.frame if codes else run.with_text_ids(), columns)

    table, qids = np.stack(tables), labels.qids.tolist()
    per_query = tabulated(list(files), by_label, qids, table)
    return {
        "rows": rows,
        "values": Values(
            per_query,
            aggregates(list(files), by_label, qids, table),
            undefined_values(per_query, by_label, reasons),
            notes,
        ),
        "measures": by_label,
        "directions": directions(by_label),
        "qrels": labels,
        "notes": lambda name: pd.DataFrame(columns=NOTES).astype(NOTE_TYPES),
        "failures": pd.DataFrame(columns=["system", QID, "error"], dtype="str"),
        "config": {
            "systems": {name: file or "a frame" for name, file in files.items()},
            "queries": len(qids),
        },
        "environment": {} if checked is None else environment(),
    }


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
        evaluation: the results over all queries.
        baseline: the name of the baseline.
        settings: the test and how it was done.
    """

    baseline: str

    def __init__(
        self,
        arguments: Mapping[str, Any],
        evaluation: Results,
        named: bool,
        settings: dict[str, Any],
        labels: Mapping[str, str],
    ) -> None:
        super().__init__(**arguments)
        self.evaluation = evaluation
        self.settings = settings | {"margin": self._margins(settings["margin"])}
        self._named, self._drawing = named, {name: settings[name] for name in _DRAWING}
        self._correction, self._labels = settings["correction"], labels
        table = self._compared(self.baseline).table(
            self._drawing,
            self._correction,
            self.settings["margin"],
            self._variances if settings["levels"] else None,
        )
        self.table = self._by_run(table.drop(columns="undefined"))
        self.sampling_bias()  # printing needs it at once

    def __repr__(self) -> str:
        return table_text(comparison_table(self, 4), significant_text(self))

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
        plan = super().queries_needed(difference, n_samples, baseline, power=power, **options)
        return self._by_run(plan)


_DRAWING = ("test", "confidence", "resamples", "seed")


@accepts_dataframes
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
            (`fairtk.statistics.correct_p_values`).
        queries: the queries that count: ``"all"`` (one missing from a run has the worst value) or
            ``"common"`` (those that all runs have results for).
        confidence: the level of the intervals, above 0 and below 1.
        resamples: how often a randomization test draws.
        seed: the seed of these draws.
        margin: the margin of non-inferiority and equivalence, for all measures or by measure.
        levels: estimate what samples and queries each add to the error
            (`fairtk.statistics.two_level_mean`). Samples of two runs with equal numbers are pairs:
            those of one seed share random numbers.
        options: the other options of `evaluate`.

    Raises:
        InputError: a file, frame or measure cannot be used, or there is nothing to compare.
    """
    correction = correction or "none"
    checks.known("test", test, TESTS)
    checks.known("correction", correction, CORRECTIONS)
    checks.known("choice of queries", queries, QUERIES)
    files, data = run_names(runs)
    checked: dict[str, Run] = {}
    with warnings.catch_warnings():
        if queries == "common":  # what a run lacks does not count
            warnings.simplefilter("ignore", MissingWarning)
        arguments = _evaluated(qrels, files, data, measures, checked, **options)
    if len(files) < 2:
        raise InputError("there is nothing to compare: give at least two runs")
    evaluation = Results(**arguments)
    arguments |= {"baseline": _baseline(files, baseline)}
    if queries == "common":
        values = _on_common(arguments["values"], arguments["measures"], checked.values())
        n = values.per_query[QID].nunique()
        arguments |= {"values": values, "config": arguments["config"] | {"queries": n}}
    return Comparison(
        arguments,
        evaluation,
        baseline is not None,
        {
            "test": test,
            "confidence": confidence,
            "resamples": resamples,
            "seed": seed,
            "correction": correction,
            "queries": queries,
            "margin": margin,
            "levels": levels,
        },
        {n: n if isinstance(runs, Mapping) else file or n for n, file in files.items()},
    )


def _baseline(files: Mapping[str, str], baseline: Any) -> str:
    """Return the name of the run that is the baseline, which may be given by its file."""
    if baseline is None:
        return next(iter(files))
    text = fspath(baseline) if isinstance(baseline, str | PathLike) else str(baseline)
    for name, file in files.items():
        if text in (file, name):
            return name
    raise NotFoundError(
        "baseline", text, [n for name, file in files.items() for n in (file or name, name)]
    )


def _on_common(values: Values, measures: Mapping[str, Any], runs: Iterable[Run]) -> Values:
    """Return the values of the queries that all runs have results for."""
    common = set.intersection(*(set(run.qids) for run in runs))
    per_query, undefined = (
        part[part[QID].isin(common)].reset_index(drop=True)
        for part in (values.per_query, values.undefined)
    )
    if per_query.empty:
        raise InputError("no query of the qrels is in all runs: compare over all queries instead")
    systems = values.means.index.tolist()
    table = per_query["value"].to_numpy().reshape(len(systems), len(measures), -1)
    qids = per_query[QID].tolist()[: table.shape[2]]
    return Values(per_query, aggregates(systems, measures, qids, table), undefined, values.notes)
