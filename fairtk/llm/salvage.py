"""What can be read of a damaged ledger: rows whose checksums hold."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from pathlib import Path

from fairtk.llm.chat import Completion
from fairtk.llm.rows import COLUMNS, Row, made_row
from fairtk.llm.schema import connected, write_new

_FIRST_VERSION = COLUMNS[:10]  # the ledgers of fairtk before checksums


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
            names = {name for _, name, *_ in database.execute("PRAGMA table_info(answers)")}
            columns = COLUMNS if names >= set(COLUMNS) else _FIRST_VERSION
            order = f"SELECT {','.join(columns)} FROM answers NOT INDEXED ORDER BY rowid"
            for values in database.execute(f"{order} {direction}"):
                row = Row(*values) if columns == COLUMNS else _of_first_version(*values)
                if row is not None and row.sound:
                    rows.append(row)
    return rows


def _of_first_version(
    key: str, model: str, parameters: str, prompt: str, *served: object
) -> Row | None:
    answer, finish, asked, told, seconds, created = served
    try:
        completion = Completion(answer, asked, told, seconds, finish)  # type: ignore[arg-type]
        return made_row(key, model, parameters, prompt, completion, str(created))
    except (TypeError, ValueError):
        return None


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
        for end in ("", "-wal", "-shm", "-journal"):
            part.with_name(part.name + end).unlink(missing_ok=True)
