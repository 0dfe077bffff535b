"""When to try a call again, and how long to wait before."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Any

LONGEST_WAIT = 120.0
"""Seconds: a server that asks for a longer wait is given up."""

SILENCE = 45.0
"""Seconds that a server from which nothing has come yet is asked again, all calls together."""

PROBE = 2.0
"""Seconds that it has for each call after that."""


def backoff(
    first: float, attempt: int, asked: float | None, rng: random.Random, most: float = 30.0
) -> float:
    """Return the seconds to wait after an attempt (from 0) that failed: `first`, then doubled.

    A random part (between half of the wait and all of it) keeps calls that failed together from
    coming back together. What the server asks for is met, and never shortened.
    """
    own = min(most, first * 2.0 ** min(attempt, 60)) * rng.uniform(0.5, 1.0)
    return own if asked is None else max(asked, 0.0) + min(own, 0.1)


class Streak:
    """Calls in a row that failed, over all threads that use a model.

    `heard` says whether the server has ever sent anything.
    """

    def __init__(self) -> None:
        self.count = 0
        self.heard = False
        self._asked: float | None = None
        self._lock = Lock()

    def patience(self, timeout: float, attempt: int) -> float:
        """Return the seconds that an attempt (from 0) may take; 0: it is no use.

        A server that accepts connections and never says a word must not cost every attempt of
        every call its whole time: together they have `SILENCE`, then each call has `PROBE`.
        """
        if self.heard:
            return timeout
        now = time.monotonic()
        with self._lock:
            self._asked = now if self._asked is None else self._asked
            left = SILENCE - (now - self._asked)
        if attempt:  # a moment that is left is no use
            return min(timeout, left) if left >= min(timeout, PROBE) else 0.0
        return timeout if left > 0 else min(timeout, PROBE)

    def add(self) -> int:
        """Count one more, and return how many there are."""
        with self._lock:
            self.count += 1
            return self.count

    def end(self) -> None:
        """Begin anew."""
        self.count = 0
        self._asked = None

    def __reduce__(self) -> Any:
        return (Streak, ())


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that ``Retry-After`` asks for (a number or a date), or None."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - (
                time.time() if now is None else now
            )
        except (TypeError, ValueError):
            return None
    return max(0.0, seconds) if seconds == seconds else None
