"""Any server that speaks OpenAI's chat protocol: OpenAI, vLLM, llama.cpp, Ollama, and others."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from email.utils import parsedate_to_datetime
from functools import cache
from threading import Event, Lock
from typing import Any, ClassVar

from fairtk.errors import DataWarning, MissingExtraError, ParameterError
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, LLMError, Outcome, escaped
from fairtk.llm.replies import (
    BrokenReplyError,
    check_address,
    check_key_name,
    check_number,
    checked_body,
    checked_effort,
    detail,
    one_line,
    read_reply,
    without_keys,
)

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


OTHER_NAME = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""One setting under two names: servers know the one, the other or both."""

REFUSABLE = ("max_tokens", "max_completion_tokens", "temperature", "seed")
"""What a call can do without; what else was asked for is not dropped silently."""

_REFUSED = (400, 422)
_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_UNKNOWN = re.compile(
    r"unsupported|not support|n['’]t support|unknown|unrecogni[sz]ed|unexpected|not (?:a )?valid|"
    r"not permitted|not allowed|not accepted|forbidden|not available|deprecated|removed|extra|"
    r"only the default|cannot be set|can['’]t be set|invalid (?:param|field|key|argument)|refuse|"
    r"reject|instead",
    re.IGNORECASE,
)


class CallForm:
    """What a server refused so far, shared by all temperatures of a model and all threads."""

    def __init__(self) -> None:
        self.refused: tuple[str, ...] = ()
        self._lock = Lock()

    def learn(self, names: Iterable[str]) -> None:
        """Note refused parameters; the same one twice changes nothing."""
        with self._lock:
            new = [name for name in names if name in REFUSABLE]
            self.refused = tuple(dict.fromkeys([*self.refused, *new]))

    def of(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters as the server takes them; what it refused is None or left out."""
        found = dict(parameters)
        for name in self.refused:
            value = found.get(name)
            if name not in OTHER_NAME:
                if value is not None:
                    found[name] = None
                continue
            found.pop(name, None)
            other = OTHER_NAME[name]
            if value is not None and other not in self.refused:
                found[other] = value
        return found

    def __reduce__(self) -> Any:
        return (_with_refused, (self.refused,))


def _with_refused(names: tuple[str, ...]) -> CallForm:
    form = CallForm()
    form.learn(names)
    return form


def refused_parameter(error: Exception, sent: Iterable[str]) -> str | None:
    """Return the parameter that a server refuses to take, by its own message; None: none.

    A parameter whose value alone is wrong (too long an answer for the window) is not refused.
    """
    if getattr(error, "status_code", None) not in _REFUSED:
        return None
    body = getattr(error, "body", None)
    about = body if isinstance(body, dict) else {}
    said = detail(error, 2000)
    if not (about.get("code") in _CODES or _UNKNOWN.search(said)):
        return None
    names = [name for name in sent if name in REFUSABLE]
    if about.get("param") in names:
        return str(about["param"])
    places = {m.start(): name for name in names if (m := re.search(rf"\b{name}\b", said))}
    return places[min(places)] if places else None


OPENAI_URL = "https://api.openai.com/v1"
MOST_FAILURES = 5
"""Calls in a row that fail with all their attempts: the server counts as dead."""

_TRY_AGAIN = (408, 409, 425, 429)


class ServerModel(ChatModel):
    """A model behind a server: the base of `OpenAICompatible`, which documents the settings."""

    model: str
    base_url: str | None
    api_key_env: str | None
    timeout: float
    retries: int
    backoff: float
    _streak: Streak
    _form: CallForm

    def sent_parameters(self) -> dict[str, Any]:
        """Return `parameters` as the server takes them."""
        return self._form.of(self.parameters())

    @property
    def refused(self) -> tuple[str, ...]:
        """What the server refused to take so far."""
        return self._form.refused

    def learn(self, refused: Iterable[str]) -> None:
        """Be told what the server refused earlier."""
        self._form.learn(refused)

    def _ask(self, client: Any, chat: Chat, stopped: Event) -> Outcome:
        """Return the outcome of one call with its retries, in a form that the server takes."""
        rng = random.Random()  # waits only: no result depends on it
        reason = "not tried"
        # of a server that just failed every attempt of a call, less is to be hoped for
        retries = min(self.retries, 1) if self._streak.count else self.retries
        for attempt in range(retries + 1):
            patience = self._streak.patience(self.timeout, attempt)
            if not patience:
                return self._failed(f"{reason} ({attempt} attempts)", stopped)
            begin = time.perf_counter()
            try:
                reply = self._send_in_form(client, chat, patience)
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
                return self._failed(reason, stopped)
            if attempt < retries and stopped.wait(backoff(self.backoff, attempt, asked, rng)):
                return Failure(f"{self.model!r}: stopped while waiting to try again ({reason})")
        return self._failed(f"{reason} ({retries + 1} attempts)", stopped)

    def _failed(self, reason: str, stopped: Event) -> Failure:
        """Return the failure of a call that the server is to blame for; the last in a row ends
        all.
        """
        if self._streak.add() >= MOST_FAILURES and not stopped.is_set():
            stopped.set()
            raise LLMError(
                f"stopped: {MOST_FAILURES} calls in a row to {self.base_url or OPENAI_URL} failed, "
                f"the last to {self.model!r} with: {reason}; the server seems to be down: run "
                "again when it answers (with a ledger, no answer so far is asked for again)"
            )
        return Failure(f"{self.model!r}: {reason}")

    def _send_in_form(self, client: Any, chat: Chat, patience: float) -> bytes:
        """Send a call; without what the server refuses, as soon as it says so."""
        while True:
            sent = {k: v for k, v in self.sent_parameters().items() if v is not None}
            try:
                return self._send(client, chat, patience, sent)
            except Exception as error:
                refused = refused_parameter(error, sent)
                if refused is None:
                    raise
                self._form.learn([refused])  # each once, so that this ends

    def _send(self, client: Any, chat: Chat, patience: float, sent: Mapping[str, Any]) -> bytes:
        response = client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=[{"role": m.role, "content": escaped(m.content)} for m in chat.messages],
            **sent,
            **({} if patience == self.timeout else {"timeout": patience}),
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

        What no other call would do better at is raised, as an `LLMError`.
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
