"""Chats in, completions out: what a language model is here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from fairtk.frames.content import ByContent, digest


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
    """An answer.

    Attributes:
        text: the answer.
        prompt_tokens: tokens of the prompt as the server counts them; None: unknown.
        completion_tokens: tokens of the answer; None: unknown.
        seconds: from asking (the last attempt) to the whole answer.
        finish: why it ended: ``"stop"``; ``"length"`` when it was cut off at the most tokens;
            ``"refusal"`` or ``"content_filter"``.
    """

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    finish: str = "stop"


@dataclass(frozen=True)
class Failure:
    """A call that finally failed: there is no answer, which is not an empty answer.

    Attributes:
        reason: what happened, in one line without secrets.
    """

    reason: str


Outcome = Completion | Failure


class ChatModel(ByContent, ABC):
    """A language model, or rules in its place.

    A subclass gives `name`, `parameters` and `outcomes`. Two models are equal when class, name and
    parameters are.

    Attributes:
        free: whether calls cost nothing, so that no price is needed.
        reads_facts: whether answers depend on `Chat.facts` as well.
    """

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

    def complete(self, chats: Iterable[Chat]) -> list[Outcome]:
        """Return one outcome for each chat, in order; a call that failed is a `Failure`.

        Raises:
            LLMError: no call would succeed.
        """
        asked = list(chats)
        found = dict(self.outcomes(asked))
        return [found.get(i, Failure("the model gave no answer")) for i in range(len(asked))]

    def check(self) -> None:  # noqa: B027
        """Raise if the model cannot be asked, as far as that is known without a call.

        Raises:
            ParameterError: the environment lacks the key.
            MissingExtraError: a package is not installed.
        """

    def at_temperature(self, temperature: float) -> ChatModel:
        """Return the model at another temperature; a model that does not sample stays as it is."""
        del temperature
        return self

    def digest(self) -> str:
        """Return a digest of class, name and parameters."""
        return digest([type(self).__qualname__, self.name, self.parameters()])
