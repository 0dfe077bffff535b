"""A plain RAG prompt: numbered passages, then the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairtk.prompts.builder import Prompt
from fairtk.prompts.truncation import Entry


class Rag(Prompt):
    """Passages from the column ``text``, then the question.

    One line, since T5's vocabulary has no line break. Without documents the passages and the
    words about them are left out.
    """

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
