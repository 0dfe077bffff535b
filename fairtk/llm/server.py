"""Models of servers with OpenAI's chat protocol: OpenAI, vLLM, llama.cpp, Ollama, and others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import itertools
import json
import os
import queue
import random
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

from fairtk import checks, stage_context
from fairtk.errors import DataWarning, MissingExtraError, ParameterError
from fairtk.llm.chat import (
    Chat,
    ChatModel,
    Completion,
    Failure,
    LLMError,
    Message,
    Outcome,
    escaped,
    numbered_seed,
)
from fairtk.llm.replies import (
    BrokenReplyError,
    ResponseTooLongError,
    bounded_client,
    error_message,
    keyless,
    model_names,
    one_line,
    parse_retry_after,
    read_reply,
    refusal_of_all,
    refused_parameter,
    refuses_system,
    without_keys,
)
from fairtk.wording import did_you_mean, short

OPENAI_URL = "https://api.openai.com/v1"

ENDPOINTS = ("chat", "completions")
"""Endpoints of a server: ``/chat/completions``, or ``/completions`` of base models."""

INTERRUPT_TIMEOUT = 5.0
"""Seconds after Ctrl-C to wait for calls under way, because they are paid."""

CHECK_TIMEOUT = 5.0
"""Seconds to wait for a server's list of models."""

CONNECTIONS = 32
"""Connections of a client."""

RETRY_STATUSES = (408, 409, 425, 429)
"""The statuses below 500 after which a call is retried."""

MAX_RETRY_AFTER = 120.0
"""The longest ``Retry-After``, in seconds, that calls wait for."""

MAX_FAILURES = 5
"""The number of failed calls in a row after which the work ends."""

MAX_BACKOFF = 30.0
"""The longest wait between two attempts, in seconds, unless ``Retry-After`` is longer."""


class _Default(float):
    """A setting that the user has not set."""


TEMPERATURE = _Default(0.0)
"""The temperature of a model unless the user sets another one."""


_interrupts: list[Callable[[], None]] = []
"""What Ctrl-C calls while the main thread waits for answers."""


def _on_interrupt(function: Callable[[], None]) -> None:
    """Let the next Ctrl-C call a function instead of raising an exception at any moment.

    The exception could come while an answer is stored that has been paid for. Another Ctrl-C
    raises it. Handlers of others stay.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _interrupt):
        _interrupts.append(function)
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: Any) -> None:
    if not _interrupts:
        signal.default_int_handler(number, frame)
    while _interrupts:
        _interrupts.pop()()


def _after_interrupts(function: Callable[[], None]) -> None:
    """End `_on_interrupt`."""
    if function in _interrupts:
        _interrupts.remove(function)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and not _interrupts and signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class OpenAICompatible(ChatModel):
    """A model on a server with OpenAI's chat protocol, called with the ``openai`` client.

    Rate limits (429), server errors (5xx), timeouts, broken connections and responses that are not
    JSON are retried, after waits that double and have a random part. A ``Retry-After`` of up to 120
    s is respected. A call is a `Failure` if all its attempts fail. If the server refuses a prompt
    (400), the call is not retried, and the failure cannot pass.

    A wrong key, an unknown model, an account without quota, a redirect, an unsupported parameter,
    or five failed calls in a row raise an `LLMError`. If a server refuses ``max_tokens``,
    ``max_completion_tokens`` is sent from then on, with a warning. If it refuses the role
    ``system``, that message is added to the first message of the user.

    The key is read from the environment when calls are made, and never printed or recorded.

    Args:
        model: the model's name at the server.
        base_url: the server's address, e.g. ``"http://127.0.0.1:8000/v1"``; `None` for OpenAI's.
            Recorded answers do not depend on it.
        api_key_env: the environment variable with the key; `None` if the server needs no key.
        temperature: the sampling temperature, from 0. FAIR-QR sets the paper's 0.3. `None` to send
            none.
        max_tokens: the maximum number of tokens of an answer; `None` to send no limit.
        timeout: the maximum duration of one attempt, in seconds.
        concurrency: the maximum number of calls at a time.
        retries: the maximum number of retries of a call.
        backoff: seconds before the first retry.
        seed: sent to the server if given; many servers ignore it.
        max_completion_tokens: the newer name of `max_tokens`; if given, it is sent instead.
        reasoning_effort: sent if given, e.g. ``"low"``.
        extra_body: more fields of the request's body, e.g. ``{"top_p": 0.9}``; JSON values.
        max_bytes: the maximum size of a response. A larger one is a `Failure`.
        endpoint: ``"chat"``, or ``"completions"`` for base models: ``/v1/completions`` continues
            the text of the messages.

    Raises:
        ParameterError: a setting is out of its range, or the address contains a secret.
    """

    identity_name = "fairtk.OpenAICompatible"
    output_version = 1

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        temperature: float | None = TEMPERATURE,
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
        endpoint: str = "chat",
    ) -> None:
        where = "OpenAICompatible"
        if not str(model).strip():
            raise ParameterError(f"{where}: model must be the name of a model, got {short(model)}")
        if api_key_env is not None and not (
            isinstance(api_key_env, str) and _VARIABLE.fullmatch(api_key_env)
        ):
            raise ParameterError(  # without the value, which may be a key
                f"{where}: api_key_env must be the name of an environment variable, such as "
                "OPENAI_API_KEY, and never the key itself"
            )
        self.model = checks.text("model", model, where)
        self.base_url = _address(base_url)
        self.endpoint = _endpoint(endpoint, max_completion_tokens, reasoning_effort)
        self.api_key_env = api_key_env
        self.temperature = (
            None if temperature is None else checks.number("temperature", temperature, where)
        )
        self.has_default_temperature = isinstance(temperature, _Default)
        self.max_tokens = _limit("max_tokens", max_tokens)
        self.timeout = checks.number("timeout", timeout, where, 1e-3)
        self.concurrency = checks.integer("concurrency", concurrency, where)
        self.retries = checks.integer("retries", retries, where, 0)
        self.backoff = checks.number("backoff", backoff, where)
        self.seed = None if seed is None else checks.integer("seed", seed, where, least=None)
        self.max_completion_tokens = _limit("max_completion_tokens", max_completion_tokens)
        self.reasoning_effort = _effort(reasoning_effort)
        self.extra_body = _body(extra_body)
        self.max_bytes = checks.integer("max_bytes", max_bytes, where)
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
        """Return the settings that affect answers."""
        parameters: dict[str, Any] = {"temperature": self.temperature, "seed": self.seed}
        # one name for the limit, so that answers are found under both
        limit = self.max_completion_tokens or self.max_tokens
        optional = {"max_tokens": limit, "reasoning_effort": self.reasoning_effort}
        for name, value in {**optional, "extra_body": self.extra_body}.items():
            if value is not None:
                parameters[name] = value
        if self.endpoint != "chat":  # the keys of chats do not contain it
            parameters["endpoint"] = self.endpoint
        return parameters

    def settings(self) -> dict[str, Any]:
        """Return all settings by name, without the key."""
        names = inspect.signature(OpenAICompatible).parameters
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"OpenAICompatible({settings})"

    @property
    def path(self) -> str:
        """The path of requests in a batch file, e.g. ``"/v1/chat/completions"``."""
        return "/v1/chat/completions" if self.endpoint == "chat" else "/v1/completions"

    def body(self, chat: Chat, renamed: bool | None = None) -> dict[str, Any]:
        """Return the body of a request, for a call or for a line of a batch file.

        Args:
            chat: the prompt; for ``/v1/completions`` the text of all messages.
            renamed: whether the limit is sent as ``max_completion_tokens``; `None` to do so if the
                server has refused ``max_tokens``.
        """
        sent = self._sent(self._server.renamed if renamed is None else renamed)
        more = sent.pop("extra_body", {})
        prompt: dict[str, Any] = {"prompt": escaped(chat.text)}
        if self.endpoint == "chat":
            messages = [{"role": m.role, "content": escaped(m.content)} for m in chat.messages]
            prompt = {"messages": messages}
        return {"model": self.model, **prompt, **sent, **more}

    def _sent(self, renamed: bool) -> dict[str, Any]:
        """Return the parameters to send, under the names that the server supports."""
        sent = {name: value for name, value in self.parameters().items() if value is not None}
        sent.pop("endpoint", None)
        if (renamed or self.max_completion_tokens) and "max_tokens" in sent:
            sent["max_completion_tokens"] = sent.pop("max_tokens")
        return sent

    def at_temperature(self, temperature: float) -> OpenAICompatible:
        """Return the same model at another temperature, or itself if its temperature is `None`."""
        if self.temperature is None:
            return self
        other = OpenAICompatible(**{**self.settings(), "temperature": temperature})
        other._server = self._server
        return other

    @property
    def repeats(self) -> str:
        """Why all answers to a prompt are equal, up to rounding; empty if the model samples."""
        return "its temperature is 0" if self.temperature == 0 else ""

    def numbered(self, number: int) -> ChatModel:
        """Return the same model with the seed of one of several answers."""
        if not number or self.repeats:
            return super().numbered(number)
        seed = numbered_seed(self.seed, number)
        other = OpenAICompatible(**{**self.settings(), "seed": seed})
        other._server = self._server
        return other

    def check(self) -> None:
        """Request the server's list of models, and raise an error if no call would succeed.

        A server without a list, or one that takes more than a few seconds, is not an error.

        Raises:
            ParameterError: the environment variable with the key is not set.
            MissingExtraError: the package ``openai`` is not installed.
            LLMError: there is no server at the address, or it does not know the key or the model.
        """
        [client] = self._clients()
        asyncio.run_coroutine_threadsafe(self._check(client), call_loop()).result()

    async def _check(self, client: Any) -> None:
        import httpx2
        import openai

        try:
            async with client, asyncio.timeout(min(self.timeout, CHECK_TIMEOUT)):
                reply = await client.get("/models", cast_to=httpx2.Response)
            names = model_names(reply.content)
        except (TimeoutError, ValueError):
            return
        except openai.APIConnectionError:
            raise LLMError(f"{self.model!r}: no connection to {self.url}") from None
        except openai.APIStatusError as error:
            if error.status_code in (401, 403) or 300 <= error.status_code < 400:
                raise LLMError(self._refusal(error)) from None
            return
        # "llama3" is served as "llama3:latest", and "m:free" is a variant of the model "m".
        if names and self.model.partition(":")[0] not in {n.partition(":")[0] for n in names}:
            raise LLMError(
                f"unknown model {self.model!r} at {self.url}{did_you_mean(self.model, names)}; "
                f"it has {', '.join(map(repr, names[:9]))}"
            )

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they arrive.

        If a call raises an error, no other call starts. The outcomes of the calls under way are
        yielded, and then the error is raised. After Ctrl-C the calls under way have
        `INTERRUPT_TIMEOUT` seconds, or until Ctrl-C is pressed again.

        Raises:
            LLMError: no call would succeed; see the class.
            ParameterError: the environment variable with the key is not set.
            MissingExtraError: the package ``openai`` is not installed.
        """
        with contextlib.closing(self.arrivals(chats)) as arrivals:
            for outcomes in arrivals:
                yield from outcomes

    def arrivals(self, chats: Iterable[Chat]) -> Generator[list[tuple[int, Outcome]], None, None]:
        """Yield lists of outcomes: those that arrived since the last list."""
        clients, loop, stop = self._clients(self.concurrency), call_loop(), asyncio.Event()
        remaining: Iterator[tuple[int, Chat]] = enumerate(chats)
        running: dict[Future[Outcome], int] = {}
        done: queue.SimpleQueue[Future[Outcome] | None] = queue.SimpleQueue()
        error: BaseException | None = None
        deadline: float | None = None  # after Ctrl-C

        def interrupt() -> None:
            nonlocal error, remaining, deadline
            error, remaining = KeyboardInterrupt(), iter(())
            deadline = time.monotonic() + INTERRUPT_TIMEOUT
            loop.call_soon_threadsafe(stop.set)
            done.put(None)

        _on_interrupt(interrupt)
        try:
            while True:
                # A chat is taken only when its call can start: the iterator may stop the work.
                for number, chat in itertools.islice(remaining, self.concurrency - len(running)):
                    call = self._call(clients[number % len(clients)], chat, stop)
                    future = asyncio.run_coroutine_threadsafe(call, loop)
                    running[future] = number
                    future.add_done_callback(done.put)
                if not running:
                    break
                try:
                    seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
                    arrived = [done.get(timeout=seconds)]
                except queue.Empty:
                    break
                except KeyboardInterrupt:  # of another handler of Ctrl-C
                    if deadline is not None:
                        raise
                    interrupt()
                    for future in filter(Future.done, running):  # one may just have been taken
                        done.put(future)
                    continue
                arrived += [done.get() for _ in range(done.qsize())]
                while self._server.pending_warnings:
                    text = self._server.pending_warnings.pop(0)
                    warnings.warn(f"OpenAICompatible: {text}", DataWarning, stacklevel=2)
                outcomes: list[tuple[int, Outcome]] = []
                for ended in arrived:
                    # after Ctrl-C there is a `None`, and one may be in the queue twice
                    if ended is None or ended not in running:
                        continue
                    number, failure = running.pop(ended), ended.exception()
                    if failure is None:
                        outcomes.append((number, ended.result()))
                    else:
                        error, remaining = error or failure, iter(())
                        loop.call_soon_threadsafe(stop.set)
                if outcomes:
                    on_answers = stage_context.current().on_answers
                    if on_answers is not None:
                        on_answers([outcome for _, outcome in outcomes])
                    yield outcomes
            _after_interrupts(interrupt)  # from here, Ctrl-C raises, because `error` is read once
            if error is not None:
                self._server.failures, self._server.closed_until = 0, 0.0
                raise error
        finally:
            _after_interrupts(interrupt)
            for future in running:
                future.cancel()
            for client in clients:
                asyncio.run_coroutine_threadsafe(client.close(), loop)

    async def _call(self, client: Any, chat: Chat, stop: asyncio.Event) -> Outcome:
        """Make the attempts of a call, and return its outcome."""
        import openai

        server, reason = self._server, ""
        attempts = self.retries + 1
        for attempt in range(1, attempts + 1):
            while (seconds := server.closed_until - time.monotonic()) > 0:
                if seconds > MAX_RETRY_AFTER:
                    return self._failure(f"{self.url} requires a wait of {seconds:.0f} s", stop)
                if await _is_set(stop, min(seconds, 1.0)):
                    return Failure(f"{self.model!r}: stopped while waiting for {self.url}")
            begin = time.perf_counter()
            try:
                async with asyncio.timeout(self.timeout):
                    content, sent = await self._send(client, chat)
                answer = read_reply(content, time.perf_counter() - begin)
                answer = dataclasses.replace(answer, sent=sent) if sent else answer
                server.failures = 0
                return self._without_key(answer)
            except BrokenReplyError as error:
                if attempt == attempts and error.answer is not None:
                    server.failures = 0
                    return self._without_key(error.answer)
                reason = f"the response is not a completion ({self._hidden(str(error))})"
            except TimeoutError:
                reason = f"no answer within {self.timeout:.3g} s"
            except openai.APIConnectionError as error:
                reason = f"no connection to {self.url} ({type(error.__cause__).__name__})"
            except openai.APIStatusError as error:
                if refusal := self._refusal(error):
                    raise LLMError(refusal) from None  # the server's text may contain the key
                reason = f"status {error.status_code}: {self._hidden(error_message(error))}"
                if error.status_code < 500 and error.status_code not in RETRY_STATUSES:
                    server.failures = 0  # the server works, but refuses this prompt
                    return Failure(f"{self.model!r}: {reason}", can_pass=False)
                server.close_for(parse_retry_after(error.response.headers))
            except ResponseTooLongError as error:
                server.failures = 0
                return Failure(f"{self.model!r}: {error}", can_pass=False)
            if attempt < attempts and await _is_set(stop, backoff(self.backoff, attempt)):
                return Failure(f"{self.model!r}: stopped while waiting to retry ({reason})")
        return self._failure(f"{reason} ({attempts} attempts)", stop)

    def _failure(self, reason: str, stop: asyncio.Event) -> Failure:
        """Return the failure of a call, or raise an `LLMError` after too many in a row."""
        self._server.failures += 1
        if self._server.failures >= MAX_FAILURES and not stop.is_set():
            stop.set()
            raise LLMError(
                f"stopped after {MAX_FAILURES} failed calls in a row to {self.url}, the last to "
                f"{self.model!r} ({reason}); the server seems to be down, so run again later (a "
                "ledger keeps the answers so far)"
            )
        return Failure(f"{self.model!r}: {reason}")

    async def _send(self, client: Any, chat: Chat) -> tuple[bytes, str]:
        """Send a call, and return the body of the response and how the prompt was changed.

        If the server refuses `max_tokens`, ``max_completion_tokens`` is sent from then on. If it
        refuses the role of the system, its message is sent as a part of the user's.
        """
        import httpx2
        import openai

        server = self._server
        can_merge = self.endpoint == "chat" and any(m.role == "system" for m in chat.messages)
        while True:
            renamed, merged = server.renamed, can_merge and server.merges_system
            try:
                response = await client.post(
                    self.path.removeprefix("/v1"),
                    body=self.body(merged_system(chat) if merged else chat, renamed),
                    cast_to=httpx2.Response,
                )
                content: bytes = response.content
                return content, "merged system" if merged else ""
            except openai.APIStatusError as error:
                if can_merge and not merged and refuses_system(error):
                    server.merges_system = True
                    continue
                sent = self._sent(renamed)
                name = refused_parameter(error, sent)
                if name is None:
                    raise
                text = self._hidden(error_message(error))
                if name != "max_tokens" or self.endpoint != "chat":
                    raise LLMError(self._refused_parameter(name, text)) from None
                if not server.renamed:
                    server.renamed = True
                    server.pending_warnings.append(
                        f"max_tokens is not supported by {self.model!r} at {self.url} ({text}); "
                        f"max_completion_tokens={sent[name]} is used instead"
                    )

    def _refused_parameter(self, name: str, text: str) -> str:
        limits = ["max_tokens"] + ["max_completion_tokens"] * bool(self.max_completion_tokens)
        names = limits if name == "max_completion_tokens" else [name]
        none = "" if name == "reasoning_effort" else "none"  # "none" is an effort
        settings = " and ".join(f"{setting}=None" for setting in names)
        return (
            f"the server {self.url} refuses {name} for the model {self.model!r} ({text}): change "
            f'it, or omit it with {settings} ("{none}" in a TOML file and for `--set`)'
        )

    def _refusal(self, error: Any) -> str:
        """Return why the server would refuse every call, or an empty string."""
        status, url, cause = error.status_code, self.url, refusal_of_all(error, self.model)
        if cause == "key" and not self.api_key_env:
            return (
                f"the server {url} requires an API key for the model {self.model!r} (status "
                f"{status}): name the environment variable that has one with `api_key_env`"
            )
        if cause == "key":  # the server's text often repeats a part of the key
            return (
                f"the server {url} refuses the key in {self.api_key_env!r} for the model "
                f"{self.model!r} (status {status}): set a valid key"
            )
        if cause == "model":
            return (
                f"unknown model {self.model!r} at {url} (status {status}: "
                f"{self._hidden(error_message(error))}); check model and base_url"
            )
        if cause == "quota":
            key = f" of the key in {self.api_key_env!r}" if self.api_key_env else ""
            return (
                f"the account{key} has no quota left at {url} "
                f"(status {status}: {self._hidden(error_message(error))}); add credit or use "
                "another key, then run again"
            )
        if 300 <= status < 400:
            location = self._hidden(error.response.headers.get("location", "an unknown address"))
            return (
                f"a redirect is not supported ({url} to {location}, status {status}); set base_url "
                "to the final address"
            )
        return ""

    def _without_key(self, answer: Completion) -> Completion:
        """Return an answer without the key, and warn if it contained the key."""
        clean = keyless(answer, self._key())
        if clean != answer and clean.finish != "unreadable":
            self._server.pending_warnings.append(
                f"an answer of {self.model!r} contains the key in {self.api_key_env!r}, which is "
                "replaced by <hidden>"
            )
        return clean

    def _hidden(self, text: str) -> str:
        """Return the start of a server's text in one line, without keys."""
        return one_line(without_keys(text, self._key()))

    def _key(self) -> str:
        return os.environ.get(self.api_key_env or "", "").strip()

    def _clients(self, n_connections: int = 1) -> list[Any]:
        """Return clients for a number of connections.

        A client scans all of its connections for each call, so several clients with few connections
        are faster than one client with many.
        """
        try:
            import httpx2
            import openai
        except ImportError:
            raise MissingExtraError("openai", "llm", "OpenAICompatible") from None
        key = self._key()
        if self.api_key_env is not None and not key:
            raise ParameterError(
                f"OpenAICompatible requires an API key in the environment variable "
                f"{self.api_key_env!r}, which is not set; export it, or name another one with "
                "`api_key_env` (for a server without keys None, or '' in an option or TOML file)"
            )
        if not key.isascii():
            raise ParameterError(
                f"the API key in the environment variable {self.api_key_env!r} must be ASCII text"
            )
        certificates = httpx2.create_ssl_context()  # loaded once, as this takes long

        return [
            openai.AsyncOpenAI(
                api_key=key or "none",
                base_url=self.url,
                timeout=None,  # `_call` limits each attempt as a whole
                max_retries=0,  # `_call` repeats attempts
                default_headers={"Accept-Encoding": "identity"},
                http_client=bounded_client(self.max_bytes, verify=certificates),
            )
            for _ in range(0, n_connections, CONNECTIONS)
        ]


@dataclasses.dataclass
class ServerState:
    """The state of a server, shared by all calls of a model at any temperature.

    Attributes:
        renamed: whether ``max_completion_tokens`` is sent instead of ``max_tokens``.
        merges_system: whether the system's message is sent as a part of the user's.
        failures: failed calls in a row.
        closed_until: no call is sent before this time, because of ``Retry-After``.
        pending_warnings: texts of warnings, to be emitted in the user's thread.
    """

    renamed: bool = False
    merges_system: bool = False
    failures: int = 0
    closed_until: float = 0.0
    pending_warnings: list[str] = dataclasses.field(default_factory=list)

    def close_for(self, retry_after: float | None) -> None:
        """Send no call before ``Retry-After``."""
        if retry_after is not None:
            self.closed_until = max(self.closed_until, time.monotonic() + retry_after)

    def __reduce__(self) -> Any:  # a copy in another process starts without a history
        return ServerState, ()


def backoff(first: float, n_failures: int) -> float:
    """Return the seconds to wait after `n_failures` failures: `first`, doubled each time.

    Half of the wait is random, so that calls that failed together are not retried together.
    """
    return min(MAX_BACKOFF, first * 2.0 ** min(n_failures - 1, 60)) * random.uniform(0.5, 1.0)


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


def merged_system(chat: Chat) -> Chat:
    """Return a chat whose system messages are the beginning of the first message of the user."""
    system = [m.content for m in chat.messages if m.role == "system"]
    rest = [m for m in chat.messages if m.role != "system"]
    first = next((i for i, m in enumerate(rest) if m.role == "user"), None)
    if first is None:
        return Chat((Message("user", "\n\n".join(system)), *rest), chat.facts)
    rest[first] = Message("user", "\n\n".join([*system, rest[first].content]))
    return Chat(tuple(rest), chat.facts)


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for at most `seconds`, and return whether it is set."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _address(base_url: Any) -> str | None:
    """Return the address without blanks around it, `None` for OpenAI's."""
    if isinstance(base_url, list | tuple) or (isinstance(base_url, str) and "," in base_url):
        raise ParameterError(
            "OpenAICompatible: base_url must be the address of one server; for several servers, "
            "give the address of a proxy in front of them, such as LiteLLM or nginx"
        )
    if not isinstance(base_url, str | None):
        raise ParameterError(
            "OpenAICompatible: base_url must be the address of a server, e.g. "
            f"'http://127.0.0.1:8000/v1', or None, got {short(base_url)}"
        )
    if base_url is None:
        return None
    address = urlsplit(base_url.strip())
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
    return base_url.strip()


def _endpoint(endpoint: Any, max_completion_tokens: Any, reasoning_effort: Any) -> str:
    checks.choice("endpoint", endpoint, ENDPOINTS, "OpenAICompatible")
    if endpoint == "completions" and (max_completion_tokens or reasoning_effort):
        raise ParameterError(
            "OpenAICompatible: max_completion_tokens and reasoning_effort are only valid with "
            "endpoint='chat'; use max_tokens"
        )
    return str(endpoint)


def _limit(name: str, value: Any) -> int | None:
    return None if value is None else checks.integer(name, value, "OpenAICompatible")


def _effort(effort: Any) -> str | None:
    if effort is not None and not (isinstance(effort, str) and effort.strip()):
        raise ParameterError(
            "OpenAICompatible: reasoning_effort must be a word such as 'low', or None, got "
            f"{short(effort)}"
        )
    return effort


def _body(body: Any) -> dict[str, Any] | None:
    """Return the JSON values of `extra_body`, or `None` if it is empty."""
    try:
        if not isinstance(body, Mapping | None):
            raise TypeError
        values: dict[str, Any] = json.loads(json.dumps(dict(body or {}), allow_nan=False))
    except (TypeError, ValueError):
        raise ParameterError(
            "OpenAICompatible: extra_body must be a mapping of JSON values, e.g. {'top_p': 0.9}"
        ) from None
    for name in ("model", "messages", "prompt", "stream", "n"):
        if name in values:
            raise ParameterError(f"OpenAICompatible: extra_body must not set {name!r}")
    return values or None
