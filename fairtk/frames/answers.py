"""The column ``answer_status``: whether the text of a model is an answer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.errors import did_you_mean
from fairtk.frames.columns import ANSWER_STATUS, IntArray
from fairtk.frames.runs import Run
from fairtk.frames.schema import Refuse, RowProblem, combined, short_repr

OK = "ok"
CUT = "cut"
EMPTY = "empty"
REFUSED = "refused"
FILTERED = "filtered"
THOUGHT_ONLY = "thought only"
UNREADABLE = "unreadable"
PROMPT_CUT = "prompt cut"
UNKNOWN = "unknown"

STATUSES = (OK, CUT, EMPTY, REFUSED, FILTERED, THOUGHT_ONLY, UNREADABLE, PROMPT_CUT, UNKNOWN)
"""The values of the column ``answer_status``."""


def check_statuses(column: pd.Series, refuse: Refuse) -> IntArray:
    """Return the index in `STATUSES` of each row; refuse other values."""
    code, values = pd.factorize(column)
    index: IntArray = np.array([*map(_index, values), -1], dtype=np.int64)[code]
    wrong = np.flatnonzero(index < 0)
    if len(wrong):
        value = column.iloc[int(wrong[0])]
        near = did_you_mean(value, STATUSES) if isinstance(value, str) else ""
        names = ", ".join(map(repr, STATUSES))
        message = f"{ANSWER_STATUS} must be one of {names}, got {short_repr(value)}{near}"
        refuse(RowProblem(wrong, message))
    return index


def _index(status: object) -> int:
    return STATUSES.index(status) if status in STATUSES else -1


def statuses_of(run: Run) -> tuple[IntArray, IntArray]:
    """Return the query of each answer, an index in the run's `qids`, and its status.

    Statuses are indices in `STATUSES`; a missing one, e.g. of stored rows of an earlier version, is
    unknown. Both have shape (n_answers,), and are empty if the run has
    no column ``answer_status``.
    """
    if ANSWER_STATUS not in run.frame.columns:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    column = run.frame[ANSWER_STATUS]
    status = check_statuses(column.fillna(UNKNOWN) if column.hasnans else column, run.refuse)
    samples = run.samples
    answer = run.frame_query if samples is None else combined(run.frame_query, samples)
    rows = np.flatnonzero(np.diff(answer, prepend=-1))  # the rows of an answer are often adjacent
    rows = rows[np.unique(answer[rows], return_index=True)[1]]
    return run.frame_query[rows], status[rows]
