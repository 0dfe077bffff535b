"""The way into ir_measures: a provider for all measures of fairtk, and their names.

ir_measures' own provider for such measures sorts every run by its string ids and calls each
measure alone. This one encodes labels and run once for all measures of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import Metric, providers

from fairtk.errors import PluginError
from fairtk.frames import DOCNO, LABEL, SCORE, TO_IR_MEASURES, Qrels
from fairtk.measures.awrf import AWRF, nDCG_AWRF, nDCG_TREC
from fairtk.measures.base import FairMeasure
from fairtk.measures.composed import ByGroup, E, Expectation, Product
from fairtk.measures.ee import EE_D, EE_L, EE_R
from fairtk.measures.eu import EU
from fairtk.measures.foreign import SafeTrecEval, SampleProvider, as_frame
from fairtk.measures.judged import Evidence


class FairProvider(providers.Provider):  # type: ignore[misc]
    """Computes every `FairMeasure`."""

    NAME = "fairtk"

    def __init__(self, warns: bool = True) -> None:
        super().__init__()
        self._warns = warns

    @property
    def for_parts(self) -> FairProvider:
        """The provider for measures that others are made of: what those said is not said again."""
        return FairProvider(warns=False)

    def supports(self, measure: Any) -> bool:
        """Return whether the measure is one of fairtk's or of its plugins'."""
        return isinstance(measure, FairMeasure)

    def run_inputs(self, measures: Iterable[FairMeasure]) -> list[str]:
        """Return the columns of the run that the measures read, in ir_measures' names.

        Whoever asks is about to compare systems, as ``pt.Experiment`` does: it asks once, and then
        makes an evaluator for each system. So the measures begin to compare anew.
        """
        measures = list(measures)
        for measure in measures:
            measure.sizes = {}
        return _inputs(measures, "RUN_COLUMNS", ir_measures.run_inputs)

    def qrel_inputs(self, measures: Iterable[FairMeasure]) -> list[str]:
        """Return the columns of the qrels that the measures read, in ir_measures' names."""
        return _inputs(measures, "QREL_COLUMNS", ir_measures.qrel_inputs)

    def _evaluator(self, measures: Iterable[FairMeasure], qrels: Any) -> FairEvaluator:
        # ir_measures hands over a set, whose order would differ from process to process
        return FairEvaluator(sorted(measures, key=attrgetter("text")), qrels, self._warns)


class FairEvaluator(providers.Evaluator):  # type: ignore[misc]
    """Measures any number of runs against labels that are encoded once."""

    def __init__(self, measures: list[FairMeasure], qrels: Any, warns: bool = True) -> None:
        self.where = ", ".join(measure.text for measure in measures)
        needs = list(dict.fromkeys(name for m in measures for name in m.QREL_COLUMNS))
        if not isinstance(qrels, pd.DataFrame):
            qrels = as_frame(qrels, LABEL, f"{self.where} (qrels)")
        self.qrels = Qrels(qrels, self.where, needs, either=True)
        self._warns = warns
        self._reads_documents = DOCNO in needs
        self._expectations = [m for m in measures if isinstance(m, Expectation)]
        super().__init__(measures, set(self.qrels.qids))

    def values(self, run: Any) -> Iterator[tuple[FairMeasure, np.ndarray[Any, Any]]]:
        """Yield each measure with its value for each query, in the order of ``qrels.qids``."""
        if not isinstance(run, pd.DataFrame):
            run = as_frame(run, SCORE, f"{self.where} (run)")
        evidence = Evidence(self.qrels, run, self.where, self._warns)
        evidence.cache["expectations"] = self._expectations
        for measure in self.measures:
            yield measure, measure.scored(evidence)
        if self._warns and self._reads_documents and "pairs" not in evidence.__dict__:
            # who made pairs has said it
            evidence.warn_of_other_docnos()

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """Yield the value of each measure and query; every query of the labels has one."""
        for measure, values in self.values(run):
            listed = measure.wrapped(values, self.qrels.qids)
            for qid, value in zip(self.qrels.qids, listed, strict=True):
                yield Metric(query_id=qid, measure=measure, value=value)

    def calc_aggregate(self, run: Any) -> dict[FairMeasure, float]:
        """Return the aggregate of each measure."""
        result = {}
        for measure, values in self.values(run):
            aggregator = measure.aggregator()
            for value in measure.wrapped(values, self.qrels.qids):
                aggregator.add(value)
            result[measure] = aggregator.result()
        return result


def _inputs(measures: Iterable[FairMeasure], attribute: str, of_others: Any) -> list[str]:
    columns: dict[str, None] = {}
    for measure in measures:
        if measure.parts:
            columns.update(dict.fromkeys(of_others(measure.parts)))
        for name in getattr(measure, attribute):
            columns[TO_IR_MEASURES.get(name, name)] = None
    return list(columns)


def publish(name: str, measure: Any) -> None:
    """Make a measure known to ir_measures under its name; None takes it back."""
    known = ir_measures.measures.registry
    if measure is None:
        if isinstance(known.get(name), FairMeasure):
            del known[name]
        return
    if name in known and not isinstance(known[name], FairMeasure):
        raise PluginError(f"the measure {name!r} exists in ir_measures already; rename it")
    known[name] = measure


def connect() -> None:
    """Put the providers in front of those of ir_measures; a second call does nothing."""
    pipeline = ir_measures.DefaultPipeline.providers
    if not any(isinstance(p, FairProvider) for p in pipeline):
        pipeline.insert(pipeline.index(ir_measures.pytrec_eval), SafeTrecEval())
        pipeline[:0] = [FairProvider(), SampleProvider()]


MEASURES = (AWRF, ByGroup, E, EE_D, EE_L, EE_R, EU, Product, nDCG_AWRF, nDCG_TREC)
"""The built-in measures."""
