"""Any server that speaks OpenAI's chat protocol: OpenAI, vLLM, llama.cpp, Ollama, and others."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import itertools
import json
import math
import os
import queue
import random
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any
from urllib.parse import urljoin

from fairtk import checks
from fairtk.errors import MissingExtraError, ParameterError, suggestion
from fairtk.llm.budget import prompt_tokens
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, LLMError, Outcome, escaped, tell
from fairtk.llm.replies import (
    BodyError,
    BrokenReplyError,
    bounded_client,
    detail,
    headers_of,
    keyless,
    model_names,
    one_line,
    read_reply,
    refused_parameter,
    without_keys,
)
from fairtk.llm.servers import (
    LONGEST_WAIT,
    MOST_FAILURES,
    Servers,
    ServerState,
    addresses,
    backoff,
    loop_of_calls,
    retry_after,
)

ENDPOINTS = ("chat", "completions")
"""What is asked at a server: ``/chat/completions``, or ``/completions`` of base models."""

VERSIONS = ("/version", "/api/version", "/props")
"""Where servers say their version: vLLM, Ollama, llama.cpp."""

HEAD_START = 1.0
"""Seconds that the first call to a server is alone: what it refuses, it refuses once."""

GRACE = 5.0
"""Seconds after Ctrl-C in which calls that are under way may still be answered: they are paid."""

_CONNECT = 5.0  # seconds for the first connection, which says whether a server is there
_CONNECT_AGAIN = 20.0  # hundreds of others, opened together, take longer
_CONNECTIONS = 32  # of a client
_DESCRIBE = 2.0  # seconds for a server's version and models, while its answers wait
_NEEDED = ("model", "messages", "prompt")  # by the client; all else goes as it is
_TRY_AGAIN = (408, 409, 425, 429)


def _put(arrived: queue.SimpleQueue[int], number: int, _: Future[Outcome]) -> None:
    arrived.put(number)


Clients = dict[ServerState, list[Any]]

# The model --------------------------------------------------------------------------------------


class OpenAICompatible(ChatModel):
    """A model behind OpenAI's chat protocol, through the ``openai`` client.

    Calls overlap, at most `concurrency` at a time. Rate limits (429), server errors (5xx),
    timeouts, broken connections and answers that are not JSON are tried again, with waits that
    double and have a random part; ``Retry-After`` is met. A call that fails every time is a
    `Failure`. A wrong key, an unknown model, a redirect, a parameter that the server does not
    take, and a server that failed five calls in a row, end everything with an `LLMError`; but
    where ``max_tokens`` is refused, ``max_completion_tokens`` is sent from then on, with a warning.
    What an answer's headers say is left (``x-ratelimit-remaining-requests``, ``-tokens``) is not
    exceeded until they say it is there again.

    Of several servers of one model, each call goes to the one with the fewest under way. One that
    fails is left out, for a second and then for longer, and tried again with one call; so is one
    that refuses key or model or redirects, with a warning. All of them have to fail to end all.

    The key is read from the environment when calls are made, and stands nowhere else: not in the
    printed form, the ledger or messages; an answer that repeats it has ``<hidden>`` in its place.

    Args:
        model: the model's name at the server.
        base_url: the server's address, e.g. ``"http://127.0.0.1:8000/v1"``; None: OpenAI's. Or
            several, as a list or parted by commas: see above. They are not part of what the ledger
            knows an answer by.
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
        endpoint: ``"chat"``, or ``"completions"`` for base models: ``/v1/completions`` is asked to
            go on with the messages, below each other.

    Raises:
        ParameterError: a setting is out of its range, or the address carries a secret.
    """

    identity_name = "fairtk.OpenAICompatible"
    output_version = 1

    def __init__(
        self,
        model: str,
        base_url: str | Sequence[str] | None = None,
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
        endpoint: str = "chat",
    ) -> None:
        where = "OpenAICompatible"
        if not str(model).strip():
            raise ParameterError(f"{where}: model must be the name of a model; found ''")
        urls = addresses(base_url)
        if api_key_env is not None and not _VARIABLE.fullmatch(str(api_key_env)):
            raise ParameterError(  # what was given may be a key, and is not repeated
                f"{where}: api_key_env must be the name of an environment variable, such as "
                "OPENAI_API_KEY, and never the key itself"
            )
        self.model = str(model)
        self.base_url = base_url if isinstance(base_url, str | None) else urls
        self.endpoint = _endpoint(endpoint, max_completion_tokens, reasoning_effort)
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
        self._servers = Servers(self.urls)  # shared with the model at other temperatures

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    @property
    def urls(self) -> list[str]:
        """The servers' addresses."""
        return addresses(self.base_url)

    @property
    def url(self) -> str:
        """The server's address, or the addresses of all."""
        return ", ".join(self.urls)

    def parameters(self) -> dict[str, Any]:
        """Return what was asked for and decides an answer: temperature, limits, seed, the rest."""
        parameters: dict[str, Any] = {"temperature": self.temperature, "seed": self.seed}
        limit = "max_completion_tokens" if self.max_completion_tokens else "max_tokens"
        for name in (limit, "reasoning_effort", "extra_body"):
            if getattr(self, name) is not None:
                parameters[name] = getattr(self, name)
        if self.endpoint != "chat":  # without a word of it in the keys of chats, which are older
            parameters["endpoint"] = self.endpoint
        return parameters

    def settings(self) -> dict[str, Any]:
        """Return all settings by name; there is no key among them."""
        names = inspect.signature(OpenAICompatible).parameters
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"OpenAICompatible({settings})"

    @property
    def path(self) -> str:
        """Where requests are sent, as a line of a batch has it: ``"/v1/chat/completions"``."""
        return "/v1/chat/completions" if self.endpoint == "chat" else "/v1/completions"

    def body(self, chat: Chat, renamed: bool | None = None) -> dict[str, Any]:
        """Return the request of a chat as JSON values: of a call, or of a line of a batch.

        Args:
            chat: the prompt; for ``/v1/completions`` its messages stand below each other.
            renamed: whether the limit is sent as ``max_completion_tokens``; None: where one of
                the servers has asked for that.
        """
        renamed = any(one.renamed for one in self._servers.states) if renamed is None else renamed
        sent = self._sent(renamed)
        more = sent.pop("extra_body", {})
        prompt: dict[str, Any] = {"prompt": escaped(chat.text)}
        if self.endpoint == "chat":
            messages = [{"role": m.role, "content": escaped(m.content)} for m in chat.messages]
            prompt = {"messages": messages}
        return {"model": self.model, **prompt, **sent, **more}

    def _sent(self, renamed: bool) -> dict[str, Any]:
        """Return the parameters that are sent, under the names that the server takes."""
        sent = {name: value for name, value in self.parameters().items() if value is not None}
        sent.pop("endpoint", None)
        if renamed and "max_tokens" in sent:
            sent["max_completion_tokens"] = sent.pop("max_tokens")
        return sent

    def at_temperature(self, temperature: float) -> OpenAICompatible:
        """Return the same model at another temperature; one that is sent none stays as it is."""
        if self.temperature is None:
            return self
        other = OpenAICompatible(**{**self.settings(), "temperature": temperature})
        other._servers = self._servers
        return other

    def check(self) -> None:
        """Raise if no call would succeed at one of the servers; each is asked for its models.

        A server without such a list, or too slow to give it, is no error.

        Raises:
            ParameterError: the environment variable with the key is not set.
            MissingExtraError: the package ``openai`` is not installed.
            LLMError: there is no server at an address, or it does not know the key or the model.
        """

        async def look(clients: Clients) -> list[None]:
            looks = (self._look(client, server) for server, [client] in clients.items())
            return await asyncio.gather(*looks)

        asyncio.run_coroutine_threadsafe(look(self._clients()), loop_of_calls()).result()
        versions = {one.url: one.about["version"] for one in self._servers.states if one.about}
        if len(set(versions.values())) > 1:
            self._servers.notes.append(
                "the servers are of different versions, whose answers may differ: "
                + ", ".join(f"{url}: {version or 'unknown'}" for url, version in versions.items())
            )
        self._servers.tell()

    async def _look(self, client: Any, server: ServerState) -> None:
        async with client:
            try:
                names = await self._describe(client, server, min(self.timeout, _CONNECT))
            except (TimeoutError, ValueError):
                return
            except Exception as error:
                status = getattr(error, "status_code", None)
                if status is None or status in (401, 403) or 300 <= status < 400:
                    text = self._hidden(detail(error))
                    reason = self._turned_away(status or 0, text, headers_of(error), server.url)
                    reason = reason or self._judge(error, server)[0]
                    raise LLMError(f"{self.model!r}: {reason}") from None
                return
        # "llama3" is served as "llama3:latest", and "m:free" is a way to be served m
        if names and self.model.partition(":")[0] not in {n.partition(":")[0] for n in names}:
            raise LLMError(
                f"the server {server.url} does not know the model {self.model!r}"
                f"{suggestion(self.model, names)}; it has {', '.join(map(repr, names[:9]))}"
            )

    async def _describe(self, client: Any, server: ServerState, seconds: float) -> list[str]:
        """Note the models and the version that a server says it has, and return the models."""
        server.about = {"url": server.url, "version": "", "models": []}
        async with asyncio.timeout(seconds):
            reply = await client.models.with_raw_response.list()
            names = model_names(reply.content)
            server.about["models"] = sorted(names)
            root = server.url.rstrip("/").removesuffix("/v1")
            for path in VERSIONS:
                with contextlib.suppress(Exception):  # most servers have one of them, or none
                    said = await client.get(f"{root}{path}", cast_to=object)
                    version = said.get("version") or said.get("build_info")
                    server.about["version"] = self._hidden(str(version or ""))
                if server.about["version"]:
                    break
        return names

    def served(self) -> list[dict[str, Any]]:
        """Return address, version and models of each server that has answered.

        What a server has not said within two seconds stays empty; it is asked once.
        """

        async def look(clients: Clients) -> None:
            for server, [client] in clients.items():
                async with client:
                    if server.heard and server.about is None:
                        with contextlib.suppress(Exception):
                            await self._describe(client, server, min(self.timeout, _DESCRIBE))

        if any(one.heard and one.about is None for one in self._servers.states):
            asyncio.run_coroutine_threadsafe(look(self._clients()), loop_of_calls()).result()
        return [dict(one.about) for one in self._servers.states if one.heard and one.about]

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they arrive.

        If a call raises, no other starts, those that run are waited for and yielded, and then the
        exception is raised. After Ctrl-C they are waited for for `GRACE` seconds, or until Ctrl-C
        is pressed once more.

        Raises:
            LLMError: no call would succeed; see the class.
            ParameterError: the environment variable with the key is not set.
            MissingExtraError: the package ``openai`` is not installed.
        """
        with contextlib.closing(self.arrivals(chats)) as arrivals:
            for together in arrivals:
                yield from together

    def arrivals(self, chats: Iterable[Chat]) -> Generator[list[tuple[int, Outcome]], None, None]:
        """Yield the same, those together that arrived by the time they are asked for."""
        clients, loop, stopped = self._clients(self.concurrency), loop_of_calls(), asyncio.Event()
        servers, heads, came = self._servers, len(self._servers.states), 0
        arrived: queue.SimpleQueue[int] = queue.SimpleQueue()
        running: dict[int, Future[Outcome]] = {}
        left: Iterator[tuple[int, Chat]] | None = enumerate(chats)
        failed: BaseException | None = None
        end, grace = time.monotonic() + HEAD_START, math.inf
        try:
            while True:
                alone = 0.0 if came >= heads or servers.heard else end - time.monotonic()
                room = min(heads, self.concurrency) if alone > 0 else self.concurrency
                # the next chat is taken only when its call can start: who gives them may end here
                while left is not None and len(running) < room:
                    following = next(left, None)
                    if following is None:
                        left = None
                        break
                    number, chat = following
                    ask = self._ask(clients, chat, stopped)
                    running[number] = asyncio.run_coroutine_threadsafe(ask, loop)
                    running[number].add_done_callback(partial(_put, arrived, number))
                if not running:
                    break
                patience = alone if left is not None and alone > 0 else None
                if grace < math.inf:
                    patience = max(0.0, grace - time.monotonic())
                try:
                    first = arrived.get(timeout=patience)
                except queue.Empty:
                    if time.monotonic() >= grace:
                        break
                    continue
                except KeyboardInterrupt as interrupt:
                    if grace < math.inf:
                        raise
                    failed, left, grace = interrupt, None, time.monotonic() + GRACE
                    loop.call_soon_threadsafe(stopped.set)
                    for number, call in running.items():  # it may have come as one was taken
                        if call.done():
                            arrived.put(number)
                    continue
                numbers = [first, *(arrived.get() for _ in range(arrived.qsize()))]
                numbers = [number for number in dict.fromkeys(numbers) if number in running]
                servers.tell()
                came += len(numbers)
                together: list[tuple[int, Outcome]] = []
                for number in numbers:
                    call = running.pop(number)
                    error = call.exception()
                    if error is None:
                        together.append((number, call.result()))
                    else:
                        failed, left = failed or error, None
                        loop.call_soon_threadsafe(stopped.set)
                tell([outcome for _, outcome in together])
                if together:
                    yield together
            if failed is not None:
                servers.answered()  # whoever asks again begins anew
                raise failed
        finally:
            for call in running.values():
                call.cancel()
            for client in itertools.chain.from_iterable(clients.values()):
                asyncio.run_coroutine_threadsafe(client.close(), loop)

    async def _ask(self, clients: Clients, chat: Chat, stopped: asyncio.Event) -> Outcome:
        """Return the outcome of one call with its retries, wherever each attempt is made."""
        rng = random.Random()  # waits only: no result depends on it
        servers, reason, tried = self._servers, "not tried", set[ServerState]()
        # of servers that just failed every attempt of a call, less is to be hoped for
        retries = min(self.retries, 1) if servers.failures else self.retries
        retries = max(retries, len(servers.states) - 1)
        tokens = prompt_tokens(chat) + (self.max_completion_tokens or self.max_tokens or 0)
        for attempt in range(retries + 1):
            server = servers.next(tokens, tried)
            while (wait := server.wait(tokens)) > 0:
                if wait > LONGEST_WAIT:  # as of one server alone: this is no use
                    return self._failed(f"{server.url} asks to wait {wait:.0f} s", stopped)
                if await _ends(stopped, wait):
                    return Failure(f"{self.model!r}: stopped while waiting for {server.url}")
                server = servers.next(tokens, tried)
            tried.add(server)
            patience, asked = server.patience(self.timeout, attempt), None
            if patience:
                begin = time.perf_counter()
                server.running += 1
                try:
                    async with asyncio.timeout(patience):
                        reply = await self._send(clients[server], server, chat, tokens)
                    server.heard = True
                    answer = read_reply(reply, time.perf_counter() - begin)
                    servers.answered(server)
                    return self._without_key(answer)
                except BrokenReplyError as error:
                    if attempt == retries and error.answer is not None:
                        servers.answered(server)
                        return self._without_key(error.answer)
                    server.missed(gone=False)
                    kind = "chat" if self.endpoint == "chat" else "text"
                    reason = f"the response is not a {kind} completion ({self._hidden(str(error))})"
                except TimeoutError:
                    server.missed(gone=False)
                    reason = f"no answer within {patience:.3g} s"
                except Exception as error:
                    reason, again, asked = self._judge(error, server)
                    if not again:  # the server is there, and refuses this prompt
                        servers.answered(server)
                        return Failure(f"{self.model!r}: {reason}")
                finally:
                    server.running -= 1
            else:
                server.missed(gone=True)
            elsewhere = any(one.in_use and one not in tried for one in servers.states)
            if not elsewhere and (not patience or (asked or 0.0) > LONGEST_WAIT):
                made = f" ({attempt} attempts)" if not patience else ""
                return self._failed(reason + made, stopped)
            if attempt < retries and not elsewhere:
                tried.clear()
                if await _ends(stopped, backoff(self.backoff, attempt, asked, rng)):
                    return Failure(f"{self.model!r}: stopped while waiting to try again ({reason})")
        return self._failed(f"{reason} ({retries + 1} attempts)", stopped)

    def _failed(self, reason: str, stopped: asyncio.Event) -> Failure:
        """Return the failure of a call that the servers are to blame for; the last in a row ends
        all.
        """
        self._servers.failures += 1
        if self._servers.failures >= MOST_FAILURES and not stopped.is_set():
            stopped.set()
            what = "the server seems" if len(self._servers.states) == 1 else "all servers seem"
            raise LLMError(
                f"stopped: {MOST_FAILURES} calls in a row to {self.url} failed, the last to "
                f"{self.model!r} with: {reason}; {what} to be down: run again when it "
                "answers (with a ledger, no answer so far is asked for again)"
            )
        return Failure(f"{self.model!r}: {reason}")

    async def _send(
        self, clients: list[Any], server: ServerState, chat: Chat, tokens: float
    ) -> bytes:
        """Send a call; with the other name of its limit, where the server asks for that."""
        client = clients[int(server.sent) % len(clients)]
        completions = (
            client.completions if self.endpoint == "completions" else client.chat.completions
        )
        while True:
            body = self.body(chat, server.renamed)
            first = {
                name: body.pop(name) for name in ("model", "messages", "prompt") if name in body
            }
            mine = server.send(tokens)
            connect = min(self.timeout, _CONNECT if server.sent == 1 else _CONNECT_AGAIN)
            try:
                reply = await completions.with_raw_response.create(
                    **first, extra_body=body, timeout=_timeout(connect)
                )
                server.told(reply.headers, mine)
                content: bytes = reply.content
                return content
            except Exception as error:
                server.told(headers_of(error), mine)
                sent = self._sent(server.renamed)
                refused = refused_parameter(error, sent)
                if refused is None:
                    raise
                text = self._hidden(detail(error))
                if refused != "max_tokens" or self.endpoint != "chat":
                    raise LLMError(self._refusal(server, refused, text)) from None
                if not server.renamed:
                    server.renamed = True
                    self._servers.notes.append(
                        f"the server {server.url} refuses max_tokens for the model {self.model!r} "
                        f"({text}); max_completion_tokens={sent[refused]} is sent from now on"
                    )

    def _refusal(self, server: ServerState, name: str, text: str) -> str:
        limits = ["max_tokens"] + ["max_completion_tokens"] * bool(self.max_completion_tokens)
        names = limits if name == "max_completion_tokens" else [name]
        none = "" if name == "reasoning_effort" else "none"  # which is a word for an effort
        settings = " and ".join(f"{setting}=None" for setting in names)
        return (
            f"the server {server.url} refuses {name} for the model {self.model!r} ({text}): change "
            f'it, or leave it out with {settings} ("{none}" in a TOML file and for `--set`)'
        )

    def _judge(self, error: Exception, server: ServerState) -> tuple[str, bool, float | None]:
        """Return what happened, whether to try again, and the wait that the server asks for.

        What no other call would do better at is raised, as an `LLMError`.
        """
        if isinstance(error, LLMError):
            raise error
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            server.heard = True
            text = self._hidden(detail(error))
            refusal = self._turned_away(status, text, headers_of(error), server.url)
            if refusal:
                server.turn_away()
                if all(one.refused for one in self._servers.states):
                    raise LLMError(refusal)
                self._servers.notes.append(f"{refusal}; the other servers go on without it")
                return refusal, True, None
            asked = retry_after(headers_of(error))
            if asked is not None and (asked <= LONGEST_WAIT or len(self._servers.states) > 1):
                server.close(asked)
            if status >= 500:
                server.missed(gone=False)
            return f"status {status}: {text}", status in _TRY_AGAIN or status >= 500, asked
        kind = type(error).__name__
        body = next((e for e in (error, error.__cause__) if isinstance(e, BodyError)), None)
        if body is not None:
            return f"the response cannot be read ({self._hidden(str(body))})", False, None
        if kind in ("APITimeoutError", "APIConnectionError"):
            server.missed(gone=True)
            return f"no connection to {server.url}", True, None
        # whatever else goes wrong is the end of this call, not of the work
        return f"{kind}: {self._hidden(str(error))}", kind.startswith("API"), None

    def _turned_away(self, status: int, text: str, headers: Mapping[str, str], url: str) -> str:
        """Return why a server would refuse any call, or an empty string."""
        if status in (401, 403):  # its text often repeats a part of the key
            return (
                f"the server {url} refuses the key in {self.api_key_env!r} for the model "
                f"{self.model!r} (status {status}): set a valid key"
            )
        if status == 404:
            return (
                f"the server {url} does not know the model {self.model!r} (status 404: {text}): "
                "check model and base_url"
            )
        if 300 <= status < 400:
            place = headers.get("location", "")
            place = self._hidden(urljoin(f"{url}/", place)) if place else "nowhere"
            return (
                f"the server {url} redirects calls to {place} (status {status}), where prompts "
                "and the key are not sent: give the address that answers as base_url"
            )
        return ""

    def _without_key(self, answer: Completion) -> Completion:
        """Return an answer without the key, and note a warning where it had it."""
        kept = keyless(answer, self._environment())
        if kept != answer and kept.finish != "unreadable":
            self._servers.notes.append(
                f"an answer of {self.model!r} repeats the key in {self.api_key_env!r}; <hidden> "
                "stands in its place"
            )
        return kept

    def _hidden(self, text: str) -> str:
        """Return the start of a server's text, in one line, without what looks like a key."""
        return one_line(without_keys(text, self._environment()))

    def _environment(self) -> str:
        return os.environ.get(self.api_key_env or "", "").strip()

    def _clients(self, connections: int = 1) -> Clients:
        """Return clients for each server, which take turns.

        A client looks at all of its connections at each call: few of them are faster.
        """
        try:
            openai = importlib.import_module("openai")
        except ImportError:
            raise MissingExtraError("openai", "llm", "OpenAICompatible") from None
        key = self._environment()
        if self.api_key_env is not None and not key:
            raise ParameterError(
                f"OpenAICompatible needs an API key in the environment variable "
                f"{self.api_key_env!r}, which is not set: export it, name another one with "
                "`api_key_env`; for a server without keys give None, or '' in an option or a TOML "
                "file"
            )
        http, certificates = bounded_client(openai)

        def client(server: ServerState) -> Any:
            return openai.AsyncOpenAI(
                api_key=key or "none",
                base_url=server.url,
                # an attempt has its time as a whole; whether a server is there is known sooner
                timeout=openai.Timeout(None, connect=min(self.timeout, _CONNECT)),
                max_retries=0,  # retried here, so that broken answers are, too
                default_headers={"Accept-Encoding": "identity"},
                http_client=http(self.max_bytes, verify=certificates),
            )

        count = -(-connections // _CONNECTIONS)
        return {one: [client(one) for _ in range(count)] for one in self._servers.states}


def _timeout(connect: float) -> Any:
    return importlib.import_module("openai").Timeout(None, connect=connect)


async def _ends(stopped: asyncio.Event, seconds: float) -> bool:
    """Wait, and return whether all was stopped meanwhile."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), seconds)
    return stopped.is_set()


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _endpoint(endpoint: Any, max_completion_tokens: Any, reasoning_effort: Any) -> str:
    if endpoint not in ENDPOINTS:
        raise ParameterError(
            f"OpenAICompatible: endpoint must be {' or '.join(map(repr, ENDPOINTS))}; found "
            f"{endpoint!r}"
        )
    if endpoint == "completions" and (max_completion_tokens or reasoning_effort):
        raise ParameterError(
            "OpenAICompatible: endpoint='completions' takes max_tokens, and neither "
            "max_completion_tokens nor reasoning_effort"
        )
    return str(endpoint)


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
    for name in ("model", "messages", "prompt", "stream", "n"):
        if name in values:
            raise ParameterError(f"OpenAICompatible: extra_body must not set {name!r}")
    return values or None
