"""Measure and compare runs in files or frames."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike, fspath
from typing import Any, Literal, get_args

import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, NotFoundError
from fairtk.experiment.checked import CheckedLabels
from fairtk.experiment.comparison import Margin
from fairtk.experiment.identity import environment
from fairtk.experiment.inputs import (
    GivenGroups,
    answers_of_runs,
    complete_measure,
    documents_per_query,
    empty_labels,
    measure_list,
    parse_with,
    prepare_labels,
    prepare_run,
    refuse_without_labels,
    run_names,
)
from fairtk.experiment.results import Results, checked_margins, compared_systems
from fairtk.experiment.values import (
    NOTE_TYPES,
    NOTES,
    SystemScores,
    Values,
    aggregates,
    measures_by_label,
    some_columns,
    values_of_systems,
)
from fairtk.frames import QID, Run
from fairtk.frames.accepted import FileOrFrame
from fairtk.groups.levels import RELEVANCE
from fairtk.io.runs import Order, as_run
from fairtk.measures import format_measure
from fairtk.measures.base import iter_parts
from fairtk.measures.ee import ExposureOfDocuments
from fairtk.measures.evaluator import Evaluator
from fairtk.remarks import MISSING, MISSING_CHECKED, NO_LABELS, NOT_BY_GROUP, Remark, emit
from fairtk.stage_context import reading
from fairtk.statistics.corrections import CORRECTIONS, Correction
from fairtk.statistics.tests import TESTS, Test

Queries = Literal["all", "common"]
QUERIES: tuple[Queries, ...] = get_args(Queries)


def evaluate(
    qrels: FileOrFrame | None,
    runs: FileOrFrame | Sequence[FileOrFrame] | Mapping[str, FileOrFrame],
    measures: Sequence[Any] | str,
    *,
    answers: Sequence[FileOrFrame] | Mapping[str, FileOrFrame] = (),
    gold: FileOrFrame | None = None,
    order: Order = "auto",
    groups: Sequence[Any] = (),
    target: Any = (),
    parent: str | None = None,
    ignore_identical_ids: bool = False,
    cluster: Any = None,
    checked: FileOrFrame | None = None,
) -> Results:
    """Measure runs, as the command ``fairtk evaluate`` does.

    Args:
        qrels: the labels: a frame, a file, ``"-"`` (standard input) or the id of a dataset. `None`
            for measures that need no labels (EE_D, AWRF and combinations); n is then the number of
            documents that each run retrieves, so normalized values are not comparable with values
            measured with labels.
        runs: one or more frames or files, or a mapping of names to them.
        measures: measures, or strings as for `fairtk.measures.parse`.
        answers: generated answers, one per run or by the name of the run, or empty.
        gold: gold answers, if missing from the qrels.
        order: the column that orders the documents of a run; with ``"auto"``, ranks and scores must
            agree. For ``"rank"``, see `fairtk.io.read_run`.
        groups: `fairtk.Groups`, frames or files, for measures that need groups but name none.
        target: a `fairtk.Target`, or a form or name of `fairtk.Target.of`, for measures that need a
            target but name none; one, or one per attribute of the groups. With the metadata file of
            TREC Fair Ranking 2022 as groups, ``"trec-2022-task-1"`` and ``"trec-2022-task-2"`` are
            the official targets.
        parent: the separator of document and passage in docnos, e.g. ``"%p"``: ``d1%p3`` is a
            passage of ``d1``, and a docno without it is its own document. Labels, groups and
            providers are then of documents. `None` for the column ``parent`` of runs, if any.
        ignore_identical_ids: leave out documents whose docno is the qid, in qrels and runs, as
            BEIR does for collections whose queries are documents. Remove them before a sampler
            with `fairtk.transformers.IgnoreIdenticalIds`, because their scores scale the others.
        cluster: clusters of queries that are not independent, such as the questions of one user,
            which intervals and tests take into account. A column of the qrels or runs, a file with
            qid and this column (also ``"COLUMN=FILE"``), a frame, or a dict from qid to cluster.
        checked: labels by people for some queries, drawn at random, if `qrels` are labels by a
            model. They correct its bias in means, differences and intervals. A frame, a file or the
            id of a dataset.

    Returns:
        The results, with the runs as systems.

    Raises:
        InputError: a file, frame or measure is invalid.
    """
    files, data = run_names(runs)
    results = _evaluate_all(
        qrels, files, data, measures, {}, answers=answers, gold=gold, order=order, groups=groups,
        target=target, parent=parent, ignore_identical_ids=ignore_identical_ids, checked=checked,
    )  # fmt: skip
    emit(results.remarks)
    return results if cluster is None else results.with_clusters(cluster, "evaluate")


def evaluate_runs(qrels: Any, runs: Any, measures: Any, **options: Any) -> Results:
    """Return the results of `evaluate` without rankings, to use less memory."""
    return _evaluate_all(qrels, *run_names(runs), measures, None, **options)


def _evaluate_all(*given: Any, **options: Any) -> Results:
    """Return the results of `_measure`, with the remarks on files and frames."""
    with reading() as of_input:
        results = _measure(*given, **options)
    return replace(results, remarks=(*of_input, *results.remarks))


def _measure(
    qrels: FileOrFrame | None,
    files: Mapping[str, str],
    data: Sequence[Any],
    measures: Sequence[Any] | str,
    runs: dict[str, Run] | None,
    *,
    answers: Sequence[FileOrFrame] | Mapping[str, FileOrFrame] = (),
    gold: FileOrFrame | None = None,
    order: Order = "auto",
    groups: Sequence[Any] = (),
    target: Any = (),
    parent: str | None = None,
    ignore_identical_ids: bool = False,
    checked: FileOrFrame | None = None,
) -> Results:
    """Return the results, and add the runs to `runs` by name.

    `files` has the file of each run by name (``""`` for a frame); `runs` is `None` if the runs are
    not needed later. For all other arguments see `evaluate`.
    """
    checks.boolean("ignore_identical_ids", ignore_identical_ids, "evaluate")
    answers = answers_of_runs(answers, files)
    given_groups = GivenGroups.read(groups, target)
    parsed = [parse_with(given_groups, measure) for measure in measure_list(measures)]
    if qrels is None:
        if any(isinstance(one, str) and one == RELEVANCE for one in given_groups.target):
            raise InputError(f"`qrels` are required for the target {RELEVANCE!r}")
        data = [as_run(run, name, order) for name, run in zip(files, data, strict=True)]
        order = "auto"  # they have this order now
        labels = empty_labels(data)
    else:
        labels = prepare_labels(qrels, gold, parsed)
        if ignore_identical_ids:
            labels = labels.take(~labels.identical_ids())
        given_groups.labels = labels
    if qrels is None and checked is not None:
        raise InputError("`checked` requires `qrels`: the labels of all queries")
    complete = [complete_measure(given_groups, measure) for measure in parsed]
    by_label = measures_by_label(complete)
    unique_measures = list(by_label.values())
    given_groups.refuse_unused_targets()
    if given_groups.attributes and not given_groups.used:
        example = f"GroupEE_L(groups='{next(iter(given_groups.attributes))}')@20"
        raise InputError(f'`groups` are not used by any measure; use e.g. "{example}"')
    if qrels is None:
        refuse_without_labels(unique_measures)
    evaluator = Evaluator(unique_measures, labels)
    with_checked = None
    if checked is not None:
        others = labels.with_text_ids()
        labels_of_checked = prepare_labels(checked, gold, parsed, "checked", others)
        if ignore_identical_ids:
            labels_of_checked = labels_of_checked.take(~labels_of_checked.identical_ids())
        # targets may depend on the labels
        of_checked = replace(given_groups, labels=labels_of_checked, _made={})
        again = dict.fromkeys(complete_measure(of_checked, measure) for measure in parsed)
        with_checked = CheckedLabels(
            dict(zip(by_label, again, strict=True)),
            labels_of_checked,
            labels.qids.tolist(),
            "checked",
        )
    systems, sizes = {}, []
    for (name, file), source, answer in zip(files.items(), data, answers, strict=True):
        run = prepare_run(source, file or name, order, answer, unique_measures, labels)
        run = run.with_parents(parent)
        if ignore_identical_ids:
            run = run.without_identical_ids()
        systems[name] = SystemScores.of(evaluator, by_label, evaluator.checked(run))
        if with_checked is not None:
            with_checked.measure(name, run)
        if runs is not None:
            runs[name] = run
        if qrels is None:
            sizes.append(f"{name} {documents_per_query(run.by_parent())}")
    values = values_of_systems(systems, by_label, labels)
    remarks = list(values.remarks)
    checked_values = None
    if with_checked is not None:
        checked_values, more = with_checked.values()
        remarks += more
    parts = [part for measure in unique_measures for part in iter_parts(measure)]
    of_documents = [part for part in parts if isinstance(part, ExposureOfDocuments)]
    if sizes and of_documents:
        n = len(labels.qids)
        remarks.insert(0, Remark(NO_LABELS, "", "", n, n, (), n, "; ".join(sizes)))
    if given_groups.attributes and of_documents:
        names = ", ".join(dict.fromkeys(map(format_measure, of_documents)))
        groups = next(iter(given_groups.attributes))
        kinds = dict.fromkeys(measure.NAME for measure in of_documents)
        example = ", ".join(f"Group{kind}(groups='{groups}')" for kind in kinds)
        remarks.append(Remark(NOT_BY_GROUP, names, "", 0, 0, (), 0, example))

    def rows(
        system: str,
        columns: Collection[str] | None = None,
        codes: bool = False,
    ) -> pd.DataFrame:
        assert runs is not None
        run = runs[system]
        return some_columns(run.frame if codes else run.with_text_ids(), columns)

    return Results.of(
        replace(values, remarks=tuple(remarks)),
        by_label,
        {
            "systems": {name: file or "a frame" for name, file in files.items()},
            "queries": len(labels.qids),
        },
        _rows=rows,
        _labels=labels,
        _notes=lambda name: pd.DataFrame(columns=NOTES).astype(NOTE_TYPES),
        failures=pd.DataFrame(columns=["system", QID, "error"], dtype="str"),
        environment={} if runs is None else environment(),
        checked=checked_values,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Results):
    """The results of runs, compared with a baseline.

    Attributes:
        table: one row per measure and run: ``run`` (its name), ``measure``, ``mean``, ``n`` (the
            queries for which the measure is defined in every run, which means and tests use),
            ``difference`` from the baseline, ``low`` and ``high`` (the ends of its interval),
            ``p``, ``p_corrected``, and ``effect`` (Cohen's dz); with the Wilcoxon test also
            ``estimate`` and ``estimand`` (``"pseudomedian"``, to which ``low``, ``high`` and ``p``
            belong). Comparisons are NaN for the baseline, and if there is no test (with a
            warning). With `margin` and `levels`, see the columns of `Results.compare`.
        evaluation: the results over all queries.
        settings: the test and its settings; ``is_named`` is whether the baseline was given.
    """

    table: pd.DataFrame
    evaluation: Results
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        from fairtk.report.evaluation_tables import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from fairtk.report.evaluation_tables import comparison_html

        return comparison_html(self)

    def queries_needed(
        self,
        difference: float,
        n_samples: Sequence[int] = (1, 10, 100, 1000),
        baseline: str | None = None,
        power: float = 0.8,
        *,
        n_answers: Sequence[int] | None = None,
        **options: float,
    ) -> pd.DataFrame:
        """Return the number of queries for a paired t-test to detect a difference.

        Args:
            difference: the mean difference to detect.
            n_samples: numbers of samples per query.
            baseline: the name of another baseline.
            power: the required power, in (0, 1).
            n_answers: numbers of answers per prompt, for EU of several answers; `None` for the
                actual number.
            options: the ``significance`` of `fairtk.statistics.queries_needed`.

        Returns:
            ``run``, ``measure``, ``n_samples``, ``n_answers`` if given, ``deviation_queries``
            (standard deviation of the true differences over queries), ``deviation`` (that of
            differences with these numbers),
            ``queries`` (NaN for measures that `fairtk.precision` does not support, for EE_D and
            EE_L with one sample, and for given `n_answers` if prompts have one answer).
        """
        plan = super().queries_needed(
            difference, n_samples, baseline, n_answers=n_answers, power=power, **options
        )
        return plan.rename(columns={"system": "run"})


DRAWING = ("test", "confidence", "resamples", "seed")


def compare(
    qrels: FileOrFrame,
    runs: Sequence[FileOrFrame] | Mapping[str, FileOrFrame],
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
    cluster: Any = None,
    **options: Any,
) -> Comparison:
    """Compare runs with a baseline, as the command ``fairtk compare`` does.

    Args:
        qrels: see `evaluate`.
        runs: see `evaluate`.
        measures: see `evaluate`.
        baseline: the file or name of a run; `None` for the first run.
        test: the paired test (`fairtk.statistics.paired_test`).
        correction: how the p-values of a measure are corrected for the number of runs
            (`fairtk.statistics.correct_p_values`).
        queries: the queries to compare: ``"all"`` (a query missing from a run has the worst value)
            or ``"common"`` (those with results in all runs).
        confidence: the confidence level of the intervals, above 0 and below 1.
        resamples: the number of draws of a randomization test.
        seed: the seed of a randomization test.
        margin: the margin of non-inferiority and equivalence, for all measures or by measure.
        levels: estimate the standard errors over queries, over samples and, for EU, over answers
            separately (`fairtk.statistics.two_level_mean`). Samples with the same number are paired
            between runs, because runs with the same seed share random numbers.
        cluster: see `evaluate`.
        options: other options of `evaluate`.

    Raises:
        InputError: a file, frame or measure is invalid, or there are fewer than two runs.
        NotFoundError: the baseline, test, correction, column or file of clusters is unknown.
        ParameterError: a setting is out of its range, or two settings exclude each other, such as
            `cluster` and the Wilcoxon test, or `cluster` and `checked`.
    """
    checks.parameters(options, "compare", compare, evaluate)
    checks.known("test", test, TESTS)
    correction = "none" if correction is None else correction
    checks.known("correction", correction, CORRECTIONS)
    checks.known("choice of queries", queries, QUERIES)
    checks.boolean("levels", levels, "compare")
    checks.integer("seed", seed, "compare", least=0)
    files, data = run_names(runs)
    system = _baseline(files, baseline)
    checked_runs: dict[str, Run] = {}
    evaluation = _evaluate_all(qrels, files, data, measures, checked_runs, **options)
    if len(files) < 2:
        raise InputError(f"compare requires at least two runs, got {len(files)}")
    if queries == "common":  # missing queries do not count
        missing = MISSING, MISSING_CHECKED
        counted = tuple(remark for remark in evaluation.remarks if remark.kind not in missing)
        evaluation = replace(evaluation, remarks=counted)
    emit(evaluation.remarks)
    results = replace(evaluation, baseline=system)
    if queries == "common":
        values = _on_common(evaluation.values, evaluation._objects, checked_runs.values())
        n = values.per_query[QID].nunique()
        results = replace(results, values=values, config={**results.config, "queries": n})
        if results.checked is not None:
            is_common = results.checked[QID].isin(set(values.per_query[QID]))
            results = replace(results, checked=results.checked[is_common])
    if cluster is not None:
        results = results.with_clusters(cluster, "compare")
    settings: dict[str, Any] = {
        "test": test,
        "confidence": confidence,
        "resamples": resamples,
        "seed": seed,
        "correction": correction,
        "queries": queries,
        "margin": checked_margins(results, margin),
        "levels": levels,
        "cluster": None if results.clusters is None else results.clusters.name,
        "is_named": baseline is not None,
    }
    drawing = {name: settings[name] for name in DRAWING}
    table = compared_systems(results, system, drawing, correction, settings["margin"], levels)
    return Comparison(
        **{one.name: getattr(results, one.name) for one in fields(results)},
        table=table.drop(columns=["undefined", "failed"]).rename(columns={"system": "run"}),
        evaluation=evaluation,
        settings=settings,
    )


def _baseline(files: Mapping[str, str], baseline: Any) -> str:
    """Return the name of the baseline, which may be given as a file."""
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
    """Return the values of the queries with results in all runs."""
    common = set.intersection(*(set(run.qids) for run in runs))
    per_query, undefined = (
        part[part[QID].isin(common)].reset_index(drop=True)
        for part in (values.per_query, values.undefined)
    )
    if per_query.empty:
        raise InputError("no query of the qrels has results in all runs; use `queries='all'`")
    systems = values.means.index.tolist()
    table = per_query["value"].to_numpy().reshape(len(systems), len(measures), -1)
    qids = per_query[QID].tolist()[: table.shape[2]]
    means = aggregates(systems, measures, qids, table)
    return Values(per_query, means, undefined, values.remarks)
