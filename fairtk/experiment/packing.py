"""Frames as compact Arrow tables: in memory, sent to workers, and in the store.

Text columns are dictionary-encoded, because the rankings of a query repeat a few documents.
Integers use the fewest bytes. Other objects are saved as JSON or as lists of numbers. Objects that
are neither are rejected in a store, and pickled if the bytes never leave this run.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fairtk.errors import ColumnError
from fairtk.frames import DOCNO, QID

Table = Any
"""A `pyarrow.Table`."""

Span = tuple[str, int, int]
"""The rows of a query in a table: qid, first row, number of rows."""

_KIND = b"fairtk"
_DTYPE = b"dtype"


def spans_of(sizes: Sequence[tuple[str, int]]) -> list[Span]:
    """Return the spans of consecutive queries from qids and sizes."""
    first = np.cumsum([0, *(size for _, size in sizes)]).tolist()
    return [(qid, start, size) for (qid, size), start in zip(sizes, first, strict=False)]


def pack(frame: pd.DataFrame, where: str, durable: bool, spans: Sequence[Span] = ()) -> Table:
    """Return a frame as a table without its index.

    Args:
        frame: the frame.
        where: the stage that returned it, for errors.
        durable: whether the table may be stored, so nothing is pickled.
        spans: the spans of queries, if known; this avoids reading all qids.

    Raises:
        ColumnError: a column is duplicate, or its objects cannot be stored.
    """
    columns = list(frame.columns)
    if len(set(columns)) < len(columns):
        duplicate = next(c for c in columns if columns.count(c) > 1)
        raise ColumnError(f"{where}: duplicate column {duplicate!r}")
    fields, arrays = [], []
    for name in columns:
        if name == QID and spans and str(frame[name].dtype) == _text_dtype():
            qids, _, sizes = zip(*spans, strict=True)
            codes = np.repeat(np.arange(len(qids)), sizes)
            array = pa.DictionaryArray.from_arrays(_small(codes), pa.array(qids, pa.string()))
            field = text_field(QID, array.type)
        else:
            field, array = _packed(frame[name], str(name), where, durable)
        fields.append(field)
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def unpack(
    table: Table, columns: Collection[str] | None = None, codes: bool = False
) -> pd.DataFrame:
    """Return a table as a frame, optionally only some columns.

    With `codes`, ids are categories, which are smaller and faster to look up.
    """
    names = [n for n in table.column_names if columns is None or n in columns]
    return pd.DataFrame({name: _unpacked(table, name, codes) for name in names})


def to_bytes(table: Table) -> bytes:
    """Return a table as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", unify_dictionaries=True)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_bytes(data: bytes, pickled: bool = False) -> Table:
    """Return the table that `to_bytes` wrote.

    Pickled columns could run code, so they are rejected unless the bytes come from this run.
    """
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    if not pickled and any(
        (field.metadata or {}).get(_KIND) == b"pickle" for field in table.schema
    ):
        raise ColumnError("a stored frame has a pickled column, which fairtk never writes")
    return table


def concat_tables(tables: Sequence[Table]) -> Table:
    """Return concatenated tables; missing columns have missing values."""
    if len(tables) == 1:
        return tables[0]
    if len({tuple((f.name, str(f.metadata)) for f in table.schema) for table in tables}) == 1:
        table = pa.concat_tables(tables, promote_options="permissive")
        # the joint dictionary may need wider codes
        fields = [
            f.with_type(pa.dictionary(pa.int32(), f.type.value_type))
            if pa.types.is_dictionary(f.type)
            else f
            for f in table.schema
        ]
        return table.cast(pa.schema(fields))
    frames = [unpack(table) for table in tables]
    filled = [frame for frame in frames if len(frame)] or frames[:1]
    return pack(pd.concat(filled, ignore_index=True), "stored frames", durable=False)


def text_field(name: str, kind: Any) -> Any:
    """Return the field of a dictionary-encoded column of strings."""
    return pa.field(name, kind, metadata={_KIND: b"plain", _DTYPE: _text_dtype().encode()})


def with_cells(table: Table, name: str, cells: Sequence[Any], rows: Any) -> Table:
    """Return a table with a column of strings, or of lists of strings, added or replaced.

    `rows` has the index of the cell for each row.
    """
    if any(isinstance(cell, list) for cell in cells):
        texts = [json.dumps(cell, ensure_ascii=False) for cell in cells]
        column = pa.DictionaryArray.from_arrays(_small(rows), pa.array(texts, pa.string()))
        field = pa.field(name, column.type, metadata={_KIND: b"json", _DTYPE: b"object"})
    else:
        column = pa.DictionaryArray.from_arrays(_small(rows), pa.array(cells, pa.string()))
        field = text_field(name, column.type)
    return _with_column(table, field, column)


def with_mask(table: Table, name: str, mask: Any) -> Table:
    """Return a table with a column of booleans added or replaced."""
    column = pa.array(mask)
    field = pa.field(name, column.type, metadata={_KIND: b"plain", _DTYPE: b"bool"})
    return _with_column(table, field, column)


def _with_column(table: Table, field: Any, column: Any) -> Table:
    if field.name in table.column_names:
        return table.set_column(table.column_names.index(field.name), field, column)
    return table.append_column(field, column)


@functools.cache
def _text_dtype() -> str:
    return str(pd.Series([""], dtype="str").dtype)


def _small(values: Any) -> Any:
    """Return integers as an Arrow array of the fewest bytes, at least two."""
    largest = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    kind = next((k for k in (np.int16, np.int32) if largest <= np.iinfo(k).max), np.int64)
    return pa.array(values.astype(kind, copy=False))


def _encoded(array: Any) -> Any:
    dictionary_array = array.cast(pa.string()).dictionary_encode()
    codes = dictionary_array.indices
    if len(dictionary_array.dictionary) < 1 << 15:
        codes = codes.cast(pa.int16())
    return pa.DictionaryArray.from_arrays(codes, dictionary_array.dictionary)


def _packed(column: pd.Series, name: str, where: str, durable: bool) -> tuple[Any, Any]:
    kind, dtype = b"plain", str(column.dtype)
    if column.dtype in (np.int64, np.int32):
        array = _small(column.to_numpy())
    elif column.dtype != object:
        array = pa.Array.from_pandas(column)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            array = _encoded(array)
    else:
        values = column.tolist()
        if all(isinstance(v, str) or v is None for v in values):
            kind, array = b"text", _encoded(pa.array(values, pa.string()))
        elif all(isinstance(v, np.ndarray) and v.ndim == 1 for v in values):
            kind, dtype, array = b"arrays", str(values[0].dtype), pa.array(values)
        elif (texts := _as_json(values)) is not None:
            kind, array = b"json", _encoded(pa.array(texts, pa.string()))
        elif not durable:
            kind, array = b"pickle", pa.array([pickle.dumps(v) for v in values], pa.binary())
        else:
            odd = next(v for v in values if _as_json([v]) is None)
            raise ColumnError(
                f"{where}: values of type {type(odd).__name__} cannot be stored (column {name!r}); "
                "drop the column after the stage (pt.apply.<column>(drop=True)), or run without "
                "save_dir"
            )
    return pa.field(name, array.type, metadata={_KIND: kind, _DTYPE: dtype.encode()}), array


def _unpacked(table: Table, name: str, codes: bool) -> Any:
    notes = table.schema.field(name).metadata or {}
    kind, dtype = notes.get(_KIND, b"plain"), notes.get(_DTYPE, b"").decode()
    array = table.column(name)
    if codes and name in (QID, DOCNO) and pa.types.is_dictionary(array.type):
        return array.unify_dictionaries().to_pandas()
    if kind == b"plain":
        if pa.types.is_dictionary(array.type) and dtype != "category":
            array = array.cast(pa.string())
        series = array.to_pandas()
        return series if str(series.dtype) == dtype else series.astype(dtype)
    if kind == b"pickle":
        values = [pickle.loads(v) for v in array.to_pylist()]  # noqa: S301 - of this run
    elif kind == b"arrays":
        values = [np.array(v, dtype=dtype) for v in array.to_pylist()]
    else:
        values = array.cast(pa.string()).to_pylist()
        if kind == b"json":
            value_by_text = {text: json.loads(text) for text in set(values)}
            values = [value_by_text[text] for text in values]
    return pd.Series(values, dtype=object)


def _as_json(values: list[Any]) -> list[str] | None:
    """Return values as JSON; `None` if JSON would change them."""
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
