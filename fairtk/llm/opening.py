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
from fairtk.files.places import locked_folder, network_of
from fairtk.llm.backup import Backup
from fairtk.llm.chat import Completion
from fairtk.llm.rows import COLUMNS, Row, made_row

SCHEMA = 2
"""Version of the tables; files of another one are kept aside, and their answers taken over."""

_APPLICATION = 0x46544B4C  # "FTKL", which the tool `file` and others see
_TABLES = {
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
_FIRST_VERSION = COLUMNS[:10]  # the ledgers of fairtk before checksums
_PATIENCE = 60.0  # seconds to wait for another process's write
INSERT = f"INSERT OR REPLACE INTO answers VALUES ({','.join('?' * len(COLUMNS))})"


def open_database(path: Path, backup: Backup) -> sqlite3.Connection:
    """Return the open database of a ledger; made, or mended, if need be.

    A file that is damaged or no ledger is kept beside the new one, with a warning that names it;
    what can be read of it, and what its backup has, is in the new one.

    Raises:
        FormatError: the file cannot be opened.
    """
    if not path.parent.is_dir():
        raise FormatError("the folder of the ledger does not exist; make it first", path)
    if path.is_dir():
        raise FormatError("the ledger must be a file, but this is a folder", path)
    with locked_folder(path.parent), named(path):
        if not path.exists():
            _make(path, [])
            if backup.path.exists():
                _warn(f"the ledger of the backup {backup.path} is gone: a new one is begun, and "
                      f"the backup was moved to {_aside(backup.path)}")  # fmt: skip
        else:
            problem = _problem(path)
            if problem:
                _renew(path, backup, problem)
        database = _connected(path)
        if not backup.path.exists():
            backup.begin(_readable_rows(database))
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


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file's content is broken."""
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in broken


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(
        path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    # a damaged text is to arrive, so that its checksum can be compared
    database.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    if network_of(path):
        # shared memory does not work between machines: one process has the file to itself
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("BEGIN EXCLUSIVE")
        database.execute("COMMIT")
    else:
        database.execute("PRAGMA journal_mode=WAL")
    return database


def _make(path: Path, rows: list[Row]) -> None:
    """Write a new file, which takes its name when it is complete; only the owner may read it."""
    part = path.with_name(f".{secrets.token_hex(6)}.part.{path.name[-100:]}")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as database:
            database.execute("BEGIN")
            for table in _TABLES.values():
                database.execute(table)
            _mark(database)
            database.executemany(INSERT, rows)
            database.execute("COMMIT")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _mark(database: sqlite3.Connection) -> None:
    database.execute(f"PRAGMA application_id={_APPLICATION}")
    database.execute(f"PRAGMA user_version={SCHEMA}")


def _problem(path: Path) -> str:
    """Return why the file cannot be used as it is, or an empty string.

    A database without any table is a ledger that was not begun, and one with other tables only,
    but fairtk's mark, a store: both get what they lack.
    """
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_PATIENCE)) as database:
            found = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL"))
            mark = database.execute("PRAGMA application_id").fetchone()[0]
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if "answers" not in found and (not found or mark == _APPLICATION):
                for name in _TABLES.keys() - found.keys():
                    database.execute(_TABLES[name])
                _mark(database)
                database.commit()
                return ""
            whole = all(found.get(name) == table for name, table in _TABLES.items())
            if mark != _APPLICATION and not whole:
                return "not a ledger"
            if version != SCHEMA:
                return f"of version {version}, not {SCHEMA}"
            if not whole:
                return "corrupt"
            for name in _TABLES:
                if database.execute(f"PRAGMA integrity_check({name})").fetchone()[0] != "ok":
                    return "corrupt"
            return ""
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and not is_damage(error):
            raise
        return "corrupt"


def _renew(path: Path, backup: Backup, problem: str) -> None:
    """Begin a new file with all that can be saved, and keep the old one."""
    saved = {row.key: row for row in _saved(path)}
    # a damaged row is not in `saved`, and one that is newer than the backup's is
    saved |= {row.key: row for row in backup.rows() if _newer(row, saved.get(row.key))}
    place = _free(path)
    try:
        os.link(path, place)
    except OSError:
        shutil.copy2(path, place)
    for end in ("-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{end}", f"{place}{end}")
    rows = sorted(saved.values(), key=lambda row: row.created)
    _make(path, rows)
    backup.begin(rows)
    _warn(
        f"the ledger {path} is {problem}: it was moved to {place}, and a new one is begun"
        + (f" with the {len(rows)} answers that it and its backup had" if rows else "")
    )


def _newer(row: Row, other: Row | None) -> bool:
    return other is None or row.created >= other.created


def _saved(path: Path) -> list[Row]:
    """Return the sound rows of a damaged file: from both ends up to where it breaks."""
    rows: list[Row] = []
    for direction in ("", "DESC"):
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(path, timeout=_PATIENCE)) as database,
        ):
            database.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            names = {name for _, name, *_ in database.execute("PRAGMA table_info(answers)")}
            columns = COLUMNS if names >= set(COLUMNS) else _FIRST_VERSION
            order = f"SELECT {','.join(columns)} FROM answers NOT INDEXED ORDER BY rowid"
            for values in database.execute(f"{order} {direction}"):
                row = Row(*values) if columns == COLUMNS else _of_first_version(*values)
                if row is not None and row.sound:
                    rows.append(row)
    return rows


def _of_first_version(
    key: str, model: str, parameters: str, prompt: str, *served: object
) -> Row | None:
    answer, finish, asked, told, seconds, created = served
    try:
        completion = Completion(answer, asked, told, seconds, finish)  # type: ignore[arg-type]
        return made_row(key, model, parameters, prompt, completion, str(created))
    except (TypeError, ValueError):
        return None


def _readable_rows(database: sqlite3.Connection) -> Iterator[Row]:
    for values in database.execute(f"SELECT {','.join(COLUMNS)} FROM answers"):
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
