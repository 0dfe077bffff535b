"""Opening a ledger's file: made whole, checked, and mended from its backup if it is damaged."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path

from fairtk.errors import DataWarning, FormatError
from fairtk.files.places import locked, network_of
from fairtk.llm.backup import Backup
from fairtk.llm.rows import APPLICATION, COLUMNS, SCHEMA, TABLES, Row, connected, mark, write_new


def open_database(path: Path, backup: Backup) -> sqlite3.Connection:
    """Return the open database of a ledger; made, or mended, if need be.

    A file that is damaged or no ledger is kept beside the new one, with a warning that names it;
    what can be read of it, and what its backup has, is in the new one.
    """
    if not path.parent.is_dir():
        raise FormatError("the folder of the ledger does not exist; make it first", path)
    if path.is_dir():
        raise FormatError("the ledger must be a file, but this is a folder", path)
    with locked(path.parent), named(path):
        if not path.exists():
            for end in _COMPANIONS:  # of a file that is gone: they would be taken for the new one's
                Path(f"{path}{end}").unlink(missing_ok=True)
            write_new(path, [])
            if backup.path.exists():
                _warn(f"the ledger of the backup {backup.path} is gone: a new one is begun, and "
                      f"the backup was moved to {_aside(backup.path)}")  # fmt: skip
        else:
            problem = _problem(path)
            if problem:
                _renew(path, backup, problem)
        database = _ready(path)
        if not backup.path.exists():
            backup.begin(_sound_rows(database))
    return database


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Turn the database's errors into ones that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        text, kind = str(error), network_of(path)
        if "locked" in text and kind:
            text += f"; on a network file system ({kind}) one process at a time can have it"
        raise FormatError(f"the ledger cannot be used ({text})", path) from None
    except OSError as error:
        raise FormatError(f"the ledger cannot be used ({error.strerror})", path) from None


_COMPANIONS = ("-wal", "-shm", "-journal")
_OF_THE_PLACE = (
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_MISUSE),
)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file's content is broken, and not its place."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _OF_THE_PLACE


def _ready(path: Path) -> sqlite3.Connection:
    database = connected(path)
    if network_of(path):
        # shared memory does not work between machines: one process has the file to itself
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("BEGIN EXCLUSIVE")
        database.execute("COMMIT")
    else:
        database.execute("PRAGMA journal_mode=WAL")
    return database


def _problem(path: Path) -> str:
    """Return why the file cannot be used as it is, or an empty string.

    A database without any table is a ledger that was not begun, and one with other tables only,
    but fairtk's mark, a store: both get what they lack.
    """
    try:
        with contextlib.closing(connected(path)) as database:
            found = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL"))
            application = database.execute("PRAGMA application_id").fetchone()[0]
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if "answers" not in found and (not found or application == APPLICATION):
                database.execute("BEGIN")
                for name in TABLES.keys() - found.keys():
                    database.execute(TABLES[name])
                mark(database)
                database.execute("COMMIT")
                return ""
            whole = all(found.get(name) == table for name, table in TABLES.items())
            if application != APPLICATION and not whole:
                return "not a ledger"
            if version != SCHEMA:
                return f"of version {version}, not {SCHEMA}"
            if not whole:
                return "corrupt"
            for name in TABLES:
                if database.execute(f"PRAGMA integrity_check({name})").fetchone()[0] != "ok":
                    return "corrupt"
            return ""
    except UnicodeDecodeError:  # of a column's name
        return "corrupt"
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return "corrupt"


def _renew(path: Path, backup: Backup, problem: str) -> None:
    """Begin a new file with all that can be saved, and keep the old one."""
    saved = {row.key: row for row in saved_rows(path)}
    # a damaged row is not in `saved`, and one that is newer than the backup's is
    saved |= {r.key: r for r in backup.rows() if r.created >= saved.get(r.key, r).created}
    place = _free(path)
    try:
        os.link(path, place)
    except OSError:
        shutil.copy2(path, place)
    for end in _COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{end}", f"{place}{end}")
    rows = sorted(saved.values(), key=lambda row: row.created)
    write_new(path, rows)
    backup.begin(rows)
    _warn(
        f"the ledger {path} is {problem}: it was moved to {place}, and a new one is begun"
        + (f" with the {len(rows)} answers that it and its backup had" if rows else "")
    )


def _sound_rows(database: sqlite3.Connection, order: str = "") -> Iterator[Row]:
    for values in database.execute(f"SELECT {','.join(COLUMNS)} FROM answers {order}"):
        row = Row(*values)
        if row.sound:
            yield row


def _free(path: Path) -> Path:
    number = 1
    while True:
        place = path.with_name(f"{path.name}.aside-{number}")
        if not place.exists():
            return place
        number += 1


def _aside(path: Path) -> Path:
    place = _free(path)
    os.replace(path, place)
    return place


def _warn(text: str) -> None:
    warnings.warn(text, DataWarning, stacklevel=6)


# What can be read of a damaged file: rows whose checksums hold -------------------------------

_PAGE = 4096  # bytes of a page, in every ledger
_VALID_FOR = 95  # where the header says which change its number of pages is for


def saved_rows(path: Path) -> list[Row]:
    """Return the sound rows of a damaged file: from both ends up to where it breaks."""
    return _readable(path) or _under_another_first_page(path)


def _readable(path: Path) -> list[Row]:
    rows: list[Row] = []
    for direction in ("", "DESC"):
        with (
            contextlib.suppress(sqlite3.Error, UnicodeDecodeError),
            contextlib.closing(connected(path)) as database,
        ):
            rows += _sound_rows(database, f"NOT INDEXED ORDER BY rowid {direction}")
    return rows


def _under_another_first_page(path: Path) -> list[Row]:
    """Return the rows of a file whose first page, which says what is where, is that of a new one.

    Every ledger has its answers in the same place.
    """
    part = path.with_name(f".{secrets.token_hex(6)}.part.{path.name[-100:]}")
    try:
        write_new(part, [])
        with part.open("r+b") as copy, path.open("rb") as damaged:
            first = bytearray(copy.read(_PAGE))
            first[_VALID_FOR] ^= 1  # the number of pages in it does not hold
            damaged.seek(_PAGE)
            copy.seek(0)
            copy.write(first)
            while block := damaged.read(1 << 20):
                copy.write(block)
        return _readable(part)
    finally:
        for end in ("", *_COMPANIONS):
            part.with_name(part.name + end).unlink(missing_ok=True)
