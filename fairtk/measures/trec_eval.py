"""Labels that trec_eval cannot hold never reach it.

pytrec_eval keeps an array as long as a query's largest label. It stops the process where that is
negative (a query whose labels all are), or beyond 2^62; it gives zeros at 2^53, and takes seconds
for a query at 100,000; what is no integer is a TypeError. `SafeTrecEval` stands before it in
ir_measures' default pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from ir_measures.providers.pytrec_eval_provider import PytrecEvalProvider
from ir_measures.util import QrelsConverter

from fairtk.errors import InputError
from fairtk.frames.arrays import FloatArray, IntArray

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
