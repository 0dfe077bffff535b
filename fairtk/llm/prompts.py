"""Truncation: by default documents give way and the question stays, else as published.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from fairtk.errors import InputError
from fairtk.prompts.tokens import UNLIMITED, count, trim, window

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
    for kept in range(len(entries), 0, -1):
        # Tokens do not add up exactly where texts meet, so the joined prompt is counted again,
        # and the room shrinks by what it has too much.
        room = limit - count(prompt.join(question, [""] * kept), tokenizer)
        while room > 0:
            shares = divide(demands[:kept], room)
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
