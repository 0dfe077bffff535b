"""The SQLite file of a ledger or an experiment, and the answers in it.

``docs/internals.md`` describes its tables.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, TypeVar

from fairtk.errors import FormatError
from fairtk.io import file_lock
from fairtk.io.atomic import part_beside, real_path
from fairtk.llm.chat import Chat, Completion, Prompt, as_json, call_keys, now, questions
from fairtk.llm.reading import is_usable

FORMAT = 7
"""``PRAGMA user_version`` of a file. Formats 4 to 6 are upgraded, others are refused."""

SCHEMA = """
CREATE TABLE chains (
    chain INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    stages TEXT NOT NULL,
    created TEXT NOT NULL
);
CREATE TABLE systems (
    name TEXT NOT NULL,
    chain INTEGER NOT NULL,
    seen TEXT NOT NULL,
    PRIMARY KEY (name, chain)
);
CREATE TABLE runs (
    chain INTEGER NOT NULL,
    qid TEXT NOT NULL,
    name TEXT NOT NULL,
    topic TEXT NOT NULL,
    PRIMARY KEY (chain, qid, name)
) WITHOUT ROWID;
CREATE TABLE frames (
    frame INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);
CREATE TABLE cells (
    chain INTEGER NOT NULL,
    qid TEXT NOT NULL,
    topic TEXT NOT NULL,
    frame INTEGER,
    first INTEGER NOT NULL,
    size INTEGER NOT NULL,
    error TEXT,
    notes TEXT,
    remarks TEXT,
    PRIMARY KEY (chain, qid, topic)
) WITHOUT ROWID;
CREATE TABLE evaluations (
    key TEXT PRIMARY KEY,
    data BLOB NOT NULL,
    warnings TEXT NOT NULL
) WITHOUT ROWID;
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
    created TEXT NOT NULL,
    unusable INTEGER NOT NULL,
    cached_tokens INTEGER
);
CREATE TABLE failures (
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    reason TEXT NOT NULL,
    created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE writers (
    version TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE payments (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    price REAL,
    tokens INTEGER
);
CREATE TABLE claims (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    price REAL NOT NULL,
    tokens INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX claims_of_owner ON claims (owner);
CREATE TABLE owners (
    owner TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    expires REAL,
    claims INTEGER NOT NULL,
    price REAL NOT NULL,
    tokens INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
"""
TABLES = re.findall(r"CREATE TABLE (\w+)", SCHEMA)

_SHARED = ("answers", "failures", "writers")
"""The tables of a file that is shared. Others have the prices and the names of processes."""

_ADDED = ("runs", "failures", "writers")  # tables that earlier formats do not have

# Format 4 did not record which topics a system was run over last. Frames are numbered in the order
# in which they were committed, so the last result of a query counts.
_RUNS = (
    "INSERT OR REPLACE INTO runs SELECT chain, qid, name, topic FROM systems JOIN cells "
    "USING (chain) ORDER BY coalesce(frame, 0)"
)

# Before format 7, "stop" was recorded for all answers of local models.
_LOCAL = (
    "coalesce(json_extract(parameters, '$.content'), json_extract(parameters, '$.identity')) "
    "IS NOT NULL"
)
_UNKNOWN = f"UPDATE answers SET finish = 'unknown' WHERE finish = 'stop' AND ({_LOCAL})"
_EARLIER_ANSWERS = f"""
CREATE TEMPORARY VIEW answers AS SELECT key, model, parameters, prompt, answer,
CASE WHEN finish = 'stop' AND ({_LOCAL}) THEN 'unknown' ELSE finish END AS finish, prompt_tokens,
completion_tokens, seconds, created, unusable, NULL AS cached_tokens FROM main.answers
"""

_PATIENCE = 120.0  # seconds to wait for another process's write

T = TypeVar("T")


class Database:
    """A connection to the file for all threads of a process. A forked process opens a new one.

    Args:
        path: the file; created if absent, readable only by its owner. `None` for a database in
            memory.
        allow_read_only: whether a file that cannot be written is opened for reading only.
        read_only: whether every file is opened for reading only.

    Attributes:
        token: identifies this connection, the owner of its claims.

    Raises:
        FormatError: the file cannot be opened, has another version, or is on a network file system;
            on use: it cannot be read or written.
    """

    def __init__(
        self, path: Path | None, allow_read_only: bool = False, read_only: bool = False
    ) -> None:
        self.path = path
        self.is_read_only = read_only or (
            allow_read_only
            and path is not None
            and not all(os.access(each, os.W_OK) for each in (path, path.parent))
        )
        self._reset()
        with self._use():  # raises an error for an invalid file
            pass
        _open_databases.add(self)

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self._use() as connection:
            return connection.execute(query, values).fetchall()

    def write(self, work: Callable[[sqlite3.Connection], T], durable: bool = True) -> T:
        """Run `work` in a transaction and return its result.

        If `durable`, the changes survive a power failure after the return.
        """
        with self._use() as connection:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    def copy_to(self, path: Path) -> None:
        """Write a copy of the file as of now."""
        with self._use() as connection:
            connection.execute("VACUUM INTO ?", (str(path),))

    def vacuum(self) -> None:
        """Return the space of deleted rows to the disk."""
        with self._use() as connection:
            connection.execute("VACUUM")

    def close(self) -> None:
        """Close the file; its write-ahead log is merged into it."""
        with self._lock:
            self._finalizer()

    def _reset(self) -> None:
        self.token = secrets.token_hex(8)
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    def _after_fork(self) -> None:
        """Reset the connection, so that a forked process opens the file again."""
        if self.path is not None:
            # the parent's open connection would prevent SQLite's locks in this process
            self._finalizer()
            self._reset()

    @contextlib.contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                    self._finalizer = weakref.finalize(self, self._connection.close)
                yield self._connection
            except sqlite3.Error as error:
                raise FormatError(f"the file cannot be used ({error})", self.path) from None

    def _open(self) -> sqlite3.Connection:
        path = self.path
        if path is None:
            connection = _connect(":memory:")
            connection.executescript(SCHEMA)
            return connection
        if not path.parent.is_dir():
            raise FormatError("no such folder; create it first", path)
        if path.is_dir():
            raise FormatError("expected a file, got a folder", path)
        if self.is_read_only:
            # with a write-ahead log the file is not immutable
            mode = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
            return _checked(_connect(f"{path.as_uri()}?{mode}"), path, read_only=True)
        if network := network_of(path):
            raise FormatError(
                f"a network file system ({network}) is not supported, because SQLite can damage "
                "the file; use a local disk, e.g. $TMPDIR, and copy the file afterwards",
                path,
            )
        if not path.exists():
            _create(path)
        return _checked(_connect(path), path, read_only=False)


NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "lustre"),
        *("gpfs", "beegfs", "glusterfs", "orangefs", "pvfs2", "9p", "fuse.sshfs"),
        *("fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"),
    )
)
"""File systems that several machines write to; locks and shared memory fail there."""

_MOUNTS = Path("/proc/self/mounts")


def network_of(path: Path) -> str:
    """Return the type of the network file system of a path, empty if it is on none of `NETWORK`.

    The folder of the file must exist.
    """
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real = path.resolve()
    depth, kind = -1, ""
    for line in lines:
        _, mount_point, name, *_ = line.split(" ")
        point = Path(mount_point.replace("\\040", " "))
        # >=: a later mount hides an earlier one on the same point
        if len(point.parts) >= depth and real.is_relative_to(point):
            depth, kind = len(point.parts), name
    return kind if kind in NETWORK else ""


_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_locked_databases: list[Database] = []


def _before_fork() -> None:
    _locked_databases.extend(_open_databases)
    for database in _locked_databases:
        database._lock.acquire()  # no thread may be inside SQLite


def _after_fork_in_parent() -> None:
    while _locked_databases:
        _locked_databases.pop()._lock.release()


def _after_fork_in_child() -> None:
    while _locked_databases:
        _locked_databases.pop()._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=_PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        uri=str(path).startswith("file:"),
    )


def _create(path: Path) -> None:
    """Create the file under a temporary name and rename it, so that it is always complete."""
    part = part_beside(path)
    with file_lock(path.parent):
        if path.exists():  # another process was faster
            return
        try:
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with closing(_connect(part)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")  # the mode is stored in the file
                connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version={FORMAT}; COMMIT")
                _sign(connection)
            # remains of a deleted file, which SQLite would merge into this one
            for suffix in ("-wal", "-shm", "-journal"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            os.replace(part, path)
        except OSError as error:
            raise FormatError(f"the file cannot be created ({error.strerror})", path) from None
        finally:
            part.unlink(missing_ok=True)


def _checked(connection: sqlite3.Connection, path: Path, read_only: bool) -> sqlite3.Connection:
    """Return a connection to a file of this version, or close it and raise a `FormatError`.

    A file of an earlier format is upgraded. If it is opened for reading only, new tables are
    temporary, and cells have no remarks, a column of format 6.
    """
    try:
        problem, version = _problem_of(connection)
        if not problem and version != FORMAT and read_only:
            _add_tables(connection, "TEMPORARY TABLE")
            connection.execute(_EARLIER_ANSWERS)
        elif not problem and version != FORMAT:
            connection.execute("BEGIN IMMEDIATE")
            problem, version = _problem_of(connection)
            if not problem and version != FORMAT:  # otherwise another process was faster
                _add_tables(connection, "TABLE")
                if version < 6:
                    connection.execute("ALTER TABLE cells ADD COLUMN remarks TEXT")
                connection.execute("ALTER TABLE answers ADD COLUMN cached_tokens INTEGER")
                connection.execute("ALTER TABLE payments ADD COLUMN tokens INTEGER")
                for table in ("claims", "owners"):
                    column = "tokens INTEGER NOT NULL DEFAULT 0"
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
                connection.execute(_UNKNOWN)
                connection.execute(f"PRAGMA user_version={FORMAT}")
                _sign(connection)
            connection.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        problem = f"SQLite cannot read the file ({error}); use another file"
    if not problem:
        return connection
    connection.close()
    raise FormatError(f"{problem}, or move it away to start a new one", path)


def _add_tables(connection: sqlite3.Connection, kind: str) -> None:
    """Create the tables that a file of an earlier format does not have."""
    tables = _tables(connection)
    for name in _ADDED:
        if name not in tables:
            [statement] = re.findall(rf"CREATE TABLE {name} .*?;", SCHEMA, re.DOTALL)
            connection.execute(statement.replace("TABLE", kind, 1))
            if name == "runs":
                connection.execute(_RUNS)


def _sign(connection: sqlite3.Connection) -> None:
    """Record the version of fairtk that writes a file, for messages of other versions."""
    from fairtk import __version__

    connection.execute("INSERT OR IGNORE INTO writers VALUES (?)", (__version__,))


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def _problem_of(connection: sqlite3.Connection) -> tuple[str, int]:
    """Return the problem of a file with a remedy, empty if it can be used, and its format."""
    from packaging.version import Version

    from fairtk import __version__

    [[version]] = connection.execute("PRAGMA user_version").fetchall()
    tables = _tables(connection)
    required = [name for name in TABLES if name not in _ADDED or version == FORMAT]
    missing = [name for name in required if name not in tables]
    if 4 <= version <= FORMAT and not missing:
        return "", version
    if 4 <= version <= FORMAT:
        return f"missing table {missing[0]!r}; use a copy of the file that is complete", version
    if not version and not tables:
        return "the file is empty; use a copy of the file that is complete", version
    writers = connection.execute("SELECT version FROM writers") if "writers" in tables else []
    versions = [Version(name) for (name,) in writers]
    if version > FORMAT:  # two builds may have the same version
        versions = [one for one in versions if one > Version(__version__)]
    unknown = "a newer fairtk" if version > FORMAT else "an earlier fairtk"
    writer = f"fairtk {max(versions)}" if versions else unknown
    return (
        f"this fairtk ({__version__}) reads the formats 4 to {FORMAT}, the file has the format "
        f"{version}, written by {writer}; install {writer} to read it"
    ), version


# Answers ----------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of the table of answers."""

    key: str  # see `call_keys`
    model: str
    parameters: str  # JSON
    prompt: str  # the messages, as JSON
    answer: str
    finish: str  # see `Completion`
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    created: str  # UTC
    unusable: int  # 1 if it cannot be used, else 0
    cached_tokens: int | None


class FailureRow(NamedTuple):
    """A row of the table of failures that cannot pass."""

    key: str
    model: str
    prompt: str  # the messages, as JSON
    reason: str
    created: str  # UTC


def failure_row(key: str, model: str, chat: Chat, reason: str) -> FailureRow:
    """Return the row of a new failure."""
    prompt = as_json([list(message) for message in chat.messages])
    return FailureRow(key, model, prompt, reason, now())


def answer_row(
    key: str, model: str, parameters: Mapping[str, Any], chat: Chat, answer: Completion
) -> Row:
    """Return the row of a new answer."""
    return Row(
        key=key,
        model=model,
        parameters=as_json({**parameters, **({"sent": answer.sent} if answer.sent else {})}),
        prompt=as_json([list(message) for message in chat.messages]),
        answer=answer.text,
        finish=answer.finish,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        seconds=answer.seconds,
        created=now(),
        unusable=int(not is_usable(answer, chat.text)),
        cached_tokens=answer.cached_tokens,
    )


_INSERT = (
    f"INSERT INTO answers VALUES ({', '.join('?' * len(Row._fields))}) ON CONFLICT (key) "
    f"DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in Row._fields[1:])} "
    "WHERE answers.unusable AND answers.created < "
)
_SENT = (  # most answers have none, and JSON is slow to read
    "CASE WHEN instr(parameters, '\"sent\"') THEN coalesce(json_extract(parameters, '$.sent'), '') "
    "ELSE '' END"
)
_CHUNK = 500  # keys in a statement; SQLite's limit is 999 in old builds


class AnswerStore:
    """The answers in a file by key, for several threads and processes.

    Args:
        file: the file, or its path; see `Database`.
    """

    def __init__(self, file: str | PathLike[str] | Database) -> None:
        self.file = file if isinstance(file, Database) else Database(real_path(file))

    def get(self, keys: Iterable[str], since: str = "") -> dict[str, Completion]:
        """Return the stored answers by key, except unusable ones created before `since`."""
        columns = "key, answer, prompt_tokens, completion_tokens, seconds, finish, cached_tokens"
        usable = "AND NOT (unusable AND created < ?)"
        rows = self._rows(f"SELECT {columns}, {_SENT} FROM answers", keys, usable, since)
        return {key: Completion(*values) for key, *values in rows}

    def failures(self, keys: Iterable[str], since: str = "") -> dict[str, str]:
        """Return the reasons of stored failures by key, except those created before `since`."""
        rows = self._rows("SELECT key, reason FROM failures", keys, "AND created >= ?", since)
        return dict(rows)

    def put_failures(self, rows: Sequence[FailureRow]) -> None:
        """Commit failures in one transaction; they replace earlier ones of the same prompts."""
        self.file.write(lambda connection: self.insert_failures(connection, rows))

    def insert_failures(self, connection: sqlite3.Connection, rows: Sequence[FailureRow]) -> None:
        """Insert failures, or replace earlier ones."""
        connection.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", rows)

    def temperatures(self, model: str) -> list[float | None]:
        """Return the temperatures of a model's answers, `None` if none was sent."""
        query = "SELECT DISTINCT json_extract(parameters, '$.temperature') FROM answers"
        return [row[0] for row in self.file.read(f"{query} WHERE model = ?", (model,))]

    def _rows(self, query: str, keys: Iterable[str], more: str, *values: Any) -> Iterator[Any]:
        """Yield the rows of a query for distinct keys."""
        distinct = list(dict.fromkeys(keys))
        for first in range(0, len(distinct), _CHUNK):
            chunk = distinct[first : first + _CHUNK]
            marks = ",".join("?" * len(chunk))
            yield from self.file.read(f"{query} WHERE key IN ({marks}) {more}", (*chunk, *values))

    def put_answers(
        self, model: str, parameters: Mapping[str, Any], answers: Mapping[Prompt, Completion]
    ) -> None:
        """Commit a model's answers by prompt, in one transaction."""
        chats = questions(answers)
        calls = zip(call_keys(model, parameters, chats), chats, answers.values(), strict=True)
        self.put_many(
            [answer_row(key, model, parameters, chat, answer) for key, chat, answer in calls]
        )

    def put_many(self, rows: Sequence[Row]) -> dict[str, Completion]:
        """Commit answers in one transaction, and return the stored answers by key."""
        self.file.write(lambda connection: self.insert(connection, rows))
        return self.get(row.key for row in rows)

    def insert(self, connection: sqlite3.Connection, rows: Sequence[Row], since: str = "") -> int:
        """Insert rows whose keys have no answer, and return their number.

        Unusable answers created before `since` are replaced. A failure of an answered call is gone.
        """
        before = connection.total_changes
        connection.executemany(f"{_INSERT}?", [(*row, since) for row in rows])
        n_inserted = connection.total_changes - before
        answered = [(row.key,) for row in rows]
        connection.executemany("DELETE FROM failures WHERE key = ?", answered)
        return n_inserted

    def mark(self, unusable: Mapping[str, bool]) -> None:
        """Mark answers by key as unusable or usable."""
        if unusable and not self.file.is_read_only:
            change = "UPDATE answers SET unusable = ?2 WHERE key = ?1 AND unusable <> ?2"
            self.file.write(lambda connection: connection.executemany(change, unusable.items()))

    def copy_to(self, path: Path) -> None:
        """Write the answers and failures to a new file."""
        self.file.copy_to(path)
        copy = Database(path)
        others = [table for table in TABLES if table not in _SHARED]
        copy.write(lambda file: [file.execute(f"DELETE FROM {table}") for table in others])
        copy.vacuum()
        copy.close()

    def seconds_per_answer(self, model: str) -> float:
        """Return the mean time of a model's answers; NaN if no answer is stored."""
        query = "SELECT avg(seconds) FROM answers WHERE model = ?"
        [(mean,)] = self.file.read(query, (model,))
        return math.nan if mean is None else float(mean)

    def has(self, model: str) -> bool:
        """Return whether an answer of a model is stored."""
        return bool(self.file.read("SELECT 1 FROM answers WHERE model = ? LIMIT 1", (model,)))

    def __len__(self) -> int:
        return int(self.file.read("SELECT count(*) FROM answers")[0][0])

    def __bool__(self) -> bool:
        return True  # also without answers

    def close(self) -> None:
        """Close the file."""
        self.file.close()
