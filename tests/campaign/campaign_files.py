"""Cases of files: one file of a world is mutated and read by a command."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import campaign_fatal  # noqa: F401 - defines mutations
from campaign_case import FATAL, NEUTRAL, Refused, Unspecified, Verdict, difference
from campaign_mutations import MUTATIONS, Draft, Mutated, Mutation
from campaign_reader import plain_frame, read
from campaign_world import FORMS, World, file_name, make_world, pack

import fairtk
from fairtk.cli import main
from fairtk.errors import DataWarning, FairtkError, FairtkWarning

OF_FILES = [mutation for mutation in MUTATIONS if mutation.forms != ("frame",)]


@dataclass
class InputFile:
    """A file of a command, with its bytes, packed or not."""

    form: str
    name: str
    raw: bytes


@dataclass
class Command:
    """`fairtk evaluate` with its files, by kind, and the string that names its target."""

    files: dict[str, InputFile]
    measures: list[str]
    target: str = ""


def choice(seed: int) -> tuple[Mutation, str, str]:
    """Return the mutation of a case, and a kind and a format of file that it is for."""
    mutation = OF_FILES[seed % len(OF_FILES)]
    forms = set(mutation.forms) - {"frame"}
    files = [(k, f) for k in mutation.files for f in FORMS[k] if f in forms]
    return mutation, *random.Random(seed).choice(files)


def run_case(seed: int, folder: Path, show: bool = False) -> Verdict:
    """Run a case in an empty folder; with `show`, print the files, the command and its output."""
    mutation, kind, form = choice(seed)
    verdict = Verdict(f"{kind} {form}, {mutation.name}", mutation.kind)
    for attempt in range(20):  # not every world allows every mutation
        rng = random.Random(f"files {seed} {attempt}")
        world = make_world(rng)
        command = _command(rng, world, kind, form)
        mutated = mutation.change(_draft(rng, world, kind, form))
        if mutated is not None:
            break
    else:
        return verdict
    original = expected(command)
    is_packed = form != "parquet" and rng.random() < 0.3
    raw = pack(mutated.raw) if is_packed and not mutation.is_final else mutated.raw
    command.files[kind] = InputFile(form, file_name(kind, form, is_packed), raw)
    for file in command.files.values():
        (folder / file.name).write_bytes(file.raw)
    wanted: Any
    try:
        wanted = expected(command)
    except (Refused, Unspecified) as other:
        wanted = other
    if mutation.kind == FATAL and isinstance(wanted, Refused) and wanted.file is None:
        wanted.file, wanted.line = command.files[kind].name, mutated.line
    if mutation.kind == NEUTRAL and (not isinstance(wanted, dict) or difference(original, wanted)):
        verdict.failure = f"the reference is not neutral: {wanted!r}"
    elif mutation.kind == FATAL and not isinstance(wanted, Refused):
        verdict.failure = f"the reference does not refuse: {wanted!r}"
    else:
        arguments = _arguments(command, folder)
        code, out, err = call(arguments)
        if show:
            _show(command, arguments, wanted, code, out, err)
        _judge(verdict, command, mutated, wanted, code, out, err)
    return verdict


def expected(command: Command) -> dict[Any, Any]:
    """Return the values of the frames that the reference reads, by measure and qid.

    Raises:
        Refused: if a file is invalid, or the files do not match.
        Unspecified: if no rule specifies the values.
    """
    frames, caveats = {}, []
    for kind, file in command.files.items():
        try:
            reading = read(kind, file.form, file.raw)
            frames[kind] = plain_frame(kind, file.form, reading)
        except Refused as refused:
            refused.file = file.name
            raise
        caveats += reading.caveats
    try:
        values = _values(command, frames)
    except FairtkError as error:
        if caveats:
            raise Unspecified("; ".join([*caveats, str(error)])) from None
        raise Refused(str(error)) from None
    if caveats:
        raise Unspecified("; ".join(caveats), values)
    return values


def _values(command: Command, frames: dict[str, Any]) -> dict[Any, Any]:
    options: dict[str, Any] = {}
    if "groups" in frames:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # of labels such as "NULL"
            groups = fairtk.Groups.from_frame(frames["groups"], name="groups")
        target = command.target
        if target == "file":
            levels = frames["target"]["group"].unique()
            if not set(levels).isdisjoint(groups.space.levels[0]):  # groups may have no document
                groups = groups.with_levels(levels)
            target = fairtk.Target.from_frame(frames["target"], groups)
        options = {"groups": [groups], "target": [target]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairtkWarning)
        qrels = frames["qrels"].drop_duplicates()  # of equal labels in a file, one counts
        results = fairtk.evaluate(qrels, frames["run"], command.measures, **options)
    return _by_order(results.per_query.to_dict("records"))


def _by_order(records: list[dict[str, Any]]) -> dict[Any, Any]:
    order = list(dict.fromkeys(record["measure"] for record in records))
    return {(order.index(r["measure"]), r["qid"]): r["value"] for r in records}


def call(arguments: list[str]) -> tuple[Any, str, str]:
    """Run the command line in this process; return exit code, output and messages."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as stop:
            code = stop.code or 0
        except Exception as error:  # a user would see a traceback
            code = f"{type(error).__name__}: {error}"
    return code, out.getvalue(), err.getvalue()


def _command(rng: random.Random, world: World, kind: str, form: str) -> Command:
    """Return a command that reads the file, with all its files before the mutation."""
    k = rng.choice([1, 2, 3, 5])
    files, target = ["run", "qrels"], ""
    measures = [f"EE_D@{k}", f"EE_R@{k}", f"EE_L@{k}", "E(nDCG@5)"]
    if not world.is_sampled:
        measures.append(f"nDCG@{k}")
    if kind in ("groups", "target") or rng.random() < 0.3:
        files.append("groups")
        measures.append("AWRF@5")
        target = "file" if kind == "target" else rng.choice(["uniform", "relevance", "file"])
    if target == "file":
        files.append("target")
    forms = {
        each: rng.choice([f for f in FORMS[each] if f not in ("jsonl", "frame")]) for each in files
    }
    forms[kind] = form
    if forms.get("run") == "task":  # its order is that of the ranks
        run = world.tables["run"]
        keys = run.select([c for c in ("qid", "sample", "rank") if c in run.columns]).rows
        order = sorted(range(len(keys)), key=keys.__getitem__)
        run.rows = [run.rows[index] for index in order]
    inputs = {
        each: InputFile(f, file_name(each, f, False), _draft(rng, world, each, f).raw())
        for each, f in forms.items()
    }
    return Command(inputs, measures, target)


def _draft(rng: random.Random, world: World, kind: str, form: str) -> Draft:
    table = world.tables[kind].select(list(world.tables[kind].columns))
    if form == "wide":
        table.columns = ["groups" if c == "group" else c for c in table.columns]
    return Draft(kind, form, table, rng)


def _arguments(command: Command, folder: Path) -> list[str]:
    path = {kind: str(folder / file.name) for kind, file in command.files.items()}
    options = [word for measure in command.measures for word in ("-m", measure)]
    if "groups" in path:
        options += ["--groups", path["groups"], "--target", path.get("target", command.target)]
    files = (path["qrels"], path["run"])
    return ["evaluate", *files, "--per-query", *options, "--format", "json"]


def _judge(
    verdict: Verdict, command: Command, mutated: Mutated, wanted: Any, code: Any, out: str, err: str
) -> None:
    message = next((s for s in err.splitlines() if s.startswith("Error: ")), err.strip()[-300:])
    verdict.got = "value" if code == 0 else "error"
    if code not in (0, 2) or "shows where" in message or "Traceback" in err:
        verdict.failure = f"exit code {code}: {message}"
    elif code == 2 and isinstance(wanted, dict):
        verdict.failure = f"refused for no reason: {message}"
    elif code == 2:
        verdict.failure = _misplaced(wanted, command, mutated.line, message)
    elif isinstance(wanted, Refused):
        verdict.failure = f"not refused: {wanted} ({wanted.file}, line {wanted.line})"
    else:
        values = wanted.values if isinstance(wanted, Unspecified) else wanted
        verdict.failure = (
            difference(values, _by_order(json.loads(out))) if values is not None else ""
        )


def _misplaced(wanted: Any, command: Command, line: int | None, message: str) -> str:
    """Return what is wrong with the place in a message: file and line, or query and document."""
    name = getattr(wanted, "file", None)
    if name is None:
        names = [file.name for file in command.files.values()]
        is_placed = " for qid '" in message and " docno '" in message
        is_placed = is_placed or any(name in message for name in names)
        return "" if is_placed else f"the message names none of {names}: {message}"
    if name not in message:
        return f"the message does not name {name}: {message}"
    if wanted.line is None:
        return ""
    place = re.search(re.escape(name) + r":(\d+):", message)
    if place is None:
        return f"the message names no line (expected {wanted.line}): {message}"
    if line is not None and int(place[1]) != line and f"line {line}" not in message:
        return f"the message names line {place[1]}, not {line}: {message}"
    return ""


def _show(
    command: Command, arguments: list[str], wanted: Any, code: Any, out: str, err: str
) -> None:
    for file in command.files.values():
        text = file.raw if file.form == "parquet" else file.raw.decode("utf-8", "backslashreplace")
        print(f"--- {file.name}\n{text}")
    print("--- fairtk", *arguments)
    print(f"--- exit code {code}\n{out}{err}--- expected: {wanted!r}")
