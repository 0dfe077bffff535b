"""The open file of a ledger: reads, transactions, and what happens when it is damaged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from fairtk.llm.backup import Backup
from fairtk.llm.opening import is_damage, named, open_database

_Found = TypeVar("_Found")


class LedgerFile:
    """One connection to a ledger's database, for all threads of a process.

    Raises:
        FormatError: the file cannot be opened; later, on use: it cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.backup = Backup(path)
        self._lock = RLock()
        self._database = open_database(path, self.backup)
        self._inode = self._identity()
        self._durable = True

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        return self._used(lambda database: database.execute(query, values).fetchall())

    def write(self, work: Callable[[sqlite3.Connection], _Found], durable: bool = True) -> _Found:
        """Do something in a transaction of its own, and return what it returns.

        It may be called again if the file turns out to be damaged. `durable` work is on the disk
        when this returns.
        """

        def transaction(database: sqlite3.Connection) -> _Found:
            if durable != self._durable:
                database.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            database.execute("BEGIN IMMEDIATE")
            try:
                found = work(database)
                database.execute("COMMIT")
                return found
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

        return self._used(transaction)

    def close(self) -> None:
        """Close the file; its write-ahead log is merged into it."""
        with self._lock:
            self._database.close()

    def _used(self, work: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Use the database: opened again if the file was replaced, mended if it is damaged."""
        with self._lock, named(self.path):
            if self._identity() != self._inode:
                self._open_again()
            try:
                return work(self._database)
            except sqlite3.DatabaseError as error:
                if not is_damage(error) or isinstance(error, sqlite3.ProgrammingError):
                    raise
            self._open_again()
            return work(self._database)

    def _open_again(self) -> None:
        self._database.close()
        self._database = open_database(self.path, self.backup)
        self._inode = self._identity()
        self._durable = True

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino
