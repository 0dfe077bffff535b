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

from fairtk.errors import FormatError, InputError, ParameterError
from fairtk.io import atomic_text, locked, put_in_place, read_json
from fairtk.llm.batch_lines import custom_id, prompt_line
from fairtk.llm.budget import most_completion_tokens, prompt_tokens
from fairtk.llm.chat import Chat, DeferredError
from fairtk.llm.claims import delete_owner
from fairtk.llm.ledger import Ledger, LedgerModel, collecting
from fairtk.llm.server import OpenAICompatible

MOST_LINES, MOST_BYTES = 50_000, 200_000_000
"""Limits of a file in OpenAI's batch API."""

RATE = 0.5
"""The price of a call in a batch as a share of its usual price: OpenAI's discount."""

MANIFEST = "manifest.json"
"""The file of a batch folder that lists its models and files."""

_FORMAT = 2

Place = str | PathLike[str]


@dataclass(frozen=True)
class Written:
    """The result of `Batches.write`.

    Attributes:
        round: the number of this round in the folder, from 1; 0 if no prompt was written.
        prompts: the number of prompts that were written.
        files: their files.
        elsewhere: prompts that are in a batch folder already, or that another process requests.
        left_out: prompts that the budget does not allow.
        price: about the most that the answers cost, at batch rates; NaN if unknown.
        reason: why prompts were left out, or why the work could not be finished.
        results: the results of the work; `None` if it needs answers first.
    """

    round: int
    prompts: int
    files: tuple[Path, ...]
    elsewhere: int
    left_out: int
    price: float
    reason: str
    results: Any


def write_prompts(
    work: Callable[[], Any],
    folder: Place,
    ledger: Path | None = None,
    rate: float = RATE,
    command: str = "",
) -> Written:
    """Write the prompts that some work needs to a folder; see `Batches.write`.

    Args:
        work: calls models behind ledgers.
        folder: the batch folder.
        ledger: the ledger's file; `None`: the file of the first model that is called.
        rate: see `Batches`.
        command: the command that continues when the answers were read, for messages.
    """
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    with locked(place):
        writer = PromptWriter(place, rate, command)
        token = collecting.set(writer)
        results = None
        try:
            if ledger is not None:
                writer.open(ledger)
            try:
                results = work()
            except DeferredError as error:
                writer.reason = writer.reason or str(error)
            return writer.finish(results)
        finally:
            collecting.reset(token)
            writer.close()


class _File:
    """A file of prompts to one model; it gets its name when the manifest lists it."""

    def __init__(self, folder: Path, name: str, model: int) -> None:
        self.name, self.model = name, model
        self.lines = self.size = 0
        self.stream: BinaryIO = _part(folder, name).open("wb")

    def add(self, line: bytes) -> None:
        self.stream.write(line)
        self.lines, self.size = self.lines + 1, self.size + len(line)

    def flush(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())


class PromptWriter:
    """Takes calls instead of models: claims them in the ledger, and writes their lines."""

    def __init__(self, folder: Path, rate: float, command: str) -> None:
        self.folder, self.rate = folder, rate
        self.ledger: Ledger | None = None  # opened here: all its claims are those of this round
        if (folder / MANIFEST).exists():
            self.manifest = read_manifest(folder)
        else:
            identity = {"format": _FORMAT, "batch": secrets.token_hex(8)}
            self.manifest = {**identity, "command": "", "models": [], "files": []}
        self.manifest["command"] = command or self.manifest["command"]
        self.round = 1 + max((file["round"] for file in self.manifest["files"]), default=0)
        self.files: list[_File] = []
        self.current: dict[int, _File] = {}  # by model
        self.keys: set[str] = set()
        self.elsewhere = self.left_out = 0
        self.price = 0.0
        self.reason = ""

    def open(self, path: Path) -> Ledger:
        """Open the ledger, unless it is open."""
        if self.ledger is not None:
            if path != self.ledger.path:
                raise ParameterError(
                    f"a batch belongs to one ledger, expected {self.ledger.path}, got a model "
                    f"behind {path}"
                )
            return self.ledger
        expected = self.manifest.setdefault("ledger", str(path))
        if expected != str(path):
            raise InputError(
                f"{self.folder}: the prompts in this folder belong to the ledger {expected}, not "
                f"to {path}: use another folder"
            )
        self.ledger = Ledger(path)
        recover(self.ledger, self.folder, self.manifest)
        return self.ledger

    def take(self, llm: LedgerModel, calls: Mapping[str, Chat]) -> None:
        """Claim calls, and write the prompts of those that could be claimed."""
        own, limits, model = self.open(llm.ledger.path), llm.ledger, llm.llm
        assert isinstance(model, OpenAICompatible)  # only its requests are `writable`
        most = {key: self.rate * limits.most(model, chat) for key, chat in calls.items()}
        budget = limits.budget if limits.budget.limited else None
        claims = own.claims.claim(most, limits.since, budget)
        number, tokens = self._model(model, limits), most_completion_tokens(model)
        for (key, chat), claim in zip(calls.items(), claims, strict=False):
            if claim.state == "mine":
                line = prompt_line(custom_id(key, self.round), model.path, model.body(chat))
                self._file(number, len(line)).add(line)
                self.keys.add(key)
                self.price += self.rate * limits.prices.of(model, prompt_tokens(chat), tokens)
            elif claim.state in ("claimed", "batched"):
                self.elsewhere += key not in self.keys
        if claims[-1].state == "refused":
            self.left_out += len(calls) - len(claims) + 1
            self.reason = claims[-1].reason

    def _model(self, llm: OpenAICompatible, ledger: Ledger) -> int:
        """Return the number of a model in the manifest."""
        pair = [ledger.prices.of_name(llm.name, *tokens) for tokens in ((1e6, 0), (0, 1e6))]
        entry = {
            "name": llm.name,
            "parameters": llm.parameters(),
            "url": llm.path,
            "prices": None if any(map(math.isnan, pair)) else pair,
        }
        models: list[Any] = self.manifest["models"]
        if entry not in models:
            models.append(entry)
        return models.index(entry)

    def _file(self, model: int, size: int) -> _File:
        """Return the file for the next line, which has so many bytes."""
        file = self.current.get(model)
        if file is None or file.lines == MOST_LINES or file.size + size > MOST_BYTES:
            count = len(self.manifest["files"]) + len(self.files)
            file = _File(self.folder, f"batch-{count + 1:04d}.jsonl", model)
            self.current[model] = file
            self.files.append(file)
        return file

    def finish(self, results: Any) -> Written:
        """Hand the claims over to the folder, and list the files in the manifest, which makes both
        count.
        """
        if self.files:
            for file in self.files:
                file.flush()
            if not self.manifest["files"]:  # a later call finds the claims by the batch's id
                self._save(self.manifest)
            self._hand_over()
            facts = {"round": self.round, "rate": self.rate}
            files = [
                {"name": file.name, "model": file.model, "lines": file.lines, **facts}
                for file in self.files
            ]
            self._save({**self.manifest, "files": self.manifest["files"] + files})
        return Written(
            self.round if self.files else 0,
            len(self.keys),
            tuple(self.folder / file.name for file in self.files),
            self.elsewhere,
            self.left_out,
            self.price,
            self.reason,
            results,
        )

    def _hand_over(self) -> None:
        """Make the folder the owner of the claims."""
        assert self.ledger is not None
        process, owner = self.ledger.claims.owner, owner_of(self.manifest, self.round)

        def write(database: sqlite3.Connection) -> None:
            database.execute("UPDATE claims SET owner = ? WHERE owner = ?", (owner, process))
            database.execute(
                "INSERT INTO owners SELECT ?, ?, NULL, count(*), total(price) FROM claims "
                "WHERE owner = ?",
                (owner, str(self.folder), owner),
            )

        self.ledger.store.file.write(write)

    def _save(self, manifest: dict[str, Any]) -> None:
        with atomic_text(self.folder / MANIFEST) as stream:
            json.dump(manifest, stream, indent=1)
        self.manifest = manifest

    def close(self) -> None:
        """Name the files that are in the manifest, and remove all else with its claims."""
        for file in self.files:
            file.stream.close()
        if self.ledger is not None:
            recover(self.ledger, self.folder, self.manifest)
            self.ledger.close()


# A batch folder and its claims ------------------------------------------------------------------


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a batch folder."""
    path = folder / MANIFEST
    if not path.exists():
        raise InputError(f"{folder}: this is not a batch folder ({MANIFEST} is missing)")
    manifest = read_json(path)
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if version != _FORMAT:
        raise FormatError(
            f"expected the manifest of a batch in format {_FORMAT}, got {version!r}", path
        )
    return dict(manifest)


def ledger_of(folder: Place) -> Path:
    """Return the ledger in which the prompts of a batch folder are claimed.

    Raises:
        InputError: the folder has no batch.
    """
    return Path(read_manifest(Path(folder))["ledger"])


def owner_of(manifest: Mapping[str, Any], round_number: int | str = "%") -> str:
    """Return the owner of a round's claims; by default a pattern for the owners of all rounds."""
    return f"{manifest['batch']}-{round_number}"


def recover(ledger: Ledger, folder: Path, manifest: Mapping[str, Any]) -> None:
    """End the work of a writer, which may have been killed, and note where the folder is.

    The files and the claims of a round count if the manifest lists it.
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
    """Return the path of a file that is being written."""
    return folder / f".{name}.part"
