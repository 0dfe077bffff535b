"""Evaluate measures: the values of all queries, and what a reader of them must know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import MeasureError
from fairtk.frames import (
    CREDIT,
    DOCNO,
    QANSWER,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    Run,
)
from fairtk.frames.ids import coded_again
from fairtk.measures.base import FairMeasure, check_kind, named_failures, where_of
from fairtk.measures.foreign import (
    refuse_samples,
    require_measure_columns,
    run_columns,
    split_by_provider,
    values_of_others,
)
from fairtk.measures.labeled_run import UNREAD_PROMPT, LabeledRun, has_unread_prompt
from fairtk.measures.scores import Scores
from fairtk.wording import format_list


def evaluate(measures: Iterable[Any], judged: LabeledRun) -> dict[Any, Scores]:
    """Return the scores of each measure, without warnings.

    Each distinct part of composite measures is computed once, and so is what measures of a family
    share. For measures of other providers, the run must not be sampled.

    Args:
        measures: measures of fairtk, plugins and ir_measures.
        judged: a run with its labels, e.g. ``LabeledRun.of(qrels, run, "my run")``.

    Raises:
        ColumnError: a required column is missing.
        InputError: a measure requires one ranking per query, and the run is sampled.
        MeasureError: a measure returns something else than a value per query.
        ParameterError: a required parameter is not set.
    """
    listed = list(dict.fromkeys(measures))
    own, others = split_by_provider(listed)
    for measure in own:
        if judged.exact is not None and not measure.supports_exact_exposure:
            judged.exact.refuse(measure)
        measure.validate_params()
    composite = {measure: measure.parts for measure in own if measure.is_composite}
    scores: dict[Any, Scores] = {}
    if composite:
        scores = evaluate([part for parts in composite.values() for part in parts], judged)
    families: dict[Any, list[FairMeasure]] = {}
    for measure in own:
        if measure not in composite and measure not in scores:
            families.setdefault(_family(measure), []).append(measure)
    for family in families.values():
        results = type(family[0]).score_together(family, judged)
        scores |= {
            m: _without_cut_prompts(m, checked_scores(m, results.get(m), judged), judged)
            for m in family
        }
    for measure, parts in composite.items():
        with named_failures(measure):
            result = measure.combine([scores[part] for part in parts], judged)
        scores[measure] = checked_scores(measure, result, judged)
    missing = [measure for measure in others if measure not in scores]
    if missing:
        require_measure_columns(missing, judged)
        refuse_samples(missing, judged.run)
        if DOCNO in judged.run.frame.columns:
            judged.run.checked()  # the same checks as for a sampled run
        run = judged.first_passages.run
        scores |= {m: Scores(v) for m, v in values_of_others(missing, judged, run).items()}
    return {measure: scores[measure] for measure in listed}


def _without_cut_prompts(measure: Any, scores: Scores, judged: LabeledRun) -> Scores:
    """Return scores with NaN for queries with a cut prompt, if they read answers or credit."""
    mask = judged.derived(has_unread_prompt)
    if not mask.any() or {QANSWER, CREDIT}.isdisjoint(run_columns([measure])):
        return scores
    reasons = [(UNREAD_PROMPT, mask), *scores.undefined.items()]
    return Scores.of(scores.values, reasons, scores.counts)


def _family(measure: FairMeasure) -> type:
    """Return the class that defines how a measure is computed with others."""
    return next(cls for cls in type(measure).__mro__ if "score_together" in vars(cls))


def checked_scores(measure: FairMeasure, result: Any, judged: LabeledRun) -> Scores:
    """Return the scores of a measure that returned an array or `Scores`, checked.

    Raises:
        MeasureError: an array has another shape, type or order, a value is infinite, a query with a
            value has a reason for none, or a kind of remark is unknown.
    """
    scores = result if isinstance(result, Scores) else Scores(result)
    values = _checked_array(measure, scores.values, judged, "values")
    if values.dtype.kind not in "fiub" or np.isinf(values).any():
        values = np.array(
            [measure.checked_value(v, q) for v, q in zip(values.tolist(), judged.qids, strict=True)]
        )
    values = values.astype(np.float64, copy=False)
    masks: dict[str, BoolArray] = {}
    explained = np.zeros(len(values), dtype=bool)
    for reason, given in scores.undefined.items():
        mask = _checked_array(measure, given, judged, f"the mask of {reason!r}", "b")
        defined = mask & ~np.isnan(values)
        if defined.any():
            first = int(np.flatnonzero(defined)[0])
            raise MeasureError(
                f"{where_of(measure, judged.qids[first])} has the value {values[first]}, although "
                f"it is undefined for the reason {reason!r}; use Scores.of, which sets NaN"
            )
        masks[reason] = mask
        explained |= mask
    rest = np.isnan(values) & ~explained
    if rest.any():
        masks[NO_VALUE] = rest & judged.present
        masks[NO_WORST] = rest & ~judged.present
    counts: dict[str, IntArray] = {}
    for kind, count in scores.counts.items():
        check_kind(measure, kind)
        number = _checked_array(measure, count, judged, f"the counts of {kind!r}", "biu")
        counts[kind] = number.astype(np.int64)
        if (counts[kind] < 0).any():
            raise MeasureError(
                f"{where_of(measure)} must return counts of at least 0 for {kind!r}, got "
                f"{counts[kind].min()}"
            )
    return Scores(values, masks, counts)


_TYPES = {"b": "a mask (bool)", "biu": "integers"}


def _checked_array(
    measure: FairMeasure, given: Any, judged: LabeledRun, name: str, kinds: str = ""
) -> np.ndarray[Any, Any]:
    """Return one number per query, in the order of the labels' queries; see `checked_scores`."""
    try:
        array = np.asarray(given)
    except ValueError as error:  # lists of several lengths
        raise MeasureError(f"{where_of(measure)}: {name} are not an array ({error})") from error
    if array.shape != judged.qids.shape:
        raise MeasureError(
            f"{where_of(measure)} must return one value per query ({len(judged.qids)}), got {name} "
            f"of shape {array.shape}"
        )
    index = given.index if isinstance(given, pd.Series) else pd.RangeIndex(0)
    if not isinstance(index, pd.RangeIndex) and list(index) != judged.qids.tolist():
        raise MeasureError(
            f"{where_of(measure)} must return the queries in the order of judged.qids, got {name} "
            f"with the index {format_list(index)}"
        )
    if kinds and array.dtype.kind not in kinds:
        raise MeasureError(
            f"{where_of(measure)}: {name} must be {_TYPES[kinds]}, got the type {array.dtype}"
        )
    return array


def checked_aggregate(measure: FairMeasure, values: FloatArray, qids: ObjectArray) -> float:
    """Return the aggregate of the values of queries, checked.

    Raises:
        MeasureError: it is neither a finite number nor NaN.
    """
    with named_failures(measure):
        result = measure.aggregate(values, qids)
    if not isinstance(result, Real) or math.isinf(result):
        raise MeasureError(
            f"{where_of(measure)}: aggregate must return a finite number or NaN, got {result!r}"
        )
    return float(result)


NO_VALUE = "no value"
NO_WORST = "missing from the run, without a worst value"


def evaluate_rankings(
    measures: Sequence[Any], judged: LabeledRun
) -> tuple[dict[Any, FloatArray], dict[Any, list[Scores]]]:
    """Return the values of each ranking, shape (n_rankings,), and the scores of each sample."""
    require_measure_columns(measures, judged)
    own, others = split_by_provider(measures)
    run = judged.run
    values = {measure: np.full(run.n_rankings, np.nan) for measure in measures}
    samples: dict[Any, list[Scores]] = {measure: [] for measure in measures}
    # scores that follow the ranks
    score = np.float64(run.position.max(initial=0) + 1) - run.position
    ids = {QID: run.qids[run.query], DOCNO: run.docnos[run.doc]}
    frame = run.frame.drop(columns=SAMPLE, errors="ignore").iloc[run.order]
    frame = frame.assign(**ids, **{SCORE: score, RANK: run.position})
    coded = {name: (codes[run.order], of) for name, (codes, of) in run.coded_ids.items()}
    for sample, rows in frame.groupby(run.ranking_sample[run.ranking]).indices.items():
        rankings = run.ranking_sample == sample
        of_rows = {name: coded_again(codes[rows], of) for name, (codes, of) in coded.items()}
        part = Run(frame.iloc[rows], run.where, ids=of_rows, is_checked=True)
        alone = LabeledRun(judged.qrels, part, judged.where)
        table = evaluate(own, alone)
        if others:
            of_others = values_of_others(others, judged, alone.first_passages.run)
            table |= {measure: Scores(value) for measure, value in of_others.items()}
        for measure, scores in table.items():
            values[measure][rankings] = scores.values[judged.ranking_query[rankings]]
            samples[measure].append(scores)
    return values, samples
