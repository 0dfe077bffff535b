"""Cases of frames: one frame of a world is mutated and read by one entry point."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import campaign_fatal  # noqa: F401 - defines mutations
import campaign_frame_mutations  # noqa: F401 - defines mutations
from campaign_case import FATAL, NEUTRAL, Refused, Unspecified, Verdict, difference
from campaign_entry_points import ENTRY_POINTS, EntryPoint, Frames
from campaign_mutations import MUTATIONS, Draft, Mutation
from campaign_world import WORDS, World, make_world

from fairtk.errors import FairtkError, FairtkWarning, ParameterError

OF_FRAMES = [mutation for mutation in MUTATIONS if "frame" in mutation.forms]


def choice(seed: int) -> tuple[Mutation, str, EntryPoint]:
    """Return the mutation of a case, a frame that it is for, and an entry point that reads it."""
    mutation = OF_FRAMES[seed % len(OF_FRAMES)]
    inputs = [(n, e) for n in mutation.files for e in ENTRY_POINTS if n in e.reads]
    return mutation, *random.Random(seed).choice(inputs)


def run_case(seed: int, folder: Path | None = None, show: bool = False) -> Verdict:
    """Run a case; with `show`, print the frames and the values. It needs no folder."""
    mutation, name, entry_point = choice(seed)
    verdict = Verdict(f"{entry_point.name} ({name}), {mutation.name}", mutation.kind)
    for attempt in range(30):  # not every world allows every mutation
        rng = random.Random(f"frames {seed} {attempt}")
        world = make_world(rng)
        if world.is_sampled and not entry_point.takes_samples:
            continue
        add_texts(world, rng)
        drafts = {n: Draft(n, "frame", world.tables[n], rng) for n in FRAMES}
        frames = {n: draft.raw() for n, draft in drafts.items()}
        mutated = mutation.change(drafts[name])
        if mutated is not None:
            break
    else:
        return verdict
    k = rng.choice([1, 2, 3, 5])
    changed = {**frames, name: mutated.raw}
    original = _call(entry_point, frames, k)
    if mutation.kind == NEUTRAL:
        wanted = original
    elif mutation.kind == FATAL and set(mutated.columns) <= set(entry_point.reads[name]):
        wanted = Refused(mutation.name)
    else:
        wanted = Unspecified("values, or an error in one line")
    result = _call(entry_point, changed, k)
    if show:
        for each in entry_point.reads:
            print(f"--- {each}\n{changed[each].to_string()}\n{changed[each].dtypes}")
        print(f"--- expected: {wanted!r}\n--- result: {result!r}")
    ids = mutated.ids if mutation.kind == FATAL else ()
    if isinstance(result, ParameterError) and str(result) == str(original):
        ids = ()  # refused before the frames are read
    verdict.got = "error" if isinstance(result, Exception) else "value"
    verdict.failure = _failure(entry_point, ids, wanted, result)
    return verdict


FRAMES = ("run", "qrels", "groups", "topics")


def add_texts(world: World, rng: random.Random) -> None:
    """Add the columns of texts and answers that some entry points read."""
    run, qrels = world.tables["run"], world.tables["qrels"]
    queries = dict(world.tables["topics"].rows)
    texts = {docno: " ".join(rng.choices(WORDS, k=6)) for docno in world.docnos}
    docnos = run.column("docno")
    run.columns += ["query", "text", "qanswer"]
    for row, docno in zip(run.rows, docnos, strict=True):
        row += [queries[row[0]], texts[docno], f"[{len(row[0])}]"]
    qrels.columns.append("gold_answer")
    for row in qrels.rows:
        row.append("[2]")


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
    return "" if isinstance(wanted, Unspecified) else difference(wanted, result)
