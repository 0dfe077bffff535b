"""Chats in, completions out: what a language model is here, and what is kept of its calls."""

from __future__ import annotations

import contextlib
import json
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from fairtk.errors import FairtkError, InputError
from fairtk.frames import ByContent, digest
from fairtk.frames.digests import digests

UNUSABLE = ("refusal", "content_filter", "length", "unreadable")
"""Ends of answers that nothing can be read from; ``retry_unusable`` asks for them again."""


class Message(NamedTuple):
    """One message of a chat.

    Attributes:
        role: ``"system"``, ``"user"`` or ``"assistant"``.
        content: the text.
    """

    role: str
    content: str


@dataclass(frozen=True)
class Chat:
    """A prompt: messages, and the facts that they were made from.

    Attributes:
        messages: what a model is sent.
        facts: what the messages say, by name, for rules that stand in for a model
            (`fairtk.llm.KeywordRefiner`). Never sent anywhere.
    """

    messages: tuple[Message, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All messages below each other, for models that take one text."""
        return "\n\n".join(message.content for message in self.messages)


@dataclass(frozen=True)
class Completion:
    r"""An answer, in a form that every file can hold.

    Attributes:
        text: the answer. A NUL and a lone surrogate become an escape, ``\x00`` or ``\ud800``:
            databases, Parquet and retrieval engines refuse them.
        prompt_tokens: tokens of the prompt as the server counts them; None: unknown, as is what
            is no count (negative, beyond 64 bits).
        completion_tokens: tokens of the answer; None: unknown.
        seconds: from asking (the last attempt) to the whole answer.
        finish: why it ended: ``"stop"``; ``"length"`` when it was cut off at the most tokens;
            ``"refusal"`` or ``"content_filter"``; ``"unreadable"`` when something was answered
            (and paid for) that is no text.

    Raises:
        InputError: the text is no string.
    """

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    finish: str = "stop"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"the text of an answer must be a string; found {self.text!r:.80}")
        changed = {
            "text": escaped(self.text),
            "finish": escaped(str(self.finish)),
            "prompt_tokens": _count(self.prompt_tokens),
            "completion_tokens": _count(self.completion_tokens),
            "seconds": float(self.seconds) if math.isfinite(self.seconds) else 0.0,
        }
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    @property
    def usable(self) -> bool:
        """Whether there is an answer to read: it is not empty, refused, cut off or unreadable."""
        return bool(self.text.strip()) and self.finish not in UNUSABLE


@dataclass(frozen=True)
class Failure:
    """A call that finally failed: there is no answer, which is not an empty answer.

    Attributes:
        reason: what happened, in one line without secrets.
    """

    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", escaped(self.reason))


def questions(prompts: Iterable[str]) -> list[Chat]:
    """Return a chat for each prompt: it alone, from the user."""
    return [Chat((Message("user", prompt),)) for prompt in prompts]


Outcome = Completion | Failure
"""What becomes of a call."""


def escaped(text: str) -> str:
    """Return a text with lone surrogates and NUL as escapes; any other text as it is."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _count(value: Any) -> int | None:
    try:
        count = operator.index(value)
    except TypeError:
        return None
    return count if 0 <= count < 1 << 63 and not isinstance(value, bool) else None


Listener = Callable[[Sequence[Outcome]], None]
"""Called with outcomes as they arrive from a server."""

_listener: ContextVar[Listener | None] = ContextVar("_listener", default=None)


@contextlib.contextmanager
def on_outcome(listener: Listener) -> Iterator[None]:
    """Pass the outcomes of calls within the block to a listener, as they arrive."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(outcomes: Sequence[Outcome]) -> None:
    """Tell who listens, if anyone, what arrived."""
    listener = _listener.get()
    if listener is not None:
        listener(outcomes)


class ChatModel(ByContent, ABC):
    """A language model, or rules in its place.

    A subclass gives `name`, `parameters` and `outcomes`. Two models are equal when class, name and
    parameters are.

    Attributes:
        free: whether calls cost nothing, so that no price is needed.
        reads_facts: whether answers depend on `Chat.facts` as well.
        concurrency: the most calls at a time.
    """

    concurrency: int = 1
    free: ClassVar[bool] = False
    reads_facts: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The model, e.g. ``"gpt-4o"``."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return all that decides an answer beside name and chat, as JSON values; no secrets."""

    @abstractmethod
    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the number of a chat and its outcome, as they arrive.

        Args:
            chats: the prompts; read one by one, only when a call can start.

        Raises:
            LLMError: no call would succeed (wrong key, unknown model). What was answered before
                is yielded first.
        """

    def arrivals(self, chats: Iterable[Chat]) -> Generator[list[tuple[int, Outcome]], None, None]:
        """Yield the same, those together that arrived together, for who keeps them at once."""
        outcomes = self.outcomes(chats)
        try:
            for outcome in outcomes:
                yield [outcome]
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()

    def complete(self, chats: Iterable[Chat]) -> list[Outcome]:
        """Return one outcome for each chat, in order; a call that failed is a `Failure`.

        Raises:
            LLMError: no call would succeed.
        """
        asked = list(chats)
        outcomes = dict(self.outcomes(asked))
        return [outcomes.get(i, Failure("the model gave no answer")) for i in range(len(asked))]

    def check(self) -> None:  # noqa: B027
        """Raise if the model cannot be asked, as far as that is known without a call to pay for.

        Raises:
            ParameterError: the environment lacks the key.
            LLMError: there is no server at the address, or it does not know key or model.
            MissingExtraError: a package is not installed.
        """

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that prompts are measured by; None: they are never cut."""
        return None

    def reject(self, chat: Chat) -> None:  # noqa: B027
        """Be told that an answer could not be used, by who read it; a ledger notes it."""

    def at_temperature(self, temperature: float) -> ChatModel:
        """Return the model at another temperature; a model that does not sample stays as it is."""
        del temperature
        return self

    def digest(self) -> str:
        """Return a digest of class, name and parameters."""
        return digest([type(self).__qualname__, self.name, self.parameters()])


def call_keys(
    model: str, parameters: Mapping[str, Any], chats: Iterable[Chat], reads_facts: bool = False
) -> list[str]:
    """Return what ledgers and stores know calls by: digests of model, parameters and messages.

    Facts count for models that read them.
    """
    calls = [
        ([list(message) for message in chat.messages], dict(chat.facts) if reads_facts else {})
        for chat in chats
    ]
    return digests([model, parameters], calls, 16)


def now() -> str:
    """Return the time as records have it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def as_json(value: Any) -> str:
    """Return a value as JSON that every file can hold."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True)
    return text


# Errors -----------------------------------------------------------------------------------------


class LLMError(FairtkError):
    """A language model cannot be used at all: no call to it would succeed."""


class BudgetError(LLMError):
    """The next call would exceed ``max_calls`` or ``max_cost``.

    All answers that were paid for are in the ledger: with a larger budget the same work goes on
    where it stopped.
    """


class DeferredError(LLMError):
    """Answers are to come from a batch of prompts: what needs them is left for a later run.

    All else that can be done is done first, and kept.
    """


class OfflineError(InputError):
    """An answer is not in the ledger, and ``offline=True`` forbids to ask for it."""
