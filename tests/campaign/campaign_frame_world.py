"""Frames of a random world, and the reference's reading of frames that were changed."""

from __future__ import annotations

import math
import random
from typing import Any

import campaign_formulas as formulas
import numpy as np
import pandas as pd
from campaign_case import Refused
from campaign_values import Reading
from campaign_world import World, make_world

WORDS = ["fox", "ship", "sea", "bread", "mice", "dawn", "forest", "lamp", "tide", "kettle"]
Frames = dict[str, pd.DataFrame]


def make_frames(rng: random.Random) -> tuple[World, Frames]:
    """Return a world and its frames: ``run``, ``qrels``, ``groups`` and ``topics``.

    The run has the columns of a run with texts and answers, the qrels have gold answers.
    """
    world = make_world(rng)
    text = {docno: " ".join(rng.choices(WORDS, k=6)) for docno in world.docnos}
    query = {qid: " ".join(rng.choices(WORDS, k=2)) for qid in world.qids}
    run = _frame(world, "run")
    keys = [c for c in ("qid", "sample") if c in run.columns]
    run = run.merge(_frame(world, "answers"), on=keys, how="left")
    run.insert(1, "query", run["qid"].map(query))
    run["text"] = run["docno"].map(text)
    qrels = _frame(world, "qrels").merge(_frame(world, "gold"), on="qid", how="left")
    topics = pd.DataFrame({"qid": world.qids, "query": [query[q] for q in world.qids]})
    return world, {"run": run, "qrels": qrels, "groups": _frame(world, "groups"), "topics": topics}


def _frame(world: World, name: str) -> pd.DataFrame:
    table = world.tables[name]
    return pd.DataFrame({c: table.column(c) for c in table.columns})


# Reading ------------------------------------------------------------------------------------------


def canonical(name: str, frame: Any) -> tuple[pd.DataFrame, list[str]]:
    """Return what a frame says, with plain types, and why some of it is a literal reading only.

    Args:
        name: ``run``, ``qrels``, ``groups`` or ``topics``.
        frame: the frame.

    Raises:
        Refused: it is no such frame.
    """
    if not isinstance(frame, pd.DataFrame):
        raise Refused("no frame")
    if isinstance(frame.columns, pd.MultiIndex) or not frame.columns.is_unique:
        raise Refused("columns that are no names, or stand twice")
    unsaid: list[str] = []
    columns: dict[str, list[Any]] = {}
    for column in frame.columns:
        values = frame[column].tolist()
        if column in ("qid", "docno"):
            values = [_id(value, unsaid) for value in values]
        elif column in ("score", "label", "weight"):
            values = [_number(column, value, unsaid) for value in values]
        elif column in ("rank", "sample"):
            values = [_integer(column, value) for value in values]
        elif column == "group":
            values = ["@UNKNOWN" if _missing(value) else value for value in values]
        columns[column] = values
    clean = pd.DataFrame(columns)
    for column in ("score", "label", "weight"):
        if column in clean:
            clean[column] = clean[column].astype(np.float64)
    if "label" in clean and all(v == int(v) and abs(v) < 2**53 for v in clean["label"]):
        clean["label"] = clean["label"].astype(np.int64)
    for column in ("rank", "sample"):
        if column in clean:
            clean[column] = clean[column].astype(np.int64)
    for column in ("qid", "docno", "group", "query", "text", "qanswer"):
        if column in clean:
            clean[column] = clean[column].astype("str")
    return clean, unsaid


def reading(name: str, clean: pd.DataFrame) -> Any:
    """Return the rankings, labels or weights that a clean frame says.

    Raises:
        Refused: something stands twice, or ranks and scores disagree.
    """
    records = clean.to_dict("records")
    found = Reading(records, [None] * len(records))
    if name == "qrels":
        return formulas.labels_of(found)
    if name == "groups":
        return formulas.groups_of(found)
    if "rank" in clean:
        keys = [c for c in ("qid", "sample", "rank") if c in clean]
        if clean.duplicated(keys).any():
            raise Refused("a rank twice in a ranking")
    if "sample" in clean:
        for record in records:
            record["sample"] = str(record["sample"])
    return formulas.run_of(found, "frame")


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def _id(value: Any, unsaid: list[str]) -> str:
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        if isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
            unsaid.append("an id is a float")
            return str(int(value))
        raise Refused(f"an id is {value!r}")
    text = str(value)
    if any(c in "\0\ufeff" or 0xD800 <= ord(c) < 0xE000 for c in text):
        raise Refused(f"an id is {value!r}")
    if text != text.strip() or not text:
        unsaid.append("an id is empty or has spaces around it")
    return text


def _number(column: str, value: Any, unsaid: list[str]) -> float:
    if _missing(value) or isinstance(value, str | bytes | list | complex):
        raise Refused(f"{column} is {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or (column == "weight" and number < 0):
        raise Refused(f"{column} is {value!r}")
    if column == "label" and not -1 <= number < 1 << 15:
        unsaid.append("a label out of the usual range")
    return number


def _integer(column: str, value: Any) -> int:
    number = _number(column, value, [])
    if number != int(number) or (column == "sample" and number < 0):
        raise Refused(f"{column} is {value!r}")
    return int(number)
