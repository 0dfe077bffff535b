"""The rules for ids, numbers and rows of runs, qrels, groups and credit, each stated once.

A check takes a column and returns its values as an array. If rows break the rule, it passes a
`RowProblem` to `refuse`, which raises. Errors about frames name qid, sample and docno; errors about
files also name the line; `doctor` drops the rows and checks again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fairtk.errors import ColumnError, DuplicateError, InputError
from fairtk.frames.columns import (
    CREDIT,
    DOCNO,
    GROUP,
    LABEL,
    QID,
    RANK,
    SAMPLE,
    SCORE,
    WEIGHT,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    as_numbers,
)
from fairtk.frames.ids import Coded, Ids, codes_of, complete_text, text_codes
from fairtk.wording import such


class RowProblem(NamedTuple):
    """Rows that break a rule.

    Attributes:
        rows: the invalid rows; the message is about the first one; shape (n_rows,).
        message: what was expected, and the value of the first row.
        error: the class of the error.
        check: the name of the check in `doctor`.
        remedy: how to fix the data.
        before: the row that the first invalid row duplicates; `None` for other problems.
    """

    rows: IntArray
    message: str
    error: type[InputError] = InputError
    check: str = "bad-values"
    remedy: str = ""
    before: int | None = None


Refuse = Callable[[RowProblem], NoReturn]


def problem_text(problem: RowProblem, frame: pd.DataFrame, before: str = "") -> str:
    """Return the message of a problem, with the ids of its first row and the remedy."""
    row = int(problem.rows[0])
    values = []
    for name in (QID, SAMPLE, DOCNO, GROUP):
        # in a file without samples, this column has text
        if name in frame and (name != SAMPLE or frame[SAMPLE].dtype.kind == "i"):
            values.append(f"{name} {short_repr(frame[name].iloc[row], name != SAMPLE)}")
    ids = ", ".join(values) or f"row {row}"
    remedy = problem.remedy and f"; {problem.remedy}"
    return f"{problem.message} ({ids}; {such(len(problem.rows))}){before}{remedy}"


def refuse_in(where: str, problem: RowProblem, frame: pd.DataFrame | None = None) -> NoReturn:
    """Raise the error of a problem in a frame."""
    raise problem.error(
        f"{where}: {problem_text(problem, pd.DataFrame() if frame is None else frame)}"
    )


_SHOWN = 60


def short_repr(value: Any, as_text: bool = False) -> str:
    """Return a value for messages, truncated, and with 1.0 instead of np.float64(1.0)."""
    plain = value.item() if isinstance(value, np.generic) else value
    text = repr(str(plain) if as_text and isinstance(plain, int) else plain)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


# Ids -------------------------------------------------------------------------------------------

_REMEDIES = {
    float | np.floating: "convert the column with .astype(int)",
    bytes: "decode the column with .str.decode('utf-8')",
    list | np.ndarray: "split the row with DataFrame.explode",
}


def check_ids(column: pd.Series, name: str, refuse: Refuse) -> Coded:
    """Return ids as codes, and the distinct ids in order of first appearance.

    Refuse missing ids, values other than text and integers, ids that differ only in type, such as
    1 and "1", and invalid text (`find_flaw`).
    """
    coded = text_codes(column, name)
    if coded is None:
        coded = _codes_of_values(column, name, refuse)
    codes, ids = coded
    flaws = ids.flaws()
    if flaws:
        rows = np.flatnonzero(np.isin(codes, list(flaws)))
        code = int(codes[rows[0]])
        remedy = "read the data again, or fix the column with .str.strip or .str.replace"
        refuse(
            RowProblem(rows, f"{name} {short_repr(ids.text[code])} {flaws[code]}", remedy=remedy)
        )
    return coded


def _codes_of_values(column: pd.Series, name: str, refuse: Refuse) -> Coded:
    values: Any
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists and dicts are not hashable
        codes, values = np.arange(len(column)), column.tolist()
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        refuse(RowProblem(missing, f"{name} is missing"))
    wrong = [code for code, value in enumerate(values) if not is_text(value)]
    if wrong:
        rows = np.flatnonzero(np.isin(codes, wrong))
        value = column.iloc[int(rows[0])]
        message = f"{name} must be text or an integer, got {short_repr(value)}"
        fitting = (remedy for kind, remedy in _REMEDIES.items() if isinstance(value, kind))
        remedy = next(fitting, "convert the column with .astype(str)")
        refuse(RowProblem(rows, f"{message} ({type(value).__name__})", remedy=remedy))
    texts = np.array([str(value) for value in values], dtype=object)
    alike = pd.Series(texts, dtype=object).duplicated(keep=False).to_numpy()
    if alike.any():
        kinds = sorted({type(value).__name__ for value in np.asarray(values)[alike]})
        message = f"{name} {texts[alike][0]!r} must have one type, got {', '.join(kinds)}"
        remedy = "convert the column with .astype(str)"
        refuse(RowProblem(np.flatnonzero(alike[codes]), message, remedy=remedy))
    return codes.astype(np.int64, copy=False), Ids(texts)


def is_text(value: Any) -> bool:
    """Return whether a value is text or an integer, and so may be an id."""
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)


def encode_ids(column: pd.Series, name: str, where: str) -> tuple[IntArray, ObjectArray]:
    """Return ids as codes, and the distinct ids as text; see `check_ids`."""
    codes, ids = check_ids(column, name, functools.partial(refuse_in, where))
    return codes, ids.text


def check_ids_among(
    table: Ids, column: pd.Series, name: str, refuse: Refuse
) -> tuple[IntArray, Ids, IntArray]:
    """Return ids as codes, the distinct ids in any order, and their indices in `table`.

    This is faster than `check_ids` if `table` has most of the ids.
    """
    texts = complete_text(column)
    if texts is None:
        codes, ids = check_ids(column, name, refuse)
        return codes, ids, table.find(ids)
    matches = pc.index_in(texts, value_set=table.arrow)
    indices, all_ids = np.asarray(matches.fill_null(-1)).astype(np.int64), table.arrow
    new_rows = np.flatnonzero(indices < 0)
    if len(new_rows):
        codes, others = codes_of(texts.take(pa.array(new_rows)), name)
        if others.flaws():
            check_ids(column, name, refuse)
        indices[new_rows] = table.size + codes
        all_ids = pa.concat_arrays([all_ids, others.arrow])
    used = np.flatnonzero(np.bincount(indices, minlength=len(all_ids)))
    number = np.zeros(len(all_ids), dtype=np.int64)
    number[used] = np.arange(len(used))
    return number[indices], Ids(all_ids.take(pa.array(used))), np.where(used < table.size, used, -1)


# Numbers ---------------------------------------------------------------------------------------


class NumberRule(NamedTuple):
    """A rule for a column of numbers; `expected` describes it in messages."""

    expected: str
    is_whole: bool = False
    lowest: float = -np.inf
    limit: float = np.inf
    may_be_missing: bool = False
    remedy: str = ""


LIMIT = 2.0**53
"""Floats do not distinguish all integers from here on."""

FINITE = NumberRule("a finite number")
INTEGER = NumberRule("an integer", is_whole=True, limit=LIMIT)
NUMBERS = {
    SCORE: FINITE._replace(remedy="drop these rows or fix the retriever"),
    LABEL: NumberRule(
        "a finite number below 2^53", limit=LIMIT, remedy="omit documents without a label"
    ),
    RANK: INTEGER,
    SAMPLE: NumberRule("an integer from 0", is_whole=True, lowest=0, limit=LIMIT),
    WEIGHT: NumberRule("a finite number of at least 0", lowest=0),
    CREDIT: NumberRule("a finite number, or NaN if it is undefined", may_be_missing=True),
}
"""The rules of number columns; `FINITE` holds for all others."""


def check_numbers(
    column: pd.Series, name: str, refuse: Refuse, rule: NumberRule | None = None
) -> Any:
    """Return a column as an array: int64 if the rule requires integers, otherwise float64."""
    rule = rule or NUMBERS.get(name, FINITE)
    wrong: BoolArray
    if name == SAMPLE and column.isna().any():
        message = f"{SAMPLE} is missing: sampled and unsampled rows cannot be mixed"
        rows = np.flatnonzero(column.isna())
        refuse(RowProblem(rows, message, check="samples", remedy="pass one run at a time"))
    kind = column.dtype.kind
    if rule.is_whole and kind == "i" and column.dtype.itemsize <= 8 and not column.hasnans:
        values = column.to_numpy(dtype=np.int64)
        wrong = values < rule.lowest
    else:
        values = as_numbers(column)
        wrong = ~(np.abs(values) < rule.limit)  # NaN, too
        if rule.is_whole:
            wrong |= values != np.floor(values)
        if np.isfinite(rule.lowest):
            wrong |= values < rule.lowest
        if rule.may_be_missing:
            wrong &= column.notna().to_numpy()
    if wrong.any():
        rows = np.flatnonzero(wrong)
        value = column.iloc[int(rows[0])]
        message = f"{name} must be {rule.expected}, got {short_repr(value)}"
        is_number = isinstance(value, Real | np.bool_) or value is None
        error = InputError if is_number and not rule.is_whole else ColumnError
        refuse(RowProblem(rows, message, error, remedy=rule.remedy))
    return values.astype(np.int64, copy=False) if rule.is_whole else values


def check_samples(frame: pd.DataFrame, where: str) -> None:
    """Raise a `ColumnError` unless ``sample``, if the frame has it, is an integer from 0."""
    if SAMPLE in frame.columns:
        check_numbers(frame[SAMPLE], SAMPLE, lambda problem: refuse_in(where, problem, frame))


# Rows ------------------------------------------------------------------------------------------

_SHORT = 40  # up to this ranking length, comparing rows is faster than hashing them


def combined(first: IntArray, second: IntArray) -> IntArray:
    """Return one number per pair of non-negative integers, in the order of the pairs."""
    height, width = int(first.max(initial=0)) + 1, int(second.max(initial=0)) + 1
    if height * width >= 2**62:  # renumber the values that occur
        distinct, second = np.unique(second, return_inverse=True)
        width = len(distinct)
    return first * width + second


def check_unique(
    groups: IntArray,
    items: IntArray,
    message: str,
    refuse: Refuse,
    remedy: str = "",
    rows: IntArray | None = None,
) -> None:
    """Refuse rows whose item occurs earlier in the same group.

    Args:
        groups: the group of each row, such as its ranking; shape (n_rows,).
        items: the item of each row, such as its document; shape (n_rows,).
        message: the problem.
        refuse: raises the error.
        remedy: how to fix the data.
        rows: the frame row of each row; `None` if they are the same.
    """
    twice = np.flatnonzero(repeats(groups, items))
    if len(twice):
        same = (groups == groups[twice[0]]) & (items == items[twice[0]])
        first = np.flatnonzero(same)[:1]
        if rows is not None:
            twice, first = rows[twice], rows[first]
        refuse(RowProblem(twice, message, DuplicateError, "duplicates", remedy, int(first[0])))


def repeats(groups: IntArray, items: IntArray) -> BoolArray:
    """Return which rows have an item that occurs earlier in their group; shape (n_rows,)."""
    n = len(groups)
    starts = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    longest = int(np.diff(starts, prepend=0, append=n).max(initial=0))
    if longest > _SHORT or not bool((groups[starts] > groups[starts - 1]).all()):
        if n == 0 or int(np.bincount(items).max()) == 1:
            return np.zeros(n, dtype=bool)
        return np.asarray(pd.Series(combined(groups, items)).duplicated())
    twice = np.zeros(n, dtype=bool)
    small = items.astype(np.int32)
    for step in range(1, longest):
        again = np.flatnonzero(small[step:] == small[:-step]) + step
        twice[again[groups[again] == groups[again - step]]] = True
    return twice


def check_order(
    ranking: IntArray,
    rank: IntArray,
    score: FloatArray,
    rows: IntArray,
    refuse: Refuse,
    remedy: str = "",
) -> None:
    """Refuse a score above that of the previous rank; rows are sorted by ranking and rank."""
    later = np.flatnonzero((score[1:] > score[:-1]) & (ranking[1:] == ranking[:-1])) + 1
    if len(later):
        row = later[0]
        message = (
            f"ranks disagree with scores: score {score[row] + 0.0:g} at rank {rank[row]} is above "
            f"score {score[row - 1] + 0.0:g} at rank {rank[row - 1]}"
        )
        step = np.diff(score)[np.diff(ranking) == 0]
        if (step >= 0).all() and (step > 0).sum() > 1:
            message = f"these look like distances: negate them ({message})"
        refuse(RowProblem(rows[later], message, check="order", remedy=remedy))
