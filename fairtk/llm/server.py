"""Any server that speaks OpenAI's chat protocol: OpenAI, vLLM, llama.cpp, Ollama, and others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import inspect
import json
import os
import queue
import random
import re
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urljoin, urlsplit

from fairtk import checks
from fairtk.errors import DataWarning, MissingExtraError, ParameterError, suggestion
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, LLMError, Outcome, escaped
from fairtk.llm.replies import (
    SHORTEST_KEY,
    BodyError,
    BrokenReplyError,
    bounded_client,
    detail,
    one_line,
    read_reply,
    refused_parameter,
    without_keys,
)

OPENAI_URL = "https://api.openai.com/v1"

# Waiting, and what failed: all calls to a server together ---------------------------------------

LONGEST_WAIT = 120.0
"""Seconds: a server that asks for a longer wait is given up."""

SILENCE = 45.0
"""Seconds that a server from which nothing has come yet is asked again, all calls together."""

PROBE = 2.0
"""Seconds that it has for each call after that."""

HEAD_START = 1.0
"""Seconds that the first call to a server is alone: what it refuses, it refuses once."""

MOST_FAILURES = 5
"""Calls in a row that fail with all their attempts: the server counts as dead."""

_CONNECT = 5.0  # seconds
_UNREADABLE = 10_000  # characters of what cannot be read, kept as it came
_TRY_AGAIN = (408, 409, 425, 429)


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
    """Return the seconds that ``Retry-After`` asks for (a number or a date), or None."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value).timestamp()
        except (TypeError, ValueError):
            return None
        seconds = date - (time.time() if now is None else now)
    return max(0.0, seconds) if seconds == seconds else None


class ServerState:
    """What is known of a server, over all calls of a model at any temperature.

    Attributes:
        failures: calls in a row that failed.
        heard: whether it has ever sent anything.
        renamed: whether it takes ``max_completion_tokens`` in place of ``max_tokens``.
        notes: what the user is to be warned of.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.heard = False
        self.renamed = False
        self.notes: list[str] = []
        self._asked: float | None = None

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
        """Begin anew to count failures."""
        self.failures = 0
        self._asked = None

    def tell(self) -> None:
        """Warn, in the thread of whoever asks, of what was noted."""
        while self.notes:
            warnings.warn(f"OpenAICompatible: {self.notes.pop(0)}", DataWarning, stacklevel=3)

    def __reduce__(self) -> Any:
        return (ServerState, ())


def _put(arrived: queue.SimpleQueue[int], number: int, _: Future[Outcome]) -> None:
    arrived.put(number)


_loops: dict[int, asyncio.AbstractEventLoop] = {}
_beginning = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop in which this process makes all its calls; a thread of its own runs it."""
    with _beginning:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="fairtk-llm", daemon=True).start()
    return loop


# The model --------------------------------------------------------------------------------------


class OpenAICompatible(ChatModel):
    """A model behind OpenAI's chat protocol, through the ``openai`` client.

    Calls overlap, at most `concurrency` at a time. Rate limits (429), server errors (5xx),
    timeouts, broken connections and answers that are not JSON are tried again, with waits that
    double and have a random part; ``Retry-After`` is met. A call that fails every time is a
    `Failure`. A wrong key, an unknown model, a redirect, a parameter that the server does not
    take, and a server that failed five calls in a row, end everything with an `LLMError`; but
    where ``max_tokens`` is refused, ``max_completion_tokens`` is sent from then on, with a warning.

    The key is read from the environment when calls are made, and stands nowhere else: not in the
    printed form, the ledger or messages; an answer that repeats it has ``<hidden>`` in its place.

    Args:
        model: the model's name at the server.
        base_url: the server's address, e.g. ``"http://127.0.0.1:8000/v1"``; None: OpenAI's. It is
            not part of what the ledger knows an answer by.
        api_key_env: the environment variable with the key; None: the server needs none.
        temperature: 0 or above: how much answers vary. FAIR-QR uses 0.3. None: none is ever sent.
        max_tokens: the most tokens of an answer; None: no limit is sent.
        timeout: seconds that one attempt may take, from connecting to the last byte. While nothing
            at all has come from the server, calls are tried again for 45 s, all together, so that
            one that accepts connections and never answers ends the work within a minute; a larger
            timeout lets it start slowly.
        concurrency: the most calls at a time.
        retries: how often a call is tried again.
        backoff: seconds before the first retry.
        seed: sent to the server, if given; many servers ignore it.
        max_completion_tokens: the same limit under its newer name, sent in place of `max_tokens`.
        reasoning_effort: sent if given, e.g. ``"low"``.
        extra_body: more of the request's body, e.g. ``{"top_p": 0.9}``; JSON values.
        max_bytes: the most bytes of what a server may send for a call; more is a `Failure`.

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
        max_bytes: int = 1 << 24,
    ) -> None:
        where = "OpenAICompatible"
        if not str(model).strip():
            raise ParameterError(f"{where}: model must be the name of a model; found ''")
        _check_address(base_url or OPENAI_URL)
        if api_key_env is not None and not _VARIABLE.fullmatch(str(api_key_env)):
            raise ParameterError(  # what was given may be a key, and is not repeated
                f"{where}: api_key_env must be the name of an environment variable, such as "
                "OPENAI_API_KEY, and never the key itself"
            )
        self.model = str(model)
        self.base_url = base_url
        self.api_key_env = api_key_env
        self.temperature = None if temperature is None else _number("temperature", temperature, 0.0)
        self.max_tokens = _limit("max_tokens", max_tokens)
        self.timeout = _number("timeout", timeout, 1e-3)
        self.concurrency = checks.whole("concurrency", concurrency, where)
        self.retries = checks.whole("retries", retries, where, 0)
        self.backoff = _number("backoff", backoff, 0.0)
        self.seed = seed
        self.max_completion_tokens = _limit("max_completion_tokens", max_completion_tokens)
        self.reasoning_effort = _effort(reasoning_effort)
        self.extra_body = _body(extra_body)
        self.max_bytes = checks.whole("max_bytes", max_bytes, where)
        self._server = ServerState()  # shared with the model at other temperatures

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    @property
    def url(self) -> str:
        """The server's address."""
        return self.base_url or OPENAI_URL

    def parameters(self) -> dict[str, Any]:
        """Return what was asked for and decides an answer: temperature, limits, seed, the rest."""
        parameters: dict[str, Any] = {"temperature": self.temperature, "seed": self.seed}
        limit = "max_completion_tokens" if self.max_completion_tokens else "max_tokens"
        for name in (limit, "reasoning_effort", "extra_body"):
            if getattr(self, name) is not None:
                parameters[name] = getattr(self, name)
        return parameters

    def settings(self) -> dict[str, Any]:
        """Return all settings by name; there is no key among them."""
        names = inspect.signature(OpenAICompatible).parameters
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"OpenAICompatible({settings})"

    def at_temperature(self, temperature: float) -> OpenAICompatible:
        """Return the same model at another temperature; one that is sent none stays as it is."""
        if self.temperature is None:
            return self
        other = OpenAICompatible(**{**self.settings(), "temperature": temperature})
        other._server = self._server
        return other

    def check(self) -> None:
        """Raise if no call would succeed; the server is asked for its models, and nothing else.

        A server without such a list, or too slow to give it, is no error.

        Raises:
            ParameterError: the environment variable with the key is not set.
            MissingExtraError: the package ``openai`` is not installed.
            LLMError: there is no server at the address, or it does not know the key or the model.
        """
        asyncio.run_coroutine_threadsafe(self._look(self._client()), _loop()).result()

    async def _look(self, client: Any) -> None:
        try:
            async with asyncio.timeout(min(self.timeout, _CONNECT)), client:
                reply = await client.models.with_raw_response.list()
            models = json.loads(reply.content)["data"]
            names = [m["id"] for m in models if m.get("owned_by") != "llamacpp"]  # it takes any
        except (TimeoutError, ValueError, LookupError, TypeError, AttributeError):
            return
        except Exception as error:
            status = getattr(error, "status_code", None)
            if status is None or status in (401, 403) or 300 <= status < 400:
                raise LLMError(f"{self.model!r}: {self._judge(error)[0]}") from None
            return
        # "llama3" is served as "llama3:latest", and "m:free" is a way to be served m
        if names and self.model.partition(":")[0] not in {str(n).partition(":")[0] for n in names}:
            raise LLMError(
                f"the server {self.url} does not know the model {self.model!r}"
                f"{suggestion(self.model, names)}; it has {', '.join(map(repr, names[:9]))}"
            )

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they arrive.

        If a call raises, no other starts, those that run are waited for and yielded, and then the
        exception is raised.

        Raises:
            LLMError: no call would succeed; see the class.
            ParameterError: the environment variable with the key is not set.
            MissingExtraError: the package ``openai`` is not installed.
        """
        client, loop, stopped = self._client(), _loop(), asyncio.Event()
        arrived: queue.SimpleQueue[int] = queue.SimpleQueue()
        running: dict[int, Future[Outcome]] = {}
        left: Iterator[tuple[int, Chat]] | None = enumerate(chats)
        failed: BaseException | None = None
        end = time.monotonic() + HEAD_START
        try:
            while True:
                alone = 0.0 if self._server.heard else end - time.monotonic()
                # the next chat is taken only when its call can start: who gives them may end here
                while left is not None and len(running) < (1 if alone > 0 else self.concurrency):
                    following = next(left, None)
                    if following is None:
                        left = None
                        break
                    number, chat = following
                    ask = self._ask(client, chat, stopped)
                    running[number] = asyncio.run_coroutine_threadsafe(ask, loop)
                    running[number].add_done_callback(partial(_put, arrived, number))
                if not running:
                    break
                try:
                    number = arrived.get(timeout=alone if left is not None and alone > 0 else None)
                except queue.Empty:
                    continue
                self._server.tell()
                end, call = 0.0, running.pop(number)
                error = call.exception()
                if error is None:
                    yield number, call.result()
                else:
                    failed, left = failed or error, None
                    loop.call_soon_threadsafe(stopped.set)
            if failed is not None:
                self._server.answered()  # whoever asks again begins anew
                raise failed
        finally:
            for call in running.values():
                call.cancel()
            asyncio.run_coroutine_threadsafe(client.close(), loop)

    async def _ask(self, client: Any, chat: Chat, stopped: asyncio.Event) -> Outcome:
        """Return the outcome of one call with its retries."""
        rng = random.Random()  # waits only: no result depends on it
        server, reason = self._server, "not tried"
        # of a server that just failed every attempt of a call, less is to be hoped for
        retries = min(self.retries, 1) if server.failures else self.retries
        for attempt in range(retries + 1):
            patience, asked = server.patience(self.timeout, attempt), None
            if not patience:
                return self._failed(f"{reason} ({attempt} attempts)", stopped)
            begin = time.perf_counter()
            try:
                async with asyncio.timeout(patience):
                    reply = await self._send(client, chat)
                server.heard = True
                answer = read_reply(reply, time.perf_counter() - begin)
                server.answered()
                return self._without_key(answer)
            except BrokenReplyError as error:
                if attempt == retries and error.answer is not None:
                    server.answered()
                    return self._without_key(error.answer)
                reason = f"the response is not a chat completion ({self._hidden(str(error))})"
            except TimeoutError:
                reason = f"no answer within {patience:.3g} s"
            except Exception as error:
                reason, again, asked = self._judge(error)
                if not again:  # the server is there, and refuses this prompt
                    server.answered()
                    return Failure(f"{self.model!r}: {reason}")
            if (asked or 0.0) > LONGEST_WAIT:
                return self._failed(reason, stopped)
            if attempt < retries:
                wait = backoff(self.backoff, attempt, asked, rng)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), wait)
                    return Failure(f"{self.model!r}: stopped while waiting to try again ({reason})")
        return self._failed(f"{reason} ({retries + 1} attempts)", stopped)

    def _failed(self, reason: str, stopped: asyncio.Event) -> Failure:
        """Return the failure of a call that the server is to blame for; the last in a row ends
        all.
        """
        self._server.failures += 1
        if self._server.failures >= MOST_FAILURES and not stopped.is_set():
            stopped.set()
            raise LLMError(
                f"stopped: {MOST_FAILURES} calls in a row to {self.url} failed, the last to "
                f"{self.model!r} with: {reason}; the server seems to be down: run again when it "
                "answers (with a ledger, no answer so far is asked for again)"
            )
        return Failure(f"{self.model!r}: {reason}")

    async def _send(self, client: Any, chat: Chat) -> bytes:
        """Send a call; with the other name of its limit, where the server asks for that."""
        messages = [{"role": m.role, "content": escaped(m.content)} for m in chat.messages]
        sent = {name: value for name, value in self.parameters().items() if value is not None}
        while True:
            if self._server.renamed and "max_tokens" in sent:
                sent["max_completion_tokens"] = sent.pop("max_tokens")
            try:
                reply = await client.chat.completions.with_raw_response.create(
                    model=self.model, messages=messages, **sent
                )
                content: bytes = reply.content
                return content
            except Exception as error:
                refused = refused_parameter(error, sent)
                if refused is None:
                    raise
                text = self._hidden(detail(error))
                if refused != "max_tokens":
                    raise LLMError(self._refusal(refused, text)) from None
                if not self._server.renamed:
                    self._server.renamed = True
                    self._server.notes.append(
                        f"the server {self.url} refuses max_tokens for the model {self.model!r} "
                        f"({text}); max_completion_tokens={sent[refused]} is sent from now on"
                    )

    def _refusal(self, name: str, text: str) -> str:
        limits = ["max_tokens"] + ["max_completion_tokens"] * bool(self.max_completion_tokens)
        names = limits if name == "max_completion_tokens" else [name]
        none = "" if name == "reasoning_effort" else "none"  # which is a word for an effort
        forms = ("{}=None", f'{{}} = "{none}"', f"--set {{}}={none}")
        python, toml, option = (" and ".join(map(form.format, names)) for form in forms)
        return (
            f"the server {self.url} refuses {name} for the model {self.model!r} ({text}): change "
            f"it, or leave it out with {python} in Python, {toml} in the model's table of a "
            f"study's TOML file, or {option} on the command line"
        )

    def _judge(self, error: Exception) -> tuple[str, bool, float | None]:
        """Return what happened, whether to try again, and the wait that the server asks for.

        What no other call would do better at is raised, as an `LLMError`.
        """
        if isinstance(error, LLMError):
            raise error
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            self._server.heard = True
            headers = getattr(getattr(error, "response", None), "headers", {})
            text = self._hidden(detail(error))
            if status in (401, 403):
                # its text often repeats a part of the key
                raise LLMError(
                    f"the server {self.url} refuses the key in {self.api_key_env!r} for the model "
                    f"{self.model!r} (status {status}): set a valid key"
                )
            if status == 404:
                raise LLMError(
                    f"the server {self.url} does not know the model {self.model!r} (status 404: "
                    f"{text}): check model and base_url"
                )
            if 300 <= status < 400:
                place = headers.get("location", "")
                place = self._hidden(urljoin(f"{self.url}/", place)) if place else "nowhere"
                raise LLMError(
                    f"the server {self.url} redirects calls to {place} (status {status}), where "
                    "prompts and the key are not sent: give the address that answers as base_url"
                )
            again = status in _TRY_AGAIN or status >= 500
            return f"status {status}: {text}", again, retry_after(headers)
        kind = type(error).__name__
        body = next((e for e in (error, error.__cause__) if isinstance(e, BodyError)), None)
        if body is not None:
            return f"the response cannot be read ({self._hidden(str(body))})", False, None
        if kind in ("APITimeoutError", "APIConnectionError"):
            return f"no connection to {self.url}", True, None
        # whatever else goes wrong is the end of this call, not of the work
        return f"{kind}: {self._hidden(str(error))}", kind.startswith("API"), None

    def _without_key(self, answer: Completion) -> Completion:
        """Return an answer without the key; one that is no text may repeat all that was sent."""
        if answer.finish == "unreadable":
            text = without_keys(answer.text, self._environment())
            return dataclasses.replace(answer, text=text[:_UNREADABLE])
        key = self._environment()
        if len(key) < SHORTEST_KEY or key not in f"{answer.text}\n{answer.finish}":
            return answer
        self._server.notes.append(
            f"an answer of {self.model!r} repeats the key in {self.api_key_env!r}; <hidden> stands "
            "in its place"
        )
        text, finish = (part.replace(key, "<hidden>") for part in (answer.text, answer.finish))
        return dataclasses.replace(answer, text=text, finish=finish)

    def _hidden(self, text: str) -> str:
        """Return the start of a server's text, in one line, without what looks like a key."""
        return one_line(without_keys(text, self._environment()))

    def _environment(self) -> str:
        return os.environ.get(self.api_key_env or "", "").strip()

    def _client(self) -> Any:
        try:
            openai = importlib.import_module("openai")
        except ImportError:
            raise MissingExtraError("openai", "llm", "OpenAICompatible") from None
        key = self._environment()
        if self.api_key_env is not None and not key:
            raise ParameterError(
                f"OpenAICompatible needs an API key in the environment variable "
                f"{self.api_key_env!r}, which is not set: export it, name another one with "
                "api_key_env, or give api_key_env=None for a server without keys"
            )
        http, certificates = bounded_client(openai)
        return openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=self.url,
            # an attempt has its time as a whole; whether a server is there is known sooner
            timeout=openai.Timeout(None, connect=min(self.timeout, _CONNECT)),
            max_retries=0,  # retried here, so that broken answers are, too
            default_headers={"Accept-Encoding": "identity"},
            http_client=http(self.max_bytes, verify=certificates),
        )


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


def _number(name: str, value: Any, least: float) -> float:
    try:
        return checks.number(name, value, "OpenAICompatible", least)
    except ParameterError:
        raise ParameterError(
            f"OpenAICompatible: {name} must be a number of at least {least}; found {value!r}"
        ) from None


def _limit(name: str, value: Any) -> int | None:
    return None if value is None else checks.whole(name, value, "OpenAICompatible")


def _effort(effort: Any) -> str | None:
    if effort is not None and not (isinstance(effort, str) and effort.strip()):
        raise ParameterError(
            "OpenAICompatible: reasoning_effort must be a word such as 'low', or None; found "
            f"{effort!r}"
        )
    return effort


def _body(body: Any) -> dict[str, Any] | None:
    """Return more of a request's body, JSON values that are settings of an answer, or None."""
    try:
        if not isinstance(body, Mapping | None):
            raise TypeError
        values: dict[str, Any] = json.loads(json.dumps(dict(body or {}), allow_nan=False))
    except (TypeError, ValueError):
        raise ParameterError(
            "OpenAICompatible: extra_body must be a mapping of JSON values, e.g. {'top_p': 0.9}"
        ) from None
    for name in ("model", "messages", "stream", "n"):
        if name in values:
            raise ParameterError(f"OpenAICompatible: extra_body must not set {name!r}")
    return values or None
