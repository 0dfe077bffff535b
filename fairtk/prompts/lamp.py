"""The prompts of LaMP's seven tasks, as the Fair-RAG study words them.

Each task declares the fields it reads, the entry of one profile document, and the words between
the entries and the question. Wording: Kim and Diaz 2024, "Towards Fair RAG", and its published
code; the original LaMP prompts (Salemi et al. 2023) put quotation marks around the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fairtk.errors import InputError, ParameterError
from fairtk.prompts.builder import Prompt
from fairtk.prompts.published import fair_rag
from fairtk.prompts.truncation import Entry

TRUNCATIONS = ("keep-question", "fair-rag")

MARKER = "which reference is related?"
"""The words of a LaMP-1 question that the titles are put before."""


@dataclass(frozen=True)
class LampPrompt(Prompt):
    """Base of the LaMP prompts.

    Args:
        truncate: ``"keep-question"`` (default; see `fairtk.prompts.truncation`) or
            ``"fair-rag"``, the published code's way, which can cut the question off (see
            `fairtk.prompts.published`).
    """

    truncate: str = "keep-question"

    FIELDS: ClassVar[tuple[str, ...]]
    LINK: ClassVar[str] = ". "

    def __post_init__(self) -> None:
        if self.truncate not in TRUNCATIONS:
            raise ParameterError(
                f"the prompt {self.name!r} takes truncate={TRUNCATIONS[0]!r} or "
                f"{TRUNCATIONS[1]!r}; found {self.truncate!r}"
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""
        return self.FIELDS

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


@dataclass(frozen=True)
class Lamp1(LampPrompt):
    """LaMP-1, citation identification: the titles of the author's papers inside the question."""

    name: ClassVar[str] = "lamp-1"
    FIELDS: ClassVar[tuple[str, ...]] = ("title",)

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return the title."""
        return Entry("", self.value(document, "title"))

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


@dataclass(frozen=True)
class Lamp2(LampPrompt):
    """LaMP-2, movie tagging: descriptions with their tags."""

    name: ClassVar[str] = "lamp-2"
    FIELDS: ClassVar[tuple[str, ...]] = ("text", "tag")

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return "the tag for the movie: <description> is <tag>"."""
        tag = self.value(document, "tag")
        return Entry("the tag for the movie: ", self.value(document, "text"), f" is {tag}")


@dataclass(frozen=True)
class Lamp3(LampPrompt):
    """LaMP-3, product rating: reviews with their scores."""

    name: ClassVar[str] = "lamp-3"
    FIELDS: ClassVar[tuple[str, ...]] = ("rating", "text")

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return "<score> is the score for <review>"."""
        rating = self.value(document, "rating")
        return Entry(f"{rating} is the score for ", self.value(document, "text"))


@dataclass(frozen=True)
class Lamp4(LampPrompt):
    """LaMP-4, news headlines: articles with their titles."""

    name: ClassVar[str] = "lamp-4"
    FIELDS: ClassVar[tuple[str, ...]] = ("title", "article")

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return "<title> is the title for <article>"."""
        title = self.value(document, "title")
        return Entry(f"{title} is the title for ", self.value(document, "article"))


@dataclass(frozen=True)
class Lamp5(LampPrompt):
    """LaMP-5, scholarly titles: abstracts with their titles."""

    name: ClassVar[str] = "lamp-5"
    FIELDS: ClassVar[tuple[str, ...]] = ("title", "abstract")
    LINK: ClassVar[str] = ". Following the given patterns "

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return "<title> is the title for <abstract>"."""
        title = self.value(document, "title")
        return Entry(f"{title} is the title for ", self.value(document, "abstract"))


@dataclass(frozen=True)
class Lamp6(LampPrompt):
    """LaMP-6, email subjects: emails with their subjects."""

    name: ClassVar[str] = "lamp-6"
    FIELDS: ClassVar[tuple[str, ...]] = ("title", "text")

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return "<subject> is the title for <email>"."""
        title = self.value(document, "title")
        return Entry(f"{title} is the title for ", self.value(document, "text"))


@dataclass(frozen=True)
class Lamp7(LampPrompt):
    """LaMP-7, tweet paraphrasing: earlier tweets."""

    name: ClassVar[str] = "lamp-7"
    FIELDS: ClassVar[tuple[str, ...]] = ("text",)
    LINK: ClassVar[str] = " are written by a person. Following the given patterns "

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return the tweet."""
        return Entry("", self.value(document, "text"))
