"""Answers to prompts in files, as batch APIs and ``vllm run-batch`` write them."""

from __future__ import annotations

import math
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk import checks
from fairtk.errors import (
    FormatError,
    InputError,
    ParameterError,
)
from fairtk.io import locked
from fairtk.llm.batch_files import (
    FAILED,
    MANIFEST,
    OUT,
    RATE,
    Place,
    Written,
    begin_batches,
    count_out,
    index_batch,
    read_manifest,
    recount,
    write_prompts,
)
from fairtk.llm.chat import Chat, Completion, Message, Row
from fairtk.llm.ledger import Ledger
from fairtk.llm.replies import (
    AnswerLine,
    answer_lines,
    is_model,
    json_object,
    line_digest,
    one_line,
)

STATUS = ["round", "file", "model", "prompts", "answered", "failed", "out"]
KINDS = (
    *("taken", "unusable", "there", "duplicate", "error", "unknown", "other model", "edited"),
    *("broken", "cut", "empty"),
)
"""Of lines of answers; see `Reading`."""

_TOGETHER = 500  # lines of answers that are committed together
_NAMED = 1000  # problems of a kind that are named


@dataclass
class Reading:
    """What `Batches.read` made of files.

    Attributes:
        counts: lines by what they are. ``taken``: answers that are in the ledger now; ``unusable``
            of these: refused, cut off at the most tokens, or no text; ``there``: read earlier;
            ``duplicate``: a second answer; ``error``: the prompt failed, and may be written again;
            ``unknown``: an id of no prompt of this batch; ``other model``: answered by another;
            ``edited``: the prompt's line in the folder is no longer what was written; ``broken``:
            no answer at all; ``cut``: the last line is not whole; ``empty``: files of 0 bytes.
        problems: what is wrong with lines, file and line first, of each kind up to 1,000.
        price: what the answers cost, at batch rates; NaN: unknown.
        out: prompts of the batch that have no answer yet.
        foreign: files with no line that answers a prompt of the batch.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    problems: dict[str, list[str]] = field(default_factory=dict)
    price: float = 0.0
    out: int = 0
    foreign: list[Path] = field(default_factory=list)

    def add(self, kind: str, line: AnswerLine | None = None, reason: str = "") -> None:
        """Count a line; name it, if there is a reason."""
        self.counts[kind] += 1
        texts = self.problems.setdefault(kind, []) if reason else []
        if reason and len(texts) < _NAMED:
            place = "" if line is None else f"{line.path}:{line.number}: "
            name = "" if line is None or not line.key else f"{line.key}: "
            texts.append(f"{place}{one_line(name + reason, 300)}")


class Batches:
    """Prompts in files for others to answer, and their answers, of one ledger.

        batches = Batches(ledger)
        batches.write(lambda: fairtk.Experiment(systems, ..., save_dir="study"), "prompts")
        ...  # a batch API, or vllm run-batch
        batches.read("prompts", ["answers.jsonl"])

    What is missing is claimed in the ledger when it is written, with what it may cost, and paid for
    when its answer is read. While it is out nobody else asks for it: work that needs it ends with a
    `DeferredError` after all else is done. Nothing is lost or taken twice when a process dies.

    Args:
        ledger: of the models; its limits and prices count.
        rate: what a call costs in a batch, as a share of its price; 0.5 is OpenAI's.

    Raises:
        ParameterError: the rate is negative or no number, or the ledger is offline.
    """

    def __init__(self, ledger: Ledger, rate: float = RATE) -> None:
        if ledger.offline:
            raise ParameterError("Batches needs a ledger that may be written, without offline=True")
        self.ledger = ledger
        self.rate = checks.number("rate", rate, "Batches", rule="be finite and not negative")

    def write(self, work: Callable[[], Any], folder: Place, command: str = "") -> Written:
        """Write the prompts that are missing as JSON lines of OpenAI's batch API.

        The work is done as far as recorded answers go: what it can keep is kept, models of servers
        are not asked, and those of this machine are. Prompts that depend on answers come to light
        when these were read, and are written by another call, also to the same folder: a round.
        Files have at most 50,000 lines and 200 MB, and prompts of one model; `MANIFEST` lists them.
        A call that is killed leaves nothing behind that counts.

        Args:
            work: what asks models behind the ledger: a function without arguments that runs a
                study or `fairtk.Experiment`.
            folder: where files go; made when it is not there.
            command: that goes on when answers are read, for `fairtk prompts status`.

        Raises:
            ParameterError: a model is behind another ledger.
            InputError: the folder has prompts of another ledger.
        """
        return write_prompts(work, folder, self.ledger, self.rate, command)

    def read(self, folder: Place, files: Iterable[Place], models: Sequence[str] = ()) -> Reading:
        """Take answers from files of OpenAI's batch API or of ``vllm run-batch``, in any order.

        What is there stays; reading again, or after a kill, takes what is left.

        Args:
            folder: of the prompts.
            files: output and error files.
            models: other names of the models that answered. Without: a name that was asked for,
                or a version of it, such as ``gpt-4o-2024-08-06`` of ``gpt-4o``.

        Raises:
            InputError: there is no batch in the folder, or a file is not there.
        """
        paths = [Path(file) for file in files]
        for path in paths:
            if not path.is_file():
                raise InputError(f"{path}: there is no such file of answers")
        reading, number = Reading(), secrets.randbits(62) | 2
        with self._opened(folder) as (place, manifest):
            for path in paths:
                self._read(place, manifest, path, number, models, reading)
            reading.out = int(self._status(manifest)["out"].sum())
        return reading

    def status(self, folder: Place) -> pd.DataFrame:
        """Return what became of each file of prompts.

        Columns: ``round``, ``file``, ``model``, ``prompts``, ``answered``, ``failed`` (to be
        written again), ``out``.

        Raises:
            InputError: there is no batch in the folder.
        """
        with self._opened(folder) as (_, manifest):
            return self._status(manifest)

    def drop(self, folder: Place) -> int:
        """Give up what is out in a folder, which may be gone; return how many prompts it was.

        They may be asked, or written, again. What a server still answers is paid for, and its
        answers can be read.
        """
        place = Path(folder).absolute()
        begin_batches(self.ledger)
        manifest = read_manifest(place) if (place / MANIFEST).exists() else {"batch": ""}

        def write(database: sqlite3.Connection) -> int:
            which = "SELECT batch FROM batches WHERE folder = ? OR batch = ?"
            count = 0
            for (batch,) in database.execute(which, (str(place), manifest["batch"])).fetchall():
                lost = "UPDATE batched SET state = -1 WHERE batch = ? AND state = 0"
                count += database.execute(lost, (batch,)).rowcount
                recount(database, batch)
            return count

        return self.ledger.store.file.write(write)

    # Reading ------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, folder: Place) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Give a folder that nobody else uses, with its manifest."""
        place = Path(folder).absolute()
        read_manifest(place)
        with locked(place):
            manifest = read_manifest(place)
            index_batch(self.ledger, place, manifest)
            yield place, manifest

    def _status(self, manifest: Mapping[str, Any]) -> pd.DataFrame:
        read, batch = self.ledger.store.file.read, manifest["batch"]
        counts = "SELECT file, total(state > 0), total(state = 0) FROM batched WHERE batch = ? "
        states = {name: states for name, *states in read(f"{counts} GROUP BY file", (batch,))}
        rows = []
        for file in manifest["files"]:
            answered, out = map(int, states.get(file["name"], (0, 0)))
            model = manifest["models"][file["model"]]["name"]
            counted = [file["lines"], answered, file["lines"] - answered - out, out]
            rows.append([file["round"], file["name"], model, *counted])
        return pd.DataFrame(rows, columns=STATUS)

    def _read(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        path: Path,
        number: int,
        models: Sequence[str],
        reading: Reading,
    ) -> None:
        """Take the answers of a file; `number` identifies the reading."""
        if not path.stat().st_size:
            reading.add("empty", None, f"{path}: the file is empty")
        batch: list[AnswerLine] = []
        lines, strange = 0, _strange(reading)
        for answer in answer_lines(path):
            lines += 1
            if answer.kind in ("broken", "cut"):
                reading.add(answer.kind, answer, answer.reason)
                continue
            batch.append(answer)
            if len(batch) == _TOGETHER:
                self._take(folder, manifest, batch, number, models, reading)
                batch = []
        self._take(folder, manifest, batch, number, models, reading)
        if path.stat().st_size and _strange(reading) - strange == lines:
            reading.foreign.append(path)

    def _take(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        answers: Sequence[AnswerLine],
        number: int,
        models: Sequence[str],
        reading: Reading,
    ) -> None:
        """Commit some answers with what they cost, all or none."""
        files = {file["name"]: file for file in manifest["files"]}
        batch, ledger = manifest["batch"], self.ledger

        def write(database: sqlite3.Connection) -> list[tuple[Any, ...]]:
            told: list[tuple[Any, ...]] = []
            which = "SELECT file, start, line, price, state FROM batched WHERE batch=? AND key=?"
            seen = "SELECT 1 FROM settled WHERE batch = ? AND line = ?"
            settle = "INSERT OR IGNORE INTO settled VALUES (?, ?)"
            for one in answers:
                row = database.execute(which, (batch, one.key)).fetchone()
                if row is None:
                    told.append(("unknown", one, "no prompt of this batch has this id"))
                    continue
                name, start, line, most, state = row
                if name not in files:
                    told.append(("edited", one, f"its file {name} is not in {MANIFEST}"))
                    continue
                model = manifest["models"][files[name]["model"]]
                known = (batch, one.digest)
                if state == OUT and database.execute(seen, known).fetchone():
                    told.append(("there", one, ""))  # of an earlier round, and not of this one
                    continue
                if state > 0:
                    there = "duplicate" if state == number else "there"
                    repeats = "the prompt was answered before in these files"
                    told.append((there, one, repeats if state == number else ""))
                    database.execute(settle, known)
                elif one.answer is None:
                    told.append(("error", one, one.reason))
                    _settle(database, batch, one.key, state, FAILED, most)
                    database.execute(settle, known)
                elif not is_model(one.model, model["name"], models):
                    told.append(
                        ("other model", one, f"asked was {model['name']!r}, not {one.model!r}")
                    )
                else:
                    chat = _chat(folder / name, start, line)
                    if chat is None:
                        place = f"its line in {name} is not what was written"
                        told.append(("edited", one, f"{place}, and nobody knows what was asked"))
                        continue
                    about = (model["name"], model["parameters"])
                    kept = ledger.row(one.key, *about, chat, one.answer)
                    price = _price(one.answer, model["prices"], files[name]["rate"], most)
                    if not _is_kept(database, one.key):
                        ledger.store.insert(database, [kept])
                    ledger.claims.note(database, kept, price)
                    _settle(database, batch, one.key, state, number, most)
                    database.execute(settle, known)
                    why = "" if one.answer.usable else f"no use: {one.answer.finish}"
                    told.append(("taken", one, "", kept, price, why))
            return told

        if not answers:
            return
        for kind, one, reason, *paid in ledger.store.file.write(write):
            reading.add(kind, one, reason)
            if paid:
                kept, price, why = paid
                assert isinstance(kept, Row)
                cost = math.nan if price is None else price
                ledger.budget.count(kept.completion, cost)
                reading.price += cost
                if why:
                    reading.add("unusable", one, why)


def _strange(reading: Reading) -> int:
    """Return how many lines belong to no prompt of the batch."""
    return sum(reading.counts[kind] for kind in ("unknown", "broken", "cut"))


def _settle(
    database: sqlite3.Connection, batch: str, key: str, before: int, state: int, most: float
) -> None:
    """Note what became of a prompt, which is out no more."""
    change = "UPDATE batched SET state = ? WHERE batch = ? AND key = ?"
    database.execute(change, (state, batch, key))
    if before == OUT:
        count_out(database, batch, -1, -most)


def _is_kept(database: sqlite3.Connection, key: str) -> bool:
    """Return whether there is an answer of use, which stays."""
    row = database.execute("SELECT unusable FROM answers WHERE key = ?", (key,)).fetchone()
    return row is not None and not row[0]


def _chat(path: Path, start: int, digest: str) -> Chat | None:
    """Return the chat of a line of prompts; None: the line is not what was written."""
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            line = stream.readline()
    except OSError as error:
        raise FormatError(f"the prompts cannot be read ({error.strerror})", path) from None
    if line_digest(line) != digest:
        return None
    body = json_object(line)["body"]
    messages = body.get("messages") or [{"role": "user", "content": body.get("prompt", "")}]
    return Chat(tuple(Message(one["role"], one["content"]) for one in messages))


def _price(
    answer: Completion, prices: Sequence[float] | None, rate: float, most: float
) -> float | None:
    """Return the price of an answer; the most that it can cost where that is not to be known."""
    counts = (answer.prompt_tokens, answer.completion_tokens)
    if prices is None or None in counts:
        return most or None
    return rate * sum(p * (n or 0) for p, n in zip(prices, counts, strict=True)) / 1e6
