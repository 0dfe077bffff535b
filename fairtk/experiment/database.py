"""The file of a store: SQLite, opened, locked and read with errors that name it."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairtk.errors import FormatError, StoreError
from fairtk.experiment.answers import Answers
from fairtk.files.places import network_of

FILE = "experiment.sqlite"
"""The store's name in its folder."""

_TABLES = """
CREATE TABLE IF NOT EXISTS chains (
    chain INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    stages TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS systems (
    name TEXT NOT NULL,
    chain INTEGER NOT NULL,
    seen TEXT NOT NULL,
    PRIMARY KEY (name, chain)
);
CREATE TABLE IF NOT EXISTS frames (
    frame INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS cells (
    chain INTEGER NOT NULL,
    qid TEXT NOT NULL,
    topic TEXT NOT NULL,
    frame INTEGER,
    first INTEGER NOT NULL,
    size INTEGER NOT NULL,
    error TEXT,
    PRIMARY KEY (chain, qid, topic)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evaluations (
    key TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    data BLOB NOT NULL,
    said TEXT NOT NULL
) WITHOUT ROWID;
"""


class StoreFile:
    """Processes that share a folder write one after the other; without one all is in memory.

    Raises:
        StoreError: the file cannot be opened; names it and says why.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder.resolve() / FILE
        if self.path is not None:
            _make_folder(self.path.parent)
        with self._named():
            # first: answers are a ledger, which other tables may share the file with
            self.answers = Answers(self.path)
            self._database = sqlite3.connect(
                ":memory:" if self.path is None else self.path,
                timeout=120,
                isolation_level=None,
                check_same_thread=False,
            )
            # results outlive the call that made them, and close with the last who holds them
            weakref.finalize(self, self._database.close)
            if self.path is not None:
                self._database.execute("PRAGMA journal_mode=WAL")
                self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_TABLES)

    def select(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows that a statement finds."""
        with self._named():
            return self._database.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all that is done within the block, or nothing."""
        with self._named():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def vacuum(self) -> None:
        """Give the room of what was deleted back to the disk."""
        with self._named():
            self._database.execute("VACUUM")

    def close(self) -> None:
        """Close the file."""
        self.answers.close()
        self._database.close()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            raise StoreError(str(error)) from error
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path}: the store of the experiment cannot be used ({error}); what was "
                "committed before is kept"
            ) from error


def checksum(*data: bytes) -> bytes:
    """Return the checksum that data is stored with."""
    return hashlib.blake2b(b"".join(data), digest_size=8).digest()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder}: save_dir cannot be made ({error.strerror or error}); give a folder that "
            "can be written to"
        ) from None
    kind = network_of(folder)
    if kind:
        raise StoreError(
            f"{folder}: this folder lies on a network file system ({kind}), where a store could be "
            "damaged: give a save_dir on a local disk, e.g. in $TMPDIR, and copy the folder when "
            "the experiment has ended"
        )
