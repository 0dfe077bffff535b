"""Answers of models: in the store's ledger, or in memory for a run that keeps nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairtk.frames import digest
from fairtk.llm import Completion, made_row
from fairtk.llm.rows import as_json
from fairtk.llm.store import AnswerStore


@dataclass(frozen=True)
class Asker:
    """A generation backend as a ledger knows it: by its content and the threads it used."""

    key: str  # the digest of its identity, or a number within this run
    name: str
    parameters: dict[str, Any]
    elsewhere: bool = False  # its answers are kept in a ledger of the user's


class Answers:
    """Answers by model and prompt; the first that is kept stays. Without a file they are in
    memory.
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
            name, parameters = asker.name, as_json(asker.parameters)
            self._ledger.put_many(
                [
                    made_row(key, name, parameters, as_json(_chat(p)), Completion(texts[p]))
                    for key, p in keyed.items()
                ]
            )

    def close(self) -> None:
        """Close the file."""
        if self._ledger is not None:
            self._ledger.close()


def _key(asker: Asker, prompt: str) -> str:
    """Return what a ledger knows a call by."""
    return digest([asker.name, asker.parameters, _chat(prompt), {}], 16)


def _chat(prompt: str) -> list[list[str]]:
    return [["user", prompt]]
