"""Results of experiments: values, tables, tests and figures."""

from __future__ import annotations

import contextlib
import math
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display import MarkedText, Table, format_rows, latex_text, markdown_text, rounded_text
from fairtk.display.tables import aligned_lines, html_text
from fairtk.errors import (
    ColumnError,
    InputError,
    NotFoundError,
    ParameterError,
    UndefinedWarning,
)
from fairtk.experiment import formats, saved
from fairtk.experiment.comparison import (
    Margin,
    SystemComparison,
    Variances,
    sampling_variances,
)
from fairtk.experiment.values import (
    SystemRows,
    Values,
    columns_read,
    spreads,
    values_of_samples,
)
from fairtk.frames import CREDIT, DOCNO, EXPOSURE, QANSWER, QID, RANK, SAMPLE, SCORE, Qrels
from fairtk.measures import LabeledRun, format_measure, parse
from fairtk.measures.parsing import digests_of
from fairtk.plugins.references import cite_results
from fairtk.remarks import shown_texts
from fairtk.report import write_report
from fairtk.report.figures import plot_trade_off
from fairtk.report.tables import TEST_NAMES, corrected_for, queries_tested
from fairtk.statistics.corrections import CORRECTIONS
from fairtk.statistics.tests import TESTS

Place: TypeAlias = str | PathLike[str]


def as_texts(frame: pd.DataFrame, caption: str = "") -> Table:
    """Return a frame as a table of texts."""
    rows = [list(row) for row in frame.itertuples(index=False)]
    return format_rows(list(frame.columns), rows, caption)


def notes(counts: pd.DataFrame, systems: Sequence[str], failed: bool) -> list[str]:
    """Return remarks on undefined and failed queries for the caption of means."""
    remarks = []
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        numbers = ", ".join(
            f"{s}: {u}" for s, u in zip(part["system"], part["undefined"], strict=True)
        )
        if len(part) == len(systems) and part["undefined"].nunique() == 1:
            numbers = str(part["undefined"].iloc[0])
        remarks.append(f"Queries excluded because {measure} is undefined: {numbers}.")
    if failed:
        remarks.append(
            "Failed queries get the worst value of each measure; with a save_dir, the next run "
            "retries them."
        )
    return remarks


class Results:
    """The results of `fairtk.Experiment`, `fairtk.evaluate` and `fairtk.compare`.

    Methods accept measures or their labels, e.g. ``"AWRF(groups='gender')@10"``.

    A failed query has no rows and gets the worst value of each measure. A query with an undefined
    value (NaN) is excluded from means and tests. Tables report the numbers of both.

    Attributes:
        systems: the names of the systems.
        measures: the labels of the measures, e.g. ``"E(nDCG@5)"``, for `fairtk.measures.parse`.
        per_query: ``system``, ``qid``, ``measure``, ``value``, for all queries with labels.
        undefined: ``system``, ``qid``, ``measure``, ``reason`` of undefined values; the reason is
            NaN if unknown.
        failures: ``system``, ``qid``, ``error`` of failed queries.
        baseline: the system that `compare` compares with; `None` if no baseline was given.
        remarks: what a reader of the values must know.
        config: the settings of the experiment, as JSON values; ``digests`` identifies the content
            of groups and targets.
        environment: the versions of packages, as JSON values.
        credits: frames of credit by system, if the rankings have none; see `credit`.
    """

    def __init__(
        self,
        rows: SystemRows,
        values: Values,
        measures: Mapping[str, Any],
        directions: Mapping[str, str],
        qrels: Qrels | pd.DataFrame | None,
        notes: Callable[[str], pd.DataFrame],
        failures: pd.DataFrame,
        config: Mapping[str, Any],
        environment: Mapping[str, Any],
        baseline: str | None = None,
        credits: Mapping[str, pd.DataFrame] | None = None,
    ) -> None:
        self.systems: list[str] = [str(name) for name in values.means.index]
        self.measures: list[str] = list(measures)
        self.per_query = values.per_query
        self.undefined = values.undefined.reset_index(drop=True)
        self.failures = failures
        self.remarks = values.remarks
        self.baseline = baseline
        self.config = dict(config)
        held = digests_of(m for m in measures.values() if not isinstance(m, str))
        if held:
            self.config |= {"digests": held}
        self.environment = dict(environment)
        self.credits = dict(credits or {})
        self._rows = rows
        self._notes = notes
        self._means = values.means
        # measures of saved results are texts, whose groups may not be registered
        self._measures, self._directions, self._qrels = measures, directions, qrels
        self._named = baseline is not None
        self._drawing: Mapping[str, Any] = {"test": "t"}
        self._correction = "holm"

    @property
    def means(self) -> pd.DataFrame:
        """One row per system, one column per measure, and ``failed`` if queries failed.

        Means are over the defined values of all queries with labels; failed queries get the worst
        value.
        """
        table = self._means.copy()
        if len(self.failures):
            table["failed"] = self._failed.reindex(table.index, fill_value=0)
        return table

    @property
    def counts(self) -> pd.DataFrame:
        """The means and numbers of queries, one row per system and measure.

        The columns are ``system``, ``measure``, ``mean``, ``n`` (queries with a defined value),
        ``undefined`` and ``failed`` (numbers of queries).
        """
        groups = self.per_query.groupby(["system", "measure"], sort=False)["value"]
        table = groups.agg(n="count", queries="size").reset_index()
        means = [
            self._means.loc[s, m] for s, m in zip(table["system"], table["measure"], strict=True)
        ]
        table.insert(2, "mean", pd.Series(means, dtype=float))
        table["undefined"] = table.pop("queries") - table["n"]
        table["failed"] = self._failed.reindex(table["system"], fill_value=0).to_numpy()
        return table

    def long(self) -> pd.DataFrame:
        """Return `counts`."""
        return self.counts

    @cached_property
    def per_sample(self) -> pd.DataFrame:
        """The values of each sample: ``system``, ``qid``, ``sample``, ``measure``, ``value``.

        For ``E(m)``, the value is that of ``m``; for EU, the utility of the answer. Measures of
        exposure have no values by sample. The table is computed on first access.
        """
        columns = ["system", QID, SAMPLE, "measure", "value"]
        measures, qrels = self._parsed(), self.qrels
        if qrels is None:
            return pd.DataFrame(columns=columns)
        read = columns_read(measures.values())
        parts = [
            part
            for system in self.systems
            for part in values_of_samples(system, self._rows(system, read), measures, qrels)
            if len(part)
        ]
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
        return table.sort_values(columns[:-1], ignore_index=True)

    @cached_property
    def qrels(self) -> pd.DataFrame | None:
        """The labels; `None` without measures."""
        return self._qrels.with_text_ids() if isinstance(self._qrels, Qrels) else self._qrels

    def rankings(self, name: str) -> pd.DataFrame:
        """Return all rows of a system, in the order of the topics.

        Raises:
            NotFoundError: the system is unknown.
        """
        self._check(name)
        return self._rows(name)

    def answers(self, name: str) -> pd.DataFrame:
        """Return the answers of a system: ``qid``, ``sample`` if sampled, ``qanswer``.

        Raises:
            NotFoundError: the system is unknown.
            ColumnError: the system has no answers.
        """
        self._check(name)
        frame = self._rows(name, [QID, SAMPLE, QANSWER])
        if QANSWER not in frame.columns:
            raise ColumnError(
                f"system {name!r} has no answers (missing column {QANSWER!r}); add a generator to "
                "its pipeline, e.g. >> fairtk.FlanT5()"
            )
        return saved.answers_in(frame)

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
        frame = saved.credit_in(self._rows(name))
        if CREDIT not in frame.columns:
            raise ColumnError(
                f"system {name!r} has no credit (missing column {CREDIT!r}); add a stage for it to "
                "its pipeline, e.g. >> fairtk.credit.Citations()"
            )
        return frame

    def notes(self, name: str) -> pd.DataFrame:
        """Return the notes of a system's stages on queries, also on failed queries.

        A stage leaves notes if it has a method ``transform_with_notes(frame)``, which returns the
        rows of ``transform`` and a dict from qid to a JSON value, e.g. seconds or a trace.

        Returns:
            ``qid``, ``stage`` (its class), ``note``, in the order of the topics.

        Raises:
            NotFoundError: the system is unknown.
        """
        self._check(name)
        return self._notes(name)

    def better(self, measure: str) -> str:
        """Return the better direction of a measure, ``"higher"`` or ``"lower"``."""
        return self._directions[self._label(measure)]

    def _label(self, measure: Any, kind: str = "measure") -> str:
        """Return the label of a measure.

        ``AWRF@10`` matches an AWRF@10 with any groups and target, if there is only one.
        """
        text = str(measure).strip()
        if text in self.measures:
            return text
        with contextlib.suppress(InputError):
            parsed = parse(measure)
            matches = [
                label
                for label, other in self._measures.items()
                if type(other) is type(parsed) and parsed.params.items() <= other.params.items()
            ]
            text = format_measure(parsed)
            if text in self.measures or len(matches) == 1:
                return text if text in self.measures else matches[0]
        raise NotFoundError(kind, str(measure), self.measures)

    def _margins(self, margin: Margin) -> Margin:
        if not isinstance(margin, Mapping):
            return margin
        return {self._label(m, "measure of the comparison"): limit for m, limit in margin.items()}

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
        """Compare all systems with a baseline, on queries with defined values for all systems.

        Args:
            baseline: the system to compare with; `None` for that of the experiment.
            test: see `fairtk.statistics.paired_test`.
            correction: see `fairtk.statistics.correct_p_values`; the tests of a measure are one
                family.
            confidence: the level of the intervals, in (0, 1).
            margin: the margin of non-inferiority and equivalence, above 0, for all measures or by
                measure.
            levels: whether to estimate the errors over queries and over samples separately
                (`fairtk.statistics.two_level_mean`); samples with the same number are paired.

        Returns:
            A row per measure and system, with the columns

            - ``system``, ``measure``, ``mean``, ``n`` (queries), ``difference``, ``low``, ``high``,
              ``p``, ``p_corrected``, ``effect`` (Cohen's dz);
            - ``undefined`` (excluded queries), ``failed`` (queries with the worst value);
            - with the Wilcoxon test, ``estimate`` and ``estimand`` (``"pseudomedian"``): ``low``,
              ``high`` and ``p`` are then those of the estimate;
            - with a margin, ``p_not_worse`` and ``p_equivalent``;
            - with levels, the standard errors ``error_queries`` and ``error_samples``, and the
              interval over samples, ``low_samples`` to ``high_samples``.

            There are no tests of ``ByGroup(by="query")``.

        Raises:
            ParameterError: there is no baseline, or a margin is not above 0.
            NotFoundError: the system, test, correction or measure is unknown.
        """
        variances = self._variances if levels else None
        drawing = {"test": test, "confidence": confidence}
        table = self._compared(baseline).table(
            drawing, correction, self._margins(margin), variances
        )
        table["failed"] = self._failed.reindex(table["system"], fill_value=0).to_numpy()
        return table

    def queries_needed(
        self,
        difference: float,
        n_samples: Sequence[int] = (1, 10, 100, 1000),
        baseline: str | None = None,
        **options: float,
    ) -> pd.DataFrame:
        """Return the number of queries for a paired t-test to detect a difference.

        Args:
            difference: the mean difference to detect.
            n_samples: numbers of samples per query.
            baseline: the system to compare with; `None` for that of the experiment.
            options: ``power`` and ``significance`` of `fairtk.statistics.queries_needed`.

        Returns:
            The columns of `fairtk.experiment.Comparison.queries_needed`, with ``system`` instead of
            ``run``.
        """
        return self._compared(baseline).plan(self._variances, difference, n_samples, options)

    def sampling_bias(self) -> pd.DataFrame:
        """Return the sampling bias of the means of EE_D and EE_L with ``estimator="plain"``.

        Returns:
            ``system``, ``measure`` and ``bias`` (plain minus unbiased estimate, NaN with one sample
            per query), one row per sampled system and measure.
        """
        return self._bias.copy()

    @cached_property
    def _bias(self) -> pd.DataFrame:
        measures: dict[str, Any] = {}
        for label in self.measures:
            if label.startswith(("EE_D", "EE_L")) and " * " not in label:
                with contextlib.suppress(InputError):  # its groups may not be registered
                    measures[label] = self._read(label)
        measures = {name: m for name, m in measures.items() if m["estimator"] == "plain"}
        rows: list[tuple[str, str, float]] = []
        for system in self.systems if measures else ():
            frame = self._rows(system, [QID, DOCNO, SCORE, RANK, SAMPLE, EXPOSURE])
            if SAMPLE not in frame.columns or EXPOSURE in frame.columns:
                continue
            judged = LabeledRun.of(self._qrels, frame, "sampling_bias")
            for label, measure in measures.items():
                bias = measure.sampling_bias(judged)[judged.present]
                known = bias[~np.isnan(bias)]
                rows.append((system, label, float(known.mean()) if len(known) else math.nan))
        return pd.DataFrame(rows, columns=["system", "measure", "bias"])

    def _parsed(self) -> dict[str, Any]:
        return {label: self._read(label) for label in self._measures}

    def _read(self, label: str) -> Any:
        """Return a measure; names in saved results must be registered with the same content."""
        measure = parse(self._measures[label])
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
    def _variances(self) -> Variances:
        measures = self._parsed()
        read = columns_read(measures.values())
        return sampling_variances(lambda name: self._rows(name, read), self.qrels, measures)

    def _compared(self, baseline: str | None) -> SystemComparison:
        name = self.baseline if baseline is None else baseline
        if name is None:
            raise ParameterError(
                f"compare requires a baseline: pass one of {self.systems}, or use "
                "Experiment(baseline=...)"
            )
        self._check(name)
        return SystemComparison(self.per_query, self.systems, name, self.better, self._means)

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
        return formats.write_or_return(markdown_text(self._paper_table(baseline, **options)), path)

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
        return formats.write_or_return(latex_text(self._paper_table(baseline, **options)), path)

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: Place) -> None: ...
    def to_csv(self, path: Place | None = None) -> str | None:
        """Return or write `counts` as CSV with all digits.

        Args:
            path: the file to write; `None` to return the text.
        """
        text = str(self.counts.to_csv(index=False, lineterminator="\n"))
        return formats.write_or_return(text, path)

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
        return plot_trade_off(self, self._label(x), self._label(y))

    def cite(self) -> str:
        """Return BibTeX of the tools, systems and measures."""
        return cite_results(self.config.get("systems", {}).values(), self.measures)

    def report(self, path: str | PathLike[str], **options: Any) -> None:
        """Write one HTML file with all tables, figures and queries.

        Args:
            path: the file; its folder must exist.
            options: options of `fairtk.report.page_text`, e.g. ``title`` or ``sections``.
        """
        write_report(self, path, **options)

    def _repr_html_(self) -> str:
        table = self._table()
        pictures = spreads(self.per_query, self.systems, self.measures)
        padding = [""] * (len(table.columns) - 1 - len(self.measures))  # the column ``failed``
        return html_text(table, [[*row, *padding] for row in pictures])

    def __repr__(self) -> str:
        table = self._table()
        lines = aligned_lines(table, numbers=range(1, len(table.columns)))
        if max(map(len, lines)) > _WIDEST:
            long = self.counts[["system", "measure", "mean", "n"]]
            lines = aligned_lines(as_texts(long), numbers=(2, 3))
        lines += textwrap.wrap(table.caption, _WIDEST, break_long_words=False)
        return "\n".join(lines)

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
        saved.save(self, Path(folder))

    def to_trec(self, folder: str | PathLike[str]) -> list[Path]:
        """Write a run file and its ir_metadata for each system, and ``qrels.txt``.

        The second column of a sampled run has the number of the sample (`fairtk.io.write_run`).
        Systems without rankings are skipped with a warning. The folder is created if missing.

        Raises:
            InputError: an id contains a space, which TREC files do not support.
            StoreError: the folder is not writable.
        """
        return formats.write_trec(self, Path(folder))

    def to_ir_metadata(self, system: str, more: Mapping[str, Any] | None = None) -> str:
        """Return the metadata of a system's run as ir_metadata YAML (Breuer et al. 2022).

        Args:
            system: the system.
            more: components to add or replace, e.g. ``{"actor": {"team": "we"}}``.

        Raises:
            NotFoundError: the system is unknown.
        """
        self._check(system)
        return formats.ir_metadata(self, system, more)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Results:
        """Read the results that `save` wrote.

        Raises:
            FormatError: a file is missing or damaged.
        """
        return cls(**saved.load(Path(folder)))

    @property
    def _failed(self) -> pd.Series:
        return self.failures.groupby("system").size()

    def _table(self) -> Table:
        return as_texts(self.means.reset_index(), " ".join(self._remarks()))

    def _remarks(self) -> list[str]:
        remarks = notes(self.counts, self.systems, len(self.failures) > 0)
        return [*remarks, *shown_texts(self.remarks)]

    def _paper_table(
        self,
        baseline: str | None,
        *,
        digits: int = 4,
        test: str | None = None,
        correction: str | None = None,
        significance: float = 0.05,
        pairs: bool = False,
    ) -> Table:
        checks.integer("digits", digits)
        if baseline is None and self._named:
            baseline = self.baseline
        if baseline is not None:
            if baseline not in self.systems and str(baseline).endswith((".tex", ".md")):
                raise ParameterError(f"to write a file, pass path={str(baseline)!r}")
            self._check(baseline)
        if pairs:  # letters despite a baseline
            baseline = None
        drawing = {**self._drawing, "test": test or self._drawing["test"]}
        correction = correction or self._correction
        checks.known("test", drawing["test"], TESTS)
        checks.known("correction", correction, CORRECTIONS)
        has_tests = len(self.systems) > 1 and bool(self.measures)
        letters = has_tests and baseline is None
        signs: dict[tuple[str, str], str] = {}
        caption = [f"Means over {self.per_query[QID].nunique()} queries"]
        if has_tests:
            compared = self._compared(baseline or self.systems[0])
            signs, counts = self._signs(compared, baseline, drawing, correction, significance)
            corrected = corrected_for(correction, counts, len(self.systems), letters)
            caption = [
                f"Means; the best of a measure is bold{_SECOND * (len(self.systems) > 2)}. "
                f"{_meaning(baseline)} ({TEST_NAMES[drawing['test']]}, two-sided, {corrected}, "
                f"p < {significance:g}; {queries_tested(compared.tables)})"
            ]
        heads = [f"{m} {_ARROWS[self.better(m)]}" for m in self.measures]
        columns = [_cells(self._means[m], digits, self.better(m), signs, m) for m in self.measures]
        if len(self.failures):
            heads.append("failed")
            columns.append([MarkedText(str(n)) for n in self.means["failed"]])
        rows = [list(row) for row in zip(self.systems, *columns, strict=True)]
        if letters:
            rows = [[_letter(i), *row] for i, row in enumerate(rows)]
        text = " ".join([f"{caption[0]}.", *self._remarks()])
        heads = [*(["#"] if letters else []), "system", *heads]
        return Table(heads, rows, text)

    def _signs(
        self,
        compared: SystemComparison,
        baseline: str | None,
        drawing: Mapping[str, Any],
        correction: str,
        significance: float,
    ) -> tuple[dict[tuple[str, str], str], dict[str, int]]:
        """Return the signs of means by measure and system, and the numbers of tests by measure."""
        if baseline is None:
            pairs = list(combinations(range(len(self.systems)), 2))
            wins, counts = compared.wins(pairs, drawing, correction, significance)
            losers: dict[tuple[str, str], list[int]] = {}
            for measure, winner, loser in wins:
                losers.setdefault((measure, self.systems[winner]), []).append(loser)
            comma = "," if len(self.systems) > _ALPHABET else ""
            signs = {key: comma.join(map(_letter, sorted(of))) for key, of in losers.items()}
            return signs, counts
        other = self.systems.index(baseline)
        pairs = [(i, other) for i in range(len(self.systems)) if i != other]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedWarning)  # undefined tests have no dagger
            wins, counts = compared.wins(pairs, drawing, correction, significance)
        signs = {
            (measure, self.systems[loser if winner == other else winner]): "\u2021"
            if winner == other
            else "\u2020"
            for measure, winner, loser in wins
        }
        return signs, counts

    def _check(self, name: str) -> None:
        checks.known("system", name, self.systems)


_WIDEST = 100
"""The maximum width of means by measure; wider tables have a row per system and measure."""
_ALPHABET = 26
_ARROWS = {"higher": "\u2191", "lower": "\u2193"}
_SECOND = ", the second is underlined"


def _letter(index: int) -> str:
    """Return the letters of a system: a to z, aa, ab, and so on."""
    rest, last = divmod(index, _ALPHABET)
    return (_letter(rest - 1) if rest else "") + chr(ord("a") + last)


def _meaning(baseline: str | None) -> str:
    if baseline is None:
        return "Superscript letters: better than these systems"
    return f"\u2020 better, \u2021 worse than {baseline}"


def _cells(
    means: pd.Series, digits: int, better: str, signs: Mapping[tuple[str, str], str], measure: str
) -> list[MarkedText]:
    """Return the cells of a measure; means with equal rounded values have equal marks."""
    values = means.round(digits)
    order = values.dropna().drop_duplicates().sort_values(ascending=better == "lower").tolist()
    ranks = {value: rank for rank, value in enumerate(order[: 1 + (len(means) > 2)], 1)}
    return [
        MarkedText(
            rounded_text(mean, digits),
            ranks.get(value, 0) if len(order) > 1 else 0,
            signs.get((measure, str(system)), ""),
        )
        for system, mean, value in zip(means.index, means, values, strict=True)
    ]
