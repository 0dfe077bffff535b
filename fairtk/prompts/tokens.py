"""Counting and cutting text in a model's tokens."""

from __future__ import annotations

from typing import Any, Protocol

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
