"""A tokenizer as prompt builders see it, with a window of its own."""

from __future__ import annotations

from typing import Any

UNLIMITED = 10**30
"""The window of a model without one, as Hugging Face tokenizers write it."""


def declared_window(tokenizer: Any) -> int | None:
    """Return a Hugging Face tokenizer's ``model_max_length``, or None if it has none."""
    found = getattr(tokenizer, "model_max_length", None)
    return None if found is None or found >= 10**9 else int(found)


class PromptTokenizer:
    """Counts like the wrapped Hugging Face tokenizer, but with the backend's window.

    The wrapped tokenizer is not changed, and does not warn about texts that are counted only to
    be cut.

    Args:
        tokenizer: the tokenizer.
        model_max_length: the tokens, special ones included, that a prompt may have.
    """

    def __init__(self, tokenizer: Any, model_max_length: int) -> None:
        self.wrapped = tokenizer
        self.model_max_length = model_max_length
        self._quiet = {"verbose": False} if hasattr(tokenizer, "backend_tokenizer") else {}

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens."""
        tokens: list[str] = self.wrapped.tokenize(text, **self._quiet)
        return tokens

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
    """Return which prompts are longer than a model takes.

    Args:
        tokenizer: the tokenizer, with the window.
        positions: absolute positions of the model; None where they are relative.
        prompts: the token ids of prompts, special ones included.
    """
    # The published code cuts prompts at the window and puts T5's </s> behind that.
    special = tokenizer.num_special_tokens_to_add()
    spare = special if positions is None else positions - tokenizer.model_max_length
    limit = tokenizer.model_max_length + max(0, min(special, spare))
    return [number for number, row in enumerate(prompts) if len(row) > limit]
