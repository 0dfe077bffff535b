"""Claims: which process or batch folder is answering which prompt.

The states of a prompt are::

    absent --claim--> claimed --pay--> answered
       ^                 |
       +-----------------+  released without an answer, or the owner's lease lapsed

An owner is an open ledger of a process, with a lease that a thread renews, or a batch folder, whose
claims never lapse. After a kill the claims of a process are free within `LEASE` seconds. The same
holds for a suspended computer: when it wakes up, others may have requested the same prompts. The
first answer is then stored, and both are counted as paid.
"""

from __future__ import annotations

import json
import math
import operator
import os
import platform
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairtk.errors import FormatError
from fairtk.llm.budget import CHARACTERS_PER_TOKEN, Budget, Most, Payment, estimated_tokens
from fairtk.llm.chat import Completion
from fairtk.llm.store import AnswerStore, FailureRow, Row

LEASE = 30.0
"""Seconds after which the claims of a process are free, unless it renewed its lease."""

RENEWAL = 10.0
"""Seconds between two renewals."""


def process_name() -> str:
    """Return the name of this process for the messages of other processes."""
    return f"process {os.getpid()} on {platform.node()}"


class Claim(NamedTuple):
    """The result of claiming a prompt.

    The state is ``"mine"``: this process makes the call; ``"answered"``: the answer is in the file;
    ``"claimed"``: `owner` makes the call; ``"batched"``: it is in the batch folder `owner`;
    ``"refused"``: the budget does not allow it because of `reason`, with `running` calls under way.
    """

    state: str
    owner: str = ""
    reason: str = ""
    running: int = 0


class Claims:
    """The claims in the file of an answer store, on behalf of this process."""

    def __init__(self, store: AnswerStore) -> None:
        self._store = store
        self._file = store.file
        self.closed = False

    @property
    def owner(self) -> str:
        """The owner of the claims of this object."""
        return self._file.token

    def last_payment(self) -> int:
        """Return the number of the latest payment, 0 if there are no payments."""
        return int(self._file.read("SELECT coalesce(max(number), 0) FROM payments")[0][0])

    def claim(
        self, most: Mapping[str, Most], since: str = "", budget: Budget | None = None
    ) -> list[Claim]:
        """Claim prompts by key, in one transaction.

        Args:
            most: the most that each call can cost, by key.
            since: as in `AnswerStore.get`.
            budget: decides whether one more call may be made; `None` for no limit.

        Returns:
            A claim for each prompt, up to the first that the budget refuses.
        """

        def write(connection: sqlite3.Connection) -> list[Claim]:
            self._begin(connection)
            running, reserved, batched = 0, Most(), 0
            if budget is not None:
                budget.add(_payments(connection, budget.after))
                running, reserved, batched = _reservations(connection)
            claims = []
            for key, of_call in most.items():
                claim = self._claim_of(connection, key, since)
                if claim is None and budget is not None:
                    reason = budget.refusal(running + batched, reserved, of_call)
                    if reason:
                        claims.append(Claim("refused", reason=reason, running=running))
                        break
                    running += 1
                    reserved = Most(*map(operator.add, reserved, of_call))
                if claim is None:
                    claim = Claim("mine")
                    values = (key, self.owner, *of_call)
                    connection.execute("INSERT INTO claims VALUES (?, ?, ?, ?)", values)
                claims.append(claim)
            return claims

        claims = self._file.write(write, durable=False)
        _keep_renewing(self)
        return claims

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Renew the lease, and free the claims of owners whose lease has lapsed."""
        current = time.time()
        connection.execute(
            "INSERT INTO owners VALUES (?, ?, ?, 0, 0, 0) "
            "ON CONFLICT (owner) DO UPDATE SET expires = excluded.expires",
            (self.owner, process_name(), current + LEASE),
        )
        lapsed = connection.execute("SELECT owner FROM owners WHERE expires < ?", (current,))
        for owner in lapsed.fetchall():
            delete_owner(connection, *owner)

    def _claim_of(self, connection: sqlite3.Connection, key: str, since: str) -> Claim | None:
        """Return the claim on a prompt that is answered or claimed, `None` if it is free."""
        answer = "SELECT 1 FROM answers WHERE key = ? AND NOT (unusable AND created < ?)"
        if connection.execute(answer, (key, since)).fetchone():
            return Claim("answered")
        row = connection.execute(
            "SELECT expires, name FROM claims JOIN owners USING (owner) WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        return Claim("batched" if row[0] is None else "claimed", row[1])

    def pay(
        self,
        rows: Sequence[Row],
        prices: Sequence[float | None],
        tokens: Sequence[int],
        since: str = "",
    ) -> list[Completion]:
        """Commit answers with their payments in one transaction, and end their claims.

        Args:
            rows: the answers.
            prices: the price of each answer; `None` if unknown.
            tokens: the tokens of each answer and its prompt.
            since: unusable answers created before this time are replaced.

        Returns:
            The stored answers. If another process was first, its answer is stored.
        """

        def write(connection: sqlite3.Connection) -> int:
            add_payments(connection, rows, prices, tokens)
            self._delete(connection, (row.key for row in rows))
            return self._store.insert(connection, rows, since)

        if self._file.write(write) == len(rows):
            return [row.completion for row in rows]
        stored = self._store.get(row.key for row in rows)
        return [stored[row.key] for row in rows]

    def release(self, keys: Iterable[str], failures: Sequence[FailureRow] = ()) -> None:
        """End the claims of calls without an answer, and store failures that cannot pass."""
        unanswered = list(keys)

        def write(connection: sqlite3.Connection) -> None:
            self._store.insert_failures(connection, failures)
            self._delete(connection, unanswered)

        if unanswered:
            self._file.write(write, durable=bool(failures))

    def _delete(self, connection: sqlite3.Connection, keys: Iterable[str]) -> None:
        values = [(key, self.owner) for key in keys]
        connection.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", values)

    def renew(self) -> None:
        """Renew the lease if there are claims."""
        self._file.write(
            lambda connection: connection.execute(
                "UPDATE owners SET expires = ? WHERE owner = ? "
                "AND owner IN (SELECT owner FROM claims)",
                (time.time() + LEASE, self.owner),
            ),
            durable=False,
        )

    def close(self) -> None:
        """End all remaining claims."""
        if self.closed:
            return
        self.closed = True
        if self._file.read("SELECT 1 FROM owners WHERE owner = ?", (self.owner,)):
            self._file.write(lambda database: delete_owner(database, self.owner), durable=False)


def delete_owner(connection: sqlite3.Connection, owner: str) -> None:
    """Delete an owner and its claims."""
    connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))
    connection.execute("DELETE FROM owners WHERE owner = ?", (owner,))


def _reservations(connection: sqlite3.Connection) -> tuple[int, Most, int]:
    """Return the number of calls under way, the most that all claims can cost, and the number of
    prompts in batch folders.
    """
    # Processes have few claims, which are counted. Folders can have many, and store totals.
    calls, price, tokens = connection.execute(
        "SELECT count(*), total(claims.price), total(claims.tokens) "
        "FROM owners CROSS JOIN claims USING (owner) WHERE expires IS NOT NULL"
    ).fetchone()
    batched, *reserved = connection.execute(
        "SELECT total(claims), total(price), total(tokens) FROM owners WHERE expires IS NULL"
    ).fetchone()
    return calls, Most(price + reserved[0], int(tokens + reserved[1])), int(batched)


def _payments(connection: sqlite3.Connection, after: int) -> list[Payment]:
    """Return the payments of all processes with a number above `after`."""
    query = "SELECT * FROM payments WHERE number > ? ORDER BY number"
    return [Payment(*row) for row in connection.execute(query, (after,))]


def add_payments(
    connection: sqlite3.Connection,
    rows: Sequence[Row],
    prices: Sequence[float | None],
    tokens: Sequence[int],
) -> None:
    """Insert the payment of each answer; a price is `None` if unknown."""
    connection.executemany(
        "INSERT INTO payments (model, prompt_tokens, completion_tokens, price, tokens) "
        "VALUES (?, ?, ?, ?, ?)",
        [
            (row.model, row.prompt_tokens, row.completion_tokens, price, n_tokens)
            for row, price, n_tokens in zip(rows, prices, tokens, strict=True)
        ],
    )


def tokens_of(row: Row) -> int:
    """Return the tokens of an answer and its prompt, estimated if they are unknown."""
    n_prompt, n_answer = row.prompt_tokens, row.completion_tokens
    if n_prompt is None:
        n_prompt = estimated_tokens(content for _, content in json.loads(row.prompt))
    if n_answer is None:
        n_answer = math.ceil(len(row.answer) / CHARACTERS_PER_TOKEN)
    return n_prompt + n_answer


# Renewal ----------------------------------------------------------------------------------------

_renewed: list[weakref.ref[Claims]] = []
_threads: dict[int, threading.Thread] = {}  # by process: a forked one begins without threads


def _keep_renewing(claims: Claims) -> None:
    """Register a lease with the renewal thread of this process."""
    if all(reference() is not claims for reference in list(_renewed)):
        _renewed.append(weakref.ref(claims))
    if os.getpid() not in _threads:
        thread = threading.Thread(target=_renew, name="fairtk-leases", daemon=True)
        _threads[os.getpid()] = thread
        thread.start()


def _renew() -> None:
    while True:
        time.sleep(RENEWAL)
        for reference in list(_renewed):
            claims = reference()
            if claims is None or claims.closed:
                _renewed.remove(reference)
                continue
            try:
                claims.renew()
            except FormatError:  # calls raise and report the same error
                continue
