"""Measures of other providers of ir_measures: their inputs and their values.

Other providers do not support samples, numeric ids, or columns of other types; they get the result
of `run_for_other_providers`. An unsampled run keeps its scores and row order, so that each
evaluator breaks ties in its own way. For a sampled run in ``E(...)``, they get one ranking per
query at a time, with decreasing scores above 0, because some interpret a score of 0 as "not
retrieved".

pytrec_eval allocates an array as long as a query's largest label. It crashes if all labels of a
query are negative or one is above 2^62, returns zeros at 2^53, takes seconds per query at 100,000,
and raises a TypeError for a label that is not an integer. `SafeTrecEval` replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import ir_measures
import numpy as np
from ir_measures import Metric
from ir_measures.providers import FallbackProvider
from ir_measures.providers.pytrec_eval_provider import PytrecEvalProvider
from ir_measures.util import QrelsConverter

from fairtk.errors import InputError
from fairtk.frames import (
    DOCNO,
    EXPOSURE,
    LABEL,
    QID,
    SAMPLE,
    SCORE,
    FloatArray,
    IntArray,
    Qrels,
    Run,
    require_columns,
)
from fairtk.frames.columns import RELEVANCE, TO_IR_MEASURES, pyterrier_names, rows_by_code
from fairtk.frames.runs import LOST_SAMPLES
from fairtk.frames.schema import RowProblem, problem_text
from fairtk.measures.base import FairMeasure, iter_parts
from fairtk.measures.labeled_run import ExactExposure, LabeledRun

LARGEST_LABEL = 100_000
"""The largest label that is passed to pytrec_eval."""

Labels = Mapping[str, Mapping[str, int]]


class SafeTrecEval(PytrecEvalProvider):  # type: ignore[misc]
    """pytrec_eval with labels that it supports."""

    NAME = "fairtk_trec_eval"

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        # ir_measures passes a set, and counts NumRet by its first measure, which must not be
        # judged_only
        in_order = sorted(measures, key=lambda m: (bool(m.params.get("judged_only")), repr(m)))
        labels = safe_labels(in_order, QrelsConverter(qrels).as_dict_of_dict())
        return super()._evaluator(in_order, labels)


def safe_labels(measures: Sequence[Any], labels: Labels) -> Labels:
    """Return labels that pytrec_eval supports: zeros for a query whose labels are all negative.

    Other negative labels stay; trec_eval counts them as unjudged.

    Raises:
        InputError: a label is above `LARGEST_LABEL`.
    """
    result = dict(labels)
    for qid, docs in labels.items():
        top = max(docs.values(), default=0)
        if top > LARGEST_LABEL:
            docno = next(docno for docno, label in docs.items() if label == top)
            raise InputError(
                f"{measures[0]!r}: labels must be at most {LARGEST_LABEL:,}, got {top} for qid "
                f"{qid!r}, docno {docno!r}; number the grades 0, 1, 2, ..."
            )
        if top < 0:
            result[qid] = dict.fromkeys(docs, 0)
    return result


def integer_labels(measures: Sequence[Any], labels: FloatArray, where: str) -> IntArray:
    """Return labels as integers; raise an `InputError` for a fraction."""
    fractions = labels != np.floor(labels)
    if fractions.any():
        raise InputError(
            f"{where}: {measures[0]!r} requires integer labels, got {labels[fractions][0]:g}; "
            "convert fractions to gains, e.g. (10 * qrels['label']).round().astype(int), or with a "
            "threshold, e.g. (qrels['label'] >= 0.5).astype(int); fairtk's own measures accept them"
        )
    return labels.astype(np.int64)


def refuse_samples(measures: Sequence[Any], run: Run, where: str = "") -> None:
    """Raise an `InputError` if a run is sampled and a measure does not support samples.

    See `fairtk.frames.Run.is_sampled`.
    """
    others = split_by_provider(measures)[1]
    # measures of ``ir_measures.define`` support samples if they require the column
    plain = sorted(repr(m) for m in others if SAMPLE not in getattr(m, "RUN_INPUTS", ()))
    if not plain:
        return
    if EXPOSURE in run.frame.columns:
        ExactExposure.of(run).refuse(plain[0])
    if not run.is_sampled:
        return
    finding = f"several rankings of a query (column {SAMPLE!r})"
    remedy = f"write E({plain[0]}) for the mean over samples"
    if SAMPLE not in run.frame.columns:
        twice = RowProblem(run.repeated_rows(), "a duplicate document or rank")
        finding = f"{problem_text(twice, run.frame)}, and no column {SAMPLE!r}"
        remedy = f"for a sampled run, {remedy} and {LOST_SAMPLES}"
    raise InputError(
        f"{where}{': ' if where else ''}{plain[0]} requires one ranking per query, got {finding}; "
        f"{remedy}"
    )


def run_columns(measures: Iterable[Any]) -> list[str]:
    """Return the columns of the run that measures and their parts require."""
    own, others = split_by_provider(part for measure in measures for part in iter_parts(measure))
    names = [
        *pyterrier_names(_inputs("run_inputs", others)),
        *chain(*(m.run_columns for m in own)),
    ]
    return list(dict.fromkeys(names))


def qrel_columns(measures: Iterable[Any]) -> list[str]:
    """Return the columns of the qrels that measures and their parts require."""
    own, others = split_by_provider(part for measure in measures for part in iter_parts(measure))
    names = [
        *pyterrier_names(_inputs("qrel_inputs", others)),
        *chain(*(m.QREL_COLUMNS for m in own)),
    ]
    return list(dict.fromkeys(names))


def _inputs(kind: str, measures: Iterable[Any]) -> list[str]:
    """Return what other providers require (``run_inputs`` or ``qrel_inputs``).

    The method of `FallbackProvider` imports all installed providers, also those that no measure
    needs.
    """
    names: list[str] = []
    left = set(measures)
    for provider in other_providers().providers:
        supported = {measure for measure in left if provider.supports(measure)}
        if supported and provider.is_available():
            names += getattr(provider, kind)(supported)
            left -= supported
    return names


def split_by_provider(measures: Iterable[Any]) -> tuple[list[FairMeasure], list[Any]]:
    """Return fairtk's measures and all others."""
    listed = list(measures)
    own = [m for m in listed if isinstance(m, FairMeasure)]
    return own, [m for m in listed if not isinstance(m, FairMeasure)]


def run_for_other_providers(measures: Sequence[Any], run: Run) -> Any:
    """Return a checked run in the form for other evaluators, with ids as text.

    This is ``{qid: {docno: score}}``, which ir_measures would build row by row; or a frame, if a
    measure reads other columns or is defined by ``ir_measures.define``.
    """
    plain = {*run_columns(measures)} <= {QID, DOCNO, SCORE}
    if not plain or any(hasattr(measure, "runtime_impl") for measure in measures):
        return run.with_text_ids().rename(columns=TO_IR_MEASURES)
    order, start = rows_by_code(run.frame_query, len(run.qids))
    docnos, scores = run.docnos[run.frame_doc[order]].tolist(), run.scores[order].tolist()
    return {
        qid: dict(zip(docnos[a:b], scores[a:b], strict=True))
        for qid, a, b in zip(run.qids.tolist(), start[:-1], start[1:], strict=True)
    }


def labels_for_other_providers(measures: Sequence[Any], qrels: Qrels) -> Any:
    """Return checked labels in the form for other evaluators; see `run_for_other_providers`."""
    of_trec_eval = [m for m in measures if ir_measures.pytrec_eval.supports(m)]
    if len(of_trec_eval) == len(measures):
        return qrels.by_query(integer_labels(measures, qrels.labels, qrels.where))
    frame = qrels.with_text_ids().rename(columns=TO_IR_MEASURES)
    is_whole = bool((qrels.labels == np.floor(qrels.labels)).all())
    if RELEVANCE in frame.columns and (of_trec_eval or is_whole):
        integers = integer_labels(of_trec_eval, qrels.labels, qrels.where)
        frame = frame.assign(**{RELEVANCE: integers})
    return frame


def other_providers() -> FallbackProvider:
    """Return the providers of ir_measures but for fairtk's, with a safe one for pytrec_eval."""
    every = [p for p in ir_measures.DefaultPipeline.providers if p.NAME != PROVIDER]
    return FallbackProvider([_TREC_EVAL if p is ir_measures.pytrec_eval else p for p in every])


_TREC_EVAL = SafeTrecEval()
PROVIDER = "fairtk"
"""The name of fairtk's own provider."""


def by_query(
    metrics: Iterable[Metric], measures: Sequence[Any], qrels: Qrels
) -> dict[Any, FloatArray]:
    """Return values by measure, in the order of the labels' queries; NaN without a value."""
    place = {qid: i for i, qid in enumerate(qrels.qids)}
    table = {m: np.full(len(place), np.nan) for m in measures}
    for metric in metrics:
        table[metric.measure][place[metric.query_id]] = metric.value
    return table


def values_of_others(
    measures: Sequence[Any], judged: LabeledRun, run: Run
) -> dict[Any, FloatArray]:
    """Return the values of each measure by other evaluators; NaN without a value.

    Args:
        measures: measures that fairtk does not compute.
        judged: the labels.
        run: a run with one ranking per query.
    """
    evaluator = judged.qrels.derived(_evaluator, judged.where, *measures)
    metrics = evaluator.iter_calc(run_for_other_providers(measures, run))
    return by_query(metrics, measures, judged.qrels)


def _evaluator(qrels: Qrels, where: str, *measures: Any) -> Any:
    # made once for all runs, because evaluators copy the labels
    if LABEL in qrels.frame.columns:
        integer_labels(measures, qrels.labels, where)
    labels = labels_for_other_providers(measures, qrels)
    try:
        return other_providers().evaluator(measures, labels)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"ir_measures cannot compute these measures: {error}") from error


def require_measure_columns(measures: Sequence[Any], judged: LabeledRun) -> None:
    """Raise a `ColumnError` if a column of run or labels is missing, and name the measures."""
    require_columns(judged.run.frame, run_columns(measures), f"{judged.where} (run)")
    require_columns(judged.qrels.frame, qrel_columns(measures), f"{judged.where} (qrels)")
