"""What is kept of an answer: a row, with a checksum over all that is served from it, in tables."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fairtk.llm.chat import Chat, ChatModel, Completion

SERVED = "key, answer, finish, prompt_tokens, completion_tokens, seconds, created"
"""The columns that a checksum covers."""

REFUSED = "refused"
"""Among a row's parameters: what the server had refused to take."""


class Row(NamedTuple):
    """An answer with all that is kept of its call."""

    key: str  # a digest of model, parameters and prompt
    model: str
    parameters: str  # JSON
    prompt: str  # the messages, as JSON
    answer: str
    finish: str  # see `Completion`
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    created: str  # UTC
    unusable: int  # whether who read it could do nothing with it, 0 or 1
    checksum: str  # of what is served (`SERVED`)

    @property
    def completion(self) -> Completion:
        """The answer."""
        counts = (self.prompt_tokens, self.completion_tokens)
        return Completion(self.answer, *counts, self.seconds, self.finish)

    @property
    def expected(self) -> str:
        """The checksum that the row should have."""
        return checksum(
            self.key, self.answer, self.finish, self.prompt_tokens, self.completion_tokens,
            self.seconds, self.created,
        )  # fmt: skip

    @property
    def sound(self) -> bool:
        """Whether nothing was changed since the row was made."""
        return self.checksum == self.expected


COLUMNS = Row._fields


def checksum(*served: Any) -> str:
    """Return the checksum of a row: of the values of `SERVED`, in that order."""
    # no text has a NUL, so that values cannot run into each other
    content = "\0".join(map(repr, served))
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def made_row(key: str, model: str, parameters: str, prompt: str, answer: Completion) -> Row:
    """Return the row of an answer that has just come; see `Row`."""
    row = Row(
        *(key, model, parameters, prompt, answer.text, answer.finish),
        *(answer.prompt_tokens, answer.completion_tokens, answer.seconds, now()),
        unusable=int(not answer.usable),
        checksum="",
    )
    return row._replace(checksum=row.expected)


def answer_row(key: str, llm: ChatModel, chat: Chat, answer: Completion) -> Row:
    """Return the row of a model's answer to a chat."""
    messages = [list(message) for message in chat.messages]
    made_with = llm.sent_parameters() | ({REFUSED: list(llm.refused)} if llm.refused else {})
    return made_row(key, llm.name, as_json(made_with), as_json(messages), answer)


def now() -> str:
    """Return the time as rows have it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def as_json(value: Any) -> str:
    """Return a value as JSON that every file can hold."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True)
    return text


SCHEMA = 2
"""Version of the tables; files of another one are kept aside, and their answers taken over."""

APPLICATION = 0x46544B4C  # "FTKL", which the tool `file` and others see
TABLES = {
    "answers": """CREATE TABLE answers (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    parameters TEXT NOT NULL,
    prompt TEXT NOT NULL,
    answer TEXT NOT NULL,
    finish TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL NOT NULL,
    created TEXT NOT NULL,
    unusable INTEGER NOT NULL,
    checksum TEXT NOT NULL
)""",
    # calls under way: who makes them, what they may cost, the owner's last sign of life
    "claims": """CREATE TABLE claims (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    price REAL NOT NULL,
    beat REAL NOT NULL
)""",
    "payments": """CREATE TABLE payments (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    price REAL
)""",
}
_PATIENCE = 60.0  # seconds to wait for another process's write

INSERT = f"INSERT OR REPLACE INTO answers VALUES ({','.join('?' * len(COLUMNS))})"


def connected(path: Path) -> sqlite3.Connection:
    """Return an open database, with the texts that it holds, however damaged."""
    database = sqlite3.connect(
        path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    database.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    return database


def write_new(path: Path, rows: Sequence[Row]) -> None:
    """Write a new file, which takes its name when it is complete; only the owner may read it."""
    part = path.with_name(f".{secrets.token_hex(6)}.part.{path.name[-100:]}")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as database:
            database.execute("PRAGMA page_size=4096")
            database.execute("BEGIN")
            for table in TABLES.values():
                database.execute(table)
            mark(database)
            database.executemany(INSERT, rows)
            database.execute("COMMIT")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def mark(database: sqlite3.Connection) -> None:
    """Mark a database as a ledger of this version."""
    database.execute(f"PRAGMA application_id={APPLICATION}")
    database.execute(f"PRAGMA user_version={SCHEMA}")
