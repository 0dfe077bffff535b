"""Cases of files: one file of a world is mutated and goes through the command line."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import campaign_damage  # noqa: F401 - gives its mutations
import campaign_fatal  # noqa: F401
import campaign_fatal_values  # noqa: F401
import campaign_neutral  # noqa: F401
from campaign_case import (
    CAMPAIGN,
    FATAL,
    FOREIGN,
    NEUTRAL,
    PLACELESS,
    REFUSED,
    SILENT,
    WRONG,
    Mutated,
    Refused,
    Unsaid,
    Verdict,
    same_values,
)
from campaign_mutation import MUTATIONS, Draft, Mutation
from campaign_reference import Command, Given, expected
from campaign_world import World, make_world
from campaign_writer import FORMS, file_name, pack, wide

STRIDE = 7919  # a prime: any run of seeds meets all kinds of choices
SPELLED = {"RR": "RR", "EnDCG": "E(nDCG@{})", "EP": "E(P@{})", "EU": "EU(utility='accuracy')"}


@cache
def choices() -> tuple[tuple[str, str, Mutation], ...]:
    """Return every file, format and mutation; the seed goes round them."""
    return tuple(
        (kind, form, mutation)
        for kind, forms in FORMS.items()
        for form in forms
        for mutation in MUTATIONS.of(kind, form)
    )


def run_case(seed: int, folder: Path, show: bool = False) -> Verdict:
    """Run a case.

    Args:
        seed: the seed.
        folder: an empty folder.
        show: print the files, the command and what came out.
    """
    kind, form, mutation = choices()[seed * STRIDE % len(choices())]
    verdict = Verdict("files", seed, f"{kind} {form}", mutation.name, mutation.kind)
    for attempt in range(20):  # some worlds give a mutation no occasion
        rng = random.Random(f"files {seed} {attempt}")
        world = make_world(rng)
        command, files = _case(rng, world, kind, form)
        draft = _draft(rng, world, kind, form)
        packed = form != "parquet" and rng.random() < 0.3
        mutated = mutation.change(draft)
        if mutated is not None:
            break
    else:
        verdict.mutation += " (no occasion)"
        return verdict
    original = expected(command, files)
    raw = mutated.content
    if packed and not mutation.packs:
        raw = pack(raw)
    files[kind] = Given(kind, form, file_name(kind, form, packed), raw)
    for given in files.values():
        (folder / given.name).write_bytes(given.raw)
    wanted = _wanted(command, files, original, mutation, mutated, verdict)
    code, out, err = call(_arguments(command, files, folder))
    if show:
        _show(command, files, folder, wanted, code, out, err)
    if verdict.outcome != CAMPAIGN:
        _judge(verdict, command, files, wanted, mutated, code, out, err)
    return verdict


def call(arguments: list[str]) -> tuple[Any, str, str]:
    """Run the command line in this process; return exit code, output and messages."""
    from fairtk.cli import main

    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException as error:  # whatever gets out is what a user would see
            code = f"{type(error).__name__}: {error}"
    return code, out.getvalue(), err.getvalue()


def _case(
    rng: random.Random, world: World, kind: str, form: str
) -> tuple[Command, dict[str, Given]]:
    """Return a command that reads the file, and all files that it reads, unmutated."""
    k = rng.choice([1, 2, 3, 5])
    with_groups = kind in ("groups", "target") or (kind in ("run", "qrels") and rng.random() < 0.3)
    name = "evaluate"
    if kind in ("groups", "target") and rng.random() < 0.5:
        name = "groups"
    if kind in ("groups", "run") and rng.random() < 0.15:
        name = "coverage"
    target = rng.choice(["uniform", "qrels", "file"]) if with_groups else ""
    if kind == "target":
        target = "file"
    if name == "groups" and target == "qrels":
        target = ""
    if name == "coverage":
        return Command(name), {n: _given(rng, world, n, kind, form) for n in ("groups", "run")}
    needed = ["groups"] if name == "groups" else ["run", "qrels"]
    measures = [("EE_D", k), ("EE_R", k), ("EE_L", k), ("EnDCG", 5), ("EP", 2)]
    if not world.sampled:
        measures += [("nDCG", 5), ("P", 3), ("RR", 1 << 20)]
    if with_groups:
        needed.append("groups")
        measures.append(("AWRF", 5))
    if kind in ("answers", "gold"):
        needed += ["answers", "gold"]
        measures = [("EU", 0)]
    if target == "file":
        needed.append("target")
    files = {n: _given(rng, world, n, kind, form) for n in dict.fromkeys(needed)}
    return Command(name, [] if name == "groups" else measures, target), files


def _given(rng: random.Random, world: World, name: str, kind: str, form: str) -> Given:
    chosen = form if name == kind else rng.choice([f for f in FORMS[name] if f != "jsonl"])
    if name == "run" and chosen == "task":
        _whole_order(world)
    draft = _draft(rng, world, name, chosen)
    return Given(name, chosen, file_name(name, chosen, False), draft.raw())


def _whole_order(world: World) -> None:
    """Give rows of a task file the order of their ranks."""
    table = world.tables["run"]
    at = [table.columns.index(c) for c in ("qid", "sample", "rank") if c in table.columns]
    table.rows.sort(key=lambda row: [str(row[at[0]]), *(row[i] for i in at[1:])])


def _draft(rng: random.Random, world: World, kind: str, form: str) -> Draft:
    table = world.tables[kind].copy()
    if form == "wide":
        table = wide(table, "groups")
    return Draft(kind, form, table, world, rng)


def _arguments(command: Command, files: dict[str, Given], folder: Path) -> list[str]:
    path = {kind: str(folder / given.name) for kind, given in files.items()}
    if command.name == "coverage":
        return ["groups", path["groups"], "--coverage", path["run"], "--format", "json"]
    target = {"file": path.get("target"), "": None}.get(command.target, command.target)
    wanted = [] if target is None else ["--target", target]
    if command.name == "groups":
        return ["groups", path["groups"], *wanted, "--format", "json"]
    arguments = ["evaluate", path["qrels"], path["run"], "--per-query", "--format", "json"]
    for name, k in command.measures:
        arguments += ["-m", SPELLED.get(name, name + "@{}").format(k)]
    for option in ("answers", "gold", "groups"):
        if option in files:
            arguments += [f"--{option}", path[option]]
    return [*arguments, *wanted]


def _wanted(
    command: Command, files: dict[str, Given], original: Any, mutation: Mutation,
    mutated: Mutated, verdict: Verdict,
) -> Any:  # fmt: skip
    """Return values, `Refused` or `Unsaid`, and check that they fit the declared kind."""
    try:
        wanted: Any = expected(command, files)
    except (Refused, Unsaid) as other:
        wanted = other
    if mutation.kind == NEUTRAL:
        if not isinstance(wanted, dict) or same_values(original, wanted):
            verdict.outcome = CAMPAIGN
            verdict.detail = f"not neutral: {wanted!r}"
        return original
    if mutation.kind == FATAL and not isinstance(wanted, Refused):
        verdict.outcome = CAMPAIGN
        verdict.detail = f"not refused by the reference: {wanted!r}"
    if isinstance(wanted, Refused) and mutated.line is not None and mutation.kind == FATAL:
        wanted.line, wanted.exact = mutated.line, True
    return wanted


def _judge(
    verdict: Verdict, command: Command, files: dict[str, Given], wanted: Any, mutated: Mutated,
    code: Any, out: str, err: str,
) -> None:  # fmt: skip
    message = next((s for s in err.splitlines() if s.startswith("Error: ")), err.strip()[-300:])
    if code not in (0, 2) or "shows where" in message or "Traceback" in err:
        verdict.outcome, verdict.detail = FOREIGN, f"exit code {code}: {message}"
        return
    verdict.got = "value" if code == 0 else "error"
    values = wanted.values if isinstance(wanted, Unsaid) else wanted
    if code == 2:
        if isinstance(wanted, Refused | Unsaid):
            verdict.outcome, verdict.detail = _placed(wanted, verdict, files, message)
        else:
            verdict.outcome, verdict.detail = REFUSED, message
        return
    if isinstance(wanted, Refused):
        verdict.outcome = SILENT
        verdict.detail = f"expected an error ({wanted}, line {wanted.line}), found values"
        return
    if values is None:
        return
    difference = same_values(values, _printed(command, out))
    if difference:
        verdict.outcome, verdict.detail = WRONG, difference


def _placed(
    wanted: Any, verdict: Verdict, files: dict[str, Given], message: str
) -> tuple[str, str]:
    """Return whether a message names file and line (if there is one), or query and document."""
    names = [given.name for given in files.values()]
    only = getattr(wanted, "file", None)
    if only is None and " for qid '" in message and " docno '" in message:
        return "ok", ""
    if not any(name in message for name in ([only] if only else names)):
        return PLACELESS, f"names none of {[only] if only else names}: {message}"
    line = getattr(wanted, "line", None)
    if line is None or only is None:
        return "ok", ""
    found = re.search(re.escape(only) + r":(\d+):", message)
    if found is None:
        return PLACELESS, f"names no line (expected {line}): {message}"
    if wanted.exact and int(found[1]) != line and f"line {line}" not in message:
        return PLACELESS, f"names line {found[1]}, not {line}: {message}"
    return "ok", ""


def _printed(command: Command, out: str) -> dict[Any, Any]:
    records = json.loads(out)
    if command.name == "evaluate":
        order = list(dict.fromkeys(r["measure"] for r in records))
        return {(order.index(r["measure"]), r["qid"]): r["value"] for r in records}
    if command.name == "coverage":
        return {(r["qid"], c): r[c] for r in records for c in ("retrieved", "with_row")}
    columns = [c for c in ("documents", "share", "target") if records and c in records[0]]
    return {(r["group"], c): r[c] for r in records for c in columns}


def _show(
    command: Command, files: dict[str, Given], folder: Path, wanted: Any, code: Any, out: str,
    err: str,
) -> None:  # fmt: skip
    for given in files.values():
        shown = given.raw[:3000]
        print(f"--- {given.name} ({len(given.raw)} bytes)")
        print(shown.decode("utf-8", "backslashreplace") if given.form != "parquet" else shown)
    print("--- fairtk", " ".join(_arguments(command, files, folder)))
    print(f"--- exit code {code}\n{out[:4000]}{err[:4000]}--- expected: {wanted!r}")
