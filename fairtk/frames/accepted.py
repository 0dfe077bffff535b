"""Accepted forms of qrels and runs: frames, tables, dicts of dicts, named tuples, records.

`fairtk.frames.Run` and `fairtk.frames.Qrels` accept all of them (`as_frame`);
`fairtk.io.runs.as_run` and `fairtk.io.qrels.as_qrels` also accept files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from os import PathLike
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa

from fairtk.errors import ColumnError, InputError
from fairtk.frames.columns import (
    DOCNO,
    EXPOSURE,
    LABEL,
    QID,
    RANK,
    SCORE,
    plain_columns,
    pyterrier_names,
)
from fairtk.wording import such

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


def as_frame(data: Any, value: str, where: str) -> pd.DataFrame:
    """Return qrels or one run as a frame, with unique columns.

    Args:
        data: a frame or table, a dict ``{qid: {docno: value}}``, named tuples such as those of
            ir_measures, or records (a dict per row).
        value: the column of a dict's values: ``label`` for qrels, ``score`` for a run.
        where: the caller and the parameter, for messages.

    Raises:
        ColumnError: the data are in another form, a dict does not have exactly two levels, or the
            columns are those of a run instead of qrels, or the reverse.
        InputError: a dict is empty, or a query of a dict of labels has no documents.
    """
    if isinstance(data, Iterator):
        data = list(data)
    if isinstance(data, Mapping):
        frame = _frame_of_mapping(data, value, where)
    elif are_rows(data):
        frame = frame_of_rows(data, (QID, DOCNO, value))
    else:
        frame = frame_of(data)
    if isinstance(frame, list | tuple):
        raise ColumnError(
            f"{where}: expected a DataFrame, a dict {{qid: {{docno: {value}}}}}, named tuples or "
            f"records with the same fields, got a {type(frame).__name__}"
        )
    plain_columns(frame, where)
    if message := swapped_message(frame.columns, value):
        raise ColumnError(f"{where}: {message}")
    return frame


def is_one_run(data: Any) -> bool:
    """Return whether data is one run in any form, and not several runs."""
    if isinstance(data, Mapping):
        return (
            bool(data)
            and _is_nested(data)
            and not any(isinstance(one, Mapping) for docs in data.values() for one in docs.values())
        )
    if isinstance(data, list | tuple):
        return bool(data) and are_rows(data)
    return True


def are_rows(data: Any) -> bool:
    """Return whether data is a list of named tuples or of records with the same fields.

    A record is a dict of single values. An empty list is one, too.
    """
    if not isinstance(data, list | tuple):
        return False
    if data and all(isinstance(one, Mapping) for one in data):
        values = chain.from_iterable(one.values() for one in data)
        return len({frozenset(one) for one in data}) == 1 and not any(
            isinstance(value, Mapping) for value in values
        )
    fields = {getattr(kind, "_fields", None) for kind in {*map(type, data)}}
    return not fields or len(fields) == 1 and None not in fields


def frame_of_rows(data: Sequence[Any], if_empty: Iterable[str]) -> pd.DataFrame:
    """Return named tuples or records as a frame with PyTerrier's names of columns."""
    if not data:
        return pd.DataFrame({name: column_of(()) for name in if_empty})
    if isinstance(data[0], Mapping):
        fields = [*data[0]]
        columns: Iterable[Any] = ([one[field] for one in data] for field in fields)
    else:
        fields, columns = data[0]._fields, zip(*data, strict=True)
    names = pyterrier_names(fields)
    return pd.DataFrame(dict(zip(names, map(column_of, columns), strict=False)))


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
    # in a run, a query without documents is a missing query; in qrels, it is an error
    empty = [qid for qid, docs in data.items() if not docs]
    if empty and (value == LABEL or not qids):
        raise InputError(
            f"{where}: qid {empty[0]!r} has no documents ({such(len(empty), 'query')})"
        )
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


def _is_nested(data: Any) -> bool:
    """Return whether data is a mapping of mappings."""
    return isinstance(data, Mapping) and all(isinstance(one, Mapping) for one in data.values())
