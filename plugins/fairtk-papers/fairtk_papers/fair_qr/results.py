"""What a study found, as frames: the comparison, the variations, traces and costs."""

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
    iterations,
    measured,
    measures,
    same_answers,
    summary,
)

SHOWN = 10  # ranks with texts


class QrResults:
    """What a study found so far. All frames are tidy; `save` writes them, tables and figures.

    Args:
        data: what the study is about.
        settings: how it was done.
        systems: what there is of each, by cell.
        llm: the model.
        prices: of models.
        models: the model of each cell; None: they have one.
        own: the names of the study's own model and retriever, where there are several.
        store: the study's folder, whose store keeps each query's values; None: there is none.
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
        """Queries without a result: ``attribute``, ``system``, ``variation``, ``setting``,
        ``qid``, ``reason``. They have the worst value in every table.
        """

        def lost(system: SystemResults) -> pd.DataFrame:
            rows = [
                (qid, system.errors.get(qid, "not done yet"))
                for qid in self.data.topics[QID]
                if qid not in system.done
            ]
            return pd.DataFrame(rows, columns=[QID, "reason"])

        return self._stacked(lost)

    @cached_property
    def per_query(self) -> pd.DataFrame:
        """Each query's values: ``attribute``, ``system``, ``variation``, ``setting``, ``qid``,
        ``measure`` (nDCG, AWRF, nDCG x AWRF), ``value``.
        """
        return self._measured[0]

    @property
    def table(self) -> pd.DataFrame:
        """The comparison, one row per attribute and system.

        For each measure its mean (a query without a result has the worst value), the ends of the
        mean's 95 % t interval (``... low``, ``... high``), the mean over the queries with a
        result (``... answered``; NaN: there is none), the difference from BM25 with its ends
        (``... change``, ``... change low``, ``... change high``, not corrected), and the p-value of
        a paired t-test (``... p``, corrected over all systems of the attribute, tuned ones too).
        ``product of means`` is another number than the mean of products. ``missing``: queries
        without a result.
        """
        return self._measured[1]

    @property
    def variations(self) -> pd.DataFrame:
        """FAIR-QR with one setting varied, as `table`, and not tested."""
        return self._measured[2]

    @cached_property
    def iterations(self) -> pd.DataFrame:
        """How often queries were refined: mean and quartiles of the calls that a query took
        (``asked``) and of the refinements that it kept (``kept``), per cell.
        """
        return self._stacked(lambda system: iterations(system.traces))

    @cached_property
    def tuning(self) -> pd.DataFrame:
        """What tuning chose: ``attribute``, ``system``, ..., ``fold``, ``settings`` (JSON), their
        mean ``value`` over the ``topics`` of the other folds, ``seconds``, ``calls`` (paid for).
        """
        return self._stacked(lambda system: system.choices)

    @cached_property
    def drift(self) -> pd.DataFrame:
        """How far each system is from the first lists: ``attribute``, ``system``, ``words kept``
        (share of the original words; NaN: none was refined), ``overlap`` (share of the first list's
        top), both over refined topics where a system refines; ``AWRF gained``, ``nDCG lost`` and
        ``lost per gained`` (NaN: nothing gained).
        """
        return drift_frame(self.systems, self.table, self.settings.cutoff)

    @cached_property
    def controls(self) -> pd.DataFrame:
        """FAIR-QR, its placebo and BM25, paired; see `fairtk_papers.fair_qr.values`."""
        values = self.per_query[self.per_query["variation"] == ""]
        return control_rows(values, list(self.data.attributes))

    @cached_property
    def costs(self) -> pd.DataFrame:
        """What a query costs, per cell: ``calls``, ``prompt_tokens``, ``completion_tokens``,
        ``price`` (NaN: unknown), ``model seconds`` (waits one after another, as recorded), ``own
        seconds`` (retrieval and all else, queries side by side), ``training seconds`` (per study,
        indexing included).
        """
        model = {
            id(system): None if cell.kind == RANDOM else self.models[cell]
            for cell, system in self.systems.items()
        }
        return self._stacked(lambda system: cost_row(system, model[id(system)], self.prices))

    @property
    def pairs(self) -> str:
        """What systems with and without brackets are built on; empty: there is one pair only."""
        if not self.own:
            return ""
        return (
            f" In brackets: the retriever or model in place of {' and '.join(self.own)}, on which "
            "all other systems are built."
        )

    @property
    def warnings(self) -> list[str]:
        """What a reader should know: warnings of systems, then of measures; each once."""
        return self.warned(*self.data.attributes)

    def as_experiment(self, attribute: str) -> Results:
        """Return the comparison of an attribute as `fairtk.Experiment` gives it, with the texts of
        the documents that a page shows.

        Raises:
            NotFoundError: there is no such attribute.
        """
        self._check(attribute)
        asked = measures(*self.data.attributes[attribute], self.settings.cutoff, self.settings.ndcg)
        cells = [c for c in self.systems if c.attribute == attribute and not c.variation]
        runs = {cell.label: self._with_texts(self.systems[cell].rankings) for cell in cells}
        with warnings.catch_warnings():  # the study has said them
            warnings.simplefilter("ignore", FairtkWarning)
            results: Results = Experiment(
                runs,
                self.data.topics,
                self.data.qrels,
                asked.values(),
                baseline=BM25 if BM25 in runs else None,
                save_dir=self.store,
            )
        lost = self.missing
        lost = lost[(lost["attribute"] == attribute) & (lost["variation"] == "")]
        results.failures = lost.rename(columns={"reason": "error"})[["system", QID, "error"]]
        results.environment.pop("time")  # equal results are equal files
        target = self.data.target_of(attribute)
        results.config = {
            "title": f"FAIR-QR on {self.data.name}: {attribute}, target {target}",
            "description": (
                f"{BM25} ranks by the original query; fair-qr rewrites it for groups whose "
                "exposure is below their target."
            ),
            "data": self.data.name,
            "attribute": attribute,
            "target": target,
            "note": f"Target: {target}.",
            "model": repr(self.llm),
            "warnings": self.warned(attribute),
            "correction": self.settings.correction,
        }
        return results

    def of_attribute(self, attribute: str) -> QrResults:
        """Return the results of one attribute.

        Raises:
            NotFoundError: there is no such attribute.
        """
        self._check(attribute)
        part = copy.copy(self)
        for name, value in vars(type(self)).items():
            if isinstance(value, cached_property):
                part.__dict__.pop(name, None)
        about = {attribute: self.data.attributes[attribute]}
        part.data = dataclasses.replace(self.data, attributes=about)
        part.systems = {c: own for c, own in self.systems.items() if c.attribute == attribute}
        per_query, *tables, texts = self._measured
        own, table, variations = (
            frame[frame["attribute"] == attribute].reset_index(drop=True) if len(frame) else frame
            for frame in (per_query, *tables)
        )
        part._measured = own, table, variations, {attribute: texts[attribute]}
        return part

    def warned(self, *attributes: str) -> list[str]:
        """Return the warnings about some attributes; see `warnings`."""
        systems = {cell: own for cell, own in self.systems.items() if cell.attribute in attributes}
        of_systems = [text for own in systems.values() for text in own.warnings]
        drift = self.drift.query("attribute in @attributes") if len(self.drift) else self.drift
        drifted = drift_warning(drift, same_answers(systems), self.settings.cutoff)
        measured = [text for name in attributes for text in self._measured[3][name]]
        return list(dict.fromkeys([*of_systems, *filter(None, [drifted]), *measured]))

    @property
    def explained(self) -> list[str]:
        """The attributes whose comparison has FAIR-QR, so that `changes` can say what it did."""
        return [c.attribute for c in self.systems if c.system == FAIR_QR and not c.variation]

    def changes(self, attribute: str, system: str = FAIR_QR) -> pd.DataFrame:
        """Return each query's change against BM25, the largest loss of the product first.

        Args:
            attribute: the attribute.
            system: the system.

        Returns:
            ``qid``, ``query``, the change of each measure, and how the product's change splits
            (exactly) into ``by AWRF`` and ``by nDCG``; for FAIR-QR also ``groups`` (asked for, in
            order; those in brackets were not kept) and ``note``.

        Raises:
            NotFoundError: there is no such attribute, or the comparison lacks the system.
        """
        self._check(attribute)
        here = self.per_query[
            (self.per_query["attribute"] == attribute) & (self.per_query["variation"] == "")
        ]
        if system not in set(here["system"]):
            raise NotFoundError("system", system, set(here["system"]))
        wide = here.pivot(index=QID, columns=["system", "measure"], values="value")
        then, now = wide[BM25], wide[system]
        frame = pd.DataFrame(index=wide.index)
        for name in MEASURES:
            frame[name] = now[name] - then[name]
        # a'b' - ab = (a' - a)(b + b')/2 + (b' - b)(a + a')/2
        frame["by AWRF"] = frame[FAIRNESS] * (now[NDCG] + then[NDCG]) / 2
        frame["by nDCG"] = frame[NDCG] * (now[FAIRNESS] + then[FAIRNESS]) / 2
        frame = frame.join(self._asked(attribute, system), how="left")
        frame.insert(0, "query", frame.index.map(self.data.topics.set_index(QID)["query"]))
        return frame.sort_values(PRODUCT, kind="stable").reset_index(names=QID)

    def save(self, folder: str | PathLike[str], command: str | None = None) -> Path:
        """Write frames (Parquet, CSV), tables (Markdown, LaTeX), figures and ``report.md``.

        Every file appears in one step.

        Args:
            folder: where to.
            command: that makes these results, for pages that show them.

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
        """Values per query, the rows of the two tables, and warnings of measures by attribute."""
        values: list[pd.DataFrame] = []
        tables: tuple[list[pd.DataFrame], ...] = ([], [])
        texts: dict[str, list[str]] = {}
        for attribute, (groups, target) in self.data.attributes.items():
            here = [cell for cell in self.systems if cell.attribute == attribute]
            base = Cell(attribute, BM25)
            asked = measures(groups, target, self.settings.cutoff, self.settings.ndcg)
            ranked = {cell.label: self.systems[cell].rankings for cell in here}
            runs = {n: run[run[RANK] < self.settings.cutoff] for n, run in ranked.items()}
            per_query, texts[attribute] = measured(
                runs, self.data.topics, self.data.qrels, asked, self.store
            )
            lost = {cell.label: self._lost(cell) for cell in here}
            # all systems are one family; other settings are not tested
            for varied in (False, True):
                cells = {c.label: c for c in here if bool(c.variation) == varied}
                if cells:
                    rows = per_query[per_query["system"].isin([base.label, *cells])]
                    table = summary(rows, lost, None if varied else self.settings.correction)
                    tables[varied].append(_described(table, cells))
            values.append(_described(per_query, {cell.label: cell for cell in here}))
        stacked = [pd.concat(t, ignore_index=True) if t else pd.DataFrame() for t in tables]
        # tuned systems stand beside what they are without tuning
        main = [c for c in self.systems if not c.variation]
        names = list(dict.fromkeys(c.base for c in main))
        main.sort(
            key=lambda c: (list(self.data.attributes).index(c.attribute), names.index(c.base))
        )
        order = [(c.attribute, c.system) for c in main]
        rows = list(zip(stacked[0]["attribute"], stacked[0]["system"], strict=True))
        stacked[0] = stacked[0].iloc[[rows.index(r) for r in order]].reset_index(drop=True)
        return pd.concat(values, ignore_index=True), *stacked, texts

    def _with_texts(self, run: pd.DataFrame) -> pd.DataFrame:
        """Return rankings with their queries, and texts of the documents that a page shows."""
        run = run.merge(self.data.topics[[QID, QUERY]], on=QID, how="left")
        top = run[run[RANK] < SHOWN]
        return pd.concat([self.data.texts(top), run[run[RANK] >= SHOWN]], ignore_index=True)

    def _lost(self, cell: Cell) -> set[str]:
        return set(self.data.topics[QID]) - self.systems[cell].done

    def _asked(self, attribute: str, system: str) -> pd.DataFrame:
        """Return which groups each query's loop asked for, and why it ended."""
        main = "attribute == @attribute and system == @system and variation == ''"
        rows = self.traces.query(main)
        if rows.empty or "group" not in rows:
            return pd.DataFrame(index=pd.Index([], name=QID))
        groups_asked = rows["group"].where(rows["kept"].astype(bool), "(" + rows["group"] + ")")
        later = rows["iteration"] > 0
        groups = groups_asked[later].groupby(rows[QID]).agg(", ".join)
        notes = rows.groupby(QID)["note"].agg("last")
        return pd.DataFrame({"groups": groups, "note": notes}).fillna("")


def _described(frame: pd.DataFrame, cells: Mapping[str, Cell]) -> pd.DataFrame:
    """Return the rows of some cells, their names in place of the label."""
    frame = frame[frame["system"].isin(list(cells))]
    about = pd.DataFrame([cells[label].names for label in frame["system"]], index=frame.index)
    return pd.concat([about, frame.drop(columns="system")], axis=1)
