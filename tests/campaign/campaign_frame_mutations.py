"""Mutations of frames that keep what they say, or change it on purpose."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from campaign_case import MEANINGFUL, NEUTRAL

NAMES = ("run", "qrels", "groups", "topics")
IDS = {"run": ("qid", "docno"), "qrels": ("qid", "docno"), "groups": ("docno",),
       "topics": ("qid",)}  # fmt: skip
NUMBERS = {"run": ("score", "rank", "sample"), "qrels": ("label",), "groups": ("weight",),
           "topics": ()}  # fmt: skip


@dataclass
class Changed:
    """A mutated frame.

    Attributes:
        frame: the frame, or what stands in its place.
        columns: the columns that are wrong; None: the frame as a whole.
        ids: ids of the row that is wrong; a message must name one of them.
    """

    frame: Any
    columns: tuple[str, ...] | None = None
    ids: tuple[str, ...] = ()


Change = Callable[[random.Random, str, pd.DataFrame], Changed | pd.DataFrame | None]


@dataclass(frozen=True)
class FrameMutation:
    """A mutation of a frame.

    Attributes:
        name: its class.
        kind: neutral, fatal or meaningful.
        frames: what it is for.
        change: returns the mutated frame; None: this one gives no occasion.
        loses_samples: what takes sampled runs only must not look at it.
        others_take: ir_measures refuses, or takes, what this gives, before fairtk sees it.
    """

    name: str
    kind: str
    frames: tuple[str, ...]
    change: Change
    others_take: bool = False
    loses_samples: bool = False


FRAME_MUTATIONS: list[FrameMutation] = []


def add(kind: str, frames: tuple[str, ...] = NAMES, **options: bool) -> Callable[[Change], Change]:
    """Return a decorator that adds a mutation named after the function."""

    def added(change: Change) -> Change:
        name = change.__name__.replace("_", " ")
        FRAME_MUTATIONS.append(FrameMutation(name, kind, frames, change, **options))
        return change

    return added


@add(NEUTRAL)
def nothing(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@add(NEUTRAL)
def rows_in_another_order(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sample(frac=1, random_state=rng.randrange(1000))


@add(NEUTRAL)
def another_index(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    n = len(frame)
    kinds: list[Any] = [
        [7] * n, [f"r{i % 2}" for i in range(n)], np.arange(n)[::-1], [np.nan] * n,
        pd.MultiIndex.from_arrays([[0] * n, range(n)], names=["qid", "docno"]),
        pd.Index(range(n), name="qid"), pd.date_range("2020-01-01", periods=n),
    ]  # fmt: skip
    return frame.set_axis(rng.choice(kinds), axis=0)


@add(NEUTRAL)
def ids_of_another_type(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    kind = rng.choice(["object", "category", "string[python]", "string[pyarrow]", "str", "numpy"])
    for column in IDS[name]:
        values = frame[column]
        if kind == "numpy":
            made = pd.Series([np.str_(v) for v in values], dtype=object, index=frame.index)
        elif kind == "category":
            unused = pd.Categorical(values, categories=[*sorted(set(values)), "unused"])
            made = pd.Series(unused, index=frame.index)
        else:
            made = values.astype(kind)
        frame = frame.assign(**{column: made})
    return frame


@add(NEUTRAL)
def ids_as_integers(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    plain = [c for c in IDS[name] if all(str(v).isdigit() and str(int(v)) == v for v in frame[c])]
    if not plain:
        return None
    kind = rng.choice(["int64", "int32", "Int64", "object", "uint16", "int64[pyarrow]"])
    for column in plain:
        frame = frame.assign(**{column: frame[column].astype("int64").astype(kind)})
    return frame


@add(NEUTRAL, ("run", "qrels", "groups"))
def numbers_of_another_type(
    rng: random.Random, name: str, frame: pd.DataFrame
) -> pd.DataFrame | None:
    present = [c for c in NUMBERS[name] if c in frame]
    if not present:
        return None
    for column in present:
        whole = frame[column].dtype.kind == "i"
        kinds = ["object", "float64", "Float64", "float32", "double[pyarrow]"]
        kinds = ["object", "Int64", "int8", "uint16", "int32", "int64[pyarrow]"] if whole else kinds
        if column in ("label", "rank"):
            kinds += ["float64", "Float64"]
        frame = frame.assign(**{column: frame[column].astype(rng.choice(kinds))})
    return frame


@add(NEUTRAL)
def columns_in_another_order(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame[rng.sample(list(frame.columns), len(frame.columns))]


@add(NEUTRAL)
def further_columns(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.assign(note=[["x"]] * len(frame), other=np.nan)
    frame.columns.name = "columns"
    return frame


@add(NEUTRAL)
def a_view_of_a_larger_frame(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.iloc[:0], frame]).iloc[len(frame) :]


@add(NEUTRAL, ("run",))
def ranks_from_one_or_with_gaps(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(rank=frame["rank"] * rng.randint(1, 4) + rng.randint(0, 3))


@add(NEUTRAL, ("run",))
def samples_with_gaps(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    return frame.assign(sample=frame["sample"] * 5 + 2) if "sample" in frame else None


@add(NEUTRAL, ("run",))
def no_ranks(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    keys = [c for c in ("qid", "sample", "score") if c in frame]
    return None if frame.duplicated(keys).any() else frame.drop(columns="rank")


@add(NEUTRAL, ("qrels",))
def labels_as_booleans(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    return frame.assign(label=frame["label"] > 0) if frame["label"].max() <= 1 else None


# What changes the meaning -----------------------------------------------------------------------


@add(MEANINGFUL)
def rows_are_gone(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(index=rng.sample(list(frame.index), rng.randint(1, len(frame) // 2)))


@add(MEANINGFUL, ("run", "qrels"))
def a_query_is_gone(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame["qid"] != rng.choice(list(frame["qid"]))]


@add(MEANINGFUL)
def no_rows(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[:0]


@add(MEANINGFUL, ("run", "qrels", "groups"))
def two_values_change_places(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    column = rng.choice([c for c in (*IDS[name], *NUMBERS[name]) if c in frame])
    values = list(frame[column])
    one, two = rng.randrange(len(values)), rng.randrange(len(values))
    values[one], values[two] = values[two], values[one]
    return frame.assign(**{column: pd.Series(values, index=frame.index, dtype=frame[column].dtype)})


@add(MEANINGFUL)
def an_id_that_nobody_knows(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    column = rng.choice(IDS[name])
    old = rng.choice(list(frame[column]))
    new = rng.choice([f"{old}x", "other", "NULL", "nan", " ", "", f" {old}", "a b", "日本", "d\n1"])
    return frame.assign(**{column: frame[column].replace(old, new)})


@add(MEANINGFUL, ("run",), loses_samples=True)
def samples_are_lost(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    return frame.drop(columns="sample") if "sample" in frame else None


@add(MEANINGFUL, ("run",))
def one_sample_is_shorter(
    rng: random.Random, name: str, frame: pd.DataFrame
) -> pd.DataFrame | None:
    if "sample" not in frame:
        return None
    return frame[(frame["sample"] != frame["sample"].max()) | (frame["rank"] < frame["rank"].max())]


@add(MEANINGFUL, ("qrels",))
def labels_below_zero_and_between(
    rng: random.Random, name: str, frame: pd.DataFrame
) -> pd.DataFrame:
    values = [float(rng.choice([-2, -1, 0, 1, 0.5, 0.25, 3])) for _ in range(len(frame))]
    return frame.assign(label=values)


@add(MEANINGFUL, ("qrels",))
def huge_labels(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    values = list(frame["label"])
    values[rng.randrange(len(values))] = rng.choice(
        [10**6, 10**9, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1]
    )
    return frame.assign(label=values)


@add(MEANINGFUL, ("qrels",))
def nothing_is_useful(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    qid = rng.choice(list(frame["qid"]))
    return frame.assign(label=frame["label"].where(frame["qid"] != qid, 0))


@add(MEANINGFUL)
def ids_as_floats(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame | None:
    plain = [c for c in IDS[name] if all(str(v).isdigit() and str(int(v)) == v for v in frame[c])]
    if not plain:
        return None
    column = rng.choice(plain)
    return frame.assign(**{column: frame[column].astype(rng.choice(["float64", "Float64"]))})


@add(MEANINGFUL, ("run",))
def documents_that_are_not_judged(
    rng: random.Random, name: str, frame: pd.DataFrame
) -> pd.DataFrame:
    return frame.assign(docno="unjudged-" + frame["docno"])


@add(MEANINGFUL, ("groups",))
def weights_of_all_sizes(rng: random.Random, name: str, frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(weight=[rng.choice([0.5, 1, 3, 1e-9, 1e9]) for _ in range(len(frame))])
