"""The store: one SQLite file per folder, with what each chain of stages made of each query."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from fairtk.errors import StoreError
from fairtk.experiment.database import StoreFile, checksum
from fairtk.experiment.identity import Description
from fairtk.experiment.packing import Span, Table, from_bytes, joined, to_bytes

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
            for chain, table, spans, errors in made:
                frame = self._keep(database, table) if spans else None
                cells: dict[str, tuple[int | None, int, int]]
                cells = dict.fromkeys(errors, (None, 0, 0))
                cells |= {qid: (frame, first, size) for qid, first, size in spans}
                rows = [(chain, q, topics[q], *cell, errors.get(q)) for q, cell in cells.items()]
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
