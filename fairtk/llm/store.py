"""The SQLite file of a ledger or of an experiment's store: opened, checked, mended from a backup;
and the answers in it, committed one by one or many at once.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from fairtk.errors import DataWarning, FormatError
from fairtk.io import atomic_write, free_beside, locked, network_of, part_beside, real_path
from fairtk.llm.chat import (
    COLUMNS,
    SERVED,
    Chat,
    ChatModel,
    Completion,
    Row,
    answer_row,
    call_keys,
    checksums,
    completions,
    from_servers,
    questions,
)


class Backup:
    """A file of lines beside a ledger or store; a server's answer is in it before it is in there.

    Later lines of a key count. Several processes may append at once.
    """

    def __init__(self, file: Path) -> None:
        self.path = file.with_name(f"{file.name}.backup")

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
                stream.writelines(b"\n" + _line(row) for row in rows if not row.local)

    def rows(self) -> Iterator[Row]:
        """Yield the rows that are whole, in their order; none if there is no file."""
        with contextlib.suppress(OSError), self.path.open("rb") as stream:
            yield from _whole(stream)

    def last(self) -> Row | None:
        """Return the last row that is whole, without a look at all; None: there is none."""
        with contextlib.suppress(OSError), self.path.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            for size in (min(end, 1 << 16), end):  # few answers are longer
                stream.seek(end - size)
                for row in _whole(reversed(stream.readlines())):
                    return row
        return None


def _whole(lines: Iterable[bytes]) -> Iterator[Row]:
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            row = Row(*json.loads(line))
            if row.sound:
                yield row


def _line(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")


FORMAT = 3
"""Version of the tables; another one is refused."""

LEDGER_MARK, STORE_MARK = 0x46544B4C, 0x46544B53
"""``FTKL``, ``FTKS``: in a file's header, so that one which lost its tables is not a new one."""

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
_INSERT = f"INSERT OR REPLACE INTO answers VALUES ({','.join('?' * len(COLUMNS))})"
_LATER = "SELECT 1 FROM answers WHERE key = ? AND created >= ?"
_PATIENCE = 120.0  # seconds to wait for another process's write
_COMPANIONS = ("-wal", "-shm", "-journal")
_OF_THE_PLACE = (
    *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_MISUSE),
)

T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """What a file holds beside answers.

    Attributes:
        name: for messages.
        mark: its application id.
        tables: the statements that make the tables, by name.
    """

    name: str = "ledger"
    mark: int = LEDGER_MARK
    tables: Mapping[str, str] = field(default_factory=dict)


class Database:
    """One connection to the SQLite file of a ledger or store, for all threads of a process.

    A file that is damaged is kept under another name, with a warning that names it; what can be
    read of it, and what its backup (``NAME.backup``) holds, is in a new one. On a network file
    system one process at a time can have the file.

    Args:
        path: the file; made if it is not there. None: in memory.
        kind: what is in it beside answers.
        mend: whether a damaged file is replaced; otherwise it is an error.
        offline: whether a file that may only be read will do.

    Raises:
        FormatError: the file cannot be opened, is of another format, or is damaged, and nothing of
            it can be saved; later, on use: it cannot be read or written.
    """

    def __init__(
        self, path: Path | None, kind: Kind = Kind(), mend: bool = True, offline: bool = False
    ) -> None:
        self.path = path
        self.kind = kind
        self.mend = mend
        places = () if path is None or not offline else (path, path.parent)
        self.read_only = not all(os.access(place, os.W_OK) for place in places)
        self._durable = True
        self._lock = RLock()
        self._open()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        return self._used(lambda database: database.execute(query, values).fetchall())

    def write(self, work: Callable[[sqlite3.Connection], T], durable: bool = True) -> T:
        """Do something in a transaction of its own, and return what it returns.

        It may be called again if a ledger turns out to be damaged. `durable` work is on the disk
        when this returns.
        """

        def transaction(database: sqlite3.Connection) -> T:
            if durable != self._durable:
                database.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            return _in_transaction(database, work)

        return self._used(transaction)

    def vacuum(self) -> None:
        """Give the room of what was deleted back to the disk."""
        self._used(lambda database: database.execute("VACUUM"))

    def close(self) -> None:
        """Close the file; its write-ahead log is merged into it."""
        with self._lock:
            self._database.close()

    def _used(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Use the database: opened again if the file was replaced, mended if it is damaged."""
        with self._lock, self._named():
            if self._identity() != self._inode:
                self._open_again("replaced")
            try:
                return work(self._database)
            except sqlite3.DatabaseError as error:
                if self.path is None or not _is_damage(error):
                    raise
            self._open_again("damaged")
            return work(self._database)

    def _open_again(self, event: str) -> None:
        if self.kind.tables:  # results refer to each other
            raise FormatError(f"the {self.kind.name} was {event} while it was used", self.path)
        self._database.close()
        self._open()

    def _identity(self) -> tuple[int, int] | None:
        try:
            state = os.stat(self.path or "")
        except OSError:
            return None
        return state.st_dev, state.st_ino

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Turn the database's errors into ones that name the file."""
        try:
            yield
        except sqlite3.Error as error:
            text, network = str(error), "" if self.path is None else network_of(self.path)
            if "locked" in text and network:
                text += f"; on a network file system ({network}) one process at a time can have it"
        except OSError as error:
            text = str(error.strerror)
        else:
            return
        raise FormatError(f"the {self.kind.name} cannot be used ({text})", self.path) from None

    # Opening ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._durable = True
        if self.path is None:
            self._database = _connected(":memory:")
            _in_transaction(self._database, self._begin)
        else:
            with self._named():
                self._database = self._opened(self.path)
        self._inode = self._identity()

    def _opened(self, path: Path) -> sqlite3.Connection:
        if not path.parent.is_dir():
            raise FormatError(
                f"the folder of the {self.kind.name} does not exist; make it first", path
            )
        if path.is_dir():
            raise FormatError(f"the {self.kind.name} must be a file, but this is a folder", path)
        self.backup = Backup(path)
        if self.read_only:
            # what waits in a log can only be read with it
            way = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
            database = _connected(f"{path.as_uri()}?{way}")
            problem = self._problem(database)
            if problem:
                raise FormatError(f"the {self.kind.name} is {problem}, and may only be read", path)
            return database
        with locked(path.parent):
            if path.exists():
                with contextlib.closing(_connected(path)) as database:
                    problem = self._problem(database)
                if problem:
                    self._renew(path, problem)
            else:
                for end in _COMPANIONS:  # of a file that is gone: the new one's, they would seem
                    Path(f"{path}{end}").unlink(missing_ok=True)
                _write_new(path, [])
                if self.backup.path.exists():
                    place = free_beside(path)
                    os.replace(self.backup.path, place)
                    _warn(f"the {self.kind.name} of the backup {self.backup.path} is gone: a new "
                          f"one is begun, and the backup was moved to {place}")  # fmt: skip
            database = _connected(path)
            if network_of(path):
                # shared memory does not work between machines: one process has the file to itself
                database.execute("PRAGMA locking_mode=EXCLUSIVE")
                database.execute("PRAGMA journal_mode=DELETE")
                _in_transaction(database, lambda _: None, "EXCLUSIVE")
            else:
                database.execute("PRAGMA journal_mode=WAL")
            header = tuple(_pragma(database, name) for name in ("application_id", "user_version"))
            if header not in ((self.kind.mark, FORMAT), (STORE_MARK, FORMAT)):
                _in_transaction(database, self._begin)
            if not self.backup.path.exists():
                self.backup.begin(_sound_rows(database))
            else:
                self._catch_up(database)
        return database

    def _catch_up(self, database: sqlite3.Connection) -> None:
        """Take what a file lacks from its backup, which has an answer before it does.

        It is an older copy, a copy without its log, or of a process that ended between the two.
        """
        last = self.backup.last()
        if last is None or database.execute(_LATER, (last.key, last.created)).fetchone():
            return

        def work(database: sqlite3.Connection) -> int:
            there = dict(database.execute("SELECT key, created FROM answers"))
            rows = {r.key: r for r in self.backup.rows() if there.get(r.key, "") < r.created}
            database.executemany(_INSERT, list(rows.values()))
            return len(rows)

        if lacked := _in_transaction(database, work):
            _warn(f"the {self.kind.name} {self.path} lacked {lacked} answers of its backup: they "
                  "were taken from there")  # fmt: skip

    def _begin(self, database: sqlite3.Connection) -> None:
        """Make the tables of a new file, or of a ledger that becomes a store."""
        existing = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        for name, table in self.kind.tables.items():
            if name not in existing:
                database.execute(table)
        in_store = not self.kind.tables and _pragma(database, "application_id") == STORE_MARK
        _mark(database, STORE_MARK if in_store else self.kind.mark)

    def _problem(self, database: sqlite3.Connection) -> str:
        """Return why a file cannot be used as it is, or an empty string."""
        try:
            schema = database.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL")
            tables = dict(schema)
            mark, version = (_pragma(database, n) for n in ("application_id", "user_version"))
            due = {**TABLES, **(self.kind.tables if mark == STORE_MARK else {})}
            lost = next((name for name in due if name not in tables), "")
            if mark not in (LEDGER_MARK, STORE_MARK) and lost:
                return f"not a {self.kind.name}" if tables else "empty"
            if version != FORMAT:
                raise FormatError(
                    f"the {self.kind.name} has format {version}, expected {FORMAT}: use the "
                    "version of fairtk that wrote it, or move it away to begin a new one",
                    self.path,
                )
            if lost:
                return f"without its table {lost!r}"
            checks = (f"PRAGMA integrity_check({name})" for name in TABLES)
            whole = all(tables[name] == table for name, table in due.items())
            whole = whole and all(database.execute(c).fetchone()[0] == "ok" for c in checks)
            return "" if whole else "corrupt"
        except UnicodeDecodeError:  # of a column's name
            return "corrupt"
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            return "corrupt"

    def _renew(self, path: Path, problem: str) -> None:
        """Begin a new file with all that can be saved, and keep the old one."""
        saved = {row.key: row for row in _readable(path)}
        # a damaged row is not in `saved`, and one that is newer than the backup's is
        saved |= {r.key: r for r in self.backup.rows() if r.created >= saved.get(r.key, r).created}
        if not self.mend or not (saved or self.backup.path.exists()):
            raise FormatError(
                f"the {self.kind.name} is {problem}"
                + ", and has no backup beside it: move it away to begin a new one" * self.mend,
                path,
            )
        place = free_beside(path)
        try:
            os.link(path, place)
        except OSError:
            shutil.copy2(path, place)
        for end in _COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}{end}", f"{place}{end}")
        rows = sorted(saved.values(), key=lambda row: row.created)
        _write_new(path, rows)
        self.backup.begin(rows)
        _warn(
            f"the {self.kind.name} {path} is {problem}: it was moved to {place}, and a new one is "
            "begun" + (f" with the {len(rows)} answers that it and its backup had" if rows else "")
        )


class _Connection(sqlite3.Connection):
    def __del__(self) -> None:  # of what is left open Python 3.13 warns
        with contextlib.suppress(sqlite3.ProgrammingError):  # it could not be opened
            self.close()


def _connected(place: Path | str) -> sqlite3.Connection:
    """Return an open database, with the texts that it holds, however damaged."""
    database = sqlite3.connect(
        place, timeout=_PATIENCE, isolation_level=None, check_same_thread=False,
        uri=str(place).startswith("file:"), factory=_Connection,
    )  # fmt: skip
    database.text_factory = functools.partial(str, encoding="utf-8", errors="surrogateescape")
    return database


def _in_transaction(
    database: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], way: str = "IMMEDIATE"
) -> T:
    """Do all of some work, or nothing."""
    database.execute(f"BEGIN {way}")
    try:
        outcome = work(database)
        database.execute("COMMIT")
        return outcome
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _pragma(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def _mark(database: sqlite3.Connection, mark: int) -> None:
    database.execute(f"PRAGMA application_id={mark}")
    database.execute(f"PRAGMA user_version={FORMAT}")


def _write_new(path: Path, rows: Sequence[Row]) -> None:
    """Write a new file, which takes its name when it is complete; only the owner may read it."""
    part = part_beside(path)

    def fill(database: sqlite3.Connection) -> None:
        for table in TABLES.values():
            database.execute(table)
        _mark(database, LEDGER_MARK)
        database.executemany(_INSERT, rows)

    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(_connected(part)) as database:
            _in_transaction(database, fill)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file's content is broken, and not its place."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code not in _OF_THE_PLACE and not isinstance(error, sqlite3.ProgrammingError)


def _readable(path: Path) -> list[Row]:
    """Return the sound rows of a damaged file: from both ends up to where it breaks."""
    rows: list[Row] = []
    for direction in ("", "DESC"):
        with (
            contextlib.suppress(sqlite3.Error, UnicodeDecodeError),
            contextlib.closing(_connected(path)) as database,
        ):
            rows.extend(_sound_rows(database, f"NOT INDEXED ORDER BY rowid {direction}"))
    return rows


def _sound_rows(database: sqlite3.Connection, order: str = "") -> Iterator[Row]:
    rows = database.execute(f"SELECT {','.join(COLUMNS)} FROM answers {order}")
    return (row for row in map(Row._make, rows) if row.sound)


def _warn(text: str) -> None:
    warnings.warn(text, DataWarning, stacklevel=6)


_MANY = 500  # SQLite's limit of parameters in one statement is 999 in old builds


class AnswerStore:
    """Answers by key, in one SQLite file (write-ahead log), for several threads and processes.

    A row that was changed on the disk is never served: the backup's is. Only its owner may read a
    new file; its folder must exist. Other tables in the file are left alone: an experiment keeps
    its own beside the answers.

    Args:
        file: the file, or its path.

    Raises:
        FormatError: the file cannot be opened; see `Database`.
    """

    def __init__(self, file: str | PathLike[str] | Database) -> None:
        self.file = file if isinstance(file, Database) else Database(real_path(file))

    @property
    def path(self) -> Path:
        """The file's path."""
        return self.file.path or Path()

    def get(self, keys: Iterable[str], since: str = "") -> dict[str, Completion]:
        """Return the answers that are there, by key.

        Unusable ones that were made before `since` are left out; empty: none.
        """
        sound: dict[str, tuple[Any, ...]] = {}
        damaged: list[str] = []
        rows = self._of_keys(f"{', '.join(SERVED)}, checksum, unusable", keys)
        sums = checksums([row[:-2] for row in rows])
        for (*served, stored, unusable), summed in zip(rows, sums, strict=True):
            key, answer, finish, asked, told, seconds, created = served
            if summed != stored:
                damaged.append(key)
            elif not (unusable and created < since):
                sound[key] = (answer, asked, told, seconds, finish)
        answers = dict(zip(sound, completions(sound.values()), strict=True))
        return answers | (self._mended(damaged) if damaged else {})

    def put(self, key: str, llm: ChatModel, chat: Chat, answer: Completion) -> Completion:
        """Commit an answer and return it; if another process was first, return that one."""
        return self.put_many([answer_row(key, llm.name, llm.parameters(), chat, answer)])[key]

    def put_texts(
        self, model: str, parameters: Mapping[str, Any], texts: Mapping[str, str], local: bool
    ) -> None:
        """Commit the texts that a model answered, by prompt, all or none; see `answer_row`."""
        chats = questions(texts)
        answers = completions(zip(texts.values(), strict=True))
        calls = zip(call_keys(model, parameters, chats), chats, answers, strict=True)
        self.put_many([answer_row(k, model, parameters, chat, a, local) for k, chat, a in calls])

    def put_many(self, rows: Sequence[Row]) -> dict[str, Completion]:
        """Commit answers, all or none, and return those that are there then, by key.

        Where the key of a row is there already, the first stays.
        """
        keys = list(dict.fromkeys(row.key for row in rows))

        def write(database: sqlite3.Connection) -> None:
            there = {key for (key,) in self._of_keys("key", keys)}
            new = {row.key: row for row in reversed(rows) if row.key not in there}
            self.insert(database, list(new.values()))

        self.file.write(write)
        return self.get(keys)

    def insert(self, database: sqlite3.Connection, rows: Sequence[Row]) -> None:
        """Write rows, in a transaction that is begun; those of the same keys are replaced."""
        # the backup first: what is in the ledger is in it, too, wherever the process ends
        if served := from_servers(rows):
            self.file.backup.append(served)
        database.executemany(_INSERT, rows)

    def reject(self, key: str) -> None:
        """Note that an answer is of no use to who read it; not in a file that is only read."""
        if not self.file.read_only:
            change = "UPDATE answers SET unusable = 1 WHERE key = ? AND NOT unusable"
            self.file.write(lambda database: database.execute(change, (key,)))

    def has(self, model: str) -> bool:
        """Return whether there is an answer of a model."""
        return bool(self.file.read("SELECT 1 FROM answers WHERE model = ? LIMIT 1", (model,)))

    def __len__(self) -> int:
        return int(self.file.read("SELECT count(*) FROM answers")[0][0])

    def close(self) -> None:
        """Close the file; its write-ahead log is merged into it."""
        self.file.close()

    def _of_keys(self, columns: str, keys: Iterable[str]) -> list[Any]:
        distinct = list(dict.fromkeys(keys))
        rows: list[Any] = []
        for first in range(0, len(distinct), _MANY):
            part = distinct[first : first + _MANY]
            marks = ",".join("?" * len(part))
            rows += self.file.read(f"SELECT {columns} FROM answers WHERE key IN ({marks})", part)
        return rows

    def _mended(self, keys: list[str]) -> dict[str, Completion]:
        """Return damaged answers as the backup has them; what it lacks is taken out."""
        rows = {row.key: row for row in self.file.backup.rows() if row.key in set(keys)}

        def write(database: sqlite3.Connection) -> None:
            database.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in keys])
            database.executemany(_INSERT, list(rows.values()))

        if not self.file.read_only:
            self.file.write(write)
        lost = len(set(keys)) - len(rows)
        warnings.warn(
            f"{len(set(keys))} answers in the ledger {self.path} were damaged: {len(rows)} were "
            "taken from its backup"
            + (f", {lost} are lost and will be asked for again" if lost else ""),
            DataWarning,
            stacklevel=4,
        )
        return {key: row.completion for key, row in rows.items()}
