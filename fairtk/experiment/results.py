"""Tables and figures of results; matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.analysis import Margin, SamplingVariances, SystemComparison
from fairtk.errors import ColumnError, NotFoundError, ParameterError
from fairtk.experiment import saved
from fairtk.experiment.saved import Evaluation, SystemRows, all_samples
from fairtk.frames import QANSWER, QID, SAMPLE
from fairtk.io import (
    Points,
    Table,
    aligned_lines,
    draw_trade_off,
    html_text,
    latex_text,
    markdown_text,
    new_figure,
    series,
    spread,
    texts,
)
from fairtk.plugins import cite_results
from fairtk.report import compares_queries, mean_intervals, write_report


def as_texts(frame: pd.DataFrame, caption: str = "") -> Table:
    """Return a frame as a table of texts."""
    rows = [list(row) for row in frame.itertuples(index=False)]
    return texts(list(frame.columns), rows, caption)


def spreads(
    per_query: pd.DataFrame, systems: Sequence[str], measures: Sequence[str]
) -> list[list[str]]:
    """Return a picture of the queries' values for each system and measure, ends by measure."""
    by_measure = per_query.groupby("measure")["value"]
    low, high = by_measure.min().to_dict(), by_measure.max().to_dict()
    values = dict(iter(per_query.groupby(["system", "measure"])["value"]))
    return [
        ["", *(spread(values[s, m], low[m], high[m]) if (s, m) in values else "" for m in measures)]
        for s in systems
    ]


def notes(counts: pd.DataFrame, systems: Sequence[str], failed: bool) -> list[str]:
    """Return what to say below means of which some queries are left out, or failed."""
    remarks = []
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        numbers = ", ".join(
            f"{s}: {u}" for s, u in zip(part["system"], part["undefined"], strict=True)
        )
        if len(part) == len(systems) and part["undefined"].nunique() == 1:
            numbers = str(part["undefined"].iloc[0])
        remarks.append(f"Queries where {measure} is undefined and left out: {numbers}.")
    if failed:
        remarks.append(
            "Failed queries count with the worst value of each measure; the next run with the "
            "same save_dir tries them again."
        )
    return remarks


def trade_off(
    means: pd.DataFrame, per_query: pd.DataFrame, better: Callable[[str], str], x: str, y: str
) -> Any:
    """Draw the means of two measures, one point per system, with intervals over the queries.

    Takes means by system (index) and measure (columns); `Results.plot_trade_off` says the rest.
    """
    for name in (x, y):
        if name not in means.columns:
            raise NotFoundError("measure", name, list(means.columns))
    figure = new_figure((5, 4), "plot_trade_off")
    reach = {}
    for name in (x, y):
        values = per_query[per_query["measure"] == name]
        table = values.pivot(index="system", columns=QID, values="value").loc[means.index]
        value = table.to_numpy() * (np.nan if compares_queries(name) else 1.0)
        ends = mean_intervals(value, method="t")
        reach[name] = np.abs(np.array(ends) - means[name].to_numpy())
    points = Points(
        *(means[x].to_numpy(), means[y].to_numpy(), series(0)),
        x_error=reach[x],
        y_error=reach[y],
        labels=[str(name) for name in means.index],
    )
    labels = [f"{name} ({better(name)} is better)" for name in (x, y)]
    draw_trade_off(figure.subplots(), [points], *labels)
    return figure


class Results:
    """The results of `fairtk.Experiment`.

    A failed query has no rows, gets each measure's worst value, and is counted in every table. One
    whose value is undefined (NaN) is left out of means and tests, and counted too.

    Attributes:
        systems: the systems' names.
        measures: the measures, as `fairtk.measures.parse` reads them, e.g. ``"E(nDCG@5)"``.
        per_query: ``system``, ``qid``, ``measure``, ``value``; a row per query with labels.
        failures: ``system``, ``qid``, ``error``: the queries that failed.
        baseline: the system that `compare` compares with; None: none was named.
        config: what was run, as JSON values.
        environment: with which versions, as JSON values.
    """

    def __init__(
        self,
        rows: SystemRows,
        evaluation: Evaluation | saved.SavedEvaluation,
        notes: Callable[[str], pd.DataFrame],
        per_query: pd.DataFrame,
        means: pd.DataFrame,
        failures: pd.DataFrame,
        baseline: str | None,
        config: Mapping[str, Any],
        environment: Mapping[str, Any],
    ) -> None:
        self.systems: list[str] = [str(name) for name in means.index]
        self.measures: list[str] = list(evaluation.texts)
        self.per_query = per_query
        self.failures = failures
        self.baseline = baseline
        self.config = dict(config)
        self.environment = dict(environment)
        self._rows = rows
        self._evaluation = evaluation
        self._notes = notes
        self._means = means

    @property
    def means(self) -> pd.DataFrame:
        """One row per system, one column per measure; ``failed`` too if any query failed.

        Means are over the defined values of all queries with labels, failed ones at their worst.
        """
        table = self._means.copy()
        if len(self.failures):
            table["failed"] = self._failed.reindex(table.index, fill_value=0)
        return table

    @property
    def counts(self) -> pd.DataFrame:
        """``system``, ``measure``, ``mean``, ``n`` (defined values), ``undefined``, ``failed``."""
        groups = self.per_query.groupby(["system", "measure"], sort=False)["value"]
        table = groups.agg(n="count", queries="size").reset_index()
        means = [
            self._means.loc[s, m] for s, m in zip(table["system"], table["measure"], strict=True)
        ]
        table.insert(2, "mean", pd.Series(means, dtype=float))
        table["undefined"] = table.pop("queries") - table["n"]
        table["failed"] = self._failed.reindex(table["system"], fill_value=0).to_numpy()
        return table

    @cached_property
    def per_sample(self) -> pd.DataFrame:
        """``system``, ``qid``, ``sample``, ``measure``, ``value``: the values of each ranking.

        For ``E(m)`` that is ``m``, for EU the utility; measures of exposure belong to all samples
        together, and are left out for sampled systems. Computed when first asked for.
        """
        return all_samples(self.systems, self._rows, self._evaluation.ready())

    @property
    def qrels(self) -> pd.DataFrame | None:
        """The labels that the measures read; None without measures."""
        return self._evaluation.qrels

    def rankings(self, name: str) -> pd.DataFrame:
        """Return all rows of a system, queries in the order of the topics.

        Raises:
            NotFoundError: there is no such system.
        """
        self._check(name)
        return self._rows(name)

    def answers(self, name: str) -> pd.DataFrame:
        """Return a system's answers: ``qid``, ``sample`` if sampled, ``qanswer``.

        Raises:
            NotFoundError: there is no such system.
            ColumnError: the system gives no answers.
        """
        self._check(name)
        frame = self._rows(name, [QID, SAMPLE, QANSWER])
        if QANSWER not in frame.columns:
            raise ColumnError(
                f"system {name!r} gives no answers (no column {QANSWER!r}): its pipeline needs a "
                "generator, e.g. >> fairtk.FlanT5()"
            )
        keys = [c for c in (QID, SAMPLE) if c in frame.columns]
        return frame.drop_duplicates(keys)[[*keys, QANSWER]].reset_index(drop=True)

    def notes(self, name: str) -> pd.DataFrame:
        """Return what the stages of a system noted of its queries, of failed ones, too.

        A transformer leaves notes by a method ``transform_with_notes(frame)``, which returns the
        rows that its ``transform`` gives and a dict of any JSON value by qid: seconds, a trace.

        Returns:
            ``qid``, ``stage`` (its class), ``note``; queries in the order of the topics.

        Raises:
            NotFoundError: there is no such system.
        """
        self._check(name)
        return self._notes(name)

    def better(self, measure: str) -> str:
        """Return ``"higher"`` or ``"lower"``: what is better, of one of the `measures`."""
        if measure not in self.measures:
            raise NotFoundError("measure", measure, self.measures)
        return self._evaluation.directions[measure]

    def compare(
        self,
        baseline: str | None = None,
        test: str = "t",
        correction: str | None = "holm",
        confidence: float = 0.95,
        *,
        margin: Margin = None,
        levels: bool = False,
    ) -> pd.DataFrame:
        """Compare all systems with one, on the queries where a measure is defined for all.

        Args:
            baseline: the system to compare with; None: the experiment's.
            test: see `fairtk.statistics.paired_test`.
            correction: see `fairtk.statistics.correct`; a measure's tests are one family.
            confidence: of the intervals of the mean difference.
            margin: of non-inferiority and equivalence, for all measures or by measure.
            levels: whether sampling and queries are told apart (`fairtk.statistics.two_levels`);
                samples of two systems are paired by their numbers, as those of one seed are drawn.

        Returns:
            A row per measure and system: ``system``, ``measure``, ``mean``, ``n`` (queries),
            ``difference``, ``low``, ``high``, ``p``, ``p_corrected``, ``effect`` (Cohen's dz),
            ``undefined`` (queries left out) and ``failed`` (queries at their worst value). With a
            margin: ``p_not_worse`` (by the margin or more) and ``p_equivalent``. With levels: the
            standard errors ``error_queries`` and ``error_samples``, and ``low_samples`` to
            ``high_samples``, the interval for these very queries.

        Raises:
            ParameterError: no baseline is named anywhere, or a margin is not above 0.
            NotFoundError: there is no such system, test, correction or measure.
        """
        variances = self._sampling() if levels else None
        drawing = {"test": test, "confidence": confidence}
        table = self._compared(baseline).table(drawing, correction, margin, variances)
        table["failed"] = self._failed.reindex(table["system"], fill_value=0).to_numpy()
        return table

    def queries_needed(
        self,
        difference: float,
        n_samples: Sequence[int] = (1, 10, 100, 1000),
        baseline: str | None = None,
        **options: float,
    ) -> pd.DataFrame:
        """Return how many queries a paired t-test needs to find a difference from the baseline.

        Args:
            difference: the mean difference that should be found.
            n_samples: numbers of samples per query to plan for.
            baseline: the system to compare with; None: the experiment's.
            options: see `fairtk.analysis.Comparison.queries_needed`, whose columns come back,
                with ``system`` for ``run``.
        """
        return self._compared(baseline).plan(self._sampling(), difference, n_samples, options)

    def _sampling(self) -> SamplingVariances:
        evaluation = self._evaluation.ready()
        measures = dict(zip(evaluation.labels, evaluation.measures, strict=True))
        return SamplingVariances(
            lambda name: self._rows(name, evaluation.inputs), evaluation.qrels, measures
        )

    def _compared(self, baseline: str | None) -> SystemComparison:
        name = self.baseline if baseline is None else baseline
        if name is None:
            raise ParameterError(
                f"compare needs a baseline: one of {self.systems} (or Experiment(baseline=...))"
            )
        self._check(name)
        return SystemComparison.of(self.per_query, self.systems, name, self.better)

    def to_markdown(self) -> str:
        """Return the means as a Markdown table, with notes of undefined and failed queries."""
        return markdown_text(self._table())

    def to_latex(self) -> str:
        """Return the means as a LaTeX table (booktabs), with the same notes."""
        return latex_text(self._table())

    def to_csv(self) -> str:
        """Return `counts` as CSV, all digits: a row per system and measure."""
        return str(self.counts.to_csv(index=False, lineterminator="\n"))

    def plot_trade_off(self, x: str, y: str) -> Any:
        """Draw two of the measures against each other: a point per system, intervals over the
        queries.

        Returns:
            A ``matplotlib.figure.Figure``: ``.savefig(path)`` writes it.

        Raises:
            NotFoundError: there is no such measure.
            MissingExtraError: matplotlib is not installed.
        """
        return trade_off(self.means, self.per_query, self.better, x, y)

    def cite(self) -> str:
        """Return BibTeX of what the results rest on: tools, systems and measures."""
        return cite_results(self.config.get("systems", {}).values(), self.measures)

    def report(self, path: str | PathLike[str], **options: Any) -> None:
        """Write one file of HTML that shows everything, single queries too.

        Args:
            path: the file; its folder must exist.
            options: those of `fairtk.report.page_text`, e.g. ``title`` or ``sections``.
        """
        write_report(self, path, **options)

    def _repr_html_(self) -> str:
        table = self._table()
        drawn = spreads(self.per_query, self.systems, self.measures)
        beside = [""] * (len(table.columns) - 1 - len(self.measures))  # how many queries failed
        return html_text(table, [[*row, *beside] for row in drawn])

    def __repr__(self) -> str:
        table = self._table()
        lines = aligned_lines(table, numbers=range(1, len(table.columns)))
        return "\n".join([*lines, *([table.caption] if table.caption else [])])

    def save(self, folder: str | PathLike[str]) -> None:
        """Write everything to a folder: values, rankings and qrels as Parquet, the rest as JSON.

        Args:
            folder: made if it is not there; files of an earlier save are replaced.

        Raises:
            StoreError: the folder cannot be written.
        """
        tables = {"per_query": self.per_query, "failures": self.failures, "means": self.counts}
        more = {"baseline": self.baseline, "experiment": self.config}
        notes = [self._notes(name).assign(system=name) for name in self.systems]
        saved.save(
            Path(folder), self.systems, self._rows, self._evaluation,
            pd.concat(notes, ignore_index=True), tables, self.environment, more,
        )  # fmt: skip

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Results:
        """Return the results that `save` wrote.

        Raises:
            FormatError: a file is missing or damaged; names it.
        """
        return cls(**saved.load(Path(folder)))

    @property
    def _failed(self) -> pd.Series:
        """The number of failed queries by system."""
        return self.failures.groupby("system").size()

    def _table(self) -> Table:
        remarks = notes(self.counts, self.systems, len(self.failures) > 0)
        return as_texts(self.means.reset_index(), " ".join(remarks))

    def _check(self, name: str) -> None:
        if name not in self.systems:
            raise NotFoundError("system", name, self.systems)
