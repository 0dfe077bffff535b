"""What a prompt builder is, and the base of the built-in ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from fairtk.errors import InputError
from fairtk.prompts.tokens import count, window
from fairtk.prompts.truncation import Entry, keep_question


class PromptBuilder(Protocol):
    """The interface that `fairtk.Generator` needs; a plugin's builder may be any such object."""

    @property
    def name(self) -> str:
        """What users write in ``FlanT5(prompt=...)``."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""

    def __call__(
        self, question: str, documents: Sequence[Mapping[str, Any]], tokenizer: Any
    ) -> str:
        """Return the prompt for a question and documents in rank order (best first)."""


@dataclass(frozen=True)
class Prompt(ABC):
    """Base of the built-in builders: declares an entry and a frame, inherits the truncation.

    A prompt that fits the model's window is left whole. Otherwise the documents share what the
    question and the prompt's own words leave over (see `fairtk.prompts.truncation`); the
    question is cut only if it is longer than the window by itself.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""

    @abstractmethod
    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return the entry of one document; ``rank`` is 0-based."""

    @abstractmethod
    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the prompt for a question and the (cut) texts of the entries, best first."""

    def __call__(
        self, question: str, documents: Sequence[Mapping[str, Any]], tokenizer: Any
    ) -> str:
        """Return the prompt.

        Args:
            question: the task's input, e.g. LaMP's whole instruction.
            documents: the documents in rank order, best first, with the columns `fields`.
            tokenizer: the generator's tokenizer; None means that nothing is ever cut.

        Raises:
            InputError: a document lacks a field, or the prompt's own words exceed the window.
        """
        entries = [self.entry(document, rank) for rank, document in enumerate(documents)]
        return keep_question(self, question, entries, tokenizer)

    def room(self, question: str, tokenizer: Any) -> int | None:
        """Return the tokens that a question leaves for documents, or None: there is no limit.

        Negative: the question is longer than the window and will be cut.
        """
        limit = window(tokenizer)
        return None if limit is None else limit - count(self.join(question, []), tokenizer)

    def value(self, document: Mapping[str, Any], field: str) -> str:
        """Return a field of a document as text; a missing one is an `InputError`."""
        found = document.get(field)
        if found is None:
            raise InputError(
                f"the prompt {self.name!r} needs the document field {field!r}; "
                f"found: {sorted(document)}"
            )
        return str(found)
