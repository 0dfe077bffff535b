"""Qrels and runs in every form that ir_measures takes, as frames with PyTerrier's names.

A frame, a mapping of mappings and a list of named tuples say the same, so they are read by the
same rules: `Qrels` and `Run` check what `as_frame` gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any

import pandas as pd

from fairtk.errors import ColumnError
from fairtk.frames.columns import DOCNO, QID, from_ir_measures
from fairtk.frames.ids import strange_character


def as_frame(data: Any, value: str, where: str) -> pd.DataFrame:
    """Return qrels or a run as a frame; a frame's columns are renamed and no more.

    Args:
        data: a frame in either names, a mapping of queries to mappings of documents to values, or
            rows that are named tuples.
        value: the column of a mapping's values, ``label`` or ``score``.
        where: who asks, and what it is, for messages.

    Raises:
        ColumnError: it has none of these forms, or columns that `from_ir_measures` refuses.
    """
    if isinstance(data, pd.DataFrame):
        return from_ir_measures(data, where)
    rows = None
    if isinstance(data, Mapping):
        if all(isinstance(docs, Mapping) for docs in data.values()):
            return _of_mapping(data, value)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        rows = list(data)
        fields = getattr(rows[0], "_fields", None) if rows else (QID, DOCNO, value)
        if fields is not None and all(getattr(row, "_fields", None) == fields for row in rows):
            columns = {f: _column(list(map(attrgetter(f), rows))) for f in fields}
            return from_ir_measures(pd.DataFrame(columns), where)
    found = next(iter(rows)) if rows else data
    raise ColumnError(
        f"{where} must be a DataFrame, a mapping of queries to mappings of documents to values, or "
        f"named tuples with the same fields; found {found!r:.80} ({type(found).__name__})"
    )


def is_plain(mapping: Mapping[Any, Any]) -> bool:
    """Return whether a mapping of mappings needs no closer look: ids and values are in order.

    A look at all of it at once, which costs a fiftieth of what evaluators do with it.
    """
    try:
        ids = "".join(chain(mapping, chain.from_iterable(mapping.values())))
        total = sum(chain.from_iterable(docs.values() for docs in mapping.values()))
        return strange_character(ids) is None and math.isfinite(total)
    except (AttributeError, OverflowError, TypeError):
        return False


def _of_mapping(mapping: Mapping[Any, Mapping[Any, Any]], value: str) -> pd.DataFrame:
    qids = [qid for qid, docs in mapping.items() for _ in range(len(docs))]
    docnos = list(chain.from_iterable(mapping.values()))
    values = list(chain.from_iterable(docs.values() for docs in mapping.values()))
    columns = {QID: _column(qids), DOCNO: _column(docnos), value: _column(values)}
    return pd.DataFrame(columns)


def _column(values: list[Any]) -> pd.Series:
    """Return a column of numbers, or of objects as they are: pandas cannot hold all text."""
    numbers = values and set(map(type, values)) <= {int, float}
    return pd.Series(values, dtype=None if numbers else object)
