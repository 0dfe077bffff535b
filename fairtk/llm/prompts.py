"""Prompt builders: a question and ranked documents in, one prompt out; those of LaMP as the Fair-
RAG study words them.

The published Fair-RAG code reserves room for the question but not for the words that join the
parts, so that a long prompt loses its end, which is the question. Here the whole prompt is
counted, joining words and special tokens included:

1. A prompt that fits is left whole.
2. Otherwise every entry gets an equal share of the tokens that the question and the joining words
   leave; what a short entry does not need goes to the longer ones. Only the body of an entry is
   cut, from its end, so that a tag or a title survives.
3. If the shares fall below `SHORTEST_ENTRY` tokens, documents are dropped from the bottom of the
   ranking until the rest have that much.
4. A question that is longer than the window by itself stands alone, cut at its end
   (`fairtk.Generator` warns and names the query).

Each task declares the fields it reads, the entry of one profile document, and the words between
the entries and the question. Wording: Kim and Diaz 2024, "Towards Fair RAG", and its published
code; the original LaMP prompts (Salemi et al. 2023) put quotation marks around the fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import Any, ClassVar, NamedTuple, Protocol

from fairtk.errors import InputError, ParameterError, suggestion
from fairtk.plugins import registry
from fairtk.plugins.registry import refuse_unknown_options

UNLIMITED = 10**9
"""Hugging Face tokenizers without a window have ``model_max_length`` = 1e30."""


class Tokenizer(Protocol):
    """What a prompt builder uses of a Hugging Face tokenizer."""

    model_max_length: int

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens."""

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the text of tokens."""


def count(text: str, tokenizer: Tokenizer) -> int:
    """Return the number of tokens of a text, without special tokens."""
    if not text:
        return 0
    own = getattr(tokenizer, "count", None)  # that of a backend, which remembers
    return int(own(text)) if callable(own) else len(tokenizer.tokenize(text))


def counts(texts: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """Return the `count` of each text."""
    return [count(text, tokenizer) for text in texts]


def trim(text: str, limit: int, tokenizer: Tokenizer) -> str:
    """Return the first ``limit`` tokens of a text; the text itself, unchanged, when it is shorter.

    A text that is cut comes back through the tokenizer, so its white space may be normalized.
    """
    if limit <= 0:
        return ""
    tokens = tokenizer.tokenize(text)
    return text if len(tokens) <= limit else tokenizer.convert_tokens_to_string(tokens[:limit])


def window(tokenizer: Any) -> int | None:
    """Return how many tokens a prompt may have, or None when there is no limit.

    That is ``model_max_length`` less the special tokens (T5's ``</s>``) that the tokenizer puts
    around every prompt. No tokenizer, or one without a ``model_max_length``, means no limit.
    """
    longest = getattr(tokenizer, "model_max_length", None)
    if longest is None or longest >= UNLIMITED:
        return None
    special = getattr(tokenizer, "num_special_tokens_to_add", None)
    return int(longest) - (int(special()) if callable(special) else 0)


SHORTEST_ENTRY = 8
"""A cut entry with fewer tokens says nothing about its document."""
QUESTION_TOKENS = 256
"""The published code's bound on the question."""


class Entry(NamedTuple):
    """One document as it stands in a prompt; only the body is cut when room is short."""

    head: str
    body: str
    tail: str = ""

    @property
    def text(self) -> str:
        """The whole entry."""
        return self.head + self.body + self.tail


class Frame(Protocol):
    """What a prompt is besides its entries."""

    name: ClassVar[str]

    def join(self, question: str, entries: Sequence[str]) -> str:
        """Return the prompt for a question and the texts of the entries."""


def keep_question(prompt: Frame, question: str, entries: Sequence[Entry], tokenizer: Any) -> str:
    """Return a prompt of at most the window's tokens that has the whole question if it fits."""
    whole = prompt.join(question, [entry.text for entry in entries])
    limit = window(tokenizer)
    if limit is None or count(whole, tokenizer) <= limit:
        return whole

    demands = [count(entry.text, tokenizer) for entry in entries]
    for n_entries in range(len(entries), 0, -1):
        # Tokens do not add up exactly where texts meet, so the joined prompt is counted again,
        # and the room shrinks by what it has too much.
        room = limit - count(prompt.join(question, [""] * n_entries), tokenizer)
        while room > 0:
            shares = divide(demands[:n_entries], room)
            if any(s < min(d, SHORTEST_ENTRY) for s, d in zip(shares, demands, strict=False)):
                break
            texts = [
                entry.text if share == demand else _shorten(entry, share, tokenizer)
                for entry, share, demand in zip(entries, shares, demands, strict=False)
            ]
            text = prompt.join(question, texts)
            excess = count(text, tokenizer) - limit
            if excess <= 0:
                return text
            room -= excess
    return _question_alone(prompt, question, limit, tokenizer)


def divide(demands: Sequence[int], room: int) -> list[int]:
    """Divide room: equal shares, where what one does not need goes to those that need more.

    One share per demand, none above it, with sum ``min(room, sum(demands))``. The remainder of an
    uneven division goes to the best ranked.
    """
    shares = [0] * len(demands)
    left = max(0, room)
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
    room = share - count(entry.head + entry.tail, tokenizer)
    if room > 0:
        return entry.head + trim(entry.body, room, tokenizer) + entry.tail
    return trim(entry.text, share, tokenizer)


def _question_alone(prompt: Frame, question: str, limit: int, tokenizer: Any) -> str:
    text = prompt.join(question, [])
    room = count(question, tokenizer)
    while (excess := count(text, tokenizer) - limit) > 0:
        if room <= 0:
            raise InputError(
                f"the own words of the prompt {prompt.name!r} take {limit + excess} tokens, the "
                f"model takes {limit}: shorten the template, or use a model with a longer window"
            )
        room -= excess
        text = prompt.join(trim(question, room, tokenizer), [])
    return text


class Published(NamedTuple):
    """The published code's prompt, before and after its last cut."""

    aggregated: str
    final: str


def fair_rag(prompt: Frame, question: str, entries: Sequence[Entry], tokenizer: Any) -> Published:
    """Return the prompt as the published Fair-RAG code builds it, to reproduce its prompts exactly.

    The question is cut to its first 256 tokens; each of the k entries gets
    ``(model_max_length - tokens(question)) // k`` tokens and is cut at its end, whatever stands
    there; the joined prompt is cut at ``model_max_length``. The joining words are in no budget, so
    a long prompt loses the end of its question. Where that code raises:

    - no document (it divides by zero): the prompt is the question, cut to 256 tokens;
    - a LaMP-1 question whose words "which reference is related?" were cut off (an index error):
      `fairtk.errors.InputError`.
    """
    longest = getattr(tokenizer, "model_max_length", UNLIMITED)
    if longest >= UNLIMITED:
        raise InputError(
            f"the prompt {prompt.name!r} with truncate='fair-rag' cuts by the generator's "
            "tokenizer, and this one has no model_max_length: set the backend's "
            "max_prompt_tokens, or use truncate='keep-question'"
        )
    question = trim(question, QUESTION_TOKENS, tokenizer)
    budget = (int(longest) - count(question, tokenizer)) // max(1, len(entries))
    aggregated = prompt.join(question, [trim(entry.text, budget, tokenizer) for entry in entries])
    return Published(aggregated, trim(aggregated, int(longest), tokenizer))


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
    question and the prompt's own words leave over (see `fairtk.llm.prompts`); the
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
        content = document.get(field)
        if content is None:
            raise InputError(
                f"the prompt {self.name!r} needs the document field {field!r}; "
                f"found: {sorted(document)}"
            )
        return str(content)


TRUNCATIONS = ("keep-question", "fair-rag")

MARKER = "which reference is related?"
"""The words of a LaMP-1 question that the titles are put before."""


@dataclass(frozen=True)
class LampPrompt(Prompt):
    """Base of the LaMP prompts.

    Args:
        truncate: ``"keep-question"`` (default; see `fairtk.llm.prompts`) or
            ``"fair-rag"``, the published code's way, which can cut the question off (see
            `fairtk.llm.prompts.fair_rag`).
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

    identity_name = "fairtk.Lamp1"
    output_version = 1
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
    """Passages from the column ``text``, then the question.

    One line, since T5's vocabulary has no line break. Without documents the passages and the
    words about them are left out.
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
        asked = f"Question: {question} Answer:"
        if not entries:
            return f"Answer the question. {asked}"
        return f"Answer the question with the help of the passages. {' '.join(entries)} {asked}"


_OWN = ("question", "documents")
_RANK = "rank"


@dataclass(frozen=True)
class Template(Prompt):
    """A template with ``{question}`` and, unless it is closed-book, ``{documents}``.

    Args:
        template: the prompt; ``{question}`` must be in it, ``{documents}`` may.
        document: one document; its names are columns of the frame, ``{rank}`` is the 1-based
            rank. When room is short, the value of the last name is what is cut.
        joiner: what stands between two documents.

    Braces are written twice, as in `str.format`; formats (``{x:.2f}``) and attributes are refused.
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
            if name not in _OWN:
                raise ParameterError(
                    f"the template knows {{question}} and {{documents}}; found {{{name}}}"
                    f"{suggestion(name, _OWN)}"
                )
        if "question" not in names:
            raise ParameterError(f"the template must contain {{question}}; found {self.template!r}")
        if "documents" in names and not self._document_names:
            raise ParameterError(
                f"document must contain a column name like {{text}}; found {self.document!r}"
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
        """Return the document's entry, split around the value of its last column."""
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
        raise ParameterError(f"{what} cannot be read: {error}; found {text!r}") from None
    names = [name for _, name, _, _ in parts if name is not None]
    plain = all(not spec and not conversion for _, _, spec, conversion in parts)
    for name in names:
        if not name.isidentifier() or not plain:
            raise ParameterError(
                f"{what} takes plain names in braces like {{text}}, without formats, numbers or "
                f"attributes; found {text!r}"
            )
    return names


def get(name: str, **options: Any) -> PromptBuilder:
    """Return the prompt builder of a name.

    Args:
        name: ``"lamp-1"`` to ``"lamp-7"``, ``"rag"``, ``"template"``, or a plugin's.
        **options: the builder's options, e.g. ``truncate="fair-rag"`` for the LaMP prompts.

    Raises:
        NotFoundError: no such prompt; the nearest name is suggested.
        ParameterError: the prompt has no such option, needs one more, or refuses the value.
    """
    factory = registry.prompts.load(name)
    parameters = refuse_unknown_options(f"the prompt {name!r}", factory, options)
    needed = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    missing = [parameter for parameter in needed if parameter not in options]
    if missing:
        raise ParameterError(
            f"the prompt {name!r} needs the option {missing[0]!r}: "
            f"fairtk.prompts.get({name!r}, {missing[0]}=...)"
        )
    builder: PromptBuilder = factory(**options)
    return builder


def as_builder(prompt: str | PromptBuilder) -> PromptBuilder:
    """Return a builder for a name, or the given builder after a look at its interface.

    Raises:
        ParameterError: the object is neither a name nor a builder.
    """
    if isinstance(prompt, str):
        return get(prompt)
    if isinstance(prompt, type) or not callable(prompt) or not hasattr(prompt, "fields"):
        raise ParameterError(
            "prompt must be a name (fairtk.prompts.get) or an object with `fields` that is called "
            f"with (question, documents, tokenizer); found {prompt!r}"
        )
    return prompt
