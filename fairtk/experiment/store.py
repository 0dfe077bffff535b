"""The store: one SQLite file per folder, with the results of chains of stages by query."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from fairtk import checks
from fairtk.errors import FormatError, NotFoundError, ParameterError, StoreError
from fairtk.experiment.identity import Description, chain_keys
from fairtk.experiment.packing import Span, Table, concat_tables, from_bytes, to_bytes, unpack
from fairtk.io.atomic import real_path
from fairtk.llm import Completion, Failure
from fairtk.llm.chat import Prompt, as_json, call_keys, now, questions
from fairtk.llm.store import AnswerStore, Database, failure_row
from fairtk.remarks import Remark, StageRemark, remarks_of_stages


@dataclass(frozen=True)
class ModelKey:
    """The identity of a generator's model in a ledger: its content and number of threads."""

    key: str  # the digest of its identity, or a number in this run
    name: str
    parameters: dict[str, Any]
    has_ledger: bool = False  # whether the user has put the model behind a ledger

    def keys(self, prompts: Iterable[Prompt]) -> dict[Prompt, str]:
        """Return the keys of calls in a ledger by prompt."""
        distinct = list(dict.fromkeys(prompts))
        keys = call_keys(self.name, self.parameters, questions(distinct))
        return dict(zip(distinct, keys, strict=True))


class Answers:
    """Answers by model and prompt, in a file or in memory; the first answer is never replaced."""

    def __init__(self, store: AnswerStore | None) -> None:
        self._store = store
        self._memory: dict[str, Completion] = {}

    def get(self, model: ModelKey, prompts: Iterable[Prompt]) -> dict[Prompt, Completion]:
        """Return the stored answers by prompt."""
        keys = model.keys(prompts)
        if self._store is None or model.has_ledger:
            stored = self._memory
        else:
            stored = self._store.get(keys.values())
        return {prompt: stored[key] for prompt, key in keys.items() if key in stored}

    def put(self, model: ModelKey, answers: Mapping[Prompt, Completion]) -> None:
        """Store answers in one transaction; workers have already stored paid ones."""
        if self._store is None or model.has_ledger:
            for prompt, key in model.keys(answers).items():
                self._memory.setdefault(key, answers[prompt])
        else:
            self._store.put_answers(model.name, model.parameters, answers)

    def seconds_per_answer(self, model: str) -> float:
        """Return the mean time of a model's answers in the file; NaN without answers."""
        return math.nan if self._store is None else self._store.seconds_per_answer(model)

    def failures(self, model: ModelKey, prompts: Iterable[Prompt]) -> dict[Prompt, str]:
        """Return the reasons of stored failures by prompt."""
        if self._store is None or model.has_ledger:
            return {}
        keys = model.keys(prompts)
        reasons = self._store.failures(keys.values())
        return {prompt: reasons[key] for prompt, key in keys.items() if key in reasons}

    def put_failures(self, model: ModelKey, failures: Mapping[Prompt, Failure]) -> None:
        """Store failures that cannot pass; workers have already stored those of paid models."""
        final = {prompt: f.reason for prompt, f in failures.items() if not f.can_pass}
        if final and self._store is not None and not model.has_ledger:
            keys = model.keys(final)
            chats = dict(zip(final, questions(final), strict=True))
            self._store.put_failures(
                [failure_row(keys[p], model.name, chats[p], final[p]) for p in final]
            )


FILE = "experiment.sqlite"
"""The file name of the store."""

_SEEN = (
    "INSERT INTO systems VALUES (?, ?, ?) "
    "ON CONFLICT (name, chain) DO UPDATE SET seen = excluded.seen"
)
_CELL = (
    "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (chain, qid, topic) DO UPDATE SET frame = excluded.frame, first = excluded.first, "
    "size = excluded.size, error = excluded.error, notes = excluded.notes, "
    "remarks = excluded.remarks "
    "WHERE cells.error IS NOT NULL"
)


@contextlib.contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        raise StoreError(f"{error}; committed results are kept") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot create save_dir ({error.strerror or error}); give a writable folder"
        ) from None


T = TypeVar("T")
_FEW = 500  # queries in a statement: old builds of SQLite allow 999 parameters
_CACHED = 16  # unpacked tables to cache
_PLAIN = 96 << 20  # bytes of uncompressed frames in memory without a folder


class StoredCell(NamedTuple):
    """The position of a query's result: the frame, its first row and number of rows."""

    frame: int | None  # None for a failed query without rows
    first: int
    size: int
    error: str | None  # the reason if it failed
    notes: str | None  # JSON
    remarks: str | None = None  # JSON, those of all stages up to this one; `StageRemark`


def remarks_of(cell: StoredCell) -> list[StageRemark]:
    """Return the remarks of the stages of a cell's chain on its query."""
    return [StageRemark(*one) for one in json.loads(cell.remarks or "[]")]


def remarks_of_system(system: str, cells: Mapping[str, StoredCell], total: int) -> list[Remark]:
    """Return the remarks of the stages of a system on its queries, in the order of its cells."""
    return remarks_of_stages(system, {q: remarks_of(cell) for q, cell in cells.items()}, total)


class ChainResult(NamedTuple):
    """The result of a chain for some queries."""

    chain: int  # the number in the store
    table: Table | None
    spans: Sequence[Span]
    errors: Mapping[str, str]  # by failed query, with or without rows
    notes: Mapping[str, str]  # JSON by query
    remarks: Mapping[str, Sequence[StageRemark]]  # of all stages of the chain, by query


class Store:
    """Results by chain and query, committed in atomic batches.

    The first result of a cell is never replaced. Processes that share a folder write in turn.

    Args:
        folder: the folder, which is created if missing; `None` for results in memory.
        allow_read_only: whether a file that cannot be written is opened for reading only.

    Raises:
        StoreError: the file cannot be opened or written.
        InputError: the path is a symlink loop.
    """

    def __init__(self, folder: Path | None, allow_read_only: bool = False) -> None:
        self.path = None if folder is None else real_path(folder) / FILE
        if self.path is not None:
            _make_folder(self.path.parent)
        try:
            self.file = Database(self.path, allow_read_only)
        except FormatError as error:  # nothing was committed
            raise StoreError(str(error)) from error
        # results that outlive an experiment need the file
        weakref.finalize(self, self.file.close)
        self.answers = Answers(None if self.path is None else AnswerStore(self.file))
        self._tables: dict[int, Table] = {}
        self._held: dict[int, Table | bytes] = {}  # all frames, without a folder
        self._plain = 0  # bytes of those that are not compressed

    def select(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows that a statement selects."""
        with _named():
            return self.file.read(statement, values)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function in a transaction."""
        with _named():
            return self.file.write(work, durable=False)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    # Chains -----------------------------------------------------------------------------------

    def chain(
        self,
        key: str,
        stages: Sequence[Description | None],
        systems: Sequence[str],
        topics: Mapping[str, str],
    ) -> int:
        """Store a chain with its stages, and a run of the systems that end with it.

        Topics are digests by qid. Returns the number of the chain.
        """
        created = now()

        def work(database: sqlite3.Connection) -> int:
            database.execute(
                "INSERT OR IGNORE INTO chains (key, stages, created) VALUES (?, ?, ?)",
                (key, json.dumps(stages, ensure_ascii=False), created),
            )
            number = self.number_of(key)
            assert number is not None  # inserted above
            for name in systems:
                database.execute(_SEEN, (name, number, created))
                rows = ((number, qid, name, topic) for qid, topic in topics.items())
                database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", rows)
            return number

        return self.write(work)

    def earlier(self, system: str, key: str) -> list[Description] | None:
        """Return the last stored stages of a system if its key is new, otherwise `None`."""
        rows = self.select(
            "SELECT stages FROM systems JOIN chains USING (chain) WHERE name = ? "
            "ORDER BY seen DESC, chain DESC LIMIT 1",
            (system,),
        )
        return json.loads(rows[0][0]) if rows and self.number_of(key) is None else None

    def number_of(self, key: str) -> int | None:
        """Return the number of a chain, `None` if it is not stored."""
        rows = self.select("SELECT chain FROM chains WHERE key = ?", (key,))
        return int(rows[0][0]) if rows else None

    # Cells ------------------------------------------------------------------------------------

    def cells(self, chain: int | None, topics: Mapping[str, str]) -> dict[str, StoredCell]:
        """Return the stored cells of a chain, including failed ones, in the order of the topics.

        Topics are digests by qid; results for other texts are ignored.
        """
        # reading all cells for each batch would take quadratic time
        qids = list(topics) if len(topics) <= _FEW else []
        only = f" AND qid IN ({','.join('?' * len(qids))})" if qids else ""
        rows = self.select(f"SELECT * FROM cells WHERE chain = ?{only}", (chain, *qids))
        stored = {
            qid: StoredCell(*cell) for _, qid, topic, *cell in rows if topics.get(qid) == topic
        }
        return {qid: stored[qid] for qid in topics if qid in stored}

    def cells_of(self, system: str, chain: int) -> dict[str, StoredCell]:
        """Return the results of a system by query: those for the topics that it used last."""
        rows = self.select(
            "SELECT cells.* FROM runs JOIN cells USING (chain, qid, topic) "
            "WHERE runs.chain = ? AND name = ? ORDER BY frame, first",
            (chain, system),
        )
        return {qid: StoredCell(*cell) for _, qid, _, *cell in rows}

    def commit(self, results: Iterable[ChainResult], topics: Mapping[str, str]) -> None:
        """Store results in one transaction, and replace only failures."""

        def work(database: sqlite3.Connection) -> None:
            rows = []
            for chain, table, spans, errors, notes, remarks in results:
                frame = self._keep(database, table) if spans else None
                cells: dict[str, tuple[int | None, int, int]]
                cells = dict.fromkeys(errors, (None, 0, 0))
                cells |= {qid: (frame, first, size) for qid, first, size in spans}
                texts = {qid: as_json(of_query) for qid, of_query in remarks.items()}
                for qid, cell in cells.items():
                    about = errors.get(qid), notes.get(qid), texts.get(qid)
                    rows.append((chain, qid, topics[qid], *cell, *about))
            database.executemany(_CELL, rows)

        self.write(work)

    def notes(self, chain: int | None, topics: Mapping[str, str]) -> dict[str, Any]:
        """Return the notes of a chain's last stage as JSON values, including failed queries."""
        cells = self.cells(chain, topics).items()
        return {qid: json.loads(cell.notes) for qid, cell in cells if cell.notes is not None}

    def remarks(self, chain: int | None, topics: Mapping[str, str]) -> list[Remark]:
        """Return the remarks of a chain's stages."""
        return remarks_of_system("", self.cells(chain, topics), len(topics))

    def read(
        self, cells: Iterable[StoredCell], columns: Sequence[str] | None = None
    ) -> Table | None:
        """Return the rows of cells in order, `None` if there are no rows; skip failed cells."""
        runs: list[list[int]] = []  # frame, first row, end; adjacent cells are read together
        for frame, first, size, error, *_ in cells:
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
        return concat_tables(parts) if parts else None

    def _keep(self, database: sqlite3.Connection, table: Table) -> int:
        data = b"" if self.path is None else to_bytes(table)
        last = database.execute("SELECT coalesce(max(frame), 0) FROM frames").fetchone()[0]
        number = int(last) + 1
        database.execute("INSERT INTO frames VALUES (?, ?)", (number, data))
        if self.path is None:
            self._plain += table.nbytes
            fits = self._plain <= _PLAIN
            self._plain -= 0 if fits else table.nbytes
            self._held[number] = table if fits else to_bytes(table)
        return number

    def _table(self, frame: int) -> Table:
        if frame not in self._tables:
            while len(self._tables) >= _CACHED:
                del self._tables[next(iter(self._tables))]
            self._tables[frame] = self._read(frame)
        return self._tables[frame]

    def _read(self, frame: int) -> Table:
        if frame in self._held:
            held = self._held[frame]
            return from_bytes(held, pickled=True) if isinstance(held, bytes) else held
        rows = self.select("SELECT data FROM frames WHERE frame = ? AND data != x''", (frame,))
        if not rows:
            raise StoreError(
                f"{self.path}: these results were removed by `prune`; run the experiment again"
            )
        return from_bytes(rows[0][0])

    # Values -----------------------------------------------------------------------------------

    def values(self, key: str) -> tuple[Table, list[dict[str, Any]]] | None:
        """Return the values of an evaluation and its remarks, `None` if it is not stored."""
        rows = self.select("SELECT data, warnings FROM evaluations WHERE key = ?", (key,))
        return (from_bytes(rows[0][0]), json.loads(rows[0][1])) if rows else None

    def keep_values(self, key: str, table: Table, remarks: Sequence[Mapping[str, Any]]) -> None:
        """Store the values of an evaluation, with the remarks on them.

        The key is a digest of all inputs.
        """
        values = (key, to_bytes(table), json.dumps(remarks))
        self.write(
            lambda database: database.execute(
                "INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?)", values
            )
        )


_SHORT = 12


def stored_results(save_dir: str | PathLike[str]) -> pd.DataFrame:
    """Return the content of a store, a row per chain of stages.

    The results of a system are those of the chain that it ran last, for each query with the topic
    that it was run over last; `open_results` opens them.

    Returns:
        ``chain`` (the start of its key), ``stages``, ``settings`` (those that differ between chains
        with the same stages, e.g. ``FairSampler(alpha=2)``), ``systems`` (whose results these are),
        ``earlier`` (systems whose earlier results these are), ``queries`` and ``failed`` (numbers
        of queries), ``megabytes``, ``created``.

    Raises:
        StoreError: there is no store.
    """
    with closing(_store(save_dir)) as store:
        ended = [(name, chain) for name, chain, *_ in _ended_chains(store)]
        chains = store.select(
            "SELECT chain, key, stages, "
            "count(DISTINCT CASE WHEN error IS NULL THEN qid END), "
            "count(DISTINCT CASE WHEN error IS NOT NULL THEN qid END), "
            "coalesce((SELECT sum(length(data)) FROM frames WHERE frame IN "
            "(SELECT frame FROM cells WHERE cells.chain = chains.chain)), 0) / 1e6, created "
            "FROM chains LEFT JOIN (SELECT * FROM cells WHERE chain NOT IN "
            "(SELECT chain FROM systems) OR EXISTS (SELECT 1 FROM runs WHERE "
            "runs.chain = cells.chain AND runs.qid = cells.qid AND runs.topic = cells.topic)) "
            "USING (chain) GROUP BY chain ORDER BY chain"
        )
    latest = set(dict(ended).items())
    described = [json.loads(stages) for _, _, stages, *_ in chains]
    rows = []
    for (chain, key, _, *rest), stages in zip(chains, described, strict=True):
        names = sorted(name for name, end in ended if end == chain)
        systems = [name for name in names if (name, chain) in latest]
        earlier = [name for name in names if (name, chain) not in latest]
        texts = (_stages_text(stages), _differing_settings(stages, described))
        rows.append((key[:_SHORT], *texts, *map(", ".join, (systems, earlier)), *rest))
    columns = ["chain", "stages", "settings", "systems", "earlier", "queries", "failed"]
    return pd.DataFrame(rows, columns=[*columns, "megabytes", "created"])


def _stages_text(stages: Sequence[Description]) -> str:
    return " >> ".join(map(stage_name, stages))


def _differing_settings(stages: Sequence[Description], chains: Sequence[Any]) -> str:
    """Return the settings of stages that other chains with the same stages have not."""
    alike = [other for other in chains if _stages_text(other) == _stages_text(stages)]
    texts = []
    for stage, *others in zip(stages, *alike, strict=True):
        differing = [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in stage.items()
            if name not in ("class", "made by")
            and any(other.get(name) != value for other in others)
        ]
        if differing:
            texts.append(f"{stage_name(stage)}({', '.join(differing)})")
    return " >> ".join(texts)


def prune(
    save_dir: str | PathLike[str],
    chains: Iterable[str] = (),
    *,
    systems: Iterable[str] = (),
    failed: bool = False,
) -> int:
    """Remove results from a store; the next run computes them again. Stored answers are kept.

    Args:
        save_dir: the folder of the store.
        chains: keys of chains to remove, as in `stored_results`.
        systems: systems to remove, with their earlier results. The results of their earlier
            stages, and those that other systems share, are kept.
        failed: whether to remove failures.

    Returns:
        The number of removed results, one per chain and query.

    Raises:
        NotFoundError: a chain or system is unknown.
        ParameterError: nothing to remove is given.
        StoreError: there is no store, or it is not writable; nothing was removed.
    """
    starts, names = checks.listed("chains", chains), checks.listed("systems", systems)
    if not (starts or names or checks.boolean("failed", failed, "prune")):
        raise ParameterError("prune: `chains`, `systems` or `failed` is required")
    with closing(_store(save_dir)) as store:
        chains_to_remove = {_chain(store, start) for start in starts}
        chains_by_name = {name: _chains_of(store, name) for name in names}

        def work(database: sqlite3.Connection) -> int:
            def delete(what: str, *values: Any) -> int:
                return int(database.execute(f"DELETE FROM {what}", values).rowcount)

            for name in names:
                delete("systems WHERE name = ?", name)
                delete("runs WHERE name = ?", name)
            shared = {chain for (chain,) in database.execute("SELECT chain FROM systems")}
            removed = 0
            for number in chains_to_remove.union(*chains_by_name.values()):
                if number in chains_to_remove or number not in shared:
                    removed += delete("cells WHERE chain = ?", number)
                    for table in ("runs", "systems", "chains"):
                        delete(f"{table} WHERE chain = ?", number)
            if failed:
                removed += delete("cells WHERE error IS NOT NULL")
            unused = "frame NOT IN (SELECT frame FROM cells WHERE frame IS NOT NULL)"
            last = "(SELECT max(frame) FROM frames)"
            delete(f"frames WHERE {unused} AND frame < {last}")
            # the last row stays without data: a number that is used again would give open results
            # the rows of others
            database.execute(f"UPDATE frames SET data = x'' WHERE {unused}")
            delete("evaluations")
            return removed

        removed = store.write(work)
        store.file.vacuum()
    return removed


class StoredSystem(NamedTuple):
    """The results of a system in a store."""

    rows: pd.DataFrame | None  # `None` without rows
    stages: list[Description]
    cells: dict[str, StoredCell]  # by qid
    notes: list[dict[str, Any]]  # of each stage, by qid


def stored_systems(
    save_dir: str | PathLike[str], chains: Iterable[str] = ()
) -> dict[str, StoredSystem]:
    """Return the results of the systems in a store by name, in the order of their chains.

    Args:
        save_dir: the folder of the store.
        chains: the starts of the keys of chains; by default the latest chain of each system. If a
            system has several of them, the start of the key is added to its name.

    Raises:
        NotFoundError: a chain is unknown, or no system ends with it.
        StoreError: there is no store, or it is unreadable.
    """
    with closing(_store(save_dir)) as store:
        ended = _ended_chains(store)
        numbers = {_chain(store, start, [key for *_, key, _ in ended]) for start in chains}
        if numbers:
            chosen = [row for row in ended if row[1] in numbers]
        else:
            chosen = list({name: (name, *row) for name, *row in ended}.values())
        chosen.sort(key=lambda row: (row[1], row[0]))
        names = [name for name, *_ in chosen]
        systems = {}
        for name, chain, key, stages in chosen:
            label = name if names.count(name) == 1 else f"{name} ({key[:_SHORT]})"
            cells = store.cells_of(name, chain)
            table = store.read(cells.values())
            topics = dict(
                store.select(
                    "SELECT qid, topic FROM runs WHERE chain = ? AND name = ?", (chain, name)
                )
            )
            descriptions = json.loads(stages)
            systems[label] = StoredSystem(
                None if table is None else unpack(table),
                descriptions,
                cells,
                [store.notes(store.number_of(k), topics) for k in chain_keys(descriptions)],
            )
    return systems


def _ended_chains(store: Store) -> list[Any]:
    """Return name, number, key and stages of the chains that end systems; the latest comes last."""
    return store.select(
        "SELECT name, chain, key, stages FROM systems JOIN chains USING (chain) "
        "ORDER BY seen, chain"
    )


def _store(save_dir: str | PathLike[str]) -> Store:
    folder = checks.path("save_dir", save_dir)
    path = folder / FILE
    if not path.exists():
        raise StoreError(f"{path}: there is no store of an experiment")
    return Store(folder, allow_read_only=True)


def _chain(store: Store, start: str, only: Collection[str] | None = None) -> int:
    """Return the number of the chain whose key begins so, optionally one of some keys."""
    keys = dict(store.select("SELECT key, chain FROM chains ORDER BY chain"))
    keys = {key: number for key, number in keys.items() if only is None or key in only}
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


def stage_name(stage: Description) -> str:
    """Return the name of a stage from its description."""
    return str(stage.get("identified") or str(stage.get("class")).rpartition(".")[2])
