"""Cases of frames: one frame of a world is mutated and read by one entry point."""

from __future__ import annotations

import math
import random
import warnings
from pathlib import Path
from typing import Any

import campaign_formulas as formulas
import numpy as np
import pandas as pd
from campaign_case import NEUTRAL, Refused, Unspecified, Verdict, difference
from campaign_entry_points import ENTRY_POINTS, EntryPoint, Frames
from campaign_frame_mutations import MUTATIONS, Draft, Fault, Mutation
from campaign_reader import Reading
from campaign_world import World, make_world

from fairtk.errors import FairtkError, FairtkWarning, ParameterError

WORDS = ["fox", "ship", "sea", "bread", "mice", "dawn", "forest", "lamp", "tide", "kettle"]


def choice(seed: int) -> tuple[Mutation, str, EntryPoint]:
    """Return the mutation of a case, a frame that it is for, and an entry point that reads it."""
    mutation = MUTATIONS[seed % len(MUTATIONS)]
    inputs = [(n, e) for n in mutation.frames for e in ENTRY_POINTS if n in e.reads]
    return mutation, *random.Random(seed).choice(inputs)


def run_case(seed: int, folder: Path | None = None, show: bool = False) -> Verdict:
    """Run a case; with `show`, print the frames and the values. It needs no folder."""
    mutation, name, entry_point = choice(seed)
    verdict = Verdict(f"{entry_point.name} ({name}), {mutation.name}", mutation.kind)
    for attempt in range(30):  # not every world allows every mutation
        rng = random.Random(f"frames {seed} {attempt}")
        world, frames = make_frames(rng)
        if world.is_sampled and not entry_point.takes_samples:
            continue
        mutated = mutation.change(Draft(rng, name, frames[name]))
        if mutated is not None:
            break
    else:
        return verdict
    fault = mutated if isinstance(mutated, Fault) else None
    k = rng.choice([1, 2, 3, 5])
    changed = {**frames, name: fault.frame if fault else mutated}
    wanted: Any
    if fault and set(fault.columns) <= set(entry_point.reads[name]):
        wanted = Refused(mutation.name)
    elif fault:
        wanted = Unspecified("a column that is not read")
    else:
        wanted = _expected(entry_point, frames if mutation.kind == NEUTRAL else changed, k)
    result = _call(entry_point, changed, k)
    if show:
        for each in entry_point.reads:
            print(f"--- {each}\n{changed[each].to_string()}\n{changed[each].dtypes}")
        print(f"--- expected: {wanted!r}\n--- result: {result!r}")
    ids = fault.ids if fault else ()
    if isinstance(result, ParameterError) and str(result) == str(_call(entry_point, frames, k)):
        ids = ()  # refused before the frames are read
    verdict.got = "error" if isinstance(result, Exception) else "value"
    verdict.failure = _failure(entry_point, ids, wanted, result)
    return verdict


def make_frames(rng: random.Random) -> tuple[World, Frames]:
    """Return a world and its `run` (with texts and answers), `qrels`, `groups` and `topics`."""
    world = make_world(rng)
    frames = {n: pd.DataFrame(t.records(), columns=t.columns) for n, t in world.tables.items()}
    queries = {qid: " ".join(rng.choices(WORDS, k=2)) for qid in world.qids}
    texts = {docno: " ".join(rng.choices(WORDS, k=6)) for docno in world.docnos}
    run = frames["run"].merge(frames["answers"], how="left")
    run = run.assign(query=run["qid"].map(queries), text=run["docno"].map(texts))
    qrels = frames["qrels"].merge(frames["gold"], how="left")
    topics = pd.DataFrame({"qid": queries.keys(), "query": queries.values()})
    return world, {"run": run, "qrels": qrels, "groups": frames["groups"], "topics": topics}


def _call(entry_point: EntryPoint, frames: Frames, k: int) -> Any:
    """Return the values of an entry point, or its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FairtkWarning)
        warnings.filterwarnings("ignore", r"ast\..* is deprecated", DeprecationWarning)
        try:
            return entry_point.call(frames, k)
        except Exception as error:  # judged later
            return error


def _expected(entry_point: EntryPoint, frames: Frames, k: int) -> Any:
    """Return the values for plain frames of the same meaning, or `Refused`, or `Unspecified`."""
    try:
        return _values(entry_point, frames, k)
    except (Refused, Unspecified, FairtkError) as error:
        return error


def _values(entry_point: EntryPoint, frames: Frames, k: int) -> Any:
    caveats: list[str] = []
    clean = {name: plain_frame(frame, caveats) for name, frame in frames.items()}
    labels = formulas.labels_of(_reading(clean["qrels"]))
    groups = formulas.groups_of(_reading(clean["groups"]))
    try:
        run = _run(clean["run"])
    except Refused:
        if "rank" in entry_point.reads.get("run", ("rank",)):
            raise
        raise Unspecified("ranks that are not read") from None
    values = _call(entry_point, clean, k)
    if caveats:
        raise Unspecified("; ".join(caveats), None if isinstance(values, Exception) else values)
    if isinstance(values, Exception):
        raise values
    return entry_point.formula(labels, run, groups, k) if entry_point.formula else values


def _failure(entry_point: EntryPoint, ids: tuple[str, ...], wanted: Any, result: Any) -> str:
    if isinstance(result, Exception):
        message = f"{type(result).__name__}: {result}"
        if not isinstance(result, FairtkError):
            return message
        if not isinstance(wanted, Refused | Unspecified | type(result)):
            return f"refused for no reason: {message}"
        if not any(word in message for word in entry_point.says) or "\n" in message:
            return f"the message is not one line with one of {entry_point.says}: {message}"
        if ids and not any(one in message for one in ids):
            return f"the message names none of the ids {ids}: {message}"
        return ""
    if isinstance(wanted, Refused | FairtkError):
        return f"not refused: {wanted}"
    values = wanted.values if isinstance(wanted, Unspecified) else wanted
    return "" if values is None else difference(values, result)


# Plain frames -------------------------------------------------------------------------------------


def plain_frame(frame: pd.DataFrame, caveats: list[str]) -> pd.DataFrame:
    """Return a frame of the same meaning, with plain types.

    Args:
        frame: the frame.
        caveats: gets the reasons why no rule demands this reading.

    Raises:
        Refused: if the frame is invalid.
    """
    if not frame.columns.is_unique:
        raise Refused("duplicate column")
    columns: dict[str, pd.Series] = {}
    for name in frame.columns:
        values = frame[name].tolist()
        if name in ("qid", "docno"):
            columns[name] = pd.Series([_id(value, caveats) for value in values], dtype="str")
        elif name in ("score", "label", "weight", "rank", "sample"):
            numbers = [_number(name, value, caveats) for value in values]
            is_whole = name in ("rank", "sample", "label") and all(n == int(n) for n in numbers)
            columns[name] = pd.Series(numbers, dtype="int64" if is_whole else "float64")
        elif name in ("group", "query", "text", "qanswer"):
            columns[name] = pd.Series(values, dtype="str")
        else:
            columns[name] = pd.Series(values, dtype=object)
    return pd.DataFrame(columns)


def _id(value: Any, caveats: list[str]) -> str:
    if isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
        caveats.append("an id is a float")
        return str(int(value))
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        raise Refused(f"an id is {value!r}")
    if isinstance(value, str) and (not value or value != value.strip()):
        caveats.append("an id is empty or has spaces around it")
    return str(value)


def _number(column: str, value: Any, caveats: list[str]) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Refused(f"{column} is {value!r}") from None
    is_count = column in ("rank", "sample")
    if isinstance(value, str | bytes) or not math.isfinite(number):
        raise Refused(f"{column} is {value!r}")
    if (is_count and number != int(number)) or (column in ("weight", "sample") and number < 0):
        raise Refused(f"{column} is {value!r}")
    if column == "label" and number < -1:
        caveats.append("a label out of the usual range")
    return number


def _reading(clean: pd.DataFrame) -> Reading:
    return Reading(clean.to_dict("records"), [None] * len(clean))


def _run(clean: pd.DataFrame) -> formulas.Run:
    keys = [c for c in ("qid", "sample", "rank") if c in clean]
    if "rank" in keys and clean.duplicated(keys).any():
        raise Refused("a rank twice in a ranking")
    if "sample" in clean:
        clean = clean.assign(sample=clean["sample"].map(str))
    return formulas.run_of(_reading(clean), "frame")
