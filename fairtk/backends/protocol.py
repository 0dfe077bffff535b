"""What a generation backend is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fairtk.errors import FairtkError, InputError


class Backend(Protocol):
    """Turns prompts into answers.

    `generate` must be deterministic, give one answer per prompt in the order of the prompts, and
    may be called with repeated prompts. A backend that is printed with all its settings makes
    transformers that use it comparable.
    """

    @property
    def name(self) -> str:
        """A short name for messages, e.g. the model's."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that prompts are measured by, or None when prompts are never cut."""

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order."""


class PromptLengthError(InputError):
    """A prompt is longer than the model takes.

    Attributes:
        index: the place of the (first such) prompt in the list that `Backend.generate` got.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class NoAnswerError(FairtkError):
    """The call for one of several prompts failed.

    Attributes:
        index: the place of the first such prompt.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index
