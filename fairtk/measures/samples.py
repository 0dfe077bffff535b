"""The door of other evaluators' measures: ids, labels and samples are never misread.

A measure that knows no samples would take the rankings of a query for one, or the last of them for
all; ids that are numbers match nothing, and what is not text stops evaluators that are written in
C. ir_measures asks the providers of its default pipeline in order, and `SampleProvider` stands
first: it checks labels and runs by the rules of `fairtk.frames`, refuses samples, and hands
everything on to the others. So it sees what ``ir_measures.calc``, its evaluators, ``pt.Evaluate``
and ``pt.Experiment`` ask for; fairtk's own measures made of others ask `refuse_samples` themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import Metric, providers
from ir_measures.providers import FallbackProvider

from fairtk.errors import InputError
from fairtk.frames.columns import (
    DOCNO,
    EXPOSURE,
    LABEL,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
    ours,
    require,
)
from fairtk.frames.given import as_frame, is_plain
from fairtk.frames.ids import Ids
from fairtk.frames.matching import warn_of_other_docnos, warn_of_other_qids
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import LOST_SAMPLES
from fairtk.frames.runs import Run
from fairtk.measures.base import FairMeasure
from fairtk.measures.exact_exposure import ExactExposure
from fairtk.measures.trec_eval import whole_labels


def knows_samples(measure: Any) -> bool:
    """Return whether a measure can be given several rankings of a query.

    One that was made by ``ir_measures.define`` can if it asks for the column ``sample``.
    """
    return isinstance(measure, FairMeasure) or SAMPLE in getattr(measure, "RUN_INPUTS", ())


def refuse_samples(measures: Sequence[Any], run: Run, where: str = "") -> None:
    """Raise if a run has several rankings of a query and a measure does not know samples.

    Several means: two values of ``sample`` or, without that column, a document or a rank twice.
    """
    plain = sorted(repr(m) for m in measures if not knows_samples(m))
    if not plain:
        return
    if EXPOSURE in run.frame.columns:
        ExactExposure.of(run.frame, where).refuse(plain[0])
    if not run.is_sampled:
        return
    found = f"has several rankings of a query (the column {SAMPLE!r})"
    remedy = f"write E({plain[0]}) for the mean over samples"
    if SAMPLE not in run.frame.columns:
        found = f"has a document or a rank of a query twice, and no column {SAMPLE!r}"
        remedy = f"if it is sampled, {remedy} and {LOST_SAMPLES}"
    raise InputError(
        f"{where}{': ' if where else ''}{plain[0]} reads one ranking per query, but the run "
        f"{found}; {remedy}"
    )


class SampleProvider(FallbackProvider):  # type: ignore[misc]
    """Hands all measures on to the other providers of ir_measures' default pipeline."""

    NAME = "fairtk_samples"
    for_parts = None  # a measure that is made of others has checked what it was given

    def __init__(self) -> None:
        providers.Provider.__init__(self)

    @property
    def providers(self) -> list[Any]:
        """The other providers, as they are now."""
        return [p for p in ir_measures.DefaultPipeline.providers if p is not self]

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        wanted = list(measures)
        others = [m for m in wanted if not isinstance(m, FairMeasure)]
        if not others:
            return super()._evaluator(wanted, qrels)
        # those that are defined at run time may be given less than they declare
        strict = [m for m in others if not hasattr(m, "runtime_impl")]
        needs = ours(self.qrel_inputs(strict)) if strict else []
        where = ", ".join(sorted(map(repr, others)))
        qrels = _listed(qrels)
        checked = Qrels(as_frame(qrels, LABEL, f"{where} (qrels)"), where, needs)
        inner = super()._evaluator(wanted, _handed(qrels, checked, wanted))
        needs = ours(self.run_inputs(strict)) if strict else []
        return SampleEvaluator(inner, others, checked, needs)


class SampleEvaluator(providers.Evaluator):  # type: ignore[misc]
    """Hands runs on to another evaluator, checked."""

    def __init__(self, inner: Any, others: list[Any], qrels: Qrels, needs: list[str]) -> None:
        super().__init__(inner.measures, inner.qrel_qids)
        self.inner = inner
        self.others = others
        self.qrels = qrels
        self.needs = needs

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """Return the value of each measure and query."""
        return self.inner.iter_calc(self._checked(run))  # type: ignore[no-any-return]

    def _checked(self, run: Any) -> Any:
        """Return the run in a form that all evaluators take, its ids as text."""
        run = _listed(run)
        where = self.qrels.where
        if isinstance(run, Mapping) and is_plain(run):
            qids = [qid for qid, docs in run.items() if docs]
            self._warn(Ids(np.array(qids, dtype=object)), lambda i: run[qids[i]])
            return run
        frame = as_frame(run, SCORE, f"{where} (run)")
        known = Run(frame, f"{where} (run)")
        require(frame, self.needs, known.where)
        if SCORE in self.needs:
            known.scores  # noqa: B018 - checked when it is read
        refuse_samples(self.others, known)
        self._warn(known.queries, known.documents_of if DOCNO in frame.columns else None)
        return known.with_text_ids().rename(columns=TO_IR_MEASURES)

    def _warn(self, queries: Ids, documents: Any) -> None:
        warn_of_other_qids(self.qrels, queries, self.qrels.where)
        if documents is not None:
            warn_of_other_docnos(self.qrels, queries, documents, self.qrels.where)


def _listed(data: Any) -> Any:
    """Return rows as a list, since they may be read but once; anything else as it is."""
    if isinstance(data, Mapping | pd.DataFrame | str | bytes) or not isinstance(data, Iterable):
        return data
    return list(data)


def _handed(qrels: Any, checked: Qrels, measures: list[Any]) -> Any:
    """Return checked labels in a form that all evaluators take, their ids as text."""
    if isinstance(qrels, Mapping) and is_plain(qrels):
        return qrels  # with its queries that have no labels
    if all(map(ir_measures.pytrec_eval.supports, measures)):
        # the form that it works on, which ir_measures would make row by row
        return checked.by_query(whole_labels(measures, checked.labels, checked.where))
    return checked.with_text_ids().rename(columns=TO_IR_MEASURES)
