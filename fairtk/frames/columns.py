"""Columns of frames: PyTerrier's names, and the types of their arrays.

``docs/concepts/frames.md`` describes each frame type. ir_measures' names (``query_id``, ``doc_id``,
``relevance``) are renamed on input.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk import checks
from fairtk.errors import ColumnError
from fairtk.wording import format_list, missing_columns, rename_hint

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[np.object_]


def rows_by_code(codes: IntArray, n_codes: int) -> tuple[IntArray, list[int]]:
    """Return the rows sorted by code, and where each code's rows start and the last ones end.

    Args:
        codes: integers from 0 to n_codes - 1; shape (n_rows,).
        n_codes: the number of codes.
    """
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(n_codes + 1)).tolist()


QID = "qid"
QUERY = "query"
QUESTION = "question"
DOCNO = "docno"
PARENT = "parent"
"""The document of which a row is a passage; see `fairtk.frames.Run.by_parent`."""
PASSAGE = "passage"
"""The docno of a row, if the column docno has its parent."""
SCORE = "score"
RANK = "rank"
SAMPLE = "sample"
TEXT = "text"
LABEL = "label"
QANSWER = "qanswer"
ANSWER_STATUS = "answer_status"
ANSWER = "answer"
"""The number of an answer, from 0, in files with several answers per ranking."""
PROMPT_ID = "prompt_id"
"""Equal for rankings with the same prompt, in frames with several answers per ranking."""
IN_PROMPT = "in_prompt"
"""Whether a generator's prompt has the document of a row."""
GOLD_ANSWER = "gold_answer"
EXPOSURE = "exposure"
BROWSING = "browsing"
CUTOFF = "cutoff"
ALPHA = "alpha"
OF_EXPOSURE = (BROWSING, CUTOFF, ALPHA)
"""The columns of a frame X with the settings of its exposure."""
GROUP = "group"
WEIGHT = "weight"
CREDIT = "credit"
ERROR = "standard_error"
SOURCE_SAMPLE = "source_sample"
SUBSET = "subset"
NO_DOCUMENT = "@NONE"
"""The docno of the single row of a ranking without documents, in subset 0."""

_GOLD = f"; fairtk.join_answers(qrels, answers) adds {GOLD_ANSWER}"

QUERY_ID, DOC_ID, RELEVANCE = "query_id", "doc_id", "relevance"
_FROM_IR_MEASURES = {QUERY_ID: QID, DOC_ID: DOCNO, RELEVANCE: LABEL}
TO_IR_MEASURES = {ours: theirs for theirs, ours in _FROM_IR_MEASURES.items()}


def pyterrier_names(names: Iterable[str]) -> list[str]:
    """Return column names with those of ir_measures replaced by PyTerrier's."""
    return [_FROM_IR_MEASURES.get(name, name) for name in names]


def from_ir_measures(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the frame with ir_measures' column names replaced by PyTerrier's.

    Raises:
        ColumnError: the frame has both names of a column, or invalid columns (`plain_columns`).
    """
    plain_columns(frame, where)
    for theirs, ours in _FROM_IR_MEASURES.items():
        if theirs in frame.columns and ours in frame.columns:
            raise ColumnError(
                f"{where}: duplicate column: {ours!r} (PyTerrier) and {theirs!r} (ir_measures) "
                "have the same meaning; drop one"
            )
    return frame.rename(columns=_FROM_IR_MEASURES)


_REMEDIES = {
    "collect": ".collect() it first",
    "exposure": "pass the frame that its method .exposure(...) returns",
    "transform": "pass the frame that it returns, e.g. transformer(topics)",
}
"""What to do with objects that are no frames, by a method that they have."""


def plain_columns(frame: Any, where: str) -> None:
    """Raise a `ColumnError` unless `frame` is a DataFrame with unique, single-level columns."""
    if not isinstance(frame, pd.DataFrame):
        fix = next((f"; {text}" for name, text in _REMEDIES.items() if hasattr(frame, name)), "")
        raise ColumnError(f"{where}: expected a DataFrame, got a {type(frame).__name__}{fix}")
    if frame.columns.nlevels > 1:
        raise ColumnError(
            f"{where}: expected single-level column names, got a MultiIndex of "
            f"{frame.columns.nlevels} levels ({frame.columns[0]!r}, ...); flatten it, e.g. "
            "frame.columns = frame.columns.get_level_values(0)"
        )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()]
        raise ColumnError(f"{where}: duplicate column {twice[0]!r}; drop or rename one")


def require_columns(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise a `ColumnError` if a column is missing; `where` names the caller in the message."""
    plain_columns(frame, where)
    needed = checks.listed("columns", columns)
    missing = [c for c in needed if c not in frame.columns]
    if missing:
        expected = format_list(needed, 9)
        hint = _GOLD if GOLD_ANSWER in missing else rename_hint(missing, expected, frame.columns)
        raise ColumnError(f"{where}: {missing_columns(missing, expected, frame.columns)}{hint}")


def refuse_subsets(frame: pd.DataFrame, where: str) -> None:
    """Raise a `ColumnError` if a frame has subsets of rankings."""
    if SUBSET in frame.columns:
        raise ColumnError(
            f"{where}: expected rankings, got subsets of rankings (column {SUBSET!r}); put Subsets "
            "directly before the generator, or compute credit from the answers with "
            "fairtk.credit.from_answers"
        )


def as_numbers(column: pd.Series) -> FloatArray:
    """Return a column as floats; NaN for missing values and for text, even ``"1"``."""
    if getattr(column.dtype, "kind", "O") in "biuf":
        numbers: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers
    return np.array([_number(value) for value in column.tolist()], dtype=np.float64)


def _number(value: Any) -> float:
    if not isinstance(value, Real | np.bool_):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf")
