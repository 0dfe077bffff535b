"""Answers of models, kept in the store's ledger: of generators, and of models within stages."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyterrier._ops import Compose

from fairtk.experiment.identity import Identified
from fairtk.frames import digests
from fairtk.llm import ChatBackend, ChatModel, Completion, Ledger, Recorded, made_row
from fairtk.llm.rows import as_json
from fairtk.llm.store import AnswerStore
from fairtk.transformers.base import FairTransformer


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
        if self._ledger is not None:
            weakref.finalize(self, self._ledger.close)  # with the last who holds them
        self._memory: dict[str, str] = {}

    def get(self, asker: Asker, prompts: Iterable[str]) -> dict[str, str]:
        """Return the answers that are there, by prompt."""
        keys = _by_key(asker, list(prompts))
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
        keyed = _by_key(asker, list(texts))
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


def _by_key(asker: Asker, prompts: list[str]) -> dict[str, str]:
    """Return the prompts by what a ledger knows their calls by."""
    calls: list[tuple[Any, ...]] = [(_chat(prompt), {}) for prompt in prompts]
    keys = digests([asker.name, asker.parameters], calls, 16)
    return dict(zip(keys, prompts, strict=True))


def _chat(prompt: str) -> list[list[str]]:
    return [["user", prompt]]


class Recording:
    """Puts models behind the store's ledger; whoever asks writes there, also a worker.

    A model that the user has put behind a ledger keeps that one, and rules that stand in for a
    model need none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self.path)

    def behind(self, value: Any) -> Any:
        """Return a stage or backend, or a copy of it in which all models are recorded.

        Models stand in settings of fairtk's transformers, and these within others and pipelines.
        """
        if isinstance(value, ChatModel):
            own = value.free or isinstance(value, Recorded)
            return value if own else self._ledger.wrap(value)
        if isinstance(value, ChatBackend):
            model = self.behind(value.model)
            return value if model is value.model else ChatBackend(model)
        if isinstance(value, list | tuple):
            parts = [self.behind(part) for part in value]
            same = all(new is old for new, old in zip(parts, value, strict=True))
            return value if same else type(value)(parts)
        names: Iterable[str] = ()
        if isinstance(value, FairTransformer):
            names = value.SETTINGS
        elif isinstance(value, Compose):
            names = ("_transformers",)
        elif isinstance(value, Identified):
            names = ("transformer",)
        found = {name: self.behind(getattr(value, name)) for name in names}
        found = {name: new for name, new in found.items() if new is not getattr(value, name)}
        if found:
            value = copy.copy(value)
            for name, new in found.items():
                setattr(value, name, new)
        return value
