"""Values of systems by query and by sample; rows and notes of systems."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, FairtkError, IdentityError, InputError
from fairtk.experiment.identity import describe, environment, key_of
from fairtk.experiment.inputs import measure_list
from fairtk.experiment.packing import pack, unpack
from fairtk.experiment.store import Store, StoredCell
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
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
    digest,
    require_columns,
)
from fairtk.frames.columns import OF_EXPOSURE, PARENT, PROMPT_ID, rows_by_code
from fairtk.frames.ids import as_strings
from fairtk.frames.qrels import no_common_query
from fairtk.measures import FairMeasure, format_measure, parse
from fairtk.measures.evaluation import checked_aggregate
from fairtk.measures.evaluator import Evaluator
from fairtk.measures.facts import (
    RunFacts,
    no_utility,
    remarks_on_measures,
    remarks_on_runs,
    remarks_on_values,
)
from fairtk.measures.foreign import refuse_samples, run_columns
from fairtk.measures.parsing import check_names
from fairtk.measures.scores import Scores
from fairtk.remarks import Remark, read_remark
from fairtk.wording import format_list

if TYPE_CHECKING:
    from pyarrow import Table

COLUMNS = ["system", QID, "measure", "value"]
REASON = "reason"
UNDEFINED = [*COLUMNS[:-1], REASON]
"""The columns of the reasons for undefined values."""
NOTES = [QID, "stage", "note"]
NOTE_TYPES = {QID: "str", "stage": "str", "note": object}


@dataclass(frozen=True)
class Values:
    """The values of systems.

    Attributes:
        per_query: ``system``, ``qid``, ``measure``, ``value``, a row per system, measure and query;
            for a measure that compares groups of queries, the values that it compares.
        means: systems by measures: the aggregates (usually means) of the defined values, NaN if
            all are undefined.
        undefined: ``system``, ``qid``, ``measure``, ``reason`` of undefined values.
        remarks: what a reader of the values must know.
    """

    per_query: pd.DataFrame
    means: pd.DataFrame
    undefined: pd.DataFrame
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class SystemScores:
    """What was measured of a system.

    Attributes:
        scores: the scores of each measure, by label.
        facts: the facts about its run.
    """

    scores: Mapping[str, Scores]
    facts: RunFacts

    @classmethod
    def of(cls, evaluator: Evaluator, measures: Mapping[str, Any], run: Run) -> SystemScores:
        """Return the scores of a run; measures are those of the evaluator, by label."""
        scores, facts = evaluator.evaluate(run)
        # measures are compared by identity, because equality compares their texts, which is slow
        by_identity = {id(measure): of_measure for measure, of_measure in scores.items()}
        return cls({label: by_identity[id(m)] for label, m in measures.items()}, facts)

    @classmethod
    def joined(cls, blocks: Sequence[SystemScores]) -> SystemScores:
        """Return the scores of all queries from those of blocks of queries."""
        scores = {
            label: Scores.joined([block.scores[label] for block in blocks])
            for label in blocks[0].scores
        }
        return cls(scores, RunFacts.joined([block.facts for block in blocks]))


def values_of_systems(
    systems: Mapping[str, SystemScores],
    measures: Mapping[str, Any],
    qrels: Qrels,
    order: Sequence[int] | None = None,
) -> Values:
    """Return the values of systems, and all remarks on them.

    Args:
        systems: what was measured of each system, by name.
        measures: the measures by label.
        qrels: the labels.
        order: the positions of the queries in the result; `None` for the order of the labels.
    """
    shape = (len(systems), len(measures), len(qrels.qids))
    scores = [of_system.scores[label] for of_system in systems.values() for label in measures]
    table = np.array([one.values for one in scores]).reshape(shape)
    reasons = np.array([one.reasons for one in scores], dtype=object).reshape(shape)
    means = aggregates(list(systems), measures, qrels.qids.tolist(), table)
    remarks = remarks_on_measures(measures.values())
    for name, of_system in systems.items():
        for label, measure in measures.items():
            remarks += remarks_on_values(measure, of_system.scores[label], qrels.qids.text, name)
    facts = {name: of_system.facts for name, of_system in systems.items()}
    for label, measure in measures.items():
        of_measure = [of_system.scores[label] for of_system in systems.values()]
        remarks += no_utility(measure, of_measure, list(facts.values()), qrels.qids.text)
    remarks += remarks_on_runs(list(measures.values()), qrels, facts)
    qids = qrels.qids if order is None else qrels.qids[list(order)]
    if order is not None:
        table, reasons = table[:, :, list(order)], reasons[:, :, list(order)]
    per_query = tabulated(list(systems), measures, qids.tolist(), table)
    return Values(per_query, means, undefined_values(per_query, reasons.ravel()), tuple(remarks))


def measures_by_label(measures: Iterable[Any]) -> dict[str, Any]:
    """Return distinct measures by their labels."""
    measures = list(measures)
    check_names(measures)
    return {format_measure(measure): measure for measure in dict.fromkeys(measures)}


def columns_read(measures: Iterable[Any]) -> set[str]:
    """Return the columns of runs that measures read."""
    columns = {*run_columns(measures), QID, DOCNO, PARENT, SCORE, RANK, SAMPLE}
    columns |= {EXPOSURE, *OF_EXPOSURE}
    return (
        columns if columns.isdisjoint((QANSWER, CREDIT)) else {*columns, ANSWER_STATUS, PROMPT_ID}
    )


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
        return checked_aggregate(measure, values[defined], qids[defined])
    aggregator = measure.aggregator()
    for value in values[defined].tolist():
        aggregator.add(value)
    return float(aggregator.result())


def undefined_values(per_query: pd.DataFrame, reasons: Any) -> pd.DataFrame:
    """Return `Values.undefined`, with the index of `per_query`, from the reason of each row."""
    is_undefined = per_query["value"].isna()
    undefined = per_query.loc[is_undefined, COLUMNS[:-1]]
    texts = pd.Series(reasons[is_undefined.to_numpy()], undefined.index, dtype="str")
    return undefined.assign(**{REASON: texts})


class Evaluation:
    """The measures and labels of an experiment.

    Args:
        measures: measures, or strings as for `fairtk.measures.parse`.
        qrels: the columns that the measures read, e.g. ``qid``, ``docno``, ``label``,
            ``gold_answer``.
        qids: the queries; labels of other queries are ignored.
        parent: the separator of document and passage in docnos; `None` for no separator.

    Raises:
        ParameterError: a string is not a measure.
        InputError: there are measures, but no labels for the queries.
    """

    def __init__(
        self,
        measures: Iterable[Any],
        qrels: pd.DataFrame | None,
        qids: Sequence[str],
        parent: str | None = None,
    ) -> None:
        self.parent = parent
        self.measures = measures_by_label(map(parse, measure_list(measures, may_be_empty=True)))
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
        index = {qid: i for i, qid in enumerate(labels[QID].unique().tolist())}
        self._order = [index[qid] for qid in self.qids]  # labels are in another order
        self.inputs = columns_read(self.measures.values())
        self._labels = Evaluator(list(self.measures.values()), self.qrels).qrels

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
            return Values(per_query, means, undefined_values(per_query, np.array([])))
        key = self._key(content) if store.path is not None else None
        stored = None if key is None else store.values(key)
        if stored is not None:
            return self._unpacked(systems, *stored)
        values = values_of_systems(
            self._measured(systems, frame), self.measures, self._labels, self._order
        )
        if key is not None:
            columns = values.per_query[["value"]]
            if len(values.undefined):
                columns = columns.assign(**{REASON: values.undefined[REASON]})
            remarks = [asdict(remark) for remark in values.remarks]
            store.keep_values(key, pack(columns, "values", durable=True), remarks)
        return values

    def _unpacked(
        self, systems: list[str], columns: Table, remarks: Sequence[Mapping[str, Any]]
    ) -> Values:
        """Return stored values."""
        shape = (len(systems), len(self.measures), len(self.qids))
        table = columns.column("value").to_numpy().reshape(shape)
        per_query = tabulated(systems, self.measures, self.qids, table)
        is_undefined = per_query["value"].isna()
        undefined = per_query.loc[is_undefined, COLUMNS[:-1]]
        undefined = undefined.join(unpack(columns, [REASON]).reindex(columns=[REASON]))
        # sums of means must not depend on the order of the topics
        by_label = np.argsort(self._order)
        qids = self._labels.qids.tolist()
        means = aggregates(systems, self.measures, qids, table[:, :, by_label])
        return Values(per_query, means, undefined, tuple(map(read_remark, remarks)))

    def _key(self, content: Mapping[str, Any]) -> str | None:
        """Return the digest of all inputs of the values; `None` if a measure has no identity."""
        try:
            identities = [describe(measure, repr(measure)) for measure in self.measures.values()]
        except IdentityError:
            return None
        libraries = {n: v for n, v in environment()["packages"].items() if n != "fairtk"}
        form = "with remarks"  # what is stored besides the values
        inputs = [form, content, key_of(identities), self.qids, self.qrels, libraries]
        return digest(inputs if self.parent is None else [*inputs, self.parent], 16)

    def _measured(
        self, systems: list[str], frame: Callable[..., pd.DataFrame]
    ) -> dict[str, SystemScores]:
        """Return what was measured of each system, in blocks of queries to save memory."""
        size = len(self.qids)
        if all(map(_by_query, self.measures.values())):
            size = min(size, _BLOCK)
        measures = list(self.measures.values())
        blocks: dict[str, list[SystemScores]] = {system: [] for system in systems}
        all_qids = self._labels.qids.tolist()
        for start in range(0, len(all_qids), size):
            qids = all_qids[start : start + size]
            is_whole = len(qids) == len(all_qids)
            labels = self._labels if is_whole else self._labels.of_queries(start, start + len(qids))
            evaluator = Evaluator(measures, labels)
            for system in systems:
                try:
                    # no variable for the run, so that it is freed before the next one is read
                    scores = SystemScores.of(
                        evaluator,
                        self.measures,
                        evaluator.checked(frame(system) if is_whole else frame(system, qids=qids)),
                    )
                except FairtkError as error:
                    raise InputError(f"system {system!r}: {error}") from error
                blocks[system].append(scores)
        return {system: SystemScores.joined(parts) for system, parts in blocks.items()}


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
    of_samples = {}
    for label, measure in measures.items():
        of_sample = measure.of_sample if isinstance(measure, FairMeasure) else None
        if of_sample is not None or SAMPLE not in run:
            of_samples[label] = measure if of_sample is None else of_sample
    if not of_samples or EXPOSURE in run:
        return
    distinct = list(dict.fromkeys(of_samples.values()))
    evaluator = Evaluator(distinct, qrels)
    samples: Any = run.get(SAMPLE, pd.Series(0, index=run.index))
    for number, rows in run.drop(columns=SAMPLE, errors="ignore").groupby(samples.to_numpy()):
        checked = evaluator.checked(rows)
        scores, facts = evaluator.evaluate(checked)
        for label, measure in of_samples.items():
            yield pd.DataFrame(
                {
                    "system": system,
                    QID: evaluator.qrels.qids[facts.present].tolist(),
                    SAMPLE: number,
                    "measure": label,
                    "value": scores[measure].values[facts.present],
                }
            )


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
    by_query = {system: _ByQuery(frame) for system, frame in frames.items()}

    def rows(
        system: str,
        columns: Collection[str] | None = None,
        codes: bool = False,
        qids: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        if system in frames:
            frame = frames[system] if qids is None else by_query[system].rows(qids)
            return some_columns(frame, columns)
        by_qid = cells[system]
        chosen = [by_qid[qid] for qid in (by_qid if qids is None else qids) if qid in by_qid]
        table = store.read(chosen, None if columns is None else sorted(columns))
        if table is None:
            return no_rows()
        return unpack(table, codes=codes)

    return rows


def rows_with_parents(rows: SystemRows, parent: str | None) -> SystemRows:
    """Return the function for rows with the column ``parent``; see `Run.with_parents`."""
    if parent is None:
        return rows

    def with_parents(
        system: str, columns: Collection[str] | None = None, **options: Any
    ) -> pd.DataFrame:
        frame = rows(system, columns, **options)
        if columns is not None and PARENT not in columns:
            return frame
        return Run(frame, f"system {system!r}").with_parents(parent).frame

    return with_parents


class _ByQuery:
    """Returns the rows of some queries of a frame, in its order, without a look at all rows."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    @cached_property
    def _rows(self) -> tuple[pd.Index, IntArray, Sequence[int]]:
        """The queries, all rows sorted by query, and the first of each query."""
        codes, qids = pd.factorize(self.frame[QID])
        return pd.Index(qids), *rows_by_code(codes, len(qids))

    def rows(self, qids: Sequence[str]) -> pd.DataFrame:
        """Return the rows of queries; those without rows are ignored."""
        known, order, start = self._rows
        queries = known.get_indexer(pd.Index(qids))
        parts = [order[start[query] : start[query + 1]] for query in queries if query >= 0]
        return self.frame.iloc[np.sort(np.concatenate([order[:0], *parts]))]


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
