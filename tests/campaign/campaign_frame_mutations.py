"""Mutations of frames: those that keep the meaning, those that change it, and fatal ones."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from campaign_case import FATAL, MEANINGFUL, NEUTRAL

IDS = {
    "run": ["qid", "docno"],
    "qrels": ["qid", "docno"],
    "groups": ["docno"],
    "topics": ["qid"],
}
NUMBERS = {"run": ["score", "rank", "sample"], "qrels": ["label"], "groups": ["weight"]}
NEEDED = {
    "run": ["qid", "docno"],
    "qrels": ["qid", "docno", "label"],
    "groups": ["docno", "group"],
    "topics": ["qid", "query"],
}
WITH_NUMBERS = ("run", "qrels", "groups")


@dataclass
class Draft:
    """A frame before its mutation, `name` is `run`, `qrels`, `groups` or `topics`."""

    rng: random.Random
    name: str
    frame: pd.DataFrame

    @property
    def ids(self) -> list[str]:
        """The columns of ids."""
        return IDS[self.name]

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers that the frame has."""
        return [c for c in NUMBERS.get(self.name, []) if c in self.frame]

    @property
    def integer_ids(self) -> list[str]:
        """The columns of ids that are written integers."""
        return [c for c in self.ids if all(map(_is_integer, self.frame[c]))]

    def a_row(self) -> int:
        """Return the position of a random row."""
        return self.rng.randrange(len(self.frame))

    def with_value(self, column: str, row: int, value: Any) -> pd.DataFrame:
        """Return the frame with one other value, of any type."""
        values = np.empty(len(self.frame), dtype=object)
        values[:] = self.frame[column].tolist()
        values[row] = value
        return self.frame.assign(**{column: pd.Series(values, self.frame.index, dtype=object)})

    def ids_of(self, row: int) -> tuple[str, ...]:
        """Return the ids of a row."""
        return tuple(str(self.frame[c].iloc[row]) for c in self.ids)


@dataclass
class Fault:
    """A mutated frame that must be refused.

    Attributes:
        columns: the wrong columns; who does not read them need not refuse the frame.
        ids: the ids of the wrong row; a message must name one of them.
    """

    frame: pd.DataFrame
    columns: list[str]
    ids: tuple[str, ...] = ()


Change = Callable[[Draft], Any]


@dataclass(frozen=True)
class Mutation:
    """A mutation of a frame.

    Attributes:
        name: its name.
        kind: neutral, fatal or meaningful.
        frames: the frames that it is for.
        change: returns the mutated frame, or a `Fault` if it is fatal; `None` if the frame does
            not allow the mutation.
    """

    name: str
    kind: str
    frames: tuple[str, ...]
    change: Change


MUTATIONS: list[Mutation] = []


def add(kind: str, *frames: str) -> Callable[[Change], Change]:
    """Return a decorator that adds a mutation with the name of the function."""

    def decorate(change: Change) -> Change:
        name = change.__name__.replace("_", " ")
        MUTATIONS.append(Mutation(name, kind, frames or tuple(IDS), change))
        return change

    return decorate


def _is_integer(text: str) -> bool:
    return text.isdigit() and str(int(text)) == text


@add(NEUTRAL)
def nothing(draft):
    return draft.frame


@add(NEUTRAL)
def rows_in_another_order(draft):
    return draft.frame.sample(frac=1, random_state=draft.rng.randrange(1000))


@add(NEUTRAL)
def another_index(draft):
    n = len(draft.frame)
    indices = [
        [7] * n,
        np.arange(n)[::-1],
        [np.nan] * n,
        pd.MultiIndex.from_arrays([[0] * n, range(n)], names=["qid", "docno"]),
        pd.Index(range(n), name="qid"),
    ]
    return draft.frame.set_axis(draft.rng.choice(indices), axis=0)


@add(NEUTRAL)
def ids_of_another_type(draft):
    kind = draft.rng.choice(["object", "category", "string[python]", "string[pyarrow]"])
    frame = draft.frame.astype(dict.fromkeys(draft.ids, kind))
    if kind == "category":
        for column in draft.ids:
            frame[column] = frame[column].cat.add_categories("unused")
    return frame


@add(NEUTRAL)
def ids_as_integers(draft):
    kind = draft.rng.choice(["int64", "Int64", "object", "uint16", "int64[pyarrow]"])
    columns = dict.fromkeys(draft.integer_ids, "int64")
    return draft.frame.astype(columns).astype(dict.fromkeys(columns, kind)) if columns else None


@add(NEUTRAL, *WITH_NUMBERS)
def numbers_of_another_type(draft):
    types = {}
    for column in draft.numbers:
        kinds = ["object", "float64", "Float64", "float32", "double[pyarrow]"]
        if draft.frame[column].dtype.kind == "i":
            kinds = ["object", "Int64", "int8", "uint16", "int64[pyarrow]"]
        if column in ("label", "rank"):
            kinds += ["float64", "Float64"]
        types[column] = draft.rng.choice(kinds)
    return draft.frame.astype(types) if types else None


@add(NEUTRAL)
def columns_in_another_order(draft):
    columns = list(draft.frame.columns)
    return draft.frame[draft.rng.sample(columns, len(columns))]


@add(NEUTRAL)
def other_columns(draft):
    frame = draft.frame.assign(note=[["x"]] * len(draft.frame), other=np.nan)
    frame.columns.name = "columns"
    return frame


@add(NEUTRAL, "run")
def ranks_from_one_or_with_gaps(draft):
    rank = draft.frame["rank"] * draft.rng.randint(1, 4) + draft.rng.randint(0, 3)
    return draft.frame.assign(rank=rank)


@add(NEUTRAL, "run")
def samples_with_gaps(draft):
    frame = draft.frame
    return frame.assign(sample=frame["sample"] * 5 + 2) if "sample" in frame else None


@add(NEUTRAL, "run")
def no_ranks(draft):
    keys = [c for c in ("qid", "sample", "score") if c in draft.frame]
    return None if draft.frame.duplicated(keys).any() else draft.frame.drop(columns="rank")


@add(NEUTRAL, "qrels")
def labels_as_booleans(draft):
    label = draft.frame["label"]
    return draft.frame.assign(label=label > 0) if label.max() <= 1 else None


# The meaning changes ------------------------------------------------------------------------------


@add(MEANINGFUL)
def missing_rows(draft):
    n_missing = draft.rng.randint(1, len(draft.frame) // 2)
    return draft.frame.drop(index=draft.rng.sample(list(draft.frame.index), n_missing))


@add(MEANINGFUL, "run", "qrels")
def a_missing_query(draft):
    return draft.frame[draft.frame["qid"] != draft.rng.choice(list(draft.frame["qid"]))]


@add(MEANINGFUL)
def no_rows(draft):
    return draft.frame.iloc[:0]


@add(MEANINGFUL, *WITH_NUMBERS)
def two_values_swapped(draft):
    column = draft.frame[draft.rng.choice([*draft.ids, *draft.numbers])]
    values, one, two = column.tolist(), draft.a_row(), draft.a_row()
    values[one], values[two] = values[two], values[one]
    swapped = pd.Series(values, index=column.index, dtype=column.dtype)
    return draft.frame.assign(**{column.name: swapped})


@add(MEANINGFUL)
def an_unknown_id(draft):
    column = draft.rng.choice(draft.ids)
    old = draft.rng.choice(list(draft.frame[column]))
    new = draft.rng.choice([f"{old}x", "other", "NULL", "nan", "", f" {old}", "a b", "日本"])
    return draft.frame.assign(**{column: draft.frame[column].replace(old, new)})


@add(MEANINGFUL, "run")
def no_samples(draft):
    return draft.frame.drop(columns="sample") if "sample" in draft.frame else None


@add(MEANINGFUL, "run")
def a_shorter_sample(draft):
    frame = draft.frame
    if "sample" not in frame:
        return None
    return frame[(frame["sample"] != frame["sample"].max()) | (frame["rank"] < frame["rank"].max())]


@add(MEANINGFUL, "qrels")
def other_labels(draft):
    labels = [-2, -1, 0, 1, 3, *draft.rng.choice([[0.5, 0.25], []])]
    return draft.frame.assign(label=[float(draft.rng.choice(labels)) for _ in draft.frame.index])


@add(MEANINGFUL, "qrels")
def no_useful_document(draft):
    is_other = draft.frame["qid"] != draft.rng.choice(list(draft.frame["qid"]))
    return draft.frame.assign(label=draft.frame["label"].where(is_other, 0))


@add(MEANINGFUL)
def ids_as_floats(draft):
    if not draft.integer_ids:
        return None
    return draft.frame.astype({draft.rng.choice(draft.integer_ids): "float64"})


@add(MEANINGFUL, "groups")
def weights_of_all_sizes(draft):
    weights = [draft.rng.choice([0.5, 1, 3, 1e-9, 1e9]) for _ in draft.frame.index]
    return draft.frame.assign(weight=weights)


# Fatal --------------------------------------------------------------------------------------------


@add(FATAL)
def a_missing_column(draft):
    column = draft.rng.choice(NEEDED[draft.name])
    return Fault(draft.frame.drop(columns=column), [column])


@add(FATAL)
def a_duplicate_column(draft):
    column = draft.rng.choice([*draft.ids, *draft.numbers])
    return Fault(pd.concat([draft.frame, draft.frame[[column]]], axis=1), [column])


@add(FATAL)
def a_missing_id(draft):
    column, row = draft.rng.choice(draft.ids), draft.a_row()
    value = draft.rng.choice([None, np.nan, pd.NA, pd.NaT])
    frame = draft.with_value(column, row, value)
    if draft.rng.random() < 0.3 and value is not pd.NaT:
        frame = frame.astype({column: "string"})
    return Fault(frame, [column])


@add(FATAL)
def an_id_of_a_wrong_type(draft):
    column, row = draft.rng.choice(draft.ids), draft.a_row()
    old = str(draft.frame[column].iloc[row])
    value = draft.rng.choice([[old], {"id": old}, old.encode(), 1.5, True, datetime.date.min])
    return Fault(draft.with_value(column, row, value), [column])


@add(FATAL)
def a_row_twice(draft):
    row = draft.a_row()
    again = draft.frame.iloc[[row]]
    if draft.rng.random() < 0.5 and draft.name == "qrels":
        again = again.assign(label=again["label"] + 1)
    if draft.rng.random() < 0.5 and draft.name == "run":
        frame = draft.frame
        again = again.assign(rank=frame["rank"].max() + 1, score=frame["score"].min() - 1)
    both = pd.concat([draft.frame, again], ignore_index=True)
    return Fault(both, draft.ids, draft.ids_of(row))


@add(FATAL, *WITH_NUMBERS)
def an_id_as_number_and_as_text(draft):
    for column in draft.ids:
        counts = draft.frame[column].value_counts()
        repeated = [v for v, n in counts.items() if n > 1 and _is_integer(v)]
        if repeated:
            row = draft.frame[column].tolist().index(repeated[0])
            return Fault(draft.with_value(column, row, int(repeated[0])), [column])
    return None


@add(FATAL, "run")
def a_rank_twice(draft):
    ranks, row = draft.frame["rank"].tolist(), draft.a_row()
    if row == 0 or ranks[row] <= ranks[row - 1]:
        return None
    ranks[row] = ranks[row - 1]
    return Fault(draft.frame.assign(rank=ranks), ["rank"], draft.ids_of(row)[:1])


@add(FATAL, "run")
def ranks_against_scores(draft):
    if draft.frame["score"].nunique() < 2:
        return None
    return Fault(draft.frame.assign(score=-draft.frame["score"]), ["rank", "score"])


@add(FATAL, *WITH_NUMBERS)
def not_a_number(draft):
    if not draft.numbers:
        return None
    column, row = draft.rng.choice(draft.numbers), draft.a_row()
    values = [np.nan, None, np.inf, "x", "1_0", pd.NA, [1], b"1", 10**400]
    frame = draft.with_value(column, row, draft.rng.choice(values))
    if draft.rng.random() < 0.3:
        frame = draft.frame.astype({column: "float64"})
        frame.loc[frame.index[row], column] = draft.rng.choice([np.nan, np.inf, -np.inf])
    ids = () if column in ("rank", "sample") else draft.ids_of(row)
    return Fault(frame, [column], ids)


@add(FATAL, "run")
def a_rank_or_sample_between(draft):
    column = draft.rng.choice([c for c in ("rank", "sample") if c in draft.frame])
    values = draft.frame[column].astype("float64")
    values.iloc[draft.a_row()] += 0.5
    return Fault(draft.frame.assign(**{column: values}), [column])


@add(FATAL, "run")
def a_missing_or_negative_sample(draft):
    if "sample" not in draft.frame:
        return None
    sample = draft.frame["sample"]
    other = sample.where(sample > sample.min(), draft.rng.choice([-1, np.nan]))
    return Fault(draft.frame.assign(sample=other), ["sample"])


@add(FATAL, "groups")
def a_negative_weight(draft):
    row = draft.a_row()
    weights = [1.0] * len(draft.frame)
    weights[row] = -0.25
    return Fault(draft.frame.assign(weight=weights), ["weight"], draft.ids_of(row))


@add(FATAL, "run", "qrels")
def numbers_as_text(draft):
    column = draft.rng.choice(draft.numbers)
    return Fault(draft.frame.assign(**{column: draft.frame[column].astype(str)}), [column])
