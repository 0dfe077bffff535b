"""The results of a study as frames: comparison, variations, traces and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fairtk.errors import NotFoundError
from fairtk.experiment import Experiment, Results
from fairtk.frames import QID, QUERY, RANK
from fairtk.llm import ChatModel, Prices
from fairtk_papers.fair_qr.settings import QrData, QrSettings
from fairtk_papers.fair_qr.stages import SystemResults
from fairtk_papers.fair_qr.systems import BM25, FAIR_QR, RANDOM, TUNED, Cell
from fairtk_papers.fair_qr.values import (
    FAIRNESS,
    MEASURES,
    NDCG,
    PRODUCT,
    control_rows,
    cost_row,
    drift_frame,
    drift_warning,
    empty_ranking_warning,
    iterations,
    measures,
    same_answers,
    summary,
)
from fairtk_papers.studies import study_remark

N_TEXTS = 10  # ranks with texts on pages


class AttributeValues(NamedTuple):
    """The values of the systems for an attribute, and the texts of the measures' warnings."""

    per_query: pd.DataFrame
    table: pd.DataFrame
    variations: pd.DataFrame
    warnings: list[str]


@dataclass(eq=False)
class QrResults:
    """The results of a study as data frames; `save` writes them with tables and figures.

    Attributes:
        data: the data of the study.
        settings: the settings of the study.
        systems: the results by cell.
        llm: the model.
        prices: the prices of models.
        models: the model of each cell.
        first_names: the names of the first model and retriever, if there are several.
        store: the study's folder, where values per query are stored.
    """

    data: QrData
    settings: QrSettings
    systems: Mapping[Cell, SystemResults]
    llm: ChatModel
    prices: Prices
    models: Mapping[Cell, ChatModel]
    first_names: Sequence[str]
    store: Path

    # Frames ------------------------------------------------------------------------------------

    @cached_property
    def rankings(self) -> pd.DataFrame:
        """All rankings: ``attribute``, ``system``, ``variation``, ``setting`` and R's columns."""
        return self._stack(lambda system: system.rankings)

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The traces of FAIR-QR: ``attribute``, ``system``, ... and those of `fairtk.FairQR`."""
        return self._stack(lambda system: system.traces)

    @cached_property
    def missing(self) -> pd.DataFrame:
        """The queries without a result, which have the worst value in all tables.

        The columns are ``attribute``, ``system``, ``variation``, ``setting``, ``qid``, ``reason``.
        """

        def missing(system: SystemResults) -> pd.DataFrame:
            rows = [
                (qid, system.errors.get(qid, "not done yet"))
                for qid in self.data.topics[QID]
                if qid not in system.finished_qids
            ]
            return pd.DataFrame(rows, columns=[QID, "reason"])

        return self._stack(missing)

    @cached_property
    def per_query(self) -> pd.DataFrame:
        """The values per query.

        The columns are ``attribute``, ``system``, ``variation``, ``setting``, ``qid``, ``measure``
        (nDCG, AWRF, nDCG x AWRF), ``value``.
        """
        return self._stack_evaluations("per_query")

    @cached_property
    def table(self) -> pd.DataFrame:
        """The comparison, one row per attribute and system.

        Each measure has these columns: its mean, where queries without a result have the worst
        value, with a 95 % t interval (``... low``, ``... high``); the mean over the queries with a
        result (``... answered``); the difference from BM25 with its uncorrected interval (``...
        change``, ``... change low``, ``... change high``); and the p-value of a paired t-test,
        corrected for the systems of the attribute (``... p``). ``product of means`` differs from
        the mean of products. ``missing`` is the number of queries without a result.
        """
        return self._stack_evaluations("table")

    @cached_property
    def variations(self) -> pd.DataFrame:
        """FAIR-QR with one setting varied, as in `table` but without tests."""
        return self._stack_evaluations("variations")

    @cached_property
    def iterations(self) -> pd.DataFrame:
        """Mean and quartiles of calls (``asked``) and ``kept`` refinements per query, by system."""
        return self._stack(lambda system: iterations(system.traces))

    @cached_property
    def tuning(self) -> pd.DataFrame:
        """The tuned settings of each fold.

        The columns are ``attribute``, ``system``, ..., ``fold``, ``settings`` (JSON), the mean
        ``value`` with these settings over the ``topics`` of the other folds, and the cost of all
        settings in the row of the first fold: ``seconds`` and distinct ``calls``, also those with
        recorded answers.
        """
        return self._stack(lambda system: system.choices)

    @cached_property
    def drift(self) -> pd.DataFrame:
        """How far each system drifts from BM25's rankings.

        The columns are ``attribute``, ``system``; ``words kept``, the share of the original words
        that are in the final query; ``overlap``, the share of BM25's top documents that are still
        at the top; ``AWRF gained``, ``nDCG lost`` and ``lost per gained`` (NaN if nothing is
        gained). For systems that refine queries, the shares are over the refined topics.
        """
        return drift_frame(self.systems, self.table, self.settings.cutoff)

    @cached_property
    def controls(self) -> pd.DataFrame:
        """Paired differences between FAIR-QR, its placebo and BM25.

        The columns are ``attribute``, ``system``, ``against``, ``measure``, ``difference``, ``low``
        and ``high`` (95 % t interval, not corrected for the number of rows).
        """
        values = self.per_query[self.per_query["variation"] == ""]
        return control_rows(values, list(self.data.attributes))

    @cached_property
    def costs(self) -> pd.DataFrame:
        """The mean cost of a query, by system.

        The columns are ``calls``, ``prompt_tokens``, ``completion_tokens``, ``price`` (NaN if
        unknown), ``model seconds`` (the sum of recorded waits), ``own seconds`` (all other time,
        with queries in parallel) and ``training seconds`` (total of the study, with indexing).
        """
        model = {
            id(system): None if cell.kind == RANDOM else self.models[cell]
            for cell, system in self.systems.items()
        }
        return self._stack(lambda system: cost_row(system, model[id(system)], self.prices))

    @property
    def brackets_text(self) -> str:
        """A sentence on systems with brackets; empty with one model and retriever."""
        if not self.first_names:
            return ""
        return (
            " Brackets name the retriever or model of a system; all others use "
            f"{' and '.join(self.first_names)}."
        )

    @property
    def warnings(self) -> list[str]:
        """The distinct warnings of systems, then of measures."""
        return self.warnings_for(*self.data.attributes)

    def as_experiment(self, attribute: str) -> Results:
        """Return the comparison of an attribute as `fairtk.Results`, with the texts of its page.

        Raises:
            NotFoundError: the attribute is unknown.
        """
        self._check(attribute)
        groups, target = self.data.attributes[attribute]
        named_measures = measures(groups, target, self.settings.cutoff, self.settings.ndcg)
        cells = [c for c in self.systems if c.attribute == attribute and not c.variation]
        runs = {cell.label: self._with_texts(self.systems[cell].rankings) for cell in cells}
        results: Results = Experiment(
            runs,
            self.data.topics,
            self.data.qrels,
            named_measures.values(),
            baseline=BM25,
            save_dir=self.store,
            warn=False,  # the study issued them
        )
        failures = self.missing.query("attribute == @attribute and variation == ''")
        failures = failures.rename(columns={"reason": "error"})[["system", QID, "error"]]
        # equal results have equal files
        environment = {name: v for name, v in results.environment.items() if name != "time"}
        target_name = self.data.target_label(attribute)
        config = {
            "title": f"FAIR-QR on {self.data.name}: {attribute}, target {target_name}",
            "description": (
                f"{BM25} uses the original query. fair-qr refines it for groups whose exposure is "
                "below the target."
            ),
            "data": self.data.name,
            "attribute": attribute,
            "target": target_name,
            "model": repr(self.llm),
            "correction": self.settings.correction,
        }
        remarks = (
            study_remark("study note", f"Target: {target_name}"),
            *results.remarks,
            *(study_remark("study warning", t) for t in self._warnings_of_systems(attribute)),
        )
        return replace(
            results, failures=failures, environment=environment, config=config, remarks=remarks
        )

    def for_attribute(self, attribute: str) -> QrResults:
        """Return the results of one attribute.

        Raises:
            NotFoundError: the attribute is unknown.
        """
        self._check(attribute)
        part = replace(
            self,
            data=replace(self.data, attributes={attribute: self.data.attributes[attribute]}),
            systems={cell: s for cell, s in self.systems.items() if cell.attribute == attribute},
        )
        part._evaluations = {attribute: self._evaluations[attribute]}
        return part

    def warnings_for(self, *attributes: str) -> list[str]:
        """Return the warnings for some attributes; see `warnings`."""
        texts = self._warnings_of_systems(*attributes)
        texts += [text for name in attributes for text in self._evaluations[name].warnings]
        return list(dict.fromkeys(texts))

    def _warnings_of_systems(self, *attributes: str) -> list[str]:
        systems = {c: s for c, s in self.systems.items() if c.attribute in attributes}
        texts = [text for system in systems.values() for text in system.warnings]
        texts.append(empty_ranking_warning(systems))
        drift = self.drift.query("attribute in @attributes")
        texts.append(drift_warning(drift, same_answers(systems), self.settings.cutoff))
        return list(dict.fromkeys(filter(None, texts)))

    @property
    def attributes_with_fair_qr(self) -> list[str]:
        """The attributes whose comparison has FAIR-QR."""
        return [c.attribute for c in self.systems if c.system == FAIR_QR and not c.variation]

    def changes(self, attribute: str) -> pd.DataFrame:
        """Return each query's change from BM25 to FAIR-QR, the largest loss of the product first.

        Args:
            attribute: the attribute.

        Returns:
            ``qid``, ``query``, the change of each measure, and the parts of the product's change
            that are due to AWRF and nDCG, ``by AWRF`` and ``by nDCG``, whose sum is exact;
            ``groups``, the requested groups in order, in parentheses if the refinement was not
            kept; and ``note``, the reason why the loop ended.

        Raises:
            NotFoundError: the attribute is unknown, or the study has no FAIR-QR.
        """
        self._check(attribute)
        values = self.per_query[
            (self.per_query["attribute"] == attribute) & (self.per_query["variation"] == "")
        ]
        if FAIR_QR not in set(values["system"]):
            raise NotFoundError("system", FAIR_QR, set(values["system"]))
        wide = values.pivot(index=QID, columns=["system", "measure"], values="value")
        before, after = wide[BM25], wide[FAIR_QR]
        frame = (after - before)[[*MEASURES]].rename_axis(columns=None)
        # a'b' - ab = (a' - a)(b + b')/2 + (b' - b)(a + a')/2
        frame["by AWRF"] = frame[FAIRNESS] * (after[NDCG] + before[NDCG]) / 2
        frame["by nDCG"] = frame[NDCG] * (after[FAIRNESS] + before[FAIRNESS]) / 2
        frame = frame.join(self._requested_groups(attribute), how="left")
        frame.insert(0, "query", frame.index.map(self.data.topics.set_index(QID)["query"]))
        return frame.sort_values(PRODUCT, kind="stable").reset_index(names=QID)

    def save(self, folder: str | PathLike[str], command: str | None = None) -> Path:
        """Write frames (Parquet, CSV), tables (Markdown, LaTeX), figures and ``report.md``.

        Each file is written atomically.

        Args:
            folder: the folder.
            command: the command line of the study, for pages.

        Returns:
            The path of the report.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from fairtk_papers.fair_qr.report import write_report

        return write_report(self, Path(folder), command)

    # Parts -------------------------------------------------------------------------------------

    def _check(self, attribute: str) -> None:
        if attribute not in self.data.attributes:
            raise NotFoundError("attribute", attribute, self.data.attributes)

    def _stack(self, read: Callable[[SystemResults], pd.DataFrame]) -> pd.DataFrame:
        parts, columns = [], [QID]
        for cell, system in self.systems.items():
            part = read(system)
            columns = list(part.columns)
            if len(part):
                parts.append(part.assign(**cell.names)[[*cell.names, *columns]])
        if not parts:
            return pd.DataFrame(columns=["attribute", "system", "variation", "setting", *columns])
        return pd.concat(parts, ignore_index=True)

    def _stack_evaluations(self, name: str) -> pd.DataFrame:
        frames = [getattr(evaluation, name) for evaluation in self._evaluations.values()]
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def _evaluations(self) -> dict[str, AttributeValues]:
        """The evaluation of each attribute."""
        return {attribute: self._evaluate(attribute) for attribute in self.data.attributes}

    def _evaluate(self, attribute: str) -> AttributeValues:
        groups, target = self.data.attributes[attribute]
        named_measures = measures(groups, target, self.settings.cutoff, self.settings.ndcg)
        cells = {cell.label: cell for cell in self.systems if cell.attribute == attribute}
        rankings = {label: self.systems[cell].rankings for label, cell in cells.items()}
        results = Experiment(
            {n: run[run[RANK] < self.settings.cutoff] for n, run in rankings.items()},
            self.data.topics,
            self.data.qrels,
            named_measures.values(),
            save_dir=self.store,
            warn=False,
        )
        names = dict(zip(results.measures, named_measures, strict=True))
        per_query = results.per_query.assign(measure=results.per_query["measure"].map(names))
        qids = set(self.data.topics[QID])
        missing = {n: qids - self.systems[cell].finished_qids for n, cell in cells.items()}
        varied = {label: cell for label, cell in cells.items() if cell.variation}
        # all systems are one family of tests; variations are not tested
        main = per_query[~per_query["system"].isin(list(varied))]
        table = _with_cell_names(summary(main, missing, self.settings.correction), cells)
        variations = table.iloc[:0].filter(regex="(?<! p)$")
        if varied:
            rows = per_query[per_query["system"].isin([BM25, *varied])]
            variations = _with_cell_names(summary(rows, missing, None), varied)
        # tuned systems follow their untuned versions
        untuned, _ = pd.factorize(table["system"].str.removesuffix(TUNED))
        table = table.iloc[np.argsort(untuned, kind="stable")]
        warnings = [str(warning) for warning in results.warnings]
        return AttributeValues(_with_cell_names(per_query, cells), table, variations, warnings)

    def _with_texts(self, run: pd.DataFrame) -> pd.DataFrame:
        """Return rankings with queries, and with texts of the documents that a page shows."""
        run = run.merge(self.data.topics[[QID, QUERY]], on=QID, how="left")
        top = run[run[RANK] < N_TEXTS]
        return pd.concat([self.data.texts(top), run[run[RANK] >= N_TEXTS]], ignore_index=True)

    def _requested_groups(self, attribute: str) -> pd.DataFrame:
        """Return the groups that the loop of each query requested, and why it ended."""
        main = f"attribute == @attribute and system == '{FAIR_QR}' and variation == ''"
        rows = self.traces.query(main)
        if rows.empty or "group" not in rows:
            return pd.DataFrame(index=pd.Index([], name=QID))
        requested = rows["group"].where(rows["kept"].astype(bool), "(" + rows["group"] + ")")
        later = rows["iteration"] > 0
        groups = requested[later].groupby(rows[QID]).agg(", ".join)
        notes = rows.groupby(QID)["note"].agg("last")
        return pd.DataFrame({"groups": groups, "note": notes}).fillna("")


def _with_cell_names(frame: pd.DataFrame, cells: Mapping[str, Cell]) -> pd.DataFrame:
    """Return the rows of some cells, with the columns of `Cell.names` instead of the label."""
    frame = frame[frame["system"].isin(list(cells))]
    names = pd.DataFrame([cells[label].names for label in frame["system"]], index=frame.index)
    return pd.concat([names, frame.drop(columns="system")], axis=1)
