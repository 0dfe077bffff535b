"""Batches: prompts written to files, answered elsewhere, and read back into the ledger."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.io import locked
from fairtk.llm.batch_files import (
    MANIFEST,
    RATE,
    Place,
    Written,
    owner_of,
    read_manifest,
    recover,
    write_prompts,
)
from fairtk.llm.batch_lines import (
    AnswerLine,
    answer_lines,
    is_same_model,
    key_of,
    line_ids,
    prompt_at,
)
from fairtk.llm.chat import Completion, now
from fairtk.llm.claims import add_payments, delete_owner
from fairtk.llm.ledger import Ledger
from fairtk.llm.replies import one_line
from fairtk.llm.store import Row, answer_row

STATUS = ["round", "file", "model", "prompts", "answered", "failed", "out"]
KINDS = (
    *("taken", "unusable", "there", "duplicate", "error", "unknown", "other model", "edited"),
    *("broken", "cut", "empty"),
)
"""Kinds of lines of answers; see `Reading`."""

_TOGETHER = 500  # lines of answers in a transaction
_NAMED = 1000  # problems of a kind that are named


@dataclass
class Reading:
    """The result of `Batches.read`.

    Attributes:
        counts: lines by kind. ``taken``: new answers; ``unusable``, also counted as taken: refused,
            cut off at the token limit, or without text; ``there``: read earlier; ``duplicate``:
            a second answer in these files; ``error``: the prompt failed, and may be written again;
            ``unknown``: the id of no prompt of this batch; ``other model``: the answer of another
            model; ``edited``: the prompt was changed after it was written; ``broken``: no answer;
            ``cut``: the last line is incomplete; ``empty``: files of 0 bytes.
        problems: messages by kind, each with its file and line, up to 1,000 of a kind.
        price: the price of the answers, at batch rates; NaN if unknown.
        out: prompts of the batch that have no answer yet.
        foreign: files without a line that answers a prompt of the batch.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    problems: dict[str, list[str]] = field(default_factory=dict)
    price: float = 0.0
    out: int = 0
    foreign: list[Path] = field(default_factory=list)

    def add(self, kind: str, line: AnswerLine, reason: str = "") -> None:
        """Count a line, and name it if there is a reason."""
        line_id = f"{line.line_id}: " if line.line_id else ""
        self.add_problem(kind, f"{line.path}:{line.number}: ", reason and line_id + reason)

    def add_problem(self, kind: str, place: str, reason: str) -> None:
        """Count a line or a file, and name it if there is a reason."""
        self.counts[kind] += 1
        messages = self.problems.setdefault(kind, []) if reason else []
        if reason and len(messages) < _NAMED:
            messages.append(place + one_line(reason, 300))


class Batches:
    """Prompts of one ledger in files, for a batch API or a cluster, and their answers.

        batches = Batches(ledger)
        batches.write(lambda: fairtk.Experiment(systems, ..., save_dir="study"), "prompts")
        ...  # a batch API, or vllm run-batch
        batches.read("prompts", ["answers.jsonl"])

    A prompt that is written is claimed in the ledger, with the most that it may cost, until its
    answer is read and paid for. Meanwhile it is not requested by others: work that needs it ends
    with a `DeferredError` after everything else is done. Nothing is lost or paid twice when a
    process is killed.

    Args:
        ledger: the ledger of the models, with its limits and prices.
        rate: the price of a call in a batch as a share of its usual price; OpenAI's is 0.5.

    Raises:
        ParameterError: the rate is negative or not a number, or the ledger is offline.
    """

    def __init__(self, ledger: Ledger, rate: float = RATE) -> None:
        if ledger.offline:
            raise ParameterError("Batches needs a ledger that can be written, without offline=True")
        self.ledger = ledger
        self.rate = checks.number("rate", rate, "Batches", rule="be finite and not negative")

    def write(self, work: Callable[[], Any], folder: Place, command: str = "") -> Written:
        """Write the prompts without an answer as JSON lines of OpenAI's batch API.

        The work runs as far as recorded answers go, and its results are kept. Models of servers are
        not called, models on this machine are. Prompts that depend on answers are written by
        another call after these were read, also to the same folder: a round. A file has at most
        50,000 lines and 200 MB, and prompts to one model. A call that is killed writes nothing.

        Args:
            work: a function without arguments that runs a study or `fairtk.Experiment`, whose
                models are behind the ledger.
            folder: the batch folder; created if absent.
            command: the command that continues when the answers were read, for `fairtk prompts
                status`.

        Raises:
            ParameterError: a model is behind another ledger.
            InputError: the folder has prompts of another ledger.
        """
        return write_prompts(work, folder, self.ledger.path, self.rate, command)

    def read(self, folder: Place, files: Iterable[Place], models: Sequence[str] = ()) -> Reading:
        """Read answers from files of OpenAI's batch API or of ``vllm run-batch``, in any order.

        Files can be read again, and after a kill.

        Args:
            folder: the batch folder.
            files: output and error files.
            models: other names of the models that answered. The names in the prompts, and versions
                of them such as ``gpt-4o-2024-08-06`` of ``gpt-4o``, need not be given.

        Raises:
            InputError: the folder has no batch, or a file does not exist.
        """
        paths = [Path(file) for file in files]
        for path in paths:
            if not path.is_file():
                raise InputError(f"{path}: this file of answers does not exist")
        with self._opened(folder) as (place, manifest):
            reader = _Reader(self.ledger, place, manifest, models)
            for path in paths:
                reader.read(path)
            query = "SELECT total(claims) FROM owners WHERE owner LIKE ?"
            [[out]] = self.ledger.store.file.read(query, (owner_of(manifest),))
            reader.reading.out = int(out)
        return reader.reading

    def status(self, folder: Place) -> pd.DataFrame:
        """Return how many prompts of each file are answered.

        Columns: ``round``, ``file``, ``model``, ``prompts``, ``answered``, ``failed`` (to be
        written again), ``out``.

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
                model = manifest["models"][file["model"]]["name"]
                counts = [file["lines"], answered, file["lines"] - answered - out, out]
                rows.append([file["round"], file["name"], model, *counts])
        return pd.DataFrame(rows, columns=STATUS)

    def drop(self, folder: Place) -> int:
        """Give up the prompts of a folder that have no answer, and return how many.

        They may be requested, or written, again. If a server still answers them, the answers can be
        read, and are paid for unless the prompts were answered meanwhile. The folder may be gone.
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

        with locked(place):
            exists = (place / MANIFEST).exists()
            pattern = owner_of(read_manifest(place)) if exists else ""
            return self.ledger.store.file.write(write)

    @contextmanager
    def _opened(self, folder: Place) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Lock a folder, and yield its path and its manifest."""
        place = Path(folder).absolute()
        with locked(place):
            manifest = read_manifest(place)
            recover(self.ledger, place, manifest)
            yield place, manifest


class _Reader:
    """Reads answers to the prompts of a folder."""

    def __init__(
        self, ledger: Ledger, folder: Path, manifest: Mapping[str, Any], models: Sequence[str]
    ) -> None:
        self.ledger, self.folder, self.manifest, self.models = ledger, folder, manifest, models
        self.reading = Reading()
        self.taken: set[str] = set()  # keys
        self.prompts = {  # file and offset by id
            line_id: (file, start)
            for file in manifest["files"]
            for line_id, start in line_ids(folder / file["name"])
        }

    def read(self, path: Path) -> None:
        """Read a file."""
        if not path.stat().st_size:
            self.reading.add_problem("empty", "", f"{path}: the file is empty")
            return
        total, unrelated = 0, self._unrelated()
        lines: list[AnswerLine] = []
        for line in answer_lines(path):
            total += 1
            if line.kind in ("broken", "cut"):
                self.reading.add(line.kind, line, line.reason)
                continue
            lines.append(line)
            if len(lines) == _TOGETHER:
                self._take(lines)
                lines = []
        self._take(lines)
        if self._unrelated() - unrelated == total:
            self.reading.foreign.append(path)

    def _unrelated(self) -> int:
        """Return how many lines belong to no prompt of the batch."""
        return sum(self.reading.counts[kind] for kind in ("unknown", "broken", "cut"))

    def _take(self, lines: Sequence[AnswerLine]) -> None:
        """Commit answers and their payments, and end the claims of their prompts."""

        def write(database: sqlite3.Connection) -> list[tuple[Row, float]]:
            payments = [self._take_line(database, line) for line in lines]
            database.execute("DELETE FROM owners WHERE expires IS NULL AND claims = 0")
            return [payment for payment in payments if payment is not None]

        for row, price in self.ledger.store.file.write(write):
            self.ledger.budget.count(row.completion, price)
            self.reading.price += price

    def _take_line(
        self, database: sqlite3.Connection, line: AnswerLine
    ) -> tuple[Row, float] | None:
        """Process a line in a transaction, and return its answer and price if they are new."""
        reading, key = self.reading, key_of(line.line_id)
        if line.line_id not in self.prompts:
            reading.add("unknown", line, "no prompt of this batch has this id")
            return None
        file, start = self.prompts[line.line_id]
        model, owner = (
            self.manifest["models"][file["model"]],
            owner_of(self.manifest, file["round"]),
        )
        claim = database.execute("SELECT owner, price FROM claims WHERE key = ?", (key,)).fetchone()
        is_out = claim is not None and claim[0] == owner
        if not is_out and (
            database.execute("SELECT 1 FROM answers WHERE key = ?", (key,)).fetchone()
            or (claim is not None and line.answer is None)  # it was written again
        ):
            if key in self.taken:
                reading.add("duplicate", line, "the prompt was answered before in these files")
            else:
                reading.add("there", line)
            return None
        if line.answer is None:
            reading.add("error", line, line.reason)
            if is_out:
                _end_claim(database, key, *claim)
            return None
        if not is_same_model(line.model, model["name"], self.models):
            reading.add("other model", line, f"expected {model['name']!r}, got {line.model!r}")
            return None
        chat = prompt_at(self.folder / file["name"], start, key, model)
        if chat is None:
            reason = f"its line in {file['name']} was changed after it was written"
            reading.add("edited", line, reason)
            return None
        row = answer_row(key, model["name"], model["parameters"], chat, line.answer)
        most = claim[1] if is_out else 0.0
        price = _price(line.answer, model["prices"], file["rate"], most)
        self.ledger.store.insert(database, [row], since=now())  # replaces any unusable answer
        add_payments(database, [row], [None if math.isnan(price) else price])
        if is_out:
            _end_claim(database, key, *claim)
        self.taken.add(key)
        reading.add("taken", line)
        if not line.answer.usable:
            reading.add("unusable", line, f"no use: {line.answer.finish}")
        return row, price


def _end_claim(database: sqlite3.Connection, key: str, owner: str, price: float) -> None:
    database.execute("DELETE FROM claims WHERE key = ?", (key,))
    database.execute(
        "UPDATE owners SET claims = claims - 1, price = price - ? WHERE owner = ?", (price, owner)
    )


def _price(answer: Completion, prices: Sequence[float] | None, rate: float, most: float) -> float:
    """Return the price of an answer: if it is unknown the most that it can cost, or else NaN."""
    counts = (answer.prompt_tokens, answer.completion_tokens)
    if prices is None or None in counts:
        return most or math.nan
    return rate * sum(p * (n or 0) for p, n in zip(prices, counts, strict=True)) / 1e6
