"""Values of systems by query and by sample; rows and notes of systems."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import ir_measures
import numpy as np
import pandas as pd

from fairtk import errors
from fairtk.display.figures import draw_histogram
from fairtk.errors import (
    DataWarning,
    FairtkError,
    FairtkWarning,
    IdentityError,
    InputError,
    TruncationWarning,
    format_list,
)
from fairtk.experiment.identity import describe, environment, key_of
from fairtk.experiment.packing import pack, unpack
from fairtk.experiment.store import Store, StoredCell
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    FloatArray,
    ObjectArray,
    Run,
    digest,
    require_columns,
)
from fairtk.frames.columns import OF_EXPOSURE, TO_IR_MEASURES
from fairtk.frames.ids import as_strings
from fairtk.frames.qrels import no_common_query
from fairtk.measures import FairMeasure, format_measure, parse
from fairtk.measures.base import Reasons, find_reason, undefined_reasons, undefined_warning
from fairtk.measures.mixed_samples import SampleCheck, sample_warnings
from fairtk.measures.parsing import check_names
from fairtk.measures.provider import FairEvaluator, Truncated, refuse_samples, truncation_texts

COLUMNS = ["system", QID, "measure", "value"]
REASON = "reason"
UNDEFINED = [*COLUMNS[:-1], REASON]
"""The columns of the reasons for undefined values."""
NOTES = [QID, "stage", "note"]
NOTE_TYPES = {QID: "str", "stage": "str", "note": object}
_OURS = {theirs: ours for ours, theirs in TO_IR_MEASURES.items()}
_warnings_lock = threading.RLock()  # recorded warnings are those of all threads


class Values(NamedTuple):
    """The values of systems.

    Attributes:
        per_query: ``system``, ``qid``, ``measure``, ``value``, a row per system, measure and query.
        means: systems by measures: the aggregates (usually means) of the defined values, NaN if
            all are undefined.
        undefined: ``system``, ``qid``, ``measure``, ``reason`` of undefined values.
        notes: sentences for readers of the values.
    """

    per_query: pd.DataFrame
    means: pd.DataFrame
    undefined: pd.DataFrame
    notes: list[str]


def measures_by_label(measures: Iterable[Any]) -> dict[str, Any]:
    """Return distinct measures by their labels."""
    measures = list(measures)
    check_names(measures)
    return {format_measure(measure): measure for measure in dict.fromkeys(measures)}


def directions(measures: Mapping[str, Any]) -> dict[str, str]:
    """Return the better direction, ``"higher"`` or ``"lower"``, by label."""
    return {label: str(getattr(m, "better", "higher")) for label, m in measures.items()}


def columns_read(measures: Iterable[Any]) -> set[str]:
    """Return the columns of runs that measures read."""
    inputs = {_OURS.get(name, name) for name in ir_measures.run_inputs(list(measures))}
    return inputs | {QID, DOCNO, SCORE, RANK, SAMPLE, EXPOSURE, *OF_EXPOSURE}


def evaluate_run(
    evaluator: FairEvaluator, measures: Iterable[Any], run: Run, system: str
) -> tuple[FloatArray, Reasons]:
    """Return the values of a run, and the reasons for undefined values.

    Args:
        evaluator: the evaluator.
        measures: the measures of the evaluator, in the order of the result.
        run: the run.
        system: the name of the run, for warnings on truncated rankings.

    Returns:
        Values of shape (n_measures, n_queries), queries in the order of the labels; and reasons.
    """
    with undefined_reasons() as reasons:
        # measures are compared by identity, because equality compares their texts, which is slow
        values = {id(measure): value for measure, value in evaluator.values(run, system)}
    return np.stack([values[id(measure)] for measure in measures]), reasons


def tabulated(
    systems: Sequence[str], measures: Mapping[str, Any], qids: Sequence[str], table: FloatArray
) -> pd.DataFrame:
    """Return values of shape (n_systems, n_measures, n_queries) as `Values.per_query`."""
    names, labels, ids = (np.array(list(x), dtype=object) for x in (systems, measures, qids))
    frame = pd.DataFrame(
        {
            "system": np.repeat(names, len(labels) * len(ids)),
            QID: np.tile(ids, len(names) * len(labels)),
            "measure": np.tile(np.repeat(labels, len(ids)), len(names)),
        },
        dtype="str",
    )
    return frame.assign(value=table.ravel())


def aggregates(
    systems: Sequence[str], measures: Mapping[str, Any], qids: Sequence[str], table: FloatArray
) -> pd.DataFrame:
    """Return values of shape (n_systems, n_measures, n_queries) as `Values.means`."""
    ids = np.array(qids, dtype=object)
    means = [
        [
            _aggregate(measure, values, ids)
            for measure, values in zip(measures.values(), rows, strict=True)
        ]
        for rows in table
    ]
    return pd.DataFrame(means, pd.Index(systems, name="system"), list(measures), dtype=float)


def _aggregate(measure: Any, values: FloatArray, qids: ObjectArray) -> float:
    defined = ~np.isnan(values)
    if not defined.any():
        return math.nan
    if isinstance(measure, FairMeasure):
        return measure.aggregate(values[defined], qids[defined])
    aggregator = measure.aggregator()
    for value in values[defined].tolist():
        aggregator.add(value)
    return float(aggregator.result())


def undefined_values(
    per_query: pd.DataFrame, measures: Mapping[str, Any], reasons: Mapping[str, Reasons]
) -> pd.DataFrame:
    """Return `Values.undefined`, with the index of `per_query`, from the reasons by system."""
    undefined = per_query.loc[per_query["value"].isna(), COLUMNS[:-1]]
    texts = [
        find_reason(measures[label], qid, reasons[system])
        for system, qid, label in undefined.itertuples(index=False)
    ]
    return undefined.assign(**{REASON: pd.Series(texts, undefined.index, dtype="str")})


class Evaluation:
    """The measures and labels of an experiment.

    Args:
        measures: measures, or strings as for `fairtk.measures.parse`.
        qrels: the columns that the measures read, e.g. ``qid``, ``docno``, ``label``,
            ``gold_answer``.
        qids: the queries; labels of other queries are ignored.

    Raises:
        ParameterError: a string is not a measure.
        InputError: there are measures, but no labels for the queries.
    """

    def __init__(
        self, measures: Iterable[Any], qrels: pd.DataFrame | None, qids: Sequence[str]
    ) -> None:
        measures = [measures] if isinstance(measures, str | ir_measures.Measure) else measures
        self.measures = measures_by_label(map(parse, measures))
        self.qids: list[str] = []
        self.qrels: pd.DataFrame | None = None
        if not self.measures:
            return
        if qrels is None:
            raise InputError("Experiment: `qrels` (or a dataset) are required for measures")
        require_columns(qrels, [QID], "Experiment (qrels)")
        labels = qrels.assign(**{QID: as_strings(qrels[QID])})
        judged = dict.fromkeys(labels[QID].unique().tolist())
        labels = labels[labels[QID].isin(set(qids))]
        if labels.empty:
            raise InputError(f"Experiment: {no_common_query('topics', qids, judged)}")
        self.qids = [qid for qid in qids if qid in judged]
        if len(self.qids) < len(qids):
            missing = [qid for qid in qids if qid not in judged]
            warnings.warn(
                f"Experiment: {len(missing)} of {len(qids)} topics ({format_list(missing)}) have "
                "no labels and are not measured; use filter_by_qrels=True not to run them",
                DataWarning,
                stacklevel=2,
            )
        self.qrels = labels.reset_index(drop=True)
        index = {qid: i for i, qid in enumerate(self.qids)}
        # sums of means must not depend on the order of the topics
        self._order = [index[qid] for qid in labels[QID].unique().tolist()]
        self.inputs = columns_read(self.measures.values())
        self._evaluator = FairEvaluator(
            self.measures.values(), self.qrels, warns_of_truncation=False
        )

    def refuse_samples(self, system: str, run: pd.DataFrame) -> None:
        """Raise `InputError` if a system is sampled and a measure expects one ranking."""
        where = f"system {system!r}"
        refuse_samples(list(self.measures.values()), Run(run, where), where)

    def values(
        self, content: Mapping[str, Any], frame: Callable[..., pd.DataFrame], store: Store
    ) -> Values:
        """Return the values of all systems, from the store if possible.

        Args:
            content: the identities of the rows of systems, by name.
            frame: returns the rows of a system, or of some of its queries; missing queries get the
                worst values.
            store: saves the values if it has a file.

        Raises:
            InputError: a run is invalid; the message names the system.
        """
        systems = list(content)
        if not self.measures:
            table = np.zeros((len(systems), 0, 0))
            per_query = tabulated(systems, {}, [], table)
            means = aggregates(systems, {}, [], table)
            return Values(per_query, means, undefined_values(per_query, {}, {}), [])
        key = self._key(content) if store.path is not None else None
        stored = None if key is None else store.values(key)
        messages: list[Any]
        if stored is None:
            with _warnings_lock, warnings.catch_warnings(record=True, action="always") as caught:
                table, reasons = self._measured(systems, frame)
            messages = [one.message for one in caught]
        else:
            shape = (len(systems), len(self.measures), len(self.qids))
            table = stored[0].column("value").to_numpy().reshape(shape)
            messages = [getattr(errors, category)(text) for category, text in stored[1]]
        for message in messages:
            warnings.warn(message, stacklevel=4)
        per_query = tabulated(systems, self.measures, self.qids, table)
        if stored is None:
            undefined = undefined_values(per_query, self.measures, reasons)
            if key is not None and all(isinstance(m, FairtkWarning) for m in messages):
                columns = per_query[["value"]]
                if len(undefined):
                    columns = columns.assign(**{REASON: undefined[REASON]})
                texts = [(type(message).__name__, str(message)) for message in messages]
                store.keep_values(key, pack(columns, "values", durable=True), texts)
        else:
            undefined = per_query.loc[per_query["value"].isna(), COLUMNS[:-1]]
            undefined = undefined.join(unpack(stored[0], [REASON]).reindex(columns=[REASON]))
        qids = [self.qids[index] for index in self._order]
        means = aggregates(systems, self.measures, qids, table[:, :, self._order])
        notes = [f"{message}." for message in messages if isinstance(message, TruncationWarning)]
        return Values(per_query, means, undefined, notes)

    def _key(self, content: Mapping[str, Any]) -> str | None:
        """Return the digest of all inputs of the values; `None` if a measure has no identity."""
        try:
            identities = [describe(measure, repr(measure)) for measure in self.measures.values()]
        except IdentityError:
            return None
        libraries = {n: v for n, v in environment()["packages"].items() if n != "fairtk"}
        return digest([content, key_of(identities), self.qids, self.qrels, libraries], 16)

    def _measured(
        self, systems: list[str], frame: Callable[..., pd.DataFrame]
    ) -> tuple[FloatArray, dict[str, Reasons]]:
        """Return the values of all systems, and the reasons for undefined values by system.

        Many queries are measured in blocks to save memory. The shape of the values is (n_systems,
        n_measures, n_queries).
        """
        truncated: Truncated = {}
        checks: dict[str, SampleCheck] = {}
        measured = None
        if len(self.qids) > _BLOCK and all(map(_by_query, self.measures.values())):
            measured = self._in_blocks(systems, frame, truncated, checks)
        if measured is None:
            measured = self._at_once(systems, frame)
            truncated = self._evaluator.truncation.truncated_rankings()
            checks = self._evaluator.sample_checks
        for text in sample_warnings(checks):
            warnings.warn(text, DataWarning, stacklevel=5)
        for text in truncation_texts(truncated, len(systems)):
            warnings.warn(text, TruncationWarning, stacklevel=5)
        return measured

    def _in_blocks(
        self,
        systems: list[str],
        frame: Callable[..., pd.DataFrame],
        truncated: Truncated,
        checks: dict[str, SampleCheck],
    ) -> tuple[FloatArray, dict[str, Reasons]] | None:
        """Return the same, or `None` if there is a warning about all queries.

        Truncated rankings are added to `truncated`, and the checks of samples to `checks`.
        """
        assert self.qrels is not None  # there are measures
        tables: list[FloatArray] = []
        reasons: dict[str, Reasons] = {system: {} for system in systems}
        for start in range(0, len(self.qids), _BLOCK):
            qids = self.qids[start : start + _BLOCK]
            with warnings.catch_warnings(action="ignore"):  # repeated for all queries
                labels = self.qrels[self.qrels[QID].isin(qids)]
                block = Evaluation(self.measures.values(), labels, qids)
            with warnings.catch_warnings(record=True, action="always") as caught:
                try:
                    table, of_block = block._at_once(systems, partial(frame, qids=qids))
                except FairtkError:
                    return None
            if any(getattr(one.message, "about", None) is None for one in caught):
                return None
            tables.append(table)
            for system in systems:
                reasons[system].update(of_block[system])
            for measure, of_systems in block._evaluator.truncation.truncated_rankings().items():
                for system, lengths in of_systems.items():
                    truncated.setdefault(measure, {}).setdefault(system, {}).update(lengths)
            for system, check in block._evaluator.sample_checks.items():
                checks[system] = checks[system].joined(check) if system in checks else check
        order = {self.qids[index]: i for i, index in enumerate(self._order)}
        for of_system in reasons.values():
            undefined: dict[tuple[str, str], list[str]] = {}
            for (measure, qid), reason in of_system.items():
                undefined.setdefault((measure, reason), []).append(qid)
            for (measure, reason), qids in undefined.items():
                qids.sort(key=order.__getitem__)
                warning = undefined_warning(measure, qids, len(self.qids), reason, True)
                warnings.warn(warning, stacklevel=4)
        return np.concatenate(tables, axis=2), reasons

    def _at_once(
        self, systems: list[str], frame: Callable[..., pd.DataFrame]
    ) -> tuple[FloatArray, dict[str, Reasons]]:
        table = np.full((len(systems), len(self.measures), len(self.qids)), math.nan)
        reasons: dict[str, Reasons] = {}
        for values, system in zip(table, systems, strict=True):
            try:
                # no variable for the run, so that it is freed before the next one is read
                values[:, self._order], reasons[system] = evaluate_run(
                    self._evaluator,
                    self.measures.values(),
                    self._evaluator.checked(frame(system)),
                    system,
                )
            except FairtkError as error:
                raise InputError(f"system {system!r}: {error}") from error
        return table, reasons


_BLOCK = 500  # queries per block


def _by_query(measure: Any) -> bool:
    """Return whether the value of each query only depends on that query."""
    if isinstance(measure, FairMeasure):
        return measure.is_by_query and all(map(_by_query, measure.parts))
    return bool(ir_measures.pytrec_eval.supports(measure))


def values_of_samples(
    system: str, run: pd.DataFrame, measures: Mapping[str, Any], qrels: pd.DataFrame
) -> Iterator[pd.DataFrame]:
    """Yield the values of each sample of a system; see `Results.per_sample`."""
    of_samples = {
        label: measure.inner if measure.NAME == "E" else measure
        for label, measure in measures.items()
        if measure.NAME in ("E", "EU") or SAMPLE not in run
    }
    if not of_samples or EXPOSURE in run:
        return
    distinct = list(dict.fromkeys(of_samples.values()))
    evaluator = FairEvaluator(distinct, qrels, warns_of_truncation=False)
    samples: Any = run.get(SAMPLE, pd.Series(0, index=run.index))
    for number, rows in run.drop(columns=SAMPLE, errors="ignore").groupby(samples.to_numpy()):
        with warnings.catch_warnings():  # the per-query values cause the same warnings
            warnings.simplefilter("ignore", errors.UndefinedWarning)
            warnings.simplefilter("ignore", errors.UnmatchedWarning)
            checked = evaluator.checked(rows)
            values, _ = evaluate_run(evaluator, distinct, checked, system)
        present = np.isin(evaluator.qrels.qids, checked.qids)
        for label, measure in of_samples.items():
            yield pd.DataFrame(
                {
                    "system": system,
                    QID: evaluator.qrels.qids[present].tolist(),
                    SAMPLE: number,
                    "measure": label,
                    "value": values[distinct.index(measure), present],
                }
            )


def spreads(
    per_query: pd.DataFrame, systems: Sequence[str], measures: Sequence[str]
) -> list[list[str]]:
    """Return a histogram of the per-query values for each system and measure."""
    by_measure = per_query.groupby("measure")["value"]
    low, high = by_measure.min().to_dict(), by_measure.max().to_dict()
    values = dict(iter(per_query.groupby(["system", "measure"])["value"]))

    def cell(system: str, measure: str) -> str:
        if (system, measure) not in values:
            return ""
        return draw_histogram(values[system, measure], low[measure], high[measure])

    return [["", *(cell(system, measure) for measure in measures)] for system in systems]


_EMPTY = {QID: "str", DOCNO: "str", SCORE: "float64"}


SystemRows = Callable[..., pd.DataFrame]
"""A function that returns the rows of a system, in the order of the topics.

Its arguments are the name of the system, ``columns`` (`None` for all; missing ones are ignored),
``codes`` (whether ids may be categories, which is faster), and in experiments ``qids`` (`None` for
all).
"""


def no_rows() -> pd.DataFrame:
    """Return the rows of a system whose queries all failed."""
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _EMPTY.items()})


def stored_rows(
    store: Store, cells: Mapping[str, Mapping[str, StoredCell]], frames: Mapping[str, pd.DataFrame]
) -> SystemRows:
    """Return the function for the rows of stored cells, or of frames given as systems."""

    def rows(
        system: str,
        columns: Collection[str] | None = None,
        codes: bool = False,
        qids: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        if system in frames:
            frame = frames[system]
            return some_columns(frame if qids is None else frame[frame[QID].isin(qids)], columns)
        by_qid = cells[system]
        chosen = [by_qid[qid] for qid in (by_qid if qids is None else qids) if qid in by_qid]
        table = store.read(chosen, None if columns is None else sorted(columns))
        if table is None:
            return no_rows()
        return unpack(table, codes=codes)

    return rows


def stored_notes(
    store: Store,
    chains: Mapping[str, Sequence[tuple[str, int | None]]],
    topics: Mapping[str, str],
) -> Callable[[str], pd.DataFrame]:
    """Return the function for the notes of a system: ``qid``, ``stage``, ``note``.

    `chains` has the stages with notes and the chains that they end, by system; topics are digests
    by qid.
    """

    def notes(system: str) -> pd.DataFrame:
        rows = [
            (qid, stage, note)
            for stage, chain in chains.get(system, ())
            for qid, note in store.notes(chain, topics).items()
        ]
        return pd.DataFrame(rows, columns=NOTES).astype(NOTE_TYPES)

    return notes


def some_columns(frame: pd.DataFrame, columns: Collection[str] | None) -> pd.DataFrame:
    """Return a copy with the given columns, ignoring missing ones; `None` for all."""
    if columns is None:
        return frame.copy()
    return frame[[name for name in frame.columns if name in columns]]
