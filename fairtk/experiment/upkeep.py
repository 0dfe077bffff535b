"""Upkeep of a store: what it holds, what can go, and its rows for other tools."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fairtk.errors import NotFoundError, ParameterError, StoreError
from fairtk.experiment.database import FILE, checksum
from fairtk.experiment.packing import unpack
from fairtk.experiment.store import Store, StoredCell
from fairtk.files import write_parquet
from fairtk.frames.columns import QID

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
