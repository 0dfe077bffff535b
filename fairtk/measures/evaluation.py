"""Evaluate measures: the values of all queries, and what a reader of them must know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fairtk.errors import MeasureError
from fairtk.frames import DOCNO, QID, RANK, SAMPLE, SCORE, FloatArray, Run
from fairtk.frames.ids import coded_again
from fairtk.measures.base import FairMeasure, named_failures, where_of
from fairtk.measures.foreign import (
    refuse_samples,
    require_measure_columns,
    split_by_provider,
    values_of_others,
)
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.scores import Scores
from fairtk.remarks import KINDS


def evaluate(measures: Iterable[Any], judged: LabeledRun) -> dict[Any, Scores]:
    """Return the scores of each measure.

    Each distinct part of composite measures is computed once, and so is what measures of a family
    share. For measures of other providers, the run must not be sampled.
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
        scores |= {m: checked_scores(m, results[m], judged) for m in family}
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
        scores |= {m: Scores(v) for m, v in values_of_others(missing, judged, judged.run).items()}
    return {measure: scores[measure] for measure in listed}


def _family(measure: FairMeasure) -> type:
    """Return the class that defines how a measure is computed with others."""
    return next(cls for cls in type(measure).__mro__ if "score_together" in vars(cls))


def checked_scores(measure: FairMeasure, result: Any, judged: LabeledRun) -> Scores:
    """Return the scores of a measure that returned an array or `Scores`, checked.

    Raises:
        MeasureError: an array has another shape or type, a value is infinite, or a kind of remark
            is unknown.
    """
    scores = result if isinstance(result, Scores) else Scores(np.asarray(result))
    arrays = {
        "values": scores.values,
        **{f"the mask of {reason!r}": mask for reason, mask in scores.undefined.items()},
        **{f"the counts of {kind!r}": number for kind, number in scores.counts.items()},
    }
    for name, array in arrays.items():
        if np.shape(array) != judged.qids.shape:
            raise MeasureError(
                f"{where_of(measure)} must return one value per query ({len(judged.qids)}), got "
                f"{name} of shape {np.shape(array)}"
            )
    unknown = [kind for kind in scores.counts if kind not in KINDS]
    if unknown:
        raise MeasureError(
            f"{where_of(measure)} returned counts of an unknown kind of remark, {unknown[0]!r}; "
            "declare it in REMARKS"
        )
    values = scores.values
    if values.dtype.kind not in "fiub" or np.isinf(values).any():
        values = np.array(
            [measure.checked_value(v, q) for v, q in zip(values.tolist(), judged.qids, strict=True)]
        )
    values = values.astype(np.float64, copy=False)
    masks = {reason: np.asarray(mask, dtype=bool) for reason, mask in scores.undefined.items()}
    explained = np.logical_or.reduce([*masks.values(), np.zeros(len(values), dtype=bool)])
    rest = np.isnan(values) & ~explained
    if rest.any():
        masks[NO_VALUE] = rest & judged.present
        masks[NO_WORST] = rest & ~judged.present
    counts = {kind: np.asarray(n).astype(np.int64) for kind, n in scores.counts.items()}
    return Scores(values, masks, counts)


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
    coded = {QID: (run.query, run.qids), DOCNO: (run.doc, run.docnos)}
    for sample, rows in frame.groupby(run.ranking_sample[run.ranking]).indices.items():
        rankings = run.ranking_sample == sample
        of_rows = {name: coded_again(codes[rows], of) for name, (codes, of) in coded.items()}
        part = Run(frame.iloc[rows], run.where, ids=of_rows, is_checked=True)
        alone = LabeledRun(judged.qrels, part, judged.where)
        table = evaluate(own, alone)
        if others:
            of_others = values_of_others(others, judged, alone.run)
            table |= {measure: Scores(value) for measure, value in of_others.items()}
        for measure, scores in table.items():
            values[measure][rankings] = scores.values[judged.ranking_query[rankings]]
            samples[measure].append(scores)
    return values, samples
