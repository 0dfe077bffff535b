"""Accepted forms of qrels and runs: frames, tables, dicts of dicts, named tuples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from os import PathLike
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from fairtk.errors import ColumnError, InputError, such
from fairtk.frames.columns import (
    DOCNO,
    EXPOSURE,
    LABEL,
    QID,
    RANK,
    SCORE,
    BoolArray,
    as_numbers,
    from_ir_measures,
    pyterrier_names,
    require_columns,
)

P = ParamSpec("P")
R = TypeVar("R")
FileOrFrame: TypeAlias = str | PathLike[str] | pd.DataFrame


def frame_of(data: Any) -> Any:
    """Return a table of another library as a pandas frame; anything else unchanged.

    A table is an object with Arrow's C stream (polars, DuckDB, pyarrow) or a ``Run`` or ``Qrels``
    of ranx, whose columns get PyTerrier's names.
    """
    if isinstance(data, pd.DataFrame | pd.Series | pd.Index):
        return data
    if type(data).__module__.partition(".")[0] == "ranx" and hasattr(data, "to_dataframe"):
        value = LABEL if type(data).__name__ == "Qrels" else SCORE
        return data.to_dataframe().rename(columns={"q_id": QID, "doc_id": DOCNO, "score": value})
    if not hasattr(data, "__arrow_c_stream__"):
        return data
    try:
        table = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError):
        return data  # a single column, which callers refuse
    lists = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if not lists:
        return table.to_pandas()
    # Lists stay Python lists, where pandas would make arrays.
    plain = table.drop_columns(lists).to_pandas()
    return plain.assign(**{c: table[c].to_pylist() for c in lists})[table.column_names]


def labels_or_scores(data: Any, value: str, where: str) -> Any:
    """Return qrels or one run as a frame; anything else, such as a path, unchanged.

    Args:
        data: a frame or table, a dict ``{qid: {docno: value}}``, or named tuples such as those of
            ir_measures.
        value: the column of a dict's values: ``label`` for qrels, ``score`` for a run.
        where: the caller and the parameter, for messages.

    Raises:
        ColumnError: a dict does not have exactly two levels.
        InputError: a dict is empty.
    """
    if isinstance(data, Mapping):
        return _frame_of_mapping(data, value, where)
    if isinstance(data, Iterator):
        data = list(data)
    if not _are_named_tuples(data):
        return frame_of(data)
    fields = pyterrier_names(data[0]._fields) if data else (QID, DOCNO, value)
    columns = zip(*data, strict=True) if data else repeat(())
    return pd.DataFrame(dict(zip(fields, map(column_of, columns), strict=False)))


def _are_named_tuples(data: Any) -> bool:
    """Return whether data is a list of named tuples with the same fields, or an empty list."""
    if not isinstance(data, list | tuple):
        return False
    fields = {getattr(kind, "_fields", None) for kind in {*map(type, data)}}
    return not fields or len(fields) == 1 and None not in fields


def _frame_of_mapping(data: Mapping[Any, Any], value: str, where: str) -> pd.DataFrame:
    form = f"{where} must be {{qid: {{docno: {value}}}}}, a dict of dicts"
    flat = [qid for qid, docs in data.items() if not isinstance(docs, Mapping)]
    if flat:
        kind = type(data[flat[0]]).__name__
        raise ColumnError(f"{form}, got a {kind} for {flat[0]!r} ({len(flat)} in all)")
    qids = [*chain.from_iterable(repeat(qid, len(docs)) for qid, docs in data.items())]
    docnos = [*chain.from_iterable(data.values())]
    values = [*chain.from_iterable(docs.values() for docs in data.values())]
    deep = [row for row, one in enumerate(values) if isinstance(one, Mapping)]
    if deep:
        first = f"{qids[deep[0]]!r}, {docnos[deep[0]]!r}"
        raise ColumnError(f"{form}, got a third level for {first} ({len(deep)} in all)")
    if not data:
        raise InputError(f"{where} must not be empty")
    columns = {QID: column_of(qids), DOCNO: column_of(docnos), value: column_of(values)}
    return pd.DataFrame(columns)


def column_of(values: Iterable[Any]) -> pd.Series:
    """Return Python values as a column of text or numbers; of objects if the types differ."""
    values = list(values)
    kinds = {*map(type, values)}
    dtype: Any = "str" if kinds == {str} else None if kinds <= {int, float} else object
    try:
        return pd.Series(values, dtype=dtype)
    except (UnicodeEncodeError, OverflowError):  # surrogates, huge integers
        return pd.Series(values, dtype=object)  # the checks report the row


def checked_frame(
    data: Any, value: str, where: str, needs: Iterable[str], either: bool
) -> pd.DataFrame:
    """Return qrels or a run as a frame with the required columns.

    `either` accepts ir_measures' column names, too.
    """
    frame = labels_or_scores(data, value, where)
    if either:
        frame = from_ir_measures(frame, where)
    require_columns(frame, needs, where)
    return frame


# Arguments -------------------------------------------------------------------------------------

_ROLES = dict.fromkeys(("run", "runs", "systems", "baseline", "scores"), SCORE) | {"qrels": LABEL}
"""Parameters that accept qrels or runs, and the value column of each."""


def accepts_dataframes(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function accept its arguments in other forms than pandas frames.

    Parameters named in `_ROLES` accept each form of `labels_or_scores`. Qrels instead of a run,
    or the reverse, are a `ColumnError`. For `runs` and `systems`, a dict of two levels is one
    run, and a dict of three levels maps names to runs. All parameters accept tables of other
    libraries (`frame_of`), also in lists and dicts.
    """
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def taking(*args: P.args, **kwargs: P.kwargs) -> R:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        where = function.__name__
        framed = {
            name: _convert_argument(name, data, f"{where}: {name}") for name, data in given.items()
        }
        for name in ("run", "runs"):
            if _is_nested(given.get("qrels")) and _is_nested(given.get(name)):
                _refuse_swapped_dicts(framed["qrels"], framed[name], where)
        # Too many arguments are passed on, so that the function raises its TypeError.
        positional: Any = [framed[name] for name in names[: len(args)]] + [*args[len(names) :]]
        named: Any = {name: framed[name] for name in kwargs}
        return function(*positional, **named)

    return taking


_REMEDY = "; if both are given, qrels come first"


def swapped_message(columns: Iterable[Any], value: str) -> str:
    """Return the message if a run was passed as qrels, or the reverse; otherwise ``""``."""
    names = [*map(str, pyterrier_names(columns))]
    is_run = not {SCORE, RANK}.isdisjoint(names)
    if value == LABEL and is_run and LABEL not in names:
        return f"expected qrels, got a run (columns {', '.join(names)}){_REMEDY}"
    if value == SCORE and LABEL in names and not is_run and EXPOSURE not in names:
        return f"expected a run, got qrels (columns {', '.join(names)}){_REMEDY}"
    return ""


def _convert_argument(name: str, data: Any, where: str) -> Any:
    if name in ("runs", "systems"):
        if isinstance(data, Iterator):
            data = list(data)
        if isinstance(data, Mapping) and not _is_one_run(data):
            return {key: _convert(one, SCORE, f"{where}[{key!r}]") for key, one in data.items()}
        if isinstance(data, list | tuple) and not (data and _are_named_tuples(data)):
            return [_convert(one, SCORE, f"{where}[{place}]") for place, one in enumerate(data)]
    if name in _ROLES:
        return _convert(data, _ROLES[name], where)
    if type(data) is dict:
        return {key: frame_of(one) for key, one in data.items()}
    if type(data) in (list, tuple) and not {*map(type, data)} <= {str, tuple}:  # rows may be many
        return type(data)(map(frame_of, data))
    return frame_of(data)


def _convert(data: Any, value: str, where: str) -> Any:
    """Return qrels or a run as a frame; refuse one if the other is expected.

    In a run, a query without documents is a missing query; in qrels, it is an error.
    """
    frame = labels_or_scores(data, value, where)
    if isinstance(data, Mapping) and (frame.empty or value == LABEL):
        empty = [qid for qid, docs in data.items() if not docs]
        if empty:
            raise InputError(
                f"{where}: qid {empty[0]!r} has no documents ({such(len(empty), 'query')})"
            )
    if isinstance(frame, pd.DataFrame) and (message := swapped_message(frame.columns, value)):
        raise ColumnError(f"{where}: {message}")
    return frame


def _is_nested(data: Any) -> bool:
    """Return whether data is a mapping of mappings."""
    return isinstance(data, Mapping) and all(isinstance(one, Mapping) for one in data.values())


def _is_one_run(data: Mapping[Any, Any]) -> bool:
    """Return whether a mapping has two levels: queries and documents."""
    return _is_nested(data) and not any(
        isinstance(one, Mapping) for docs in data.values() for one in docs.values()
    )


def _refuse_swapped_dicts(qrels: pd.DataFrame, runs: Any, where: str) -> None:
    """Refuse dicts if the qrels have fractions, as scores do, and the run has only integers."""
    rows = np.flatnonzero(_has_fraction(qrels[LABEL]))
    frames = [runs] if isinstance(runs, pd.DataFrame) else runs.values()
    if len(rows) and not any(_has_fraction(run[SCORE]).any() for run in frames):
        row = qrels.iloc[rows[0]]
        raise ColumnError(
            f"{where}: qrels have fractions ({row[LABEL]:g} for qid {row[QID]!r}, docno "
            f"{row[DOCNO]!r}; {such(len(rows))}) and the run has only integers, so they "
            f"seem to be swapped{_REMEDY}"
        )


def _has_fraction(column: pd.Series) -> BoolArray:
    numbers = as_numbers(column)
    fractions: BoolArray = np.isfinite(numbers) & (numbers != np.floor(numbers))
    return fractions
