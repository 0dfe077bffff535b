"""Calls under way: claimed before they start, so that no two processes pay for one answer."""

from __future__ import annotations

import os
import platform
import secrets
import sqlite3
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fairtk.errors import DataWarning
from fairtk.llm.chat import Completion
from fairtk.llm.rows import Row
from fairtk.llm.store import AnswerStore

BEAT = 5.0
"""Seconds between two signs of life of a process that has calls under way."""

SILENCE = 60.0
"""Seconds without a sign of life after which a process that cannot be looked up counts as dead."""

_PROC = Path("/proc")


def new_owner() -> str:
    """Return a name for a ledger that is open in this process: host, process, its start, chance."""
    pid = os.getpid()
    return f"{_host()}|{pid}|{_started(pid) or ''}|{secrets.token_hex(4)}"


def is_alive(owner: str, beat: float) -> bool:
    """Return whether the process of an owner is there.

    On the same host the process is looked up, by number and start, so that a model may take as
    long as it likes; elsewhere the time of its last sign of life (since 1970) decides.
    """
    host, pid, start, _ = owner.rsplit("|", 3)
    if start and host == _host():
        return _started(int(pid)) == start
    return time.time() - beat < SILENCE


def process_of(owner: str) -> str:
    """Return an owner in words."""
    host, pid, *_ = owner.rsplit("|", 3)
    return f"process {pid} on {host.partition('/')[0]}"


@cache
def _host() -> str:
    """Return the host, with what tells reboots and containers apart."""
    boot = _looked_up(lambda: (_PROC / "sys/kernel/random/boot_id").read_text().strip())
    space = _looked_up(lambda: os.readlink(_PROC / "self/ns/pid"))
    return f"{platform.node()}/{boot}/{space}".replace("|", "")


def _looked_up(read: Callable[[], str]) -> str:
    try:
        return read()
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return when a process began, in the kernel's ticks; None: it is dead, or not to be known."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # the name in brackets may hold anything, brackets too
    state, *rest = text[text.rindex(")") + 1 :].split()
    return None if state in ("Z", "X") else rest[18]


class Payment(NamedTuple):
    """An answer that was paid for, by whichever process."""

    number: int  # a later payment has a higher one
    owner: str
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    price: float | None  # None: unknown to who paid


class Claim(NamedTuple):
    """What came of asking for a call.

    The state is ``"mine"``: make it; ``"answered"``: it is in the file; ``"taken"``: another makes
    it; ``"refused"``: `reason` says why, when so many calls were under way.
    """

    state: str
    reason: str = ""
    running: int = 0


Allow = Callable[[list[Payment], int, float], str]
"""From payments that were not seen yet, and number and price of calls under way, to a reason
against one more call, or an empty string."""


class Claims:
    """The calls under way in all processes that have a ledger open.

    A claim belongs to an owner: a ledger that is open in a process. The claims of a dead process
    are taken over by whoever asks next; a slow call keeps its claim.
    """

    def __init__(self, store: AnswerStore) -> None:
        self.owner = new_owner()
        self._store = store
        self._file = store.file
        self._mine: set[str] = set()
        self._closed = threading.Event()
        self._heart: threading.Thread | None = None

    def last_payment(self) -> int:
        """Return the number of the latest payment; 0: there is none."""
        return int(self._file.read("SELECT coalesce(max(number), 0) FROM payments")[0][0])

    def claim(
        self, key: str, price: float, since: str = "", after: int = 0, allow: Allow | None = None
    ) -> Claim:
        """Claim a call, unless it is answered or another makes it.

        Args:
            key: of the call.
            price: the most that it can cost.
            since: as in `AnswerStore.get`.
            after: the last payment that `allow` was given.
            allow: decides whether one more call may be made; None: any.
        """

        def write(database: sqlite3.Connection) -> Claim:
            row = database.execute(
                "SELECT unusable, created FROM answers WHERE key = ?", (key,)
            ).fetchone()
            if row is not None and not (row[0] and row[1] < since):
                return Claim("answered")
            claims = database.execute("SELECT key, owner, price, beat FROM claims").fetchall()
            beats = {owner: beat for _, owner, _, beat in claims if owner != self.owner}
            dead = {owner for owner, beat in beats.items() if not is_alive(owner, beat)}
            database.executemany("DELETE FROM claims WHERE owner = ?", [(o,) for o in dead])
            running = {k: cost for k, owner, cost, _ in claims if owner not in dead}
            if key in running:
                return Claim("taken")
            if allow is not None:
                reason = allow(_payments(database, after), len(running), sum(running.values()))
                if reason:
                    return Claim("refused", reason, len(running))
            values = (key, self.owner, price, time.time())
            database.execute("INSERT INTO claims VALUES (?,?,?,?)", values)
            return Claim("mine")

        claim = self._file.write(write, durable=False)
        if claim.state == "mine":
            self._mine.add(key)
            self._live()
        return claim

    def pay(self, row: Row, price: float | None) -> Completion:
        """Commit the answer of a claimed call with its payment, and end the claim.

        It replaces an answer that was made before the claim. The price may be unknown: None.
        """
        paid = (self.owner, row.model, row.prompt_tokens, row.completion_tokens, price)

        def write(database: sqlite3.Connection) -> None:
            self._store.insert(database, [row])
            self._end(database, [row.key])
            database.execute(
                "INSERT INTO payments (owner, model, prompt_tokens, completion_tokens, price) "
                "VALUES (?,?,?,?,?)",
                paid,
            )

        self._file.write(write)
        self._mine.discard(row.key)
        return row.completion

    def release(self, keys: Iterable[str]) -> None:
        """End claims whose calls gave no answer."""
        mine = list(keys)
        if mine:
            self._file.write(lambda database: self._end(database, mine), durable=False)
            self._mine.difference_update(mine)

    def warn_of_standstill(self, keys: Iterable[str]) -> None:
        """Warn if a process that makes one of the calls lives, but gives no sign of life."""
        wanted = set(keys)
        for key, owner, beat in self._file.read("SELECT key, owner, beat FROM claims"):
            if key in wanted and time.time() - beat > SILENCE and is_alive(owner, beat):
                warnings.warn(
                    f"the ledger {self._store.path} waits for an answer that {process_of(owner)} "
                    "asked for, which does not move: let it go on, or end it",
                    DataWarning,
                    stacklevel=3,
                )
                return

    def close(self) -> None:
        """Give no more signs of life."""
        self._closed.set()

    def beat(self) -> None:
        """Give a sign of life of the calls under way."""
        if self._mine:
            beat = (time.time(), self.owner)
            self._file.write(
                lambda database: database.execute(
                    "UPDATE claims SET beat = ? WHERE owner = ?", beat
                ),
                durable=False,
            )

    def _end(self, database: sqlite3.Connection, keys: list[str]) -> None:
        mine = [(key, self.owner) for key in keys]
        database.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", mine)

    def _live(self) -> None:
        if self._heart is None:
            self._heart = threading.Thread(
                target=_keep_beating, args=(weakref.ref(self), self._closed), daemon=True
            )
            self._heart.start()


def _keep_beating(of: weakref.ref[Claims], closed: threading.Event) -> None:
    """Give signs of life until the ledger is closed, or gone."""
    while not closed.wait(BEAT):
        claims = of()
        if claims is None:
            return
        try:
            claims.beat()
        except Exception:  # whoever makes the calls will meet it, and say it
            continue
        finally:
            del claims


def _payments(database: sqlite3.Connection, after: int) -> list[Payment]:
    last = database.execute("SELECT coalesce(max(number), 0) FROM payments").fetchone()[0]
    if last < after:  # the file was begun anew
        after = 0
    rows = database.execute("SELECT * FROM payments WHERE number > ? ORDER BY number", (after,))
    return [Payment(*row) for row in rows]
