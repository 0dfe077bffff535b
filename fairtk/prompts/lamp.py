"""The prompts of LaMP's seven tasks, as the Fair-RAG study words them.

Each task declares the fields it reads, the entry of one profile document, and the words between
the entries and the question. Wording: Kim and Diaz 2024, "Towards Fair RAG", and its published
code; the original LaMP prompts (Salemi et al. 2023) put quotation marks around the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import Any, ClassVar

from fairtk.errors import InputError, ParameterError
from fairtk.prompts.builder import Prompt
from fairtk.prompts.truncation import Entry, fair_rag

TRUNCATIONS = ("keep-question", "fair-rag")

MARKER = "which reference is related?"
"""The words of a LaMP-1 question that the titles are put before."""


@dataclass(frozen=True)
class LampPrompt(Prompt):
    """Base of the LaMP prompts.

    Args:
        truncate: ``"keep-question"`` (default; see `fairtk.prompts.truncation`) or
            ``"fair-rag"``, the published code's way, which can cut the question off (see
            `fairtk.prompts.truncation.fair_rag`).
    """

    truncate: str = "keep-question"

    ENTRY: ClassVar[tuple[str, str, str]]
    """Head, body and tail of an entry; names in braces are fields of the document."""
    LINK: ClassVar[str] = ". "

    def __post_init__(self) -> None:
        if self.truncate not in TRUNCATIONS:
            raise ParameterError(
                f"the prompt {self.name!r} takes truncate={TRUNCATIONS[0]!r} or "
                f"{TRUNCATIONS[1]!r}; found {self.truncate!r}"
            )

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""
        return tuple(name for _, name, _, _ in Formatter().parse("".join(self.ENTRY)) if name)

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return the entry of one document."""
        values = {name: self.value(document, name) for name in self.fields}
        head, body, tail = (part.format(**values) for part in self.ENTRY)
        return Entry(head, body, tail)

    def __call__(
        self, question: str, documents: Sequence[Mapping[str, Any]], tokenizer: Any
    ) -> str:
        """Return the prompt; see `Prompt`."""
        if self.truncate == "fair-rag":
            entries = [self.entry(document, rank) for rank, document in enumerate(documents)]
            return fair_rag(self, question, entries, tokenizer).final
        return super().__call__(question, documents, tokenizer)

    def room(self, question: str, tokenizer: Any) -> int | None:
        """Return the tokens left for documents; None for ``"fair-rag"``, which cuts by rule."""
        return None if self.truncate == "fair-rag" else super().room(question, tokenizer)

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the entries, the linking words and the question."""
        joined = ", and ".join(entries)
        return f"{joined}{self.LINK}{question}" if joined else question


class Lamp1(LampPrompt):
    """LaMP-1, citation identification: the titles of the author's papers inside the question."""

    name = "lamp-1"
    ENTRY = ("", "{title}", "")

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the question with the titles put before "which reference is related?"."""
        if not entries:
            return question
        head, marker, rest = question.partition(MARKER)
        if not marker:
            raise InputError(
                f"the prompt 'lamp-1' puts titles before the words {MARKER!r}, which the question "
                f"{question[:60]!r}... lacks (or lost to truncate='fair-rag', which keeps 256 "
                "tokens of it): use truncate='keep-question' and LaMP-1 questions"
            )
        return f"{head}{', and '.join(entries)}, {marker}{rest}"


class Lamp2(LampPrompt):
    """LaMP-2, movie tagging: descriptions with their tags."""

    name = "lamp-2"
    ENTRY = ("the tag for the movie: ", "{text}", " is {tag}")


class Lamp3(LampPrompt):
    """LaMP-3, product rating: reviews with their scores."""

    name = "lamp-3"
    ENTRY = ("{rating} is the score for ", "{text}", "")


class Lamp4(LampPrompt):
    """LaMP-4, news headlines: articles with their titles."""

    name = "lamp-4"
    ENTRY = ("{title} is the title for ", "{article}", "")


class Lamp5(LampPrompt):
    """LaMP-5, scholarly titles: abstracts with their titles."""

    name = "lamp-5"
    ENTRY = ("{title} is the title for ", "{abstract}", "")
    LINK = ". Following the given patterns "


class Lamp6(LampPrompt):
    """LaMP-6, email subjects: emails with their subjects."""

    name = "lamp-6"
    ENTRY = ("{title} is the title for ", "{text}", "")


class Lamp7(LampPrompt):
    """LaMP-7, tweet paraphrasing: earlier tweets."""

    name = "lamp-7"
    ENTRY = ("", "{text}", "")
    LINK = " are written by a person. Following the given patterns "
