"""Batch folders: prompts in files of OpenAI's batch format, their manifest, and their claims."""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from fairtk import stage_context
from fairtk.batch.lines import custom_id, prompt_line
from fairtk.errors import FormatError, InputError
from fairtk.io import file_lock
from fairtk.io.atomic import atomic_text, put_in_place
from fairtk.io.lines import read_json
from fairtk.llm.budget import Prices, most_completion_tokens, prompt_tokens
from fairtk.llm.chat import Chat, DeferredError
from fairtk.llm.claims import delete_owner
from fairtk.llm.ledger import Ledger, LedgerModel
from fairtk.llm.server import OpenAICompatible

MOST_LINES, MOST_BYTES = 50_000, 200_000_000
"""Limits of a file in OpenAI's batch API."""

RATE = 0.5
"""The price of a call in a batch as a share of its usual price: OpenAI's discount."""

MANIFEST = "manifest.json"
"""The file of a batch folder that lists its files."""

_FORMAT = 2

Place = str | PathLike[str]


@dataclass
class Written:
    """The result of `Batches.write`.

    Attributes:
        round: the number of this round in the folder, from 1; 0 if no prompt was written.
        prompts: the number of prompts that were written.
        files: their files.
        elsewhere: prompts that are already in a batch folder, or that another process requests.
        left_out: prompts that the budget does not allow.
        price: an upper bound of the price of the answers, at batch rates; NaN if unknown.
        reason: why prompts were left out, or why the work could not be finished.
        results: the results of the work; `None` if it needs answers first.
    """

    round: int = 0
    prompts: int = 0
    files: tuple[Path, ...] = ()
    elsewhere: int = 0
    left_out: int = 0
    price: float = 0.0
    reason: str = ""
    results: Any = None


def write_prompts(
    work: Callable[[], Any],
    folder: Place,
    ledger: Path | None = None,
    rate: float = RATE,
    command: str = "",
) -> Written:
    """Write the prompts of `work` to a folder; see `Batches.write`.

    Args:
        work: a function that calls models behind ledgers.
        folder: the batch folder.
        ledger: the ledger's file; `None` for the file of the first model that is called.
        rate: see `Batches`.
        command: the command that continues after the answers were read, for messages.
    """
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    with file_lock(place):
        writer = PromptWriter(place, rate, command)
        try:
            if ledger is not None:
                writer.open(ledger)
            try:
                with stage_context.changed(collector=writer):
                    writer.written.results = work()
            except DeferredError as error:
                writer.written.reason = writer.written.reason or str(error)
            if writer.files:
                writer.finish()
        finally:
            writer.close()
    return writer.written


class PromptWriter:
    """A collector of calls that claims them in the ledger and writes their prompts."""

    def __init__(self, folder: Path, rate: float, command: str) -> None:
        self.folder, self.rate = folder, rate
        if (folder / MANIFEST).exists():
            self.manifest = read_manifest(folder)
        else:
            identity = {"format": _FORMAT, "batch": secrets.token_hex(8)}
            self.manifest = {**identity, "command": "", "files": []}
        self.manifest["command"] = command or self.manifest["command"]
        self.round = 1 + max((file["round"] for file in self.manifest["files"]), default=0)
        self.ledger: Ledger | None = None  # opened here, so that its claims are those of this round
        self.files: list[dict[str, Any]] = []  # entries for the manifest
        self.streams: list[BinaryIO] = []  # one per file
        self.current: dict[str, int] = {}  # index of the last file by the digest of its model
        self.keys: set[str] = set()
        self.written = Written()

    def open(self, path: Path) -> Ledger:
        """Open the ledger, unless it is open."""
        expected = self.manifest.setdefault("ledger", str(path))
        if expected != str(path):
            raise InputError(
                f"{self.folder}: expected prompts of the ledger {path}, got those of {expected}; "
                "use another folder"
            )
        if self.ledger is None:
            self.ledger = Ledger(path)
            recover(self.ledger, self.folder, self.manifest)
        return self.ledger

    def take(self, llm: LedgerModel, calls: Mapping[str, Chat]) -> None:
        """Claim calls, and write the prompts of the claimed calls."""
        ledger, limits, model = self.open(llm.ledger.path), llm.ledger, llm.llm
        assert isinstance(model, OpenAICompatible)  # only its requests are `writable`
        whole = {key: limits.budget.most(model, chat) for key, chat in calls.items()}
        most = {key: one._replace(price=self.rate * one.price) for key, one in whole.items()}
        budget = limits.budget if limits.budget.limited else None
        claims = ledger.claims.claim(most, limits.since, budget)
        digest, tokens, written = model.digest(), most_completion_tokens(model), self.written
        for (key, chat), claim in zip(calls.items(), claims, strict=False):
            if claim.state == "mine":
                line = prompt_line(custom_id(key, self.round), model.path, model.body(chat))
                self._write(digest, model, limits.prices, line)
                self.keys.add(key)
                written.price += self.rate * limits.prices.of(model, prompt_tokens(chat), tokens)
            elif claim.state in ("claimed", "batched"):
                written.elsewhere += key not in self.keys
            elif claim.state == "refused":
                written.left_out += len(calls) - len(claims) + 1
                written.reason = claim.reason

    def _write(self, digest: str, llm: OpenAICompatible, prices: Prices, line: bytes) -> None:
        """Write a line to the last file of a model, or to a new file if that is full."""
        index = self.current.get(digest)
        if (
            index is None
            or self.files[index]["lines"] == MOST_LINES
            or self.files[index]["bytes"] + len(line) > MOST_BYTES
        ):
            index = self.current[digest] = len(self.files)
            name = f"batch-{len(self.manifest['files']) + index + 1:04d}.jsonl"
            pair = [prices.of_name(llm.name, *counts) for counts in ((1e6, 0), (0, 1e6))]
            self.streams.append(_part(self.folder, name).open("wb"))
            self.files.append(
                {
                    "name": name,
                    "round": self.round,
                    "model": llm.name,
                    "parameters": llm.parameters(),
                    "prices": None if any(map(math.isnan, pair)) else pair,
                    "rate": self.rate,
                    "lines": 0,
                    "bytes": 0,
                }
            )
        self.streams[index].write(line)
        self.files[index]["lines"] += 1
        self.files[index]["bytes"] += len(line)

    def finish(self) -> None:
        """Transfer the claims to the folder, and commit the files with the manifest."""
        assert self.ledger is not None
        for stream in self.streams:
            stream.flush()
            os.fsync(stream.fileno())
        if not self.manifest["files"]:  # a later call finds the claims by the id of the batch
            self._save(self.manifest)
        process, owner = self.ledger.claims.owner, owner_of(self.manifest, self.round)

        def hand_over(database: sqlite3.Connection) -> None:
            database.execute("UPDATE claims SET owner = ? WHERE owner = ?", (owner, process))
            database.execute(
                "INSERT INTO owners SELECT ?, ?, NULL, count(*), total(price), total(tokens) "
                "FROM claims WHERE owner = ?",
                (owner, str(self.folder), owner),
            )

        self.ledger.store.file.write(hand_over)
        self._save({**self.manifest, "files": self.manifest["files"] + self.files})
        self.written.round, self.written.prompts = self.round, len(self.keys)
        self.written.files = tuple(self.folder / file["name"] for file in self.files)

    def _save(self, manifest: dict[str, Any]) -> None:
        with atomic_text(self.folder / MANIFEST) as stream:
            json.dump(manifest, stream, indent=1)
        self.manifest = manifest

    def close(self) -> None:
        """Rename the files in the manifest, and remove other files and their claims."""
        for stream in self.streams:
            stream.close()
        if self.ledger is not None:
            recover(self.ledger, self.folder, self.manifest)
            self.ledger.close()


# A batch folder and its claims ------------------------------------------------------------------


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a batch folder."""
    path = folder / MANIFEST
    if not path.exists():
        raise InputError(f"{folder}: expected a batch folder with {MANIFEST}, got none")
    manifest = read_json(path)
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if version != _FORMAT:
        raise FormatError(f"expected a manifest of format {_FORMAT}, got {version!r}", path)
    return dict(manifest)


def ledger_of(folder: Place) -> Path:
    """Return the ledger of a batch folder.

    Raises:
        InputError: the folder has no batch.
    """
    return Path(read_manifest(Path(folder))["ledger"])


def owner_of(manifest: Mapping[str, Any], round_number: int | str = "%") -> str:
    """Return the owner of a round's claims; by default a pattern for all rounds."""
    return f"{manifest['batch']}-{round_number}"


def recover(ledger: Ledger, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Complete or undo the work of a killed writer, and store the folder's path in the ledger.

    The files and claims of a round are valid if it is in the manifest.
    """
    names = {file["name"] for file in manifest["files"]}
    for part in folder.glob(str(_part(Path(), "batch-*.jsonl"))):
        name = part.name[1:-5]
        if name in names:
            put_in_place(part, folder / name)
        else:
            part.unlink()
    rounds = {owner_of(manifest, file["round"]) for file in manifest["files"]}
    pattern = owner_of(manifest)

    def write(database: sqlite3.Connection) -> None:
        owners = database.execute("SELECT owner FROM owners WHERE owner LIKE ?", (pattern,))
        for (owner,) in owners.fetchall():
            if owner not in rounds:
                delete_owner(database, owner)
        values = (str(folder), pattern)
        database.execute("UPDATE owners SET name = ? WHERE owner LIKE ?", values)

    ledger.store.file.write(write)


def _part(folder: Path, name: str) -> Path:
    """Return the path of an incomplete file."""
    return folder / f".{name}.part"
