"""The columns ``qanswer`` and ``answer_status``: answers, and whether a text is an answer.

A ranking has one answer, a text; or several answers of one model to its prompt, a list of texts.
Then its status is a list, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.frames.columns import ANSWER_STATUS, QANSWER, IntArray, ObjectArray
from fairtk.frames.runs import Run
from fairtk.frames.schema import Refuse, RowProblem, combined, short_repr
from fairtk.wording import did_you_mean

_LISTS = (list, tuple, np.ndarray)

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


def has_lists(values: Any) -> bool:
    """Return whether a column has several answers per ranking."""
    # texts and categories have no lists; of other values, the few types are checked
    if isinstance(getattr(values, "dtype", None), pd.StringDtype | pd.CategoricalDtype):
        return False
    values = np.asarray(values)
    types = set(map(type, values)) if values.dtype == object else ()
    return any(issubclass(kind, _LISTS) for kind in types)


def hashable(values: Any) -> ObjectArray:
    """Return a column with tuples instead of lists, to compare cells."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = [tuple(v) if isinstance(v, _LISTS) else v for v in values]
    return cells


def flattened(values: Any) -> tuple[IntArray, list[Any]]:
    """Return the cell of each answer, an index in `values`, and all answers."""
    cells = [v if isinstance(v, _LISTS) else (v,) for v in values]
    return np.repeat(np.arange(len(cells)), [len(c) for c in cells]), [a for c in cells for a in c]


def check_answers(values: pd.Series, refuse: Refuse) -> None:
    """Refuse answers that are no texts, empty lists, and lists with missing answers.

    A missing answer of a ranking is accepted.
    """
    if isinstance(values.dtype, pd.StringDtype):
        return
    cells = values.to_numpy()
    if set(map(type, cells)) <= {str}:
        return
    wrong = [
        not all(isinstance(a, str) for a in (v if len(v) else [None]))
        if isinstance(v, _LISTS)
        else not isinstance(v, str) and not pd.isna(v)
        for v in cells
    ]
    if any(wrong):
        rows = np.flatnonzero(wrong)
        value = cells[rows[0]]
        value = short_repr(list(value) if isinstance(value, _LISTS) else value)
        refuse(RowProblem(rows, f"{QANSWER} must be a text or a list of texts, got {value}"))


def check_statuses(column: pd.Series, refuse: Refuse) -> IntArray:
    """Return the index in `STATUSES` of each row, or of each answer; refuse other values."""
    if has_lists(column):
        cell, flat = flattened(column)

        def refuse_cells(problem: RowProblem) -> Any:
            return refuse(problem._replace(rows=np.unique(cell[problem.rows])))

        return check_statuses(pd.Series(flat, dtype=object), refuse_cells)
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
    unknown. Both have shape (n_answers,), and are empty if the run has no column ``answer_status``.
    """
    if ANSWER_STATUS not in run.frame.columns:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    column = run.frame[ANSWER_STATUS]
    column = column.fillna(UNKNOWN) if column.hasnans else column
    samples = run.samples
    answer = run.frame_query if samples is None else combined(run.frame_query, samples)
    rows = np.flatnonzero(np.diff(answer, prepend=-1))  # the rows of an answer are often adjacent
    rows = rows[np.unique(answer[rows], return_index=True)[1]]
    if has_lists(column):
        cell, _ = flattened(column.to_numpy()[rows])
        check_statuses(column, run.refuse)
        return run.frame_query[rows[cell]], check_statuses(column.iloc[rows], run.refuse)
    return run.frame_query[rows], check_statuses(column, run.refuse)[rows]
