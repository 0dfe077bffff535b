"""Samples are never misread: the rule, and the provider through which every call goes.

A measure that knows no samples would take the rankings of a query for one, or the last of them for
all. ir_measures asks the providers of its default pipeline in order, and `SampleProvider` stands
before all but fairtk's own: it hands everything on to the others, and refuses such a measure when a
run has several rankings of a query. So it sees what ``ir_measures.calc``, its evaluators,
``pt.Evaluate``, ``pt.Experiment`` and fairtk's own measures made of others ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import ir_measures
import pandas as pd
from ir_measures import Metric, providers
from ir_measures.providers import FallbackProvider

from fairtk.errors import InputError
from fairtk.frames.columns import DOC_ID, QUERY_ID, RANK, SAMPLE, TO_IR_MEASURES
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import LOST_SAMPLES
from fairtk.frames.runs import is_sampled
from fairtk.measures.base import FairMeasure


def knows_samples(measure: Any) -> bool:
    """Return whether a measure can be given several rankings of a query.

    Args:
        measure: any measure; one that was made by ``ir_measures.define`` knows samples if it asks
            for the column ``sample``.
    """
    return isinstance(measure, FairMeasure) or SAMPLE in getattr(measure, "RUN_INPUTS", ())


def refuse_samples(measures: Sequence[Any], run: Any, where: str = "") -> None:
    """Raise if a run has several rankings of a query and a measure does not know samples.

    Several means: two values of ``sample`` or, without that column, a document or a rank twice.

    Args:
        measures: the measures.
        run: a frame in ir_measures' or PyTerrier's names, a list of named tuples, or a mapping of
            mappings, which holds one ranking per query.
        where: the file that the run comes from, for the message.

    Raises:
        InputError: names the measure and says ``E(...)``.
    """
    plain = sorted(repr(m) for m in measures if not knows_samples(m))
    if not plain or isinstance(run, dict):
        return
    framed = isinstance(run, pd.DataFrame)
    if not (is_sampled(run, f"{where or plain[0]} (run)") if framed else _rows_are_sampled(run)):
        return
    columns = run.columns if framed else run[0]._fields
    found = f"has several rankings of a query (the column {SAMPLE!r})"
    remedy = f"write E({plain[0]}) for the mean over samples"
    if SAMPLE not in columns:
        found = f"has a document or a rank of a query twice, and no column {SAMPLE!r}"
        remedy = f"if it is sampled, {remedy} and {LOST_SAMPLES}"
    raise InputError(
        f"{where}{': ' if where else ''}{plain[0]} reads one ranking per query, but the run "
        f"{found}; {remedy}"
    )


def _rows_are_sampled(rows: Sequence[Any]) -> bool:
    """Return what `is_sampled` says of frames, for named tuples in ir_measures' names."""
    fields = rows[0]._fields if rows else ()
    if SAMPLE in fields:
        first: dict[Any, Any] = {}
        return any(first.setdefault(r.query_id, r.sample) != r.sample for r in rows)
    return any(_repeats(rows, name) for name in (DOC_ID, RANK) if name in fields)


def _repeats(rows: Sequence[Any], name: str) -> bool:
    seen: dict[Any, set[Any]] = {}
    # rows of a query mostly stand together, which makes this ten times cheaper than one by one
    for qid, own in groupby(rows, lambda row: row.query_id):
        values = [getattr(row, name) for row in own]
        known = seen.setdefault(qid, set())
        before = len(known)
        known.update(values)
        if len(known) < before + len(values):
            return True
    return False


class SampleProvider(providers.Provider):  # type: ignore[misc]
    """Hands all measures on to the other providers of ir_measures' default pipeline."""

    NAME = "fairtk_samples"

    def supports(self, measure: Any) -> bool:
        """Return whether another provider computes the measure."""
        return bool(self._others.supports(measure))

    def run_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the columns of the run that the measures read, in ir_measures' names."""
        return self._others.run_inputs(measures)  # type: ignore[no-any-return]

    def qrel_inputs(self, measures: Iterable[Any]) -> list[str]:
        """Return the columns of the qrels that the measures read, in ir_measures' names."""
        return self._others.qrel_inputs(measures)  # type: ignore[no-any-return]

    @property
    def _others(self) -> Any:
        pipeline = ir_measures.DefaultPipeline.providers
        return FallbackProvider([p for p in pipeline if p is not self])

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        wanted = list(measures)
        plain = [m for m in wanted if not knows_samples(m)]
        if not plain:
            return self._others.evaluator(wanted, qrels)
        if isinstance(qrels, pd.DataFrame):  # the rules for ids, labels and duplicates
            where = ", ".join(sorted(map(repr, plain)))
            Qrels(qrels, where, either=True)
        return SampleEvaluator(self._others.evaluator(wanted, _theirs(qrels)), plain)


class SampleEvaluator(providers.Evaluator):  # type: ignore[misc]
    """Hands runs on to another evaluator, unless they are sampled.

    Args:
        inner: the evaluator.
        plain: its measures that know no samples.
    """

    def __init__(self, inner: Any, plain: list[Any]) -> None:
        super().__init__(inner.measures, inner.qrel_qids)
        self.inner = inner
        self.plain = plain

    def iter_calc(self, run: Any) -> Iterator[Metric]:
        """Return the value of each measure and query."""
        return self.inner.iter_calc(self._checked(run))  # type: ignore[no-any-return]

    def calc_aggregate(self, run: Any) -> dict[Any, float]:
        """Return the aggregate of each measure."""
        return self.inner.calc_aggregate(self._checked(run))  # type: ignore[no-any-return]

    def calc(self, run: Any) -> Any:
        """Return both."""
        return self.inner.calc(self._checked(run))

    def _checked(self, run: Any) -> Any:
        run = _theirs(run)
        if not isinstance(run, dict | pd.DataFrame) and hasattr(run, "__iter__"):
            run = list(run)  # it may be read but once
            if run and not hasattr(run[0], "_fields"):
                return run  # no form that is known: ir_measures says so
        refuse_samples(self.plain, run)
        return run


def _theirs(frame: Any) -> Any:
    """Return a frame with PyTerrier's names in ir_measures'; anything else as it is."""
    if isinstance(frame, pd.DataFrame) and QUERY_ID not in frame.columns:
        return frame.rename(columns=TO_IR_MEASURES)
    return frame
