"""Frames as Arrow tables: compact in memory, on their way to a worker, and in the store.

Text columns are dictionary-encoded, for the rankings of a query repeat the same few documents.
A column of other objects is kept as JSON or as a list of numbers; what is neither is refused in a
store, and pickled where the bytes never leave this run.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fairtk.errors import ColumnError
from fairtk.frames.columns import QANSWER

Table = Any
"""A `pyarrow.Table`."""

_KIND = b"fairtk"
_DTYPE = b"dtype"


def pack(frame: pd.DataFrame, where: str, durable: bool) -> Table:
    """Return a frame as a table.

    Args:
        frame: the frame; its index is dropped.
        where: the stage that made it, for messages.
        durable: whether the table may be stored, so that nothing in it is pickled.

    Raises:
        ColumnError: two columns have one name, or a column holds what cannot be kept.
    """
    columns = list(frame.columns)
    if len(set(columns)) < len(columns):
        twice = next(c for c in columns if columns.count(c) > 1)
        raise ColumnError(f"{where}: two columns are called {twice!r}")
    fields, arrays = [], []
    for name in columns:
        field, array = _packed(frame[name], str(name), where, durable)
        fields.append(field)
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def unpack(table: Table, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a table as the frame that it was made of, or some of its columns.

    Args:
        table: from `pack`.
        columns: the columns wanted; those that the table lacks are left out. None: all.
    """
    wanted = [n for n in table.column_names if columns is None or n in columns]
    return pd.DataFrame({name: _unpacked(table, name) for name in wanted})


def to_bytes(table: Table) -> bytes:
    """Return a table as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_bytes(data: bytes, trusted: bool = False) -> Table:
    """Return the table that `to_bytes` wrote.

    Args:
        data: the bytes.
        trusted: whether they come from a worker of this run; a pickled column of a file, which
            could run code, is an error.
    """
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    if not trusted and any((f.metadata or {}).get(_KIND) == b"pickle" for f in table.schema):
        raise ColumnError("a stored frame has a pickled column: no version of fairtk writes one")
    return table


def joined(tables: Sequence[Table]) -> Table:
    """Return tables below each other; columns that one lacks are missing there."""
    if len(tables) == 1:
        return tables[0]
    schemas = {table.schema for table in tables}
    if len(schemas) == 1:
        return pa.concat_tables(tables)
    frames = [unpack(table) for table in tables]
    filled = [frame for frame in frames if len(frame)] or frames[:1]
    return pack(pd.concat(filled, ignore_index=True), "stored frames", durable=False)


def text_field(name: str, kind: Any) -> Any:
    """Return the field of a dictionary-encoded column of strings.

    Args:
        name: the column's name.
        kind: its Arrow type.
    """
    dtype = str(pd.Series([""], dtype="str").dtype)
    return pa.field(name, kind, metadata={_KIND: b"plain", _DTYPE: dtype.encode()})


def with_answers(table: Any, answers: Any) -> Any:
    """Return a table with the column ``qanswer``, in the place of an earlier one.

    Args:
        table: rows.
        answers: one answer per row, dictionary-encoded.
    """
    column = text_field(QANSWER, answers.type)
    if QANSWER in table.column_names:
        return table.set_column(table.column_names.index(QANSWER), column, answers)
    return table.append_column(column, answers)


def _packed(column: pd.Series, name: str, where: str, durable: bool) -> tuple[Any, Any]:
    """Return a column's field and array."""
    dtype = str(column.dtype)
    if column.dtype != object:
        array = pa.Array.from_pandas(column)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            array = array.cast(pa.string()).dictionary_encode()
        return pa.field(name, array.type, metadata={_KIND: b"plain", _DTYPE: dtype.encode()}), array
    values = column.tolist()
    if all(isinstance(v, str) or v is None for v in values):
        kind, array = b"text", pa.array(values, pa.string()).dictionary_encode()
    elif values and all(isinstance(v, np.ndarray) and v.ndim == 1 for v in values):
        kind, array = b"arrays", pa.array(values)
        dtype = str(values[0].dtype)
    elif (texts := _as_json(values)) is not None:
        kind, array = b"json", pa.array(texts, pa.string()).dictionary_encode()
    elif not durable:
        kind, array = b"pickle", pa.array([pickle.dumps(v) for v in values], pa.binary())
    else:
        odd = next(v for v in values if _as_json([v]) is None)
        raise ColumnError(
            f"{where}: the column {name!r} holds a {type(odd).__name__}, which cannot be kept in a "
            "store: drop the column behind the stage (pt.apply.<column>(drop=True)), or run "
            "without save_dir"
        )
    return pa.field(name, array.type, metadata={_KIND: kind, _DTYPE: dtype.encode()}), array


def _unpacked(table: Table, name: str) -> Any:
    """Return a column's values as pandas takes them."""
    notes = table.schema.field(name).metadata or {}
    kind, dtype = notes.get(_KIND, b"plain"), notes.get(_DTYPE, b"").decode()
    array = table.column(name)
    if kind == b"plain":
        if pa.types.is_dictionary(array.type) and dtype != "category":
            array = array.cast(pa.string())
        series = array.to_pandas()
        return series if str(series.dtype) == dtype else series.astype(dtype)
    if kind == b"text":
        return pd.Series(array.cast(pa.string()).to_pylist(), dtype=object)
    if kind == b"arrays":
        return pd.Series([np.array(v, dtype=dtype) for v in array.to_pylist()], dtype=object)
    if kind == b"json":
        texts = array.cast(pa.string()).to_pylist()
        known = {text: json.loads(text) for text in set(texts)}
        return pd.Series([known[text] for text in texts], dtype=object)
    return pd.Series([pickle.loads(v) for v in array.to_pylist()], dtype=object)  # noqa: S301


def _as_json(values: list[Any]) -> list[str] | None:
    """Return values as JSON, or None if they would not come back as they are."""
    texts = []
    for value in values:
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError):
            return None
        if not _same(json.loads(text), value):
            return None
        texts.append(text)
    return texts


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other or (one != one and other != other))
