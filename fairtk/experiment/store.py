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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd
from pyterrier._ops import Compose

from fairtk.errors import FormatError, NotFoundError, ParameterError, StoreError
from fairtk.experiment.identity import Description, Identified
from fairtk.experiment.packing import Span, Table, from_bytes, joined, to_bytes, unpack
from fairtk.frames import QID
from fairtk.io import network_of, real_path
from fairtk.llm import (
    STORE_MARK,
    AnswerStore,
    ChatBackend,
    ChatModel,
    Database,
    Kind,
    Ledger,
    Recorded,
    call_keys,
    checksums,
    questions,
)
from fairtk.transformers import FairTransformer


@dataclass(frozen=True)
class Asker:
    """A generation backend as a ledger knows it: by its content and the threads it used."""

    key: str  # the digest of its identity, or a number within this run
    name: str
    parameters: dict[str, Any]
    elsewhere: bool = False  # its answers are kept in a ledger of the user's
    local: bool = False  # it is a model of this machine, whose answers need no backup

    def keys(self, prompts: Iterable[str]) -> dict[str, str]:
        """Return what a ledger knows the calls by, by prompt."""
        distinct = list(dict.fromkeys(prompts))
        keys = call_keys(self.name, self.parameters, questions(distinct))
        return dict(zip(distinct, keys, strict=True))


class Answers:
    """Answers by model and prompt; the first that is kept stays. Without a file they are in
    memory.
    """

    def __init__(self, store: AnswerStore | None) -> None:
        self._store = store
        self._memory: dict[str, str] = {}

    def get(self, asker: Asker, prompts: Iterable[str]) -> dict[str, str]:
        """Return the answers that are there, by prompt."""
        keys = asker.keys(prompts)
        if self._store is None or asker.elsewhere:
            texts = self._memory
        else:  # stripped, as a backend gives them: a language model's are kept as they came
            texts = {
                key: answer.text.strip()
                for key, answer in self._store.get(keys.values()).items()
                if answer.finish != "unreadable"
            }
        return {prompt: texts[key] for prompt, key in keys.items() if key in texts}

    def put(self, asker: Asker, texts: Mapping[str, str]) -> None:
        """Keep answers, all or none; what a worker has paid for is there already, and stays."""
        if self._store is None or asker.elsewhere:
            for prompt, key in asker.keys(texts).items():
                self._memory.setdefault(key, texts[prompt])
        else:
            self._store.put_texts(asker.name, asker.parameters, texts, asker.local)


class Recording:
    """Puts models behind the store's ledger; whoever asks writes there, also a worker.

    A model that the user has put behind a ledger keeps that one, and rules that stand in for a
    model need none. Without a store nothing is recorded.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.models: list[ChatModel] = []  # that were met

    @cached_property
    def _ledger(self) -> Ledger:
        assert self.path is not None  # asked before
        return Ledger(self.path)

    def behind(self, value: Any) -> Any:
        """Return a stage or backend, or a copy of it in which all models are recorded.

        Models stand in settings of fairtk's transformers, and these within others and pipelines.
        """
        if isinstance(value, ChatModel):
            own = self.path is None or value.free or isinstance(value, Recorded)
            self.models.append(value if own else self._ledger.wrap(value))
            return self.models[-1]
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
        inner = {name: self.behind(getattr(value, name)) for name in names}
        changes = {name: new for name, new in inner.items() if new is not getattr(value, name)}
        if changes:
            value = copy.copy(value)
            for name, new in changes.items():
                setattr(value, name, new)
        return value


FILE = "experiment.sqlite"
"""The store's name in its folder."""

TABLES = {
    "chains": """CREATE TABLE chains (
    chain INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    stages TEXT NOT NULL,
    created TEXT NOT NULL
)""",
    "systems": """CREATE TABLE systems (
    name TEXT NOT NULL,
    chain INTEGER NOT NULL,
    seen TEXT NOT NULL,
    checksum TEXT NOT NULL,
    PRIMARY KEY (name, chain)
)""",
    "frames": """CREATE TABLE frames (
    frame INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    data BLOB NOT NULL
)""",
    "cells": """CREATE TABLE cells (
    chain INTEGER NOT NULL,
    qid TEXT NOT NULL,
    topic TEXT NOT NULL,
    frame INTEGER,
    first INTEGER NOT NULL,
    size INTEGER NOT NULL,
    error TEXT,
    notes TEXT,
    checksum TEXT NOT NULL,
    PRIMARY KEY (chain, qid, topic)
) WITHOUT ROWID""",
    "evaluations": """CREATE TABLE evaluations (
    key TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    data BLOB NOT NULL,
    said TEXT NOT NULL
) WITHOUT ROWID""",
}


def _insert(
    database: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]], more: str = ""
) -> None:
    """Insert rows of one length, each with its checksum."""
    values = [(*row, summed) for row, summed in zip(rows, checksums(rows), strict=True)]
    if values:
        marks = ",".join("?" * len(values[0]))
        database.executemany(f"INSERT INTO {table} VALUES ({marks}) {more}", values)


def _damaged(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield the rows whose checksum, their last value, is not theirs."""
    stored = list(rows)
    for row, summed in zip(stored, checksums([row[:-1] for row in stored]), strict=True):
        if row[-1] != summed:
            yield row


_KIND = Kind("store of the experiment", STORE_MARK, TABLES)


_SEEN = "ON CONFLICT (name, chain) DO UPDATE SET seen = excluded.seen, checksum = excluded.checksum"
_GIVES_WAY = (
    "ON CONFLICT (chain, qid, topic) DO UPDATE SET frame = excluded.frame, first = excluded.first, "
    "size = excluded.size, error = excluded.error, notes = excluded.notes, "
    "checksum = excluded.checksum WHERE cells.error IS NOT NULL"
)


def _digest(*data: bytes) -> bytes:
    return hashlib.blake2b(b"".join(data), digest_size=8).digest()


def _is_whole(frame: int, digest: bytes, data: bytes) -> bool:
    """Return whether a frame is what was stored."""
    # a damaged cell may hold something else than bytes
    return isinstance(data, bytes) and digest == _digest(data, str(frame).encode())


@contextlib.contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        raise StoreError(f"{error}; what was committed before is kept") from error


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


T = TypeVar("T")
_FEW = 500  # queries in one statement: old builds of SQLite take 999 parameters
_AT_HAND = 16  # tables that are kept as they are, the last ones read
_PLAIN = 96 << 20  # bytes of frames that a run without a folder holds as they are


class StoredCell(NamedTuple):
    """Where one query's result stands: the frame, its first row there, and its number of rows."""

    frame: int | None  # None for a failed query that no stage said anything else about
    first: int
    size: int
    error: str | None  # why it failed
    notes: str | None  # what is kept beside its rows: JSON


class Made(NamedTuple):
    """What a chain made of some queries."""

    chain: int  # its number in the store
    table: Table | None
    spans: Sequence[Span]
    errors: Mapping[str, str]  # why queries failed, those with rows among them
    notes: Mapping[str, str]  # what is kept beside rows and errors: JSON, by query


class Store:
    """Results by chain and query; committed in batches, each whole or not at all.

    Of two results for one cell the first stays. Processes that share a folder write one after the
    other. Without a folder results are held in memory.

    Args:
        folder: made if it is not there; None: none.
        mend: whether a damaged file is put aside, and begun anew with the answers in its backup.

    Raises:
        StoreError: the file cannot be opened, here or later; names it and says why.
        InputError: the folder's links lead in a circle.
    """

    def __init__(self, folder: Path | None, mend: bool = True) -> None:
        self.path = None if folder is None else real_path(folder) / FILE
        if self.path is not None:
            _make_folder(self.path.parent)
        with _named():
            self.file = Database(self.path, _KIND, mend)
        # results outlive the call that made them, and close with the last who holds them
        weakref.finalize(self, self.file.close)
        self.answers = Answers(None if self.path is None else AnswerStore(self.file))
        self._tables: dict[int, Table] = {}
        self._held: dict[int, Table | bytes] = {}  # all frames of a run without a folder

    def select(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows that a statement selects."""
        with _named():
            return self.file.read(statement, values)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something in a transaction: all of it, or nothing."""
        with _named():
            return self.file.write(work, durable=False)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    # Chains -----------------------------------------------------------------------------------

    def chain(self, key: str, stages: Sequence[Description | None], systems: Sequence[str]) -> int:
        """Return a chain's number, and remember its stages and which systems end with it."""
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def work(database: sqlite3.Connection) -> int:
            database.execute(
                "INSERT OR IGNORE INTO chains (key, stages, created) VALUES (?, ?, ?)",
                (key, json.dumps(stages, ensure_ascii=False), now),
            )
            number = self.number_of(key)
            assert number is not None  # it was inserted just now
            _insert(database, "systems", [(name, number, now) for name in systems], _SEEN)
            return number

        return self.write(work)

    def earlier(self, system: str, key: str) -> list[Description] | None:
        """Return the stages that a system of this name had last, if its key is new here."""
        rows = self.select(
            "SELECT stages FROM systems JOIN chains USING (chain) WHERE name = ? "
            "ORDER BY seen DESC, chain DESC LIMIT 1",
            (system,),
        )
        return self.stages(rows[0][0]) if rows and self.number_of(key) is None else None

    def stages(self, text: str) -> list[Any]:
        """Return the stages of a chain, as the store has them."""
        stages = _stages(text)
        if stages is None:
            raise self.damage("what a chain is made of")
        return stages

    def number_of(self, key: str) -> int | None:
        """Return a chain's number, or None if the store has nothing of it."""
        rows = self.select("SELECT chain FROM chains WHERE key = ?", (key,))
        # an index was asked, which may be damaged where the table is not
        if rows and self.select("SELECT key FROM chains WHERE chain = ?", rows[0]) != [(key,)]:
            raise self.damage(f"chain {rows[0][0]}")
        return int(rows[0][0]) if rows else None

    # Cells ------------------------------------------------------------------------------------

    def cells(self, chain: int | None, topics: Mapping[str, str]) -> dict[str, StoredCell]:
        """Return the cells of a chain that are there, failed ones too, in the order of the topics.

        Topics are digests by qid; results of another text do not count.
        """
        # a batch is looked up by its queries, so that the work does not grow with its square
        some = list(topics) if len(topics) <= _FEW else []
        only = f" AND qid IN ({','.join('?' * len(some))})" if some else ""
        there = {
            qid: cell
            for qid, topic, cell in self.cells_where(f"chain = ?{only}", (chain, *some))
            if topics.get(qid) == topic
        }
        return {qid: there[qid] for qid in topics if qid in there}

    def cells_where(
        self, condition: str, values: Sequence[Any]
    ) -> list[tuple[str, str, StoredCell]]:
        """Return qid, topic and place of cells, after a look at their checksums."""
        rows = self.select(f"SELECT * FROM cells WHERE {condition}", values)
        for _, qid, *_ in _damaged(rows):
            raise self.damage(f"the result of query {qid!r}")
        return [(qid, topic, StoredCell(*cell)) for _, qid, topic, *cell, _ in rows]

    def commit(self, made: Iterable[Made], topics: Mapping[str, str]) -> None:
        """Keep results in one step; a result that is there stays, a failure gives way."""

        def work(database: sqlite3.Connection) -> None:
            rows = []
            for chain, table, spans, errors, notes in made:
                frame = self._keep(database, table) if spans else None
                cells: dict[str, tuple[int | None, int, int]]
                cells = dict.fromkeys(errors, (None, 0, 0))
                cells |= {qid: (frame, first, size) for qid, first, size in spans}
                rows += [
                    (chain, qid, topics[qid], *cell, errors.get(qid), notes.get(qid))
                    for qid, cell in cells.items()
                ]
            _insert(database, "cells", rows, _GIVES_WAY)

        self.write(work)

    def notes(self, chain: int | None, topics: Mapping[str, str]) -> dict[str, Any]:
        """Return what the last stage of a chain noted, of failed queries, too, as JSON values."""
        cells = self.cells(chain, topics).items()
        return {qid: json.loads(cell.notes) for qid, cell in cells if cell.notes is not None}

    def read(
        self, cells: Iterable[StoredCell], columns: Sequence[str] | None = None
    ) -> Table | None:
        """Return the rows of cells, in their order; None if there are none. Failed ones have
        none.
        """
        runs: list[list[int]] = []  # frame, first row, end: neighbors are read as one
        for frame, first, size, error, _ in cells:
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
        last = database.execute("SELECT coalesce(max(frame), 0) FROM frames").fetchone()[0]
        number = int(last) + 1
        values = (number, _digest(data, str(number).encode()), data)
        database.execute("INSERT INTO frames VALUES (?, ?, ?)", values)
        if self.path is None:
            tables = [table, *(t for t in self._held.values() if not isinstance(t, bytes))]
            fits = sum(each.nbytes for each in tables) <= _PLAIN
            self._held[number] = table if fits else to_bytes(table)
        return number

    def _table(self, frame: int) -> Table:
        if frame not in self._tables:
            while len(self._tables) >= _AT_HAND:
                del self._tables[next(iter(self._tables))]
            self._tables[frame] = self._read(frame)
        return self._tables[frame]

    def _read(self, frame: int) -> Table:
        if frame in self._held:
            held = self._held[frame]
            return from_bytes(held, pickled=True) if isinstance(held, bytes) else held
        rows = self.select("SELECT digest, data FROM frames WHERE frame = ?", (frame,))
        if not rows or not _is_whole(frame, *rows[0]):
            raise self.damage(f"frame {frame}", "damaged" if rows else "gone")
        return from_bytes(rows[0][1])

    def damage(self, what: str, state: str = "damaged") -> StoreError:
        """Return the error that says what of the store cannot be used."""
        return StoreError(
            f"{self.path}: {what} is {state}; fairtk.experiment.prune(save_dir, damaged=True) "
            "removes what cannot be read, and the next run makes it again"
        )

    # Values -----------------------------------------------------------------------------------

    def values(self, key: str) -> tuple[Table, list[list[str]]] | None:
        """Return the values of an evaluation and what was warned of; None: it is not there."""
        rows = self.select("SELECT digest, data, said FROM evaluations WHERE key = ?", (key,))
        if not rows:
            return None
        digest, data, text = rows[0]
        whole = (
            isinstance(data, bytes)
            and _digest(data, str(text).encode("utf-8", "replace")) == digest
        )
        return (from_bytes(data), json.loads(text)) if whole else None

    def keep_values(self, key: str, table: Table, warnings_heard: Sequence[Sequence[str]]) -> None:
        """Keep the values of an evaluation, and the category and text of each warning with them.

        The key is a digest of all that they depend on.
        """
        data, text = to_bytes(table), json.dumps(warnings_heard)
        values = (key, _digest(data, text.encode()), data, text)
        self.write(
            lambda database: database.execute(
                "INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?)", values
            )
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
        (key[:_SHORT], " >> ".join(map(_name, store.stages(stages))), systems or "", *rest)
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
    starts, names = list(chains), list(systems)
    if not (starts or names or failed or damaged):
        raise ParameterError("prune: say what to remove: chains, systems, failed or damaged")
    with closing(_store(save_dir)) as store:
        numbers = [_chain(store, start) for start in starts]
        numbers += [number for name in names for number in _chains_of(store, name)]

        def work(database: sqlite3.Connection) -> int:
            def delete(what: str, *values: Any) -> int:
                return int(database.execute(f"DELETE FROM {what}", values).rowcount)

            removed = 0
            for number in numbers:
                removed += delete("cells WHERE chain = ?", number)
                delete("systems WHERE chain = ?", number)
                delete("chains WHERE chain = ?", number)
            if failed:
                removed += delete("cells WHERE error IS NOT NULL")
            if damaged:
                removed += _delete_damaged(database, delete)
            delete("frames WHERE frame NOT IN (SELECT frame FROM cells WHERE frame IS NOT NULL)")
            delete("evaluations")
            return removed

        removed = store.write(work)
        store.file.vacuum()
    return removed


def _delete_damaged(database: sqlite3.Connection, delete: Callable[..., int]) -> int:
    """Delete what is not as it was stored, and return the number of cells."""
    database.execute("REINDEX chains")
    removed = delete("cells WHERE frame NOT IN (SELECT frame FROM frames)")
    for chain, text in database.execute("SELECT chain, stages FROM chains").fetchall():
        if _stages(text) is None:
            removed += delete("cells WHERE chain = ?", chain)
            delete("systems WHERE chain = ?", chain)
            delete("chains WHERE chain = ?", chain)
    for row in database.execute("SELECT * FROM frames"):
        if not _is_whole(*row):
            removed += delete("cells WHERE frame = ?", row[0])
    for row in _damaged(database.execute("SELECT * FROM cells")):
        removed += delete("cells WHERE chain = ? AND qid = ? AND topic = ?", *row[:3])
    for row in _damaged(database.execute("SELECT * FROM systems")):
        delete("systems WHERE name = ? AND chain = ?", *row[:2])
    return removed


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
        for *system, summed, key, stages in store.select(
            "SELECT systems.*, key, stages FROM systems JOIN chains USING (chain) "
            "ORDER BY chain, name"
        ):
            name, chain, _ = system
            for _ in _damaged([[*system, summed]]):
                raise store.damage(f"system {name!r}")
            cells = [
                (qid, cell)
                for qid, _, cell in store.cells_where("chain = ? ORDER BY frame, first", (chain,))
            ]
            table = store.read(cell for _, cell in cells)
            rows = None if table is None else unpack(table).sort_values(QID, kind="stable")
            errors = [(qid, cell.error) for qid, cell in cells if cell.error is not None]
            yield StoredSystem(name, key[:_SHORT], store.stages(stages), rows, errors)


def _store(save_dir: str | PathLike[str]) -> Store:
    path = Path(save_dir) / FILE
    if not path.exists():
        raise StoreError(f"{path}: there is no store of an experiment here")
    return Store(Path(save_dir), mend=False)


def _chain(store: Store, start: str) -> int:
    keys = dict(store.select("SELECT key, chain FROM chains"))
    numbers = [number for key, number in keys.items() if start and key.startswith(start)]
    if len(numbers) != 1:
        raise NotFoundError("chain", start, [key[:_SHORT] for key in keys])
    return int(numbers[0])


def _chains_of(store: Store, name: str) -> list[int]:
    numbers = store.select("SELECT chain FROM systems WHERE name = ?", (name,))
    if not numbers:
        names = [row[0] for row in store.select("SELECT DISTINCT name FROM systems")]
        raise NotFoundError("system", name, names)
    return [int(row[0]) for row in numbers]


def _stages(text: Any) -> list[Any] | None:
    """Return the stages of a chain; None: they are damaged."""
    try:
        stages = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    whole = isinstance(stages, list) and all(isinstance(stage, dict | None) for stage in stages)
    return stages if whole else None


def _name(stage: dict[str, Any]) -> str:
    return str(stage.get("identified") or str(stage.get("class")).rpartition(".")[2])
