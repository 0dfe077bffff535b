"""The border to ir_measures: a provider for all measures, and the only code that warns of values.

`FairProvider` is the first provider of ir_measures' default pipeline and accepts every measure, so
it serves ``ir_measures.calc``, evaluators, ``pt.Evaluate`` and ``pt.Experiment``. `FairEvaluator`
checks labels and runs once, in any form, computes fairtk's own measures for all queries at once,
and passes other measures to the other providers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import CalcResults, Metric, providers
from ir_measures.providers import FallbackProvider

from fairtk.errors import ColumnError, InputError, PluginError
from fairtk.frames import EXPOSURE, SAMPLE, SCORE, FloatArray, Qrels, Run
from fairtk.frames.accepted import as_frame, frame_of
from fairtk.frames.columns import TO_IR_MEASURES
from fairtk.frames.ids import Ids, are_ids
from fairtk.frames.qrels import mostly_judged, warn_of_unmatched
from fairtk.frames.schema import LIMIT
from fairtk.measures.base import FairMeasure
from fairtk.measures.costs import COSTS
from fairtk.measures.evaluation import checked_aggregate
from fairtk.measures.evaluator import Evaluator
from fairtk.measures.facts import remarks_on_run
from fairtk.measures.foreign import (
    PROVIDER,
    labels_for_other_providers,
    other_providers,
    qrel_columns,
    run_columns,
    run_for_other_providers,
    split_by_provider,
)
from fairtk.measures.parsing import format_measure
from fairtk.remarks import AVERAGED, NOT_A_MEAN, UNDEFINED, Remark, emit


class FairProvider(FallbackProvider):  # type: ignore[misc]
    """The provider of each `FairMeasure`, which passes other measures to other providers."""

    NAME = PROVIDER

    def __init__(self) -> None:
        providers.Provider.__init__(self)

    @property
    def providers(self) -> list[Any]:
        """The other providers."""
        return list(other_providers().providers)

    def supports(self, measure: Any) -> bool:
        """Return whether fairtk, a plugin or another provider computes the measure."""
        return isinstance(measure, FairMeasure) or super().supports(measure)

    def run_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the required columns of the run, in ir_measures' names."""
        return [TO_IR_MEASURES.get(name, name) for name in run_columns(measures)]

    def qrel_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the required columns of the qrels, in ir_measures' names."""
        return [TO_IR_MEASURES.get(name, name) for name in qrel_columns(measures)]

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> FairEvaluator:
        return FairEvaluator(measures, qrels)


class FairEvaluator(providers.Evaluator):  # type: ignore[misc]
    """Evaluates any number of runs, as ir_measures does, with qrels that are checked once.

    Args:
        measures: any measures of fairtk, its plugins and ir_measures.
        qrels: `Qrels`, which are not checked again, or any form that ir_measures accepts.
    """

    def __init__(self, measures: Iterable[Any], qrels: Any) -> None:
        if isinstance(qrels, Iterator):  # rows, which are read twice
            qrels = list(qrels)
        # ir_measures passes a set, whose order differs between processes
        own, self._others = split_by_provider(measures)
        own.sort(key=attrgetter("text"))
        self._others.sort(key=repr)
        self._evaluator = Evaluator([*own, *self._others], qrels)
        self._own = own
        if self._others:
            self._labels = _as_ir_measures(qrels)
            if not _is_plain(qrels, are_labels=True) and self._checked_labels() is not None:
                self._labels = labels_for_other_providers(self._others, self.qrels)
            self._by_others = other_providers().evaluator(self._others, self._labels)
        qids = set(self.qrels.qids) if own else self._by_others.qrel_qids
        super().__init__([*own, *self._others], qids)

    @property
    def qrels(self) -> Qrels:
        """The checked labels."""
        return self._evaluator.qrels

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """Yield the value of each measure and query of the labels."""
        checked, given = self._read(run)
        values = self._own_values(checked)
        means = [measure for measure in values if not measure.is_mean]
        emit(Remark(NOT_A_MEAN, format_measure(m), "", 0, 0, ()) for m in means)
        own = (self._metrics(m, m.per_query(value)) for m, value in values.items())
        others = self._by_others.iter_calc(given) if self._others else ()
        return chain(chain.from_iterable(own), others)

    def calc(self, run: Any) -> CalcResults:
        """Return the aggregate and the per-query values of each measure."""
        checked, given = self._read(run)
        aggregates, metrics = {}, []
        for measure, values in self._own_values(checked).items():
            aggregates[measure] = checked_aggregate(measure, values, self.qrels.qids.text)
            metrics += self._metrics(measure, values)
        if self._others:
            theirs = self._by_others.calc(given)
            aggregates.update(theirs.aggregated)
            metrics += theirs.per_query
        return CalcResults(aggregates, metrics)

    def calc_aggregate(self, run: Any) -> Any:
        """Return the aggregate of each measure."""
        return self.calc(run).aggregated

    def _metrics(self, measure: Any, values: FloatArray) -> list[Metric]:
        pairs = zip(self.qrels.qids, values.tolist(), strict=True)
        return [Metric(query_id=qid, measure=measure, value=value) for qid, value in pairs]

    def _own_values(self, run: Run | None) -> dict[FairMeasure, FloatArray]:
        """Return the values of fairtk's measures, and emit the remarks on them."""
        if run is None or not self._own:
            return {}
        scores, facts = self._evaluator.evaluate(run, self._own)
        # ir_measures averages undefined values
        emit(
            replace(remark, kind=AVERAGED) if remark.kind == UNDEFINED else remark
            for remark in remarks_on_run(scores, facts, self.qrels, self._others)
        )
        return {measure: of_measure.values for measure, of_measure in scores.items()}

    def _checked_labels(self) -> Qrels | None:
        """Return the checked labels; `None` as for `_checked_run`."""
        try:
            return self.qrels
        except InputError as error:
            if self._own or isinstance(error, ColumnError):
                raise
            return None

    def _checked_run(self, run: Any) -> Run | None:
        """Return the checked run; `None` if it breaks a rule that only fairtk's measures have.

        Other evaluators decide which ids, numbers and rows they accept, but several samples of a
        query are an error for each of them.
        """
        try:
            return self._evaluator.checked(run)
        except InputError as error:
            if self._own or isinstance(error, ColumnError) or _has_samples(run):
                raise
            return None

    def _read(self, run: Any) -> tuple[Run | None, Any]:
        """Return the checked run, and the run in the form for other evaluators.

        The first is `None` if only other evaluators need it, and its dicts are valid or they accept
        it unchanged (`_checked_run`).
        """
        if isinstance(run, Iterator):  # rows, which are read twice
            run = list(run)
        mapping = None if self._own else _plain_mapping(run)
        if mapping is None:
            checked = self._checked_run(run)
            if checked is None:
                return None, _as_ir_measures(run)
            if not self._own:  # otherwise there is a remark
                where = self._evaluator.where
                warn_of_unmatched(self.qrels, checked.qids, checked.by_parent().documents_of, where)
            if not self._others:
                return checked, None
            return checked, run_for_other_providers(self._others, checked.first_passages())
        if self._checked_labels() is None:
            return None, mapping
        if not isinstance(self._labels, Mapping) or not mostly_judged(self._labels, mapping):
            qids = [qid for qid, docs in mapping.items() if docs]
            queries = Ids(np.array(qids, dtype=object))
            where = self._evaluator.where
            warn_of_unmatched(self.qrels, queries, lambda i: mapping[qids[i]], where)
        return None, mapping


def _has_samples(run: Any) -> bool:
    """Return whether a run has a column of samples, or exact exposure instead of rankings."""
    return not {SAMPLE, EXPOSURE}.isdisjoint(as_frame(run, SCORE, "run").columns)


def _as_ir_measures(data: Any) -> Any:
    """Return a table with ir_measures' column names; other forms unchanged."""
    frame = frame_of(data)
    return frame.rename(columns=TO_IR_MEASURES) if isinstance(frame, pd.DataFrame) else frame


def _plain_mapping(run: Any) -> Mapping[str, Mapping[str, float]] | None:
    """Return a run as dicts; `None` unless it has valid dicts or rows."""
    mapping = run
    if isinstance(run, list) and {*map(type, run)} == {ir_measures.ScoredDoc}:
        mapping = {}
        for qid, docno, score in run:
            mapping.setdefault(qid, {})[docno] = score
        if sum(map(len, mapping.values())) < len(run):  # a document occurs twice
            return None
    return mapping if _is_plain(mapping) else None


def _is_plain(data: Any, are_labels: bool = False) -> bool:
    """Return whether data are valid dicts for any evaluator."""
    if not isinstance(data, Mapping):
        return False
    try:
        values = [*chain.from_iterable(docs.values() for docs in data.values())]
        in_order = are_ids([*data, *chain.from_iterable(data.values())])
        in_order &= math.isfinite(sum(values))
    except (AttributeError, OverflowError, TypeError):
        return False
    if are_labels:
        in_order &= {*map(type, values)} <= {int} and all(-LIMIT < v < LIMIT for v in values)
    return in_order


def publish(name: str, measure: Any) -> None:
    """Register a measure with ir_measures under its name; `None` unregisters it."""
    names = ir_measures.measures.registry
    if measure is None:
        if isinstance(names.get(name), FairMeasure):
            del names[name]
        return
    if name in names and not isinstance(names[name], FairMeasure):
        raise PluginError(f"duplicate measure {name!r}: ir_measures has it already; rename it")
    names[name] = measure


def connect() -> None:
    """Put `FairProvider` before the providers of ir_measures, once."""
    for name, cost in COSTS.items():  # they need no page and no plugin
        publish(name, cost)
    pipeline = ir_measures.DefaultPipeline.providers
    if not any(isinstance(p, FairProvider) for p in pipeline):
        pipeline.insert(0, FairProvider())
