"""Prompt builders, which join a question and ranked documents into one prompt.

The published Fair-RAG code reserves tokens for the question but not for the words that join the
parts, so a long prompt loses the end of its question. Here all tokens of the prompt count,
including joining words and special tokens:

1. A prompt that fits the window is not truncated.
2. Otherwise each entry gets an equal share of the tokens that the question and the joining words
   leave. Tokens that a short entry does not need go to longer entries. Only the end of an entry's
   body is truncated, so that a tag or a title remains.
3. If a share is below `SHORTEST_ENTRY` tokens, documents are dropped from the bottom of the ranking
   until the shares of the rest are not.
4. If the question alone exceeds the window, the prompt has no documents, and the end of the
   question is truncated (`fairtk.Generator` warns and names the query).

Each LaMP task declares the fields it reads, the entry of one profile document, and the words
between the entries and the question. Wording: Kim and Diaz 2024, "Towards Fair RAG", and its
published code. The original LaMP prompts (Salemi et al. 2023) put quotation marks around the
fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.plugins import registry
from fairtk.plugins.registry import refuse_unknown_options
from fairtk.wording import did_you_mean, short

UNLIMITED = 10**9
"""A ``model_max_length`` from this value on means no limit (Hugging Face uses 1e30)."""


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that prompt builders use."""

    model_max_length: int

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens."""

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the text of tokens."""


def count(text: str, tokenizer: Tokenizer) -> int:
    """Return the number of tokens of a text, without special tokens."""
    if not text:
        return 0
    cached_count = getattr(tokenizer, "count", None)  # of a `PromptTokenizer`
    return int(cached_count(text)) if callable(cached_count) else len(tokenizer.tokenize(text))


def counts(texts: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """Return the `count` of each text."""
    return [count(text, tokenizer) for text in texts]


def trim(text: str, limit: int, tokenizer: Tokenizer) -> str:
    """Return the first ``limit`` tokens of a text, or the text itself if it is not longer.

    The tokenizer may normalize the white space of a truncated text.
    """
    if limit <= 0:
        return ""
    tokens = tokenizer.tokenize(text)
    return text if len(tokens) <= limit else tokenizer.convert_tokens_to_string(tokens[:limit])


def window(tokenizer: Any) -> int | None:
    """Return the maximum number of tokens of a prompt, `None` if there is no limit.

    The limit is ``model_max_length`` minus the special tokens (T5's ``</s>``) around a prompt.
    There is no limit without a tokenizer or a ``model_max_length``.
    """
    longest = getattr(tokenizer, "model_max_length", None)
    if longest is None or longest >= UNLIMITED:
        return None
    special = getattr(tokenizer, "num_special_tokens_to_add", None)
    return int(longest) - (int(special()) if callable(special) else 0)


SHORTEST_ENTRY = 8
"""The minimum number of tokens of a truncated entry; shorter ones have too little content."""
QUESTION_TOKENS = 256
"""The maximum number of tokens of a question in the published code."""


class Entry(NamedTuple):
    """One document in a prompt. Only its body is truncated."""

    head: str
    body: str
    tail: str = ""

    @property
    def text(self) -> str:
        """The complete entry."""
        return self.head + self.body + self.tail


class Built(NamedTuple):
    """A prompt, and what it has of the documents.

    Attributes:
        text: the prompt.
        n_documents: the number of documents in it, the best ranked ones.
        n_cut: the number of these whose text is cut.
        n_whole: the number of documents that would fit without a cut.
    """

    text: str
    n_documents: int
    n_cut: int
    n_whole: int


class Frame(Protocol):
    """The part of a prompt builder that joins a question and entries."""

    name: ClassVar[str]

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the prompt for a question and the texts of the entries."""


def keep_question(prompt: Frame, question: str, entries: Sequence[Entry], tokenizer: Any) -> Built:
    """Return a prompt that fits the window, with the complete question if possible."""
    text = prompt.join(question, [entry.text for entry in entries])
    limit = window(tokenizer)
    if limit is None or count(text, tokenizer) <= limit:
        return Built(text, len(entries), 0, len(entries))

    demands = [count(entry.text, tokenizer) for entry in entries]
    n_whole = _number_that_fits(prompt, question, demands, limit, tokenizer)
    for n_entries in range(len(entries), 0, -1):
        # Token counts do not add up exactly where texts meet. So the joined prompt is counted, and
        # the budget is reduced by the excess.
        budget = limit - count(prompt.join(question, [""] * n_entries), tokenizer)
        while budget > 0:
            shares = divide(demands[:n_entries], budget)
            if any(s < min(d, SHORTEST_ENTRY) for s, d in zip(shares, demands, strict=False)):
                break
            texts = [
                entry.text if share == demand else _shorten(entry, share, tokenizer)
                for entry, share, demand in zip(entries, shares, demands, strict=False)
            ]
            text = prompt.join(question, texts)
            excess = count(text, tokenizer) - limit
            if excess <= 0:
                n_cut = sum(s < d for s, d in zip(shares, demands, strict=False))
                return Built(text, n_entries, n_cut, n_whole)
            budget -= excess
    return Built(_question_alone(prompt, question, limit, tokenizer), 0, 0, 0)


def _number_that_fits(
    prompt: Frame, question: str, demands: Sequence[int], limit: int, tokenizer: Any
) -> int:
    """Return the number of entries that fit the window without a cut, from the best one on."""
    start = count(prompt.join(question, []), tokenizer)
    words = count(prompt.join(question, [""] * len(demands)), tokenizer) - start  # that join them
    number = np.arange(1, len(demands) + 1)
    needed = start + words * number / max(1, len(demands)) + np.cumsum(demands)
    return int((needed <= limit).sum())


def divide(demands: Sequence[int], budget: int) -> list[int]:
    """Divide a budget of tokens into equal shares, up to the demands.

    Tokens that one demand does not need go to the others. The shares sum to
    ``min(budget, sum(demands))``. The remainder of an uneven division goes to the best ranked.
    """
    shares = [0] * len(demands)
    left = max(0, budget)
    waiting = sorted(range(len(demands)), key=lambda i: demands[i])
    while waiting:
        level = left // len(waiting)
        if demands[waiting[0]] > level:
            extra = left - level * len(waiting)
            for order, i in enumerate(sorted(waiting)):
                shares[i] = level + (order < extra)
            break
        first = waiting.pop(0)
        shares[first] = demands[first]
        left -= demands[first]
    return shares


def _shorten(entry: Entry, share: int, tokenizer: Any) -> str:
    n_body = share - count(entry.head + entry.tail, tokenizer)
    if n_body > 0:
        return entry.head + trim(entry.body, n_body, tokenizer) + entry.tail
    return trim(entry.text, share, tokenizer)


def _question_alone(prompt: Frame, question: str, limit: int, tokenizer: Any) -> str:
    text = prompt.join(question, [])
    n_question = count(question, tokenizer)
    while (excess := count(text, tokenizer) - limit) > 0:
        if n_question <= 0:
            raise InputError(
                f"the prompt template {prompt.name!r} must have at most {limit} tokens, the "
                f"model's window, got {limit + excess}; shorten it, or use a model with a longer "
                "window"
            )
        n_question -= excess
        text = prompt.join(trim(question, n_question, tokenizer), [])
    return text


class Published(NamedTuple):
    """The published code's prompt, before and after its last truncation."""

    aggregated: str
    final: str


def fair_rag(prompt: Frame, question: str, entries: Sequence[Entry], tokenizer: Any) -> Published:
    """Return the prompt of the published Fair-RAG code, token for token.

    The question is truncated to its first 256 tokens. Each of the k entries is truncated to
    ``(model_max_length - tokens(question)) // k`` tokens. The joined prompt is truncated at
    ``model_max_length``. The joining words are not budgeted, so a long prompt loses the end of its
    question. The published code raises errors in two cases:

    - no documents (it divides by zero): here the prompt is the question, truncated to 256 tokens;
    - a LaMP-1 question that lost the words "which reference is related?" (an index error): here an
      `fairtk.errors.InputError`.
    """
    longest = getattr(tokenizer, "model_max_length", UNLIMITED)
    if longest >= UNLIMITED:
        raise InputError(
            f"the prompt {prompt.name!r}: truncate='fair-rag' requires a tokenizer with a "
            "model_max_length; set the model's max_prompt_tokens, or use "
            "truncate='keep-question'"
        )
    question = trim(question, QUESTION_TOKENS, tokenizer)
    budget = (int(longest) - count(question, tokenizer)) // max(1, len(entries))
    aggregated = prompt.join(question, [trim(entry.text, budget, tokenizer) for entry in entries])
    return Published(aggregated, trim(aggregated, int(longest), tokenizer))


class PromptBuilder(Protocol):
    """The interface of prompt builders, also of plugins, for `fairtk.Generator`."""

    @property
    def name(self) -> str:
        """The name in ``FlanT5(prompt=...)``."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""

    def __call__(
        self, question: str, documents: Sequence[Mapping[str, Any]], tokenizer: Any
    ) -> str:
        """Return the prompt for a question and documents in rank order (best first)."""


@dataclass(frozen=True)
class Prompt(ABC):
    """Base class of the built-in builders: subclasses declare entries and how to join them.

    A prompt that fits the model's window is not truncated. Otherwise the documents share the tokens
    that the question and the template leave (see `fairtk.llm.prompts`). The question is truncated
    only if it exceeds the window alone.
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
        """Return the prompt for a question and the (truncated) entries, best first."""

    def __call__(
        self, question: str, documents: Sequence[Mapping[str, Any]], tokenizer: Any
    ) -> str:
        """Return the prompt; see `build`."""
        return self.build(question, documents, tokenizer).text

    def build(self, question: str, documents: Sequence[Mapping[str, Any]], tokenizer: Any) -> Built:
        """Return the prompt, and what it has of the documents.

        Args:
            question: the task's input, e.g. LaMP's full instruction.
            documents: the documents in rank order, best first, with the columns `fields`.
            tokenizer: the generator's tokenizer; `None` to never truncate.

        Raises:
            InputError: a document has no such field, or the template alone exceeds the window.
        """
        entries = [self.entry(document, rank) for rank, document in enumerate(documents)]
        return keep_question(self, question, entries, tokenizer)

    def document_budget(self, question: str, tokenizer: Any) -> int | None:
        """Return the number of tokens left for documents, `None` if unlimited.

        It is negative if the question exceeds the window and will be truncated.
        """
        limit = window(tokenizer)
        return None if limit is None else limit - count(self.join(question, []), tokenizer)

    def value(self, document: Mapping[str, Any], field: str) -> str:
        """Return a field of a document as text, or raise an `InputError` if it is missing."""
        content = document.get(field)
        if content is None:
            raise InputError(
                f"the prompt {self.name!r} requires the document field {field!r}, got "
                f"{sorted(document)}"
            )
        return str(content)


TRUNCATIONS = ("keep-question", "fair-rag")

MARKER = "which reference is related?"
"""The words of a LaMP-1 question before which the titles are inserted."""


@dataclass(frozen=True)
class LampPrompt(Prompt):
    """Base class of the LaMP prompts.

    Args:
        truncate: ``"keep-question"`` (default; see `fairtk.llm.prompts`) or ``"fair-rag"``, the
            published truncation, which can lose the question (see `fairtk.llm.prompts.fair_rag`).
    """

    truncate: str = "keep-question"

    ENTRY: ClassVar[tuple[str, str, str]]
    """Head, body and tail of an entry. Names in braces are fields of the document."""
    LINK: ClassVar[str] = ". "

    def __post_init__(self) -> None:
        checks.choice("truncate", self.truncate, TRUNCATIONS, f"the prompt {self.name!r}")

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""
        return tuple(name for _, name, _, _ in Formatter().parse("".join(self.ENTRY)) if name)

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return the entry of one document."""
        values = {name: self.value(document, name) for name in self.fields}
        head, body, tail = (part.format(**values) for part in self.ENTRY)
        return Entry(head, body, tail)

    def build(self, question: str, documents: Sequence[Mapping[str, Any]], tokenizer: Any) -> Built:
        """Return the prompt, and what it has of the documents; see `Prompt`."""
        if self.truncate == "fair-rag":  # each document has a fixed share of the window
            entries = [self.entry(document, rank) for rank, document in enumerate(documents)]
            text = fair_rag(self, question, entries, tokenizer).final
            return Built(text, len(entries), 0, len(entries))
        return super().build(question, documents, tokenizer)

    def document_budget(self, question: str, tokenizer: Any) -> int | None:
        """Return the tokens left for documents; `None` for ``"fair-rag"`` (fixed shares)."""
        return None if self.truncate == "fair-rag" else super().document_budget(question, tokenizer)

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the entries, the linking words and the question."""
        joined = ", and ".join(entries)
        return f"{joined}{self.LINK}{question}" if joined else question


class Lamp1(LampPrompt):
    """LaMP-1, citation identification: titles of the author's papers in the question."""

    identity_name = "fairtk.Lamp1"
    output_version = 1
    name = "lamp-1"
    ENTRY = ("", "{title}", "")

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the question with the titles inserted before "which reference is related?"."""
        if not entries:
            return question
        head, marker, rest = question.partition(MARKER)
        if not marker:
            raise InputError(
                f"the prompt 'lamp-1' requires a question with the words {MARKER!r}, got "
                f"{question[:60]!r}...; use LaMP-1 questions with truncate='keep-question' "
                "('fair-rag' keeps only 256 tokens of a question)"
            )
        return f"{head}{', and '.join(entries)}, {marker}{rest}"


class Lamp2(LampPrompt):
    """LaMP-2, movie tagging: descriptions with their tags."""

    identity_name = "fairtk.Lamp2"
    output_version = 1
    name = "lamp-2"
    ENTRY = ("the tag for the movie: ", "{text}", " is {tag}")


class Lamp3(LampPrompt):
    """LaMP-3, product rating: reviews with their scores."""

    identity_name = "fairtk.Lamp3"
    output_version = 1
    name = "lamp-3"
    ENTRY = ("{rating} is the score for ", "{text}", "")


class Lamp4(LampPrompt):
    """LaMP-4, news headlines: articles with their titles."""

    identity_name = "fairtk.Lamp4"
    output_version = 1
    name = "lamp-4"
    ENTRY = ("{title} is the title for ", "{article}", "")


class Lamp5(LampPrompt):
    """LaMP-5, scholarly titles: abstracts with their titles."""

    identity_name = "fairtk.Lamp5"
    output_version = 1
    name = "lamp-5"
    ENTRY = ("{title} is the title for ", "{abstract}", "")
    LINK = ". Following the given patterns "


class Lamp6(LampPrompt):
    """LaMP-6, email subjects: emails with their subjects."""

    identity_name = "fairtk.Lamp6"
    output_version = 1
    name = "lamp-6"
    ENTRY = ("{title} is the title for ", "{text}", "")


class Lamp7(LampPrompt):
    """LaMP-7, tweet paraphrasing: earlier tweets."""

    identity_name = "fairtk.Lamp7"
    output_version = 1
    name = "lamp-7"
    ENTRY = ("", "{text}", "")
    LINK = " are written by a person. Following the given patterns "


class Rag(Prompt):
    """Passages from the column ``text``, then the question, in one line (T5 has no line breaks).

    Without documents, the prompt does not mention passages.
    """

    identity_name = "fairtk.Rag"
    output_version = 1
    name = "rag"

    @property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""
        return ("text",)

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return "Passage <number>: <text>"."""
        return Entry(f"Passage {rank + 1}: ", self.value(document, "text"))

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the instruction, the passages and the question."""
        ending = f"Question: {question} Answer:"
        if not entries:
            return f"Answer the question. {ending}"
        return f"Answer the question with the help of the passages. {' '.join(entries)} {ending}"


_NAMES = ("question", "documents")
_RANK = "rank"


@dataclass(frozen=True)
class Template(Prompt):
    """A template with ``{question}`` and, unless it is closed-book, ``{documents}``.

    Double a brace to escape it, as in `str.format`. Formats (``{x:.2f}``) and attributes are not
    supported.

    Args:
        template: the prompt, with ``{question}`` and optionally ``{documents}``.
        document: one document. Its names are columns of the frame; ``{rank}`` is the 1-based rank.
            If the prompt is too long, the value of the last name is truncated.
        joiner: the text between two documents.
    """

    identity_name = "fairtk.Template"
    output_version = 1
    template: str
    document: str = "{text}"
    joiner: str = "\n"

    name: ClassVar[str] = "template"

    def __post_init__(self) -> None:
        names = _names(self.template, "template")
        for name in names:
            if name not in _NAMES:
                raise ParameterError(
                    f"unknown name {{{name}}} in the template, expected {{question}} or "
                    f"{{documents}}{did_you_mean(name, _NAMES)}"
                )
        if "question" not in names:
            raise ParameterError(f"the template must contain {{question}}, got {self.template!r}")
        if "documents" in names and not self._document_names:
            raise ParameterError(
                f"document must contain a column name like {{text}}, got {self.document!r}"
            )

    @property
    def _document_names(self) -> list[str]:
        return [name for name in _names(self.document, "document") if name != _RANK]

    @property
    def fields(self) -> tuple[str, ...]:
        """The document columns that the builder reads."""
        if "documents" not in _names(self.template, "template"):
            return ()
        return tuple(dict.fromkeys(self._document_names))

    def entry(self, document: Mapping[str, Any], rank: int) -> Entry:
        """Return the entry of a document, split around the value of its last column."""
        if not self.fields:
            return Entry("", "")
        pieces = ["", "", ""]  # head, body, tail
        names = len(self._document_names)
        for literal, name, _, _ in Formatter().parse(self.document):
            pieces[2 if pieces[1] else 0] += literal
            if name == _RANK:
                pieces[2 if pieces[1] else 0] += str(rank + 1)
            elif name is not None:
                names -= 1
                if names:
                    pieces[0] += self.value(document, name)
                else:
                    pieces[1] = self.value(document, name)
        return Entry(*pieces)

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the filled-in template."""
        return self.template.format(question=question, documents=self.joiner.join(entries))


def _names(text: str, what: str) -> list[str]:
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise ParameterError(f"invalid {what} {text!r} ({error})") from None
    names = [name for _, name, _, _ in parts if name is not None]
    plain = all(not spec and not conversion for _, _, spec, conversion in parts)
    for name in names:
        if not name.isidentifier() or not plain:
            raise ParameterError(
                f"{what} must have only plain names in braces, e.g. {{text}}, got {text!r}"
            )
    return names


def get(name: str, **options: Any) -> PromptBuilder:
    """Return the prompt builder of a name.

    Args:
        name: ``"lamp-1"`` to ``"lamp-7"``, ``"rag"``, ``"template"``, or a plugin's.
        **options: the builder's options, e.g. ``truncate="fair-rag"`` for the LaMP prompts.

    Raises:
        NotFoundError: unknown prompt; the nearest name is suggested.
        ParameterError: an option is unknown, missing or invalid.
    """
    factory = registry.prompts.load(name)
    parameters = refuse_unknown_options(f"the prompt {name!r}", factory, options)
    required = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    missing = [parameter for parameter in required if parameter not in options]
    if missing:
        raise ParameterError(
            f"the prompt {name!r}: {missing[0]} is required, "
            f"fairtk.prompts.get({name!r}, {missing[0]}=...)"
        )
    builder: PromptBuilder = factory(**options)
    return builder


def as_builder(prompt: str | PromptBuilder) -> PromptBuilder:
    """Return the builder of a name, or a given builder after a check of its interface.

    Raises:
        ParameterError: the object is neither a name nor a builder.
    """
    if isinstance(prompt, str) and "{" not in prompt:
        return get(prompt)
    if isinstance(prompt, type | str) or not callable(prompt) or not hasattr(prompt, "fields"):
        raise ParameterError(
            "prompt must be a name (see fairtk.prompts.get) or a function (question, documents, "
            f"tokenizer) with the attribute fields, got {short(prompt)}; for a text with "
            "{question} and {documents}, use fairtk.prompts.get('template', template=...)"
        )
    return prompt
