"""Measures of others: what their evaluators are given, so that ids, labels and samples are never
misread.

pytrec_eval keeps an array as long as a query's largest label. It stops the process where that is
negative (a query whose labels all are), or beyond 2^62; it gives zeros at 2^53, and takes seconds
for a query at 100,000; what is no integer is a TypeError. `SafeTrecEval` stands before it in
ir_measures' default pipeline.

A frame, a mapping of mappings and a list of named tuples say the same, so they are read by the
same rules: `Qrels` and `Run` check what `as_frame` gives.

A measure that knows no samples would take the rankings of a query for one, or the last of them for
all; ids that are numbers match nothing, and what is not text stops evaluators that are written in
C. ir_measures asks the providers of its default pipeline in order, and `SampleProvider` stands
first: it checks labels and runs by the rules of `fairtk.frames`, refuses samples, and hands
everything on to the others. So it sees what ``ir_measures.calc``, its evaluators, ``pt.Evaluate``
and ``pt.Experiment`` ask for; fairtk's own measures made of others ask `refuse_samples` themselves.

They know nothing of samples, ids that are numbers, or columns of any type but their own. A run
without samples is handed over as it is, so that each evaluator breaks ties in its own way and the
values are those of a direct call. Of a sampled run they see one ranking per query at a time, with
positive falling scores that repeat its ranks: some of them take a score of 0 for "not retrieved".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import Metric, providers
from ir_measures.providers import FallbackProvider
from ir_measures.providers.pytrec_eval_provider import PytrecEvalProvider
from ir_measures.util import QrelsConverter

from fairtk.errors import ColumnError, InputError
from fairtk.frames import (
    DOC_ID,
    DOCNO,
    EXPOSURE,
    LABEL,
    LOST_SAMPLES,
    QID,
    QUERY_ID,
    RANK,
    RELEVANCE,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
    FloatArray,
    Ids,
    IntArray,
    Qrels,
    Run,
    from_ir_measures,
    ours,
    require,
    strange_character,
    warn_of_other_docnos,
    warn_of_other_qids,
)
from fairtk.measures.base import FairMeasure
from fairtk.measures.judged import Evidence, ExactExposure

LARGEST_LABEL = 100_000
"""The largest grade that nDCG takes; other measures ask only whether a label reaches ``rel``."""

_FAST = 1000  # labels up to here cost nothing

Labels = Mapping[str, Mapping[str, int]]


class SafeTrecEval(PytrecEvalProvider):  # type: ignore[misc]
    """pytrec_eval, with labels that have the same values and that it can hold."""

    NAME = "fairtk_trec_eval"

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        wanted = list(measures)
        labels = _whole(wanted, QrelsConverter(qrels).as_dict_of_dict())
        return super()._evaluator(wanted, safe_labels(wanted, labels))


def safe_labels(measures: Iterable[Any], labels: Labels) -> Labels:
    """Return labels that pytrec_eval can hold, for which the measures have the same values.

    Labels above `LARGEST_LABEL` are an `InputError` for nDCG.
    """
    top = {qid: max(docs.values()) for qid, docs in labels.items() if docs}
    odd = [qid for qid, label in top.items() if not 0 <= label <= _FAST]
    if not odd:
        return labels
    wanted = list(measures)
    graded = [m for m in wanted if m.NAME == "nDCG"]
    rels = [rel for m in wanted if isinstance(rel := m.params.get("rel", 1), int)]
    ceiling = LARGEST_LABEL if graded else max([_FAST, *rels])
    result = dict(labels)
    for qid in odd:
        if top[qid] > LARGEST_LABEL and graded:
            doc = next(d for d, label in labels[qid].items() if label == top[qid])
            raise InputError(
                f"{graded[0]!r} takes labels up to {LARGEST_LABEL:,}; found {top[qid]} for qid "
                f"{qid!r}, docno {doc!r}: number the grades 0, 1, 2, ..."
            )
        if top[qid] > ceiling:
            result[qid] = {doc: min(label, ceiling) for doc, label in labels[qid].items()}
        elif top[qid] < 0 and min(rels, default=1) > 0:
            result[qid] = dict.fromkeys(labels[qid], 0)  # as little relevant as before
    return result


def _whole(measures: Sequence[Any], labels: Labels) -> Labels:
    """Return labels as the integers that they are."""
    if set(map(type, chain.from_iterable(docs.values() for docs in labels.values()))) <= {int}:
        return labels
    values = np.array([v for docs in labels.values() for v in docs.values()], dtype=np.float64)
    whole = iter(whole_labels(measures, values, ", ".join(map(repr, measures))).tolist())
    return {qid: {doc: next(whole) for doc in docs} for qid, docs in labels.items()}


def whole_labels(measures: Sequence[Any], labels: FloatArray, where: str) -> IntArray:
    """Return labels as integers; one with a fraction is an `InputError`."""
    fractions = labels != np.floor(labels)
    if fractions.any():
        raise InputError(
            f"{where}: the labels have fractions ({labels[fractions][0]:g}), but "
            f"{measures[0]!r} needs whole numbers; only fairtk's own measures take any label"
        )
    return labels.astype(np.int64)


def as_frame(data: Any, value: str, where: str) -> pd.DataFrame:
    """Return qrels or a run as a frame; a frame's columns are renamed and no more.

    Args:
        data: a frame in either names, a mapping of queries to mappings of documents to values, or
            rows that are named tuples.
        value: the column of a mapping's values, ``label`` or ``score``.
        where: who asks, and what it is, for messages.

    Raises:
        ColumnError: it has none of these forms, or columns that `from_ir_measures` refuses.
    """
    if isinstance(data, pd.DataFrame):
        return from_ir_measures(data, where)
    rows = None
    if isinstance(data, Mapping):
        if all(isinstance(docs, Mapping) for docs in data.values()):
            return _of_mapping(data, value)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        rows = list(data)
        fields = getattr(rows[0], "_fields", None) if rows else (QID, DOCNO, value)
        if fields is not None and all(getattr(row, "_fields", None) == fields for row in rows):
            columns = {f: _column(list(map(attrgetter(f), rows))) for f in fields}
            return from_ir_measures(pd.DataFrame(columns), where)
    found = next(iter(rows)) if rows else data
    raise ColumnError(
        f"{where} must be a DataFrame, a mapping of queries to mappings of documents to values, or "
        f"named tuples with the same fields; found {found!r:.80} ({type(found).__name__})"
    )


def is_plain(mapping: Mapping[Any, Any]) -> bool:
    """Return whether a mapping of mappings needs no closer look: ids and values are in order.

    A look at all of it at once, which costs a fiftieth of what evaluators do with it.
    """
    try:
        ids = "".join(chain(mapping, chain.from_iterable(mapping.values())))
        total = sum(chain.from_iterable(docs.values() for docs in mapping.values()))
        return strange_character(ids) is None and math.isfinite(total)
    except (AttributeError, OverflowError, TypeError):
        return False


def _of_mapping(mapping: Mapping[Any, Mapping[Any, Any]], value: str) -> pd.DataFrame:
    qids = [qid for qid, docs in mapping.items() for _ in range(len(docs))]
    docnos = list(chain.from_iterable(mapping.values()))
    values = list(chain.from_iterable(docs.values() for docs in mapping.values()))
    columns = {QID: _column(qids), DOCNO: _column(docnos), value: _column(values)}
    return pd.DataFrame(columns)


def _column(values: list[Any]) -> pd.Series:
    """Return a column of numbers, or of objects as they are: pandas cannot hold all text."""
    numbers = values and set(map(type, values)) <= {int, float}
    return pd.Series(values, dtype=None if numbers else object)


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


def values_of(measures: Sequence[Any], evidence: Evidence) -> dict[Any, FloatArray]:
    """Return other evaluators' values for a run without samples, which they get as it is.

    For each measure the value of each query; shape (n_queries,), NaN where it gives none.
    """
    _require_columns(measures, evidence)
    refuse_samples(measures, evidence.run)
    found = {m: np.full(len(evidence.qids), np.nan) for m in measures}
    index = {qid: i for i, qid in enumerate(evidence.qids)}
    if DOCNO in evidence.frame.columns:
        evidence.rankings  # noqa: B018 - as strict as for a sampled run
    run = evidence.run.with_text_ids().rename(columns=TO_IR_MEASURES)
    for metric in evaluator_for(measures, evidence).iter_calc(run):
        found[metric.measure][index[metric.query_id]] = metric.value
    return found


def values_for(measure: Any, evidence: Evidence) -> FloatArray:
    """Return the value of each query, whoever computes the measure; shape (n_queries,)."""
    if isinstance(measure, FairMeasure):
        return measure.scored(evidence)
    return values_of([measure], evidence)[measure]


def means_over_samples(measures: Sequence[Any], evidence: Evidence) -> dict[Any, FloatArray]:
    """Return the means of other evaluators' values over the rankings of each query.

    A query that the run lacks has the value that the evaluator gives it; NaN where an evaluator
    gives no value for one of the rankings.
    """
    n_queries = len(evidence.qids)
    total = {m: np.zeros(n_queries) for m in measures}
    valued = {m: np.zeros(n_queries) for m in measures}
    absent = {m: np.full(n_queries, np.nan) for m in measures}
    for metric, at, there in _metrics(measures, evidence):
        if there:
            total[metric.measure][at] += metric.value
            valued[metric.measure][at] += 1
        else:
            absent[metric.measure][at] = metric.value
    count = np.zeros(n_queries)
    count[evidence.query_of_run] = evidence.rankings.n_samples
    with np.errstate(invalid="ignore"):
        return {
            m: np.where(
                count == 0, absent[m], np.where(valued[m] == count, total[m] / count, np.nan)
            )
            for m in measures
        }


def values_by_sample(measure: Any, evidence: Evidence) -> tuple[IntArray, FloatArray]:
    """Return the query and the value of each ranking of a sampled run, in any order."""
    every = _metrics([measure], evidence)
    found = [(at, float(metric.value)) for metric, at, there in every if there]
    query, value = zip(*found, strict=True) if found else ((), ())
    return np.array(query, dtype=np.int64), np.array(value, dtype=np.float64)


def _metrics(
    measures: Sequence[Any], evidence: Evidence
) -> Iterator[tuple[ir_measures.Metric, int, bool]]:
    """Yield the values of each sample with the index of their query, and whether the sample has it.

    One evaluator holds the labels for all samples; each call sees one ranking per query.
    """
    _require_columns(measures, evidence)
    evaluator = evaluator_for(measures, evidence)
    index = {qid: i for i, qid in enumerate(evidence.qids)}
    plain = set(ir_measures.run_inputs(measures)) <= {QUERY_ID, DOC_ID, SCORE}
    ours = any(isinstance(m, FairMeasure) for m in measures)
    for here, part in _frames(evidence) if ours or not plain else _dicts(evidence):
        for metric in evaluator.iter_calc(part):
            yield metric, index[metric.query_id], metric.query_id in here


def evaluator_for(measures: Sequence[Any], evidence: Evidence) -> Any:
    """Return the evaluator of the measures, made once for all runs: it copies the labels."""
    known, key = evidence.qrels.cache, ("evaluator", *measures)
    if key not in known:
        known[key] = _providers().evaluator(measures, qrels_for(measures, evidence))
    return known[key]


def _providers() -> Any:
    """Return ir_measures' providers for parts of a measure: the whole has been checked."""
    pipeline = ir_measures.DefaultPipeline.providers
    parts = [getattr(provider, "for_parts", provider) for provider in pipeline]
    return FallbackProvider([provider for provider in parts if provider is not None])


def _require_columns(measures: Sequence[Any], evidence: Evidence) -> None:
    """Raise unless run and labels have what the measures read; ir_measures names no measure."""
    of_run, of_qrels = ir_measures.run_inputs(measures), ir_measures.qrel_inputs(measures)
    require(evidence.frame, ours(of_run), f"{evidence.where} (run)")
    require(evidence.qrels.frame, ours(of_qrels), f"{evidence.where} (qrels)")


def qrels_for(measures: Sequence[Any], evidence: Evidence) -> Any:
    """Return the labels for ir_measures: ids as text, labels as whole numbers.

    For pytrec_eval a mapping of mappings, which ir_measures would make of a frame row by row: ten
    times slower. A frame otherwise.
    """
    qrels = evidence.qrels
    if not any(isinstance(m, FairMeasure) for m in measures) and all(
        map(ir_measures.pytrec_eval.supports, measures)
    ):
        return qrels.by_query(whole_labels(measures, qrels.labels, evidence.where))
    frame = qrels.with_text_ids().rename(columns=TO_IR_MEASURES)
    others = [m for m in measures if not isinstance(m, FairMeasure)]
    if RELEVANCE in frame.columns and others:
        labels = whole_labels(others, qrels.labels, evidence.where)
        frame = frame.assign(**{RELEVANCE: labels})
    return frame


def _frames(evidence: Evidence) -> Iterator[tuple[set[str], Any]]:
    """Yield the queries and the run, as a frame, of each sample."""
    ranked = evidence.rankings
    columns = evidence.frame.drop(columns=[SCORE, RANK, SAMPLE], errors="ignore")
    run = columns.iloc[ranked.order].rename(columns=TO_IR_MEASURES)
    run[QUERY_ID] = ranked.qids[ranked.query]
    run[DOC_ID] = ranked.docnos[ranked.doc]
    run[SCORE] = np.float64(ranked.position.max(initial=0) + 1) - ranked.position
    run[RANK] = ranked.position
    sample = ranked.ranking_sample[ranked.ranking]
    order = np.argsort(sample, kind="stable")
    start = np.flatnonzero(np.diff(sample[order])) + 1
    for rows in np.split(order, start):
        part = run.iloc[rows]
        yield set(part[QUERY_ID]), part


def _dicts(evidence: Evidence) -> Iterator[tuple[set[str], Any]]:
    """Yield the queries and the run of each sample as nested mappings.

    The form that most evaluators work on: much cheaper to make here than from a frame.
    """
    ranked = evidence.rankings
    docnos = ranked.docnos[ranked.doc].tolist()
    start = ranked.ranking_start.tolist()
    longest = int(ranked.position.max(initial=-1)) + 1
    scores = [float(longest - i) for i in range(longest)]
    qids = ranked.qids[ranked.ranking_query].tolist()
    samples: dict[int, dict[str, dict[str, float]]] = {}
    for ranking, sample in enumerate(ranked.ranking_sample.tolist()):
        docs = docnos[start[ranking] : start[ranking + 1]]
        run = dict(zip(docs, scores, strict=False))
        samples.setdefault(sample, {})[qids[ranking]] = run
    for part in samples.values():
        yield set(part), part
