"""The answers of a ledger in SQLite: opened, checked, mended from a backup, committed one by one
or many at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypeVar

from fairtk.errors import DataWarning, FormatError
from fairtk.io import atomic_write, locked, network_of
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


class Backup:
    """A file of lines beside a ledger; an answer is in it before it is in the ledger.

    Later lines of a key count. Several processes may append at once.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(f"{ledger.name}.backup")

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        # the line break comes first: what a full disk cut off harms no later line
        left = memoryview(b"".join(b"\n" + _line(row) for row in rows))
        try:
            number = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                while left:
                    left = left[os.write(number, left) :]
            finally:
                os.close(number)
        except OSError as error:
            raise FormatError(
                f"the backup of the ledger cannot be written ({error.strerror})", self.path
            ) from None

    def begin(self, rows: Iterable[Row]) -> None:
        """Write the file anew."""
        with atomic_write(self.path) as part:
            number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(number, "wb") as stream:
                for row in rows:
                    stream.write(b"\n" + _line(row))

    def rows(self) -> Iterator[Row]:
        """Yield the rows that are whole, in their order; none if there is no file."""
        try:
            stream = self.path.open("rb")
        except OSError:
            return
        with stream:
            for line in stream:
                try:
                    row = Row(*json.loads(line))
                    if row.sound:
                        yield row
                except (ValueError, TypeError, RecursionError):
                    continue


def _line(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")


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
