"""The number n of documents of a query, which sizes the targets of what is not useful.

With ``n="judged+retrieved"`` two systems that retrieve different documents may be measured with
different n. That is right for a re-ranking of the same candidates and misleading otherwise, so a
difference between systems on the same labels is warned about.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from fairtk.errors import ColumnError, DataWarning, InputError, listed
from fairtk.frames.arrays import IntArray
from fairtk.frames.columns import QID
from fairtk.measures.evidence import Evidence

if TYPE_CHECKING:
    from fairtk.measures.base import FairMeasure


def remember(measure: FairMeasure, evidence: Evidence, n: IntArray) -> None:
    """Warn if another system was measured on the same labels with other n, in the same call.

    One call is one evaluator, or one ``pt.Experiment``, which makes an evaluator for each system
    after it has asked the measures for their inputs: from then on the measures themselves remember.
    Queries that a run lacks do not count.
    """
    seen = evidence.qrels.cache.setdefault("n", {}) if measure.sizes is None else measure.sizes
    key = evidence.qrels.fingerprint
    now = np.where(evidence.present, n, -1)
    before = seen.get(key)
    seen[key] = now
    if before is None:
        return
    differs = (before >= 0) & (now >= 0) & (before != now)
    if differs.any():
        at = int(np.flatnonzero(differs)[0])
        warnings.warn(
            f"{measure!r}: systems differ in the number n of judged or retrieved documents for "
            f"{int(differs.sum())} queries (qid {evidence.qids[at]!r}: {before[at]} and "
            f"{now[at]}), so their targets differ too; give n='judged', a number, or the name of "
            "a column of the qrels",
            DataWarning,
            stacklevel=2,
        )


def from_column(where: str, evidence: Evidence, column: str) -> IntArray:
    """Return n as a column of the qrels gives it; shape (n_queries,)."""
    frame = evidence.qrels.frame
    if column not in frame.columns:
        raise ColumnError(
            f"{where}: n must be 'judged+retrieved', 'judged', a number or a column of the "
            f"qrels; there is no column {column!r} among {list(frame.columns)}"
        )
    values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
    query = evidence.qrels.query
    n = np.full(len(evidence.qids), np.nan)
    n[query] = values
    wrong = ~(n[query] == values) | (values != np.floor(values))
    if wrong.any():
        bad = listed(dict.fromkeys(str(q) for q in frame[QID].to_numpy()[wrong]))
        raise InputError(
            f"{where}: column {column!r} of the qrels must hold one whole number per query; "
            f"it does not for qid {bad}"
        )
    return n.astype(np.int64)
