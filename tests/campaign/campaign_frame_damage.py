"""Mutations of frames that no measure or transformer may take."""

from __future__ import annotations

import datetime
import random
from typing import Any

import numpy as np
import pandas as pd
from campaign_case import FATAL
from campaign_frame_mutations import IDS, NUMBERS, Changed, add

HALF = "\ud800"


def _with(frame: pd.DataFrame, column: str, row: int, value: Any) -> pd.DataFrame:
    """Return a frame with one value replaced, whatever its type."""
    values: list[Any] = frame[column].tolist()
    values[row] = value
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return frame.assign(**{column: pd.Series(held, index=frame.index, dtype=object)})


def _ids(name: str, frame: pd.DataFrame, row: int, column: str = "") -> tuple[str, ...]:
    """Return the ids of a row; none where a whole column is of a wrong type."""
    if column in ("rank", "sample"):
        return ()
    return tuple(str(frame[c].iloc[row]) for c in IDS[name])


@add(FATAL)
def a_column_is_missing(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    needed = {"run": ("qid", "docno"), "qrels": ("qid", "docno", "label"),
              "groups": ("docno", "group"), "topics": ("qid", "query")}[name]  # fmt: skip
    column = rng.choice(needed)
    return Changed(frame.drop(columns=column), (column,))


@add(FATAL)
def a_column_twice(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    column = rng.choice([*IDS[name], *(c for c in NUMBERS[name] if c in frame)])
    return Changed(pd.concat([frame, frame[[column]]], axis=1), (column,))


@add(FATAL)
def columns_of_two_levels(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    names = [(c, rng.choice(["", "x"])) for c in frame.columns]
    return Changed(frame.set_axis(pd.MultiIndex.from_tuples(names), axis=1))


@add(FATAL, others_take=True)
def what_is_no_frame(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    return Changed(rng.choice([None, 7, "frame", frame[IDS[name][0]], frame.to_numpy()]))


@add(FATAL)
def an_id_that_is_missing(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    column, row = rng.choice(IDS[name]), rng.randrange(len(frame))
    value = rng.choice([None, np.nan, pd.NA, pd.NaT])
    if rng.random() < 0.3 and value is not pd.NaT:
        made = frame[column].astype("string")
        made.iloc[row] = pd.NA
        return Changed(frame.assign(**{column: made}), (column,))
    return Changed(_with(frame, column, row, value), (column,))


@add(FATAL)
def an_id_of_a_wrong_type(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    column, row = rng.choice(IDS[name]), rng.randrange(len(frame))
    old = str(frame[column].iloc[row])
    value = rng.choice([
        [old], (old,), {"id": old}, old.encode(), 1.5, True, {old}, datetime.date(2020, 1, 1),
        float("inf"), 1j, object(),
    ])  # fmt: skip
    return Changed(_with(frame, column, row, value), (column,))


@add(FATAL)
def all_ids_as_bytes(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    column = rng.choice(IDS[name])
    return Changed(frame.assign(**{column: [v.encode() for v in frame[column]]}), (column,))


@add(FATAL)
def an_id_with_a_sign_that_breaks(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    column, row = rng.choice(IDS[name]), rng.randrange(len(frame))
    old = str(frame[column].iloc[row])
    value = rng.choice([f"{old}\0", f"\0{old}", f"a\0{old}", f"\ufeff{old}", f"{old}{HALF}"])
    return Changed(_with(frame, column, row, value), (column,))


@add(FATAL, ("run", "qrels", "groups"))
def a_row_twice(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    row = rng.randrange(len(frame))
    again = frame.iloc[[row]]
    if name == "qrels" and rng.random() < 0.5:
        again = again.assign(label=again["label"] + 1)
    if name == "run" and rng.random() < 0.5:
        again = again.assign(rank=frame["rank"].max() + 1, score=frame["score"].min() - 1)
    both = pd.concat([frame, again], ignore_index=True)
    return Changed(both, IDS[name], _ids(name, frame, row))


@add(FATAL, ("topics",))
def a_topic_twice(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    row = rng.randrange(len(frame))
    again = pd.concat([frame, frame.iloc[[row]]], ignore_index=True)
    return Changed(again, ("qid",), _ids(name, frame, row))


@add(FATAL, ("run", "qrels", "groups"))
def an_id_as_number_and_as_text(
    rng: random.Random, name: str, frame: pd.DataFrame
) -> Changed | None:
    for column in IDS[name]:
        counts = frame[column].value_counts()
        several = [v for v, n in counts.items() if n > 1 and v.isdigit() and str(int(v)) == v]
        if several:
            row = list(frame[column]).index(several[0])
            return Changed(_with(frame, column, row, int(several[0])), (column,))
    return None


@add(FATAL, ("run",))
def a_rank_twice(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed | None:
    first = frame[frame["rank"] == frame["rank"].min()].index[0]
    second = frame.index[list(frame.index).index(first) + 1]
    if frame.at[second, "rank"] <= frame.at[first, "rank"]:
        return None
    changed = frame.copy()
    changed.loc[second, "rank"] = changed.loc[first, "rank"]
    return Changed(changed, ("rank",), (str(frame.at[first, "qid"]),))


@add(FATAL, ("run",))
def ranks_against_scores(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed | None:
    if frame["score"].nunique() < 2:
        return None
    return Changed(frame.assign(score=-frame["score"]), ("rank", "score"))


@add(FATAL, ("run", "qrels", "groups"))
def a_number_that_is_none(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed | None:
    present = [c for c in NUMBERS[name] if c in frame]
    if not present:
        return None
    column, row = rng.choice(present), rng.randrange(len(frame))
    value = rng.choice(
        [np.nan, None, np.inf, -np.inf, "x", "1", pd.NA, [1], b"1", 10**400, 1j, HALF]
    )
    if (
        name == "groups" and isinstance(value, str) and value == "1"
    ):  # weights may be plain numbers as text
        value = "1_0"
    return Changed(_with(frame, column, row, value), (column,), _ids(name, frame, row, column))


@add(FATAL, ("run", "qrels", "groups"))
def a_float_that_is_none(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed | None:
    present = [c for c in NUMBERS[name] if c in frame]
    if not present:
        return None
    column, row = rng.choice(present), rng.randrange(len(frame))
    made = frame[column].astype("float64")
    made.iloc[row] = rng.choice([np.nan, np.inf, -np.inf])
    return Changed(frame.assign(**{column: made}), (column,), _ids(name, frame, row, column))


@add(FATAL, ("run",))
def a_rank_or_sample_between(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    column = rng.choice([c for c in ("rank", "sample") if c in frame])
    made = frame[column].astype("float64")
    row = rng.randrange(len(frame))
    made.iloc[row] += 0.5
    return Changed(frame.assign(**{column: made}), (column,))


@add(FATAL, ("run",))
def a_sample_below_zero(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed | None:
    if "sample" not in frame:
        return None
    changed = frame.copy()
    changed.loc[changed["sample"] == changed["sample"].min(), "sample"] = -1
    return Changed(changed, ("sample",))


@add(FATAL, ("run",))
def half_of_the_samples_missing(
    rng: random.Random, name: str, frame: pd.DataFrame
) -> Changed | None:
    if "sample" not in frame:
        return None
    made = frame["sample"].astype("float64").where(frame["sample"] > frame["sample"].min())
    return Changed(frame.assign(sample=made), ("sample",))


@add(FATAL, ("groups",))
def a_weight_that_is_none(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed:
    row = rng.randrange(len(frame))
    weight = [1.0] * len(frame)
    weight[row] = rng.choice([-1.0, np.nan, np.inf, -0.25])
    return Changed(frame.assign(weight=weight), ("weight",), _ids(name, frame, row))


@add(FATAL, ("run", "qrels"))
def numbers_as_text(rng: random.Random, name: str, frame: pd.DataFrame) -> Changed | None:
    present = [c for c in NUMBERS[name] if c in frame]
    if not present:
        return None
    column = rng.choice(present)
    return Changed(frame.assign(**{column: frame[column].astype(str)}), (column,))
