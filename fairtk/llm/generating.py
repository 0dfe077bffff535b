"""Chat models where a generation backend is wanted, as in `fairtk.Generator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairtk.backends import NoAnswerError
from fairtk.frames.content import ByContent
from fairtk.llm.chat import Chat, ChatModel, Completion, Message


class ChatBackend(ByContent):
    """A chat model as a `fairtk.backends.Backend`: a prompt is the user's only message.

    What was cut off, refused or withheld is an answer like any other: what the model said.

    Args:
        model: the model, or one behind a ledger: its budget, prices and records count.
    """

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self._given: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer; None: prompts are never cut."""
        return self.model.tokenizer

    def digest(self) -> str:
        """Return the model's digest."""
        return self.model.digest()

    def __repr__(self) -> str:
        return repr(self.model)

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Return one answer per prompt, in order; each distinct prompt is asked once.

        Raises:
            NoAnswerError: a call failed; the answers of the others are kept for the next time.
            LLMError, BudgetError, OfflineError: the model cannot be asked.
        """
        given = self._given
        asked = [prompt for prompt in dict.fromkeys(prompts) if prompt not in given]
        outcomes = self.model.complete(Chat((Message("user", prompt),)) for prompt in asked)
        lost: dict[str, str] = {}
        for prompt, outcome in zip(asked, outcomes, strict=True):
            if not isinstance(outcome, Completion):
                lost[prompt] = outcome.reason
            elif outcome.finish == "unreadable":
                lost[prompt] = "what the server sent is no text"
            else:
                given[prompt] = outcome.text.strip()
        if lost:
            first = next(index for index, prompt in enumerate(prompts) if prompt in lost)
            raise NoAnswerError(
                f"{len(lost)} of {len(set(prompts))} prompts have no answer, the first: "
                f"{lost[prompts[first]]}; run again to ask for these alone",
                first,
            )
        answers = [given[prompt] for prompt in prompts]
        given.clear()
        return answers

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "_given": {}}
