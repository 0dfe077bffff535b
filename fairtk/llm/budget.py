"""Calls under way and what may be paid: claims before they start, prices that the user gives,
limits.
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from threading import Lock
from typing import Any, NamedTuple

from fairtk import checks
from fairtk.errors import DataWarning, ParameterError
from fairtk.io import Kind, process_host, process_start, read_table
from fairtk.llm.chat import Chat, ChatModel, Completion, Row
from fairtk.llm.store import AnswerStore

BEAT = 5.0
"""Seconds between two signs of life of a process that has calls under way."""

SILENCE = 60.0
"""Seconds without a sign of life after which a process that cannot be looked up counts as dead."""


def new_owner() -> str:
    """Return a name for a ledger that is open in this process: host, process, its start, chance."""
    pid = os.getpid()
    return f"{process_host()}|{pid}|{process_start(pid) or ''}|{secrets.token_hex(4)}"


def is_alive(owner: str, beat: float) -> bool:
    """Return whether the process of an owner is there.

    On the same host the process is looked up, by number and start, so that a model may take as
    long as it likes; elsewhere the time of its last sign of life (since 1970) decides.
    """
    host, pid, start, _ = owner.rsplit("|", 3)
    if start and host == process_host():
        return process_start(int(pid)) == start
    return time.time() - beat < SILENCE


def process_of(owner: str) -> str:
    """Return an owner in words."""
    host, pid, *_ = owner.rsplit("|", 3)
    return f"process {pid} on {host.partition('/')[0]}"


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
    it; ``"batched"``: it is out in the batch whose folder is the `reason`; ``"refused"``: `reason`
    says why, when so many calls were under way.
    """

    state: str
    reason: str = ""
    running: int = 0


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
        self,
        prices: Mapping[str, float],
        since: str = "",
        budget: Budget | None = None,
    ) -> list[Claim]:
        """Claim calls, unless they are answered or others make them; all in one transaction.

        Args:
            prices: the most that each call can cost, by key.
            since: as in `AnswerStore.get`.
            budget: decides whether one more call may be made; None: any.

        Returns:
            A claim for each call up to the first that is refused.
        """

        def write(database: sqlite3.Connection) -> list[Claim]:
            running, batches = self.under_way(database), has_batches(database)
            new = [] if budget is None else payments(database, budget.after)
            out, reserved = out_in_batches(database) if batches else (0, 0.0)
            claims: list[Claim] = []
            inserted = []
            for key, price in prices.items():
                row = database.execute(
                    "SELECT unusable, created FROM answers WHERE key = ?", (key,)
                ).fetchone()
                if row is not None and not (row[0] and row[1] < since):
                    claims.append(Claim("answered"))
                    continue
                if key in running:
                    claims.append(Claim("taken"))
                    continue
                folder = batch_of(database, key) if batches else ""
                if folder:
                    claims.append(Claim("batched", folder))
                    continue
                if budget is not None:
                    held = sum(running.values()) + reserved
                    reason = budget.refusal(new, len(running) + out, held, price)
                    new = []
                    if reason:
                        claims.append(Claim("refused", reason, len(running)))
                        break
                running[key] = price
                inserted.append((key, self.owner, price, time.time()))
                claims.append(Claim("mine"))
            database.executemany("INSERT INTO claims VALUES (?,?,?,?)", inserted)
            return claims

        claims = self._file.write(write, durable=False)
        mine = [key for key, claim in zip(prices, claims, strict=False) if claim.state == "mine"]
        if mine:
            self._mine.update(mine)
            self._live()
        return claims

    def under_way(self, database: sqlite3.Connection) -> dict[str, float]:
        """Return the claims of living processes: the most that each call can cost, by key.

        Those of dead ones are ended.
        """
        claims = database.execute("SELECT key, owner, price, beat FROM claims").fetchall()
        beats = {owner: beat for _, owner, _, beat in claims if owner != self.owner}
        dead = {owner for owner, beat in beats.items() if not is_alive(owner, beat)}
        database.executemany("DELETE FROM claims WHERE owner = ?", [(o,) for o in dead])
        return {key: price for key, owner, price, _ in claims if owner not in dead}

    def pay(self, rows: Sequence[Row], prices: Sequence[float | None]) -> list[Completion]:
        """Commit the answers of claimed calls with their payments, all or none, and end the claims.

        They replace answers that were made before the claims. A price may be unknown: None.
        """

        def write(database: sqlite3.Connection) -> None:
            self._store.insert(database, rows)
            self._end(database, [row.key for row in rows])
            for row, price in zip(rows, prices, strict=True):
                self.note(database, row, price)

        self._file.write(write)
        self._mine.difference_update(row.key for row in rows)
        return [row.completion for row in rows]

    def note(self, database: sqlite3.Connection, row: Row, price: float | None) -> None:
        """Write the payment of an answer, in a transaction that is begun."""
        database.execute(
            "INSERT INTO payments (owner, model, prompt_tokens, completion_tokens, price) "
            "VALUES (?,?,?,?,?)",
            (self.owner, row.model, row.prompt_tokens, row.completion_tokens, price),
        )

    def release(self, keys: Iterable[str]) -> None:
        """End claims whose calls gave no answer."""
        mine = list(keys)
        if mine:
            self._file.write(lambda database: self._end(database, mine), durable=False)
            self._mine.difference_update(mine)

    def warn_of_standstill(self, keys: Iterable[str]) -> None:
        """Warn if a process that makes one of the calls lives, but gives no sign of life."""
        waited_for = set(keys)
        for key, owner, beat in self._file.read("SELECT key, owner, beat FROM claims"):
            if key in waited_for and time.time() - beat > SILENCE and is_alive(owner, beat):
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


BATCH_TABLES = (
    # folders of prompts: who writes there (empty: nobody), calls that are out, what they reserve
    """CREATE TABLE IF NOT EXISTS batches (
    batch TEXT PRIMARY KEY,
    folder TEXT NOT NULL,
    writer TEXT NOT NULL,
    calls INTEGER NOT NULL,
    price REAL NOT NULL
)""",
    # prompts: where each stands, the digest of its line, the most that it can cost; state 0: out,
    # -1: failed, else the number of the reading that took its answer
    """CREATE TABLE IF NOT EXISTS batched (
    batch TEXT NOT NULL,
    key TEXT NOT NULL,
    file TEXT NOT NULL,
    start INTEGER NOT NULL,
    line TEXT NOT NULL,
    price REAL NOT NULL,
    state INTEGER NOT NULL,
    PRIMARY KEY (batch, key)
)""",
    "CREATE INDEX IF NOT EXISTS batched_out ON batched (key) WHERE state = 0",
    # lines of answers and errors that were taken: read again they say nothing of a prompt that is
    # out once more
    """CREATE TABLE IF NOT EXISTS settled (
    batch TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (batch, line)
) WITHOUT ROWID""",
)
"""What a ledger has beside its own tables as soon as prompts are written to files."""


def has_batches(database: sqlite3.Connection) -> bool:
    """Return whether prompts were ever written to files."""
    tables = "SELECT 1 FROM sqlite_master WHERE name = 'settled'"
    return database.execute(tables).fetchone() is not None


def batch_of(database: sqlite3.Connection, key: str) -> str:
    """Return the folder of the batch in which a call is out; empty: in none."""
    if not has_batches(database):
        return ""
    row = database.execute(
        "SELECT folder FROM batched JOIN batches USING (batch) WHERE key = ? AND state = 0", (key,)
    ).fetchone()
    return str(row[0]) if row else ""


def out_in_batches(database: sqlite3.Connection) -> tuple[int, float]:
    """Return how many calls are out in batches, and the most that they can cost."""
    if not has_batches(database):
        return 0, 0.0
    calls, price = database.execute("SELECT total(calls), total(price) FROM batches").fetchone()
    return int(calls), max(0.0, price)


def payments(database: sqlite3.Connection, after: int) -> list[Payment]:
    """Return the payments after one of a number."""
    last = database.execute("SELECT coalesce(max(number), 0) FROM payments").fetchone()[0]
    if last < after:  # the file was begun anew
        after = 0
    rows = database.execute("SELECT * FROM payments WHERE number > ? ORDER BY number", (after,))
    return [Payment(*row) for row in rows]


CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English: what prompts are measured by before a server has counted."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_new_tokens")

PriceTable = Mapping[str, tuple[float, float]]


class Price(NamedTuple):
    """Prices of a model's prompts and answers, in any one currency, per million tokens."""

    prompt: float
    completion: float


class Prices:
    """Prices by model; the price of a model that is not listed is unknown, NaN and not 0.

    Args:
        table: model to (prompt, completion) per million tokens, or a TSV file with the columns
            ``model``, ``prompt`` and ``completion``.

    Raises:
        ParameterError: a price is negative or not finite, or is no pair.
        FormatError: the file is not such a table.
    """

    def __init__(self, table: PriceTable | str | PathLike[str] | None = None) -> None:
        pairs = _read(table) if isinstance(table, str | PathLike) else dict(table or {})
        self._prices: dict[str, Price] = {}
        for model, pair in pairs.items():
            try:
                price = Price(*(float(value) for value in pair))
            except (TypeError, ValueError):
                raise ParameterError(
                    f"prices of {model!r} must be two numbers, (prompt, completion); found {pair!r}"
                ) from None
            if not all(math.isfinite(value) and value >= 0 for value in price):
                raise ParameterError(
                    f"prices must be finite and not negative; found {tuple(price)} for {model!r}"
                )
            self._prices[str(model)] = price

    def known(self, llm: ChatModel) -> bool:
        """Return whether calls to a model have a price."""
        return llm.free or llm.name in self._prices

    def of(self, llm: ChatModel, prompt: float | None, completion: float | None) -> float:
        """Return the price of a call; NaN if the model's price or a count is unknown.

        Args:
            llm: the model.
            prompt: tokens of the prompt; None: unknown.
            completion: tokens of the answer; None: unknown.
        """
        return 0.0 if llm.free else self.of_name(llm.name, prompt, completion)

    def of_name(self, model: str, prompt: float | None, completion: float | None) -> float:
        """Return the price of a call to a model that is known by its name alone."""
        price = self._prices.get(model)
        if price is None or prompt is None or completion is None:
            return math.nan
        return (prompt * price.prompt + completion * price.completion) / 1e6


class Estimate(NamedTuple):
    """What work will take, before it is begun.

    Attributes:
        calls: calls to pay for; equal ones count once.
        recorded: distinct calls whose answers are in the ledger.
        prompt_tokens: about so many, by the length of the texts (`CHARACTERS_PER_TOKEN`).
        completion_tokens: at most so many: every answer as long as allowed; NaN: no limit known.
        price: at most about so much; NaN: the price is unknown.
    """

    calls: int
    recorded: int
    prompt_tokens: int
    completion_tokens: float
    price: float


def prompt_tokens(chat: Chat) -> int:
    """Return about how many tokens a chat has."""
    return -(-sum(len(m.content) for m in chat.messages) // CHARACTERS_PER_TOKEN) + 4


def most_completion_tokens(llm: ChatModel) -> float:
    """Return the most tokens of a model's answer; NaN if no limit is known."""
    if llm.free:
        return 0.0
    parameters = llm.parameters()
    limits = [parameters.get(name) for name in _LIMITS]
    return next((float(limit) for limit in limits if isinstance(limit, int | float)), math.nan)


def estimate(llm: ChatModel, chats: Sequence[Chat], recorded: int, prices: Prices) -> Estimate:
    """Return the estimate for distinct calls to pay for; so many more are recorded."""
    asked = sum(map(prompt_tokens, chats))
    told = len(chats) * most_completion_tokens(llm) if chats else 0.0
    price = prices.of(llm, asked, told) if chats else 0.0
    return Estimate(len(chats), recorded, asked, told, price)


def _read(path: str | PathLike[str]) -> dict[str, tuple[float, float]]:
    rows = read_table(path)
    kinds: dict[str, Kind] = {"model": "id", "prompt": "number", "completion": "number"}
    rows.typed("a table of prices", [*kinds], kinds)
    rows.unique(["model"], "a model has two prices")
    columns = (rows.frame[name].tolist() for name in ("model", "prompt", "completion"))
    return {model: (asked, told) for model, asked, told in zip(*columns, strict=True)}


@dataclass(frozen=True)
class Spending:
    """What was paid for.

    Attributes:
        calls: answers that were paid for; failed calls do not count.
        prompt_tokens: tokens of prompts, as far as known.
        completion_tokens: tokens of answers, as far as known.
        price: NaN as soon as one price is unknown.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: float = 0.0

    def plus(self, prompt: int | None, completion: int | None, price: float) -> Spending:
        """Return the spending after one more answer."""
        return Spending(
            self.calls + 1,
            self.prompt_tokens + (prompt or 0),
            self.completion_tokens + (completion or 0),
            self.price + price,
        )


class Budget:
    """The limits of a ledger, and what they leave.

    Answers that other processes pay for, in the same file, count from when this one began.

    Raises:
        ParameterError: a limit is negative or no number.
    """

    def __init__(self, max_calls: int | None, max_cost: float | None, prices: Prices) -> None:
        for name, limit in (("max_calls", max_calls), ("max_cost", max_cost)):
            if limit is not None:
                checks.number(name, limit, "Ledger", rule="be finite and not negative")
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.prices = prices
        self.own = Spending()
        self.after = 0
        self.guessed = False
        self._all = Spending()
        self._lock = Lock()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_calls is not None or self.max_cost is not None

    def refusal(self, new: Sequence[Payment], running: int, reserved: float, price: float) -> str:
        """Return why one more call is not allowed, or an empty string.

        Args:
            new: payments after `after`, of all processes.
            running: how many calls are under way.
            reserved: the most that these can cost.
            price: the most that one more can cost.
        """
        with self._lock:
            for payment in new:
                self._all = self._all.plus(None, None, self._price(payment))
                self.after = payment.number
            paid, others = self._all, self._all.calls - self.own.calls
        by = f", {others} of them by other processes" if others > 0 else ""
        if self.max_calls is not None and paid.calls + running + 1 > self.max_calls:
            return f"max_calls={self.max_calls} is reached ({paid.calls} calls are paid{by})"
        if self.max_cost is not None and not paid.price + reserved + price <= self.max_cost:
            guessed = (
                "; the server does not say what answers use, so that each counts as long as it "
                "can be" * self.guessed
            )
            return (
                f"max_cost={self.max_cost:g} could be exceeded ({paid.price:.6g} is paid{by}, and "
                f"the next call may cost {price:.2g}{guessed})"
            )
        return ""

    def spend(self, llm: ChatModel, answer: Completion, most: float) -> float | None:
        """Count an answer, and return its price; None: unknown.

        `most` is what it could cost, which counts if there is a limit and the price is unknown.
        """
        price = self.prices.of(llm, answer.prompt_tokens, answer.completion_tokens)
        if math.isnan(price) and self.max_cost is not None:
            price = most
            self.guessed = True
        self.count(answer, price)
        return None if math.isnan(price) else price

    def count(self, answer: Completion, price: float) -> None:
        """Count an answer that costs so much; NaN: unknown."""
        with self._lock:
            self.own = self.own.plus(answer.prompt_tokens, answer.completion_tokens, price)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())

    def _price(self, payment: Payment) -> float:
        if payment.price is not None:
            return payment.price
        counts = (payment.prompt_tokens, payment.completion_tokens)
        return self.prices.of_name(payment.model, *counts)
