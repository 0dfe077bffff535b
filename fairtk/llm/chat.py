"""Chats, completions, and the base class of language models."""

from __future__ import annotations

import functools
import json
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from fairtk import stage_context
from fairtk.errors import FairtkError, InputError, ParameterError
from fairtk.frames import EqualByContent, digest
from fairtk.frames.digests import digests
from fairtk.wording import short


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
    """A prompt: messages, and the facts that they were built from.

    Attributes:
        messages: the messages that a model gets.
        facts: the inputs of the messages by name, for rules that replace a model
            (`fairtk.llm.KeywordRefiner`). They are never sent to a server.
    """

    messages: tuple[Message, ...]
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """The messages joined by blank lines, for models that take one text."""
        return "\n\n".join(message.content for message in self.messages)


@dataclass(frozen=True)
class Completion:
    r"""An answer of a model.

    Attributes:
        text: the answer. NUL and unpaired surrogates become escapes, ``\x00`` or ``\ud800``,
            because databases, Parquet and retrieval engines refuse them.
        prompt_tokens: tokens of the prompt as the server counts them; `None` if unknown or invalid
            (negative, beyond 64 bits).
        completion_tokens: tokens of the answer; `None` if unknown.
        seconds: the duration of the last attempt, or the share of a local batch.
        finish: why the answer ended: ``"stop"``; ``"length"`` if it reached the maximum length;
            ``"refusal"`` or ``"content_filter"``; ``"thought only"`` if the response has a thought,
            but no text, and ``"thought cut"`` if it also reached the maximum length;
            ``"unreadable"`` if the (paid) response was not text; ``"unknown"`` for the
            answers of local models that fairtk stored before it recorded their ends.
        cached_tokens: tokens of the prompt that the server had read before, as it reports them;
            `None` if unknown or invalid.
        sent: how the prompt was changed before it was sent: ``"merged system"`` if the system's
            message was added to the first message of the user, because the server refuses that
            role; otherwise empty. A ledger keeps it.

    Raises:
        InputError: the text is not a string.
    """

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    finish: str = "stop"
    cached_tokens: int | None = None
    sent: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"the text of an answer must be a string, got {self.text!r:.80}")
        changed = {
            "text": escaped(self.text),
            "finish": escaped(str(self.finish)),
            "prompt_tokens": _count(self.prompt_tokens),
            "completion_tokens": _count(self.completion_tokens),
            "cached_tokens": _count(self.cached_tokens),
            "seconds": float(self.seconds) if math.isfinite(self.seconds) else 0.0,
        }
        for name, value in changed.items():
            object.__setattr__(self, name, value)


def cost_of(calls: Iterable[Any]) -> dict[str, Any]:
    """Return the cost of calls, for the note of a stage: ``calls``, ``seconds`` and ``tokens``.

    Tokens are `None` if a model has not reported them for a call.

    Args:
        calls: a `Completion`, or an object with the attributes ``seconds``, ``prompt_tokens`` and
            ``completion_tokens``, for each call.
    """
    calls = list(calls)
    counts = [_count(n) for call in calls for n in (call.prompt_tokens, call.completion_tokens)]
    known = [count for count in counts if count is not None]
    return {
        "calls": len(calls),
        "seconds": math.fsum(call.seconds for call in calls),
        "tokens": sum(known) if len(known) == len(counts) else None,
    }


@dataclass(frozen=True)
class Failure:
    """A call that failed after all attempts, in contrast to an empty answer.

    Attributes:
        reason: the error, in one line without secrets.
        can_pass: whether a later call may succeed. If not, e.g. because the model refuses the
            prompt, the prompt is not requested again.
    """

    reason: str
    can_pass: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", escaped(self.reason))


Prompt = str | Chat
"""The text of a user's only message, or a chat."""


def questions(prompts: Iterable[Prompt]) -> list[Chat]:
    """Return a chat for each prompt, with a text as the user's only message."""
    return [
        prompt if isinstance(prompt, Chat) else Chat((Message("user", prompt),))
        for prompt in prompts
    ]


def as_prompt(value: Any, where: str) -> Prompt:
    """Return a prompt: a text, a `Chat`, or messages as pairs or dicts of role and content.

    Raises:
        InputError: the value is something else.
    """
    if isinstance(value, str | Chat):
        return value
    try:
        messages = [
            (m["role"], m["content"]) if isinstance(m, Mapping) else tuple(m) for m in value
        ]
        chat = Chat(tuple(Message(*message) for message in messages))
        if messages and all(isinstance(part, str) for m in messages for part in m):
            return chat
    except (TypeError, LookupError):
        pass
    raise InputError(
        f"{where}: a prompt must be a text, a Chat, or a list of messages with role and content, "
        f"got {value!r:.80}"
    )


Outcome = Completion | Failure
"""The result of a call."""


def escaped(text: str) -> str:
    """Return a text with unpaired surrogates and NUL escaped."""
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


_PROMPTS = 32  # chats per batch
_ROUNDS = 4  # rounds of concurrent calls per batch


def _through_ledger(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a model that calls it behind the ledger of the running experiment.

    The outcomes of the method are checked.
    """

    @functools.wraps(method)
    def call(self: ChatModel, chats: Iterable[Chat]) -> Any:
        model = self.recorded()
        return _checked(self, name, method, chats) if model is self else getattr(model, name)(chats)

    return call


def _checked(
    model: ChatModel, name: str, method: Callable[..., Any], chats: Iterable[Chat]
) -> Iterator[Any]:
    """Yield what a method of a model yields; raise an `InputError` if it is no valid outcome."""
    where = f"{name} of the model {model.name!r}"
    n_prompts = len(chats) if isinstance(chats, Sized) else 0
    answered: set[int] = set()

    def counted() -> Iterator[Chat]:
        nonlocal n_prompts
        for chat in chats:
            n_prompts += 1
            yield chat

    def check(pair: Any) -> None:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise InputError(f"{where}: expected pairs (index, outcome), got {short(pair)}")
        index, outcome = pair
        if _count(index) is None or index >= n_prompts:
            raise InputError(
                f"{where}: expected the index of one of {n_prompts} prompts, got {short(index)}"
            )
        if not isinstance(outcome, Completion | Failure):
            raise InputError(
                f"{where}: expected a Completion or a Failure for the prompt with index {index}, "
                f"got {short(outcome)}"
            )
        if index in answered:
            raise InputError(
                f"{where}: expected one outcome per prompt, got several for the prompt with index "
                f"{index}"
            )
        answered.add(index)

    outcomes = method(model, chats if isinstance(chats, Sized) else counted())
    if not isinstance(outcomes, Iterable):
        raise InputError(f"{where}: expected pairs (index, outcome), got {short(outcomes)}")
    try:
        for item in outcomes:
            for pair in item if name == "arrivals" else [item]:
                check(pair)
            yield item
    finally:
        if isinstance(outcomes, Generator):
            outcomes.close()


class ChatModel(EqualByContent, ABC):
    """A language model, or a function or rules that replace one.

    A subclass defines `name`, `parameters` and `outcomes`. Two models are equal if their class,
    name and parameters are equal.

    Attributes:
        free: whether calls cost nothing, so that no price is needed.
        local: whether the model computes answers in this process, one batch after the other.
        reads_facts: whether answers also depend on `Chat.facts`.
        concurrency: the maximum number of calls at a time.
        has_default_temperature: whether the user has not set the temperature. A ledger with answers
            at another temperature then refuses to request the same prompts again.
    """

    concurrency: int = 1
    has_default_temperature: bool = False
    free: ClassVar[bool] = False
    local: ClassVar[bool] = False
    reads_facts: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("outcomes", "arrivals"):  # all calls enter here, and all outcomes leave
            if name in vars(cls):
                setattr(cls, name, _through_ledger(name, vars(cls)[name]))

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the model, e.g. ``"gpt-4o"``."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return all settings that affect answers, as JSON values without secrets."""

    def batches(self, chats: Sequence[Chat]) -> list[list[int]]:
        """Return the indices of chats in batches, the longest chats first.

        The answers of a batch are stored together. Batches depend only on the set of all chats, not
        on their order or on stored answers, so a run that is continued has the same batches.
        """
        order = sorted(range(len(chats)), key=lambda i: (len(chats[i].text), chats[i].messages))
        size = max(_PROMPTS, _ROUNDS * self.concurrency)
        return [order[start : start + size] for start in range(0, len(order), size)][::-1]

    @abstractmethod
    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield (index of the chat, outcome) pairs as they arrive.

        Args:
            chats: the prompts; read one by one, only when a call can start.

        Raises:
            LLMError: no call would succeed (wrong key, unknown model). Earlier answers are
                yielded first.
            InputError: the method yields something else, an index that is not that of a prompt, or
                several outcomes for a prompt.
        """

    def arrivals(self, chats: Iterable[Chat]) -> Generator[list[tuple[int, Outcome]], None, None]:
        """Yield lists of the pairs of `outcomes` that arrived together, to be stored together."""
        outcomes = self.outcomes(chats)
        try:
            for outcome in outcomes:
                yield [outcome]
        finally:
            if isinstance(outcomes, Generator):
                outcomes.close()

    def complete(self, chats: Iterable[Chat]) -> list[Outcome]:
        """Return one outcome for each chat, in order. A failed call is a `Failure`.

        Raises:
            LLMError: no call would succeed.
        """
        chats = list(chats)
        outcomes = dict(self.outcomes(chats))
        return [outcomes.get(i, Failure("the model gave no answer")) for i in range(len(chats))]

    def recorded(self) -> ChatModel:
        """Return the model behind the ledger of the running experiment, or itself outside of one.

        Free models are not recorded, and local models only on the computer of the ledger.

        Raises:
            LLMError: the call of a thread may belong to one of several experiments.
        """
        contexts = stage_context.experiments()
        ledgers = [one.recording.ledger for one in contexts if one.recording]
        if self.free or stage_context.current().generator is self or not any(ledgers):
            return self
        if len(contexts) > 1:
            raise LLMError(
                f"{self.name!r} is called by a thread while {len(contexts)} experiments run in "
                "this process, so the ledger for its answers is unknown; use "
                'Ledger("answers.sqlite").wrap(model) instead of the model, or run the thread in '
                "the context of its stage (contextvars.copy_context().run)"
            )
        [context], [ledger] = contexts, ledgers
        if self.local and context.refuses_ledgers:
            return self
        behind: ChatModel = ledger.wrap(self)
        return behind

    def check(self) -> None:  # noqa: B027
        """Raise an error if calls would fail, as far as a free check can tell.

        Raises:
            ParameterError: the environment variable with the key is not set.
            LLMError: there is no server at the address, or it does not know the key or the model.
            MissingExtraError: a package is not installed.
        """

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that counts a prompt's tokens, `None` if prompts are never truncated."""
        return None

    def reject(self, chat: Chat) -> None:
        """Mark an answer as unusable. A ledger records it."""
        model = self.recorded()
        if model is not self:
            model.reject(chat)

    def at_temperature(self, temperature: float) -> ChatModel:
        """Return the model at another temperature, or itself if it does not sample."""
        del temperature
        return self

    @property
    def repeats(self) -> str:
        """Why all answers to a prompt are equal; empty for a model that samples by a seed."""
        return "it takes no seed"

    def numbered(self, number: int) -> ChatModel:
        """Return the model for one of several answers to a prompt.

        Number 0 is the model itself, others have another seed.

        Raises:
            ParameterError: the model `repeats` its answers.
        """
        if not number:
            return self
        reason = self.repeats or "its class has no method `numbered`; define it, or set `repeats`"
        raise ParameterError(f"{self.name!r} has one answer per prompt: {reason}")

    def digest(self) -> str:
        """Return a digest of class, name and parameters."""
        return digest([type(self).__qualname__, self.name, self.parameters()])


def numbered_seed(seed: int | None, number: int) -> int:
    """Return the seed for one of several answers, from the model's seed and the answer's number."""
    return int(digest([seed, number], 4), 16) >> 1  # 31 bits, which all servers accept


def call_keys(
    model: str, parameters: Mapping[str, Any], chats: Iterable[Chat], reads_facts: bool = False
) -> list[str]:
    """Return the keys of calls in ledgers.

    They are digests of model, parameters, messages, and facts if the model reads them.
    """
    calls = [
        ([list(message) for message in chat.messages], dict(chat.facts) if reads_facts else {})
        for chat in chats
    ]
    return digests([model, parameters], calls, 16)


def now() -> str:
    """Return the current time (UTC) in ISO format."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def as_json(value: Any) -> str:
    """Return a value as JSON, in ASCII if it has unpaired surrogates."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True)
    return text


# Errors -----------------------------------------------------------------------------------------


class LLMError(FairtkError):
    """No call to a language model would succeed."""


class UnansweredError(FairtkError):
    """One or more prompts have no answer, because their calls failed."""


class BudgetError(LLMError):
    """The next call would exceed ``max_calls`` or ``max_cost``.

    All paid answers are in the ledger. Run again with a larger budget to continue.
    """


class DeferredError(LLMError):
    """Some prompts wait for the answers of a batch.

    All other work is done first and stored. Read the answers of the batch, then run again.
    """


class OfflineError(InputError):
    """An answer is missing from the ledger, and ``offline=True`` forbids calls."""
