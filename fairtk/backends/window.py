"""A tokenizer as prompt builders see it, with a window of its own."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

UNLIMITED = 10**30
"""The window of a model without one, as Hugging Face tokenizers write it."""

REMEMBERED = 2**24
"""The most tokens that are remembered: of some fifty thousand prompts, in 64 MB."""


def declared_window(tokenizer: Any) -> int | None:
    """Return a Hugging Face tokenizer's ``model_max_length``, or None if it has none."""
    found = getattr(tokenizer, "model_max_length", None)
    return None if found is None or found >= 10**9 else int(found)


class PromptTokenizer:
    """Counts like the wrapped Hugging Face tokenizer, but with the backend's window.

    The wrapped tokenizer is not changed, and does not warn about texts that are counted only to
    be cut. What was counted to fit a prompt is remembered for when it is generated from. The
    window counts special tokens, too.
    """

    def __init__(self, tokenizer: Any, model_max_length: int) -> None:
        self.wrapped = tokenizer
        self.model_max_length = model_max_length
        self._quiet = {"verbose": False} if hasattr(tokenizer, "backend_tokenizer") else {}
        self._known: dict[str, array[int]] = {}
        self._remembered = 0

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens."""
        tokens: list[str] = self.wrapped.tokenize(text, **self._quiet)
        return tokens

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, special tokens included, never cut."""
        # each alone: a text's tokens do not depend on others
        return [list(self._ids(text)) for text in texts]

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special tokens."""
        if not self._quiet:  # may do no more than tokenize
            return len(self.tokenize(text))
        return len(self._ids(text)) - self.num_special_tokens_to_add()

    def _ids(self, text: str) -> array[int]:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = array("i", self._encoded(text))
            self._remembered += len(found)
            while self._remembered > REMEMBERED:  # the oldest goes first
                self._remembered -= len(self._known.pop(next(iter(self._known))))
        return found

    def _encoded(self, text: str) -> list[int]:
        # A call leaves the tokenizer below without truncation and padding. From then on that one
        # is asked, which gives the same ids in two thirds of the time: it skips offsets.
        below = getattr(self.wrapped, "backend_tokenizer", None)
        if below is not None and below.truncation is None and below.padding is None:
            ids: list[int] = below.encode_batch_fast([text])[0].ids
            return ids
        # return_token_type_ids=False is not enough for every tokenizer: only the ids are taken
        encoded = self.wrapped(text, truncation=False, padding=False, verbose=False)
        return list(encoded["input_ids"])

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the text of tokens."""
        text: str = self.wrapped.convert_tokens_to_string(tokens)
        return text

    def num_special_tokens_to_add(self) -> int:
        """Return how many special tokens are put around a prompt."""
        special = getattr(self.wrapped, "num_special_tokens_to_add", None)
        return int(special()) if callable(special) else 0


def longer_than(
    tokenizer: PromptTokenizer, positions: int | None, prompts: list[list[int]]
) -> list[int]:
    """Return which prompts, token ids with special ones, are longer than a model takes.

    `positions` are the absolute positions of the model; None where they are relative.
    """
    # The published code cuts prompts at the window and puts T5's </s> behind that.
    special = tokenizer.num_special_tokens_to_add()
    spare = special if positions is None else positions - tokenizer.model_max_length
    limit = tokenizer.model_max_length + max(0, min(special, spare))
    return [number for number, row in enumerate(prompts) if len(row) > limit]
