"""The servers of one model: addresses, states, and the event loop for all calls."""

from __future__ import annotations

import asyncio
import math
import os
import random
import threading
import time
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from fairtk.errors import DataWarning, ParameterError
from fairtk.wording import short

OPENAI_URL = "https://api.openai.com/v1"

MAX_RETRY_AFTER = 120.0
"""The longest ``Retry-After``, in seconds, that calls wait for."""

MAX_FAILURES = 5
"""The number of failed calls in a row after which the work ends."""

FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
"""Seconds to avoid a server after a failure, doubled with each further failure."""

MAX_BACKOFF = 30.0
"""The longest wait between two attempts, in seconds, unless ``Retry-After`` is longer."""


@dataclass(eq=False)
class ServerState:
    """The state of a server, shared by all calls of a model at any temperature.

    Attributes:
        url: the address.
        n_running: the number of calls under way.
        n_sent: the number of attempts so far.
        renamed: whether ``max_completion_tokens`` is sent instead of ``max_tokens``.
        merges_system: whether the system's message is sent as a part of the user's.
        refused: whether no call to the server would succeed, e.g. because it refused the key. It
            gets no calls while another server works.
        closed_until: no call is sent before this time, because of ``Retry-After``.
        pause: seconds to avoid the server, 0 if the last attempt succeeded.
        paused_until: other servers are preferred until this time.
    """

    url: str
    n_running: int = 0
    n_sent: int = 0
    renamed: bool = False
    merges_system: bool = False
    refused: bool = False
    closed_until: float = 0.0
    pause: float = 0.0
    paused_until: float = 0.0

    @property
    def seconds_closed(self) -> float:
        """The seconds until calls may be sent, 0 if now."""
        return max(0.0, self.closed_until - time.monotonic())

    @property
    def is_out(self) -> bool:
        """Whether the server gets no calls while another server works."""
        return self.refused or self.seconds_closed > MAX_RETRY_AFTER

    @property
    def is_healthy(self) -> bool:
        """Whether the last attempt succeeded. After a pause, one call at a time is sent."""
        return not self.pause or (time.monotonic() >= self.paused_until and not self.n_running)

    def record_failure(self, retry_after: float | None = None) -> None:
        """Close the server until ``Retry-After``, or prefer other servers for a while."""
        now = time.monotonic()
        if retry_after is not None:
            self.closed_until = max(self.closed_until, now + retry_after)
        elif now >= self.paused_until:  # simultaneous failures count once
            self.pause = min(MAX_PAUSE, 2 * self.pause or FIRST_PAUSE)
            self.paused_until = now + self.pause


class Servers:
    """The servers of a model.

    Attributes:
        states: the state of each server, in the order of the addresses.
        failures: failed calls in a row, at any server.
        pending_warnings: warnings that `warn` emits in the user's thread.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        self.states = [ServerState(url) for url in urls]
        self.failures = 0
        self.pending_warnings: list[str] = []

    def next(self, tried: Collection[ServerState]) -> ServerState:
        """Return the server for the next attempt of a call, after the `tried` servers."""

        def cost(state: ServerState) -> tuple[float, ...]:
            penalties = (state.is_out, not state.is_healthy, state in tried)
            return *penalties, state.seconds_closed, state.n_running, state.n_sent

        return min(self.states, key=cost)

    def record_answer(self, state: ServerState) -> None:
        """Reset the failure count."""
        self.failures = 0
        state.pause = state.paused_until = 0.0

    def reset(self) -> None:
        """Make all servers available again."""
        for state in self.states:
            self.record_answer(state)
            state.closed_until, state.refused = 0.0, False

    def warn(self) -> None:
        """Emit the pending warnings."""
        while self.pending_warnings:
            text = self.pending_warnings.pop(0)
            warnings.warn(f"OpenAICompatible: {text}", DataWarning, stacklevel=3)

    def __reduce__(self) -> Any:  # a copy in another process starts without a history
        return Servers, ([state.url for state in self.states],)


def backoff(first: float, n_failures: int) -> float:
    """Return the seconds to wait after `n_failures` failures: `first`, doubled each time.

    Half of the wait is random, so that calls that failed together are not retried together.
    """
    return min(MAX_BACKOFF, first * 2.0 ** min(n_failures - 1, 60)) * random.uniform(0.5, 1.0)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in the header ``Retry-After`` (a number or a date), or `None`."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


# The loop ----------------------------------------------------------------------------------------

_loops: dict[int, asyncio.AbstractEventLoop] = {}
_loops_lock = threading.Lock()


def call_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop for all calls of this process, in a separate thread.

    A forked process does not inherit threads, so it starts a new loop.
    """
    with _loops_lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="fairtk-llm", daemon=True).start()
    return loop


# Addresses --------------------------------------------------------------------------------------


def parse_base_url(base_url: Any) -> list[str]:
    """Return the addresses in a comma-separated text or a list, OpenAI's for `None`.

    Raises:
        ParameterError: an address is invalid, contains a secret, or is a duplicate.
    """
    urls = base_url or [OPENAI_URL]
    urls = urls.split(",") if isinstance(urls, str) else urls
    if not isinstance(urls, list | tuple) or not all(isinstance(url, str) for url in urls):
        raise ParameterError(
            "OpenAICompatible: base_url must be the address of a server, or a list of addresses, "
            f"got {short(base_url)}"
        )
    urls = [url.strip() for url in urls]
    for index, url in enumerate(urls):
        _check_address(url)
        if url.rstrip("/") in (other.rstrip("/") for other in urls[:index]):
            raise ParameterError(f"OpenAICompatible: duplicate address {url} in base_url")
    return urls


def _check_address(url: str) -> None:
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ParameterError(
            "OpenAICompatible: base_url must be an address that begins with http:// or "
            "https://, e.g. 'http://127.0.0.1:8000/v1'"
        )
    if address.username or address.password or address.query or address.fragment:
        raise ParameterError(
            "OpenAICompatible: base_url must not contain a user, a password or parameters; put "
            "the key into an environment variable and name it in api_key_env"
        )
