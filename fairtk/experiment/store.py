"""The store: one SQLite file per folder, with what each chain of stages made of each query."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fairtk.errors import FormatError, StoreError
from fairtk.experiment.answers import Answers
from fairtk.experiment.cells import Made, StoredCell
from fairtk.experiment.identity import Description
from fairtk.experiment.packing import Table, from_bytes, joined, to_bytes
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
"""
_FEW = 500  # queries in one statement: old builds of SQLite take 999 parameters
_KEPT_TABLES = 64  # tables of a run without a folder are all kept; of a file, the last few


class Store:
    """Results by chain and query; committed in batches, each whole or not at all.

    Processes that share a folder write one after the other; of two results for one cell the first
    stays.

    Args:
        folder: where the file is, or is made; None: results are held in memory for this run.

    Attributes:
        path: the file, or None.
        answers: the answers of models, in the same file.

    Raises:
        StoreError: the file cannot be opened; names it and says why.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder.resolve() / FILE
        self._tables: dict[int, Table] = {}
        if self.path is not None:
            _make_folder(self.path.parent)
            kind = network_of(self.path.parent)
            if kind:
                raise StoreError(
                    f"{self.path.parent}: this folder lies on a network file system ({kind}), "
                    "where a store could be damaged: give a save_dir on a local disk, e.g. in "
                    "$TMPDIR, and copy the folder when the experiment has ended"
                )
        with self._named():
            # first: answers are a ledger, which other tables may share the file with
            self.answers = Answers(self.path)
            self._database = sqlite3.connect(
                ":memory:" if self.path is None else self.path,
                timeout=120,
                isolation_level=None,
                check_same_thread=False,
            )
            if self.path is not None:
                self._database.execute("PRAGMA journal_mode=WAL")
                self._database.execute("PRAGMA synchronous=NORMAL")
            # results outlive the call that made them, and close with the last who holds them
            weakref.finalize(self, self._database.close)
            self._database.executescript(_TABLES)

    def close(self) -> None:
        """Close the file."""
        self.answers.close()
        self._database.close()

    # Chains -----------------------------------------------------------------------------------

    def chain(self, key: str, stages: Sequence[Description | None], systems: Sequence[str]) -> int:
        """Return a chain's number, and remember which systems end with it.

        Args:
            key: the chain's key.
            stages: the identities of its stages.
            systems: the systems.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO chains (key, stages, created) VALUES (?, ?, ?)",
                (key, json.dumps(stages, ensure_ascii=False), now),
            )
            number: int = database.execute(
                "SELECT chain FROM chains WHERE key = ?", (key,)
            ).fetchone()[0]
            database.executemany(
                "INSERT OR REPLACE INTO systems VALUES (?, ?, ?)",
                [(name, number, now) for name in systems],
            )
        return number

    def earlier(self, system: str, key: str) -> list[Description] | None:
        """Return the stages that a system of this name had last, if its key is new here."""
        with self._named():
            if self._database.execute("SELECT 1 FROM chains WHERE key = ?", (key,)).fetchone():
                return None
            row = self._database.execute(
                "SELECT stages FROM systems JOIN chains USING (chain) WHERE name = ? "
                "ORDER BY seen DESC, chain DESC LIMIT 1",
                (system,),
            ).fetchone()
        return None if row is None else json.loads(row[0])

    def number_of(self, key: str) -> int | None:
        """Return a chain's number, or None if the store has nothing of it."""
        with self._named():
            row = self._database.execute("SELECT chain FROM chains WHERE key = ?", (key,))
            found = row.fetchone()
        return None if found is None else int(found[0])

    # Cells ------------------------------------------------------------------------------------

    def cells(self, chain: int | None, topics: Mapping[str, str]) -> dict[str, StoredCell]:
        """Return the cells of a chain that are there, failed ones too, in the order of the topics.

        Args:
            chain: the chain's number; None: the store does not know it.
            topics: digest of each query's topic, by qid; results of another text do not count.
        """
        # a batch is looked up by its queries, so that the work does not grow with its square
        some = list(topics) if len(topics) <= _FEW else []
        only = f" AND qid IN ({','.join('?' * len(some))})" if some else ""
        with self._named():
            rows = self._database.execute(
                f"SELECT qid, topic, frame, first, size, error FROM cells WHERE chain = ?{only}",
                (chain, *some),
            ).fetchall()
        found = {q: StoredCell(*rest) for q, topic, *rest in rows if topics.get(q) == topic}
        return {qid: found[qid] for qid in topics if qid in found}

    def commit(self, made: Iterable[Made], topics: Mapping[str, str]) -> None:
        """Keep results in one step; a result that is there stays, a failure gives way.

        Args:
            made: the results.
            topics: digest of each query's topic, by qid.
        """
        with self._transaction() as database:
            for result in made:
                rows: list[tuple[object, ...]] = []
                errors = dict(result.errors)
                if result.spans and result.table is not None:
                    frame = self._keep(database, result.table)
                    rows += [
                        (result.chain, qid, topics[qid], frame, first, size, errors.pop(qid, None))
                        for qid, first, size in result.spans
                    ]
                rows += [
                    (result.chain, qid, topics[qid], None, 0, 0, error)
                    for qid, error in errors.items()
                ]
                database.executemany(
                    "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (chain, qid, topic) DO UPDATE SET frame = excluded.frame, "
                    "first = excluded.first, size = excluded.size, error = excluded.error "
                    "WHERE cells.error IS NOT NULL",
                    rows,
                )

    def read(
        self, cells: Iterable[StoredCell], columns: Sequence[str] | None = None
    ) -> Table | None:
        """Return the rows of cells, in the order of the cells; None if there are no cells.

        Args:
            cells: cells without error.
            columns: the columns wanted; None: all.
        """
        runs: list[list[int]] = []  # frame, first row, end: neighbors are read as one
        for cell in cells:
            if cell.frame is None:
                continue
            if runs and runs[-1][0] == cell.frame and runs[-1][2] == cell.first:
                runs[-1][2] += cell.size
            else:
                runs.append([cell.frame, cell.first, cell.first + cell.size])
        parts = []
        for frame, first, end in runs:
            table = self._table(frame)
            if columns is not None:
                table = table.select([n for n in table.column_names if n in columns])
            parts.append(table.slice(first, end - first))
        return joined(parts) if parts else None

    # The file ---------------------------------------------------------------------------------

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
        if frame in self._tables:
            return self._tables[frame]
        with self._named():
            row = self._database.execute(
                "SELECT digest, data FROM frames WHERE frame = ?", (frame,)
            ).fetchone()
        if row is None or checksum(row[1]) != row[0]:
            raise StoreError(
                f"{self.path}: frame {frame} is {'gone' if row is None else 'damaged'}; "
                "fairtk.experiment.prune(save_dir, damaged=True) removes what cannot be read, and "
                "the next run makes it again"
            )
        table = from_bytes(row[1])
        while len(self._tables) >= _KEPT_TABLES:
            del self._tables[next(iter(self._tables))]
        self._tables[frame] = table
        return table

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._named():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

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


def checksum(data: bytes) -> bytes:
    """Return the checksum that a frame is stored with."""
    return hashlib.blake2b(data, digest_size=8).digest()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder}: save_dir cannot be made ({error.strerror or error}); give a folder that "
            "can be written to"
        ) from None
