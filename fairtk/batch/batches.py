"""Write prompts to files, and read answers into the ledger."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk import checks
from fairtk.batch.files import (
    MANIFEST,
    RATE,
    Place,
    Written,
    owner_of,
    read_manifest,
    recover,
    write_prompts,
)
from fairtk.batch.lines import (
    AnswerLine,
    answer_lines,
    is_same_model,
    key_of,
    line_ids,
    prompt_at,
)
from fairtk.errors import ParameterError
from fairtk.io import file_lock
from fairtk.llm.chat import Completion, now
from fairtk.llm.claims import add_payments, delete_owner, tokens_of
from fairtk.llm.ledger import Ledger
from fairtk.llm.reading import is_usable, read
from fairtk.llm.replies import one_line
from fairtk.llm.store import Row, answer_row

STATUS = ["round", "file", "model", "prompts", "answered", "failed", "out"]
KINDS = (
    *("taken", "unusable", "known", "duplicate", "error", "unknown", "other model", "edited"),
    *("broken", "cut", "empty"),
)
"""Kinds of answer lines; see `ReadReport`."""

_CHUNK = 500  # answer lines per transaction
_MAX_PROBLEMS = 1000  # reported problems of a kind


@dataclass
class ReadReport:
    """The result of `Batches.read`.

    Attributes:
        counts: the number of lines by kind. ``taken``: new answers; ``unusable``: those of them
            that were refused, cut off at the token limit, or without text; ``known``: read earlier;
            ``duplicate``: a second answer in these files; ``error``: the prompt failed, and may be
            written again; ``unknown``: no prompt of this batch has the id; ``other model``: the
            answer of another model; ``edited``: the prompt was changed after it was written;
            ``broken``: not an answer; ``cut``: the last line is incomplete; ``empty``: files
            without lines.
        problems: messages by kind, each with file and line, up to 1,000 of a kind.
        price: the price of the answers, at batch rates; NaN if unknown.
        out: the number of prompts of the batch without an answer.
        foreign: files without an answer to a prompt of the batch.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    problems: dict[str, list[str]] = field(default_factory=dict)
    price: float = 0.0
    out: int = 0
    foreign: list[Path] = field(default_factory=list)

    def add(self, kind: str, place: str, reason: str = "") -> None:
        """Count a line or a file, and add a message if there is a reason."""
        self.counts[kind] += 1
        messages = self.problems.setdefault(kind, []) if reason else []
        if reason and len(messages) < _MAX_PROBLEMS:
            messages.append(one_line(f"{place}: {reason}", 300))


class Batches:
    """The batches of one ledger: prompts in files for a batch API or a cluster.

    For example::

        batches = Batches(ledger)
        batches.write(lambda: fairtk.Experiment(systems, ..., save_dir="study"), "prompts")
        ...  # a batch API, or vllm run-batch
        batches.read("prompts", ["answers.jsonl"])

    A written prompt is claimed in the ledger, with its maximum price, until its answer is read.
    Until then it is not requested again: work that needs it ends with a `DeferredError` after all
    other work is done.

    Args:
        ledger: the ledger of the models, with its limits and prices.
        rate: the price of a call in a batch as a share of its usual price; OpenAI's is 0.5.

    Raises:
        ParameterError: the rate is negative or not a number, or the ledger is offline.
    """

    def __init__(self, ledger: Ledger, rate: float = RATE) -> None:
        if checks.instance("ledger", ledger, Ledger, "Batches").offline:
            raise ParameterError("Batches requires a writable ledger, got offline=True")
        self.ledger = ledger
        self.rate = checks.number("rate", rate, "Batches")

    def write(self, work: Callable[[], Any], folder: Place, command: str = "") -> Written:
        """Write the prompts without an answer as JSON lines of OpenAI's batch API.

        The work runs as far as recorded answers allow, and stores its results. Local models are
        called, servers are not. Prompts that depend on missing answers are written by a later call,
        after these answers were read; it may use the same folder. A file has prompts to one model,
        at most 50,000 lines and 200 MB.

        Args:
            work: a function without arguments that runs a study or `fairtk.Experiment` with models
                behind the ledger.
            folder: the batch folder; created if absent.
            command: the command that continues after the answers were read, for `fairtk prompts
                status`.

        Raises:
            InputError: the folder has prompts of another ledger, or a model is behind another one.
        """
        return write_prompts(work, folder, self.ledger.path, self.rate, command)

    def read(self, folder: Place, files: Iterable[Place], models: Sequence[str] = ()) -> ReadReport:
        """Read answers from files of OpenAI's batch API or of ``vllm run-batch``, in any order.

        Files can be read again, also after a kill.

        Args:
            folder: the batch folder.
            files: output and error files.
            models: additional names of the models, besides the names in the prompts and their
                versions, such as ``gpt-4o-2024-08-06`` for ``gpt-4o``.

        Raises:
            InputError: the folder has no batch, or a file cannot be read.
        """
        with self._opened(folder) as (place, manifest):
            reader = _Reader(self.ledger, place, manifest, checks.listed("models", models))
            for file in checks.listed("files", files):
                reader.read(Path(file))
            query = "SELECT total(claims) FROM owners WHERE owner LIKE ?"
            [[out]] = self.ledger.store.file.read(query, (owner_of(manifest),))
            reader.reading.out = int(out)
        return reader.reading

    def status(self, folder: Place) -> pd.DataFrame:
        """Return the number of answered prompts of each file.

        Columns: ``round``, ``file``, ``model``, ``prompts``, ``answered``, ``failed`` (to be
        written again), ``out`` (without an answer yet).

        Raises:
            InputError: the folder has no batch.
        """
        query = (
            "SELECT total(claims.key IS NULL AND answers.key IS NOT NULL), count(claims.key) "
            "FROM json_each(?) LEFT JOIN answers ON answers.key = value "
            "LEFT JOIN claims ON claims.key = value AND owner = ?"
        )
        rows = []
        with self._opened(folder) as (place, manifest):
            for file in manifest["files"]:
                keys = [key_of(line_id) for line_id, _ in line_ids(place / file["name"])]
                values = (json.dumps(keys), owner_of(manifest, file["round"]))
                answered, out = map(int, self.ledger.store.file.read(query, values)[0])
                counts = [file["lines"], answered, file["lines"] - answered - out, out]
                rows.append([file["round"], file["name"], file["model"], *counts])
        return pd.DataFrame(rows, columns=STATUS)

    def drop(self, folder: Place) -> int:
        """Drop the unanswered prompts of a folder, and return their number.

        They may then be requested or written again, and the folder may be deleted. If a server
        still answers them, the answers can be read.
        """
        place = Path(folder).absolute()

        def write(database: sqlite3.Connection) -> int:
            rounds = database.execute(
                "SELECT owner, claims FROM owners "
                "WHERE expires IS NULL AND (name = ? OR owner LIKE ?)",
                (str(place), pattern),
            ).fetchall()
            for owner, _ in rounds:
                delete_owner(database, owner)
            return sum(count for _, count in rounds)

        with file_lock(place):
            exists = (place / MANIFEST).exists()
            pattern = owner_of(read_manifest(place)) if exists else ""
            return self.ledger.store.file.write(write)

    @contextmanager
    def _opened(self, folder: Place) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Lock a folder, and yield its path and its manifest."""
        place = Path(folder).absolute()
        with file_lock(place):
            manifest = read_manifest(place)
            recover(self.ledger, place, manifest)
            yield place, manifest


class _Reader:
    """Reads answers to the prompts of a folder."""

    def __init__(
        self, ledger: Ledger, folder: Path, manifest: Mapping[str, Any], models: Sequence[str]
    ) -> None:
        self.ledger, self.folder, self.manifest, self.models = ledger, folder, manifest, models
        self.reading = ReadReport()
        self.taken: set[str] = set()  # keys
        self.prompts = {  # file and offset by id
            line_id: (file, start)
            for file in manifest["files"]
            for line_id, start in line_ids(folder / file["name"])
        }

    def read(self, path: Path) -> None:
        """Read a file."""
        lines, is_empty, is_foreign = answer_lines(path), True, True
        while chunk := list(islice(lines, _CHUNK)):
            is_empty = False
            is_foreign &= not self._take(chunk)
        if is_empty:
            self.reading.add("empty", str(path), "the file is empty")
        elif is_foreign:
            self.reading.foreign.append(path)

    def _take(self, lines: Sequence[AnswerLine]) -> bool:
        """Process lines in a transaction, and return whether any belongs to this batch."""
        known: list[AnswerLine] = []
        for line in lines:
            if line.kind in ("broken", "cut"):
                self.reading.add(line.kind, line.place, line.reason)
            elif line.line_id not in self.prompts:
                self.reading.add("unknown", line.place, "no prompt in the batch has this id")
            else:
                known.append(line)

        def write(database: sqlite3.Connection) -> list[tuple[Row, float | None]]:
            payments = [pair for line in known if (pair := self._take_line(database, line))]
            rows, prices = [row for row, _ in payments], [price for _, price in payments]
            self.ledger.store.insert(database, rows, since=now())  # replaces unusable answers
            add_payments(database, rows, prices, list(map(tokens_of, rows)))
            database.execute("DELETE FROM owners WHERE expires IS NULL AND claims = 0")
            return payments

        for row, price in self.ledger.store.file.write(write):
            known_price = math.nan if price is None else price
            self.ledger.budget.count(row.prompt_tokens, row.completion_tokens, known_price)
            self.reading.price += known_price
        return bool(known)

    def _take_line(
        self, database: sqlite3.Connection, line: AnswerLine
    ) -> tuple[Row, float | None] | None:
        """End the claim of a line's prompt, and return its answer and price if they are new."""
        key, (file, start) = key_of(line.line_id), self.prompts[line.line_id]
        model, owner = file["model"], owner_of(self.manifest, file["round"])
        query = "SELECT owner, price FROM claims WHERE key = ?"
        claimed_by, most = database.execute(query, (key,)).fetchone() or ("", 0.0)
        if claimed_by != owner:
            answer = database.execute("SELECT 1 FROM answers WHERE key = ?", (key,)).fetchone()
            is_written_again = claimed_by and line.answer is None
            if answer or is_written_again or key in self.taken:
                self.reading.add("duplicate" if key in self.taken else "known", line.place)
                return None
        if line.answer is None:
            self.reading.add("error", line.place, line.reason)
            _end_claim(database, key, owner)
            return None
        if not is_same_model(line.model, model, self.models):
            reason = f"expected {model!r}, got {line.model!r}"
            self.reading.add("other model", line.place, reason)
            return None
        chat = prompt_at(self.folder, file, start, key)
        if chat is None:
            reason = f"its line in {file['name']} was changed after it was written"
            self.reading.add("edited", line.place, reason)
            return None
        _end_claim(database, key, owner)
        self.taken.add(key)
        self.reading.add("taken", line.place)
        if not is_usable(line.answer, chat.text):
            status = read(line.answer, chat.text).status
            self.reading.add("unusable", line.place, f"unusable answer: {status}")
        row = answer_row(key, model, file["parameters"], chat, line.answer)
        return row, _price(line.answer, file, most)


def _end_claim(database: sqlite3.Connection, key: str, owner: str) -> None:
    query = "SELECT price, tokens FROM claims WHERE key = ? AND owner = ?"
    for price, tokens in database.execute(query, (key, owner)).fetchall():
        database.execute(
            "UPDATE owners SET claims = claims - 1, price = price - ?, tokens = tokens - ? "
            "WHERE owner = ?",
            (price, tokens, owner),
        )
    database.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, owner))


def _price(answer: Completion, file: Mapping[str, Any], most: float) -> float | None:
    """Return the price of an answer, or its maximum if unknown, or `None`."""
    counts = (answer.prompt_tokens, answer.completion_tokens)
    if file["prices"] is None or None in counts:
        return most or None
    prices = zip(file["prices"], counts, strict=True)
    return float(file["rate"] * sum(price * count for price, count in prices) / 1e6)
