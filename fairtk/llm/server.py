"""Any server that speaks OpenAI's chat protocol: OpenAI, vLLM, llama.cpp, Ollama, and others."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cache
from threading import Event
from typing import Any, ClassVar

from fairtk.errors import DataWarning, MissingExtraError, ParameterError
from fairtk.llm.calls import OPENAI_URL, ServerModel
from fairtk.llm.chat import Chat, Outcome
from fairtk.llm.errors import LLMError
from fairtk.llm.forms import CallForm
from fairtk.llm.retries import Streak
from fairtk.llm.server_settings import (
    check_address,
    check_key_name,
    check_number,
    checked_body,
    checked_effort,
)


def outcomes_in_threads(
    ask: Callable[[Chat], Outcome], chats: Iterable[Chat], concurrency: int, stopped: Event
) -> Iterator[tuple[int, Outcome]]:
    """Yield the number of each chat and its outcome, as they arrive.

    The next chat is taken from `chats`, in the caller's thread, only when a call can start: who
    gives the chats can end the work between two calls. If a call raises, no other starts, those
    that run are waited for and yielded, and then the exception is raised. `stopped` is set when
    the work ends early, for calls that wait to be tried again.
    """
    left = iter(chats)
    running: dict[Future[Outcome], int] = {}
    failed: Exception | None = None
    number = 0
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="fairtk-llm")
    try:
        more = True
        while more or running:
            while more and len(running) < concurrency:
                try:
                    chat = next(left)
                except StopIteration:
                    more = False
                    break
                running[pool.submit(ask, chat)] = number
                number += 1
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=running.__getitem__):
                place = running.pop(future)
                error = future.exception()
                if error is None:
                    yield place, future.result()
                elif isinstance(error, Exception):
                    failed = failed or error
                    more = False
                    stopped.set()
        if failed is not None:
            raise failed
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


_CONNECT = 5.0  # seconds


class OpenAICompatible(ServerModel):
    """A model behind OpenAI's chat protocol, through the ``openai`` client.

    Calls overlap, at most `concurrency` at a time. Rate limits (429), server errors (5xx),
    timeouts, broken connections and answers that are not JSON are tried again, with waits that
    double and have a random part; ``Retry-After`` is met. A call that fails every time is a
    `Failure`. A wrong key, an unknown model, and a server that failed five calls in a row, end
    everything with an `LLMError`. What a server refuses to take (``max_tokens``, a temperature, a
    seed), by its own message, is sent by its other name or left out from then on, with a warning.

    The key is read from the environment when calls are made, and stands nowhere else: not in the
    printed form, the ledger or messages.

    Args:
        model: the model's name at the server.
        base_url: the server's address, e.g. ``"http://127.0.0.1:8000/v1"``; None: OpenAI's. It is
            not part of what the ledger knows an answer by.
        api_key_env: the environment variable with the key; None: the server needs none.
        temperature: 0 or above: how much answers vary. FAIR-QR uses 0.3. None: none is ever sent.
        max_tokens: the most tokens of an answer; None: no limit is sent.
        timeout: seconds that one attempt may take. While nothing at all has come from the server,
            calls are tried again for 45 s, all together, so that one that accepts connections and
            never answers ends the work within a minute; a larger timeout lets it start slowly.
        concurrency: the most calls at a time.
        retries: how often a call is tried again.
        backoff: seconds before the first retry.
        seed: sent to the server, if given; many servers ignore it.
        max_completion_tokens: the same limit under its newer name, sent in place of `max_tokens`.
        reasoning_effort: sent if given, e.g. ``"low"``.
        extra_body: more of the request's body, e.g. ``{"top_p": 0.9}``; JSON values.

    Raises:
        ParameterError: a setting is out of its range, or the address carries a secret.
    """

    identity_name: ClassVar[str] = "fairtk.llm.server.OpenAICompatible"
    """As in the keys of answers that are kept; never changed."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: float | None = 0.3,
        max_tokens: int | None = 256,
        timeout: float = 45.0,
        concurrency: int = 8,
        retries: int = 5,
        backoff: float = 0.5,
        seed: int | None = None,
        max_completion_tokens: int | None = None,
        reasoning_effort: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        check_address(base_url or OPENAI_URL)
        check_key_name(api_key_env)
        numbers = (("timeout", timeout, 1e-3), ("backoff", backoff, 0.0))
        counts = (("concurrency", concurrency, 1), ("retries", retries, 0))
        optional = (
            ("temperature", temperature, 0.0),
            ("max_tokens", max_tokens, 1),
            ("max_completion_tokens", max_completion_tokens, 1),
        )
        for name, value, least in (*numbers, *counts, *(o for o in optional if o[1] is not None)):
            check_number(name, value, least)
        if not str(model).strip():
            raise ParameterError("OpenAICompatible: model must be the name of a model; found ''")
        self.model = str(model)
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.temperature = None if temperature is None else float(temperature)
        self.max_tokens = None if max_tokens is None else int(max_tokens)
        self.timeout = float(timeout)
        self.concurrency = int(concurrency)
        self.retries = int(retries)
        self.backoff = float(backoff)
        self.seed = seed
        self.max_completion_tokens = max_completion_tokens
        self.reasoning_effort = checked_effort(reasoning_effort)
        self.extra_body = checked_body(extra_body)
        self._streak = Streak()  # shared with the model at other temperatures
        self._form = CallForm()  # likewise

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    def parameters(self) -> dict[str, Any]:
        """Return what was asked for and decides an answer: temperature, limits, seed, the rest."""
        found: dict[str, Any] = {"temperature": self.temperature, "seed": self.seed}
        limit = "max_completion_tokens" if self.max_completion_tokens else "max_tokens"
        for name in (limit, "reasoning_effort", "extra_body"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        return found

    def settings(self) -> dict[str, Any]:
        """Return all settings by name; there is no key among them."""
        names = inspect.signature(OpenAICompatible).parameters
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"OpenAICompatible({shown})"

    def at_temperature(self, temperature: float) -> OpenAICompatible:
        """Return the same model at another temperature; one that is sent none stays as it is."""
        if self.temperature is None:
            return self
        other = OpenAICompatible(**{**self.settings(), "temperature": temperature})
        other._streak, other._form = self._streak, self._form  # it is the same server
        return other

    def check(self) -> None:
        """Raise if the key or the ``openai`` client is missing; the server is not asked."""
        with self._client():
            pass

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they arrive.

        Raises:
            LLMError: the server refuses the key, or does not know the model.
            ParameterError: the environment variable with the key is not set.
            MissingExtraError: the package ``openai`` is not installed.
        """
        client = self._client()
        stopped = Event()
        told = self.refused
        with client:
            try:
                for found in outcomes_in_threads(
                    lambda chat: self._ask(client, chat, stopped), chats, self.concurrency, stopped
                ):
                    if self.refused != told:
                        told = self.refused
                        self._tell_of_refusals()
                    yield found
            except LLMError:  # the calls beside it have ended, so that none of them begins anew
                self._streak.end()
                raise

    def _tell_of_refusals(self) -> None:
        sent = {k: v for k, v in self.sent_parameters().items() if v is not None}
        warnings.warn(
            f"OpenAICompatible: the model {self.model!r} refuses {' and '.join(self.refused)}; it "
            f"is asked with {sent} instead, which the ledger's keys and rows say",
            DataWarning,
            stacklevel=3,
        )

    def _client(self) -> Any:
        try:
            openai = importlib.import_module("openai")
        except ImportError:
            raise MissingExtraError("openai", "llm", "OpenAICompatible") from None
        return openai.OpenAI(
            api_key=self._key() or "none",
            base_url=self.base_url or OPENAI_URL,
            # whether a server is there is known sooner than what it answers
            timeout=openai.Timeout(self.timeout, connect=min(self.timeout, _CONNECT)),
            max_retries=0,  # retried here, so that broken answers are, too
            http_client=openai.DefaultHttpxClient(verify=_certificates(openai)),
        )

    def _key(self) -> str | None:
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ParameterError(
                f"OpenAICompatible needs an API key in the environment variable "
                f"{self.api_key_env!r}, which is not set: export it, name another one with "
                "api_key_env, or give api_key_env=None for a server without keys"
            )
        return key


@cache
def _certificates(openai: Any) -> Any:
    """Return what servers are known by: read once, as that takes longer than all else of a call."""
    httpx = sys.modules[openai.DefaultHttpxClient.__base__.__module__]  # or httpx2
    return httpx.create_ssl_context()
