"""What evaluators of other measures are given: labels, and runs as they are or sample by sample.

They know nothing of samples, ids that are numbers, or columns of any type but their own. A run
without samples is handed over as it is, so that each evaluator breaks ties in its own way and the
values are those of a direct call. Of a sampled run they see one ranking per query at a time, with
positive falling scores that repeat its ranks: some of them take a score of 0 for "not retrieved".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ir_measures
import numpy as np
from ir_measures.providers import FallbackProvider

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import (
    DOC_ID,
    DOCNO,
    QUERY_ID,
    RANK,
    RELEVANCE,
    SAMPLE,
    SCORE,
    TO_IR_MEASURES,
    ours,
    require,
)
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence
from fairtk.measures.samples import refuse_samples
from fairtk.measures.trec_eval import whole_labels


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
