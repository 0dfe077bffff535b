"""Upkeep of a store: what it holds, what can go, and its rows for other tools."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import NotFoundError, ParameterError, StoreError
from fairtk.experiment.cells import StoredCell
from fairtk.experiment.packing import unpack
from fairtk.experiment.store import FILE, Store, checksum
from fairtk.files import write_parquet
from fairtk.frames.columns import QID

_SHORT = 12


def stored(save_dir: str | PathLike[str]) -> pd.DataFrame:
    """Return what a store holds: a row per chain of stages.

    Args:
        save_dir: the store's folder.

    Returns:
        ``chain`` (the start of its key), ``stages``, ``systems`` (names that ended with it),
        ``queries``, ``failed``, ``megabytes``, ``created``.

    Raises:
        StoreError: there is no store.
    """
    with closing(_database(save_dir)) as database:
        names: dict[int, list[str]] = {}
        for name, chain in database.execute("SELECT name, chain FROM systems ORDER BY name"):
            names.setdefault(chain, []).append(name)
        counts = {
            chain: (there, failed)
            for chain, there, failed in database.execute(
                "SELECT chain, count(*) - count(error), count(error) FROM cells GROUP BY chain"
            )
        }
        sizes = dict(
            database.execute(
                "SELECT chain, sum(length(data)) FROM "
                "(SELECT DISTINCT chain, frame FROM cells) JOIN frames USING (frame) GROUP BY chain"
            )
        )
        chains = database.execute("SELECT chain, key, stages, created FROM chains").fetchall()
    rows = [
        {
            "chain": key[:_SHORT],
            "stages": " >> ".join(_name(stage) for stage in json.loads(stages)),
            "systems": ", ".join(names.get(chain, [])),
            "queries": counts.get(chain, (0, 0))[0],
            "failed": counts.get(chain, (0, 0))[1],
            "megabytes": sizes.get(chain, 0) / 1e6,
            "created": created,
        }
        for chain, key, stages, created in chains
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
        StoreError: there is no store, or it cannot be written.
    """
    wanted, named = list(chains), list(systems)
    if not (wanted or named or failed or damaged):
        raise ParameterError("prune: say what to remove: chains, systems, failed or damaged")
    try:
        with closing(_database(save_dir)) as database:
            database.execute("BEGIN IMMEDIATE")
            numbers = [_chain(database, start) for start in wanted]
            numbers += [n for name in named for n in _chains_of(database, name)]
            removed = 0
            for number in numbers:
                removed += _deleted(database, "cells WHERE chain = ?", number)
                database.execute("DELETE FROM systems WHERE chain = ?", (number,))
                database.execute("DELETE FROM chains WHERE chain = ?", (number,))
            if failed:
                removed += _deleted(database, "cells WHERE error IS NOT NULL")
            if damaged:
                frames = database.execute("SELECT frame, digest, data FROM frames")
                for frame in [f for f, kept, data in frames if checksum(data) != kept]:
                    removed += _deleted(database, "cells WHERE frame = ?", frame)
            database.execute(
                "DELETE FROM frames WHERE frame NOT IN "
                "(SELECT frame FROM cells WHERE frame IS NOT NULL)"
            )
            database.execute("COMMIT")
            database.execute("VACUUM")
    except sqlite3.Error as error:
        raise StoreError(f"{Path(save_dir) / FILE}: nothing was removed ({error})") from error
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
    with closing(_database(save_dir)) as database:
        found = database.execute(
            "SELECT name, chain, key FROM systems JOIN chains USING (chain) ORDER BY name, chain"
        ).fetchall()
        cells = {
            chain: database.execute(
                "SELECT frame, first, size, error FROM cells WHERE chain = ? AND error IS NULL "
                "ORDER BY frame, first",
                (chain,),
            ).fetchall()
            for _, chain, _ in found
        }
    written = []
    store = Store(Path(save_dir))
    try:
        for name, chain, key in found:
            table = store.read([StoredCell(*row) for row in cells[chain]])
            if table is not None:
                safe = "".join(sign if sign.isalnum() else "-" for sign in name)[:80]
                path = target / f"{safe}-{key[:_SHORT]}.parquet"
                write_parquet(unpack(table).sort_values(QID, kind="stable"), path)
                written.append(path)
    finally:
        store.close()
    return written


def _database(save_dir: str | PathLike[str]) -> sqlite3.Connection:
    path = Path(save_dir) / FILE
    if not path.exists():
        raise StoreError(f"{path}: there is no store of an experiment here")
    return sqlite3.connect(path, timeout=120, isolation_level=None)


def _chain(database: sqlite3.Connection, start: str) -> int:
    keys = dict(database.execute("SELECT key, chain FROM chains"))
    found = [number for key, number in keys.items() if start and key.startswith(start)]
    if len(found) != 1:
        raise NotFoundError("chain", start, [key[:_SHORT] for key in keys])
    return int(found[0])


def _chains_of(database: sqlite3.Connection, name: str) -> list[int]:
    found = database.execute("SELECT chain FROM systems WHERE name = ?", (name,)).fetchall()
    if not found:
        known = [row[0] for row in database.execute("SELECT DISTINCT name FROM systems")]
        raise NotFoundError("system", name, known)
    return [int(row[0]) for row in found]


def _deleted(database: sqlite3.Connection, what: str, *values: Any) -> int:
    return int(database.execute(f"DELETE FROM {what}", values).rowcount)


def _name(stage: dict[str, Any]) -> str:
    return str(stage.get("identified") or str(stage.get("class")).rpartition(".")[2])
