"""From the ranks and scores of a file to one order."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.errors import warn
from fairtk.files.rows import Rows
from fairtk.frames.columns import DOCNO, QID, RANK, SAMPLE, SCORE
from fairtk.frames.rankings import order_by


def place(rows: Rows, order: str) -> None:
    """Set ``rank`` to 0, 1, ... within each ranking, and see to it that scores agree.

    Rows are ordered by the file's rank (unless ``order="score"``), then score, then docno, both
    descending. With ``order="auto"`` a score above the one before it is an error. With
    ``order="rank"`` scores that do not fall with it are replaced by such that do, so that measures
    which know scores only read the same order.
    """
    frame = rows.frame
    given = RANK in frame.columns
    if order == "rank":
        rows.require([QID, DOCNO, SCORE, RANK], "a run with order='rank'")
    rank = frame[RANK].to_numpy(np.int64) if given else np.zeros(len(frame), dtype=np.int64)
    used = np.zeros_like(rank) if order == "score" else rank
    score = frame[SCORE].to_numpy(np.float64)
    ranking = rows.codes([QID, *([SAMPLE] if SAMPLE in frame.columns else [])])

    sorted_rows = order_by(
        (-score, used, ranking), lambda tied: pd.factorize(frame[DOCNO].iloc[tied])
    )
    ranking, score = ranking[sorted_rows], score[sorted_rows]
    same = ranking[1:] == ranking[:-1]
    rising = same & (score[1:] > score[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~same]))[: len(frame)]
    position = np.arange(len(frame)) - np.repeat(first, np.diff([*first, len(frame)]))
    ranks = np.empty(len(frame), dtype=np.int64)
    ranks[sorted_rows] = position
    if rising.any():
        later = int(np.flatnonzero(rising)[0]) + 1
        row, before = int(sorted_rows[later]), int(sorted_rows[later - 1])
        found = (
            f"rank {rank[row]} has score {score[later]:g}, above the {score[later - 1]:g} of rank "
            f"{rank[before]} (qid {str(frame[QID].iloc[row])!r})"
        )
        if order == "auto":
            rows.fail(
                row,
                f"ranks disagree with scores: {found}; choose what counts with order='score' (as "
                "trec_eval) or order='rank' (as expeval)",
            )
        line = rows.line_of(row)
        warn(
            f"{rows.path}:{'' if line is None else f'{line}:'} {found}; the scores of this run are "
            "replaced by ranks, from below",
            stacklevel=4,
        )
    if order == "rank" and (same & (score[1:] >= score[:-1])).any():
        # ties too: evaluators of other measures would break them by docno
        frame = frame.assign(**{SCORE: ranks.max() + 1.0 - ranks})
    rows.frame = frame.assign(**{RANK: ranks})
