"""Mutations of frames alone: neutral and fatal ones."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
from campaign_case import FATAL, NEUTRAL
from campaign_mutations import Draft, Mutated, add

FRAME = ("frame",)
WITH_NUMBERS = ("run", "qrels", "groups")


def ids_of(draft: Draft) -> list[str]:
    """Return the columns of ids."""
    return [c for c in ("qid", "docno") if c in draft.table.columns]


def numbers_of(draft: Draft) -> list[str]:
    """Return the columns of numbers."""
    numbers = ("score", "rank", "sample", "label", "weight")
    return [c for c in numbers if c in draft.table.columns]


def integer_ids(draft: Draft) -> list[str]:
    """Return the columns of ids that are written integers."""
    return [c for c in ids_of(draft) if all(map(_is_integer, draft.table.column(c)))]


def _is_integer(text: str) -> bool:
    return text.isdigit() and str(int(text)) == text


def with_value(draft: Draft, column: str, row: int, value: Any) -> pd.DataFrame:
    """Return the frame with one other value, of any type."""
    values = np.empty(len(draft.table.rows), dtype=object)
    values[:] = draft.table.column(column)
    values[row] = value
    return draft.raw().assign(**{column: pd.Series(values, dtype=object)})


@add(NEUTRAL, FRAME)
def another_index(draft):
    n = len(draft.table.rows)
    indices = [
        [7] * n,
        np.arange(n)[::-1],
        [np.nan] * n,
        pd.MultiIndex.from_arrays([[0] * n, range(n)], names=["qid", "docno"]),
        pd.Index(range(n), name="qid"),
    ]
    return Mutated(draft.raw().set_axis(draft.rng.choice(indices), axis=0))


@add(NEUTRAL, FRAME)
def ids_of_another_type(draft):
    kind = draft.rng.choice(["object", "category", "string[python]", "string[pyarrow]"])
    frame = draft.raw().astype(dict.fromkeys(ids_of(draft), kind))
    if kind == "category":
        for column in ids_of(draft):
            frame[column] = frame[column].cat.add_categories("unused")
    return Mutated(frame)


@add(NEUTRAL, FRAME)
def ids_as_integers(draft):
    kind = draft.rng.choice(["int64", "Int64", "object", "uint16", "int64[pyarrow]"])
    columns = dict.fromkeys(integer_ids(draft), "int64")
    frame = draft.raw().astype(columns).astype(dict.fromkeys(columns, kind))
    return Mutated(frame) if columns else None


@add(NEUTRAL, FRAME, *WITH_NUMBERS)
def numbers_of_another_type(draft):
    frame, types = draft.raw(), {}
    for column in numbers_of(draft):
        kinds = ["object", "float64", "Float64", "float32", "double[pyarrow]"]
        if frame[column].dtype.kind == "i":
            kinds = ["object", "Int64", "int8", "uint16", "int64[pyarrow]"]
        if column in ("label", "rank"):
            kinds += ["float64", "Float64"]
        types[column] = draft.rng.choice(kinds)
    return Mutated(frame.astype(types)) if types else None


@add(NEUTRAL, FRAME)
def other_columns(draft):
    frame = draft.raw().assign(note=[["x"]] * len(draft.table.rows), other=np.nan)
    frame.columns.name = "columns"
    return Mutated(frame)


@add(NEUTRAL, FRAME, "run")
def no_ranks(draft):
    frame = draft.raw()
    keys = [c for c in ("qid", "sample", "score") if c in frame]
    return None if frame.duplicated(keys).any() else Mutated(frame.drop(columns="rank"))


@add(NEUTRAL, FRAME, "qrels")
def labels_as_booleans(draft):
    label = draft.raw()["label"]
    return Mutated(draft.raw().assign(label=label > 0)) if label.max() <= 1 else None


@add(FATAL, FRAME)
def a_missing_id(draft):
    column, row = draft.rng.choice(ids_of(draft)), draft.a_row()
    value = draft.rng.choice([None, np.nan, pd.NA, pd.NaT])
    frame = with_value(draft, column, row, value)
    if draft.rng.random() < 0.3 and value is not pd.NaT:
        frame = frame.astype({column: "string"})
    return Mutated(frame, columns=(column,))


@add(FATAL, FRAME)
def no_id(draft):
    column, row = draft.rng.choice(ids_of(draft)), draft.a_row()
    old = draft.table.column(column)[row]
    values = [[old], {"id": old}, old.encode(), 1.5, True, datetime.date.min, "", f" {old}"]
    frame = with_value(draft, column, row, draft.rng.choice(values))
    return Mutated(frame, columns=(column,))


@add(FATAL, FRAME, *WITH_NUMBERS)
def an_id_as_number_and_as_text(draft):
    for column in ids_of(draft):
        ids = draft.table.column(column)
        repeated = [value for value in ids if ids.count(value) > 1 and _is_integer(value)]
        if repeated:
            frame = with_value(draft, column, ids.index(repeated[0]), int(repeated[0]))
            return Mutated(frame, columns=(column,))
    return None


@add(FATAL, FRAME, "run")
def a_rank_twice(draft):
    ranks, row = draft.table.column("rank"), draft.a_row()
    if row == 0 or ranks[row] <= ranks[row - 1]:
        return None
    ranks[row] = ranks[row - 1]
    frame = draft.raw().assign(rank=ranks)
    return Mutated(frame, columns=("rank",), ids=draft.ids_of(row)[:1])


@add(FATAL, FRAME, "run")
def ranks_against_scores(draft):
    frame = draft.raw()
    if frame["score"].nunique() < 2:
        return None
    return Mutated(frame.assign(score=-frame["score"]), columns=("rank", "score"))


@add(FATAL, FRAME, *WITH_NUMBERS)
def not_a_number(draft):
    if not numbers_of(draft):
        return None
    column, row = draft.rng.choice(numbers_of(draft)), draft.a_row()
    values = [np.nan, None, np.inf, "x", "1_0", pd.NA, [1], b"1", 10**400]
    frame = with_value(draft, column, row, draft.rng.choice(values))
    if draft.rng.random() < 0.3:
        frame = draft.raw().astype({column: "float64"})
        frame.loc[row, column] = draft.rng.choice([np.nan, np.inf, -np.inf])
    ids = () if column in ("rank", "sample") else draft.ids_of(row)
    return Mutated(frame, columns=(column,), ids=ids)


@add(FATAL, FRAME, "run")
def no_count(draft):
    column = draft.rng.choice([c for c in ("rank", "sample") if c in draft.table.columns])
    values = draft.raw()[column].astype("float64")
    values.iloc[draft.a_row()] = 0.5 if column == "rank" else draft.rng.choice([0.5, -1])
    return Mutated(draft.raw().assign(**{column: values}), columns=(column,))


@add(FATAL, FRAME, "run", "qrels")
def numbers_as_text(draft):
    column = draft.rng.choice(numbers_of(draft))
    frame = draft.raw()
    return Mutated(frame.assign(**{column: frame[column].astype(str)}), columns=(column,))
