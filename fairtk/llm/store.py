"""The answers of a ledger: in SQLite, committed one by one or many at once."""

from __future__ import annotations

import json
import sqlite3
import warnings
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk.errors import DataWarning
from fairtk.llm.chat import Chat, ChatModel, Completion
from fairtk.llm.database import LedgerFile
from fairtk.llm.rows import INSERT, REFUSED, SERVED, Row, answer_row, checksum

_MANY = 500  # SQLite's limit of parameters in one statement is 999 in old builds


class AnswerStore:
    """Answers by key, in one SQLite file (write-ahead log), for several threads and processes.

    A file that is damaged, of an earlier version or no ledger at all is kept under another name,
    with a warning; what it holds is taken over, and what its backup (``NAME.backup``) holds. A row
    that was changed on the disk is never served: the backup's is. On a network file system one
    process at a time can have the file. Only its owner may read a new one; its folder must exist.

    Other tables in the file are left alone: an experiment keeps its own beside the answers.

    Raises:
        FormatError: the file cannot be opened, e.g. because of its permissions or a lock.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.file = LedgerFile(self.path)

    def get(self, keys: Iterable[str], since: str = "") -> dict[str, Completion]:
        """Return the answers that are there, by key.

        Unusable ones that were made before `since` are left out; empty: none.
        """
        found: dict[str, Completion] = {}
        damaged: list[str] = []
        columns = f"{SERVED}, checksum, unusable"
        for *served, kept, unusable in self._of_keys(columns, keys):
            key, answer, finish, asked, told, seconds, created = served
            if checksum(*served) != kept:
                damaged.append(key)
            elif not (unusable and created < since):
                found[key] = Completion(answer, asked, told, seconds, finish)
        if damaged:
            found |= self._mended(damaged)
        return found

    def put(self, key: str, llm: ChatModel, chat: Chat, answer: Completion) -> Completion:
        """Commit an answer and return it; if another process was first, return that one."""
        return self.put_many([answer_row(key, llm, chat, answer)])[key]

    def put_many(self, rows: Sequence[Row]) -> dict[str, Completion]:
        """Commit answers, all or none, and return those that are kept, by key.

        Where the key of a row is there already, the first stays.
        """
        keys = list(dict.fromkeys(row.key for row in rows))

        def write(database: sqlite3.Connection) -> None:
            known = {key for (key,) in self._of_keys("key", keys)}
            new = {row.key: row for row in reversed(rows) if row.key not in known}
            self.insert(database, list(new.values()))

        self.file.write(write)
        return self.get(keys)

    def insert(self, database: sqlite3.Connection, rows: Sequence[Row]) -> None:
        """Write rows, in a transaction that is begun; those of the same keys are replaced."""
        if rows:
            # the backup first: what is in the ledger is in it, too, wherever the process ends
            self.file.backup.append(rows)
            database.executemany(INSERT, rows)

    def reject(self, key: str) -> None:
        """Note that an answer is of no use to who read it."""
        self.file.write(
            lambda database: database.execute(
                "UPDATE answers SET unusable = 1 WHERE key = ? AND NOT unusable", (key,)
            )
        )

    def refused(self, model: str) -> list[str]:
        """Return the parameters that a model's server had refused when it answered last."""
        rows = self.file.read(
            "SELECT parameters FROM answers WHERE model = ? AND instr(parameters, ?) "
            "ORDER BY created DESC LIMIT 1",
            (model, f'"{REFUSED}"'),
        )
        return list(json.loads(rows[0][0]).get(REFUSED, [])) if rows else []

    def unusable(self) -> int:
        """Return how many answers are of no use: refused, cut off, unreadable or rejected."""
        return int(self.file.read("SELECT count(*) FROM answers WHERE unusable")[0][0])

    def __len__(self) -> int:
        return int(self.file.read("SELECT count(*) FROM answers")[0][0])

    def close(self) -> None:
        """Close the file; its write-ahead log is merged into it."""
        self.file.close()

    def _of_keys(self, columns: str, keys: Iterable[str]) -> list[Any]:
        wanted = list(dict.fromkeys(keys))
        found: list[Any] = []
        for first in range(0, len(wanted), _MANY):
            part = wanted[first : first + _MANY]
            marks = ",".join("?" * len(part))
            found += self.file.read(f"SELECT {columns} FROM answers WHERE key IN ({marks})", part)
        return found

    def _mended(self, keys: list[str]) -> dict[str, Completion]:
        """Return damaged answers as the backup has them; what it lacks is taken out."""
        wanted = set(keys)
        rows = {row.key: row for row in self.file.backup.rows() if row.key in wanted}

        def write(database: sqlite3.Connection) -> None:
            database.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in keys])
            database.executemany(INSERT, list(rows.values()))

        self.file.write(write)
        lost = len(wanted) - len(rows)
        warnings.warn(
            f"{len(wanted)} answers in the ledger {self.path} were damaged: {len(rows)} were taken "
            "from its backup" + (f", {lost} are lost and will be asked for again" if lost else ""),
            DataWarning,
            stacklevel=4,
        )
        return {key: row.completion for key, row in rows.items()}
