"""Values of measures: all systems against labels that are encoded once."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ir_measures
import numpy as np
import pandas as pd

from fairtk import errors
from fairtk.errors import DataWarning, FairtkError, FairtkWarning, IdentityError, InputError, listed
from fairtk.evaluation.values import aggregated
from fairtk.experiment.identity import describe, environment, key_of
from fairtk.experiment.packing import pack
from fairtk.experiment.store import Store
from fairtk.frames import FloatArray, Run, as_strings, digest
from fairtk.frames.columns import (
    DOCNO,
    EXPOSURE,
    OF_EXPOSURE,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
    require,
)
from fairtk.measures import FairMeasure, parse, written
from fairtk.measures.provider import FairEvaluator
from fairtk.measures.samples import refuse_samples

COLUMNS = ["system", QID, "measure", "value"]
_OURS = {theirs: ours for ours, theirs in TO_IR_MEASURES.items()}
_listening = threading.Lock()  # who hears warnings is the process, not the thread


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
        self.labels = {measure: written(measure) for measure in self.measures}
        self.qids: list[str] = []
        self.qrels: pd.DataFrame | None = None
        if not self.measures:
            return
        if qrels is None:
            raise InputError("Experiment: measures need qrels (or a dataset that has them)")
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
        # as pt.Experiment: who asks for the inputs is about to compare systems
        inputs = {_OURS.get(name, name) for name in ir_measures.run_inputs(self.measures)}
        self.inputs = inputs | {QID, DOCNO, SCORE, RANK, SAMPLE, EXPOSURE, *OF_EXPOSURE}
        ours = [m for m in self.measures if isinstance(m, FairMeasure)]
        theirs = [m for m in self.measures if not isinstance(m, FairMeasure)]
        renamed = self.qrels.rename(columns=TO_IR_MEASURES)
        ours.sort(key=lambda measure: measure.text)
        # what ids match nothing is said once, by the others if there are any
        self._ours = FairEvaluator(ours, renamed, warns=not theirs) if ours else None
        self._theirs = ir_measures.evaluator(theirs, renamed) if theirs else None

    @property
    def texts(self) -> dict[str, str]:
        """What `fairtk.measures.parse` makes each measure of, by its label."""
        return {label: repr(measure) for measure, label in self.labels.items()}

    @property
    def directions(self) -> dict[str, str]:
        """``"higher"`` or ``"lower"``: what is better, by label."""
        return {label: str(getattr(m, "better", "higher")) for m, label in self.labels.items()}

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
        frame: Callable[[str], pd.DataFrame],
        store: Store,
    ) -> tuple[pd.DataFrame, dict[str, dict[str, float]]]:
        """Return the values of all systems, those of the store where it has them, and the means.

        Args:
            content: what tells a system's rows from others, by name.
            frame: returns the rows of a system; a query that it lacks gets the worst values.
            store: keeps the values if it has a file.

        Returns:
            ``system``, ``qid``, ``measure``, ``value``, a row per system, measure and query; and by
            system and measure what the measure's own aggregator (a mean for nearly all) makes of
            the defined values, NaN without any.

        Raises:
            InputError: a run cannot be measured; names the system.
        """
        key = self._key(content) if store.path is not None else None
        known = None if key is None else store.values(key)
        shape = (len(content), len(self.measures), len(self.qids))
        if known is not None:
            found = known[0].column("value").to_numpy().reshape(shape)
            for category, text in known[1]:
                warnings.warn(text, getattr(errors, category), stacklevel=4)
        elif key is None:
            found = np.stack([self._values(system, frame(system)) for system in content])
        else:
            with _listening, warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                found = np.stack([self._values(system, frame(system)) for system in content])
            for one in heard:
                warnings.warn(one.message, one.category, stacklevel=4)
            if all(issubclass(one.category, FairtkWarning) for one in heard):
                said = [(one.category.__name__, str(one.message)) for one in heard]
                table = pack(pd.DataFrame({"value": found.ravel()}), "values", durable=True)
                store.keep_values(key, table, said)
        tables = {system: self._tables(system, found[i]) for i, system in enumerate(content)}
        frames = [values for values, _ in tables.values()]
        return pd.concat(frames, ignore_index=True), {s: means for s, (_, means) in tables.items()}

    def _key(self, content: dict[str, Any]) -> str | None:
        """Return the digest of all that values depend on; None: a measure has no identity."""
        try:
            told = [describe(measure, repr(measure)) for measure in self.measures]
        except IdentityError:
            return None
        return digest([content, key_of(told), self.qids, self.qrels, environment()["packages"]], 16)

    def _values(self, system: str, run: pd.DataFrame) -> FloatArray:
        """Return the values of a run; shape (n_measures, n_queries)."""
        place = {qid: i for i, qid in enumerate(self.qids)}
        found = {measure: np.full(len(place), math.nan) for measure in self.measures}
        given = run.rename(columns=TO_IR_MEASURES)
        try:
            if self._ours:
                for measure, values in self._ours.values(given):
                    found[measure][self._order] = values
            for metric in self._theirs.iter_calc(given) if self._theirs else ():
                found[metric.measure][place[metric.query_id]] = metric.value
        except FairtkError as error:
            raise InputError(f"system {system!r}: {error}") from error
        return np.array([found[measure] for measure in self.measures])

    def _tables(self, system: str, values: FloatArray) -> tuple[pd.DataFrame, dict[str, float]]:
        n = len(self.qids)
        frame = pd.DataFrame(
            {
                "system": np.repeat(np.array([system], dtype=object), values.size),
                QID: np.tile(np.array(self.qids, dtype=object), len(values)),
                "measure": np.repeat(np.array(list(self.labels.values()), dtype=object), n),
                "value": values.ravel(),
            }
        ).astype({"system": "str", QID: "str", "measure": "str"})
        means = {
            label: aggregated(measure, own[self._order].tolist())
            for (measure, label), own in zip(self.labels.items(), values, strict=True)
        }
        return frame, means


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
    inner = {m: m.inner if m.NAME == "E" else m for m in evaluation.measures}
    wanted = {m: one for m, one in inner.items() if m.NAME in ("E", "EU") or SAMPLE not in run}
    if not wanted or evaluation.qrels is None or EXPOSURE in run:
        return
    evaluator = ir_measures.evaluator(
        list(dict.fromkeys(wanted.values())), evaluation.qrels.rename(columns=TO_IR_MEASURES)
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
        for measure, one in wanted.items():
            mine = [m for m in metrics if m.measure == one]
            yield pd.DataFrame(
                {
                    "system": system,
                    QID: [m.query_id for m in mine],
                    SAMPLE: number,
                    "measure": evaluation.labels[measure],
                    "value": [float(m.value) for m in mine],
                }
            )


def _warn_of_unlabeled(qids: list[str], total: int) -> None:
    if qids:
        warnings.warn(
            f"Experiment: {len(qids)} of {total} topics have no labels and are not measured "
            f"({listed(qids)}); filter_by_qrels=True leaves them out altogether",
            DataWarning,
            stacklevel=2,
        )
