"""A warning where the ids of labels and run do not seem to be the same ids.

Labels for ``12`` and a ranking of ``q1/12`` give numbers that look like those of a bad system: no
error follows from them, and every measure of relevance is about 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairtk.errors import UnmatchedWarning, warn
from fairtk.frames.columns import DOCNO, LABEL
from fairtk.frames.ids import Ids
from fairtk.frames.qrels import Qrels

SHARE = 0.9
"""From this share of queries on, documents that nobody judged are no accident."""


def warn_of_other_qids(qrels: Qrels, queries: Ids, where: str) -> None:
    """Warn if labels and run have no query in common."""
    if len(qrels) and queries.size and (qrels.queries.find(queries) < 0).all():
        warn(
            f"{where}: none of the {queries.size} queries of the run is among the "
            f"{len(qrels.qids)} of the qrels, so all count as missing; the run has qid "
            f"{queries.text[0]!r}, the qrels have qid {qrels.qids[0]!r}",
            UnmatchedWarning,
        )


def warn_of_other_docnos(
    qrels: Qrels, queries: Ids, documents: Callable[[int], Any], where: str
) -> None:
    """Warn if queries that have useful documents have no judged one in the run, nearly all.

    `documents` gives those of a query by its place. Queries are looked at until too few are left
    for the warning: mostly a tenth of them.
    """
    if not {DOCNO, LABEL} <= set(qrels.frame.columns):
        return
    known, useful = qrels.queries.find(queries), qrels.useful
    counted = [(i, q) for i, q in enumerate(known.tolist()) if q >= 0 and useful[q]]
    strange: list[tuple[int, int]] = []
    matched = 0
    for i, q in counted:
        judged = set(qrels.docnos[qrels.doc[qrels.rows_of(q)]])
        if judged.isdisjoint(documents(i)):
            strange.append((i, q))
            continue
        matched += 1
        if len(counted) - matched < SHARE * len(counted):
            return
    if not strange:
        return
    i, q = strange[0]
    rows = qrels.rows_of(q)
    label = rows[qrels.labels[rows] > 0][0]
    warn(
        f"{where}: no judged document is in the rankings of {len(strange)} of the {len(counted)} "
        "queries that have useful documents and results; do qrels and run name documents alike? "
        f"For qid {qrels.qids[q]!r} the qrels have docno {qrels.docnos[qrels.doc[label]]!r}, the "
        f"run has docno {next(iter(documents(i)))!r}",
        UnmatchedWarning,
    )
