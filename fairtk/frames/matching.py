"""A warning where the ids of labels and run do not seem to be the same ids.

Labels for ``12`` and a ranking of ``q1/12`` give numbers that look like those of a bad system: no
error follows from them, and every measure of relevance is about 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from fairtk.errors import UnmatchedWarning
from fairtk.frames.arrays import BoolArray, IntArray
from fairtk.frames.qrels import Qrels
from fairtk.frames.runs import Run

SHARE = 0.9
"""From this share of queries on, documents that nobody judged are no accident."""


def warn_of_other_qids(qrels: Qrels, run: Run, where: str) -> None:
    """Warn if labels and run have no query in common.

    Args:
        qrels: the labels.
        run: the run, with all of its queries.
        where: the measures, for the message.
    """
    if len(qrels) and len(run) and (qrels.queries.find(run.queries) < 0).all():
        warnings.warn(
            f"{where}: none of the {len(run.qids)} queries of the run is among the "
            f"{len(qrels.qids)} of the qrels, so all count as missing; the run has qid "
            f"{run.qids[0]!r}, the qrels have qid {qrels.qids[0]!r}",
            UnmatchedWarning,
            stacklevel=2,
        )


def warn_of_strangers(
    qrels: Qrels, query: IntArray, docno: Callable[[int], str], judged: BoolArray, where: str
) -> None:
    """Warn if queries that have useful documents have no judged one in the run, nearly all.

    Args:
        qrels: the labels.
        query: the query of each row among those of the labels, -1 for another; shape (n_rows,).
        docno: gives the document of a row.
        judged: whether it has a label; shape (n_rows,).
        where: the measures, for the message.
    """
    n_queries = len(qrels.qids)
    counted = np.zeros(n_queries, dtype=bool)
    counted[qrels.query[qrels.labels > 0]] = True
    shown = np.zeros(n_queries, dtype=bool)
    shown[query[query >= 0]] = True
    counted &= shown
    strange = counted.copy()
    strange[query[judged]] = False
    n_counted, n_strange = int(counted.sum()), int(strange.sum())
    if not n_counted or n_strange < SHARE * n_counted:
        return
    at = int(np.flatnonzero(strange)[0])
    label = int(np.flatnonzero((qrels.query == at) & (qrels.labels > 0))[0])
    row = int(np.flatnonzero(query == at)[0])
    warnings.warn(
        f"{where}: no judged document is in the rankings of {n_strange} of the {n_counted} queries "
        f"that have useful documents and results; do qrels and run name documents alike? For qid "
        f"{qrels.qids[at]!r} the qrels have docno {qrels.docnos[qrels.doc[label]]!r}, the run has "
        f"docno {docno(row)!r}",
        UnmatchedWarning,
        stacklevel=2,
    )
