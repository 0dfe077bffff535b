"""Values of measures: all systems against labels that are encoded once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, FairtkError, InputError, UndefinedWarning, listed
from fairtk.frames import as_strings
from fairtk.frames.columns import DOCNO, QID, RANK, SAMPLE, SCORE, TO_IR_MEASURES, require
from fairtk.measures import parse, written

COLUMNS = ["system", QID, "measure", "value"]
_OURS = {theirs: ours for ours, theirs in TO_IR_MEASURES.items()}


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
        if not self.measures:
            return
        if qrels is None:
            raise InputError("Experiment: measures need qrels (or a dataset that has them)")
        require(qrels, [QID], "Experiment (qrels)")
        labels = qrels.assign(**{QID: as_strings(qrels[QID])})
        judged = dict.fromkeys(labels[QID])
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
        # as pt.Experiment: who asks for the inputs is about to compare systems
        self.inputs = {_OURS.get(name, name) for name in ir_measures.run_inputs(self.measures)} | {
            QID,
            DOCNO,
            SCORE,
            RANK,
            SAMPLE,
        }
        self._evaluator = ir_measures.evaluator(
            self.measures, self.qrels.rename(columns=TO_IR_MEASURES)
        )

    def values(self, system: str, run: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float]]:
        """Return a system's values and their means over the queries that have one.

        Args:
            system: its name.
            run: its rows; a query that it lacks gets each measure's worst value.

        Returns:
            ``system``, ``qid``, ``measure``, ``value``, a row per measure and query; and by
            measure what its own aggregator (a mean for nearly all) makes of the defined values,
            NaN without any.

        Raises:
            InputError: the run cannot be measured; names the system.
        """
        place = {qid: i for i, qid in enumerate(self.qids)}
        found = {m: np.full(len(self.qids), math.nan) for m in self.measures}
        totals = {m: m.aggregator() for m in self.measures}
        given = run.rename(columns=TO_IR_MEASURES)
        last: Any = None  # values come measure by measure; to find one by its hash is slow
        try:
            for metric in self._evaluator.iter_calc(given):
                if metric.measure is not last:
                    last = metric.measure
                    values, total = found[last], totals[last]
                values[place[metric.query_id]] = metric.value
                if not math.isnan(metric.value):
                    total.add(metric.value)
        except FairtkError as error:
            raise InputError(f"system {system!r}: {error}") from error
        n = len(self.qids)
        frame = pd.DataFrame(
            {
                "system": np.repeat(np.array([system], dtype=object), n * len(self.measures)),
                QID: np.tile(np.array(self.qids, dtype=object), len(self.measures)),
                "measure": np.repeat(np.array(list(self.labels.values()), dtype=object), n),
                "value": np.concatenate([found[m] for m in self.measures]),
            }
        ).astype({"system": "str", QID: "str", "measure": "str"})
        return frame, {
            self.labels[m]: math.nan if np.isnan(found[m]).all() else float(totals[m].result())
            for m in self.measures
        }


def per_sample(system: str, run: pd.DataFrame, evaluation: Evaluation) -> Iterator[pd.DataFrame]:
    """Yield the values of each sample of a system, for measures that have any.

    ``E(m)`` is ``m`` of each ranking; EU is the utility of each ranking's answer. Exposure belongs
    to all samples together, so its measures are left out.

    Args:
        system: its name.
        run: its rows.
        evaluation: measures and labels.
    """
    inner = {m: m.inner if m.NAME == "E" else m for m in evaluation.measures}
    wanted = {m: one for m, one in inner.items() if m.NAME in ("E", "EU") or SAMPLE not in run}
    if not wanted:
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
            warnings.simplefilter("ignore", UndefinedWarning)  # said with the values of queries
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
