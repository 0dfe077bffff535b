"""Frames: the names of their columns, the types of their arrays, and the checks that texts are
there.

The names are PyTerrier's. `docs` of every frame type (Q, R, S, X, A, qrels, groups) are in
``docs/concepts/frames.md``; ir_measures' own names (``query_id``, ``doc_id``, ``relevance``) occur
only at its border.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import ColumnError, DuplicateError, InputError, listed

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[np.object_]


def rows_by_code(codes: IntArray, n_codes: int) -> tuple[IntArray, list[int]]:
    """Return the rows sorted by code, and where each code's rows start; at the end, where all end.

    Codes are from 0 to n_codes - 1; shape (n_rows,).
    """
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(n_codes + 1)).tolist()


QID = "qid"
QUERY = "query"
QUESTION = "question"
DOCNO = "docno"
SCORE = "score"
RANK = "rank"
SAMPLE = "sample"
TEXT = "text"
LABEL = "label"
QANSWER = "qanswer"
GOLD_ANSWER = "gold_answer"
EXPOSURE = "exposure"
BROWSING = "browsing"
CUTOFF = "cutoff"
ALPHA = "alpha"
OF_EXPOSURE = (BROWSING, CUTOFF, ALPHA)
"""What the exposure of a frame X holds for."""
GROUP = "group"
WEIGHT = "weight"
CREDIT = "credit"
ERROR = "standard_error"
SOURCE_SAMPLE = "source_sample"
SUBSET = "subset"
NO_DOCUMENT = "@NONE"
"""The docno of the one row that stands for a ranking without documents, of subset 0."""

_GOLD = f"; fairtk.join_answers(qrels, answers) adds {GOLD_ANSWER}"

QUERY_ID, DOC_ID, RELEVANCE = "query_id", "doc_id", "relevance"
_FROM_IR_MEASURES = {QUERY_ID: QID, DOC_ID: DOCNO, RELEVANCE: LABEL}
TO_IR_MEASURES = {ours: theirs for theirs, ours in _FROM_IR_MEASURES.items()}


def ours(names: Iterable[str]) -> list[str]:
    """Return PyTerrier's names of columns that ir_measures names; others as they are."""
    return [_FROM_IR_MEASURES.get(name, name) for name in names]


def from_ir_measures(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the frame with PyTerrier's column names, whichever of the two it has; not changed.

    Raises:
        ColumnError: it has both names of a column, or columns that `require` refuses.
    """
    plain_columns(frame, where)
    for theirs, ours in _FROM_IR_MEASURES.items():
        if theirs in frame.columns and ours in frame.columns:
            raise ColumnError(
                f"{where} has the columns {ours!r} (PyTerrier's name) and {theirs!r} "
                "(ir_measures' name), which mean the same; drop one of them"
            )
    return frame.rename(columns=_FROM_IR_MEASURES)


def plain_columns(frame: Any, where: str) -> None:
    """Raise a `ColumnError` unless it is a frame whose columns have one name each."""
    if not isinstance(frame, pd.DataFrame):
        raise ColumnError(f"{where} needs a DataFrame; found a {type(frame).__name__}")
    if frame.columns.nlevels > 1:
        raise ColumnError(
            f"{where} needs a frame with one name for each column; found a MultiIndex of "
            f"{frame.columns.nlevels} levels ({frame.columns[0]!r}, ...): flatten it, e.g. "
            "frame.columns = frame.columns.get_level_values(0)"
        )
    if not frame.columns.is_unique:
        twice = list(dict.fromkeys(frame.columns[frame.columns.duplicated()]))
        raise ColumnError(
            f"{where} needs a frame with each column once; twice there: {twice}; drop or rename one"
        )


def require(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise a `ColumnError` unless the frame has all the columns; `where` says who needs them."""
    plain_columns(frame, where)
    needed = list(columns)
    missing = [c for c in needed if c not in frame.columns]
    if missing:
        raise ColumnError(
            f"{where} needs the columns {needed}; missing: {missing}, found: {list(frame.columns)}"
            + (_GOLD if GOLD_ANSWER in missing else "")
        )


def as_numbers(column: pd.Series) -> FloatArray:
    """Return a column as floats; NaN for what is missing or no number, such as the text "1"."""
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


def texts_of(inp: pd.DataFrame, where: str) -> list[str]:
    """Return the text of each row; one that is not a string is an `InputError`."""
    return _strings(
        inp, TEXT, where, "load the texts first (a text_loader), or drop documents without one"
    )


def queries_of(inp: pd.DataFrame, query: IntArray, count: int, where: str) -> list[str]:
    """Return the text of a run's queries, by the index of each row's query and their number."""
    values = _strings(inp, QUERY, where, "topics must have a query")
    code, distinct = pd.factorize(np.array(values, dtype=object))
    first = np.zeros(count, dtype=np.int64)
    first[query[::-1]] = code[::-1]
    other = np.flatnonzero(code != first[query])
    if len(other):
        row = inp.iloc[int(other[0])]
        raise InputError(
            f"{where}: qid {row[QID]!r} must have one query on all its rows; found "
            f"{row[QUERY]!r} at docno {row[DOCNO]!r}"
        )
    return [str(distinct[c]) for c in first]


def topics_of(inp: pd.DataFrame, where: str) -> list[tuple[str, str]]:
    """Return qid and query of each topic; each qid occurs once, with a query that is a string."""
    if inp[QID].isna().any():
        raise InputError(f"{where}: every topic must have a qid; found one without")
    qids, texts = inp[QID].tolist(), inp[QUERY].tolist()
    for qid, text in zip(qids, texts, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{where}: the query of qid {qid!r} must be a string; found {text!r}")
    twice = inp[QID][inp[QID].duplicated()].tolist()
    if twice:
        raise DuplicateError(
            f"{where} takes topics, one row per query; {listed(dict.fromkeys(twice))} occurs more "
            "than once"
        )
    return list(zip(qids, texts, strict=True))


def _strings(inp: pd.DataFrame, column: str, where: str, advice: str) -> list[str]:
    values: list[Any] = inp[column].tolist()
    for number, value in enumerate(values):
        if not isinstance(value, str):
            row = inp.iloc[number]
            raise InputError(
                f"{where}: the {column} of qid {row[QID]!r}, docno {row[DOCNO]!r} must be a "
                f"string; found {value!r}: {advice}"
            )
    return values
