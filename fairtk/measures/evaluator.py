"""`Evaluator`: measures and checked labels, for any number of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from fairtk.frames import (
    CREDIT,
    DOCNO,
    EXPOSURE,
    QANSWER,
    SCORE,
    Qrels,
    Run,
    require_columns,
)
from fairtk.measures.evaluation import evaluate
from fairtk.measures.facts import RunFacts, deepest_cutoff, have_two_orders
from fairtk.measures.foreign import (
    qrel_columns,
    refuse_samples,
    run_columns,
    split_by_provider,
)
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.parsing import check_names
from fairtk.measures.scores import Scores


class Evaluator:
    """Evaluates runs with qrels that are checked and encoded once.

    Args:
        measures: any measures of fairtk, its plugins and ir_measures.
        qrels: `Qrels`, which are not checked again, or any form that ir_measures accepts.

    Attributes:
        measures: the measures.
        where: the measures as text, for messages.
    """

    def __init__(self, measures: Sequence[Any], qrels: Any) -> None:
        check_names(measures)
        self.measures = list(measures)
        own, self._others = split_by_provider(measures)
        self.where = ", ".join([*(m.text for m in own), *sorted(map(repr, self._others))])
        # measures of ``ir_measures.define`` may get fewer columns than they declare
        strict = [m for m in self._others if not hasattr(m, "runtime_impl")]
        self._needs = run_columns(strict)
        names = [*chain(*(m.QREL_COLUMNS for m in own)), *qrel_columns(strict)]
        self._given, self._label_columns = qrels, dict.fromkeys(names)
        self._reads_documents = DOCNO in names or bool(self._others)
        self._reads_answers = not {QANSWER, CREDIT}.isdisjoint(run_columns(measures))
        self._deepest = deepest_cutoff(measures)
        self._has_two_orders = have_two_orders(self.measures)

    @cached_property
    def qrels(self) -> Qrels:
        """The checked labels."""
        where = f"{self.where} (qrels)"
        if isinstance(self._given, Qrels):
            require_columns(self._given.frame, self._label_columns, where)
            return self._given
        return Qrels(self._given, self.where, self._label_columns, either=True)

    def checked(self, run: Any) -> Run:
        """Return a checked run from any form.

        Raises:
            InputError: the run is sampled, and a measure requires one ranking per query.
        """
        where = f"{self.where} (run)"
        checked = run if isinstance(run, Run) else Run(run, where, either=True)
        if self._needs:
            require_columns(checked.frame, self._needs, where)
        if SCORE in self._needs:
            checked.scores  # noqa: B018 - checks them
        reads_documents = self._reads_documents and DOCNO in checked.frame.columns
        if reads_documents and DOCNO in self.qrels.frame.columns:
            checked.indices_in(self.qrels.docnos)  # fast if most documents are labeled
        refuse_samples(self._others, checked)
        return checked

    def evaluate(
        self, run: Run, measures: Iterable[Any] | None = None
    ) -> tuple[dict[Any, Scores], RunFacts]:
        """Return the scores of measures, by default of all, and the facts about a checked run."""
        columns = {*run.frame.columns}
        if self._reads_documents and {DOCNO, SCORE} <= columns and EXPOSURE not in columns:
            run.order  # noqa: B018 - sorts, so that duplicates raise before a measure is computed
        judged = LabeledRun(self.qrels, run, self.where)
        scores = evaluate(self.measures if measures is None else measures, judged)
        reads = self._reads_documents, self._reads_answers, self._has_two_orders
        return scores, RunFacts.of(judged, self._deepest, *reads)
