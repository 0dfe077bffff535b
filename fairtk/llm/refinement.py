"""Prompts that request a refined keyword query for a group.

They have no documents and return a `fairtk.llm.Chat`. Any object of the interface
`RefinementPromptLike` is a refinement prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import EqualByContent, digest
from fairtk.llm.chat import Chat, Message
from fairtk.llm.prompts import get
from fairtk.wording import short

NAMES: Mapping[str, str] = {"NB": "non-binary people", "female": "women", "male": "men"}
"""The names of coded levels in prompts."""


@dataclass(frozen=True)
class Refinement:
    """The inputs of a refinement prompt.

    Attributes:
        query: the original query.
        keywords: the current keywords, separated by spaces.
        group: the underexposed group; one part per crossed attribute.
        attribute: the attribute of the groups, e.g. ``"gender"``; may be empty.
    """

    query: str
    keywords: str
    group: tuple[str, ...]
    attribute: str = ""


@runtime_checkable
class RefinementPromptLike(Protocol):
    """The interface of refinement prompts for `fairtk.QueryRefiner` and `fairtk.FairQR`."""

    @property
    def name(self) -> str:
        """The name in ``QueryRefiner(prompt=...)``."""

    def __call__(self, request: Refinement) -> Chat:
        """Return the chat that requests refined keywords."""

    def answer(self, text: str) -> str:
        """Return the part of a model's text that contains the keywords."""


def as_refinement_prompt(
    prompt: str | Mapping[str, Any] | RefinementPromptLike, where: str
) -> RefinementPromptLike:
    """Return the refinement prompt of a name, or a given one after a check of its interface.

    A mapping has the prompt's ``name`` and its options.
    """
    builder: Any = prompt
    if isinstance(prompt, Mapping):
        options = {str(key): value for key, value in prompt.items() if key != "name"}
        if not isinstance(prompt.get("name"), str):
            raise ParameterError(
                f"{where}: prompt must have the name of a prompt, got {short(prompt)}"
            )
        builder = get(prompt["name"], **options)
    elif isinstance(prompt, str):
        builder = get(prompt)
    if (
        isinstance(builder, type)
        or not isinstance(builder, RefinementPromptLike)
        or not callable(builder)
    ):
        raise ParameterError(
            f"{where}: prompt must be 'refine', 'refine-few-shot', 'refine-chain-of-thought', or "
            f"a function of a Refinement with the attributes name and answer, got {short(prompt)}"
        )
    return builder


@dataclass(frozen=True, eq=False)
class RefinementPrompt(EqualByContent):
    """A zero-shot prompt with the original query, the current keywords and the group.

    Args:
        max_keywords: the maximum number of words that the prompt requests, at least 1.
        group_names: the names of levels in the prompt, if different.

    Raises:
        ParameterError: `max_keywords` is below 1.
    """

    identity_name = "fairtk.RefinementPrompt"
    output_version = 1
    max_keywords: int = 20
    group_names: Mapping[str, str] = field(default_factory=lambda: dict(NAMES))

    name: ClassVar[str] = "refine"
    rules: ClassVar[str] = (
        "You refine keyword queries for a search engine that matches words. "
        "Answer with the refined keywords alone, separated by commas: no sentence, no explanation, "
        "no numbering."
    )

    def __post_init__(self) -> None:
        checks.integer("max_keywords", self.max_keywords, self.name)

    def digest(self) -> str:
        """Return the content digest of class and settings."""
        return digest([type(self).__qualname__, self.max_keywords, self.group_names])

    @property
    def fields(self) -> tuple[str, ...]:
        """Raise an error: a generator cannot use a refinement prompt."""
        raise ParameterError(
            f"the prompt {self.name!r} is only valid for QueryRefiner and FairQR; for a generator, "
            "use another one, e.g. 'rag' or 'template'"
        )

    def __call__(self, request: Refinement) -> Chat:
        """Return the chat."""
        messages = (Message("system", self.rules), Message("user", self.task(request)))
        facts = {
            "query": request.query,
            "keywords": request.keywords,
            "group": list(request.group),
            "attribute": request.attribute,
        }
        return Chat(messages, facts)

    def task(self, request: Refinement) -> str:
        """Return the user's message."""
        return f"{self.lines(request)}\n\n{self.instruction(request)}"

    def lines(self, request: Refinement) -> str:
        """Return the lines with query, keywords and group."""
        return (
            f"Original query: {request.query}\n"
            f"Current keywords: {request.keywords}\n"
            f"Group that is shown too little: {self.group(request)}"
        )

    def group(self, request: Refinement) -> str:
        """Return the group in words."""
        words = " and ".join(self.group_names.get(part, part) for part in request.group)
        return f"{words} ({request.attribute})" if request.attribute else words

    def instruction(self, request: Refinement) -> str:
        """Return the instruction."""
        return (
            "Add or change keywords related to this group, so that the search also finds documents "
            "about the original query that belong to the group. Stay on the topic of the original "
            f"query. Give all refined keywords, {self.max_keywords} words at most, separated by "
            "commas."
        )

    def answer(self, text: str) -> str:
        """Return the text itself."""
        return text


class FewShotRefinement(RefinementPrompt):
    """A few-shot prompt: three examples before the task."""

    identity_name = "fairtk.FewShotRefinement"
    output_version = 1
    name: ClassVar[str] = "refine-few-shot"
    examples: ClassVar[tuple[tuple[Refinement, str], ...]] = (
        (
            Refinement("bridges and tunnels", "bridge tunnel engineering", ("female",), "gender"),
            "bridge, tunnel, engineering, woman engineer, women in construction",
        ),
        (
            Refinement("folk music", "folk song instrument", ("Southern Asia",), "region"),
            "folk, song, instrument, Indian, Bengali, sitar, Pakistan, Nepal",
        ),
        (
            Refinement("chess players", "chess player champion", ("Western Africa",), "region"),
            "chess, player, champion, Nigeria, Ghana, Senegal",
        ),
    )

    def task(self, request: Refinement) -> str:
        """Return the examples and the task."""
        worked = [
            f"{self.lines(example)}\nRefined keywords: {answer}"
            for example, answer in self.examples
        ]
        return "\n\n".join(
            [self.instruction(request), *worked, f"{self.lines(request)}\nRefined keywords:"]
        )


class ChainOfThoughtRefinement(RefinementPrompt):
    """A chain-of-thought prompt: the model reasons, then writes the keywords on a last line."""

    identity_name = "fairtk.ChainOfThoughtRefinement"
    output_version = 1
    name: ClassVar[str] = "refine-chain-of-thought"
    rules: ClassVar[str] = (
        "You refine keyword queries for a search engine that matches words. "
        "Think first, in a few short sentences: what the query is about, and which words occur in "
        "documents about it that belong to the group. Then write one last line that begins with "
        "'Keywords:' and lists the refined keywords alone, separated by commas."
    )

    def answer(self, text: str) -> str:
        """Return the text after the last ``Keywords:``, empty if absent."""
        *before, last = re.split(r"keywords\**\s*:", text, flags=re.IGNORECASE)
        return last.strip("* \n") if before else ""
