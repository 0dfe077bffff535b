"""The store: one SQLite file per folder, with what each chain of stages made of each query, and
its upkeep.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pyterrier._ops import Compose

from fairtk.errors import FormatError, NotFoundError, ParameterError, StoreError
from fairtk.experiment.identity import Description, Identified
from fairtk.experiment.packing import Span, Table, from_bytes, joined, to_bytes, unpack
from fairtk.frames import QID
from fairtk.frames.digests import digests
from fairtk.io import network_of, write_parquet
from fairtk.llm import (
    AnswerStore,
    ChatBackend,
    ChatModel,
    Completion,
    Ledger,
    Recorded,
    as_json,
    made_row,
)
from fairtk.transformers import FairTransformer


@dataclass(frozen=True)
class Asker:
    """A generation backend as a ledger knows it: by its content and the threads it used."""

    key: str  # the digest of its identity, or a number within this run
    name: str
    parameters: dict[str, Any]
    elsewhere: bool = False  # its answers are kept in a ledger of the user's


class Answers:
    """Answers by model and prompt; the first that is kept stays. Without a file they are in
    memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._ledger = None if path is None else AnswerStore(path)
        if self._ledger is not None:
            weakref.finalize(self, self._ledger.close)  # with the last who holds them
        self._memory: dict[str, str] = {}

    def get(self, asker: Asker, prompts: Iterable[str]) -> dict[str, str]:
        """Return the answers that are there, by prompt."""
        keys = _by_key(asker, list(prompts))
        if self._ledger is None or asker.elsewhere:
            return {
                prompt: self._memory[key] for key, prompt in keys.items() if key in self._memory
            }
        # stripped, as a backend gives them: a language model's are kept as they came
        return {
            keys[key]: answer.text.strip()
            for key, answer in self._ledger.get(keys).items()
            if answer.finish != "unreadable"
        }

    def put(self, asker: Asker, texts: Mapping[str, str]) -> None:
        """Keep answers, all or none; what a worker has paid for is there already, and stays."""
        keyed = _by_key(asker, list(texts))
        if self._ledger is None or asker.elsewhere:
            for key, prompt in keyed.items():
                self._memory.setdefault(key, texts[prompt])
        else:
            name, parameters = asker.name, as_json(asker.parameters)
            self._ledger.put_many(
                [
                    made_row(key, name, parameters, as_json(_chat(p)), Completion(texts[p]))
                    for key, p in keyed.items()
                ]
            )

    def close(self) -> None:
        """Close the file."""
        if self._ledger is not None:
            self._ledger.close()


def _by_key(asker: Asker, prompts: list[str]) -> dict[str, str]:
    """Return the prompts by what a ledger knows their calls by."""
    calls: list[tuple[Any, ...]] = [(_chat(prompt), {}) for prompt in prompts]
    keys = digests([asker.name, asker.parameters], calls, 16)
    return dict(zip(keys, prompts, strict=True))


def _chat(prompt: str) -> list[list[str]]:
    return [["user", prompt]]


class Recording:
    """Puts models behind the store's ledger; whoever asks writes there, also a worker.

    A model that the user has put behind a ledger keeps that one, and rules that stand in for a
    model need none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self.path)

    def behind(self, value: Any) -> Any:
        """Return a stage or backend, or a copy of it in which all models are recorded.

        Models stand in settings of fairtk's transformers, and these within others and pipelines.
        """
        if isinstance(value, ChatModel):
            own = value.free or isinstance(value, Recorded)
            return value if own else self._ledger.wrap(value)
        if isinstance(value, ChatBackend):
            model = self.behind(value.model)
            return value if model is value.model else ChatBackend(model)
        if isinstance(value, list | tuple):
            parts = [self.behind(part) for part in value]
            same = all(new is old for new, old in zip(parts, value, strict=True))
            return value if same else type(value)(parts)
        names: Iterable[str] = ()
        if isinstance(value, FairTransformer):
            names = value.SETTINGS
        elif isinstance(value, Compose):
            names = ("_transformers",)
        elif isinstance(value, Identified):
            names = ("transformer",)
        found = {name: self.behind(getattr(value, name)) for name in names}
        found = {name: new for name, new in found.items() if new is not getattr(value, name)}
        if found:
            value = copy.copy(value)
            for name, new in found.items():
                setattr(value, name, new)
        return value


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
    notes TEXT,
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
        with self.transaction() as database:  # a store of 0.2 and before has no notes
            if "notes" not in [row[1] for row in database.execute("PRAGMA table_info(cells)")]:
                database.execute("ALTER TABLE cells ADD COLUMN notes TEXT")

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


_FEW = 500  # queries in one statement: old builds of SQLite take 999 parameters
_KEPT_TABLES = 64  # tables of a run without a folder are all kept; of a file, the last few


class StoredCell(NamedTuple):
    """Where one query's result stands: the frame, its first row there, and its number of rows."""

    frame: int | None  # None for a failed query that no stage said anything else about
    first: int
    size: int
    error: str | None  # why it failed


class Made(NamedTuple):
    """What a chain made of some queries."""

    chain: int  # its number in the store
    table: Table | None
    spans: Sequence[Span]
    errors: Mapping[str, str]  # why queries failed, those with rows among them
    notes: Mapping[str, str]  # what is kept beside rows and errors: JSON, by query


class Store(StoreFile):
    """Results by chain and query; committed in batches, each whole or not at all.

    Of two results for one cell the first stays. Without a folder they are held in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        super().__init__(folder)
        self._tables: dict[int, Table] = {}

    # Chains -----------------------------------------------------------------------------------

    def chain(self, key: str, stages: Sequence[Description | None], systems: Sequence[str]) -> int:
        """Return a chain's number, and remember its stages and which systems end with it."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO chains (key, stages, created) VALUES (?, ?, ?)",
                (key, json.dumps(stages, ensure_ascii=False), now),
            )
            number = self.number_of(key)
            assert number is not None  # it was inserted just now
            database.executemany(
                "INSERT OR REPLACE INTO systems VALUES (?, ?, ?)",
                [(name, number, now) for name in systems],
            )
        return number

    def earlier(self, system: str, key: str) -> list[Description] | None:
        """Return the stages that a system of this name had last, if its key is new here."""
        rows = self.select(
            "SELECT stages FROM systems JOIN chains USING (chain) WHERE name = ? "
            "ORDER BY seen DESC, chain DESC LIMIT 1",
            (system,),
        )
        return json.loads(rows[0][0]) if rows and self.number_of(key) is None else None

    def number_of(self, key: str) -> int | None:
        """Return a chain's number, or None if the store has nothing of it."""
        rows = self.select("SELECT chain FROM chains WHERE key = ?", (key,))
        return int(rows[0][0]) if rows else None

    # Cells ------------------------------------------------------------------------------------

    def cells(self, chain: int | None, topics: Mapping[str, str]) -> dict[str, StoredCell]:
        """Return the cells of a chain that are there, failed ones too, in the order of the topics.

        Topics are digests by qid; results of another text do not count.
        """
        # a batch is looked up by its queries, so that the work does not grow with its square
        some = list(topics) if len(topics) <= _FEW else []
        only = f" AND qid IN ({','.join('?' * len(some))})" if some else ""
        rows = self.select(
            f"SELECT qid, topic, frame, first, size, error FROM cells WHERE chain = ?{only}",
            (chain, *some),
        )
        found = {q: StoredCell(*rest) for q, topic, *rest in rows if topics.get(q) == topic}
        return {qid: found[qid] for qid in topics if qid in found}

    def commit(self, made: Iterable[Made], topics: Mapping[str, str]) -> None:
        """Keep results in one step; a result that is there stays, a failure gives way."""
        with self.transaction() as database:
            for chain, table, spans, errors, notes in made:
                frame = self._keep(database, table) if spans else None
                cells: dict[str, tuple[int | None, int, int]]
                cells = dict.fromkeys(errors, (None, 0, 0))
                cells |= {qid: (frame, first, size) for qid, first, size in spans}
                rows = [
                    (chain, q, topics[q], *cell, errors.get(q), notes.get(q))
                    for q, cell in cells.items()
                ]
                database.executemany(
                    "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (chain, qid, topic) DO UPDATE SET frame = excluded.frame, "
                    "first = excluded.first, size = excluded.size, error = excluded.error, "
                    "notes = excluded.notes WHERE cells.error IS NOT NULL",
                    rows,
                )

    def notes(self, chain: int | None, topics: Mapping[str, str]) -> dict[str, Any]:
        """Return what the last stage of a chain noted, of failed queries, too, as JSON values."""
        rows = self.select(
            "SELECT qid, topic, notes FROM cells WHERE chain = ? AND notes IS NOT NULL", (chain,)
        )
        texts = {qid: text for qid, topic, text in rows if topics.get(qid) == topic}
        return {qid: json.loads(texts[qid]) for qid in topics if qid in texts}

    def read(
        self, cells: Iterable[StoredCell], columns: Sequence[str] | None = None
    ) -> Table | None:
        """Return the rows of cells, in their order; None if there are none. Failed ones have
        none.
        """
        runs: list[list[int]] = []  # frame, first row, end: neighbors are read as one
        for frame, first, size, error in cells:
            if frame is None or error is not None:
                continue
            if runs and runs[-1][0] == frame and runs[-1][2] == first:
                runs[-1][2] += size
            else:
                runs.append([frame, first, first + size])
        parts = []
        for frame, first, end in runs:
            table = self._table(frame)
            if columns is not None:
                table = table.select([n for n in table.column_names if n in columns])
            parts.append(table.slice(first, end - first))
        return joined(parts) if parts else None

    def _keep(self, database: sqlite3.Connection, table: Table) -> int:
        data = b"" if self.path is None else to_bytes(table)
        row = database.execute(
            "INSERT INTO frames (digest, data) VALUES (?, ?)", (checksum(data), data)
        )
        assert row.lastrowid is not None  # of an INSERT
        if self.path is None:
            self._tables[row.lastrowid] = table
        return row.lastrowid

    def _table(self, frame: int) -> Table:
        if frame not in self._tables:
            rows = self.select("SELECT digest, data FROM frames WHERE frame = ?", (frame,))
            if not rows or checksum(rows[0][1]) != rows[0][0]:
                raise StoreError(
                    f"{self.path}: frame {frame} is {'damaged' if rows else 'gone'}; "
                    "fairtk.experiment.prune(save_dir, damaged=True) removes what cannot be read, "
                    "and the next run makes it again"
                )
            while len(self._tables) >= _KEPT_TABLES:
                del self._tables[next(iter(self._tables))]
            self._tables[frame] = from_bytes(rows[0][1])
        return self._tables[frame]

    # Values -----------------------------------------------------------------------------------

    def values(self, key: str) -> tuple[Table, list[list[str]]] | None:
        """Return the values of an evaluation and what was warned of; None: it is not there."""
        rows = self.select("SELECT digest, data, said FROM evaluations WHERE key = ?", (key,))
        if not rows or checksum(rows[0][1], rows[0][2].encode()) != rows[0][0]:
            return None
        return from_bytes(rows[0][1]), json.loads(rows[0][2])

    def keep_values(self, key: str, table: Table, said: Sequence[Sequence[str]]) -> None:
        """Keep the values of an evaluation, and the category and text of each warning with them.

        The key is a digest of all that they depend on.
        """
        data, text = to_bytes(table), json.dumps(said)
        with self.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?)",
                (key, checksum(data, text.encode()), data, text),
            )


_SHORT = 12


def stored(save_dir: str | PathLike[str]) -> pd.DataFrame:
    """Return what a store holds: a row per chain of stages.

    Returns:
        ``chain`` (the start of its key), ``stages``, ``systems`` (names that ended with it),
        ``queries``, ``failed``, ``megabytes``, ``created``.

    Raises:
        StoreError: there is no store.
    """
    with closing(_store(save_dir)) as store:
        chains = store.select(
            "SELECT key, stages, (SELECT group_concat(name, ', ') FROM (SELECT name FROM systems "
            "WHERE systems.chain = chains.chain ORDER BY name)), count(qid) - count(error), "
            "count(error), coalesce((SELECT sum(length(data)) FROM frames WHERE frame IN "
            "(SELECT frame FROM cells WHERE cells.chain = chains.chain)), 0) / 1e6, created "
            "FROM chains LEFT JOIN cells USING (chain) GROUP BY chains.chain ORDER BY chains.chain"
        )
    rows = [
        (key[:_SHORT], " >> ".join(map(_name, json.loads(stages))), systems or "", *rest)
        for key, stages, systems, *rest in chains
    ]
    columns = ["chain", "stages", "systems", "queries", "failed", "megabytes", "created"]
    return pd.DataFrame(rows, columns=columns)


def prune(
    save_dir: str | PathLike[str],
    chains: Iterable[str] = (),
    *,
    systems: Iterable[str] = (),
    failed: bool = False,
    damaged: bool = False,
) -> int:
    """Remove results from a store; the next run makes again what it needs. Answers stay.

    Args:
        save_dir: the store's folder.
        chains: chains to forget, as `stored` shows them.
        systems: systems whose last chain is to be forgotten; stages before it stay.
        failed: whether to forget failures.
        damaged: whether to remove frames that cannot be read.

    Returns:
        How many cells were removed.

    Raises:
        NotFoundError: there is no such chain or system.
        ParameterError: nothing is to be removed.
        StoreError: there is no store, or it cannot be written; then nothing was removed.
    """
    wanted, named = list(chains), list(systems)
    if not (wanted or named or failed or damaged):
        raise ParameterError("prune: say what to remove: chains, systems, failed or damaged")
    with closing(_store(save_dir)) as store:
        with store.transaction() as database:

            def delete(what: str, *values: Any) -> int:
                return int(database.execute(f"DELETE FROM {what}", values).rowcount)

            numbers = [_chain(store, start) for start in wanted]
            numbers += [n for name in named for n in _chains_of(store, name)]
            removed = 0
            for number in numbers:
                removed += delete("cells WHERE chain = ?", number)
                delete("systems WHERE chain = ?", number)
                delete("chains WHERE chain = ?", number)
            if failed:
                removed += delete("cells WHERE error IS NOT NULL")
            if damaged:
                frames = database.execute("SELECT frame, digest, data FROM frames")
                for frame in [f for f, kept, data in frames if checksum(data) != kept]:
                    removed += delete("cells WHERE frame = ?", frame)
            delete("frames WHERE frame NOT IN (SELECT frame FROM cells WHERE frame IS NOT NULL)")
            delete("evaluations")
        store.vacuum()
    return removed


def export(save_dir: str | PathLike[str], folder: str | PathLike[str]) -> list[Path]:
    """Write the rows of every system that a store knows as Parquet files, one per chain.

    Args:
        save_dir: the store's folder.
        folder: made if it is not there.

    Returns:
        The files: the system's name, made fit for a file name, and the start of its chain's key.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for system in stored_systems(save_dir):
        if system.rows is not None:
            safe = "".join(sign if sign.isalnum() else "-" for sign in system.name)[:80]
            path = target / f"{safe}-{system.chain}.parquet"
            write_parquet(system.rows, path)
            written.append(path)
    return written


class StoredSystem(NamedTuple):
    """A system of a store."""

    name: str
    chain: str  # the start of its chain's key
    stages: list[Any]  # their identities
    rows: pd.DataFrame | None  # in the order of the qids; None: nothing
    errors: list[tuple[str, str]]  # qid and reason


def stored_systems(save_dir: str | PathLike[str]) -> Iterator[StoredSystem]:
    """Yield the systems of a store, in the order in which their chains came.

    Raises:
        StoreError: there is no store, or it is damaged.
    """
    with closing(_store(save_dir)) as store:
        for name, chain, key, stages in store.select(
            "SELECT name, chain, key, stages FROM systems JOIN chains USING (chain) "
            "ORDER BY chain, name"
        ):
            found = store.select(
                "SELECT qid, frame, first, size, error FROM cells WHERE chain = ? "
                "ORDER BY frame, first",
                (chain,),
            )
            table = store.read(StoredCell(*cell) for _, *cell in found)
            rows = None if table is None else unpack(table).sort_values(QID, kind="stable")
            errors = [(qid, error) for qid, *_, error in found if error is not None]
            yield StoredSystem(name, key[:_SHORT], json.loads(stages), rows, errors)


def _store(save_dir: str | PathLike[str]) -> Store:
    path = Path(save_dir) / FILE
    if not path.exists():
        raise StoreError(f"{path}: there is no store of an experiment here")
    try:
        # read as it is: an experiment would put a damaged file aside and begin anew
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, timeout=120, uri=True)) as database:
            database.execute("SELECT count(*) FROM chains").fetchone()
    except sqlite3.Error as error:
        raise StoreError(f"{path}: the store of the experiment cannot be read ({error})") from error
    return Store(Path(save_dir))


def _chain(store: Store, start: str) -> int:
    keys = dict(store.select("SELECT key, chain FROM chains"))
    found = [number for key, number in keys.items() if start and key.startswith(start)]
    if len(found) != 1:
        raise NotFoundError("chain", start, [key[:_SHORT] for key in keys])
    return int(found[0])


def _chains_of(store: Store, name: str) -> list[int]:
    found = store.select("SELECT chain FROM systems WHERE name = ?", (name,))
    if not found:
        known = [row[0] for row in store.select("SELECT DISTINCT name FROM systems")]
        raise NotFoundError("system", name, known)
    return [int(row[0]) for row in found]


def _name(stage: dict[str, Any]) -> str:
    return str(stage.get("identified") or str(stage.get("class")).rpartition(".")[2])
