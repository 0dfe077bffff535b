"""Changes of the file of a ledger or store that time or another process would make."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from fairtk.llm import Ledger


def change(path, statement, values=()):
    """Run a statement on a file."""
    with closing(sqlite3.connect(path, timeout=120)) as database, database:
        database.execute(statement, values)


def lapse(path):
    """Let the leases of all processes lapse, as after half a minute without a renewal."""
    if path.exists():
        change(path, "UPDATE owners SET expires = 0 WHERE expires IS NOT NULL")


def claimed_elsewhere(path, *keys):
    """Claim prompts on behalf of a process of another computer."""
    Ledger(path).close()
    change(path, "INSERT INTO owners VALUES ('other', 'process 1 on elsewhere', 1e12, 0, 0, 0)")
    for key in keys:
        change(path, "INSERT INTO claims VALUES (?, 'other', 0, 0)", (key,))
