"""Servers of one model: what is known of each, which one gets the next call, what each lets
through.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import sqlite3
import threading
import time
import warnings
from collections.abc import Collection, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from fairtk.errors import DataWarning, ParameterError
from fairtk.llm.chat import as_json, now
from fairtk.llm.store import Database

OPENAI_URL = "https://api.openai.com/v1"

LONGEST_WAIT = 120.0
"""Seconds: a server that asks for a longer wait is given up."""

SILENCE = 45.0
"""Seconds that a server from which nothing has come yet is asked again, all calls together."""

PROBE = 2.0
"""Seconds that it has for each call after that."""

MOST_FAILURES = 5
"""Calls in a row that fail with all their attempts: the servers count as dead. So many attempts in
a row at one of several: it is left out."""

REST, LONGEST_REST = 1.0, 60.0
"""Seconds that one of several servers is left out, doubled each time it fails again."""


def backoff(
    first: float, attempt: int, asked: float | None, rng: random.Random, most: float = 30.0
) -> float:
    """Return the seconds to wait after an attempt (from 0) that failed: `first`, then doubled.

    A random part (between half of the wait and all of it) keeps calls that failed together from
    coming back together. What the server asks for is met, and never shortened.
    """
    own = min(most, first * 2.0 ** min(attempt, 60)) * rng.uniform(0.5, 1.0)
    return own if asked is None else max(asked, 0.0) + min(own, 0.1)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that ``Retry-After`` asks for (a number or a date), or None.

    ``retry-after-ms``, which some servers send, is more exact.
    """
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value).timestamp()
            seconds = date - (time.time() if now is None else now)
        except (TypeError, ValueError, OverflowError):
            seconds = math.nan
    exact = _number(headers, "retry-after-ms")
    seconds = seconds if exact is None else exact / 1000
    return max(0.0, seconds) if seconds == seconds else None


_PARTS = re.compile(r"([\d.]+)(ms|us|µs|ns|[dhms])")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_EPOCH = 1e9  # seconds: what is above is a time since 1970, and no duration


def duration(text: str, now: float | None = None) -> float | None:
    """Return the seconds in what a rate limit's header says: ``6m0s``, ``20ms``, ``1.5``.

    A time since 1970 becomes the seconds until then; None: it is nothing of that.
    """
    try:
        seconds = float(text)
    except ValueError:
        parts = _PARTS.findall(text)
        if not parts or "".join(map("".join, parts)) != text.strip():
            return None
        try:
            seconds = sum(float(number) * _SECONDS.get(unit, 0.0) for number, unit in parts)
        except ValueError:
            return None
    if seconds > _EPOCH:
        seconds -= time.time() if now is None else now
    return max(0.0, seconds) if math.isfinite(seconds) else None


class Allowance:
    """How much more a server lets through, of requests or of tokens, until when.

    An answer says what was left when its call was let in; what was sent after that call is taken
    off, so that the limit holds however many calls are under way.
    """

    def __init__(self) -> None:
        self.sent = 0.0
        self._limit = 0.0  # as it was told, or the most that was ever left
        self._sure = False  # whether it was told
        self._period = 0.0
        self._most = math.inf  # that may be sent, all in all, until this time:
        self._until = 0.0

    def wait(self, need: float, now: float) -> float:
        """Return the seconds until so much may be sent; 0: it may be now."""
        if now >= self._until and self._most < math.inf:  # all is there again
            self._most, self._until = self.sent + max(self._limit, need), now + self._period
        return self._until - now if self.sent + need > self._most else 0.0

    def send(self, need: float) -> float:
        """Count what is sent, and return how much was sent up to and with it."""
        self.sent += need
        return self.sent

    def told(self, mine: float, left: float, limit: float | None, reset: float, now: float) -> None:
        """Take what an answer says.

        Args:
            mine: what was sent up to and with its call.
            left: what was left after it.
            limit: what there is when all is there again; None: it does not say.
            reset: seconds until then.
            now: the time.
        """
        # Calls may overtake each other, and so may answers: of what they say until all is there
        # again the least counts, but more than a guess.
        if mine + left < self._most or now >= self._until or not self._sure:
            self._most, self._until = mine + left, now + reset
        self._sure = limit is not None
        self._limit = max(self._limit, left) if limit is None else limit
        self._period = max(self._period, reset)


def _number(headers: Mapping[str, str], name: str) -> float | None:
    try:
        number = float(headers[name])
    except (KeyError, ValueError):
        return None
    return number if math.isfinite(number) else None


_KINDS = ("requests", "tokens")
_UNSAID = 1.0  # seconds until a limit ends that is reached, and of which no end is said


class ServerState:
    """What is known of a server, over all calls of a model at any temperature.

    Attributes:
        url: its address.
        heard: whether it has ever sent anything.
        renamed: whether it takes ``max_completion_tokens`` in place of ``max_tokens``.
        running: calls under way.
        refused: whether it takes no call at all (a wrong key, an unknown model, a redirect).
        about: its version and models, as far as it says them.
    """

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.heard = False
        self.renamed = False
        self.running = 0
        self.refused = False
        self.about: dict[str, Any] | None = None
        self._asked: float | None = None
        self._misses = 0
        self._rest = REST
        self._out_until = 0.0
        self._closed_until = 0.0
        self._allowances = {kind: Allowance() for kind in _KINDS}

    def patience(self, timeout: float, attempt: int) -> float:
        """Return the seconds that an attempt (from 0) may take; 0: it is no use.

        A server that accepts connections and never says a word must not cost every attempt of
        every call its whole time: together they have `SILENCE`, then each call has `PROBE`.
        """
        if self.heard:
            return timeout
        now = time.monotonic()
        self._asked = now if self._asked is None else self._asked
        left = SILENCE - (now - self._asked)
        if attempt:  # a moment that is left is no use
            return min(timeout, left) if left >= min(timeout, PROBE) else 0.0
        return timeout if left > 0 else min(timeout, PROBE)

    def answered(self) -> None:
        """Begin anew to count failures, and let it take its share."""
        self._asked, self.refused = None, False
        self._misses, self._rest, self._out_until = 0, REST, 0.0

    def missed(self, gone: bool) -> None:
        """Count an attempt that failed; where the server is `gone`, or after many, leave it out."""
        self._misses += 1
        now = time.monotonic()
        if now >= self._out_until and (gone or self._out_until or self._misses >= MOST_FAILURES):
            self._out_until = now + self._rest
            self._rest = min(LONGEST_REST, 2 * self._rest)

    def close(self, seconds: float) -> None:
        """Send nothing for so long, as the server asks."""
        self._closed_until = max(self._closed_until, time.monotonic() + seconds)

    def turn_away(self) -> None:
        """Leave out a server that refuses all calls."""
        self.heard = self.refused = True
        self._out_until = time.monotonic() + LONGEST_REST

    @property
    def sent(self) -> float:
        """How many calls it was sent."""
        return self._allowances["requests"].sent

    @property
    def in_use(self) -> bool:
        """Whether it takes its share of calls; after a rest one call tries it."""
        if self._closed_until - time.monotonic() > LONGEST_WAIT:
            return False
        if not self._out_until:
            return True
        return time.monotonic() >= self._out_until and not self.running

    def wait(self, tokens: float) -> float:
        """Return the seconds until it lets a call of so many tokens through."""
        now = time.monotonic()
        waits = (self._allowances[k].wait(n, now) for k, n in zip(_KINDS, (1, tokens), strict=True))
        return max(0.0, self._closed_until - now, *waits)

    def send(self, tokens: float) -> dict[str, float]:
        """Count a call that is sent; returned is what `told` needs to know of it."""
        return {k: self._allowances[k].send(n) for k, n in zip(_KINDS, (1, tokens), strict=True)}

    def told(self, headers: Mapping[str, str], mine: Mapping[str, float]) -> None:
        """Take what an answer's headers say of rate limits."""
        now = time.monotonic()
        for kind in _KINDS:
            left = _number(headers, f"x-ratelimit-remaining-{kind}")
            if left is not None:
                limit = _number(headers, f"x-ratelimit-limit-{kind}")
                reset = duration(headers.get(f"x-ratelimit-reset-{kind}", ""))
                wait = _UNSAID if reset is None else min(reset, LONGEST_WAIT)
                self._allowances[kind].told(mine[kind], max(0.0, left), limit, wait, now)


class Servers:
    """All servers of a model: the least loaded that works gets the next call.

    Attributes:
        states: of each, in the order in which they were named.
        failures: calls in a row that failed with all their attempts, wherever.
        notes: what the user is to be warned of.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self.states = [ServerState(url) for url in urls]
        self.failures = 0
        self.notes: list[str] = []

    @property
    def urls(self) -> list[str]:
        """The addresses."""
        return [state.url for state in self.states]

    @property
    def heard(self) -> bool:
        """Whether each has sent something, or is left out."""
        return all(state.heard or not state.in_use for state in self.states)

    def next(self, tokens: float, tried: Collection[ServerState] = ()) -> ServerState:
        """Return the server for a call of so many tokens.

        The least loaded of those that work, that the call was not `tried` at, and that let it
        through now; where there is none, one that will soonest.
        """
        states = [state for state in self.states if state.in_use] or self.states
        states = [state for state in states if state not in tried] or states
        return min(states, key=lambda one: (one.wait(tokens), one.running, one.sent))

    def answered(self, state: ServerState | None = None) -> None:
        """Begin anew to count failures, of one server or of all."""
        self.failures = 0
        for one in self.states if state is None else [state]:
            one.answered()

    def tell(self) -> None:
        """Warn, in the thread of whoever asks, of what was noted."""
        while self.notes:
            warnings.warn(f"OpenAICompatible: {self.notes.pop(0)}", DataWarning, stacklevel=3)

    def __reduce__(self) -> Any:
        return (Servers, (self.urls,))


# The loop ----------------------------------------------------------------------------------------

_loops: dict[int, asyncio.AbstractEventLoop] = {}
_beginning = threading.Lock()


def loop_of_calls() -> asyncio.AbstractEventLoop:
    """Return the loop in which this process makes all its calls; a thread of its own runs it."""
    with _beginning:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="fairtk-llm", daemon=True).start()
    return loop


# In the record ----------------------------------------------------------------------------------

_TABLE = """CREATE TABLE IF NOT EXISTS servers (
    url TEXT NOT NULL,
    version TEXT NOT NULL,
    models TEXT NOT NULL,
    seen TEXT NOT NULL,
    PRIMARY KEY (url, version, models)
)"""  # beside the tables of a ledger's format: older versions leave it alone


class SeenServers:
    """The servers that answered, in a ledger's file: address, version and models of each."""

    def __init__(self, file: Database) -> None:
        self._file = file
        self._noted: set[tuple[str, str, str]] = set()

    def note(self, servers: Iterable[Mapping[str, Any]]) -> None:
        """Note which servers answered: ``url``, ``version`` and ``models`` of each."""
        rows = {(str(one["url"]), str(one["version"]), as_json(one["models"])) for one in servers}
        rows -= self._noted
        if rows:

            def write(database: sqlite3.Connection) -> None:
                database.execute(_TABLE)
                values = [(*row, now()) for row in sorted(rows)]
                database.executemany("INSERT OR IGNORE INTO servers VALUES (?,?,?,?)", values)

            self._file.write(write)
            self._noted |= rows

    def rows(self) -> list[dict[str, Any]]:
        """Return what was noted, with the time when it was first ``seen``, in this order."""
        if not self._file.read("SELECT 1 FROM sqlite_master WHERE name = 'servers'"):
            return []
        rows = self._file.read("SELECT url, version, models, seen FROM servers ORDER BY seen, url")
        return [
            {"url": url, "version": version, "models": json.loads(models), "seen": seen}
            for url, version, models, seen in rows
        ]


# Addresses --------------------------------------------------------------------------------------


def addresses(base_url: Any) -> list[str]:
    """Return the addresses in a text, where commas part them, or in a list; None: OpenAI's.

    Raises:
        ParameterError: one is no address of a server, carries a secret, or stands there twice.
    """
    urls = base_url or [OPENAI_URL]
    urls = urls.split(",") if isinstance(urls, str) else urls
    if not isinstance(urls, list | tuple) or not all(isinstance(url, str) for url in urls):
        raise ParameterError(
            "OpenAICompatible: base_url must be a text, the address of a server, or a list of "
            f"such; found {base_url!r}"
        )
    urls = [url.strip() for url in urls]
    for number, url in enumerate(urls):
        _check_address(url)
        if url.rstrip("/") in (other.rstrip("/") for other in urls[:number]):
            raise ParameterError(f"OpenAICompatible: base_url has the address {url} twice")
    return urls


def _check_address(url: str) -> None:
    """Raise a `ParameterError` unless it is the address of a server, without secrets."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ParameterError(
            "OpenAICompatible: base_url must be an address that begins with http:// or "
            "https://, e.g. 'http://127.0.0.1:8000/v1'"
        )
    if address.username or address.password or address.query or address.fragment:
        raise ParameterError(
            "OpenAICompatible: base_url must not carry a user, a password or parameters; put "
            "the key into an environment variable and name it in api_key_env"
        )
