"""Values of systems: of each query, of each sample; the rows of systems, and what stages noted."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import ir_measures
import numpy as np
import pandas as pd

from fairtk import errors
from fairtk.display.figures import spread
from fairtk.errors import (
    DataWarning,
    FairtkError,
    FairtkWarning,
    IdentityError,
    InputError,
    TruncationWarning,
    listed,
)
from fairtk.experiment.evaluate_runs import aggregated
from fairtk.experiment.identity import describe, environment, key_of
from fairtk.experiment.packing import pack, unpack
from fairtk.experiment.store import Store, StoredCell
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    OF_EXPOSURE,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
    FloatArray,
    Run,
    as_strings,
    digest,
    require,
)
from fairtk.measures import FairMeasure, format_measure, parse
from fairtk.measures.base import Reasons, reason_for, undefined_reasons, undefined_warning
from fairtk.measures.provider import FairEvaluator, Truncated, refuse_samples, truncation_texts

COLUMNS = ["system", QID, "measure", "value"]
REASON = "reason"
UNDEFINED = [*COLUMNS[:-1], REASON]
"""The columns of values, and of why some of them are undefined."""
NOTES = [QID, "stage", "note"]
NOTE_TYPES = {QID: "str", "stage": "str", "note": object}
_OURS = {theirs: ours for ours, theirs in TO_IR_MEASURES.items()}
_listening = threading.RLock()  # who hears warnings is the process, not the thread


class Evaluation:
    """Measures and labels, ready for any number of systems.

    Args:
        measures: measures, or strings that `fairtk.measures.parse` reads.
        qrels: ``qid``, ``docno``, ``label``, ``gold_answer``: what the measures read.
        qids: the queries; labels of others are left out. None: those of the labels.

    Raises:
        ParameterError: a string is no measure.
        InputError: there are measures and no labels, or none for any of the queries.
    """

    def __init__(
        self, measures: Iterable[Any], qrels: pd.DataFrame | None, qids: Sequence[str] | None
    ) -> None:
        self.measures = list(dict.fromkeys(parse(measure) for measure in measures))
        self.labels = [format_measure(measure) for measure in self.measures]
        self.qids: list[str] = []
        self.qrels: pd.DataFrame | None = None
        self.truncated: list[str] = []  # messages on rankings that are cut off
        if not self.measures:
            return
        if qrels is None:
            raise InputError("Experiment: measures need labels: give `qrels`, or a dataset of them")
        require(qrels, [QID], "Experiment (qrels)")
        labels = qrels.assign(**{QID: as_strings(qrels[QID])})
        judged = dict.fromkeys(labels[QID].unique().tolist())
        if qids is None:
            qids = list(judged)
        else:
            labels = labels[labels[QID].isin(set(qids))]
        if labels.empty:
            raise InputError(
                "Experiment: no query of the topics has labels (qids of the topics look like "
                f"{listed(qids[:1])}, of the qrels like {listed(list(judged)[:1])})"
            )
        self.qids = [qid for qid in qids if qid in judged]
        _warn_of_unlabeled([qid for qid in qids if qid not in judged], len(qids))
        self.qrels = labels.reset_index(drop=True)
        place = {qid: i for i, qid in enumerate(self.qids)}
        # means are summed up in this order, whatever the order of the topics
        self._order = [place[qid] for qid in labels[QID].unique().tolist()]
        inputs = {_OURS.get(name, name) for name in ir_measures.run_inputs(self.measures)}
        self.inputs = inputs | {QID, DOCNO, SCORE, RANK, SAMPLE, EXPOSURE, *OF_EXPOSURE}
        self._evaluator = FairEvaluator(self.measures, self.qrels, warns_of_truncation=False)
        self._reasons: dict[str, Reasons] = {}  # of NaN, by system

    @property
    def texts(self) -> dict[str, str]:
        """What `fairtk.measures.parse` makes each measure of, by its label."""
        return dict(zip(self.labels, map(repr, self.measures), strict=True))

    @property
    def directions(self) -> dict[str, str]:
        """``"higher"`` or ``"lower"``: what is better, by label."""
        ways = [str(getattr(measure, "better", "higher")) for measure in self.measures]
        return dict(zip(self.labels, ways, strict=True))

    def ready(self) -> Evaluation:
        """Return itself; that of saved results is made only when it is asked for."""
        return self

    def refuse_samples(self, system: str, run: pd.DataFrame) -> None:
        """Raise an `InputError` if a system's rows are sampled and a measure would read one
        ranking.
        """
        where = f"system {system!r}"
        refuse_samples(self.measures, Run(run, where), where)

    def all_values(
        self,
        content: dict[str, Any],
        frame: Callable[..., pd.DataFrame],
        store: Store,
    ) -> tuple[pd.DataFrame, dict[str, dict[str, float]], pd.DataFrame]:
        """Return the values of all systems, those of the store where it has them, and the means.

        Args:
            content: what tells a system's rows from others, by name.
            frame: returns the rows of a system, or of some queries alone, given after its name; a
                query that it lacks gets the worst values.
            store: keeps the values if it has a file.

        Returns:
            ``system``, ``qid``, ``measure``, ``value``, a row per system, measure and query; and by
            system and measure what the measure's own aggregator (a mean for nearly all) makes of
            the defined values, NaN without any. Then ``system``, ``qid``, ``measure``, ``reason``:
            why values are NaN.

        Raises:
            InputError: a run cannot be measured; names the system.
        """
        self._reasons.clear()
        self.truncated.clear()
        key = self._key(content) if store.path is not None else None
        entry = None if key is None else store.values(key)
        shape = (len(content), len(self.measures), len(self.qids))
        if entry is not None:
            values_by_system = entry[0].column("value").to_numpy().reshape(shape)
            for category, text in entry[1]:
                warnings.warn(text, getattr(errors, category), stacklevel=4)
                self.truncated += [text] if category == TruncationWarning.__name__ else []
        elif key is None:
            values_by_system = self._measured(list(content), frame)
        else:
            with _listening, warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                values_by_system = self._measured(list(content), frame)
            for one in heard:
                warnings.warn(one.message, one.category, stacklevel=4)
        tables = {
            system: self._tables(system, values_by_system[i]) for i, system in enumerate(content)
        }
        values = pd.concat([own for own, _ in tables.values()], ignore_index=True)
        if entry is None:
            reasons = self._reasons_of(values)
            if key is not None and all(issubclass(one.category, FairtkWarning) for one in heard):
                warnings_heard = [(one.category.__name__, str(one.message)) for one in heard]
                kept = values[["value"]].assign(**({} if reasons is None else {REASON: reasons}))
                store.keep_values(key, pack(kept, "values", durable=True), warnings_heard)
        else:
            reasons = unpack(entry[0], [REASON]).get(REASON)
        undefined = values[values["value"].isna()].assign(**{REASON: reasons})[UNDEFINED]
        means = {system: own for system, (_, own) in tables.items()}
        return values, means, undefined.astype("str").reset_index(drop=True)

    def _reasons_of(self, values: pd.DataFrame) -> pd.Series | None:
        """Return why values are NaN, beside them; None: none is."""
        lost = values["value"].isna().to_numpy()
        if not lost.any():
            return None
        reasons = np.full(len(values), None, dtype=object)
        rows = values[lost]
        measures = dict(zip(self.labels, self.measures, strict=True))
        reasons[lost] = [
            reason_for(measures[label], qid, self._reasons[system])
            for system, qid, label in rows[COLUMNS[:-1]].itertuples(index=False)
        ]
        return pd.Series(reasons, dtype="str")

    def _key(self, content: dict[str, Any]) -> str | None:
        """Return the digest of all that values depend on; None: a measure has no identity."""
        try:
            told = [describe(measure, repr(measure)) for measure in self.measures]
        except IdentityError:
            return None
        libraries = {n: v for n, v in environment()["packages"].items() if n != "fairtk"}
        return digest([content, key_of(told), self.qids, self.qrels, libraries], 16)

    def _measured(self, systems: list[str], frame: Callable[..., pd.DataFrame]) -> FloatArray:
        """Return the values of all systems; shape (n_systems, n_measures, n_queries).

        Many queries are measured in blocks, which need less memory.
        """
        values = None
        if len(self.qids) > _BLOCK and all(map(_by_query, self.measures)):
            values = self._in_blocks(systems, frame)
        if values is None:
            values = np.stack([self._values(system, frame(system)) for system in systems])
            self._warn_of_truncation(self._evaluator.truncation.found(), len(systems))
        return values

    def _warn_of_truncation(self, truncated: Truncated, n_systems: int) -> None:
        self.truncated = truncation_texts(truncated, n_systems)
        for text in self.truncated:
            warnings.warn(text, TruncationWarning, stacklevel=5)

    def _in_blocks(
        self, systems: list[str], frame: Callable[..., pd.DataFrame]
    ) -> FloatArray | None:
        """Return the same; None if what is to be said can be said of all queries at once alone."""
        assert self.qrels is not None  # there are measures
        parts: list[list[FloatArray]] = []
        truncated: Truncated = {}
        undefined: dict[tuple[int, str, str], list[str]] = {}
        for start in range(0, len(self.qids), _BLOCK):
            qids = self.qids[start : start + _BLOCK]
            with _listening, warnings.catch_warnings(action="ignore"):  # said of all of them
                block = Evaluation(self.measures, self.qrels[self.qrels[QID].isin(qids)], qids)
            block._reasons = self._reasons
            parts.append([])
            for place, system in enumerate(systems):
                with _listening, warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    try:
                        parts[-1].append(block._values(system, frame(system, qids)))
                    except FairtkError:
                        return None
                for one in heard:
                    about = getattr(one.message, "about", None)
                    if about is None:
                        return None
                    measure, lost, reason = about
                    undefined.setdefault((place, measure, reason), []).extend(lost)
            for measure, of_systems in block._evaluator.truncation.found().items():
                for system, lengths in of_systems.items():
                    truncated.setdefault(measure, {}).setdefault(system, {}).update(lengths)
        order = {self.qids[place]: i for i, place in enumerate(self._order)}
        for (_, measure, reason), lost in sorted(undefined.items(), key=lambda item: item[0][0]):
            lost.sort(key=order.__getitem__)
            warning = undefined_warning(measure, lost, len(self.qids), reason, True)
            warnings.warn(warning, stacklevel=4)
        self._warn_of_truncation(truncated, len(systems))
        return np.concatenate(parts, axis=2)

    def _values(self, system: str, run: pd.DataFrame) -> FloatArray:
        """Return the values of a run; shape (n_measures, n_queries)."""
        table = np.full((len(self.measures), len(self.qids)), math.nan)
        row = {id(measure): i for i, measure in enumerate(self.measures)}
        try:
            checked = self._evaluator.checked(run)
            with undefined_reasons() as told:
                for measure, values in self._evaluator.values(checked, system):
                    table[row[id(measure)], self._order] = values
            self._reasons.setdefault(system, {}).update(told)
        except FairtkError as error:
            raise InputError(f"system {system!r}: {error}") from error
        return table

    def _tables(self, system: str, values: FloatArray) -> tuple[pd.DataFrame, dict[str, float]]:
        n = len(self.qids)
        frame = pd.DataFrame(
            {
                "system": np.repeat(np.array([system], dtype=object), values.size),
                QID: np.tile(np.array(self.qids, dtype=object), len(values)),
                "measure": np.repeat(np.array(self.labels, dtype=object), n),
                "value": values.ravel(),
            }
        ).astype({"system": "str", QID: "str", "measure": "str"})
        qids = np.array(self.qids, dtype=object)[self._order]
        means = {
            label: aggregated(measure, own[self._order], qids)
            for measure, label, own in zip(self.measures, self.labels, values, strict=True)
        }
        return frame, means


_BLOCK = 500  # queries that are measured at once, of many


def _by_query(measure: Any) -> bool:
    """Return whether a measure's value of a query surely depends on that query alone."""
    if isinstance(measure, FairMeasure):
        return measure.is_by_query and all(map(_by_query, measure.parts))
    return bool(ir_measures.pytrec_eval.supports(measure))


def all_samples(
    systems: Sequence[str], rows: Callable[..., pd.DataFrame], evaluation: Evaluation
) -> pd.DataFrame:
    """Return the values of each sample of all systems, sorted; see `per_sample`."""
    parts = [
        part
        for system in systems
        if evaluation.measures
        for part in per_sample(system, rows(system, evaluation.inputs), evaluation)
    ]
    filled = [part for part in parts if len(part)]
    columns = ["system", QID, SAMPLE, "measure", "value"]
    table = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=columns)
    return table.sort_values(["system", QID, SAMPLE, "measure"], ignore_index=True)


def per_sample(system: str, run: pd.DataFrame, evaluation: Evaluation) -> Iterator[pd.DataFrame]:
    """Yield the values of each sample of a system, for measures that have any.

    ``E(m)`` is ``m`` of each ranking; EU is the utility of each ranking's answer. Exposure belongs
    to all samples together, so its measures are left out; a frame X has no samples.
    """
    of_samples = {
        label: measure.inner if measure.NAME == "E" else measure
        for label, measure in zip(evaluation.labels, evaluation.measures, strict=True)
        if measure.NAME in ("E", "EU") or SAMPLE not in run
    }
    if not of_samples or evaluation.qrels is None or EXPOSURE in run:
        return
    evaluator = ir_measures.evaluator(
        list(dict.fromkeys(of_samples.values())), evaluation.qrels.rename(columns=TO_IR_MEASURES)
    )
    samples: Any = run.get(SAMPLE, pd.Series(0, index=run.index)).to_numpy()
    order = np.argsort(samples, kind="stable")
    plain = run.drop(columns=SAMPLE, errors="ignore").rename(columns=TO_IR_MEASURES)
    numbers, start = np.unique(samples[order], return_index=True)
    for number, rows in zip(numbers.tolist(), np.split(order, start[1:]), strict=True):
        part = plain.iloc[rows]
        here = set(part[TO_IR_MEASURES[QID]])
        with warnings.catch_warnings():
            # said with the values of queries
            warnings.simplefilter("ignore", errors.UndefinedWarning)
            warnings.simplefilter("ignore", errors.UnmatchedWarning)
            metrics = [m for m in evaluator.iter_calc(part) if m.query_id in here]
        own: dict[int, list[Any]] = {}  # measures compare by their texts, which takes long
        for metric in metrics:
            own.setdefault(id(metric.measure), []).append(metric)
        for label, measure in of_samples.items():
            mine = [m for group in own.values() if group[0].measure == measure for m in group]
            yield pd.DataFrame(
                {
                    "system": system,
                    QID: [m.query_id for m in mine],
                    SAMPLE: number,
                    "measure": label,
                    "value": [float(m.value) for m in mine],
                }
            )


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


def _warn_of_unlabeled(qids: list[str], total: int) -> None:
    if qids:
        warnings.warn(
            f"Experiment: {len(qids)} of {total} topics have no labels and are not measured "
            f"({listed(qids)}); filter_by_qrels=True leaves them out altogether",
            DataWarning,
            stacklevel=2,
        )


_EMPTY = {QID: "str", DOCNO: "str", SCORE: "float64"}


SystemRows = Callable[..., pd.DataFrame]
"""Returns a system's rows, queries in the order of the topics.

It takes the system's name, ``columns`` (None: all; those that are not there are left out), and
``codes``: whether ids may be categories, where that is cheaper. Those of an experiment take
``qids``, too: whose rows are wanted.
"""


def stored_rows(
    store: Store, cells: Mapping[str, Mapping[str, StoredCell]], frames: Mapping[str, pd.DataFrame]
) -> SystemRows:
    """Return what gives the rows of a store's cells, and frames that the user gave as systems."""

    def rows(
        system: str,
        columns: Collection[str] | None = None,
        codes: bool = False,
        qids: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        if system in frames:
            frame = frames[system]
            return some_columns(frame if qids is None else frame[frame[QID].isin(qids)], columns)
        own = cells[system]
        some = own.values() if qids is None else [own[qid] for qid in qids if qid in own]
        table = store.read(some, None if columns is None else sorted(columns))
        if table is None:
            return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _EMPTY.items()})
        return unpack(table, codes=codes)

    return rows


def stored_notes(
    store: Store,
    chains: Mapping[str, Sequence[tuple[str, int | None]]],
    topics: Mapping[str, str],
) -> Callable[[str], pd.DataFrame]:
    """Return what gives the notes of a system: ``qid``, ``stage``, ``note``.

    `chains` has the stages that leave some, with the chains that they end, by system; topics are
    digests by qid.
    """

    def notes(system: str) -> pd.DataFrame:
        rows = [
            (qid, stage, note)
            for stage, chain in chains.get(system, ())
            for qid, note in store.notes(chain, topics).items()
        ]
        return pd.DataFrame(rows, columns=NOTES).astype(NOTE_TYPES)

    return notes


def noted(texts: Iterable[str]) -> dict[str, Any]:
    """Return the configuration that lets tables and pages show some texts; empty without any."""
    kept = list(texts)
    return {"note": " ".join(kept), "warnings": kept} if kept else {}


def some_columns(frame: pd.DataFrame, columns: Collection[str] | None) -> pd.DataFrame:
    """Return a copy with those of the columns that there are; None: all."""
    if columns is None:
        return frame.copy()
    return frame[[name for name in frame.columns if name in columns]]
