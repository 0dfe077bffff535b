"""The results of a study as frames: comparison, variations, traces and costs."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path

import pandas as pd

from fairtk.errors import FairtkWarning, NotFoundError
from fairtk.experiment import Experiment, Results
from fairtk.frames import QID, QUERY, RANK
from fairtk.llm import ChatModel, Prices
from fairtk_papers.fair_qr.report import write_report
from fairtk_papers.fair_qr.settings import QrData, QrSettings
from fairtk_papers.fair_qr.stages import SystemResults
from fairtk_papers.fair_qr.systems import BM25, FAIR_QR, RANDOM, Cell
from fairtk_papers.fair_qr.values import (
    FAIRNESS,
    MEASURES,
    NDCG,
    PRODUCT,
    control_rows,
    cost_row,
    drift_frame,
    drift_warning,
    evaluate_rankings,
    iterations,
    measures,
    same_answers,
    summary,
)

N_TEXTS = 10  # ranks with texts on pages


class QrResults:
    """The results of a study so far, as tidy frames; `save` writes them with tables and figures.

    Args:
        data: the data of the study.
        settings: the settings of the study.
        systems: the results by cell.
        llm: the model.
        prices: the prices of models.
        models: the model of each cell; `None` if all use `llm`.
        own: the names of the first model and retriever, if there are several.
        store: the study's folder, for a store of values per query; `None` for no store.
    """

    def __init__(
        self,
        data: QrData,
        settings: QrSettings,
        systems: Mapping[Cell, SystemResults],
        llm: ChatModel,
        prices: Prices,
        models: Mapping[Cell, ChatModel] | None = None,
        own: Sequence[str] = (),
        store: Path | None = None,
    ) -> None:
        self.data = data
        self.settings = settings
        order = list(data.attributes)
        self.systems = dict(
            sorted(systems.items(), key=lambda item: order.index(item[0].attribute))
        )
        self.llm = llm
        self.prices = prices
        self.models = models or dict.fromkeys(systems, llm)
        self.own = own
        self.store = store

    # Frames ------------------------------------------------------------------------------------

    @cached_property
    def rankings(self) -> pd.DataFrame:
        """All rankings: ``attribute``, ``system``, ``variation``, ``setting``, and R's columns."""
        return self._stacked(lambda system: system.rankings)

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The traces of FAIR-QR: ``attribute``, ``system``, ..., and `fairtk.FairQR.trace`."""
        return self._stacked(lambda system: system.traces)

    @cached_property
    def missing(self) -> pd.DataFrame:
        """Queries without a result, which have the worst value in all tables.

        The columns are ``attribute``, ``system``, ``variation``, ``setting``, ``qid``, ``reason``.
        """

        def missing(system: SystemResults) -> pd.DataFrame:
            rows = [
                (qid, system.errors.get(qid, "not done yet"))
                for qid in self.data.topics[QID]
                if qid not in system.done
            ]
            return pd.DataFrame(rows, columns=[QID, "reason"])

        return self._stacked(missing)

    @cached_property
    def per_query(self) -> pd.DataFrame:
        """Values per query.

        The columns are ``attribute``, ``system``, ``variation``, ``setting``, ``qid``, ``measure``
        (nDCG, AWRF, nDCG x AWRF), ``value``.
        """
        return self._measured[0]

    @property
    def table(self) -> pd.DataFrame:
        """The comparison, one row per attribute and system.

        The columns of a measure are its mean (queries without a result have the worst value) with
        a 95 % t interval (``... low``, ``... high``); the mean over the queries with a result
        (``... answered``); the difference from BM25 with its interval (``... change``, ``... change
        low``, ``... change high``, not corrected); and the p-value of a paired t-test (``... p``,
        corrected over all systems of the attribute). ``product of means`` differs from the mean of
        products. ``missing`` is the number of queries without a result.
        """
        return self._measured[1]

    @property
    def variations(self) -> pd.DataFrame:
        """FAIR-QR with one setting varied: `table` without tests."""
        return self._measured[2]

    @cached_property
    def iterations(self) -> pd.DataFrame:
        """Mean and quartiles of calls (``asked``) and ``kept`` refinements per query, by cell."""
        return self._stacked(lambda system: iterations(system.traces))

    @cached_property
    def tuning(self) -> pd.DataFrame:
        """The tuned settings of each fold.

        The columns are ``attribute``, ``system``, ..., ``fold``, ``settings`` (JSON), their mean
        ``value`` over the ``topics`` of the other folds, ``seconds``, and new ``calls``.
        """
        return self._stacked(lambda system: system.choices)

    @cached_property
    def drift(self) -> pd.DataFrame:
        """The drift of each system from BM25's rankings.

        The columns are ``attribute``, ``system``; ``words kept``, the share of the original words
        in refined queries, and ``overlap``, the share of the top of BM25's rankings, both over the
        refined topics of systems that refine; ``AWRF gained``, ``nDCG lost`` and ``lost per
        gained`` (NaN if nothing is gained).
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
        """The mean costs of a query, by cell.

        The columns are ``calls``, ``prompt_tokens``, ``completion_tokens``, ``price`` (NaN if
        unknown), ``model seconds`` (the sum of recorded waits), ``own seconds`` (all else, with
        queries in parallel) and ``training seconds`` (of the study, with indexing).
        """
        model = {
            id(system): None if cell.kind == RANDOM else self.models[cell]
            for cell, system in self.systems.items()
        }
        return self._stacked(lambda system: cost_row(system, model[id(system)], self.prices))

    @property
    def pairs(self) -> str:
        """A sentence on systems with brackets; empty if there is one model and retriever."""
        if not self.own:
            return ""
        return (
            " Brackets name the retriever or model of a system; all others use "
            f"{' and '.join(self.own)}."
        )

    @property
    def warnings(self) -> list[str]:
        """The warnings of systems, then of measures, each once."""
        return self.warnings_of(*self.data.attributes)

    def as_experiment(self, attribute: str) -> Results:
        """Return the comparison of an attribute as `fairtk.Results`, with texts for its page.

        Raises:
            NotFoundError: the attribute is unknown.
        """
        self._check(attribute)
        groups, target = self.data.attributes[attribute]
        named = measures(groups, target, self.settings.cutoff, self.settings.ndcg)
        cells = [c for c in self.systems if c.attribute == attribute and not c.variation]
        runs = {cell.label: self._with_texts(self.systems[cell].rankings) for cell in cells}
        with warnings.catch_warnings():  # the study has issued them
            warnings.simplefilter("ignore", FairtkWarning)
            results: Results = Experiment(
                runs,
                self.data.topics,
                self.data.qrels,
                named.values(),
                baseline=BM25 if BM25 in runs else None,
                save_dir=self.store,
            )
        failures = self.missing
        of_attribute = (failures["attribute"] == attribute) & (failures["variation"] == "")
        results.failures = failures[of_attribute].rename(columns={"reason": "error"})[
            ["system", QID, "error"]
        ]
        results.environment.pop("time")  # equal results have equal files
        target_name = self.data.target_of(attribute)
        results.config = {
            "title": f"FAIR-QR on {self.data.name}: {attribute}, target {target_name}",
            "description": (
                f"{BM25} uses the original query; fair-qr refines it for groups whose exposure is "
                "below the target."
            ),
            "data": self.data.name,
            "attribute": attribute,
            "target": target_name,
            "note": f"Target: {target_name}.",
            "model": repr(self.llm),
            "warnings": self.warnings_of(attribute),
            "correction": self.settings.correction,
        }
        return results

    def of_attribute(self, attribute: str) -> QrResults:
        """Return the results of one attribute.

        Raises:
            NotFoundError: the attribute is unknown.
        """
        self._check(attribute)
        part = copy.copy(self)
        for name, value in vars(type(self)).items():
            if isinstance(value, cached_property):
                part.__dict__.pop(name, None)
        attributes = {attribute: self.data.attributes[attribute]}
        part.data = dataclasses.replace(self.data, attributes=attributes)
        part.systems = {c: s for c, s in self.systems.items() if c.attribute == attribute}
        *frames, texts = self._measured
        per_query, table, variations = (
            frame[frame["attribute"] == attribute].reset_index(drop=True) if len(frame) else frame
            for frame in frames
        )
        part._measured = per_query, table, variations, {attribute: texts[attribute]}
        return part

    def warnings_of(self, *attributes: str) -> list[str]:
        """Return the warnings for some attributes; see `warnings`."""
        systems = {c: s for c, s in self.systems.items() if c.attribute in attributes}
        of_systems = [text for system in systems.values() for text in system.warnings]
        drift = self.drift.query("attribute in @attributes") if len(self.drift) else self.drift
        of_drift = drift_warning(drift, same_answers(systems), self.settings.cutoff)
        of_measures = [text for name in attributes for text in self._measured[3][name]]
        return list(dict.fromkeys([*of_systems, *filter(None, [of_drift]), *of_measures]))

    @property
    def explained(self) -> list[str]:
        """The attributes whose comparison has FAIR-QR, for `changes`."""
        return [c.attribute for c in self.systems if c.system == FAIR_QR and not c.variation]

    def changes(self, attribute: str, system: str = FAIR_QR) -> pd.DataFrame:
        """Return each query's change against BM25, the largest loss of the product first.

        Args:
            attribute: the attribute.
            system: the system.

        Returns:
            ``qid``, ``query``, the change of each measure, and the parts of the product's change
            (an exact sum) ``by AWRF`` and ``by nDCG``; for FAIR-QR also ``groups`` (requested, in
            order; in parentheses if the refinement was not kept) and ``note``.

        Raises:
            NotFoundError: the attribute or system is unknown.
        """
        self._check(attribute)
        values = self.per_query[
            (self.per_query["attribute"] == attribute) & (self.per_query["variation"] == "")
        ]
        if system not in set(values["system"]):
            raise NotFoundError("system", system, set(values["system"]))
        wide = values.pivot(index=QID, columns=["system", "measure"], values="value")
        before, after = wide[BM25], wide[system]
        frame = (after - before)[[*MEASURES]].rename_axis(columns=None)
        # a'b' - ab = (a' - a)(b + b')/2 + (b' - b)(a + a')/2
        frame["by AWRF"] = frame[FAIRNESS] * (after[NDCG] + before[NDCG]) / 2
        frame["by nDCG"] = frame[NDCG] * (after[FAIRNESS] + before[FAIRNESS]) / 2
        frame = frame.join(self._requested_groups(attribute, system), how="left")
        frame.insert(0, "query", frame.index.map(self.data.topics.set_index(QID)["query"]))
        return frame.sort_values(PRODUCT, kind="stable").reset_index(names=QID)

    def save(self, folder: str | PathLike[str], command: str | None = None) -> Path:
        """Write frames (Parquet, CSV), tables (Markdown, LaTeX), figures and ``report.md``.

        Each file is written atomically.

        Args:
            folder: the folder.
            command: the command line that runs the study, for pages.

        Returns:
            The path of the report.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        return write_report(self, Path(folder), command)

    # Parts -------------------------------------------------------------------------------------

    def _check(self, attribute: str) -> None:
        if attribute not in self.data.attributes:
            raise NotFoundError("attribute", attribute, self.data.attributes)

    def _stacked(self, read: Callable[[SystemResults], pd.DataFrame]) -> pd.DataFrame:
        parts, columns = [], [QID]
        for cell, system in self.systems.items():
            part = read(system)
            columns = list(part.columns)
            if len(part):
                parts.append(part.assign(**cell.names)[[*cell.names, *columns]])
        if not parts:
            return pd.DataFrame(columns=["attribute", "system", "variation", "setting", *columns])
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def _measured(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, list[str]]]:
        """Values per query, the two tables, and warnings of measures by attribute."""
        values: list[pd.DataFrame] = []
        tables: tuple[list[pd.DataFrame], ...] = ([], [])
        texts: dict[str, list[str]] = {}
        for attribute, (groups, target) in self.data.attributes.items():
            all_cells = [cell for cell in self.systems if cell.attribute == attribute]
            base = Cell(attribute, BM25)
            named = measures(groups, target, self.settings.cutoff, self.settings.ndcg)
            rankings = {cell.label: self.systems[cell].rankings for cell in all_cells}
            runs = {n: run[run[RANK] < self.settings.cutoff] for n, run in rankings.items()}
            per_query, texts[attribute] = evaluate_rankings(
                runs, self.data.topics, self.data.qrels, named, self.store
            )
            qids = set(self.data.topics[QID])
            missing = {cell.label: qids - self.systems[cell].done for cell in all_cells}
            # all systems are one family; variations are not tested
            for varied in (False, True):
                cells = {c.label: c for c in all_cells if bool(c.variation) == varied}
                if cells:
                    rows = per_query[per_query["system"].isin([base.label, *cells])]
                    table = summary(rows, missing, None if varied else self.settings.correction)
                    tables[varied].append(_described(table, cells))
            values.append(_described(per_query, {cell.label: cell for cell in all_cells}))
        stacked = [pd.concat(t, ignore_index=True) if t else pd.DataFrame() for t in tables]
        # tuned systems follow their untuned versions
        main = [c for c in self.systems if not c.variation]
        names = list(dict.fromkeys(c.base for c in main))
        main.sort(
            key=lambda c: (list(self.data.attributes).index(c.attribute), names.index(c.base))
        )
        order = [(c.attribute, c.system) for c in main]
        stacked[0] = stacked[0].set_index(["attribute", "system"]).loc[order].reset_index()
        return pd.concat(values, ignore_index=True), *stacked, texts

    def _with_texts(self, run: pd.DataFrame) -> pd.DataFrame:
        """Add queries to rankings, and texts to the documents that a page shows."""
        run = run.merge(self.data.topics[[QID, QUERY]], on=QID, how="left")
        top = run[run[RANK] < N_TEXTS]
        return pd.concat([self.data.texts(top), run[run[RANK] >= N_TEXTS]], ignore_index=True)

    def _requested_groups(self, attribute: str, system: str) -> pd.DataFrame:
        """Return the groups that the loop of each query requested, and why it ended."""
        main = "attribute == @attribute and system == @system and variation == ''"
        rows = self.traces.query(main)
        if rows.empty or "group" not in rows:
            return pd.DataFrame(index=pd.Index([], name=QID))
        requested = rows["group"].where(rows["kept"].astype(bool), "(" + rows["group"] + ")")
        later = rows["iteration"] > 0
        groups = requested[later].groupby(rows[QID]).agg(", ".join)
        notes = rows.groupby(QID)["note"].agg("last")
        return pd.DataFrame({"groups": groups, "note": notes}).fillna("")


def _described(frame: pd.DataFrame, cells: Mapping[str, Cell]) -> pd.DataFrame:
    """Return the rows of some cells, with columns for their names instead of the label."""
    frame = frame[frame["system"].isin(list(cells))]
    names = pd.DataFrame([cells[label].names for label in frame["system"]], index=frame.index)
    return pd.concat([names, frame.drop(columns="system")], axis=1)
