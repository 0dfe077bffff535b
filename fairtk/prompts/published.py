"""The truncation of the published Fair-RAG code, for reproducing its prompts exactly.

The question is cut to its first 256 tokens; each of the k entries gets
``(model_max_length - tokens(question)) // k`` tokens and is cut at its end, whatever stands there;
the joined prompt is cut at ``model_max_length``. The joining words are in no budget, so a long
prompt loses the end of its question. Where that code raises:

- no document (it divides by zero): the prompt is the question, cut to 256 tokens;
- a LaMP-1 question whose words "which reference is related?" were cut off (an index error):
  `fairtk.errors.InputError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fairtk.errors import InputError
from fairtk.prompts.tokens import UNLIMITED, count, trim

if TYPE_CHECKING:
    from fairtk.prompts.builder import Prompt
    from fairtk.prompts.truncation import Entry

QUESTION_TOKENS = 256
"""The published code's bound on the question."""


class Published(NamedTuple):
    """The published code's prompt, before and after its last cut."""

    aggregated: str
    final: str


def fair_rag(prompt: Prompt, question: str, entries: Sequence[Entry], tokenizer: Any) -> Published:
    """Return the prompt as the published code builds it; ``model_max_length`` is the window."""
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
