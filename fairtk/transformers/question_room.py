"""A warning for questions that crowd the documents out of a prompt, or do not fit themselves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from fairtk.errors import DataWarning
from fairtk.prompts.truncation import SHORTEST_ENTRY


def warn_of_long_questions(
    where: str, prompt: Any, tokenizer: Any, qids: Sequence[str], questions: Sequence[str]
) -> None:
    """Warn once, with numbers and the first qid, if questions are cut or leave no room.

    A prompt builder without a method ``room`` is not looked at. Queries may repeat.
    """
    measure = getattr(prompt, "room", None)
    if tokenizer is None or measure is None:
        return
    cut: list[str] = []
    full: list[str] = []
    for qid, question in dict(zip(qids, questions, strict=True)).items():
        room = measure(str(question), tokenizer)
        if room is None:
            return
        if room < 0:
            cut.append(qid)
        elif room < SHORTEST_ENTRY:
            full.append(qid)
    for found, what in (
        (cut, "are longer than the model's window and are cut at their end"),
        (full, "fill the model's window and leave no room for documents"),
    ):
        if found:
            warnings.warn(
                f"{where}: the questions of {len(found)} queries {what} (first: qid "
                f"{found[0]!r}); their answers cannot depend on the ranking; use a model with a "
                "longer window or a larger max_prompt_tokens",
                DataWarning,
                stacklevel=5,
            )
