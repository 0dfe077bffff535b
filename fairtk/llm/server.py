"""Any server that speaks OpenAI's chat protocol: OpenAI, vLLM, llama.cpp, Ollama, and others."""

from __future__ import annotations

import dataclasses
import importlib
import os
import random
import time
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Any

from fairtk.errors import MissingExtraError, ParameterError
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Outcome, escaped
from fairtk.llm.errors import LLMError
from fairtk.llm.reasons import detail, one_line, without_keys
from fairtk.llm.replies import BrokenReplyError, read_reply
from fairtk.llm.retries import LONGEST_WAIT, Backoff, Streak, retry_after
from fairtk.llm.server_settings import check_address, check_key_name, check_number
from fairtk.llm.threads import outcomes_in_threads

OPENAI_URL = "https://api.openai.com/v1"
MOST_FAILURES = 5
"""Calls in a row that fail with all their attempts: the server counts as dead."""

_CONNECT = 5.0  # seconds
_TRY_AGAIN = (408, 409, 425, 429)


class OpenAICompatible(ChatModel):
    """A model behind OpenAI's chat protocol, through the ``openai`` client.

    Calls overlap, at most `concurrency` at a time. Rate limits (429), server errors (5xx),
    timeouts, broken connections and answers that are not JSON are tried again, with waits that
    double and have a random part; ``Retry-After`` is met. A call that fails every time is a
    `Failure`. A wrong key, an unknown model, and a server that failed five calls in a row, end
    everything with an `LLMError`.

    The key is read from the environment when calls are made, and stands nowhere else: not in the
    printed form, the ledger or messages.

    Args:
        model: the model's name at the server.
        base_url: the server's address, e.g. ``"http://127.0.0.1:8000/v1"``; None: OpenAI's. It is
            not part of what the ledger knows an answer by.
        api_key_env: the environment variable with the key; None: the server needs none.
        temperature: 0 or above: how much answers vary. FAIR-QR uses 0.3.
        max_tokens: the most tokens of an answer.
        timeout: seconds that one attempt may take. While nothing at all has come from the server,
            calls are tried again for 45 s, all together, so that one that accepts connections and
            never answers ends the work within a minute; a larger timeout lets it start slowly.
        concurrency: the most calls at a time.
        retries: how often a call is tried again.
        backoff: seconds before the first retry.
        seed: sent to the server, if given; many servers ignore it.

    Raises:
        ParameterError: a setting is out of its range, or the address carries a secret.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: float = 0.3,
        max_tokens: int = 256,
        timeout: float = 45.0,
        concurrency: int = 8,
        retries: int = 5,
        backoff: float = 0.5,
        seed: int | None = None,
    ) -> None:
        check_address(base_url or OPENAI_URL)
        check_key_name(api_key_env)
        for name, value, least in (
            ("temperature", temperature, 0.0),
            ("timeout", timeout, 1e-3),
            ("backoff", backoff, 0.0),
            ("max_tokens", max_tokens, 1),
            ("concurrency", concurrency, 1),
            ("retries", retries, 0),
        ):
            check_number(name, value, least)
        if not str(model).strip():
            raise ParameterError("OpenAICompatible: model must be the name of a model; found ''")
        self.model = str(model)
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.temperature = float(temperature)
        self.max_tokens = int(max_tokens)
        self.timeout = float(timeout)
        self.concurrency = int(concurrency)
        self.retries = int(retries)
        self.backoff = float(backoff)
        self.seed = seed
        self._streak = Streak()  # shared with the model at other temperatures

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    def parameters(self) -> dict[str, Any]:
        """Return what decides an answer: temperature, the most tokens, the seed."""
        return {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
        }

    def settings(self) -> dict[str, Any]:
        """Return all settings by name; there is no key among them."""
        names = ("model", "base_url", "api_key_env", "temperature", "max_tokens", "timeout")
        more = ("concurrency", "retries", "backoff", "seed")
        return {name: getattr(self, name) for name in (*names, *more)}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"OpenAICompatible({shown})"

    def at_temperature(self, temperature: float) -> OpenAICompatible:
        """Return the same model at another temperature."""
        other = OpenAICompatible(**{**self.settings(), "temperature": temperature})
        other._streak = self._streak  # it is the same server
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
        with client:
            yield from outcomes_in_threads(
                lambda chat: self._ask(client, chat, stopped), chats, self.concurrency, stopped
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

    def _ask(self, client: Any, chat: Chat, stopped: Event) -> Outcome:
        """Return the outcome of one call with its retries.

        Raises:
            LLMError: no other call would do better.
        """
        rng = random.Random()  # waits only: no result depends on it
        backoff, reason = Backoff(self.backoff), "not tried"
        # of a server that just failed every attempt of a call, less is to be hoped for
        retries = min(self.retries, 1) if self._streak.count else self.retries
        for attempt in range(retries + 1):
            patience = self._streak.patience(self.timeout, attempt)
            if not patience:
                return self._failed(f"{reason} ({attempt} attempts)")
            begin = time.perf_counter()
            try:
                reply = self._send(client, chat, patience)
                self._streak.heard = True
                found = read_reply(reply, time.perf_counter() - begin)
                self._streak.end()
                return self._without_key(found)
            except BrokenReplyError as error:
                if attempt == retries and error.kept is not None:
                    self._streak.end()
                    return self._without_key(error.kept)
                said = self._hidden(one_line(str(error)))
                reason, again, asked = f"the response is not a chat completion ({said})", True, None
            except Exception as error:
                reason, again, asked = self._judge(error, patience)
            if not again:  # the server is there, and refuses this prompt
                self._streak.end()
                return Failure(f"{self.model!r}: {reason}")
            if (asked or 0.0) > LONGEST_WAIT:
                return self._failed(reason)
            if attempt < retries and stopped.wait(backoff.wait(attempt, asked, rng)):
                return Failure(f"{self.model!r}: stopped while waiting to try again ({reason})")
        return self._failed(f"{reason} ({retries + 1} attempts)")

    def _failed(self, reason: str) -> Failure:
        """Return the failure of a call that the server is to blame for.

        Raises:
            LLMError: it is the last of `MOST_FAILURES` in a row.
        """
        if self._streak.add() >= MOST_FAILURES:
            self._streak.end()
            raise LLMError(
                f"stopped: {MOST_FAILURES} calls in a row to {self.base_url or OPENAI_URL} failed, "
                f"the last to {self.model!r} with: {reason}; the server seems to be down: run "
                "again when it answers (with a ledger, no answer so far is asked for again)"
            )
        return Failure(f"{self.model!r}: {reason}")

    def _send(self, client: Any, chat: Chat, patience: float) -> bytes:
        more: dict[str, Any] = {} if self.seed is None else {"seed": self.seed}
        if patience != self.timeout:
            more["timeout"] = patience
        response = client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=[{"role": m.role, "content": escaped(m.content)} for m in chat.messages],
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            **more,
        )
        content: bytes = response.content
        return content

    def _without_key(self, found: Completion) -> Completion:
        """Return an answer; one that is no text, and may repeat what was sent, without the key."""
        if found.finish != "unreadable":
            return found
        return dataclasses.replace(found, text=self._hidden(found.text))

    def _judge(self, error: Exception, patience: float) -> tuple[str, bool, float | None]:
        """Return what happened, whether to try again, and the wait that the server asks for.

        Raises:
            LLMError: no other call would do better.
        """
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            self._streak.heard = True
            said = self._hidden(detail(error))
            server = self.base_url or OPENAI_URL
            if status in (401, 403):
                # its text often repeats a part of the key
                raise LLMError(
                    f"the server {server} refuses the key in {self.api_key_env!r} for the model "
                    f"{self.model!r} (status {status}): set a valid key"
                ) from None
            if status == 404:
                raise LLMError(
                    f"the server {server} does not know the model {self.model!r} (status 404: "
                    f"{said}): check model and base_url"
                ) from None
            headers = getattr(getattr(error, "response", None), "headers", {})
            again = status in _TRY_AGAIN or status >= 500
            return f"status {status}: {said}", again, retry_after(headers)
        kind = type(error).__name__
        if kind == "APITimeoutError":
            return f"no answer within {patience:.3g} s", True, None
        if kind == "APIConnectionError":
            return f"no connection to {self.base_url or OPENAI_URL}", True, None
        # whatever else goes wrong is the end of this call, not of the work
        said = self._hidden(one_line(str(error)))
        return f"{kind}: {said}", kind.startswith("API"), None

    def _hidden(self, text: str) -> str:
        """Return a server's text without anything that looks like a key."""
        return without_keys(text, os.environ.get(self.api_key_env or "", ""))
