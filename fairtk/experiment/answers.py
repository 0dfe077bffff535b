"""Answers of models: in the store's ledger, or in memory for a run that keeps nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fairtk.frames import digest
from fairtk.llm import Chat, ChatModel, Completion, Message
from fairtk.llm.chat import Outcome
from fairtk.llm.rows import answer_row
from fairtk.llm.store import AnswerStore


class Asker(ChatModel):
    """A generation backend as a ledger knows it: by its content and the threads it used.

    Args:
        key: the digest of the backend's identity, or a number within this run.
        name: the model's name.
        parameters: what else a ledger knows its answers by.
        elsewhere: whether its answers are kept in a ledger of the user's.
    """

    free = True

    def __init__(
        self, key: str, name: str, parameters: dict[str, Any], elsewhere: bool = False
    ) -> None:
        self.key = key
        self.elsewhere = elsewhere
        self._name = name
        self._parameters = parameters

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    def parameters(self) -> dict[str, Any]:
        """Return what else a ledger knows its answers by."""
        return self._parameters

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Raise: workers generate, and this only stands for what they generate with."""
        raise NotImplementedError("an experiment's workers generate")


class Answers:
    """Answers by model and prompt; the first that is kept stays.

    Args:
        path: the store's file, whose answers table is a ledger; None: memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._ledger = None if path is None else AnswerStore(path)
        self._memory: dict[str, str] = {}

    def get(self, asker: Asker, prompts: Iterable[str]) -> dict[str, str]:
        """Return the answers that are there, by prompt."""
        keys = {_key(asker, prompt): prompt for prompt in prompts}
        if self._ledger is None or asker.elsewhere:
            return {
                prompt: self._memory[key] for key, prompt in keys.items() if key in self._memory
            }
        # stripped, as a backend gives them: a language model's are kept as they came
        return {
            keys[key]: answer.text.strip()
            for key, answer in self._ledger.get(keys).items()
            if answer.finish != "unreadable"
        }

    def put(self, asker: Asker, texts: Mapping[str, str]) -> None:
        """Keep answers, all or none; what a worker has paid for is there already, and stays."""
        keyed = {_key(asker, prompt): prompt for prompt in texts}
        if self._ledger is None or asker.elsewhere:
            for key, prompt in keyed.items():
                self._memory.setdefault(key, texts[prompt])
        else:
            self._ledger.put_many(
                [
                    answer_row(key, asker, _chat(prompt), Completion(texts[prompt]))
                    for key, prompt in keyed.items()
                ]
            )

    def close(self) -> None:
        """Close the file."""
        if self._ledger is not None:
            self._ledger.close()


def _key(asker: Asker, prompt: str) -> str:
    """Return what a ledger knows a call by."""
    messages = [list(message) for message in _chat(prompt).messages]
    return digest([asker.name, asker.parameters(), messages, {}], 16)


def _chat(prompt: str) -> Chat:
    return Chat((Message("user", prompt),))
