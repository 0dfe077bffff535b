"""Cases of frames: one frame of a world is mutated and goes through one door."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import campaign_frame_damage  # noqa: F401 - gives its mutations
import pandas as pd
from campaign_case import (
    CAMPAIGN,
    CHANGED,
    FATAL,
    FOREIGN,
    NEUTRAL,
    OK,
    PLACELESS,
    REFUSED,
    SILENT,
    WRONG,
    Refused,
    Verdict,
    same_values,
)
from campaign_doors import Door, doors
from campaign_frame_mutations import FRAME_MUTATIONS, Changed, FrameMutation
from campaign_frame_world import Frames, canonical, make_frames, reading

STRIDE = 7919  # a prime: any run of seeds meets all kinds of choices


@cache
def choices() -> tuple[tuple[Door, str, FrameMutation], ...]:
    """Return every door, frame and mutation; the seed goes round them."""
    return tuple(
        (door, name, mutation)
        for mutation in FRAME_MUTATIONS
        for name in mutation.frames
        for door in doors()
        if name in door.reads
        and not (mutation.others_take and door.by_ir_measures)
        and not (mutation.loses_samples and door.sampled)
    )


def run_case(seed: int, folder: Path, show: bool = False) -> Verdict:
    """Run a case; with `show`, print the frames and what came out. It needs no folder."""
    door, name, mutation = choices()[seed * STRIDE % len(choices())]
    verdict = Verdict("frames", seed, f"{door.name} ({name})", mutation.name, mutation.kind)
    for attempt in range(30):  # some worlds give a mutation no occasion
        rng = random.Random(f"frames {seed} {attempt}")
        world, frames = make_frames(rng)
        if (door.unsampled and world.sampled) or (door.sampled and not world.sampled):
            continue
        done = mutation.change(rng, name, frames[name])
        if done is not None:
            break
    else:
        verdict.mutation += " (no occasion)"
        return verdict
    changed = done if isinstance(done, Changed) else Changed(done)
    k = rng.choice([1, 2, 3, 5])
    given = {**frames, name: changed.frame}
    before = _snapshot(changed.frame)
    wanted = _wanted(door, frames, given, name, mutation, changed, k)
    got = attempt_call(door, given, k)
    if _is_setting(got) and str(got) == str(attempt_call(door, frames, k)):
        changed = replace(changed, ids=())  # refused before the frames are looked at
    if show:
        _show(door, given, name, wanted, got)
    _judge(verdict, door, mutation, changed, wanted, got)
    if verdict.outcome == OK and before != _snapshot(changed.frame):
        verdict.outcome, verdict.detail = CHANGED, f"the {name} is another one afterwards"
    return verdict


def _is_setting(got: Any) -> bool:
    from fairtk.errors import ParameterError

    return isinstance(got, ParameterError)


def attempt_call(door: Door, frames: Frames, k: int) -> Any:
    """Return the values of a door, or the exception; a foreign warning is an exception, too."""
    from fairtk.errors import FairtkWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FairtkWarning)
        warnings.filterwarnings("ignore", r"ast\..* is deprecated", DeprecationWarning)
        # ir_measures adds a column to labels before anybody looks at them
        warnings.filterwarnings("ignore", "Setting a new column on a DataFrame with a MultiIndex")
        try:
            return door.call(frames, k)
        except Exception as error:
            return error


def _wanted(
    door: Door, frames: Frames, given: Frames, name: str, mutation: FrameMutation,
    changed: Changed, k: int,
) -> Any:  # fmt: skip
    """Return values (with what is unsaid about them), or `Refused`."""
    if mutation.kind == FATAL:
        matters = changed.columns is None or set(changed.columns) <= set(door.reads[name])
        if matters:
            return Refused(mutation.name)
        # a transformer hands on what it does not read
        values = attempt_call(door, frames, k) if door.by_ir_measures else None
        return values, ["a column that the door does not read"]
    source = frames if mutation.kind == NEUTRAL else given
    try:
        clean, unsaid = {}, []
        for each, frame in source.items():
            clean[each], more = canonical(each, frame)
            unsaid += more
        read = {each: reading(each, clean[each]) for each in ("run", "qrels", "groups")}
    except Refused as refused:
        of_ranks = "rank" in str(refused) and "rank" not in door.reads.get("run", ("rank",))
        return (None, ["ranks that the door does not read"]) if of_ranks else refused
    values = attempt_call(door, clean, k)
    if door.formula is not None and isinstance(values, dict):
        formula = door.formula(read["qrels"], read["run"], read["groups"], None, k)
        difference = same_values(formula, values)
        if difference and not unsaid:
            return Refused(f"the formula differs on the clean frames: {difference}"), values
    return values, unsaid


def _judge(
    verdict: Verdict, door: Door, mutation: FrameMutation, changed: Changed, wanted: Any, got: Any
) -> None:
    from fairtk.errors import FairtkError

    if isinstance(got, Exception) and not isinstance(got, FairtkError):
        verdict.outcome = FOREIGN
        verdict.detail = f"{type(got).__name__}: {str(got)[:300]}"
        return
    verdict.got = "error" if isinstance(got, Exception) else "value"
    if isinstance(wanted, Refused):
        if not isinstance(got, Exception):
            verdict.outcome, verdict.detail = SILENT, f"expected an error ({wanted})"
        else:
            _check_message(verdict, door, changed, str(got))
        return
    values, unsaid = wanted
    if values is None or (unsaid and door.sampled):
        return
    if isinstance(values, Refused):
        verdict.outcome, verdict.detail = WRONG, str(values)
        return
    if isinstance(got, Exception):
        same = isinstance(values, Exception) and type(values) is type(got)
        if unsaid or same:
            _check_message(verdict, door, changed, str(got))
        else:
            verdict.outcome, verdict.detail = REFUSED, f"{type(got).__name__}: {got}"
        return
    if isinstance(values, Exception):
        verdict.outcome = CAMPAIGN if not isinstance(values, FairtkError) else REFUSED
        verdict.detail = f"on clean frames: {type(values).__name__}: {values}"
        return
    difference = same_values(values, got)
    if difference:
        verdict.outcome, verdict.detail = WRONG, difference


def _check_message(verdict: Verdict, door: Door, changed: Changed, message: str) -> None:
    if not any(word in message for word in door.says):
        verdict.outcome = PLACELESS
        verdict.detail = f"names none of {door.says}: {message[:300]}"
    elif "\n" in message:
        verdict.outcome, verdict.detail = PLACELESS, f"more than one line: {message[:300]!r}"
    elif changed.ids and not any(one in message for one in changed.ids):
        verdict.outcome = PLACELESS
        verdict.detail = f"names none of the ids {changed.ids}: {message[:300]}"


def _snapshot(frame: Any) -> Any:
    if not isinstance(frame, pd.DataFrame):
        return repr(frame)
    cells = [[repr(v) for v in frame.iloc[:, i].tolist()] for i in range(frame.shape[1])]
    return repr((list(frame.columns), frame.columns.name, list(map(str, frame.dtypes)),
                 [repr(i) for i in frame.index.tolist()], cells))  # fmt: skip


def _show(door: Door, frames: Frames, name: str, wanted: Any, got: Any) -> None:
    with pd.option_context("display.width", 160, "display.max_columns", None):
        for each in door.reads:
            print(f"--- {each}{' (mutated)' if each == name else ''}\n{frames[each]}")
            if isinstance(frames[each], pd.DataFrame):
                print(dict(frames[each].dtypes))
    print(f"--- expected: {wanted!r}\n--- found: {got!r}")
