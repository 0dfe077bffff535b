"""Tokenizers of language models: the window of a prompt, and counts of tokens."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

UNLIMITED = 10**30
"""The ``model_max_length`` of Hugging Face tokenizers that have no limit."""

MAX_CACHED = 2**24
"""The maximum number of cached tokens: about fifty thousand prompts, in 64 MB."""


def declared_window(tokenizer: Any) -> int | None:
    """Return a Hugging Face tokenizer's ``model_max_length``, `None` if it has no limit."""
    window = getattr(tokenizer, "model_max_length", None)
    return None if window is None or window >= 10**9 else int(window)


class PromptTokenizer:
    """A Hugging Face tokenizer with the model's window, special tokens included.

    The wrapped tokenizer is not changed, and does not warn about long texts. The tokens of a
    prompt that was counted are cached for its generation.
    """

    def __init__(self, tokenizer: Any, model_max_length: int) -> None:
        self.wrapped = tokenizer
        self.model_max_length = model_max_length
        self._quiet = {"verbose": False} if hasattr(tokenizer, "backend_tokenizer") else {}
        self._known: dict[str, array[int]] = {}
        self._n_cached = 0

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens."""
        tokens: list[str] = self.wrapped.tokenize(text, **self._quiet)
        return tokens

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, special tokens included, never truncated."""
        # one by one: a text's tokens do not depend on the others
        return [list(self._ids(text)) for text in texts]

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special tokens."""
        if not self._quiet:  # such a tokenizer may have no other method
            return len(self.tokenize(text))
        return len(self._ids(text)) - self.num_special_tokens_to_add()

    def unknown_share(self, text: str) -> float:
        """Return the share of a text's tokens that are the unknown token."""
        if not self._quiet:  # as in `count`
            return 0.0
        ids, unknown = self._ids(text), self.wrapped.unk_token_id  # or `None`
        return ids.count(unknown) / max(1, len(ids) - self.num_special_tokens_to_add())

    def _ids(self, text: str) -> array[int]:
        ids = self._known.get(text)
        if ids is None:
            ids = self._known[text] = array("i", self._encoded(text))
            self._n_cached += len(ids)
            while self._n_cached > MAX_CACHED:  # the oldest first
                self._n_cached -= len(self._known.pop(next(iter(self._known))))
        return ids

    def _encoded(self, text: str) -> list[int]:
        # The first call turns off truncation and padding in the fast tokenizer. From then on it is
        # called directly: it gives the same ids in two thirds of the time, as it skips offsets.
        fast = getattr(self.wrapped, "backend_tokenizer", None)
        if fast is not None and fast.truncation is None and fast.padding is None:
            ids: list[int] = fast.encode_batch_fast([text])[0].ids
            return ids
        # not every tokenizer supports return_token_type_ids=False: take only the ids
        encoded = self.wrapped(text, truncation=False, padding=False, verbose=False)
        return list(encoded["input_ids"])

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """Return the text of tokens."""
        text: str = self.wrapped.convert_tokens_to_string(tokens)
        return text

    def num_special_tokens_to_add(self) -> int:
        """Return the number of special tokens around a prompt."""
        special = getattr(self.wrapped, "num_special_tokens_to_add", None)
        return int(special()) if callable(special) else 0
