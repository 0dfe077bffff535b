"""The ledger's file: answers in SQLite, committed one by one."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from fairtk.errors import DataWarning, FormatError
from fairtk.llm.chat import Chat, ChatModel, Completion

SCHEMA = 1
"""Version of the table; files of another version are moved aside."""

_APPLICATION = 0x46544B4C  # "FTKL", which the tool `file` and others see
_TABLE = """
CREATE TABLE answers (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    parameters TEXT NOT NULL,
    prompt TEXT NOT NULL,
    answer TEXT NOT NULL,
    finish TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL NOT NULL,
    created TEXT NOT NULL
)
"""
_MANY = 500  # SQLite's limit of parameters in one statement is 999 in old builds


class AnswerStore:
    """Answers by key, in one SQLite file (write-ahead log), safe to use from several threads.

    A file that is corrupt, of another version or no ledger at all is moved aside, with a warning
    that names the new place, and a new one is begun; nothing is ever deleted.

    Args:
        path: the file; its folder must exist.

    Raises:
        FormatError: the file cannot be opened, e.g. because of its permissions or a lock.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self._lock = Lock()
        if not self.path.parent.is_dir():
            raise FormatError("the folder of the ledger does not exist; make it first", path)
        if self.path.is_dir():
            raise FormatError("the ledger must be a file, but this is a folder", path)
        problem = self._problem()
        if problem:
            self._move_aside(problem)
        self._database = self._open()

    def get(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Return the answers that are there, by key."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Completion] = {}
        for first in range(0, len(wanted), _MANY):
            part = wanted[first : first + _MANY]
            with self._lock, self._named():
                rows = self._database.execute(
                    "SELECT key, answer, prompt_tokens, completion_tokens, seconds, finish "
                    f"FROM answers WHERE key IN ({','.join('?' * len(part))})",
                    part,
                ).fetchall()
            found.update((key, Completion(*rest)) for key, *rest in rows)
        return found

    def put(self, key: str, llm: ChatModel, chat: Chat, answer: Completion) -> Completion:
        """Commit an answer and return it; if another process was first, return that one."""
        with self._lock, self._named(), self._database:
            self._database.execute(
                "INSERT OR IGNORE INTO answers VALUES (?,?,?,?,?,?,?,?,?,?)",
                (
                    key,
                    llm.name,
                    _json(llm.parameters()),
                    _json([list(message) for message in chat.messages]),
                    answer.text,
                    answer.finish,
                    answer.prompt_tokens,
                    answer.completion_tokens,
                    answer.seconds,
                    datetime.now(UTC).isoformat(timespec="seconds"),
                ),
            )
        return self.get([key])[key]

    def __len__(self) -> int:
        with self._lock, self._named():
            count: int = self._database.execute("SELECT count(*) FROM answers").fetchone()[0]
        return count

    def close(self) -> None:
        """Close the file; its write-ahead log is merged into it."""
        with self._lock:
            self._database.close()

    def _problem(self) -> str:
        """Return why the file is no ledger of this version, or an empty string."""
        if not self.path.exists() or self.path.stat().st_size == 0:
            return ""
        try:
            with contextlib.closing(self._connect()) as database:
                application = database.execute("PRAGMA application_id").fetchone()[0]
                version = database.execute("PRAGMA user_version").fetchone()[0]
                if application != _APPLICATION:
                    return "not a ledger"
                if version != SCHEMA:
                    return f"of version {version}, not {SCHEMA}"
                state = database.execute("PRAGMA quick_check(1)").fetchone()[0]
                return "" if state == "ok" else "corrupt"
        except sqlite3.OperationalError as error:
            raise FormatError(f"the ledger cannot be opened ({error})", self.path) from None
        except sqlite3.DatabaseError:
            return "corrupt"

    def _move_aside(self, problem: str) -> None:
        number = 1
        while True:
            place = self.path.with_name(f"{self.path.name}.aside-{number}")
            if not place.exists():
                break
            number += 1
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{end}", f"{place}{end}")
        warnings.warn(
            f"the ledger {self.path} is {problem}: it was moved to {place}, and a new one is begun",
            DataWarning,
            stacklevel=4,
        )

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30, check_same_thread=False)

    def _open(self) -> sqlite3.Connection:
        with self._named():
            database = self._connect()
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")  # an answer outlives a power cut, too
            with database:
                database.execute("BEGIN IMMEDIATE")
                known = database.execute("PRAGMA user_version").fetchone()[0]
                if known != SCHEMA:  # two processes may begin a ledger at the same time
                    database.execute(_TABLE)
                    database.execute(f"PRAGMA application_id={_APPLICATION}")
                    database.execute(f"PRAGMA user_version={SCHEMA}")
        return database

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise FormatError(f"the ledger cannot be used ({error})", self.path) from None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
