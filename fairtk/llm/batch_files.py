"""Prompts written to files for others to answer, in OpenAI's batch format, and claimed."""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from fairtk.errors import FormatError, InputError, ParameterError
from fairtk.io import atomic_text, locked, process_host, put_in_place, read_json
from fairtk.llm.budget import (
    BATCH_TABLES,
    batch_of,
    is_alive,
    most_completion_tokens,
    out_in_batches,
    payments,
    prompt_tokens,
)
from fairtk.llm.chat import Chat, DeferredError, escaped
from fairtk.llm.ledger import Ledger, Recorded, collecting
from fairtk.llm.replies import byte_lines, json_object, line_digest
from fairtk.llm.server import OpenAICompatible

MOST_LINES, MOST_BYTES = 50_000, 200_000_000
"""Of a file: what OpenAI's batch API takes."""

RATE = 0.5
"""What a call costs in a batch, as a share of its price alone: OpenAI's discount."""

MANIFEST = "manifest.json"
"""In a batch's folder: what is in it."""

OUT, FAILED = 0, -1
"""States of a prompt; above 0: the number of the reading that took its answer."""

_FORMAT = 1
_PART = ".part"

Place = str | PathLike[str]


def write_prompts(
    work: Callable[[], Any],
    folder: Place,
    ledger: Ledger | None = None,
    rate: float = RATE,
    command: str = "",
) -> Written:
    """Write the prompts that some work would ask for to a folder; see `Batches.write`.

    Args:
        work: what asks models behind ledgers.
        folder: where files go.
        ledger: the one that has the answers; None: that of the first model which is asked.
        rate: see `Batches`.
        command: that goes on when answers are read, for messages.
    """
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    with locked(place):
        writer = PromptWriter(place, ledger, rate, command)
        token = collecting.set(writer)
        try:
            try:
                writer.results = work()
            except DeferredError as error:
                writer.reason = writer.reason or str(error)
            return writer.finished()
        finally:
            collecting.reset(token)
            writer.close()


@dataclass(frozen=True)
class Written:
    """What `Batches.write` wrote.

    Attributes:
        round: the number of this writing to the folder, from 1; 0: nothing was missing.
        prompts: how many were written.
        files: their files.
        elsewhere: prompts that are out in a batch already, or under way elsewhere.
        left_out: prompts that the budget does not allow.
        price: at most about so much, at batch rates; NaN: unknown.
        reason: why prompts were left out, or what the work waits for.
        results: what the work gave; None: it waits for answers.
    """

    round: int
    prompts: int
    files: tuple[Path, ...]
    elsewhere: int
    left_out: int
    price: float
    reason: str
    results: Any


class _File:
    """A file of prompts that is being written."""

    def __init__(self, folder: Path, name: str, model: int) -> None:
        self.name, self.model = name, model
        self.path = folder / name
        self.part = folder / f".{name}{_PART}"
        self.lines = self.size = 0
        self.stream: BinaryIO = self.part.open("wb")

    def add(self, line: bytes) -> None:
        """Write a line."""
        self.stream.write(line)
        self.lines, self.size = self.lines + 1, self.size + len(line)

    def about(self, number: int, rate: float) -> dict[str, Any]:
        """Return what the manifest says of the file."""
        facts = {"name": self.name, "round": number, "model": self.model, "rate": rate}
        return {**facts, "lines": self.lines, "bytes": self.size}


class PromptWriter:
    """Takes calls in place of models: claims them in the ledger, and writes their lines."""

    def __init__(self, folder: Path, ledger: Ledger | None, rate: float, command: str) -> None:
        self.folder, self.ledger, self.rate = folder, ledger, rate
        self.own = ledger is None  # opened here, with the first model
        self.there = (folder / MANIFEST).exists()
        self.manifest: dict[str, Any] = (
            read_manifest(folder)
            if self.there
            else {"format": _FORMAT, "batch": secrets.token_hex(8), "models": [], "files": []}
        )
        self.batch: str = self.manifest["batch"]
        self.manifest["command"] = command or self.manifest.get("command", "")
        self.models: list[dict[str, Any]] = self.manifest["models"]
        self.number = 1 + max((file["round"] for file in self.manifest["files"]), default=0)
        self.files: dict[int, list[_File]] = {}
        self.elsewhere = self.left_out = self.prompts = 0
        self.price = 0.0
        self.reason = ""
        self.results: Any = None
        self.bound = False
        if ledger is not None:
            self._bind(ledger.path)

    def _bind(self, path: Path) -> Ledger:
        """Use a ledger; what writers that are dead had claimed in it is free again."""
        if self.ledger is None:
            self.ledger = Ledger(path)
        if path != self.ledger.path:
            raise ParameterError(
                f"a batch belongs to one ledger, {self.ledger.path}; found a model behind {path}"
            )
        if self.bound:
            return self.ledger
        if self.there and Path(self.manifest["ledger"]) != path:
            raise InputError(
                f"{self.folder}: the prompts in this folder belong to the ledger "
                f"{self.manifest['ledger']}, not to {path}: give another folder"
            )
        begin_batches(self.ledger)
        if self.there:
            index_batch(self.ledger, self.folder, self.manifest)
        for batch, folder, writer in self.ledger.store.file.read(
            "SELECT batch, folder, writer FROM batches WHERE writer != ''"
        ):
            here = writer.partition("|")[0] == process_host()
            # whoever wrote to this folder had its lock
            if folder == str(self.folder) or (here and not is_alive(writer, 0)):
                _recover(self.ledger, batch, Path(folder))
        self.manifest["ledger"] = str(path)
        values = (self.batch, str(self.folder), self.ledger.claims.owner, self.ledger.claims.owner)
        self.ledger.store.file.write(
            lambda database: database.execute(
                "INSERT INTO batches VALUES (?, ?, ?, 0, 0) "
                "ON CONFLICT (batch) DO UPDATE SET writer = ?",
                values,
            )
        )
        self.bound = True
        return self.ledger

    def take(self, llm: Recorded, calls: Mapping[str, Chat]) -> None:
        """Claim calls, and write those that nobody else has."""
        ledger = self._bind(llm.ledger.path)
        budget, inner = llm.ledger.budget, llm.llm
        assert isinstance(inner, OpenAICompatible)  # what can be written is
        model = self._model(inner, llm.ledger)
        url = self.models[model]["url"]
        lines = [(key, _line(key, url, inner.body(chat))) for key, chat in calls.items()]
        told, price_of = most_completion_tokens(inner), llm.ledger.prices.of
        asked = map(prompt_tokens, calls.values())
        prices = [self.rate * price_of(inner, tokens, told) for tokens in asked]

        def claim(database: sqlite3.Connection) -> tuple[list[list[Any]], int, int, str]:
            running = ledger.claims.under_way(database)
            new = payments(database, budget.after)
            count, reserved = out_in_batches(database)
            count, reserved = count + len(running), reserved + sum(running.values())
            rows: list[list[Any]] = []
            last = self._last(model)
            name, number, size = (last.name, last.lines, last.size) if last else ("", 0, 0)
            made = sum(map(len, self.files.values())) + len(self.manifest["files"])
            elsewhere = left_out = 0
            reason = ""
            for (key, line), price in zip(lines, prices, strict=True):
                if key in running or batch_of(database, key):
                    elsewhere += 1
                    continue
                if budget.limited:
                    refusal = budget.refusal(new, count, reserved, _or_0(price))
                    new = []
                    if refusal:
                        left_out, reason = left_out + 1, refusal
                        continue
                if not name or number == MOST_LINES or size + len(line) > MOST_BYTES:
                    made += 1
                    name, number, size = f"batch-{made:04d}.jsonl", 0, 0
                rows.append([self.batch, key, name, size, line_digest(line), _or_0(price), OUT])
                number, size = number + 1, size + len(line)
                count, reserved = count + 1, reserved + _or_0(price)
            database.executemany("INSERT OR REPLACE INTO batched VALUES (?,?,?,?,?,?,?)", rows)
            count_out(database, self.batch, len(rows), sum(row[5] for row in rows))
            return rows, elsewhere, left_out, reason

        rows, elsewhere, left_out, reason = ledger.store.file.write(claim, durable=False)
        texts, most = dict(lines), dict(zip(calls, prices, strict=True))
        for _, key, name, *_ in rows:
            last = self._last(model)
            if last is None or last.name != name:
                last = _File(self.folder, name, model)
                self.files.setdefault(model, []).append(last)
            last.add(texts[key])
            self.price += most[key]
        self.prompts += len(rows)
        self.elsewhere += elsewhere
        self.left_out += left_out
        self.reason = reason or self.reason

    def _last(self, model: int) -> _File | None:
        return self.files[model][-1] if model in self.files else None

    def _model(self, llm: OpenAICompatible, ledger: Ledger) -> int:
        """Return the number of a model in the manifest; a file has prompts of one."""
        pair = [ledger.prices.of_name(llm.name, *each) for each in ((1e6, 0), (0, 1e6))]
        about = {
            "name": llm.name,
            "parameters": llm.parameters(),
            "url": llm.path,
            "prices": None if any(map(math.isnan, pair)) else pair,
        }
        about = json.loads(json.dumps(about))  # as it will be read
        if about not in self.models:
            self.models.append(about)
        return self.models.index(about)

    def finished(self) -> Written:
        """Give the files their names, and say so in the manifest, which makes them count."""
        files = sorted((file for some in self.files.values() for file in some), key=_by_name)
        for file in files:
            file.stream.close()
            put_in_place(file.part, file.path)
        if files:
            self.manifest["files"] += [file.about(self.number, self.rate) for file in files]
            with atomic_text(self.folder / MANIFEST) as stream:
                json.dump(self.manifest, stream, indent=1)
        return Written(
            self.number if files else 0,
            self.prompts,
            tuple(file.path for file in files),
            self.elsewhere,
            self.left_out,
            self.price,
            self.reason,
            self.results,
        )

    def close(self) -> None:
        """Free what was claimed and does not count, after whatever was raised."""
        for some in self.files.values():
            for file in some:
                file.stream.close()
        if self.bound and self.ledger is not None:
            _recover(self.ledger, self.batch, self.folder)
        if self.own and self.ledger is not None:
            self.ledger.close()


def _by_name(file: _File) -> str:
    return file.name


def _line(key: str, url: str, body: Mapping[str, Any]) -> bytes:
    line = {"custom_id": key, "method": "POST", "url": url, "body": dict(body)}
    try:
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(line).encode() + b"\n"


def _or_0(price: float) -> float:
    return 0.0 if math.isnan(price) else price


# A batch's folder, and what the ledger has of it ------------------------------------------------


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a batch's folder."""
    path = folder / MANIFEST
    if not path.exists():
        raise InputError(f"{folder}: no batch of prompts is in this folder (no {MANIFEST})")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not {"batch", "models", "files"} <= manifest.keys():
        raise FormatError("this is no manifest of a batch of prompts", path)
    if manifest.get("format") != _FORMAT:
        raise FormatError(
            f"this batch is of format {manifest.get('format')!r}; this version of fairtk knows "
            f"{_FORMAT}",
            path,
        )
    return manifest


def ledger_of(folder: Place) -> Path:
    """Return the ledger that a batch's prompts are claimed in.

    Raises:
        InputError: there is no batch in the folder.
    """
    return Path(read_manifest(Path(folder))["ledger"])


def begin_batches(ledger: Ledger) -> None:
    """Let a ledger have the tables of batches."""

    def write(database: sqlite3.Connection) -> None:
        for table in BATCH_TABLES:
            database.execute(table)

    ledger.store.file.write(write)


def count_out(database: sqlite3.Connection, batch: str, calls: int, price: float) -> None:
    """Note that so many more calls are out in a batch; below 0: fewer."""
    change = "UPDATE batches SET calls = calls + ?, price = price + ? WHERE batch = ?"
    database.execute(change, (calls, price, batch))


def recount(database: sqlite3.Connection, batch: str) -> None:
    """Count anew what is out in a batch, to which nobody writes."""
    out = "SELECT count(*), total(price) FROM batched WHERE batch = ? AND state = 0"
    calls, price = database.execute(out, (batch,)).fetchone()
    change = "UPDATE batches SET calls = ?, price = ?, writer = '' WHERE batch = ?"
    database.execute(change, (calls, price, batch))


def _recover(ledger: Ledger, batch: str, folder: Path) -> None:
    """End a writing: what is in no file of the manifest is not out.

    Where the folder was moved nothing is known of its files, and what may be paid for stays out.
    """
    files: list[str] = []
    if not folder.is_dir():
        return
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        if manifest["batch"] != batch:
            return
        files = [file["name"] for file in manifest["files"]]
    marks = ",".join("?" * len(files))

    def write(database: sqlite3.Connection) -> None:
        loose = f"DELETE FROM batched WHERE batch = ? AND state = 0 AND file NOT IN ({marks})"
        database.execute(loose, (batch, *files))
        recount(database, batch)

    ledger.store.file.write(write)
    for path in folder.glob(f".batch-*{_PART}"):
        path.unlink()


def index_batch(ledger: Ledger, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Let a ledger have a batch that it lost, or never had; what it has answers to is not out."""
    begin_batches(ledger)
    batch, file = manifest["batch"], ledger.store.file
    if there := file.read("SELECT folder FROM batches WHERE batch = ?", (batch,)):
        if there != [(str(folder),)]:  # it was moved
            moved = "UPDATE batches SET folder = ? WHERE batch = ?"
            file.write(lambda database: database.execute(moved, (str(folder), batch)))
        return
    rows: list[tuple[Any, ...]] = []
    for about in manifest["files"]:
        start = 0
        for line in byte_lines(folder / about["name"]):
            key = json_object(line).get("custom_id")
            if isinstance(key, str):
                rows.append((batch, escaped(key), about["name"], start, line_digest(line), 0.0))
            start += len(line)

    def write(database: sqlite3.Connection) -> None:
        database.executemany(
            "INSERT OR REPLACE INTO batched SELECT ?, ?, ?, ?, ?, ?, "
            "EXISTS (SELECT 1 FROM answers WHERE key = ?)",
            [(*row, row[1]) for row in rows],
        )
        database.execute("INSERT INTO batches VALUES (?, ?, '', 0, 0)", (batch, str(folder)))
        recount(database, batch)

    file.write(write)
