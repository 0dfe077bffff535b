"""Results of experiments: values, rankings, answers and comparisons.

Tables, pages, figures and files of results are functions of `fairtk.report`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias, overload

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import (
    ColumnError,
    FairtkWarning,
    InputError,
    MissingPluginError,
    NotFoundError,
    ParameterError,
    UndefinedWarning,
    warn,
)
from fairtk.experiment.checked import CheckedLabels
from fairtk.experiment.clusters import clusters_of
from fairtk.experiment.comparison import (
    Margin,
    OnUntested,
    SystemComparison,
    Variances,
    sampling_variances,
    split_by_checked,
    tables_by_measure,
)
from fairtk.experiment.inputs import prepare_labels
from fairtk.experiment.values import SystemRows, Values, columns_read, values_of_samples
from fairtk.frames import (
    ANSWER_STATUS,
    CREDIT,
    DOCNO,
    EXPOSURE,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    Qrels,
    Run,
)
from fairtk.frames.answers import STATUSES, statuses_of
from fairtk.frames.columns import ERROR, PARENT, PROMPT_ID, SOURCE_SAMPLE
from fairtk.io.artifacts import Artifact
from fairtk.measures import LabeledRun, format_measure, parse
from fairtk.measures.info import MeasureInfo
from fairtk.measures.parsing import digests_of, known_names, name_and_params
from fairtk.plugins.references import cite_results
from fairtk.remarks import Remark, emit, warnings_of
from fairtk.statistics.checked import corrected_mean
from fairtk.statistics.tests import TESTS

Place: TypeAlias = str | PathLike[str]

_IN_CREDIT = (QID, SAMPLE, DOCNO, PARENT, RANK, CREDIT, ERROR, SOURCE_SAMPLE, ANSWER_STATUS)


def answers_in(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the answers in a system's rows.

    The columns are ``qid``, ``sample`` if sampled, ``qanswer``, ``answer_status`` if known, and
    ``prompt_id`` with several answers per ranking.
    """
    keys = [c for c in (QID, SAMPLE) if c in frame.columns]
    columns = [c for c in (*keys, QANSWER, ANSWER_STATUS, PROMPT_ID) if c in frame.columns]
    return frame.drop_duplicates(keys)[columns].reset_index(drop=True)


def credit_in(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the credit in a system's rows: its columns of a frame C."""
    return frame[[c for c in _IN_CREDIT if c in frame.columns]].reset_index(drop=True)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results(Artifact):
    """The results of `fairtk.Experiment`, `fairtk.evaluate` and `fairtk.compare`.

    Methods accept measures or their labels, e.g. ``"AWRF(groups='gender')@10"``. Results are not
    changed after they are made; `dataclasses.replace` makes others.

    `print` shows systems by measures, like ``fairtk evaluate``; `counts` is the long form, a row
    per system and measure.

    A failed query has no rows and gets the worst value of each measure. A query with an undefined
    value (NaN) is excluded from means and tests. Tables report the numbers of both.

    Saved results that are loaded answer like the original. `per_sample`, `sampling_bias`,
    `queries_needed`, and `compare` with levels need the measures themselves, so their plugins must
    be installed, and their groups and targets registered.

    Results are artifacts of PyTerrier: `build_package`, `to_hf` and `to_zenodo` share what `save`
    writes, and `from_url`, `from_hf` and `from_zenodo` load it.

    Attributes:
        values: the values of all systems.
        measures: the measures, a `fairtk.measures.MeasureInfo` each, which is equal to the label,
            e.g. ``"E(nDCG@5)"``.
        failures: ``system``, ``qid``, ``error`` of failed queries.
        config: the settings of the experiment, as JSON values; ``digests`` identifies the content
            of groups and targets.
        environment: the versions of packages, as JSON values.
        remarks: what a reader of the values must know.
        baseline: the system that `compare` compares with; `None` if no baseline was given.
        credits: frames of credit by system, if the rankings have none; see `credit`.
        clusters: the cluster of each query, with the qids as index and the column as name, if
            intervals and tests take clusters into account; see `with_clusters`.
        checked: the values with the labels of checked queries, ``system``, ``qid``, ``measure``,
            ``value``; `None` without checked labels; see `with_checked`.
    """

    ARTIFACT_TYPE = "results"

    values: Values
    measures: list[MeasureInfo]
    failures: pd.DataFrame
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    remarks: tuple[Remark, ...] = ()
    baseline: str | None = None
    credits: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    clusters: pd.Series | None = None
    checked: pd.DataFrame | None = None
    _rows: SystemRows
    _notes: Callable[[str], pd.DataFrame]
    _labels: Qrels | pd.DataFrame | None  # `None` without measures
    _topics: pd.DataFrame | None = None
    _objects: Mapping[str, Any] = field(default_factory=dict)  # the measures by label, if known

    @classmethod
    def of(
        cls, values: Values, measures: Mapping[str, Any], config: Mapping[str, Any], **fields: Any
    ) -> Self:
        """Return the results of measures.

        Args:
            values: the values, whose remarks are those of the results.
            measures: the measures by label.
            config: the settings, to which the digests of groups and targets are added.
            fields: other attributes.
        """
        digests = digests_of(measures.values())
        return cls(
            values=values,
            measures=[MeasureInfo.of(measure) for measure in measures.values()],
            _objects=measures,
            config={**config, **({"digests": digests} if digests else {})},
            remarks=values.remarks,
            **fields,
        )

    @property
    def warnings(self) -> list[FairtkWarning]:
        """The remarks as warnings; those that differ in their systems only are one warning.

        ``warnings.warn(warning)`` issues one; ``str(warning)`` is its text.
        """
        return warnings_of(self.remarks)

    @property
    def systems(self) -> list[str]:
        """The names of the systems."""
        return [str(name) for name in self.values.means.index]

    @property
    def per_query(self) -> pd.DataFrame:
        """``system``, ``qid``, ``measure``, ``value``, for all queries with labels.

        Values of a measure that compares groups of queries are NaN: only its mean is defined.
        """
        return self._reported(self.values.per_query)

    @property
    def undefined(self) -> pd.DataFrame:
        """``system``, ``qid``, ``measure``, ``reason`` of undefined values, NaN if unknown."""
        return self.values.undefined.reset_index(drop=True)

    @property
    def means(self) -> pd.DataFrame:
        """One row per system, one column per measure, and ``failed`` if queries failed.

        Means are over the defined values of all queries with labels; failed queries get the worst
        value.
        """
        table = self.values.means.copy()
        if len(self.failures):
            table["failed"] = self._failed.reindex(table.index, fill_value=0)
        return table

    @property
    def counts(self) -> pd.DataFrame:
        """The means and numbers of queries, one row per system and measure.

        The columns are ``system``, ``measure``, ``mean``, ``n`` (queries with a defined value),
        ``undefined`` and ``failed`` (numbers of queries).
        """
        groups = self.values.per_query.groupby(["system", "measure"], sort=False)["value"]
        table = groups.agg(n="count", queries="size").reset_index()
        means = [
            self.values.means.loc[s, m]
            for s, m in zip(table["system"], table["measure"], strict=True)
        ]
        table.insert(2, "mean", pd.Series(means, dtype=float))
        table["undefined"] = table.pop("queries") - table["n"]
        table["failed"] = self._failed.reindex(table["system"], fill_value=0).to_numpy()
        return table

    @cached_property
    def per_sample(self) -> pd.DataFrame:
        """The values of each sample: ``system``, ``qid``, ``sample``, ``measure``, ``value``.

        For ``E(m)``, the value is that of ``m``; for EU, the utility of the answer. Measures of
        exposure have values only for systems with one ranking per query, its sample 0. The table is
        computed on first access.

        Raises:
            MissingPluginError: the plugin of a measure is not installed.
            ParameterError: groups or a target of loaded results are not registered.
        """
        columns = ["system", QID, SAMPLE, "measure", "value"]
        qrels = self.qrels
        if qrels is None:
            return pd.DataFrame(columns=columns)
        measures = self._all_measures
        read = columns_read(measures.values())
        parts = [
            part
            for system in self.systems
            for part in values_of_samples(system, self._rows(system, read), measures, qrels)
            if len(part)
        ]
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
        return self._reported(table.sort_values(columns[:-1], ignore_index=True))

    def _reported(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table without the values that measures of groups of queries compare."""
        labels = [info.label for info in self.measures if info.compares_queries]
        if not labels:
            return table
        return table.assign(value=table["value"].mask(table["measure"].isin(labels)))

    @cached_property
    def qrels(self) -> pd.DataFrame | None:
        """The labels; `None` without measures."""
        return self._labels.with_text_ids() if isinstance(self._labels, Qrels) else self._labels

    def rankings(self, name: str) -> pd.DataFrame:
        """Return all rows of a system, in the order of the topics.

        Raises:
            NotFoundError: the system is unknown.
        """
        self._check(name)
        return self._rows(name)

    def answers(self, name: str) -> pd.DataFrame:
        """Return the answers of a system.

        The columns are ``qid``, ``sample`` if sampled, ``qanswer``, ``answer_status`` if known, and
        ``prompt_id`` with several answers per ranking.

        Raises:
            NotFoundError: the system is unknown.
            ColumnError: the system has no answers.
        """
        self._check(name)
        frame = self._rows(name, [QID, SAMPLE, QANSWER, ANSWER_STATUS, PROMPT_ID])
        if QANSWER not in frame.columns:
            raise ColumnError(
                f"system {name!r} has no answers (missing column {QANSWER!r}); add a generator to "
                "its pipeline, e.g. >> fairtk.FlanT5()"
            )
        return answers_in(frame)

    @cached_property
    def answer_status(self) -> pd.DataFrame:
        """The number of answers with each status: a row per system with answers, a column each.

        The columns are `fairtk.frames.answers.STATUSES`. Systems whose answers have no status are
        left out.
        """
        counts = {}
        for name in self.systems:
            frame = self._rows(name, [QID, SAMPLE, ANSWER_STATUS])
            if ANSWER_STATUS in frame.columns:
                _, status = statuses_of(Run(frame, f"system {name!r}"))
                counts[name] = np.bincount(status, minlength=len(STATUSES))
        table = pd.DataFrame.from_dict(counts, "index", np.int64, list(STATUSES))
        return table.rename_axis("system")

    def credit(self, name: str) -> pd.DataFrame:
        """Return the credit of the documents of a system.

        The columns are ``qid``, ``sample`` if sampled, ``docno``, ``credit``, and if known ``rank``
        and ``standard_error``.

        Raises:
            NotFoundError: the system is unknown.
            ColumnError: the system has no credit.
        """
        self._check(name)
        if name in self.credits:
            return self.credits[name].copy()
        frame = credit_in(self._rows(name))
        if CREDIT not in frame.columns:
            raise ColumnError(
                f"system {name!r} has no credit (missing column {CREDIT!r}); add a stage for it to "
                "its pipeline, e.g. >> fairtk.credit.Citations()"
            )
        return frame

    def notes(self, name: str) -> pd.DataFrame:
        """Return the notes of a system's stages on queries, also on failed queries.

        A stage leaves notes with `fairtk.transformers.leave_notes`: a JSON value by query, e.g. a
        trace. The notes of a stage with a language model are dicts with its costs: ``calls``,
        ``seconds`` and ``tokens``, `None` if unknown. Those of a stage with `fairtk.Seen` have its
        turns, ``seen``.

        Returns:
            ``qid``, ``stage`` (its class), ``note``, in the order of the topics.

        Raises:
            NotFoundError: the system is unknown.
        """
        self._check(name)
        return self._notes(name)

    def better(self, measure: str) -> str:
        """Return the better direction of a measure, ``"higher"`` or ``"lower"``."""
        return self.info(measure).better

    def info(self, measure: Any) -> MeasureInfo:
        """Return what is known about a measure: its direction, bounds, caveat, parts and more.

        Args:
            measure: a measure or its label. ``AWRF@10`` matches this measure with any groups and
                target, if there is only one.

        Raises:
            NotFoundError: the results have no such measure, or several.
        """
        return self._info(measure, "measure")

    def _info(self, measure: Any, kind: str) -> MeasureInfo:
        label, name, params = str(measure).strip(), "", {}
        if label not in self.measures:
            try:
                parsed = parse(measure)
                label, name, params = format_measure(parsed), parsed.NAME, parsed.params
            except InputError:  # groups are not registered, or a plugin is not installed
                with contextlib.suppress(InputError):
                    name, params = name_and_params(label)
        matches = [info for info in self.measures if info == label]
        matches = matches or [info for info in self.measures if info.matches(name, params)]
        if len(matches) != 1:
            raise NotFoundError(kind, str(measure), self.measures)
        return matches[0]

    def _measure(self, label: str) -> Any:
        """Return a measure as an object.

        Raises:
            MissingPluginError: the plugin that defines it, or a part of it, is not installed.
            ParameterError: its groups or target are not registered, or others of the same name.
        """
        info = self.info(label)
        if info in self._objects:
            return self._objects[info]
        for one in _missing(info):
            needed_for = "values by sample, sampling bias and errors by level"
            raise MissingPluginError(
                f"the measure {one}", owner=one.owner, remedy=f"install it for {needed_for}"
            )
        measure = parse(info.label)
        saved = self.config.get("digests", {})
        for part, digests in digests_of([measure]).items():
            for name, digest in digests.items():
                if digest != saved.get(part, {}).get(name):
                    raise ParameterError(
                        f"{part}: these results were measured with another {name} of this name; "
                        f"register it with fairtk.register_{name}"
                    )
        return measure

    @cached_property
    def _all_measures(self) -> dict[str, Any]:
        return {info.label: self._measure(info) for info in self.measures}

    def compare(
        self,
        baseline: str | None = None,
        test: str = "t",
        correction: str | None = "holm",
        confidence: float = 0.95,
        *,
        margin: Margin = None,
        levels: bool = False,
        cluster: Any = None,
        checked: Any = None,
    ) -> pd.DataFrame:
        """Compare all systems with a baseline, on queries with defined values for all systems.

        Args:
            baseline: the system to compare with; `None` for that of the experiment.
            test: see `fairtk.statistics.paired_test`.
            correction: see `fairtk.statistics.correct_p_values`; the tests of a measure are one
                family.
            confidence: the level of the intervals, in (0, 1).
            margin: the margin of non-inferiority and equivalence, above 0, for all measures or by
                measure.
            levels: whether to estimate the errors over queries, over samples and, for EU, over the
                answers of a model separately (`fairtk.statistics.two_level_mean`); samples with the
                same number are paired, and equal prompts share their answers.
            cluster: the clusters of queries that are not independent, as for `with_clusters`;
                `None` for those of the results, if any.
            checked: labels by people for some queries, as for `with_checked`; `None` for those of
                the results, if any. The test is then the t-test, without margin, levels and
                clusters.

        Returns:
            A row per measure and system, with the columns

            - ``system``, ``measure``, ``mean``, ``n`` (queries), ``difference``, ``low``, ``high``,
              ``p``, ``p_corrected``, ``effect`` (Cohen's dz);
            - ``undefined`` (excluded queries), ``failed`` (queries with the worst value);
            - with clusters, ``clusters`` (their number), after ``n``;
            - with checked labels, ``checked`` (the number of checked queries), ``mean_checked``
              (their mean) and ``corrected`` (the corrected mean); ``difference``, ``low``, ``high``
              and ``p`` are then corrected, and ``effect`` is that of the checked queries;
            - with the Wilcoxon test, ``estimate`` and ``estimand`` (``"pseudomedian"``): ``low``,
              ``high`` and ``p`` are then those of the estimate;
            - with a margin, ``p_not_worse`` and ``p_equivalent``;
            - with levels, the standard errors ``error_queries`` and ``error_samples``, and the
              interval over samples, ``low_samples`` to ``high_samples``;
            - with levels and EU, the standard error ``error_answers``, NaN if prompts have one
              answer, as ``answers`` then says. The interval over samples includes answers.

            There are no tests of ``ByGroup(by="query")``.

        Raises:
            ParameterError: there is no baseline, a margin is not above 0, or the Wilcoxon test has
                clusters.
            NotFoundError: the system, test, correction, measure or column is unknown.
            InputError: `cluster` or `checked` is invalid.
        """
        checks.known("test", test, TESTS)
        checks.boolean("levels", levels, "compare")
        drawing = {"test": test, "confidence": confidence}
        results = self if checked is None else self.with_checked(checked, "compare")
        results = results if cluster is None else results.with_clusters(cluster, "compare")
        return compared_systems(results, baseline, drawing, correction, margin, levels)

    def with_clusters(self, cluster: Any, where: str = "with_clusters") -> Self:
        """Return the results with clusters of queries, which intervals and tests then use.

        The queries of a cluster are not independent: questions of one user, variants,
        translations, turns or seeds of one question.

        Args:
            cluster: the name of a column of the topics, the qrels or the runs; a file with ``qid``
                and this column, also ``"COLUMN=FILE"``; a frame; or a dict from qid to cluster.
            where: the caller, for messages.

        Raises:
            NotFoundError: there is no such column or file.
            InputError: a query has no cluster or several, or all queries are in one cluster.
            ParameterError: `cluster` is in another form, or the results have checked labels.
        """
        if self.checked is not None:
            raise ParameterError(f"{where}: `cluster` is not supported with `checked` labels")
        qids = self.per_query[QID].unique().tolist()
        return replace(self, clusters=clusters_of(cluster, self._tables(cluster), qids, where))

    def with_checked(self, checked: Any, where: str = "with_checked") -> Self:
        """Return the results with labels by people for some queries, drawn at random.

        The labels of the results may then be those of a model: the checked queries correct its bias
        in means, differences and intervals (prediction-powered inference).

        Args:
            checked: the labels of the checked queries: a frame, a file or the id of a dataset.
                Without gold answers of their own, they have those of the results.
            where: the caller, for messages.

        Raises:
            InputError: the labels are invalid, a measure is not a mean over queries, there are
                fewer than two checked queries, or one is not measured.
            ParameterError: the results have clusters.
            MissingPluginError: the plugin of a measure is not installed.
        """
        if self.clusters is not None:
            raise ParameterError(f"{where}: `checked` is not supported with clusters of queries")
        measures = self._all_measures
        labels = prepare_labels(
            checked, None, list(measures.values()), f"{where}: checked", self.qrels
        )
        qids = self.per_query[QID].unique().tolist()
        with_labels = CheckedLabels(measures, labels, qids, where)
        read = columns_read(measures.values())
        for system in self.systems:
            run = Run(self._rows(system, read, codes=True), f"system {system!r}")
            with_labels.measure(system, run)
        values, remarks = with_labels.values()
        emit(remarks, 3)
        return replace(self, checked=values, remarks=(*self.remarks, *remarks))

    @cached_property
    def corrected(self) -> pd.DataFrame:
        """The means, corrected by the labels of checked queries; see `with_checked`.

        The columns are ``system``, ``measure``, ``mean`` (of all queries, with the labels of the
        results), ``mean_checked`` (of the checked queries, with their labels), ``corrected`` (the
        corrected mean), ``low`` and ``high`` (its 95 % interval), ``n`` and ``checked`` (numbers of
        queries), ``weight`` (how much the labels of the results count, 0 to 1) and ``note`` (the
        reason if there is no interval).

        Raises:
            ParameterError: the results have no checked labels.
        """
        if self.checked is None:
            raise ParameterError(
                "corrected: the results have no `checked` labels; use "
                "evaluate(..., checked=...) or with_checked"
            )
        rows: list[list[Any]] = []
        tables = tables_by_measure(self.per_query, self.systems)
        checked = tables_by_measure(self.checked, self.systems)
        for info in self.measures:
            for system in self.systems:
                exact, cheap, others = split_by_checked(
                    tables[info.label].loc[[system]], checked[info.label].loc[[system]]
                )
                mean = corrected_mean(exact[0], cheap[0], others[0], bounds=info.limits)
                rows.append(
                    [system, info.label, mean.mean, mean.mean_checked, mean.corrected, mean.low]
                    + [mean.high, mean.n, mean.n_checked, mean.weight, mean.note]
                )
        columns = ["system", "measure", "mean", "mean_checked", "corrected", "low", "high"]
        return pd.DataFrame(rows, columns=[*columns, "n", "checked", "weight", "note"])

    def _tables(self, column: Any) -> Iterator[pd.DataFrame]:
        """Yield the frames that may have a column with clusters."""
        if self._topics is not None:
            yield self._topics
            if column in self._topics.columns:
                return
        labels = self._labels.frame if isinstance(self._labels, Qrels) else self._labels
        if labels is not None:
            yield labels
        for system in self.systems:
            yield self._rows(system, [QID, column], codes=True)

    def queries_needed(
        self,
        difference: float,
        n_samples: Sequence[int] = (1, 10, 100, 1000),
        baseline: str | None = None,
        *,
        n_answers: Sequence[int] | None = None,
        **options: float,
    ) -> pd.DataFrame:
        """Return the number of queries for a paired t-test to detect a difference.

        Args:
            difference: the mean difference to detect.
            n_samples: numbers of samples per query.
            baseline: the system to compare with; `None` for that of the experiment.
            n_answers: numbers of answers per prompt, for EU of several answers; `None` for the
                actual number.
            options: ``power`` and ``significance`` of `fairtk.statistics.queries_needed`.

        Returns:
            The columns of `fairtk.experiment.Comparison.queries_needed`, with ``system`` instead of
            ``run``.
        """
        compared = system_comparison(self, baseline)
        return compared.plan(self._variances, difference, n_samples, options, n_answers)

    def sampling_bias(self) -> pd.DataFrame:
        """Return the sampling bias of the means of EE_D and EE_L with ``estimator="plain"``.

        Returns:
            ``system``, ``measure`` and ``bias`` (plain minus unbiased estimate, NaN with one sample
            per query), one row per sampled system and measure.

        Raises:
            MissingPluginError: the plugin of such a measure is not installed.
            ParameterError: its groups or target are not registered.
        """
        return self._bias.copy()

    @cached_property
    def _bias(self) -> pd.DataFrame:
        biased = [info for info in self.measures if info.has_sampling_bias]
        measures = {info.label: self._measure(info) for info in biased}
        rows: list[tuple[str, str, float]] = []
        for system in self.systems if measures else ():
            frame = self._rows(system, [QID, DOCNO, SCORE, RANK, SAMPLE, EXPOSURE])
            if SAMPLE not in frame.columns or EXPOSURE in frame.columns:
                continue
            judged = LabeledRun.of(self._labels, frame, "sampling_bias")
            for label, measure in measures.items():
                bias = measure.sampling_bias(judged)[judged.present]
                known = bias[~np.isnan(bias)]
                rows.append((system, label, float(known.mean()) if len(known) else math.nan))
        return pd.DataFrame(rows, columns=["system", "measure", "bias"])

    @cached_property
    def _variances(self) -> Variances:
        """The function for the sampling variances of differences between systems."""
        measures = self._all_measures
        read = columns_read(measures.values())
        return sampling_variances(lambda name: self._rows(name, read), self.qrels, measures)

    @overload
    def to_markdown(
        self, baseline: str | None = None, *, path: None = None, **options: Any
    ) -> str: ...
    @overload
    def to_markdown(self, baseline: str | None = None, *, path: Place, **options: Any) -> None: ...
    def to_markdown(
        self, baseline: str | None = None, *, path: Place | None = None, **options: Any
    ) -> str | None:
        """Return or write the means as a Markdown table for a paper; see `to_latex`."""
        from fairtk.report import exports, paper_tables

        return exports.write_or_return(paper_tables.to_markdown(self, baseline, **options), path)

    @overload
    def to_latex(
        self, baseline: str | None = None, *, path: None = None, **options: Any
    ) -> str: ...
    @overload
    def to_latex(self, baseline: str | None = None, *, path: Place, **options: Any) -> None: ...
    def to_latex(
        self, baseline: str | None = None, *, path: Place | None = None, **options: Any
    ) -> str | None:
        """Return or write the means as a LaTeX table for a paper (booktabs), systems by measures.

        The best mean is bold, the second is underlined, and arrows show the better direction. A
        dagger marks means that are significantly better than the baseline, a double dagger means
        that are worse. Without a baseline, superscript letters list the systems that a mean is
        significantly better than. The caption has test, correction and n.

        Args:
            baseline: the system to compare with; `None` for that of the experiment, if any.
            path: the file to write; `None` to return the text.
            options: ``digits`` (4), ``test`` and ``correction`` as in `compare`, ``significance``
                (the limit of the corrected p-value, 0.05), ``pairs`` (`True` for letters instead of
                daggers, even with a baseline).

        Raises:
            NotFoundError: the system, test or correction is unknown.
        """
        from fairtk.report import exports, paper_tables

        return exports.write_or_return(paper_tables.to_latex(self, baseline, **options), path)

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: Place) -> None: ...
    def to_csv(self, path: Place | None = None) -> str | None:
        """Return or write `counts` as CSV with all digits.

        Args:
            path: the file to write; `None` to return the text.
        """
        from fairtk.report import exports

        return exports.write_or_return(exports.to_csv(self), path)

    def plot_trade_off(self, x: Any, y: Any) -> Any:
        """Draw the means of two measures, one point per system, with intervals over queries.

        Args:
            x: a measure, or its label.
            y: another measure.

        Returns:
            A ``matplotlib.figure.Figure``; ``.savefig(path)`` writes it.

        Raises:
            NotFoundError: a measure is unknown.
            MissingExtraError: matplotlib is not installed.
        """
        from fairtk.report.figures import plot_trade_off

        return plot_trade_off(self, self.info(x), self.info(y))

    def cite(self) -> str:
        """Return BibTeX of the tools, systems and measures.

        A comment names the measures whose plugins are not installed.
        """
        text = cite_results(self.config.get("systems", {}).values(), self.measures)
        missing = {one: one.owner for info in self.measures for one in _missing(info)}
        return text + "".join(
            f"\n% no references of {label}: {owner} is not installed\n"
            for label, owner in missing.items()
        )

    def report(self, path: str | PathLike[str], **options: Any) -> None:
        """Write one HTML file with all tables, figures and queries.

        Args:
            path: the file; its folder must exist.
            options: options of `fairtk.report.page_text`, e.g. ``title`` or ``sections``.
        """
        from fairtk.report.page import write_report

        write_report(self, path, **options)

    def _repr_html_(self) -> str:
        from fairtk.report.summaries import results_html

        return results_html(self)

    def __repr__(self) -> str:
        from fairtk.report.summaries import results_text

        return results_text(self)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write values, rankings, answers, credit and qrels as Parquet, and the rest as JSON.

        `fairtk.experiment.results_schema` and the site describe the files.

        Args:
            folder: the folder, which is created if missing. An earlier save is replaced as a whole:
                if this save fails or is killed, the earlier one can still be loaded.

        Raises:
            StoreError: the folder is not writable.
            InputError: Parquet cannot hold a value.
        """
        from fairtk.experiment import saved

        saved.save(self, checks.path("folder", folder, "Results.save"))

    def _write_files(self, folder: Path) -> None:
        """Write the files of a package: those of `save`."""
        self.save(folder)

    def to_trec(self, folder: str | PathLike[str]) -> list[Path]:
        """Write a run file and its ir_metadata for each system, and ``qrels.txt``.

        The second column of a sampled run has the number of the sample (`fairtk.io.write_run`).
        Systems without rankings are skipped with a warning. The folder is created if missing.

        Raises:
            InputError: an id contains a space, which TREC files do not support.
            StoreError: the folder is not writable.
        """
        from fairtk.report import exports

        return exports.write_trec(self, checks.path("folder", folder, "Results.to_trec"))

    def to_ir_metadata(self, system: str, more: Mapping[str, Any] | None = None) -> str:
        """Return the metadata of a system's run as ir_metadata YAML (Breuer et al. 2022).

        Args:
            system: the system.
            more: components to add or replace, e.g. ``{"actor": {"team": "we"}}``.

        Raises:
            NotFoundError: the system is unknown.
        """
        from fairtk.report import exports

        return exports.ir_metadata(self, system, more)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Results:
        """Read the results that `save` wrote.

        Raises:
            FormatError: a file is missing or damaged.
        """
        from fairtk.experiment import saved

        return Results(**saved.load(checks.path("folder", folder, "Results.load")))

    @property
    def _failed(self) -> pd.Series:
        return self.failures.groupby("system").size()

    def _check(self, name: str) -> None:
        checks.known("system", name, self.systems)


def _missing(info: MeasureInfo) -> list[MeasureInfo]:
    """Return a measure and its parts, if their plugins are not installed."""
    names = known_names()
    return [one for one in info.with_parts() if one.name not in names]


def system_comparison(results: Results, baseline: str | None) -> SystemComparison:
    """Return the tests of systems against a baseline.

    Raises:
        ParameterError: there is no baseline.
        NotFoundError: the system is unknown.
    """
    name = results.baseline if baseline is None else baseline
    if name is None:
        raise ParameterError(
            f"compare requires a baseline: pass one of {results.systems}, or use "
            "Experiment(baseline=...)"
        )
    checks.known("system", name, results.systems)
    values = results.values
    return SystemComparison(
        values.per_query,
        results.systems,
        name,
        results.measures,
        values.means,
        results.clusters,
        results.checked,
    )


def checked_margins(results: Results, margin: Margin) -> Margin:
    """Return margins by the labels of measures."""
    if not isinstance(margin, Mapping):
        return margin
    kind = "measure of the comparison"
    return {results._info(m, kind).label: limit for m, limit in margin.items()}


def _warn_untested(text: str) -> None:
    warn(text, UndefinedWarning, stacklevel=6)


def compared_systems(
    results: Results,
    baseline: str | None,
    drawing: Mapping[str, Any],
    correction: str | None,
    margin: Margin = None,
    levels: bool = False,
    on_untested: OnUntested = _warn_untested,
) -> pd.DataFrame:
    """Return the table of `Results.compare`.

    Args:
        results: the results.
        baseline: see `Results.compare`.
        drawing: the options of `fairtk.statistics.paired_test`.
        correction: see `Results.compare`.
        margin: see `Results.compare`.
        levels: see `Results.compare`.
        on_untested: called with a text for each undefined test or interval.
    """
    variances = results._variances if levels else None
    margins = checked_margins(results, margin)
    table = system_comparison(results, baseline).table(
        drawing, correction, margins, variances, on_untested
    )
    failed = results.failures.groupby("system").size()
    table["failed"] = failed.reindex(table["system"], fill_value=0).to_numpy()
    return table
