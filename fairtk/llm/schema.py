"""The tables of a ledger, and a new file with them."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from fairtk.llm.rows import COLUMNS, Row

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
